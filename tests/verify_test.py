"""Committed tables, quoted figures and verdicts against their sources; rules of verdicts; trials."""

from __future__ import annotations

import gzip
import json
import pathlib
import shutil
import tomllib
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from numjax.bundled.experiments import claims, quotes, report, runs, stored, tables, trials, verify
from numjax.bundled.experiments.luna import gold
from numjax.bundled.experiments.mathgpt import mathmlben
from numjax.bundled.experiments.numgpt import settings
from numjax.errors import UsageError

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "experiments/numgpt/results/laptop/table1.json"
FAIR = {"GPT": 0, "NumGPT": 0}
# Results that record no trials: nothing was tried in them, or the number of epochs of all rows once (LUNA README).
UNTUNED = {"digits/results/laptop/figures.json", "luna/results/laptop/table4.json"}


def test_nothing_that_is_committed_disagrees_with_its_source():
    problems, n_figures = verify.list_problems(ROOT)
    assert not problems, "\n".join(f"{path}:{line}: {message}" for path, line, message in problems)
    assert n_figures > 300 and len(verify.list_results(ROOT)) > 25


@pytest.fixture
def copy(tmp_path):
    """A copy of a committed table and its JSON."""
    for suffix in (".json", ".md"):
        shutil.copy(TABLE.with_suffix(suffix), tmp_path)
    return tmp_path / TABLE.name


def edit_json(path: pathlib.Path, edit) -> None:
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))
    path.with_suffix(".md").write_text(report.render_file(path))


def test_a_table_that_its_json_does_not_render_is_named_with_its_line(copy):
    assert not list(verify.check_table(copy))
    table = copy.with_suffix(".md")
    lines = table.read_text().splitlines(keepends=True)
    number = next(i for i, line in enumerate(lines) if line.startswith("| NumGPT |"))
    table.write_text("".join([*lines[:number], lines[number].replace("97.58", "97.85"), *lines[number + 1 :]]))
    ((path, line, message),) = verify.check_table(copy)
    assert path == table and line == number + 1 and "| NumGPT |" in message
    table.unlink()
    assert "cannot be rendered" in next(iter(verify.check_table(copy))).message


def test_a_table_with_other_newlines_at_its_end_is_named(copy):
    text = copy.with_suffix(".md").read_text()
    copy.with_suffix(".md").write_text(text + "\n")
    (problem,) = verify.check_table(copy)
    assert problem.line == text.count("\n") + 1 and "and its JSON renders" in problem.message


@pytest.mark.parametrize(
    ("text", "expected", "difference"),
    [
        ("a\nb\n", "a\nc\n", (2, "b\n", "c\n")),
        ("a", "a\n", (1, "a", "a\n")),
        ("a\n", "a\n\n", (2, "", "\n")),
        ("a\nb\nc\n", "a\n", (2, "b\n", "")),
        ("", "a", (1, "", "a")),
    ],
)
def test_the_first_line_that_differs_is_found(text, expected, difference):
    assert tables.find_difference(text, expected) == difference
    assert tables.find_difference(expected, text) == (difference[0], *difference[:0:-1])


@pytest.mark.parametrize(("quoted", "expected", "is_right"), [
    ("12", "12", True), ("12", "13", False), ("0", "1", False), ("5.2", "5.3", False), ("0.3", "1e-05", False),
    ("0.0", "1e-05", True), ("1,234", "1234.4", True), ("1,234", "1235.4", False), ("−2.5", "-2.54", True),
    ("94.43", "94.4", True), ("94.47", "94.4", False), ("0.12", "0.115", True), ("0.13", "0.115", False),
])  # fmt: skip
def test_a_figure_agrees_when_it_is_rounded(quoted, expected, is_right):
    assert quotes._agree(quoted, expected) == is_right


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda c: c["tables"]["table1"][5]["here"].update(mean=1.0), "its seeds give"),
        (lambda c: c["tables"]["table1"][5]["here"].update(std=None), "its seeds give"),
        (lambda c: c["tables"]["table1"][5]["t_test"].update(p=0.5), "p is 0.5, and the seeds give"),
        (lambda c: c["runs"][0]["metrics"]["test"].update(accuracy=0.0), "seed 0 is"),
        (lambda c: c["runs"].append(c["runs"][0] | {"seed": 9}), "leaves out seed 9, whose run has"),
    ],
)
def test_a_json_that_does_not_follow_from_its_runs_is_named(copy, edit, message):
    edit_json(copy, edit)
    problems = list(verify.check_table(copy))
    assert problems and message in problems[0].message


