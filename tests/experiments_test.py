"""Experiments: keyed and resumable runs, tables against the predictions on disk, statistics against scipy."""

from __future__ import annotations

import fcntl
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from numjax.bundled.experiments import command, report, runs, stored, tables
from numjax.bundled.experiments.mathgpt import headlines
from numjax.bundled.experiments.mathgpt import table1 as mathgpt_table1
from numjax.bundled.experiments.mathgpt import table2 as mathgpt_table2
from numjax.bundled.experiments.numgpt import fig1, fig3, settings, table1, table2, table3
from numjax.bundled.experiments.runs import RunCell
from numjax.bundled.experiments.stored import RunResult
from numjax.errors import Diverged, Preempted, UsageError
from numjax.runtime import stop
from numjax.train import workdir

ROOT = pathlib.Path(__file__).resolve().parents[1]
OPTIONS = SimpleNamespace(scale="smoke", as_published=False)
TWO = ["--scale=smoke", "--only=mme/gpt,mme/numgpt", "--seeds=2"]


def make_smoke_cell(changes=None, task: str = "mme", system: str = "numgpt") -> RunCell:
    return settings.make_cell(OPTIONS, task, system, changes=changes)


def write_texts(folder: pathlib.Path) -> str:
    """A folder of text to pre-train on."""
    (folder / "texts").mkdir(exist_ok=True)
    (folder / "texts" / "a.txt").write_text("Two eggs weigh 100 grams.\n")
    return str(folder / "texts")


def make_result(task: str, system: str, seed: int, diverged: str | None = None, **metrics: float) -> RunResult:
    results = {"test": metrics} if metrics else {}
    machine = {"device": "cpu", "devices": 1, "cores": 2, "jax": "0"}
    return RunResult(task, system, seed, "key", results, diverged, 1.0, machine, "")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Builds datasets once for all tests here, in a cache of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMJAX_CACHE", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table1")
    table1.main([*TWO, f"--out={folder}"])
    return folder


def test_table1_agrees_with_the_predictions_on_disk(out):
    table = json.loads((out / "table1.json").read_text())
    entries = {(e["row"], e["column"]): e for e in table["tables"]["table1"]}
    for system in ("gpt", "numgpt"):
        scores = []
        for seed in (0, 1):
            rows = runs.workdir(make_smoke_cell(system=system), seed, out) / "predictions" / "mme.jsonl"
            predictions = [json.loads(line) for line in rows.open()]
            assert len(predictions) == settings.SMOKE_SIZE / 5
            scores.append(100 * np.mean([row["prediction"] == row["reference"]["label"] for row in predictions]))
        cell = entries[settings.SYSTEMS[system], "MME"]["here"]
        assert cell["mean"] == pytest.approx(np.mean(scores)) and cell["std"] == pytest.approx(np.std(scores, ddof=1))
        labels = [row["reference"]["label"] for row in predictions]
    majority = 100 * max(np.mean(labels), 1 - np.mean(labels))
    assert entries["MAJ", "MME"]["here"]["mean"] == pytest.approx(majority)
    assert entries["NumGPT", "MME"]["paper"] == {"mean": 97.16, "std": 0.55}
    assert len(table["runs"]) == 4 and all(run["machine"]["jax"] for run in table["runs"])


def test_table1_is_readable_and_drawn(out):
    text = (out / "table1.md").read_text()
    assert "| NumGPT | 97.16 ± 0.55 | " in text and "| system | MME paper | MME here | MME p |" in text
    assert "not run" in text
    assert (out / "table1.png").read_bytes().startswith(b"\x89PNG") and (out / "table1.png").stat().st_size > 5_000


def test_finished_runs_are_not_trained_again(out, monkeypatch):
    table = json.loads((out / "table1.json").read_text())

    def refuse_training(*args, **kwargs):
        raise AssertionError("trained again")

    monkeypatch.setattr(runs, "train", refuse_training)
    monkeypatch.setattr(runs, "load_data", refuse_training)
    table1.main([*TWO, f"--out={out}"])
    assert json.loads((out / "table1.json").read_text()) == table


