"""MathGPT's tables at overnight: the texts of their pre-training, and what starts from it."""

from __future__ import annotations

import itertools
import json
import pathlib
from types import SimpleNamespace

import numpy as np
import pytest

from numjax.bundled import data
from numjax.bundled.experiments import command, report, runs, texts
from numjax.bundled.experiments.mathgpt import errors, figures, headlines, pretraining, settings, table3
from numjax.bundled.experiments.stored import RunResult
from numjax.errors import UsageError

GSM8K = [
    {"question": "Ann has 3 eggs and buys 4. How many?", "answer": "She has 3 + 4 = <<3+4=7>>7 eggs.\n#### 7"},
    {"question": "No final answer.", "answer": "7"},
]
MATH = {"problem": "What is $x$ if $2x=6$?", "solution": r"So $x=\boxed{3}$.", "level": "Level 1", "type": "Algebra"}


@pytest.fixture
def folder(tmp_path):
    """Returns a folder with a few texts of each source, and texts of test splits, which may not be read."""
    lines = {
        "gsm8k/train.jsonl": "".join(json.dumps(row) + "\n" for row in GSM8K),
        "gsm8k/test.jsonl": json.dumps(GSM8K[0] | {"question": "SECRET 3 + 4 ?"}),
        "math_hendrycks/a.jsonl": json.dumps(MATH),
        "mathsum/OFEQ-10k/title.train": "is <m> x ^ 2 </m> -LRB- even -RRB- ?\nhas <m> no end\n\n",
        "mathsum/OFEQ-10k/title.val": "SECRET headline\n",
        "mathsum/EXEQ-300k/title.val": "zeros of <m> \\sin x </m>\nzeros of <m> \\sin x </m>\n",
    }
    for name, text in lines.items():
        path = tmp_path / "texts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "texts"


def collect(folder: str, out: pathlib.Path):
    return texts.collect(folder, out, pretraining.SOURCES, pretraining.make_article, list)


def test_texts_become_articles_whose_formulas_are_trees(folder, tmp_path, capsys):
    counts = collect(str(folder), tmp_path / "out")
    assert {name: count["kept"] for name, count in counts.items()} == {"gsm8k": 1, "math_hendrycks": 1, "mathsum": 2}
    assert "SECRET" not in "".join(path.read_text() for path in (tmp_path / "out").iterdir())
    rows = [
        row
        for split in ("train", "validation")
        for row in data.load(
            "articles", split, tmp_path / "built", path=str(tmp_path / "out"), validation=0.5, test=0
        )
    ]
    by_source = {row["id"].partition(".")[0]: row for row in rows}
    formulas = json.loads(by_source["gsm8k"]["formulas"])
    assert [f["tex"].replace(" ", "") for f in formulas.values()][-1] == "3+4=7"
    assert all(formula["opt"] is not None for row in rows for formula in json.loads(row["formulas"]).values())
    assert sum("( even )" in row["text"] for row in rows) == 1, "signs are restored"
    assert {f["tex"].replace(" ", "") for f in json.loads(by_source["math_hendrycks"]["formulas"]).values()} == {
        "x", "2x=6", "x={3}"
    }  # fmt: skip
    with pytest.raises(UsageError, match="it has none of the folders gsm8k, math_hendrycks, mathsum"):
        collect(str(tmp_path / "built"), tmp_path / "new")


def parse(parser, *words):
    options = parser.parse_args([*words])
    options.out, options.seeds = pathlib.Path("OUT"), [0]
    return options


def test_each_system_starts_from_its_own_pre_training(folder, tmp_path):
    problem = {"equation": "x=3+4", "ans": "7"}
    problems = [problem | {"text_en": f"{text} Number {i}"} for i, text in enumerate(["zeros of sin x"] * 6)]
    problems[3]["text_en"] = "Once Ann has 30 eggs and buys 4. How many? She has"  # as in GSM8K
    (tmp_path / "math23k.jsonl").write_text("".join(json.dumps(row) + "\n" for row in problems))
    path = str(tmp_path / "math23k.jsonl")
    options = parse(settings.make_parser(""), "--scale=overnight", f"--path={path}", f"--texts={folder}")
    options.out = tmp_path / "runs"
    config = settings.make_config(options, "system=gpt", 0)
    counts = pretraining.prepare(options, config, "text_en")
    assert counts["gsm8k"] == {"kept": 0, "left out": 1}
    assert sum(count["kept"] for count in counts.values()) == 3
    systems = table3.SYSTEMS | settings.COPYING[0]
    cells = {name: settings.make_cell(options, name, words, 2) for name, words in systems.items()}
    assert cells["mathgpt"].start.system == "mathgpt" and cells["mathgpt"].start.task == "pretraining"
    for name, cell in cells.items():
        start = cell.start.config
        assert (start.task.name, start.task.path, start.task.test) == (
            "articles",
            str(tmp_path / "runs/texts"),
            0.0,
        ), name
        assert cell.config.task.fold == 2 and cell.config.data.train_size == 0
        for block in ("embeds", "positions", "heads"):
            assert start[block].to_dict() == cell.config[block].to_dict(), (name, block)
    assert cells["pointed"].start.config.scheme.pointers == 12 and cells["linked"].start.config.heads.next.linked
    keys = {runs.make_key(cell.start) for cell in cells.values()}
    assert len(keys) == len(systems)
    laptop = parse(settings.make_parser(""), "--scale=laptop")
    assert settings.make_cell(laptop, "gpt", "system=gpt", 0).start is None
    options = parse(headlines.make_parser(""), "--scale=overnight", "--path=FILE", "--texts=T", "--dataset=ofeq")
    cell = headlines.make_cell(options, "headline", "gpt")
    assert cell.task == "ofeq-headline" and cell.start.config.task.name == "articles"