def test_runs_that_name_their_fold_or_dataset_are_compared_too(copy):
    for name in ("mathgpt/results/laptop/table3", "mathgpt/results/laptop/table6"):
        path = copy.with_name("other.json")
        shutil.copy(ROOT / f"experiments/{name}.json", path)
        edit_json(path, lambda c: None)
        assert not list(verify.check_table(path))
        edit_json(path, lambda c: c["runs"][0]["metrics"]["test"].clear())
        assert "and its run has None" in next(iter(verify.check_table(path))).message
        edit_json(path, lambda c: c["runs"].pop(0))
        assert "no run of seed 0" in next(iter(verify.check_table(path))).message
    assert verify.list_tasks("ofeq-headline") == {"ofeq-headline", "headline"} and verify.list_tasks("mme") == {"mme"}


README = """# Title

<!-- figures
file = "table.md"
rows."ours" = {{ row = "NumGPT" }}
rows."p" = {{ row = "GPT", value = "p" }}
rows."elsewhere" = {{ skip = "not committed" }}
-->
| | MME |
|---|---|
| ours | {figure} |
| GPT | 79.0 ± 1.8 |
| p | 0.02 |
| elsewhere | 1.0 ± 2.0 |

The text says {quote}.

<!-- figures
file = "table.md"
quotes."88.2 ± 0.4" = {{ row = "GPT", column = "GNC" }}
-->
"""
SOURCE = """| system | MME paper | MME here | MME p | GNC here |
| --- | ---: | ---: | ---: | ---: |
| NumGPT | 97.16 ± 0.55 | 97.58 ± 0.39 | – | 1.00 |
| GPT | 78.99 ± 1.81 | 79.04 ± 1.80 | 0.021 * | 88.17 ± 0.35 |
"""


@pytest.mark.parametrize(
    ("figure", "quote", "message"),
    [
        ("**97.6 ± 0.4** (97.2)", "88.2 ± 0.4", ""),
        ("98", "88.2 ± 0.4", ""),
        ("97.59", "88.2 ± 0.4", "11: '97.59' is 97.58"),
        ("97.58 ± 0.390", "88.2 ± 0.4", ""),
        ("97.7 ± 0.4", "88.2 ± 0.4", "11: '97.7 ± 0.4' is 97.58 0.39 in its source"),
        ("97.6 ± 0.5", "88.2 ± 0.4", "11: '97.6 ± 0.5' is"),
        ("97.6 ± 0.4 (97.3)", "88.2 ± 0.4", "11: '97.6 ± 0.4 (97.3)' is 97.58 0.39 97.16 in its source"),
        ("97.6", "88.3 ± 0.4", "18: '88.2 ± 0.4' is not in the text of this section"),
        ("97.6", "88.2 ± 0.4, and 7.0 ± 1.0", "16: '7.0 ± 1.0' names no source"),
    ],
)
def test_a_quoted_figure_is_compared_to_the_digits_that_it_has(tmp_path, figure, quote, message):
    (tmp_path / "table.md").write_text(SOURCE)
    path = tmp_path / "README.md"
    path.write_text(README.format(figure=figure, quote=quote))
    problems, n_figures = quotes.check_readme(path)
    texts = [f"{line}: {text}" for _, line, text in problems]
    assert n_figures == 4
    assert any(message in text for text in texts) if message else not texts