@pytest.fixture
def fake_training(monkeypatch):
    """Training that only records its calls; `outcome` gives the exceptions of seeds that fail."""
    calls: list[tuple[str, int]] = []
    outcome: dict[int, Exception] = {}

    def train(system, data, folder, seed, score, compiled=None, note=None):
        calls.append((folder.parent.name.split("-")[0], seed))
        assert "run " in note(10.0) and "all in " in note(10.0)
        if seed in outcome:
            raise outcome[seed]
        return {"test": {"accuracy": 0.5 + seed / 10}}, "compiled"

    monkeypatch.setattr(runs, "train", train)
    monkeypatch.setattr(runs, "assemble", lambda config, folder: None)
    monkeypatch.setattr(runs, "load_data", lambda *args, **kwargs: None)
    return SimpleNamespace(calls=calls, outcome=outcome)


def test_only_missing_runs_are_trained_and_a_stop_keeps_the_others(tmp_path, fake_training):
    cell = make_smoke_cell()
    fake_training.outcome[1] = Preempted("stopped")
    with pytest.raises(Preempted):
        runs.run([cell], [0, 1, 2], tmp_path)
    fake_training.outcome.clear()
    results = runs.run([cell], [0, 1, 2, 3], tmp_path)
    assert fake_training.calls == [("numgpt", 0), ("numgpt", 1), ("numgpt", 1), ("numgpt", 2), ("numgpt", 3)]
    assert {seed: r.metrics["test"]["accuracy"] for seed, r in results["mme", "numgpt"].items()} == {
        seed: 0.5 + seed / 10 for seed in range(4)
    }


def test_a_diverged_seed_is_reported_and_stops_nothing(tmp_path, fake_training):
    fake_training.outcome[0] = Diverged("the loss is nan at step 3")
    cell = make_smoke_cell()
    results = runs.run([cell], [0, 1], tmp_path)
    assert results["mme", "numgpt"][0].diverged == "the loss is nan at step 3"
    runs.run([cell], [0, 1], tmp_path)
    assert fake_training.calls == [("numgpt", 0), ("numgpt", 1)]
    rows, columns = [tables.TableRow("NumGPT", "numgpt")], [table1.COLUMNS[0]]
    text = tables.format_markdown(tables.compare(results, rows, columns, "numgpt"), columns, "NumGPT")
    assert "| NumGPT | 60.00 (1 diverged: seed 0) |" in text


def test_fine_tuning_runs_its_pretraining_first_and_once(tmp_path, fake_training):
    start = settings.make_pretraining(OPTIONS, "numgpt", write_texts(tmp_path))
    (runs.cell_folder(start, tmp_path) / "vocabulary").mkdir(parents=True)
    cells = [settings.make_cell(OPTIONS, task, "numgpt", start) for task in ("mme", "gnc")]
    runs.run(cells, [0, 1], tmp_path)
    names = [system for system, _ in fake_training.calls]
    assert len(names) == 5 and fake_training.calls[0] == ("numgpt", 0)
    for cell in cells:
        config = json.loads((runs.cell_folder(cell, tmp_path) / "config.json").read_text())
        assert config["init_from"] == str(runs.workdir(start, 0, tmp_path))
    fake_training.outcome[0] = Diverged("the loss is nan")
    (runs.workdir(start, 0, tmp_path) / runs.RESULT).unlink()
    runs.run(cells, [0, 1], tmp_path)  # all runs that start from it are finished
    assert len(fake_training.calls) == 5
    (runs.workdir(cells[0], 1, tmp_path) / runs.RESULT).unlink()
    for _ in range(2):  # its result is there the second time
        with pytest.raises(Diverged, match="pre-training numgpt diverged"):
            runs.run(cells, [0, 1], tmp_path)
    assert len(fake_training.calls) == 6


