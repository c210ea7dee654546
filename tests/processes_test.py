"""One run in several processes: the same losses as in one, resumed on other numbers of them, nobody left behind."""

from __future__ import annotations

import functools
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from numjax.errors import UsageError
from numjax.tools import launch
from tests.runs_test import ROOT, TINY, lines

LIMIT = 240  # seconds; a hung process is killed, never left
EXAMPLES = 1600  # of the validation split
FLAGS = [f"--config.{key}={value}" for key, value in TINY.items() if key != "task.size"]


def start(
    count: int,
    workdir: pathlib.Path,
    *flags: str,
    argument: str = "smoke",
    devices: int = 1,
    stdin=None,
    name="numgpt",
):
    """A launcher at work; its processes die with it."""
    words = [f"--processes={count}", f"--devices={devices}", f"--config={name}:{argument}", f"--workdir={workdir}"]
    command = [sys.executable, "-m", "numjax.tools.launch", *words, *FLAGS, *flags]
    pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}, **pipes
    )  # type: ignore


def finish(process: subprocess.Popen, text: str | None = None) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(text, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"hung:\n{err[-3000:]}")
    return process.returncode, out, err


def done(*args, **more) -> tuple[str, str]:
    code, out, err = finish(start(*args, **more))
    assert code == 0, err[-3000:]
    return out, err


def reach(process: subprocess.Popen, workdir: pathlib.Path, step: int) -> None:
    """Waits until the run has written a step."""
    end = time.monotonic() + LIMIT
    while not (workdir / "metrics.jsonl").exists() or not lines(workdir) or lines(workdir)[-1]["step"] < step:
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            pytest.fail(f"did not reach step {step}:\n{process.communicate()[1][-3000:]}")
        time.sleep(0.05)


def losses(workdir: pathlib.Path) -> dict[int, float]:
    return {row["step"]: row["loss"] for row in lines(workdir)}


def same(mine: dict[int, float], theirs: dict[int, float]) -> int:
    """Losses are equal, step for step; returns the last step."""
    assert list(mine) == list(theirs)
    np.testing.assert_allclose(list(mine.values()), list(theirs.values()), rtol=1e-5)
    return max(mine)


def same_said(mine: pathlib.Path, theirs: pathlib.Path) -> int:
    """Each validation example has its own prediction, once, whichever process had it; returns how many there are."""
    said = [
        [json.loads(line) for line in (folder / "predictions" / "mme.validation.jsonl").read_text().splitlines()]
        for folder in (mine, theirs)
    ]
    assert [row["id"] for row in said[0]] == [row["id"] for row in said[1]]
    np.testing.assert_allclose(*[[row["confidence"] for row in rows] for rows in said], rtol=1e-4)
    return len(said[0])


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The same run in one process."""
    workdir = tmp_path_factory.mktemp("alone")
    done(1, workdir)
    return workdir


def test_two_processes_train_and_evaluate_as_one(alone, tmp_path):
    done(2, tmp_path, "--config.mesh.fsdp=2", "--config.mesh.data=1")
    mine, theirs = losses(tmp_path), losses(alone)
    assert list(mine) == list(theirs) and max(mine) == 40
    np.testing.assert_allclose(list(mine.values()), list(theirs.values()), rtol=1e-5)
    validated = [[row["loss"] for row in lines(folder, "validation")] for folder in (tmp_path, alone)]
    np.testing.assert_allclose(*validated, rtol=1e-5)
    same_said(tmp_path, alone)


@pytest.mark.parametrize(("count", "devices", "data"), [pytest.param(2, 1, 1, marks=pytest.mark.whole), (2, 2, 2)])
def test_a_tensor_axis_across_processes_trains_as_one(count, devices, data, alone, tmp_path):
    """All of them read the same rows: of a mesh of 1 × 2, and of 2 × 2 where each has a column."""
    module = "numjax.main" if devices == 1 else "tests.interleaved"
    flags = ["--config.mesh.tensor=2", f"--config.mesh.data={data}", f"--module={module}"]
    done(count, tmp_path, *flags, devices=devices)
    assert same(losses(tmp_path), losses(alone)) == 40
    assert same_said(tmp_path, alone) == EXAMPLES


def test_predictions_are_of_their_own_examples_wherever_the_mesh_has_them(alone, tmp_path):
    shutil.copytree(alone, tmp_path / "two")
    (tmp_path / "two" / "predictions" / "mme.validation.jsonl").unlink()
    done(2, tmp_path / "two", "--mode=eval", "--module=tests.interleaved", devices=2)
    assert same_said(tmp_path / "two", alone) == EXAMPLES


@pytest.mark.whole
def test_processes_whose_rows_do_not_lie_side_by_side_train_and_evaluate_as_one(tmp_path):
    """Also with dropout and microbatches, which go by a row's place in the batch."""
    flags = ["--config.optim.accumulate=2", "--config.backbone.dropout=0.3"]
    done(1, tmp_path / "alone", *flags)
    done(2, tmp_path / "two", *flags, "--module=tests.interleaved", devices=2)
    assert same(losses(tmp_path / "two"), losses(tmp_path / "alone")) == 40
    assert same_said(tmp_path / "two", tmp_path / "alone") == EXAMPLES


