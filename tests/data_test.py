"""The datasets: texts checked by independent arithmetic, good and bad files, processes that race."""

from __future__ import annotations

import ast
import collections
import contextlib
import hashlib
import json
import pathlib
import re
import signal
import subprocess
import sys
import time
from fractions import Fraction

import numpy as np
import pytest

from numjax.bundled import data
from numjax.bundled.data import build
from numjax.bundled.data.mme.generate import THINGS
from numjax.bundled.data.mwpas.generate import generate_records as mwpas_records
from numjax.bundled.data.problems.generate import generate_records as composed_records
from numjax.bundled.data.sampling import draw_unique_rows, log_uniform, split_by_hash
from numjax.errors import UsageError

ROOT = pathlib.Path(__file__).resolve().parents[1]
SPLITS = ("train", "validation", "test")
NUMBER = re.compile(r"\d+")
# The relation in a statement of GNC, and subtraction in a problem of MWPAS, by their wording.
LESS = re.compile(r"younger|shorter|lower|lighter|fewer|cheaper|nearer|slower|sooner|holds less")
MORE = re.compile(r"older|longer|higher|heavier|more inhabitants|dearer|farther|faster|holds more")
MINUS = re.compile(r"are left|survived|How many more|stayed|remain|in the second|still need|lack|after that\?$|grow")


def join(splits: dict[str, list[dict]]) -> list[dict]:
    return [record for records in splits.values() for record in records]


def digest(records: list[dict]) -> str:
    return hashlib.sha256(json.dumps(records, sort_keys=True).encode()).hexdigest()


# ---------------------------------------------------------------------------------------------------
# Sampling.


def test_log_uniform_logarithm_is_uniform():
    low, high, size = 3, 5000, 200_000
    sample = log_uniform(np.random.default_rng(0), low, high, size)
    assert sample.min() == low and sample.max() == high
    bins = np.array([3, 4, 5, 8, 20, 100, 700, 5001])
    expected = np.diff(np.log(bins)) / np.log((high + 1) / low)
    observed = np.histogram(sample, bins)[0] / size
    # Five standard errors of a share.
    assert np.all(np.abs(observed - expected) < 5 * np.sqrt(expected / size))


def test_log_uniform_hits_each_value_of_a_narrow_range():
    for value in (1, 7, 10**12):
        assert set(log_uniform(np.random.default_rng(1), value, value, 100).tolist()) == {value}
    assert set(log_uniform(np.random.default_rng(1), 9, 11, 500).tolist()) == {9, 10, 11}


def test_unique_rows_gives_each_row_once_and_refuses_what_does_not_fit():
    rng = np.random.default_rng(2)

    def draw(size: int) -> np.ndarray:
        value = rng.integers(10, size=size)
        return np.stack([value % 2, value], axis=1)

    rows = draw_unique_rows(draw, {0: 5, 1: 5}, "digits")
    assert sorted(rows[0][:, 0]) == [0, 2, 4, 6, 8] and sorted(rows[1][:, 0]) == [1, 3, 5, 7, 9]
    with pytest.raises(UsageError, match="digits"):
        draw_unique_rows(draw, {0: 6}, "digits")


def test_hashed_split_has_its_shares_and_depends_on_the_seed():
    texts = [f"text {i}" for i in range(20_000)]
    counts = collections.Counter(split_by_hash(text, 0, 0.08, 0.2) for text in texts)
    assert abs(counts["test"] / 20_000 - 0.2) < 0.015 and abs(counts["validation"] / 20_000 - 0.08) < 0.01
    assert any(split_by_hash(text, 0, 0.08, 0.2) != split_by_hash(text, 1, 0.08, 0.2) for text in texts[:100])


# ---------------------------------------------------------------------------------------------------
# The synthetic tasks.