def test_minutes_count_the_pretraining_of_an_earlier_call_or_say_that_they_do_not(tmp_path, fake_training):
    start = settings.make_pretraining(OPTIONS, "numgpt", write_texts(tmp_path))
    (runs.cell_folder(start, tmp_path) / "vocabulary").mkdir(parents=True)
    cells = [settings.make_cell(OPTIONS, "mme", "numgpt", start)]
    runs.run(cells, [0], tmp_path)
    result_file = runs.workdir(start, 0, tmp_path) / runs.RESULT
    result_file.write_text(json.dumps(json.loads(result_file.read_text()) | {"seconds": 600.0}))

    def publish_report() -> tuple[str, list]:
        results = runs.run(cells, [0], tmp_path)
        options = SimpleNamespace(scale="smoke", seeds=[0], as_published=False, out=tmp_path)
        text = report.publish("made", "Made", [], {}, results, options, "NumGPT")
        return text, json.loads((tmp_path / "made.json").read_text())["runs"]

    text, entries = publish_report()
    assert "; 10.0 minutes of training in all." in text
    assert [(run["task"], run["seconds"] == 600.0) for run in entries] == [("text", True), ("mme", False)]
    result_file.unlink()
    text, entries = publish_report()
    assert "; 0.0 minutes of training in all, without text/numgpt, whose results are not here." in text
    assert [run["task"] for run in entries] == ["mme"]
    earlier = make_result("text", "numgpt", 0)._replace(
        key=runs.make_key(start), seconds=60.0, settings=runs.list_settings(start)
    )
    stored.write_json(tmp_path / "old.json", stored.pack([earlier]))
    stored.adopt([str(tmp_path / "old.json")], tmp_path)
    assert "; 1.0 minutes of training in all." in publish_report()[0]
    assert len(fake_training.calls) == 2  # no run is trained only to count its minutes
    runs.run(cells, [0, 1], tmp_path)  # the pre-training is needed now, since a table has no parameters
    assert fake_training.calls[2:] == [("numgpt", 0), ("numgpt", 1)] and result_file.exists()


def test_runs_of_other_tables_are_not_run_again(tmp_path, fake_training, out):
    """A run that differs in anything is run; --known= takes the files that tables write."""
    table = str(out / "table1.json")
    words = ["--scale=smoke", "--only=mme/gpt,mme/numgpt", f"--out={tmp_path}", f"--known={table}"]
    table1.main([*words, "--seeds=2"])
    assert not fake_training.calls
    assert (
        json.loads((tmp_path / "table1.json").read_text())["runs"]
        == json.loads(pathlib.Path(table).read_text())["runs"]
    )
    table1.main([*words, "--seeds=3"])
    assert fake_training.calls == [("gpt", 2), ("numgpt", 2)]
    runs.run([make_smoke_cell({"optim": {"epochs": 3}})], [0], tmp_path)
    assert fake_training.calls[2:] == [("numgpt", 0)]


@pytest.mark.parametrize("text", ["{", "{}", '{"runs": [{"seed": 1}]}', None])
def test_a_file_that_is_no_table_is_refused_as_known(tmp_path, text):
    file = tmp_path / "old.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError, match=f"--known={file}: give NAME.json"):
        table1.main(["--scale=smoke", f"--known={file}", f"--out={tmp_path}"])


def test_the_key_depends_only_on_options_that_change_results(tmp_path):
    key = runs.make_key(make_smoke_cell())
    assert re.fullmatch(r"[0-9a-f]{12}", key)
    cells = [
        make_smoke_cell({"embeds": {"numeral": {"sigma": 5.0}}}),
        make_smoke_cell({"optim": {"epochs": 2}}),
        make_smoke_cell({"task": {"data_seed": 2}}),
        make_smoke_cell({"eval": {"every": 2}}),
        make_smoke_cell(system="gpt"),
        make_smoke_cell(task="mwpas"),
        make_smoke_cell(task="mwpas_hard"),
        make_smoke_cell()._replace(start=settings.make_pretraining(OPTIONS, "numgpt", write_texts(tmp_path))),
        settings.make_cell(SimpleNamespace(scale="smoke", as_published=True), "mme", "numgpt"),
    ]
    assert len({key, *map(runs.make_key, cells)}) == len(cells) + 1
    for changes in (
        {"log_every": 7},
        {"data": {"threads": 9}},
        {"checkpoint": {"keep": 5}},
        {"decode": {"top_k": 3}},
    ):
        assert runs.make_key(make_smoke_cell(changes)) == key
    generation_key = runs.make_key(make_smoke_cell(task="generation"))
    assert runs.make_key(make_smoke_cell({"decode": {"max_tokens": 5}}, "generation")) != generation_key


