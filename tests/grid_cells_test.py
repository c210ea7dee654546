"""Cells on disk, leases, baselines and ceilings of the grid."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import types
from decimal import Decimal
from typing import Any, cast

import pytest

from numjax.build import find
from numjax.bundled.data.arithmetic.operations import OPERATIONS
from numjax.bundled.experiments import identity
from numjax.bundled.experiments.grid import (
    abilities,
    archive,
    baselines,
    cells,
    leases,
    problems,
    rows,
    runner,
    scoring,
    training,
)
from numjax.bundled.experiments.grid.scales import SCALES, Scale, choose_columns
from numjax.bundled.experiments.grid.training import build_system
from numjax.errors import UsageError
from tests.conftest import ROOT
from tests.grid_jobs import TINY, make_job
from tests.runs_test import cache  # noqa: F401  (the fixture builds datasets once)

NUMBER = r"-?[0-9][0-9,]*(?:\.[0-9]+)?(?:e-?[0-9]+)?"
ALL = Scale("all", "smoke", problems=20, test=6, validation=1)


def test_an_oracle_is_always_right_on_every_column(tmp_path):
    outcome = runner.run_job(make_job("oracle", tmp_path, ALL))
    loaded = list(cells.load_cells(tmp_path))
    assert outcome.cells == len(loaded) == len(OPERATIONS)
    for cell in loaded:
        for metrics in (cell["metrics"], *cell["streams"].values()):
            assert metrics["exact"] == metrics["well_formed"] == 1, cell["column"]
            assert metrics["digits"] in (1, None) and metrics["log_smape"] in (1, None)
            assert metrics["relative_error_median"] in (0, None) and metrics["sign_errors"] in (0, None)
        assert set(cell["ceiling"].values()) == {1.0}


def make_records(answers):
    return [
        {"id": str(i), "question": f"{a} + 0 =", "answer": a, "accepted": a, "operation": "add", "stream": "inside"}
        for i, a in enumerate(answers)
    ]


def test_baselines_answer_the_most_frequent_answer_and_the_first_number():
    train, test = make_records(["3", "7", "7", "12"]), make_records(["5", "7"])
    assert [a.text for a in baselines.answer_all("constant", test, train).values()] == ["7", "7"]
    assert [a.text for a in baselines.answer_all("copy", test, []).values()] == ["5", "7"]
    assert baselines.answer_all("copy", [{**test[0], "question": "?"}], [])["0"].text is None
    constant = scoring.score(test, baselines.answer_all("constant", test, train))
    assert constant["exact"] == 0.5 and constant["within_1_percent"] == 0.5
    assert constant["relative_error_median"] == pytest.approx((0 + 2 / 5) / 2)


def test_metrics_of_answers_that_are_no_numbers():
    records = make_records(["10", "-10", "0", "100"])
    answers = {"0": scoring.Answer("10", 0.9), "1": scoring.Answer("10", 0.9), "2": scoring.Answer("ten", 0.2)}
    metrics = scoring.score(records, answers)
    assert metrics["exact"] == 0.25 and metrics["well_formed"] == 0.5 and metrics["sign_errors"] == 0.75
    assert metrics["log_error"] == 0 and metrics["log_smape"] == 0.25
    assert metrics["relative_error_median"] is None  # of 0, 2, and two that are no numbers, the median is none
    assert metrics["calibration_error"] == pytest.approx((abs(1 - 1.8) + 0.2) / 3)
    assert scoring.score(records, {})["calibration_error"] is None


@pytest.mark.parametrize(
    ("head", "has_probability"), [("token", True), ("prefix", True), ("fone", False), ("carry_save", False)]
)
def test_a_model_states_a_probability_where_it_draws_every_symbol(head, has_probability, tmp_path):
    """A number's prefix is no number that the head predicts: its digits are drawn as any token."""
    model = types.SimpleNamespace(heads={"next": find("heads", head)}, writer="next")
    config = types.SimpleNamespace(task=types.SimpleNamespace(name="arithmetic"))
    (tmp_path / "predictions").mkdir()
    line = {"id": "0", "prediction": "7", "log_prob": -1.0}
    (tmp_path / "predictions" / "arithmetic.jsonl").write_text(json.dumps(line), encoding="utf-8")
    system = cast("Any", types.SimpleNamespace(model=model, config=config))
    (answer,) = training.load_answers(tmp_path, system).values()
    assert answer.text == "7" and (answer.probability is not None) == has_probability