def test_mme_of_the_papers_size(load_splits):
    splits = load_splits("mme")
    assert {name: len(records) for name, records in splits.items()} == dict(
        train=14_400, validation=1_600, test=4_000
    )
    records = join(splits)
    ranges = {thing.name: thing for thing in THINGS}
    assert len(ranges) == 20 and (ranges["eggs"].low, ranges["eggs"].high) == (35, 70)
    per_object = collections.Counter()
    triples, questions = set(), {0: collections.Counter(), 1: collections.Counter()}
    for record in records:
        k = int(NUMBER.search(record["question"]).group())
        thing = next(thing for name, thing in ranges.items() if name in record["question"])
        assert thing.unit in record["question"]
        low, high, answer = k * thing.low, k * thing.high, int(record["answer"])
        assert record["label"] == (low <= answer <= high)
        if not record["label"]:
            assert 0.01 * low <= answer < low or high < answer <= 100 * high
        assert (record["answer_min"], record["answer_max"]) == (low, high)
        per_object[thing.name, record["label"]] += 1
        triples.add((k, thing.name, answer))
        questions[record["label"]][record["question"]] += 1
    assert set(per_object.values()) == {500}
    assert len(triples) == 20_000
    # Every question has as many right as wrong answers, so it does not reveal the label.
    assert questions[0] == questions[1]
    eggs = [r for r in records if r["question"].startswith("How many grams are 2 eggs?")]
    assert eggs and all((r["answer_min"], r["answer_max"]) == (70, 140) for r in eggs)
    assert len({r["template"] for r in records}) == 4


def test_gnc_labels_are_true_and_pairs_are_unique(load_splits):
    splits = load_splits("gnc", size=4000)
    records = join(splits)
    assert [len(splits[name]) for name in SPLITS] == [2880, 320, 800]
    per_template, pairs = collections.Counter(), set()
    for record in records:
        a, b = map(int, NUMBER.findall(record["question"]))
        less, more = bool(LESS.search(record["question"])), bool(MORE.search(record["question"]))
        assert less != more, record["question"]
        assert record["label"] == (a < b if less else a > b)
        if "aged" in record["question"]:
            assert 15 <= a <= 104 and 15 <= b <= 104
        per_template[record["template"], record["label"]] += 1
        pairs.add((record["template"], a, b))
    assert len(per_template) == 40 and set(per_template.values()) == {100}
    assert len(pairs) == 4000
    assert {r["label"] for r in splits["test"]} == {0, 1}


def compute_answer(question: str) -> int:
    a, b = map(int, NUMBER.findall(question))
    return a - b if MINUS.search(question) and "own after that" not in question else a + b


@pytest.mark.parametrize("negatives", ["plain", "hard"])
def test_mwpas_labels_are_true_and_kinds_are_as_named(load_splits, negatives):
    records = join(load_splits("mwpas", size=4000, negatives=negatives))
    kinds, pairs = collections.Counter(), set()
    for record in records:
        right, answer = compute_answer(record["question"]), int(record["answer"])
        a, b = map(int, NUMBER.findall(record["question"]))
        assert 1 <= a <= 100_000 and 1 <= b <= 100_000 and right >= 1 and answer >= 1
        assert record["label"] == (answer == right)
        kind = record["kind"]
        if kind == "positive":
            assert record["label"]
        elif kind == "wrong_operation":
            assert answer == (a + b if right == a - b else abs(a - b))
        elif kind == "near_miss":
            assert 1 <= abs(answer - right) <= 10
        elif kind == "digit_edit":
            assert len(str(answer)) == len(str(right))
            assert sum(x != y for x, y in zip(str(answer), str(right), strict=True)) == 1
        kinds[kind] += 1
        pairs.add((record["template"], a, b))
    assert len(pairs) == 4000
    others = {"plain": {"wrong_operation": 1000, "random": 1000}}.get(
        negatives, dict.fromkeys(("wrong_operation", "random", "near_miss", "digit_edit"), 500)
    )
    assert kinds == {"positive": 2000, **others}
    assert len({r["template"] for r in records}) == 20


def replace_operations(equation: str) -> set[Fraction]:
    """Returns all values of "x = …" with one of its operations replaced; Python evaluates them."""
    right = re.sub(r"([\d.]+) %", r"(\1 / 100)", equation.partition("=")[2].strip())
    tree, values = ast.parse(right, mode="eval"), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp):
            operation = node.op
            for node.op in (ast.Add(), ast.Sub(), ast.Mult(), ast.Div()):
                with contextlib.suppress(ZeroDivisionError):
                    values.add(eval(re.sub(r"\d+(\.\d+)?", r"Fraction('\g<0>')", ast.unparse(tree))))
            node.op = operation
    return values