def test_fig3_takes_the_default_width_from_table1():
    assert runs.make_key(fig3.make_cell(OPTIONS, 0.5)) == runs.make_key(make_smoke_cell())
    cells = [fig3.make_cell(OPTIONS, sigma) for sigma in fig3.SIGMAS]
    assert len({runs.make_key(cell) for cell in cells}) == len({cell.system for cell in cells}) == len(fig3.SIGMAS)


def test_another_process_on_the_same_run_is_refused(tmp_path, fake_training, monkeypatch):
    monkeypatch.setattr(workdir, "LOCK_WAIT", 0)
    folder = runs.cell_folder(make_smoke_cell(), tmp_path)
    folder.mkdir(parents=True)
    with open(folder / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match=r"another process is at work in .* use another --out"):
            runs.run([make_smoke_cell()], [0], tmp_path)
    assert not fake_training.calls and not (folder / "config.json").exists()


@pytest.mark.whole
def test_sigterm_exits_143_and_the_next_call_resumes(tmp_path, monkeypatch):
    words = ["--scale=smoke", "--only=mme/numgpt", f"--out={tmp_path}"]
    arguments = [sys.executable, "-m", "experiments.numgpt.table1", *words, "--seeds=500"]
    process = subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    lines = []
    for text in process.stderr:
        lines.append(text)
        if text.startswith("mme/numgpt seed 1: test "):
            break
    process.send_signal(signal.SIGTERM)
    lines += process.communicate(timeout=120)[1].splitlines()
    assert process.returncode == 143, lines
    assert "run the same command to go on" in lines[-1] and "Traceback" not in "".join(lines)
    done_seeds = sorted(int(path.parent.name[5:]) for path in tmp_path.glob("runs/mme/*/seed_*/result.json"))
    assert done_seeds[:2] == [0, 1] and len(done_seeds) < 500
    seeds = []
    train = runs.train

    def record_seed(system, data, folder, seed, *args, **kwargs):
        seeds.append(seed)
        return train(system, data, folder, seed, *args, **kwargs)

    monkeypatch.setattr(runs, "train", record_seed)
    table1.main([*words, f"--seeds={len(done_seeds) + 1}"])
    assert seeds == [len(done_seeds)]


@pytest.mark.parametrize(
    ("table", "words", "message"),
    [
        (table1, ["--only=mma"], "did you mean mme"),
        (table1, ["--only=mme/numgp"], "did you mean numgpt"),
        (table1, ["--seeds=-1"], "1 or more"),
        (table2, ["--sca=x"], "invalid choice"),
        (fig3, ["--sigmas=0.5,x"], "numbers separated by commas"),
        (fig3, ["--sigmas=0"], "above 0"),
    ],
)
def test_bad_options_are_refused(table, words, message):
    with pytest.raises(UsageError, match=message):
        table.main(["--scale=smoke", *words] if "--sca=x" not in words else words)


def test_only_chooses_tasks_systems_and_pairs():
    is_wanted = command.parse_only("gnc,mme/gpt", ["mme", "gnc"], ["gpt", "numgpt"])
    assert {(t, s) for t in ("mme", "gnc") for s in ("gpt", "numgpt") if is_wanted(t, s)} == {
        ("gnc", "gpt"), ("gnc", "numgpt"), ("mme", "gpt"),
    }  # fmt: skip
    assert command.parse_only("", ["mme"], ["gpt"])("mme", "gpt")


