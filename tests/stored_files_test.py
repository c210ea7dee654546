"""Whatever is in a stored file, loading it gives its value or one line that says what is wrong, in bounded memory."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numjax import build
from numjax.bundled import data
from numjax.bundled.configs import numgpt
from numjax.config import blocks, fit, origin
from numjax.errors import DataError, UsageError
from numjax.evals import tuned
from numjax.pretrained import bert, gpt2, seq2seq, weights
from numjax.runtime import files, log
from numjax.tasks import answer_scoring, span_answer, student_action, tabfact, table_text, transactions
from numjax.text import vocab
from numjax.text.document import parse
from numjax.text.vocab import bytebpe, symbols
from numjax.text.vocab.base import digest
from tests import damage
from tests.conftest import ROOT

FIXTURES = ROOT / "tests" / "fixtures"
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="numjax-stored-"))


@pytest.fixture(autouse=True, scope="module")
def folder():
    FOLDER.mkdir(exist_ok=True)
    yield FOLDER
    shutil.rmtree(FOLDER, ignore_errors=True)


def examples(count: int):
    """The same examples in every run."""
    checks = [HealthCheck.too_slow, HealthCheck.large_base_example, HealthCheck.data_too_large]
    return settings(
        max_examples=count, derandomize=True, database=None, deadline=None, suppress_health_check=checks
    )  # fmt: skip


@contextlib.contextmanager
def one_line():
    """Lets an error pass whose message is one line."""
    try:
        yield
    except (UsageError, DataError) as error:
        assert str(error) and "\n" not in str(error), error


# ---------------------------------------------------------------------------------------------------
# Safetensors.


def pack(header: object, body: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def unpack(name: str) -> tuple[dict, bytes]:
    content = (FIXTURES / f"{name}.safetensors").read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8 : 8 + size]), content[8 + size :]


HEADER, BODY = {
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "I64", "shape": [4], "data_offsets": [24, 56]},
}, bytes(56)  # fmt: skip
LYING = {
    "beyond the file": {"a": {"dtype": "F32", "shape": [100], "data_offsets": [0, 400]}},
    "overlapping": HEADER | {"b": {"dtype": "F32", "shape": [8], "data_offsets": [20, 52]}},
    "a gap": HEADER | {"b": {"dtype": "F32", "shape": [6], "data_offsets": [32, 56]}},
    "negative": {"a": {"dtype": "F32", "shape": [-2, 3], "data_offsets": [-24, 0]}},
    "backwards": {"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [24, 0]}},
    "huge": {"a": {"dtype": "F32", "shape": [2**40, 2**20], "data_offsets": [0, 2**62]}},
    "huge by zero": {"a": {"dtype": "F32", "shape": [2**40, 0, 2**40], "data_offsets": [0, 0]}},
    "another size": {"a": {"dtype": "F64", "shape": [2, 3], "data_offsets": [0, 24]}},
    "no type": {"a": {"dtype": "F31", "shape": [2, 3], "data_offsets": [0, 24]}},
    "a type without numbers in NumPy": {"a": {"dtype": "F8_E4M3", "shape": [56], "data_offsets": [0, 56]}},
    "no object": [1],
}


@pytest.mark.parametrize("header", LYING.values(), ids=LYING)
def test_a_header_that_lies_is_named(header):
    path = FOLDER / "lying.safetensors"
    path.write_bytes(pack(header, BODY))
    with pytest.raises(UsageError, match=r"lying\.safetensors cannot be read as safetensors: .") as caught:
        weights.load_tensors(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_claims_a_long_header_or_is_no_file_is_named(tmp_path):
    path = tmp_path / "model.safetensors"
    for content in (b"", b"\0" * 7, struct.pack("<Q", 2**63) + b"{}", struct.pack("<Q", 10**8), pack(b"[" * 99, b"")):
        path.write_bytes(content)
        with pytest.raises(UsageError, match="cannot be read as safetensors"):
            weights.load_tensors(tmp_path)
    path.unlink()
    os.mkfifo(path)  # opening a pipe would wait for ever
    with pytest.raises(UsageError, match="is no file"):
        weights.load_tensors(path)


@examples(150)
@given(damage.contents(pack(HEADER, BODY)) | damage.json_values(HEADER).map(lambda header: pack(header, BODY)))
def test_damaged_safetensors_are_tensors_or_one_line(content):
    path = FOLDER / "damaged.safetensors"
    path.write_bytes(content)
    with one_line():
        assert all(
            isinstance(x, np.ndarray) and x.nbytes <= len(content) for x in weights.load_tensors(path).values()
        )


FAMILIES = {"gpt2": gpt2, "bert": bert, "roberta": bert, "t5": seq2seq, "bart": seq2seq, "flan": seq2seq}


@pytest.mark.parametrize("name", FAMILIES)
def test_weights_of_other_shapes_or_types_are_one_line(name):
    header, body = unpack(name)
    header.pop("__metadata__", None)
    path = FOLDER / "other.safetensors"

    @examples(60)
    @given(st.sampled_from(sorted(header)), st.sampled_from(["shape", "flat", "dtype", "scalar", "gone"]), st.data())
    def check(tensor, lie, drawn):
        entry = dict(header[tensor])
        start, end = entry["data_offsets"]
        changed = {key: dict(value) for key, value in header.items()}
        if lie == "shape":
            changed[tensor]["shape"] = drawn.draw(st.permutations([*entry["shape"], 1]))
        elif lie == "flat":
            changed[tensor]["shape"] = [(end - start) // 4]
        elif lie == "dtype":
            changed[tensor]["dtype"] = "I32"
        else:
            del changed[tensor]
            changed[f"{tensor}.old"] = entry
            if lie == "scalar":
                changed[tensor] = {"dtype": "F32", "shape": [], "data_offsets": [len(body), len(body) + 4]}
        path.write_bytes(pack(changed, body + bytes(4 * (lie == "scalar"))))
        with one_line():
            FAMILIES[name].read_params(path, 2)

    check()


def shard(folder: pathlib.Path, weight_map: object) -> pathlib.Path:
    """A folder of two shards with an index."""
    folder.mkdir(exist_ok=True)
    (folder / "one.safetensors").write_bytes(pack({"a": HEADER["a"]}, bytes(24)))
    (folder / "two.safetensors").write_bytes(pack({"b": HEADER["a"], "c": HEADER["b"]}, bytes(56)))
    (folder / weights.INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder


def test_shards_are_the_file(tmp_path):
    whole = FIXTURES / "gpt2.safetensors"
    tensors = weights.load_tensors(whole)
    names = sorted(tensors)
    for shard_name, chosen in (("one.safetensors", names[::2]), ("two.safetensors", names[1::2])):
        weights.save_tensors(tmp_path / shard_name, {name: tensors[name] for name in chosen})
    weight_map = dict.fromkeys(names[::2], "one.safetensors") | dict.fromkeys(names[1::2], "two.safetensors")
    assert not weights.has_weights(tmp_path)
    (tmp_path / weights.INDEX).write_text(json.dumps({"weight_map": weight_map}))
    assert weights.has_weights(tmp_path)
    loaded = weights.load_tensors(tmp_path)
    assert loaded.keys() == tensors.keys()
    for name, x in tensors.items():
        np.testing.assert_array_equal(loaded[name], x)


@pytest.mark.parametrize(
    "name", ["../x.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", ".", 3, None, "a\0b"]
)
def test_an_index_that_leads_out_of_its_folder_is_refused(name, tmp_path):
    folder = shard(tmp_path / "inside", {"a": name})
    (tmp_path / "x.safetensors").write_bytes(pack({"a": HEADER["a"]}, bytes(24)))
    with pytest.raises(UsageError, match="is not the name of a file in the same folder"):
        weights.load_tensors(folder)


@pytest.mark.parametrize(
    ("weight_map", "says"),
    [
        ({"a": "two.safetensors"}, "two.safetensors has no tensor 'a'"),
        ({"a": "three.safetensors"}, "three.safetensors is not there"),
        ([1], "is no index"),
        (None, "is no index"),
    ],
)
def test_an_index_that_lies_is_named(weight_map, says, tmp_path):
    with pytest.raises(UsageError, match=says):
        weights.load_tensors(shard(tmp_path / "shards", weight_map))


@examples(80)
@given(
    damage.json_files({"metadata": {"total_size": 1}, "weight_map": {"a": "one.safetensors", "c": "two.safetensors"}})
)
def test_a_damaged_index_is_tensors_or_one_line(content):
    folder = shard(FOLDER / "shards", {})
    (folder / weights.INDEX).write_bytes(content)
    with one_line():
        weights.load_tensors(folder)


BOMB = """
import pathlib, resource, sys
from numjax.errors import UsageError
from numjax.pretrained import weights
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (256 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.safetensors")):
    try:
        weights.load_tensors(path)
    except UsageError as error:
        assert "emory" not in str(error), error
        print(path.name)
"""


def test_lies_about_sizes_take_no_memory(tmp_path):
    """In a process that may take 256 MiB more than it has."""
    for number, header in enumerate(LYING.values()):
        (tmp_path / f"{number:02}.safetensors").write_bytes(pack(header, BODY))
    (tmp_path / "99.safetensors").write_bytes(struct.pack("<Q", 99_000_000) + b"[" * 100)
    done = subprocess.run(
        [sys.executable, "-c", BOMB, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-1000:]
    assert len(done.stdout.split()) == len(LYING) + 1


# ---------------------------------------------------------------------------------------------------
# Vocabularies.

LINES = [f"the {i} of {i * 7} numbers, {i}.5%" for i in range(200)]
ROWS = [json.dumps([f"c{i % 3}", str(i * 60), str(i - 9.5)]) for i in range(40)]


def make_vocabularies() -> dict[str, Any]:
    stand_ins = bytebpe._byte_of_character()
    table = {c: i for i, c in enumerate([*stand_ins, "th", "the"])}
    folder = FOLDER / "bpe"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(table))
    (folder / "merges.txt").write_text("#version: 0.2\nt h\nth e\n")
    columns = {"columns": ("kind", "when", "how much"), "times": ("when",), "amounts": ("how much",), "bins": 3}
    return {
        "sentencepiece": vocab.build({"name": "sentencepiece", "size": 340}, LINES),
        "gpt2": vocab.build({"name": "gpt2", "path": str(folder)}),
        "wordpiece": vocab.build({"name": "wordpiece", "size": 200}, LINES, ["[A]"]),
        "cells": vocab.build({"name": "cells", **columns}, ROWS),
    }


VOCABULARIES = make_vocabularies()


def store(name: str, contents: dict[str, bytes], changes: dict | None = None) -> str:
    """A folder of a vocabulary's files with a digest that fits; `changes` are of its JSON."""
    folder = FOLDER / f"stored-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    metadata = {"kind": VOCABULARIES[name].kind, "marks": ["[PAD]"], "files": list(contents), "base": 3} | (
        changes or {}
    )
    for file, content in contents.items():
        (folder / file).write_bytes(content)
    (folder / vocab.FILE).write_text(json.dumps(metadata | {"digest": digest(metadata, list(contents.values()))}))
    return str(folder)