def test_a_source_that_is_gone_is_named(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(README.format(figure="97.6", quote="88.2 ± 0.4"))
    assert all("no such source" in problem.message for problem in quotes.check_readme(path)[0])
    (tmp_path / "table.md").write_text(SOURCE.replace("| GPT", "| Gpt"))
    assert any("row 'GPT'" in problem.message for problem in quotes.check_readme(path)[0])


def judge(folder, values, than=None, counts=FAIR, paper=None, **claim) -> claims.Verdict:
    def make_entry(row, row_values, mean):
        return {
            "row": row,
            "column": "MME",
            "task": "mme",
            "seeds": {str(i): v for i, v in enumerate(row_values)},
        } | {"paper": None if mean is None else {"mean": mean}}

    entries = [make_entry("NumGPT", values, paper), *([make_entry("GPT", than, None)] if than else [])]
    content = {"tables": {"table": entries}, "trials": counts, "scale": "laptop"}
    (folder / "table.json").write_text(json.dumps(content))
    words = {"file": "table.json", "column": "MME", "row": "NumGPT"} | ({"than": "GPT"} if than else {})
    return claims.judge(words | claim, folder)


def test_a_comparison_holds_where_its_interval_lies_on_the_claimed_side(tmp_path):
    low, high = [50.0, 51.0, 52.0], [60.0, 61.5, 61.0]
    assert judge(tmp_path, high, low).verdict == claims.HELD
    assert judge(tmp_path, low, high).verdict == claims.NOT_HELD
    assert judge(tmp_path, low, high, lower=True).verdict == claims.HELD
    assert judge(tmp_path, [50.0, 53.0, 52.0], low).verdict == claims.TOO_SMALL
    assert judge(tmp_path, [99.0], [1.0]) == claims.Verdict(
        claims.TOO_SMALL, "one seed", "99.0 against 1.0", "–", "laptop"
    )
    # Paired by seed: both rows vary by far more than their difference.
    assert judge(tmp_path, [10.0, 50.0, 90.0], [9.0, 49.1, 88.9]).verdict == claims.HELD


def test_what_is_too_small_says_how_many_seeds_would_do(tmp_path):
    verdict = judge(tmp_path, [50.0, 53.0, 52.0], [50.0, 51.0, 52.0])  # differences 0, 2 and 0
    assert verdict.reason.startswith("3 seeds, and 0 is in the interval; a difference of this size needs at least ")
    needed, margins = int(verdict.reason.rpartition(" ")[2]), np.asarray([0.0, 2.0, 0.0])
    bounds = [
        stats.t.interval(0.95, n - 1, margins.mean(), margins.std(ddof=1) / np.sqrt(n))[0]
        for n in (needed - 1, needed)
    ]
    assert bounds[0] <= 0 < bounds[1]
    tiny = judge(tmp_path, [50.0, 52.0, 50.1], [51.0, 51.0, 50.0])
    assert tiny.reason.endswith("needs more than 100")


def test_no_ranking_stands_with_unequal_trials_or_below_the_floor(tmp_path):
    low, high = [50.0, 51.0, 52.0], [60.0, 61.5, 61.0]
    for values, than in ((high, low), (low, high)):
        verdict = judge(tmp_path, values, than, {"GPT": 0, "NumGPT": 9})
        assert (
            verdict.verdict == claims.TOO_SMALL
            and "settings were chosen for NumGPT (9 trials), and" in verdict.reason
        )
    assert judge(tmp_path, high, low, {"GPT": 9, "NumGPT": 9}).verdict == claims.HELD
    assert judge(tmp_path, high, low, {"gnc": {"GPT": 0, "NumGPT": 9}}).verdict == claims.HELD
    assert judge(tmp_path, high, low, {"mme": {"GPT": 0, "NumGPT": 9}}).verdict == claims.TOO_SMALL
    counts = {"GPT": 0, "NumGPT": 0, "NumGPT, pre-trained": 3}
    assert judge(tmp_path, high, low, counts).verdict == claims.HELD, "the two rows had the same trials"
    with pytest.raises(KeyError):
        judge(tmp_path, high, low, {"GPT": 0, "NumGPT": 0}, labels=["NumGPT", "GPT, digits"])
    by_task = {"mme": {"GPT": 0, "NumGPT": 9}}
    with pytest.raises(KeyError, match="trials by task: give the claim the task"):
        judge(tmp_path, high, low, by_task, path="tables/table/0/seeds/*")
    verdict = judge(tmp_path, high, low, floor=62.0, floor_of="a constant")
    assert verdict.verdict == claims.TOO_SMALL and "a constant, 62" in verdict.reason
    assert judge(tmp_path, high, low, floor=55.0, floor_of="a constant").verdict == claims.HELD


def test_every_comparison_of_the_front_table_knows_the_trials_of_its_rows():
    papers = tomllib.loads((ROOT / "experiments" / claims.FILE).read_text())["paper"]
    silent = {
        claim["file"]
        for paper in papers
        for claim in paper["claim"]
        if "than" in claim and not json.loads((ROOT / "experiments" / claim["file"]).read_text()).get("trials")
    }
    assert silent == UNTUNED


def test_a_figure_of_the_paper_holds_where_the_mean_reaches_it(tmp_path):
    values = [60.0, 61.5, 61.0]
    for paper, verdict in ((60.5, claims.HELD), (61.5, claims.TOO_SMALL), (70.0, claims.NOT_HELD)):
        assert judge(tmp_path, values, paper=paper).verdict == verdict
    assert judge(tmp_path, values, paper=70.0, lower=True).verdict == claims.HELD
    assert judge(tmp_path, values, paper=60.5, counts={"GPT": 0, "NumGPT": 9}).verdict == claims.HELD


def test_the_interval_of_a_mean_is_that_of_scipy(rng):
    values = rng.normal(3, 1, 5)
    expected = stats.t.interval(0.95, 4, values.mean(), stats.sem(values))
    assert claims.find_interval(values.tolist()) == pytest.approx(expected)


def test_a_front_table_that_is_edited_by_hand_is_named(tmp_path):
    folder = tmp_path / "experiments"
    shutil.copytree(ROOT / "experiments", folder, ignore=shutil.ignore_patterns("*.png", "*.py", "*.ipynb"))
    shutil.copy(ROOT / claims.README, tmp_path)
    assert not claims.check(folder)
    path = folder / claims.README
    text = path.read_text()
    path.write_text(text.replace("**too small to tell**: no fair", "**held**: no fair", 1))
    ((_, line, _),) = claims.check(folder)
    assert "NumGPT" in text.splitlines()[line - 1]
    claims.write(folder)
    assert path.read_text() == text
    end = text.index("<!-- end of claims -->")
    path.write_text(f"{text[:end]}\n{text[end:]}")
    ((_, line, _),) = claims.check(folder)
    assert line == text[:end].count("\n") + 1
    claims.write(folder)
    front = tmp_path / claims.README
    text = front.read_text()
    front.write_text(text.replace("| [NumGPT]", "| the best: [NumGPT]").replace(": mantissas", ": all mantissas"))
    assert [problem.path for problem in claims.check(folder)] == [front]
    claims.write(folder)
    assert front.read_text() == text


# ---------------------------------------------------------------------------------------------------
# Trials.


@pytest.fixture
def training(monkeypatch):
    """Training whose validation accuracy is highest, and whose test accuracy is lowest, at a rate of 1e-3."""
    calls = []

    def train(system, data, folder, seed, score, compiled=None, note=None):
        config = json.loads((folder.parent / "config.json").read_text())
        rate, tested = config["optim"]["learning_rate"], config["eval"]["test"]
        calls.append((folder.parent.name.split("-")[0], seed, rate, tested))
        closeness = float(np.exp(-abs(np.log10(rate) + 3)))
        metrics = {"validation": {"accuracy": closeness}}
        return metrics | ({"test": {"accuracy": 1 - closeness}} if tested else {}), None

    monkeypatch.setattr(runs, "train", train)
    monkeypatch.setattr(runs, "assemble", lambda config, folder: None)
    monkeypatch.setattr(runs, "load_data", lambda *args, **kwargs: None)
    return calls


def test_every_row_gets_the_same_trials_chosen_on_validation(tmp_path, training, capsys):
    options = SimpleNamespace(scale="smoke", as_published=False, out=tmp_path, trials=3)
    cells = [settings.make_cell(options, "mme", system) for system in ("gpt", "numgpt")]
    grid = {"optim.learning_rate": (1e-2, 1e-3, 1e-4), "backbone.dropout": (0.0,)}
    chosen, trial_entries = trials.prepare(cells, options, grid, settings.SYSTEMS, settings.PILOT)
    rates = {name: [rate for system, _, rate, _ in training if system == name] for name in ("gpt", "numgpt")}
    assert rates == {"gpt": [1e-2, 1e-3, 1e-4], "numgpt": [1e-2, 1e-3, 1e-4]}
    assert {(seed, tested) for _, seed, _, tested in training} == {(trials.SEED, False)}, "test is never scored"
    assert "mme/gpt-trial1 seed 1000: validation accuracy 1.0000" in capsys.readouterr().err
    assert [cell.config.optim.learning_rate for cell in chosen] == [1e-3, 1e-3]
    assert all(cell.config.eval.test for cell in chosen)
    assert trial_entries["trials"] == {"GPT, subwords": 3, "NumGPT": 3} and trials.is_fair(trial_entries["trials"])
    assert [trial["chosen"] for trial in trial_entries["trial_records"]["mme/gpt"]] == [False, True, False]
    # A trial is a run: it is not run again, nor where a table's JSON brings it.
    trials.prepare(cells, options, grid, settings.SYSTEMS, settings.PILOT)
    assert len(training) == 6
    (tmp_path / "table.json").write_text(json.dumps(stored.pack([]) | trial_entries))
    elsewhere = SimpleNamespace(**vars(options) | {"out": tmp_path / "elsewhere"})
    stored.adopt([str(tmp_path / "table.json")], elsewhere.out)
    again, entries_again = trials.prepare(cells, elsewhere, grid, settings.SYSTEMS, settings.PILOT)
    assert len(training) == 6
    assert json.loads(json.dumps(entries_again)) == json.loads(json.dumps(trial_entries))
    assert [cell.config.to_dict() for cell in again] == [cell.config.to_dict() for cell in chosen]
    table = json.loads((tmp_path / "table.json").read_text())
    for code in table["trial_runs"]["code"].values():
        code["numjax.nn.norm"] = "00000000"
    (tmp_path / "table.json").write_text(json.dumps(table))
    for same_code in (False, True):
        stored.adopt([str(tmp_path / "table.json")], elsewhere.out, same_code)
    assert not list(elsewhere.out.rglob("known/*/seed_*.json")), "trials of other code, copied before, are left out"
    # Trials of a part of the grid leave the rest as it was chosen by hand.
    options.trials = 2
    _, trial_entries = trials.prepare(cells, options, grid, settings.SYSTEMS, settings.PILOT)
    assert trial_entries["trials"] == {"GPT, subwords": 2, "NumGPT": 2 + 9}
    with pytest.raises(UsageError, match=r"--trials=4: give 0 to 3"):
        trials.list_trials(grid, 4)


def test_overnight_settings_are_tried_on_one_task_and_hold_for_all(tmp_path, training, monkeypatch):
    options = SimpleNamespace(scale="overnight", as_published=False, out=tmp_path, trials=3)
    cells = [settings.make_cell(options, task, system) for task in ("gnc", "mwpas") for system in ("gpt", "numgpt")]
    monkeypatch.setitem(settings.GRID, "optim.learning_rate", (3e-4, 1e-2, 2e-3))
    chosen, trial_entries = settings.prepare(cells, options)
    assert [(system, rate) for system, _, rate, _ in training] == [
        (system, rate) for system in ("gpt", "numgpt") for rate in (3e-4, 1e-2, 2e-3)
    ]
    assert trial_entries["trial_records"].keys() == {"mme/gpt", "mme/numgpt"}
    assert [cell.task for cell in chosen] == ["gnc", "gnc", "mwpas", "mwpas"]
    # The best of these by `training`; the config's own rate is another.
    assert all(cell.config.optim.learning_rate == 2e-3 and cell.config.optim.epochs == 30 for cell in chosen)
    assert trial_entries["trials"] == {"GPT, subwords": 3, "NumGPT": 3 + 9}


def test_a_trial_in_which_nothing_was_counted_is_never_chosen():
    settings = [{"lr": 1}, {"lr": 2}, {"lr": 3}]
    best, tried = trials.choose_best("x", settings, [float("nan"), 0.5, float("-inf")], "accuracy")
    assert best == {"lr": 2} and [row["accuracy"] for row in tried] == [None, 0.5, None]
    assert [row["chosen"] for row in tried] == [False, True, False]
    with pytest.raises(UsageError, match="x: all 2 trials diverged"):
        trials.choose_best("x", settings[:2], [float("nan"), float("-inf")], "accuracy")


def test_equal_trials_are_said_in_words():
    assert trials.describe({"a": 1, "b": 1}) == "every row had the same trial of settings, chosen on validation"
    assert trials.describe({"a": 3, "b": 3}).startswith("every row had the same 3 trials of settings")
    assert trials.describe({"a": 1, "b": 0}) == "settings were chosen for a (1 trial), and for no other row"


def test_without_trials_a_table_records_what_was_tried_by_hand(tmp_path):
    options = SimpleNamespace(scale="laptop", as_published=False, out=tmp_path, trials=0)
    cells = [settings.make_cell(options, "mme", "gpt")]
    chosen, trial_entries = settings.prepare(cells, options)
    assert chosen == cells and trial_entries["trials"]["NumGPT"] == 9 and not trials.is_fair(trial_entries["trials"])
    text = report.describe_trials(trial_entries | {"tables": {"t": [{"task": "mme"}]}})
    assert (
        text == "**These rows cannot be ranked**: settings were chosen for NumGPT (9 trials), and for no other row."
    )


# ---------------------------------------------------------------------------------------------------
# What is cheap is measured again.


def test_mathmlben_agrees_as_committed(real_data):
    with gzip.open(real_data("mathmlben") / "gold.jsonl.gz", "rt") as file:
        counts, rule_counts = mathmlben.count_equal(map(json.loads, file))
    committed = json.loads((ROOT / "experiments/mathgpt/results/mathmlben/mathmlben.json").read_text())
    assert (counts, rule_counts) == (committed["counts"], committed["rule_counts"])
    assert counts["raw"] <= counts["symbols"] <= counts["notation"] <= counts["parsed"] <= counts["formulas"]


def test_gold_answers_are_reproduced_as_committed(real_data):
    counts = gold.count_right(gold.read_questions(real_data("tatqa")))
    committed = json.loads((ROOT / "experiments/luna/results/gold/gold.json").read_text())["counts"]
    assert {name: dict(by_kind) for name, by_kind in counts.items()} == committed
    assert all(counts["first"][kind] <= counts["search"][kind] for kind in gold.KINDS)