@pytest.mark.parametrize("seed", range(5))
def test_the_paired_t_test_is_that_of_scipy(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 12))
    scores = dict(enumerate(rng.normal(90, 3, count)))
    other_scores = dict(enumerate(rng.normal(80, 5, count)))
    t_test = tables.paired_t_test(scores | {99: 1.0}, other_scores | {77: 2.0})
    expected = stats.ttest_rel(list(other_scores.values()), list(scores.values()))
    assert t_test.n == count
    assert t_test.t == pytest.approx(expected.statistic) and t_test.p == pytest.approx(expected.pvalue)


def test_the_t_test_of_two_seeds_is_a_cauchy_tail():
    # One degree of freedom: differences 1 and 3 give t = 2 and p = 1 − 2·atan(2)/π.
    t_test = tables.paired_t_test({0: 0.0, 1: 0.0}, {0: 1.0, 1: 3.0})
    assert t_test.t == pytest.approx(2.0) and t_test.p == pytest.approx(1 - 2 * math.atan(2) / math.pi)
    assert tables.paired_t_test({0: 1.0}, {0: 2.0}) is None
    assert tables.paired_t_test({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}).p == 1.0
    always_less = tables.paired_t_test({0: 1.0, 1: 2.0}, {0: 0.5, 1: 1.5})
    assert always_less.p == 0.0 and always_less.t == -math.inf


def test_spread_is_the_sample_deviation():
    assert tables.mean_and_std([1.0, 2.0, 4.0]) == pytest.approx((7 / 3, np.std([1, 2, 4], ddof=1)))
    assert tables.mean_and_std([3.0]) == (3.0, None) and tables.mean_and_std([]) is None


def test_accuracy_by_kind_and_significance_are_shown(tmp_path):
    results = {
        ("mwpas", system): {
            seed: make_result("mwpas", system, seed, accuracy=base + seed / 100) for seed in range(3)
        }
        for system, base in (("numgpt", 0.8), ("gpt", 0.5))
    }  # fmt: skip
    results["mwpas", "gpt"][2] = make_result("mwpas", "gpt", 2, accuracy=0.53)
    rows = [
        tables.TableRow(label, system, table1.make_published(system)) for system, label in settings.SYSTEMS.items()
    ]
    columns = [table1.COLUMNS[2]]
    entries = tables.compare(results, rows, columns, "numgpt")
    gpt = next(entry for entry in entries if entry["system"] == "gpt")
    assert gpt["t_test"]["n"] == 3 and gpt["t_test"]["p"] < 0.01
    text = tables.format_markdown(entries, columns, "NumGPT")
    assert "| GPT, subwords | 49.85 ± 0.63 | 51.33 ± 1.53 | < 0.001 * |" in text
    assert "| GPT + DICE | 49.17 ± 1.04 | – | – |" in text


def test_a_figure_that_no_seed_changes_has_no_p():
    results = {("mwpas", system): {seed: make_result("mwpas", system, seed, accuracy=0.1 * seed, read=share)
                                 for seed in range(3)}
             for system, share in (("numgpt", 0.8), ("gpt", 0.9))}  # fmt: skip
    rows = [tables.TableRow(system, system) for system in ("numgpt", "gpt")]
    columns = [
        tables.TableColumn("ACC", "mwpas", "accuracy"),
        tables.TableColumn("read", "mwpas", "read", tested=False),
    ]
    header, _, _, gpt = tables.format_markdown(
        tables.compare(results, rows, columns, "numgpt"), columns, "N"
    ).splitlines()[:4]
    assert header == "| system | ACC here | ACC p | read |"
    assert gpt == "| gpt | 10.00 ± 10.00 | 1.000 | 90.00 ± 0.00 |"


def test_a_row_whose_every_seed_diverged_stays_in_the_table():
    results = {("mwpas", "gpt"): {0: make_result("mwpas", "gpt", 0, "the loss is nan")}}
    rows = [tables.TableRow(name, name) for name in ("gpt", "numgpt")]
    (entry,) = tables.compare(results, rows, [tables.TableColumn("ACC", "mwpas", "accuracy")], "numgpt")
    assert entry["row"] == "gpt" and entry["here"] is None and entry["diverged"] == [0]