@pytest.mark.parametrize("name", VOCABULARIES)
def test_damaged_files_of_a_vocabulary_are_a_vocabulary_or_one_line(name):
    whole = dict(VOCABULARIES[name]._files())

    def damaged(content: bytes) -> st.SearchStrategy[bytes]:
        try:
            return damage.json_files(json.loads(content))
        except ValueError:
            return damage.contents(content)

    choices = [damaged(content).map(lambda c, f=file: whole | {f: c}) for file, content in whole.items()]

    @examples(150)
    @given(st.one_of(choices))
    def check(contents):
        with one_line():
            loaded: Any = vocab.load(store(name, contents))
            if name != "cells":
                loaded.decode(loaded.encode("the 3.5 of ⟨x⟩"))
                loaded.cover("the 3.5%")
            else:
                for column in range(len(loaded.columns)):
                    loaded.token(column, "3.5")
            assert len(loaded.number_values) == loaded.size

    check()


@examples(120)
@given(
    damage.json_files({"kind": "cells", "marks": ["[PAD]", "[A]"], "files": ["cells.json"], "base": 9, "digest": "x"})
)
def test_a_damaged_json_of_a_vocabulary_is_one_line(content):
    folder = store("cells", dict(VOCABULARIES["cells"]._files()))
    pathlib.Path(folder, vocab.FILE).write_bytes(content)
    with pytest.raises(UsageError) as caught:
        vocab.load(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("file", ["../secret.json", "/etc/passwd", "..", "", 3])
def test_a_vocabulary_opens_no_file_outside_its_folder(file):
    (FOLDER / "secret.json").write_bytes(VOCABULARIES["cells"]._files()["cells.json"])
    folder = store("cells", dict(VOCABULARIES["cells"]._files()), {"files": [file]})
    with pytest.raises(UsageError, match=r"is not the name of a file in the same folder|no lists of names"):
        vocab.load(folder)


def test_a_vocabulary_waits_for_no_pipe_and_opens_no_device():
    folder = pathlib.Path(store("cells", dict(VOCABULARIES["cells"]._files())))
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        (folder / "cells.json").unlink()
        make(folder / "cells.json")
        with pytest.raises(UsageError, match=r"cells\.json is no file"):
            vocab.load(str(folder))


@examples(60)
@given(damage.json_files({"V": {"x": 3, "y": 1}, "N": {"12": 2}}))
def test_damaged_counts_of_symbols_are_counts_or_one_line(content):
    (FOLDER / "vocab.json").write_bytes(content)
    with one_line():
        symbols.list_marks(symbols.load_counts(str(FOLDER / "vocab.json")))


# ---------------------------------------------------------------------------------------------------
# The JSON beside checkpoints.

CONFIG = json.loads(json.dumps(numgpt.get_config("smoke").to_dict()))


@examples(250)
@given(damage.json_values(CONFIG))
def test_a_config_with_lies_is_a_config_or_one_line(config):
    with one_line():
        files.write(FOLDER / "run" / origin.CONFIG_FILE, json.dumps(config))
        loaded = origin.get_config(FOLDER / "run")
        blocks.format_config(loaded)
        origin.check_scheme(loaded, FOLDER / "run")


@pytest.mark.parametrize(
    ("kind", "block", "says"),
    [
        ("backbone", {"name": "decoder", "width": "x"}, "width must be int, not 'x'"),
        ("backbone", {"name": "decoder", "layers": 2.5}, "layers must be int, not 2.5"),
        ("backbone", {"name": "decoder", "heads": True}, "heads must be int, not True"),
        ("backbone", {"name": "decoder", "scan": 1}, "scan must be bool, not 1"),
        ("backbone", {"name": "decoder", "norm": None}, "norm must be str, not None"),
        ("backbone", {"name": "decoder", "dropout": []}, r"dropout must be float, not \(\)"),
    ],
)
def test_an_option_of_another_type_is_named(kind, block, says):
    with pytest.raises(UsageError, match=f"{kind} 'decoder': {says}"):
        build.build(kind, block)


@pytest.mark.parametrize("path", fit.COUNTS)
def test_a_count_out_of_range_is_named(path):
    config = numgpt.get_config("smoke")
    least, most = fit.COUNTS[path]
    for count in (least - 1, -8, most + 1, 10**19):
        config.update_from_flattened_dict({path: count})
        with pytest.raises(UsageError, match=re.escape(f"config.{path}={count} must be from {least} to {most:,}")):
            fit.check(config, build.build("tasks", config.task))


@pytest.mark.parametrize(
    ("path", "values", "says"),
    [
        *((path, (-1.0, float("nan"), float("inf")), "must be a number from 0$") for path in fit.POSITIVE),
        *((f"optim.{name}", (-3, float("nan")), "must be a number from 0$") for name in ("epochs", "floor")),
        *((path, (-0.1, 1.0, 1.5, float("nan")), "must be a number from 0, below 1$") for path in fit.SHARES),
        ("optim.betas", ((), (0.9,), (0.9, 1.0), (-0.1, 0.9), (0.9, 0.95, 0.99)), "must be two numbers"),
        ("optim.rates", ((("(", 1.0),), (("a", "b"),), ((1.0, "a"),), (("a",),), (1,)), "is not a pair of a regular"),
        ("optim.weight_decays", ((("[", 1.0),),), "is not a pair of a regular"),
    ],
)
def test_a_number_out_of_range_is_named(path, values, says):
    for value in values:
        config, (block, _, name) = numgpt.get_config("smoke"), path.partition(".")
        with config.unlocked(), config.ignore_type():
            config[block][name] = value
        with pytest.raises(UsageError, match=f"^config.{path}[=:].*{says}"):
            fit.check(config, build.build("tasks", config.task))


@examples(60)
@given(damage.contents(json.dumps(CONFIG).encode()) | st.sampled_from(damage.TEXTS))
def test_a_damaged_config_is_a_config_or_one_line(content):
    (FOLDER / "run").mkdir(exist_ok=True)
    (FOLDER / "run" / origin.CONFIG_FILE).write_bytes(content)
    with one_line():
        origin.get_config(FOLDER / "run")


@examples(80)
@given(damage.json_files({"threshold": 0.5}))
def test_damaged_values_of_validation_and_metrics_are_one_line(content):
    class Task:
        tuned = ("threshold",)

    (FOLDER / tuned.FILE).write_bytes(content)
    with one_line():
        assert isinstance(tuned.load(FOLDER, Task)["threshold"], float)
    (FOLDER / "metrics.jsonl").write_bytes(content + b"\n" + json.dumps({"step": 3, "split": "train"}).encode())
    log.drop_later_lines(FOLDER / "metrics.jsonl", 2)


def test_a_line_without_its_end_is_a_line_of_its_own(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "split": "train"}\n{"step": 2, "split": "train"}')
    assert log.drop_later_lines(path, 2) == 0
    with path.open("a") as out:
        out.write('{"step": 3, "split": "train"}\n')
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2, 3]


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff", b'{"task": 3}', b'{"task": {"name": "statement"}}'])
def test_the_command_line_says_it_in_one_line(content, tmp_path):
    (tmp_path / origin.CONFIG_FILE).write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-m", "numjax.main", f"--workdir={tmp_path}", "--mode=eval"],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and str(tmp_path) in done.stderr, done.stderr


