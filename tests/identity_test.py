"""What a result depends on: settings, data by content, code; what `--known` takes; tables from uncommitted code."""

from __future__ import annotations

import hashlib
import json
import pathlib
import shutil
import subprocess
from types import SimpleNamespace

import pytest

from numjax.bundled.configs.digits import get_config as get_digits
from numjax.bundled.experiments import command, identity, report, runs, sources, stored
from numjax.bundled.experiments.numgpt import fig3, settings, table1
from numjax.bundled.experiments.problems import ablation
from numjax.bundled.experiments.runs import RunCell
from numjax.errors import UsageError
from numjax.pretrained import installed
from numjax.runtime import log

ROOT = pathlib.Path(__file__).resolve().parents[1]
OPTIONS = SimpleNamespace(scale="smoke", as_published=False)
MODULE = '''"""Says what it does."""
import pathlib

WORDS = pathlib.Path(__file__).parent / "words.txt"


def double(x):
    """Returns twice x."""
    return 2 * x  # twice
'''


@pytest.fixture
def training(monkeypatch):
    """Training that only records its calls."""
    calls: list[tuple[str, int]] = []

    def train(system, data, folder, seed, score, compiled=None, note=None):
        calls.append((folder.parent.name.split("-")[0], seed))
        return {"test": {"accuracy": 0.5 + seed / 10}}, "compiled"

    monkeypatch.setattr(runs, "train", train)
    monkeypatch.setattr(runs, "assemble", lambda config, folder: None)
    monkeypatch.setattr(runs, "load_data", lambda *args, **kwargs: None)
    return calls


@pytest.fixture
def messages(monkeypatch):
    texts: list[str] = []
    monkeypatch.setattr(log, "say", texts.append)
    stored._say_once.cache_clear()
    return texts


def make_cell(changes=None, system: str = "numgpt") -> RunCell:
    return settings.make_cell(OPTIONS, "mme", system, changes=changes)


def make_text_cell(folder: pathlib.Path) -> RunCell:
    return settings.make_pretraining(OPTIONS, "numgpt", str(folder))


def edit_settings(cell: RunCell, out: pathlib.Path, **changes) -> None:
    """Changes what the folder of a cell records; None removes a setting."""
    path = runs.cell_folder(cell, out) / stored.SETTINGS
    recorded = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: value for name, value in recorded.items() if value is not None}))
    path.parent.rename(path.parent.with_name("numgpt-earlier"))


def publish(out: pathlib.Path, cell: RunCell) -> str:
    results = runs.run([cell], [0], out)
    options = SimpleNamespace(scale="smoke", seeds=[0], as_published=False, out=out)
    return report.publish("table", "A table", [], {}, results, options, "NumGPT")


def test_a_result_from_before_an_option_existed_is_taken_while_the_option_has_its_default(tmp_path, training):
    cell = make_cell()
    runs.run([cell], [0], tmp_path)
    edit_settings(cell, tmp_path, **{"backbone.parallel": None, "embeds.numeral.high": None, "eval.best": None})
    runs.run([cell], [0], tmp_path)
    assert training == [("numgpt", 0)]
    runs.run([make_cell({"embeds": {"numeral": {"high": 9}}})], [0], tmp_path)
    assert len(training) == 2


@pytest.mark.parametrize(
    ("path", "value"), [("backbone.parallel", True), ("eval.every", 3), ("backbone.gone", 1), ("data.version", "0")]
)
def test_a_result_with_another_value_is_not_taken(tmp_path, training, path, value):
    """Also where the value is a default that has changed since, or an option that is gone."""
    cell = make_cell()
    runs.run([cell], [0], tmp_path)
    edit_settings(cell, tmp_path, **{path: value})
    runs.run([cell], [0], tmp_path)
    assert training == [("numgpt", 0)] * 2


def test_data_count_by_content_and_not_by_path(tmp_path):
    folders = [tmp_path / name for name in ("here", "there", "other", "renamed")]
    for folder in folders:
        folder.mkdir()
        (folder / "a.txt").write_text("Two eggs weigh 100 grams.\n")
        (folder / "b.txt").write_text("Three.\n")
    (folders[1] / "README.md").write_text("Not data.")
    (folders[2] / "b.txt").write_text("Four.\n")
    (folders[3] / "b.txt").rename(folders[3] / "c.txt")
    keys = [runs.make_key(make_text_cell(folder)) for folder in folders]
    assert keys[0] == keys[1] and len(set(keys)) == 3
    cells = [settings.make_cell(OPTIONS, "mme", "numgpt", make_text_cell(folder)) for folder in folders]
    start_keys = [runs.make_key(cell) for cell in cells]
    assert start_keys[0] == start_keys[1] and len({*start_keys, runs.make_key(make_cell())}) == 4


def test_a_folder_with_the_name_of_an_option_is_no_data(tmp_path, monkeypatch):
    """Otherwise two tasks would have one key where folders of their names are."""
    cells = [make_cell(), settings.make_cell(OPTIONS, "gnc", "numgpt")]
    recorded = [runs.list_settings(cell) for cell in cells]
    named = {
        value for s in recorded for path, value in s.items() if path.startswith("task.") and isinstance(value, str)
    }
    for name in filter(None, named):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert {"mme", "gnc"} <= named and [runs.list_settings(cell) for cell in cells] == recorded