def test_fig1_answers_are_spread_evenly_in_logarithm():
    numbers = fig1.list_answers()
    assert numbers[0] == 1 and numbers[-1] == 14_000 and numbers == sorted(set(numbers))
    steps = np.diff(np.log([n for n in numbers if n > 200]))
    assert steps.max() < 2 * steps.min()
    assert sum(fig1.RIGHT[0] <= n <= fig1.RIGHT[1] for n in numbers) > 10


def test_published_figures_are_those_of_the_paper():
    assert table1.make_published("gpt-pretrained")["GNC"] == (93.84, 1.29)
    assert "MWPAS hard" not in table1.make_published("numgpt")
    assert table3.make_published("numgpt")["LMAE"] == (0.0312, 0.0044)
    assert table2.PAPER["numgpt-pretrained"][1] == (56.47, 0.08)


def test_a_table_of_headlines_agrees_with_the_predictions_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(headlines, "SMOKE_SIZE", 40)
    mathgpt_table2.main(
        ["--scale=smoke", "--dataset=ofeq", "--only=next_formula/gpt", "--seeds=1", f"--out={tmp_path}"]
    )
    table = json.loads((tmp_path / "table7.json").read_text())
    entries = {(e["row"], e["column"]): e for e in table["tables"]["table7"]}
    options = SimpleNamespace(scale="smoke", as_published=False, dataset="ofeq", path="", splits="files")
    cell = headlines.make_cell(options, "next_formula", "gpt")
    predictions = [
        json.loads(line) for line in (runs.workdir(cell, 0, tmp_path) / "predictions" / "headline.jsonl").open()
    ]
    has_tree = [row["prediction"]["tree"] is not None for row in predictions]
    assert len(predictions) > 5 and entries["GPT", "read"]["here"]["mean"] == pytest.approx(100 * np.mean(has_tree))
    assert entries["MathGPT", "TED, read"]["paper"] == {"mean": 2.862, "std": 0.031}
    assert (
        entries["MathGPT", "TED, read"]["here"] is None and "TED, read paper" in (tmp_path / "table7.md").read_text()
    )
    # Systems that were not run have only the figures of the paper.
    assert "| MathGPT | 20.6 ± 0.5 | – |" in (tmp_path / "table8.md").read_text().replace(" here", "")


def test_tables_of_headlines_have_the_papers_rows():
    assert set(mathgpt_table1.PAPER) == set(mathgpt_table2.PAPER) == set(headlines.DATASETS)
    for paper in (mathgpt_table1.PAPER["exeq"], mathgpt_table2.PAPER["ofeq"]["next_formula"]):
        assert set(paper) <= set(headlines.LABELS)
    for task in ("next_formula", "next_text"):
        titles = {column.title for column in headlines.make_columns(task)}
        for dataset in headlines.DATASETS:
            assert all(set(numbers) <= titles for numbers in mathgpt_table2.PAPER[dataset][task].values())
    assert mathgpt_table2.PAPER["exeq"]["next_text"]["gpt-wiki"]["ROUGE-L"] == (54.5, 0.2)


def test_an_unwritable_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match="choose another"):
        tables.write_text(tmp_path / "file" / "table.md", "text")
    tables.write_text(tmp_path / "new" / "folder" / "table.md", "text")
    assert (tmp_path / "new" / "folder" / "table.md").read_text() == "text"
    with pytest.raises(UsageError, match="choose another"):
        stored.write_json(tmp_path / "file" / "table.json", {})
    assert not os.path.exists(tmp_path / "file" / "table.md")


@pytest.mark.parametrize("starts_programs", [False, True])
def test_a_stop_is_raised_only_where_other_programs_must_be_ended(starts_programs):
    code = f"""
import os, signal
from numjax.bundled.experiments import command

def main():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except BaseException:
        print("raised")
        raise

command.entry(main, starts_programs={starts_programs})
"""
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert (process.returncode, process.stderr) == (143, f"numjax: {stop.MESSAGE}\n")
    assert process.stdout == "raised\n" * starts_programs