def can_write_places(text: str, integer: int = 13) -> bool:
    """Whether so many digits before the point and 5 behind it hold each number of an answer as it is written."""
    form = rf"-?(0|[1-9][0-9]{{0,{integer - 1}}})(\.[0-9]{{0,4}}[1-9])?"
    return all(re.fullmatch(form, number) is not None for number in re.findall(NUMBER, text.replace(" , ", " ; ")))


def can_write_slots(text: str) -> bool:
    """Twenty slots of five digits are more than any problem needs."""
    return can_write_places(text, 100)


def can_write_three_digits(text: str) -> bool:
    """Whether three significant digits times 10^-12 … 10^12 are each number, and it is written plainly."""

    def is_near(number: str) -> bool:
        value = Decimal(number.replace(",", ""))
        digits = "".join(map(str, value.as_tuple().digits)).strip("0")
        return len(digits) <= 3 and (not value or -10 <= value.adjusted() <= 14)

    return all(map(is_near, re.findall(NUMBER, text.replace(" , ", " ; "))))


@pytest.mark.parametrize(
    ("row", "columns", "can_write"),
    [
        ("digits", ("copy", "sort", "frac", "convert"), lambda text: True),
        ("fone", ("add", "sort", "copy", "frac"), can_write_places),
        ("fone_slots", ("add", "sort", "copy", "frac"), can_write_slots),
        ("p10", ("add", "decadd", "max"), can_write_three_digits),
    ],
)
def test_ceilings_are_the_share_of_answers_that_a_row_can_write(row, columns, can_write, tmp_path):
    scale = Scale("ceiling", "smoke", 16, 1, 2, problems=40, test=12, validation=1, columns=columns)
    config = rows.make_config(rows.list_rows()[row], scale, columns)
    system, records, own = build_system(config, tmp_path)
    expected = [can_write(record["answer"]) for record in records]
    wrong = [
        (record["answer"], ability.is_exact)
        for record, ability, flag in zip(records, own, expected, strict=True)
        if ability.is_exact != flag
    ]
    assert not wrong and (all(expected) or 0 < sum(expected) < len(expected))
    ceilings = abilities.list_ceilings(records, own)
    assert ceilings["all"] == pytest.approx(sum(expected) / len(expected))
    assert set(ceilings) == {"all", *problems.list_streams(records)}
    if row == "fone":
        assert abilities.slots_per_number(own) == 1
    longest = max(ability.prompt + ability.answer for ability in own)
    assert system.config.data.length >= longest
    assert system.config.decode.max_tokens > max(ability.answer for ability in own)


@pytest.mark.parametrize("row", ["digits", "scratchpad"])
def test_steps_before_an_answer_cost_slots_and_are_no_further_numbers(row, tmp_path):
    scale = Scale("slots", "smoke", 16, 1, 2, problems=40, test=6, validation=1, columns=("add",))
    _, records, own = build_system(rows.make_config(rows.list_rows()[row], scale, ("add",)), tmp_path)
    for record, ability in zip(records, own, strict=True):
        numbers = re.findall("[0-9]+", f"{record['question']} {record['answer']}")
        n_steps = max(map(len, numbers[:2])) if row == "scratchpad" else 0
        # Each number stands between two marks; a step has two numbers of one digit.
        assert (ability.numbers, ability.slots) == (3, len("".join(numbers)) + 3 * 2 + n_steps * 2 * 3)