def test_options_of_overnight_are_checked():
    for words, line in (
        (["--scale=overnight", "--texts=T"], "--scale=overnight reads real files: give --path=FOLDER"),
        (["--scale=overnight", "--path=P"], "--scale=overnight reads real files: give --texts=FOLDER"),
        (["--texts=T"], "--texts=T is for --scale=overnight"),
    ):
        with pytest.raises(UsageError, match=line):
            pretraining.prepare(parse(settings.make_parser(""), *words), None, "text_en")


def test_tables_keep_the_runs_of_the_pre_training(monkeypatch):
    """Folds are pooled by system, and the pre-training stays beside them."""

    def run(cells, seeds, out):
        (fold,) = seeds
        made = {("pretraining", cells[0].start.system): {0: "start"}}
        return made | {(cell.task, cell.system): {fold: f"{cell.system}-{fold}"} for cell in cells}

    monkeypatch.setattr(runs, "run", run)
    options = parse(settings.make_parser(""), "--scale=overnight", "--path=FILE", "--texts=T")
    options.seeds = [0, 1]
    results = settings.run(options, table3.SYSTEMS)
    assert results["math23k", "gpt"] == {0: "gpt-0", 1: "gpt-1"}
    assert results["pretraining", "gpt"] == {0: "start"} and ("math23k-0", "gpt") not in results


def test_texts_are_cut_at_sentences_and_never_in_a_formula():
    rng = np.random.default_rng(4)
    for _ in range(50):
        sentences = []
        for _ in range(int(rng.integers(1, 30))):
            words = [str(rng.choice(["a", "price", "3.5", "<m> x. y \n 2 < 3 </m>", "<", "e.g"])) for _ in range(12)]
            sentences.append(" ".join(words) + str(rng.choice([". ", "? ", "\n"])))
        text = "".join(sentences)
        pieces = list(pretraining.cut(text))
        assert " ".join(" ".join(pieces).split()) == " ".join(text.split())
        assert all(piece.count("<m>") == piece.count("</m>") for piece in pieces)
        assert all(len(piece) <= pretraining.LONGEST for piece in pieces)
        assert all(len(a) + len(b) > pretraining.LONGEST - 100 for a, b in itertools.pairwise(pieces))
    long = "word " * 200
    assert list(pretraining.cut(long)) == [long.strip()] and list(pretraining.cut(" \n ")) == []


def test_figures_and_errors_are_of_the_tables_folds_and_not_of_their_pretraining(tmp_path, monkeypatch):
    """A pre-training has the system's name too, and seed 0 alone."""
    machine = {"device": "cpu", "devices": 1, "cores": 2, "jax": "0"}
    result = RunResult("", "", 0, "key", {"validation": {"loss": 1.0}}, None, 1.0, machine, "")
    results = {
        (task, name): {seed: result._replace(task=task, system=name, seed=seed) for seed in seeds}
        for task, seeds in (("math23k", range(3)), ("pretraining", (0,)))
        for name in ("mathgpt", "gpt")
    }
    monkeypatch.setattr(settings, "run", lambda *args: results)
    monkeypatch.setattr(runs, "workdir", lambda cell, fold, out: tmp_path / f"fold{fold}")
    options = SimpleNamespace(
        scale="overnight", as_published=False, out=tmp_path, mathgpt="", gpt="", path="", texts=""
    )
    options.seeds = [0, 1, 2]
    workdirs, facts = figures.find_workdirs(options)
    assert [folder.rpartition("/")[2] for folder in workdirs["mathgpt"]] == ["fold0", "fold1", "fold2"]
    assert "folds 0, 1, 2" in facts
    monkeypatch.setattr(command, "parse_options", lambda *args: options)
    monkeypatch.setattr(report, "print_report", lambda *args: None)
    monkeypatch.setattr(report, "publish", lambda *args, **kwargs: published.append(args))
    published = []
    errors.main([])
    assert {task for task, _ in published[0][4]} == {"math23k"}
    assert results["pretraining", "gpt"][0].metrics == {"validation": {"loss": 1.0}}


@pytest.mark.parametrize(("scale", "counts"), [("laptop", {"GPT": 1, "MathGPT": 1}), ("smoke", None)])
def test_what_was_tried_on_one_task_counts_for_all_tables(scale, counts):
    options = SimpleNamespace(scale=scale)
    assert settings.make_trials(["GPT", "MathGPT"], options).get("trials") == counts
    assert settings.make_trials(["MathGPT, numbers that point"], SimpleNamespace(scale="overnight")) == {
        "trials": {"MathGPT, numbers that point": 1}
    }