@pytest.mark.parametrize("negatives", ["plain", "hard"])
def test_mwpas_in_many_wordings_has_composed_problems_and_their_answers(load_splits, negatives):
    """Right candidates are the problems' answers, wrong ones are not; kinds are as named; splits share no form."""
    splits = load_splits("mwpas", size=2000, negatives=negatives, wordings="many")
    kinds = ("wrong_operation", "random", "near_miss", "digit_edit")[: 2 if negatives == "plain" else 4]
    sizes = dict(size=1438, validation=160, test=67, seed=0, invented=0.3, wordings=0)
    problems = {row["text_en"]: row for _, row in composed_records(**sizes)}
    records = join(splits)
    assert len(records) == len(problems) and {r["question"] for r in records} == problems.keys()
    assert {r["stream"] for r in splits["test"]} == {"seen", "wordings", "sentences", "nouns", "range", "steps"}
    held_out_streams = ("validation", "wordings", "sentences")
    training_forms = {problems[r["question"]]["form"] for r in splits["train"]}
    assert training_forms.isdisjoint(
        problems[r["question"]]["form"] for r in records if r["stream"] in held_out_streams
    )
    counts = collections.Counter(r["kind"] for r in records)
    assert counts.keys() == {"positive", *kinds} and abs(counts["positive"] - len(records) / 2) < 100
    for record in records:
        answer, candidate = Fraction(problems[record["question"]]["ans"]), Fraction(record["answer"])
        assert (candidate == answer) == record["label"] == (record["kind"] == "positive")
        assert candidate > 0
    near_misses = [r for r in records if r["kind"] == "near_miss"]
    assert all(1 <= abs(Fraction(r["answer"]) - Fraction(problems[r["question"]]["ans"])) <= 10 for r in near_misses)
    for record in (r for r in records if r["kind"] == "wrong_operation"):
        assert Fraction(record["answer"]) in replace_operations(problems[record["question"]]["equation"])
    digit_edits = [(r["answer"], problems[r["question"]]["ans"]) for r in records if r["kind"] == "digit_edit"]
    assert all(sum(a != b for a, b in zip(*pair, strict=True)) == 1 for pair in digit_edits)


def test_mwpas_mixes_differ_in_nothing_but_the_wrong_answers():
    plain, hard = (list(mwpas_records(800, 3, negatives)) for negatives in ("plain", "hard"))
    for (split, plain_record), (hard_split, hard_record) in zip(plain, hard, strict=True):
        assert (
            split == hard_split
            and plain_record["question"] == hard_record["question"]
            and plain_record["label"] == hard_record["label"]
        )
        assert not plain_record["label"] or plain_record == hard_record


def test_mwpas_random_answers_are_distributed_as_true_ones():
    records = [record for _, record in mwpas_records(40_000, 0, "plain") if record["operation"] == "addition"]
    logs = {
        kind: np.sort([np.log(int(r["answer"])) for r in records if r["kind"] == kind])
        for kind in ("positive", "random")
    }
    quantiles = np.linspace(0.05, 0.95, 19)
    gap = np.quantile(logs["positive"], quantiles) - np.quantile(logs["random"], quantiles)
    assert np.abs(gap).max() < 0.15


def test_generation_is_the_large_positives_of_mwpas_in_their_splits(load_splits):
    generation, mwpas = load_splits("mwpas_generation", size=4000), load_splits("mwpas", size=4000, negatives="hard")
    for split in SPLITS:
        large = {r["id"]: r for r in mwpas[split] if r["label"] and int(r["answer"]) > 10_000}
        assert {r["id"] for r in generation[split]} == set(large)
        for record in generation[split]:
            assert record["prompt"] == f"Q: {large[record['id']]['question']} A:"
            assert int(record["answer"]) == compute_answer(record["question"]) > 10_000


@pytest.mark.parametrize(
    ("name", "options"),
    [("mme", {}), ("gnc", {}), ("mwpas", {"negatives": "hard"}), ("mwpas_generation", {}), ("numeracy600k", {})],
)
def test_a_seed_fixes_all_records_and_splits_do_not_overlap(name, options, load_splits, tmp_path):
    first = load_splits(name, size=800, seed=5, **options)
    same = {split: list(data.load(name, split, tmp_path, size=800, seed=5, **options)) for split in SPLITS}
    assert first == same
    assert join(first) != join(load_splits(name, size=800, seed=6, **options))
    ids = [record["id"] for record in join(first)]
    assert len(set(ids)) == len(ids)
    contents = [{json.dumps({**r, "id": ""}, sort_keys=True) for r in first[split]} for split in SPLITS]
    for i in range(3):
        for j in range(i):
            assert not contents[i] & contents[j]