def test_problems_of_each_column_take_turns():
    records = [{"operation": name, "id": f"{name}{i}"} for name in "ab" for i in range(3)]
    assert [record["id"] for record in problems.select(records, 2)] == ["a0", "b0", "a1", "b1"]
    assert len(problems.select(records, 9)) == 6


@pytest.fixture
def copies(tmp_path):
    """A job whose cells are written."""
    job = make_job("copy", tmp_path)
    assert runner.run_job(job).state == runner.DONE
    return job


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"form": 1, "row"', "half a file or no JSON"),
        ("[]", r"an older form of cells \(None\)"),
        ('{"form": 0}', r"an older form of cells \(0\)"),
        ('{"form": 1, "row": "copy"}', "no whole cell, without column, scale, seed"),
    ],
)
def test_a_broken_cell_is_one_line_and_kept(copies, content, says, capsys):
    path = copies.path("max")
    path.write_text(content)
    assert runner.run_job(copies).cells == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if path.name in line]
    assert len(lines) == 1 and re.search(says, lines[0]) and "it goes to" in lines[0]
    (kept,) = (copies.folder / "replaced").iterdir()
    assert kept.read_text() == content and cells.load_cell(path)["row"] == "copy"


def test_a_newer_cell_is_never_replaced(copies):
    path = copies.path("copy")
    path.write_text('{"form": 2}')
    outcome = runner.run_job(copies)
    assert outcome.state == runner.FAILED and "a newer form of cells (2)" in outcome.message
    assert path.read_text() == '{"form": 2}'
    errors = [cell for cell in cells.load_cells(copies.folder) if isinstance(cell, UsageError)]
    assert len(errors) == 1 and path.name in str(errors[0])


def test_a_cell_of_other_settings_names_them_and_is_kept(copies, capsys):
    before = cells.load_cell(copies.path("max"))
    other = copies._replace(scale=copies.scale._replace(test=5))
    assert identity.make_key(cells.list_settings(other)) != before["key"]
    assert runner.run_job(other).cells == 2
    assert (
        "another result (grid.problems is" in (errors := capsys.readouterr().err)
        and "task.test is 4, not 5" in errors
    )
    assert len(list((copies.folder / "replaced").iterdir())) == 2
    # And back again: nothing is lost, and the first cell comes back as it was.
    runner.run_job(copies)
    after = cells.load_cell(copies.path("max"))
    assert {**after, "machine": None} == {**before, "machine": None}


def test_a_joint_run_is_needed_only_for_the_columns_that_are_asked_for(copies):
    copies.path("max").unlink()
    assert runner.run_job(copies._replace(needed=("copy",))).state == runner.KEPT
    assert runner.run_job(copies._replace(needed=("max",))).cells == 1


def test_two_runners_write_a_cell_once(copies):
    path = copies.path("max")
    cell, stamp = cells.load_cell(path), path.stat().st_mtime_ns
    cells.write_cell(copies, cell)
    assert path.stat().st_mtime_ns == stamp and not (copies.folder / "replaced").exists()


def test_keys_depend_on_the_row_the_problems_and_the_sizes(tmp_path):
    job = make_job("digits", tmp_path)
    others = [
        job._replace(row=rows.list_rows()["ntl"]),
        job._replace(row=rows.parse_addition("mine=digits positions.sequence=rope")),
        *(
            job._replace(scale=job.scale._replace(**{name: 7}))
            for name in ("steps", "batch_size", "problems", "test")
        ),
        job._replace(scale=job.scale._replace(rates=(2e-3,))),
    ]
    keys = [identity.make_key(cells.list_settings(each)) for each in (job, *others)]
    assert len(set(keys)) == len(keys)
    assert identity.make_key(cells.list_settings(job._replace(seed=5))) == keys[0]