def test_an_option_with_the_name_of_the_data_folder_is_no_data(tmp_path, monkeypatch):
    """Otherwise a key would depend on the folder in which the command is called."""
    path = tmp_path / "data" / "mawps"
    path.mkdir(parents=True)
    (path / "train.json").write_text('[{"original_text": "1 and 1 ?", "equation": "x=1+1", "ans": 2}]')
    config = get_digits("smoke,task=mawps")
    config.task.path = str(path)
    recorded = identity.list_settings(config)
    monkeypatch.chdir(path.parent)
    assert recorded == identity.list_settings(config)
    assert (recorded["task.path"], recorded["task.form"]) == (identity.FILES, "mawps")


def test_folders_of_one_dataset_may_lie_apart(tmp_path):
    files = {"tatqa": "one.json", "tabfact": "deep/two.json"}
    digests = []
    for places in (("a/tatqa", "a/tabfact"), ("b/c/d", "e"), ("f", "g/f")):
        folders = {name: str(tmp_path / place) for name, place in zip(files, places, strict=True)}
        paths = [pathlib.Path(folders[name]) / file for name, file in files.items()]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(path.name)
        digests.append(identity.digest_sources(paths, folders))
        if len(digests) == 1:
            assert digests[0] == identity.digest_files(paths), "results from before stay known"
    assert len(set(digests)) == 1
    paths[0].write_text("other")
    assert identity.digest_sources(paths, folders) != digests[0]
    paths[0].unlink()
    (tmp_path / "elsewhere.json").write_text("linked")
    paths[0].symlink_to(tmp_path / "elsewhere.json")
    assert identity.digest_sources(paths, folders) != digests[0]


def test_weights_and_vocabularies_count_by_content(tmp_path):
    keys = []
    for name, content in (("a", "x"), ("b", "x"), ("c", "y")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_text(content)
        keys.append(runs.make_key(make_cell({"init_from": str(tmp_path / name)})))
    assert keys[0] == keys[1] and len({*keys, runs.make_key(make_cell())}) == 3


def test_weights_that_are_installed_count_by_name_and_others_of_that_name_are_refused(tmp_path, monkeypatch):
    cell = make_cell({"init_from": "pretrained:minilm"})
    monkeypatch.setenv(installed.VARIABLE, str(tmp_path))
    key = runs.make_key(cell)
    folder = tmp_path / installed.MODELS["minilm"].folder
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"others")
    with pytest.raises(UsageError, match="is not the known file of minilm"):
        runs.make_key(cell)
    known = installed.MODELS["minilm"]._replace(sha256=hashlib.sha256(b"others").hexdigest())
    monkeypatch.setitem(installed.MODELS, "minilm", known)
    assert runs.make_key(cell) == key


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("Says what it does.", "Explains itself.", True),
        ("# twice", "", True),
        ('    """Returns twice x."""\n', "", True),
        ("\n\n\n", "\n\n", True),
        ("2 * x", "3 * x", False),
        ("double", "twice", False),
        ("import pathlib", "import pathlib, os", False),
    ],
)
def test_the_digest_of_a_module_ignores_documentation_and_layout(old, new, is_same):
    assert old in MODULE
    assert (sources.digest_source(MODULE) == sources.digest_source(MODULE.replace(old, new))) == is_same


def test_the_digest_of_a_module_counts_the_files_that_it_opens(tmp_path):
    digests = []
    for words in ("one", "one", "two"):
        (tmp_path / "words.txt").write_text(words)
        (tmp_path / "other.txt").write_text(str(len(digests)))
        digests.append(sources.digest_source(MODULE, tmp_path))
    assert digests[0] == digests[1] != digests[2]


def test_code_has_the_parts_the_dataset_and_what_they_import():
    code = identity.list_code(identity.list_roots(make_cell().config))
    wanted = ("embed.prototype", "nn.numerals", "bundled.data.mme.builder", "bundled.data.sampling", "train.step")
    assert {f"numjax.{name}" for name in wanted} <= code.keys()
    assert not {"numjax.embed.dice", "numjax.bundled.data.gnc.builder", "numjax.tools.parts"} & code.keys()
    assert not sources.list_changed(code) and sources.list_changed(code | {"numjax.nn.norm": "0"}) == [
        "numjax.nn.norm"
    ]