# When one of these changes, new data differ from older ones: raise the builder's VERSION.
PINNED = {
    "mme": "dd2f8caa58529678",
    "gnc": "f1d3e601e9d31fd6",
    "mwpas": "2496a959cfa76ac1",
    "numeracy600k": "f7ff321d537f59ab",
}


@pytest.mark.parametrize("name", PINNED)
def test_version_1_0_0_has_not_changed(name, load_splits):
    assert digest(join(load_splits(name, size=400, seed=7)))[:16] == PINNED[name]


@pytest.mark.parametrize(
    "name",
    [
        *("math23k", "mathsum", "mme", "gnc", "mwpas", "mwpas_generation", "numeracy600k"),
        *("cognitive_tutor", "answer_scoring", "answer_feedback", "squad", "fermat", "mawps", "tabfact"),
        *("creditrans", "table_text", "problems", "pretraining"),
    ],
)
def test_sample_files_come_from_the_builder(name, capsys, data_dir):
    assert build.main([name, f"--data_dir={data_dir}", "--sample=2"]) == 0
    assert capsys.readouterr().out == (ROOT / "data" / name / "sample.jsonl").read_text()


# ---------------------------------------------------------------------------------------------------
# Reading and building.


def test_a_dataset_that_another_process_finishes_meanwhile_is_read_whole(tmp_path, monkeypatch):
    """The other process finishes right after this one has looked for it in vain."""
    cls = data.find_builder("mme")
    start, calls = cls.__init__, []

    def start_and_be_overtaken(self, **options):
        start(self, **options)
        calls.append(self)
        if len(calls) == 1:
            data.load("mme", "train", tmp_path, size=40)

    monkeypatch.setattr(cls, "__init__", start_and_be_overtaken)
    assert len(data.load("mme", "train", tmp_path, size=40)) > 0
    assert len(calls) > 2


def test_records_are_a_sequence_of_plain_values(data_dir):
    import pickle

    records = data.load("mme", "train", data_dir, size=400)
    rows = list(records)
    assert len(records) == len(rows) == 288
    assert records[0] == rows[0] and records[-1] == rows[-1] and records[np.int64(5)] == rows[5]
    assert records[10:20] == rows[10:20] and records.__getitems__([7, 3]) == [rows[7], rows[3]]
    assert {type(value) for value in rows[0].values()} == {str, int}
    assert pickle.loads(pickle.dumps(records))[17] == rows[17]
    with pytest.raises(IndexError):
        records[288]


def test_tensorflow_datasets_loads_the_same_records(data_dir):
    import tensorflow_datasets as tfds

    records = data.load("mwpas", "test", data_dir, size=400)
    source = tfds.builder_from_directory(str(records.folder)).as_data_source("test")
    assert len(source) == len(records)
    for theirs, ours in zip(source, records, strict=True):
        values = {k: v.decode() if isinstance(v, bytes) else int(v) for k, v in theirs.items()}
        assert values == ours
    joined = data.load("mwpas", "train+validation", data_dir, size=400)
    assert [r["id"] for r in joined] == [f"mwpas-{i:06d}" for i in range(320)]
    assert len(data.load("mwpas", "train[:50%]", data_dir, size=400)) == 144


def test_long_splits_go_into_several_shards(tmp_path, monkeypatch):
    monkeypatch.setattr("numjax.bundled.data.records._SHARD_BYTES", 20_000)
    records = data.load("gnc", "train", tmp_path, size=800)
    shards = list(records.folder.glob("gnc-train.array_record-*"))
    assert len(shards) > 2 and {p.name.split("-of-")[1] for p in shards} == {f"{len(shards):05d}"}
    assert [r["id"] for r in records] == [f"gnc-{i:06d}" for i in range(576)]