def test_an_option_that_was_added_later_leaves_cells_as_they_are(tmp_path):
    """Settings that lack an option which has its default say the same; with another value they do not."""
    job = make_job("digits", tmp_path)
    settings, key = cells.choose_key(job)
    assert key == identity.make_key(settings)
    older = {path: value for path, value in settings.items() if path != "objectives.next.number_weight"}
    assert len(older) == len(settings) - 1
    older_key = cells.write_once(tmp_path, "settings", older)
    found, found_key = cells.choose_key(job)
    assert found_key == older_key != key and found == json.loads(json.dumps(older))
    weighted = job._replace(row=rows.parse_addition("digits=digits objectives.next.number_weight=0.5"))
    assert cells.choose_key(weighted)[1] not in (key, older_key)
    (tmp_path / "settings" / "0.json").write_text("[]")
    cells.write_once(tmp_path, "settings", settings)
    assert cells.choose_key(job)[1] == key, "its own settings come before others"
    cell = dict.fromkeys(cells.FIELDS, None) | {"form": cells.FORM, "key": older_key}
    path = job.path("max")
    path.parent.mkdir()
    path.write_text(json.dumps(cell))
    assert cells.choose_key(job)[1] == older_key, "and those of cells that are there come first"


RESULTS = ROOT / "experiments/grid/results"