def test_a_stop_reaches_all_and_other_numbers_of_processes_go_on(alone, tmp_path):
    process = start(4, tmp_path)
    reach(process, tmp_path, 6)
    process.send_signal(signal.SIGTERM)
    code, _, err = finish(process)
    assert code == 143, err[-3000:]
    assert "run the same command to go on" in err
    stopped = max(losses(tmp_path))
    _, err = done(2, tmp_path, devices=2)
    assert f"resumed {tmp_path}" in err and stopped < 40
    same(losses(tmp_path), losses(alone))


def test_the_death_of_one_stops_all_and_a_restart_loses_nothing(alone, tmp_path):
    process = start(4, tmp_path)
    reach(process, tmp_path, 12)
    mine = [int(word) for word in _children(process.pid)]
    os.kill(mine[-1], signal.SIGKILL)
    began = time.monotonic()
    code, _, err = finish(process)
    assert code == 137 and time.monotonic() - began < 60, err[-3000:]
    assert "process 3 of 4 was killed by SIGKILL" in err.splitlines()[-1]
    assert not any(pathlib.Path(f"/proc/{pid}").exists() for pid in mine)
    # And what one process had written is damaged: all of them must agree on the step before.
    newest = max((tmp_path / "checkpoints").glob("[0-9]*"), key=lambda path: int(path.name))
    largest = max(newest.glob("state/ocdbt.process_1/d/*"), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    _, err = done(2, tmp_path)
    assert f"checkpoint {newest.name} in" in err and "is damaged" in err
    same(losses(tmp_path), losses(alone))


def _children(pid: int) -> list[str]:
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_no_process_survives_the_launcher(tmp_path):
    process = start(2, tmp_path)
    end = time.monotonic() + LIMIT
    while len(mine := _children(process.pid)) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    process.kill()
    process.communicate()
    while any(pathlib.Path(f"/proc/{pid}").exists() for pid in mine) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(pathlib.Path(f"/proc/{pid}").exists() for pid in mine)


def test_a_process_whose_parent_is_gone_does_not_begin():
    """The parent may be killed between the fork and the request for its death's signal."""
    for parent, code in ((os.getpid(), 0), (os.getppid(), -signal.SIGKILL)):
        begin = functools.partial(launch.die_with_parent, parent)
        assert subprocess.run([sys.executable, "-c", ""], preexec_fn=begin).returncode == code


def test_several_processes_write_as_one(tmp_path):
    done(1, tmp_path, "--config.optim.steps=2", argument="smoke,task=generation")
    prompts = ["--mode=generate", "--prompt=Tom has 12 marbles and gets 30 more.", "--prompt=What is 5 and 7?"]
    more = ["--config.optim.steps=2", *prompts]
    one, _ = done(1, tmp_path, *more, argument="smoke,task=generation")
    two, _ = done(2, tmp_path, *more, argument="smoke,task=generation")
    split, _ = done(
        2, tmp_path, *more, "--config.mesh.tensor=2", "--config.mesh.data=1", argument="smoke,task=generation"
    )
    written = [[json.loads(line) for line in text.splitlines()] for text in (one, two, split)]
    assert [row["prompt"] for row in written[0]] == ["Tom has 12 marbles and gets 30 more.", "What is 5 and 7?"]
    for other in written[1:]:
        assert [row["text"] for row in other] == [row["text"] for row in written[0]]
        np.testing.assert_allclose(
            [row["log_prob"] for row in other], [row["log_prob"] for row in written[0]], rtol=1e-4
        )


def test_what_is_piped_in_reaches_all_processes(alone):
    process = start(2, alone, "--mode=predict", "--input=-", stdin=subprocess.PIPE)
    code, out, err = finish(process, '{"question": "How many grams are 2 eggs?", "answer": "80"}\nnot a record\n')
    assert code == 0, err[-3000:]
    (row,) = [json.loads(line) for line in out.splitlines()]
    assert row["id"] == "input-1" and row["prediction"] in (0, 1) and "left out input-2" in err


FAILING = """
import os
from numjax.embed.prototype import *
from numjax.embed import prototype

class Embed(prototype.Embed):
    def host_features(self, numerals, surfaces):
        if os.environ["NUMJAX_PROCESS"] == "1":
            raise RuntimeError("boom")
        return {}
"""


def test_an_error_in_one_process_stops_all(tmp_path, monkeypatch):
    (tmp_path / "failing.py").write_text(FAILING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code, _, err = finish(start(2, tmp_path / "run", argument="smoke,embed=failing"))
    assert code == 1 and "boom" in err, err[-3000:]
    # Process 0 may notice before the launcher looks again.
    assert re.search(r"process(es 0 and)? 1 of 2 ended with exit code 1", err.splitlines()[-1])


def test_a_batch_is_checked_against_the_mesh_and_an_evaluation_fits_it(tmp_path):
    """On three devices of one process, which divide neither 8 rows nor the 32 of an evaluation."""
    for mode in ("train", "check"):
        code, _, err = finish(start(1, tmp_path / mode, f"--mode={mode}", devices=3))
        assert code == 2 and "batch_size=8 does not divide over data × fsdp=3" in err and "Traceback" not in err
    six = ["--config.optim.batch_size=6", "--config.optim.steps=2", "--config.eval.batch_size=32"]
    done(1, tmp_path / "six", *six, devices=3)
    assert (tmp_path / "six" / "predictions" / "mme.validation.jsonl").exists()
    code, _, err = finish(start(1, tmp_path / "cut", *six, "--config.optim.accumulate=4", devices=3))
    assert code == 2 and "× accumulate=4" in err


def test_processes_check_batches_whose_rows_share_tables(tmp_path):
    """What is lowered is the whole batch: it has the tables of all processes."""
    out, _ = done(2, tmp_path, "--mode=check", name="luna", argument="smoke,task=tatqa")
    assert json.loads(out.splitlines()[-1])["batch_shapes"] == [[8, 96]]


@pytest.mark.parametrize(
    ("codes", "cause"), [((2, -6), 2), ((-9, 5), -9), ((5, -6), 5), ((-6,), -6), ((4, 4, -11), 4)]
)
def test_what_ended_a_run_is_told_from_what_follows_from_it(codes, cause):
    for some in itertools.permutations(codes):
        assert min(some, key=launch._rank_cause) == cause


def test_bad_flags_are_said(tmp_path):
    with pytest.raises(UsageError, match="at least 1"):
        launch.main(["--processes=0", "--config=numgpt"])
    code, _, err = finish(start(2, tmp_path, "--config.optim.batch_size=7"))
    assert code == 2 and "batch_size=7 does not divide over data × fsdp=2" in err


def test_what_the_first_process_cannot_have_is_said_by_all(tmp_path):
    (tmp_path / "file").write_text("in the way")
    code, _, err = finish(start(2, tmp_path / "file" / "run"))
    assert code == 2, err[-3000:]
    assert err.count("numjax: cannot write to") == 2 and "Traceback" not in err