def test_import_is_light_and_nothing_needs_tensorflow(tmp_path):
    program = (
        "import sys, data; assert 'tensorflow_datasets' not in sys.modules and 'numpy' not in sys.modules;"
        f"data.load('mme', 'test', {str(tmp_path)!r}, size=40);"
        "assert not {'tensorflow', 'jax', 'flax'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=120)


def test_two_processes_build_once(tmp_path):
    program = (
        f"import data, os; r = data.load('gnc', 'train', {str(tmp_path)!r}, size=8000);"
        "print(os.stat(r.folder).st_ino, os.stat(r.folder / 'dataset_info.json').st_mtime_ns, r[-1]['question'])"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [run.communicate(timeout=120)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert outputs[0] == outputs[1] and outputs[0].strip()
    assert [path.name for path in (tmp_path / "gnc").glob("*/*")] == ["1.0.0"]


def test_a_killed_build_is_built_again(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "good.txt").write_text("one\n\ntwo\n")
    program = (
        "import data.text.read as read, data, time; real = read.read_file\n"
        "def slow(path):\n yield from real(path); time.sleep(600)\n"
        "import data.text.builder as b; b.read_file = slow\n"
        f"data.load('text', 'train', {str(tmp_path / 'built')!r}, path={str(source)!r}, validation=0, test=0)"
    )
    run = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("built/text/*/incomplete*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert list(tmp_path.glob("built/text/*/incomplete*"))
    records = data.load("text", "train", tmp_path / "built", path=str(source), validation=0, test=0)
    assert [r["text"] for r in records] == ["one", "two"]
    assert not list(tmp_path.glob("built/text/*/incomplete*"))


def test_a_full_disk_is_reported_in_one_line_and_leaves_no_files(tmp_path):
    program = (
        "import data, resource, signal, tensorflow_datasets\n"
        "from numjax.errors import UsageError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        f"try: data.load('mme', data_dir={str(tmp_path)!r}, size=8000)\n"
        "except UsageError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert "cannot build it" in run.stdout and "another data_dir" in run.stdout and run.stdout.count("\n") == 1
    assert not list((tmp_path / "mme").glob("*/*"))


def test_a_folder_that_cannot_be_written_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"mme: cannot build it under .*; choose another data_dir"):
        data.load("mme", data_dir=tmp_path / "file", size=40)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mmo", {}, "did you mean mme"),
        ("mme", {"sise": 40}, "did you mean size"),
        ("mme", {"size": 50}, "try size=40"),
        ("mme", {"size": 40.5}, "not of type int"),
        ("mme", {"seed": -1}, "seed=-1"),
        ("mwpas", {"negatives": "harder"}, "plain, hard"),
        ("numeracy600k", {"num_classes": 9}, "7 nor 8"),
        ("numeracy600k", {"variant": "tweets"}, "titles, comments"),
        ("numeracy600k", {"size": -1}, "size=-1 is negative: give 0, the default, or more"),
        ("text", {}, "path=FOLDER"),
        ("gnc", {"size": 400_000}, "choose a smaller size"),
    ],
)
def test_errors_of_bad_requests_say_what_to_do(name, options, message, tmp_path):
    with pytest.raises(UsageError, match=message) as error:
        data.load(name, data_dir=tmp_path, **options)
    assert "\n" not in str(error.value)


def test_differing_options_never_share_a_folder(data_dir):
    folders = {
        data.load(name, "train", data_dir, **options).folder
        for name, options in [
            ("mwpas", dict(size=400)),
            ("mwpas", dict(size=400, negatives="hard")),
            ("mwpas", dict(size=400, seed=1)),
            ("mwpas", dict(size=800)),
            ("numeracy600k", dict(size=400)),
            ("numeracy600k", dict(size=400, num_classes=7)),
            ("numeracy600k", dict(size=400, variant="comments")),
        ]
    }
    assert len(folders) == 7


def test_command_line(tmp_path, capsys):
    assert build.main(["mwpas", f"--data_dir={tmp_path}", "--size=400", "--negatives=hard", "--report"]) == 0
    out = capsys.readouterr().out
    assert "288 train, 32 validation, 80 test" in out
    assert "(template, a, b): 400 different of 400; shared by train and validation 0, train and test 0" in out
    assert build.main(["mwpas", f"--data_dir={tmp_path}", "--sizes=400"]) == 2
    assert capsys.readouterr().err == "mwpas: no option sizes; did you mean size?\n"
    assert build.main(["text", f"--data_dir={tmp_path}", f"--path={tmp_path / 'nowhere'}"]) == 3


def test_generated_records_have_a_version_of_their_own(tmp_path):
    """A change of the generator leaves results on a user's files as they are."""
    builder = data.find_builder("tatqa")
    assert builder.version_of({"path": ""}) == builder.MADE_VERSION != builder.VERSION
    assert builder.version_of({"path": "files"}) == builder.VERSION
    made = data.prepare("tatqa", tmp_path, size=20)
    assert pathlib.Path(made.data_dir).name == str(made.version) == str(builder.MADE_VERSION)
    other = data.find_builder("mme")
    assert other.version_of({}) == other.VERSION