def test_results_of_other_code_are_taken_and_shown_and_same_code_leaves_them_out(tmp_path, training, messages):
    cell = make_cell()
    publish(tmp_path / "first", cell)
    table = json.loads((tmp_path / "first/table.json").read_text())
    assert table["other_code"] == "" and "Runs by other code" not in (tmp_path / "first/table.md").read_text()
    (digest,) = table["code"]
    table["code"][digest]["numjax.nn.norm"] = "00000000"
    (tmp_path / "edited.json").write_text(json.dumps(table))
    stored.adopt([str(tmp_path / "edited.json")], tmp_path / "second")
    text = publish(tmp_path / "second", cell)
    assert len(training) == 1 and "Runs by other code than wrote this table, of 1: 1 of other code: nn.norm." in text
    assert "mme/numgpt: taken, from --known, other code: nn.norm" in messages
    stored.adopt([str(tmp_path / "edited.json")], tmp_path / "third", same_code=True)
    publish(tmp_path / "third", cell)
    assert len(training) == 2 and any("is not taken: other code: nn.norm" in text for text in messages)
    shutil.rmtree(tmp_path / "second/runs", ignore_errors=True)
    stored.adopt([str(tmp_path / "edited.json")], tmp_path / "second", same_code=True)
    publish(tmp_path / "second", cell)
    assert len(training) == 3, "what an earlier call copied is not taken either"


def test_what_known_does_not_take_is_named_with_its_reason(tmp_path, training, messages):
    publish(tmp_path / "first", make_cell({"optim": {"epochs": 3}}))
    stored.adopt([str(tmp_path / "first/table.json")], tmp_path / "second")
    publish(tmp_path / "second", make_cell())
    assert len(training) == 2
    assert "mme/numgpt is not taken from --known: optim.epochs is 3, not 1" in messages
    table = json.loads((tmp_path / "first/table.json").read_text()) | {"settings": {}}
    (tmp_path / "old.json").write_text(json.dumps(table))
    stored.adopt([str(tmp_path / "old.json")], tmp_path / "third")
    assert any("is not taken: it does not record its settings" in text for text in messages)
    assert not (tmp_path / "third/known").exists()


def test_a_run_that_resumes_with_other_code_records_both(tmp_path):
    first = {"numjax.a": "1", "numjax.b": "1"}
    assert stored.start_code(tmp_path, first) == first == stored.start_code(tmp_path, first)
    assert stored.start_code(tmp_path, {"numjax.a": "2", "numjax.b": "1"}) == {"numjax.a": "1+2", "numjax.b": "1"}
    assert stored.start_code(tmp_path, {"numjax.a": "2", "numjax.b": "1"})["numjax.a"] == "1+2"


def test_packing_and_unpacking_give_the_results_back(tmp_path, training):
    results = [*runs.run([make_cell()], [0, 1], tmp_path)["mme", "numgpt"].values()]
    content = json.loads(json.dumps(stored.pack(results), default=list))
    assert len(content["settings"]) == len(content["code"]) == 1
    assert [result._asdict() for result in stored.unpack(content)] == [
        json.loads(json.dumps(result._asdict())) for result in results
    ]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of a few files, in the place of ours."""
    (tmp_path / "numjax").mkdir()
    (tmp_path / "numjax/a.py").write_text("A = 1\n")
    (tmp_path / "README.md").write_text("Text.\n")

    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *words], cwd=tmp_path, check=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "Begin")
    monkeypatch.setattr(stored.bundled, "HOME", tmp_path)
    return tmp_path


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize("change", ["numjax/a.py", "numjax/b.py"])
def test_a_table_of_uncommitted_code_is_refused_or_says_so(checkout, change):
    parser = command.make_parser("", "runs")
    words = [f"--out={checkout}/runs"]
    command.parse_options(parser, words)
    commit = stored.find_commit()
    (checkout / "README.md").write_text("Changed.\n")
    (checkout / "numjax/notes.md").write_text("New.\n")
    assert stored.find_commit() == commit and len(commit) == 12
    (checkout / change).write_text("A = 2\n")
    with pytest.raises(UsageError, match=rf"not committed \({change}\): commit them, .* or give --dirty"):
        command.parse_options(parser, words)
    for more in ("--dirty", "--scale=smoke"):
        options = command.parse_options(parser, [*words, more])
        text = report.publish("table", "A table", [], {}, {}, options, "NumGPT")
        assert "changes that were not committed (`--dirty`)" in text and stored.find_commit() == f"{commit}-dirty"


def list_committed_cells():
    """(file, cell) of results that record their settings."""
    options = SimpleNamespace(scale="laptop", as_published=False)
    for task in table1.TASKS:
        for system in settings.SYSTEMS:
            yield "numgpt/results/laptop/table1", settings.make_cell(options, task, system)
    for sigma in fig3.SIGMAS:
        yield "numgpt/results/laptop/fig3", fig3.make_cell(options, sigma)
    for name in ("pointed", "linked", "spelled", "no_ranks"):
        options.steps = 0
        config = ablation.make_config(options, ablation.make_systems()[name])
        yield "problems/results/laptop/ablation", RunCell("problems", name, config)


def test_committed_results_are_those_of_the_present_settings():
    tables_by_file = {}
    for file, cell in list_committed_cells():
        if file not in tables_by_file:
            tables_by_file[file] = stored.unpack(json.loads((ROOT / f"experiments/{file}.json").read_text()))
        results = [r for r in tables_by_file[file] if (r.task, r.system) == (cell.task, cell.system)]
        assert results and all(result.code for result in results), (file, cell.task, cell.system)
        for result in results:
            differences = identity.list_differences(
                result.settings, runs.list_settings(cell), runs.list_defaults(cell)
            )
            assert not differences, (file, cell.task, cell.system, differences)