@pytest.fixture(scope="module")
def committed_cells(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("committed")
    archive.unpack(RESULTS, folder)
    return folder


@pytest.mark.parametrize("path", sorted((RESULTS / "cpu/cells").glob("*.json.gz")), ids=lambda path: path.name)
def test_committed_cells_are_those_of_the_present_code(path, committed_cells):
    """A change that makes another result of a row must remove its cells, or leave the row's settings as they were."""
    row = path.name.removesuffix(".json.gz")
    scale = SCALES["cpu"]
    job = cells.Job(rows.list_rows()[row], scale, choose_columns([], scale), 0, str(committed_cells))
    assert not cells.list_missing(job, cells.choose_key(job)[1])


def test_an_addition_takes_single_options_in_the_order_of_its_words():
    def make(*changes):
        return rows.make_config(rows.parse_addition(" ".join(["mine=fone", *changes])), Scale("smoke"), ("add",))

    assert make().heads.next.get("projected", True) and not make("heads.next.projected=False").heads.next.projected
    assert not make("--config.heads.next.projected=False").heads.next.projected
    after = make("embeds.numeral=fone:integer=12", "embeds.numeral.fraction=3").embeds.numeral
    assert (after.integer, after.fraction) == (12, 3)
    assert make("embeds.numeral.fraction=3", "embeds.numeral=fone:integer=12").embeds.numeral.fraction != 3
    for change, message in (
        ("heads.next.projecte=False", r"head 'fone' has no option 'projecte': did you mean projected"),
        ("heads.next.projected=12", r"projected must be bool"),
        ("heads.nxt.projected=False", r"heads\.nxt\.projected=False: this row has no heads\.nxt"),
    ):
        with pytest.raises(UsageError, match=f"^--add=mine: .*{message}"):
            make(change)


def test_a_lease_keeps_others_out_while_its_holder_lives(tmp_path):
    with leases.hold(tmp_path, "a"):
        with pytest.raises(leases.Held, match=rf"a is with process {os.getpid()} on "), leases.hold(tmp_path, "a"):
            pass
        with leases.hold(tmp_path, "b"):
            assert (tmp_path / "leases" / "b.json").exists()
        assert not (tmp_path / "leases" / "b.json").exists()
    with leases.hold(tmp_path, "a"):
        pass


def test_a_held_job_is_left_to_its_holder(copies):
    copies.path("max").unlink()
    with leases.hold(copies.folder, copies.name):
        outcome = runner.run_job(copies)
    assert outcome.state == runner.HELD and str(os.getpid()) in outcome.message
    assert not copies.path("max").exists()


def test_a_lease_of_a_dead_process_is_taken_over(tmp_path):
    code = f"""
import os, pathlib
from numjax.bundled.experiments.grid import leases
with leases.hold(pathlib.Path({str(tmp_path)!r}), "a"):
    os._exit(9)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    assert (tmp_path / "leases" / "a.json").exists()
    with leases.hold(tmp_path, "a"):
        assert json.loads((tmp_path / "leases" / "a.json").read_text())["pid"] == os.getpid()


def test_a_lease_of_another_machine_is_taken_over_when_it_is_no_longer_touched(tmp_path):
    path = tmp_path / "leases" / "a.json"
    path.parent.mkdir()
    path.write_text('{"host": "elsewhere", "pid": 1, "since": "2030-01-01T00:00:00"}')
    with pytest.raises(leases.Held, match="process 1 on elsewhere since 2030"), leases.hold(tmp_path, "a"):
        pass
    old = path.stat().st_mtime - leases.PATIENCE - 1
    os.utime(path, (old, old))
    with leases.hold(tmp_path, "a"):
        pass


def test_a_lease_is_touched_while_it_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(leases, "BEAT", 0.01)
    path = tmp_path / "leases" / "a.json"
    with leases.hold(tmp_path, "a"):
        os.utime(path, (0, 0))
        is_touched = threading.Event()
        for _ in range(500):
            if path.stat().st_mtime > 1:
                is_touched.set()
                break
            is_touched.wait(0.01)
        assert is_touched.is_set()


@pytest.mark.parametrize("content", ['{"host": "elsewhere", "pid": 1}', None])
def test_a_holder_notices_that_its_lease_was_taken_over(content, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(leases, "BEAT", 0.01)
    path = tmp_path / "leases" / "a.json"
    with leases.hold(tmp_path, "a") as lease:
        lease.check()
        path.unlink() if content is None else path.write_text(content)
        if content:
            os.utime(path, (0, 0))
        said = ""
        for _ in range(500):
            said += capsys.readouterr().err
            if said:
                break
            threading.Event().wait(0.01)
        with pytest.raises(leases.TakenOver, match=r"a is with .*lost it, and writes no more"):
            lease.guard(path.touch)()
        assert (said + capsys.readouterr().err).count("writes no more") == 1, "one line"
        if content:
            assert path.stat().st_mtime == 0, "the lease of the other is not kept alive"
    assert path.exists() == bool(content)


def test_a_disturbed_file_system_costs_no_lease(tmp_path):
    path = tmp_path / "leases" / "a.json"
    with leases.hold(tmp_path, "a") as lease:
        whole = path.read_text()
        path.write_text(whole[:9])
        lease.check()
        path.write_text(whole)


def test_one_of_many_gets_a_stale_lease(tmp_path, monkeypatch):
    is_stale = leases._is_stale

    def look_slowly(path):
        answer = is_stale(path)
        threading.Event().wait(0.02)  # without the lock, the others would see the stale lease meanwhile
        return answer

    monkeypatch.setattr(leases, "_is_stale", look_slowly)
    path = tmp_path / "leases" / "a.json"
    path.parent.mkdir()
    path.write_text('{"host": "elsewhere"}')
    os.utime(path, (0, 0))
    winners, losers, everyone = [], [], threading.Barrier(8)

    def take():
        everyone.wait()
        try:
            with leases.hold(tmp_path, "a"):
                winners.append(1)
                for _ in range(500):
                    if len(losers) == 7:
                        break
                    threading.Event().wait(0.01)
        except leases.Held:
            losers.append(1)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(winners), len(losers)) == (1, 7)


def test_scales_have_the_columns_of_the_task():
    assert set(SCALES["cpu"].columns) < set(OPERATIONS) and SCALES["cpu"].is_joint
    assert set(SCALES["smoke"].columns) < set(OPERATIONS) and not SCALES["full"].is_joint
    assert TINY.list_options()["eval.every"] == 3