# ---------------------------------------------------------------------------------------------------
# JSON in the fields of records.


@pytest.mark.parametrize(
    ("read", "field"),
    [
        (span_answer._parse_answers, "answers"),
        (student_action._parse_steps, "history"),
        (answer_scoring._parse_examples, "examples"),
        (transactions.Task()._parse_rows, "rows"),
        (lambda record: table_text._parse_rows(record["table"]), "table"),
        (lambda record: tabfact.Task().example(record | {"id": "a", "statement": "x", "label": 1}, parse), "table"),
    ],
)
def test_a_field_of_json_is_its_value_or_one_line(read, field):
    @examples(60)
    @given(damage.json_files([["a", "1"], {"answer": "x", "grade": 3}, "b"]))
    def check(content):
        with one_line():
            read({field: content.decode("utf-8", "replace")})

    check()


# ---------------------------------------------------------------------------------------------------
# Datasets.


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    root = tmp_path_factory.mktemp("datasets")
    return root, data.load("mme", "train", root, size=80).folder


def load_all(root: pathlib.Path) -> None:
    for split in ("train", "validation", "test"):
        list(data.load("mme", split, root, size=80))
    assert all(isinstance(row["reason"], str) for row in data.load_skipped("mme", root, size=80))


def test_a_damaged_dataset_is_its_records_or_one_line(dataset):
    root, folder = dataset
    whole = {path.name: path.read_bytes() for path in folder.iterdir()} | {
        "skipped.jsonl": b'{"id": "a", "reason": "b"}\n'
    }
    choices = [
        (
            damage.json_files(json.loads(content)) if name.endswith((".json", ".jsonl")) else damage.contents(content)
        ).map(lambda c, n=name: (n, c))
        for name, content in whole.items()
    ]

    @examples(150)
    @given(st.one_of(choices))
    def check(changed):
        name, content = changed
        (folder / name).write_bytes(content)
        try:
            with one_line():
                load_all(root)
        finally:
            (folder / name).write_bytes(whole[name])

    check()


def test_a_dataset_opens_no_file_outside_its_folder(dataset):
    root, folder = dataset
    info = json.loads((folder / "dataset_info.json").read_text())
    template = info["splits"][0]["filepathTemplate"]
    for escape in ("../", str(folder.parent) + "/", "x/../"):
        for path in folder.glob("*.array_record*"):
            shutil.copy(path, folder.parent)
        lied = damage.replace(info, ("splits", 0, "filepathTemplate"), escape + template)
        (folder / "dataset_info.json").write_text(json.dumps(lied))
        with pytest.raises(DataError, match="is damaged"):
            load_all(root)
    (folder / "dataset_info.json").write_text(json.dumps(info))
    load_all(root)


def test_several_writers_may_write_one_file_at_the_same_time(tmp_path):
    contents = [letter * 200_000 for letter in "abcdefgh"]
    path = tmp_path / "folder" / "file.txt"

    def write_often(content: str) -> None:
        for _ in range(30):
            files.write(path, content)
            assert path.read_text() in contents, "a file is whole at any time"

    with concurrent.futures.ThreadPoolExecutor(len(contents)) as pool:
        list(pool.map(write_often, contents))
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_write_whose_pieces_fail_leaves_the_old_file_alone(tmp_path):
    def make_pieces():
        yield "half"
        raise DataError("a bad record")

    path = tmp_path / "file.txt"
    files.write(path, "old")
    with pytest.raises(DataError, match="a bad record"):
        files.write(path, make_pieces())
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
