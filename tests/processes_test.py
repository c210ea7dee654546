"""One run in several processes: the losses of one process, resumption with another number, no process left over."""

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

from numjax.errors import Preempted, UsageError
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
    """Starts a launcher; its processes die with it."""
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


def run_launcher(*args, **options) -> tuple[str, str]:
    code, out, err = finish(start(*args, **options))
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


def check_losses(mine: dict[int, float], theirs: dict[int, float]) -> int:
    """Checks that losses are equal at every step; returns the last step."""
    assert list(mine) == list(theirs)
    np.testing.assert_allclose(list(mine.values()), list(theirs.values()), rtol=1e-5)
    return max(mine)


def check_predictions(mine: pathlib.Path, theirs: pathlib.Path) -> int:
    """Checks that each validation example has one prediction, whichever process had it; returns their number."""
    predictions = [
        [json.loads(line) for line in (folder / "predictions" / "mme.validation.jsonl").read_text().splitlines()]
        for folder in (mine, theirs)
    ]
    assert [row["id"] for row in predictions[0]] == [row["id"] for row in predictions[1]]
    np.testing.assert_allclose(*[[row["confidence"] for row in rows] for rows in predictions], rtol=1e-4)
    return len(predictions[0])


@pytest.fixture(scope="module")
def single_run(tmp_path_factory):
    """The same run in one process."""
    workdir = tmp_path_factory.mktemp("alone")
    run_launcher(1, workdir)
    return workdir


def test_two_processes_train_and_evaluate_as_one(single_run, tmp_path):
    run_launcher(2, tmp_path, "--config.mesh.fsdp=2", "--config.mesh.data=1")
    mine, theirs = losses(tmp_path), losses(single_run)
    assert list(mine) == list(theirs) and max(mine) == 40
    np.testing.assert_allclose(list(mine.values()), list(theirs.values()), rtol=1e-5)
    validation_losses = [[row["loss"] for row in lines(folder, "validation")] for folder in (tmp_path, single_run)]
    np.testing.assert_allclose(*validation_losses, rtol=1e-5)
    check_predictions(tmp_path, single_run)


@pytest.mark.whole
@pytest.mark.parametrize(("count", "devices", "data"), [(2, 1, 1), (2, 2, 2)])
def test_a_tensor_axis_across_processes_trains_as_one(count, devices, data, single_run, tmp_path):
    """All processes load the same rows: on a mesh of 1 × 2, and of 2 × 2 where each process has a column."""
    module = "numjax.main" if devices == 1 else "tests.interleaved"
    flags = ["--config.mesh.tensor=2", f"--config.mesh.data={data}", f"--module={module}"]
    run_launcher(count, tmp_path, *flags, devices=devices)
    assert check_losses(losses(tmp_path), losses(single_run)) == 40
    assert check_predictions(tmp_path, single_run) == EXAMPLES


@pytest.mark.whole
def test_predictions_are_of_their_own_examples_wherever_the_mesh_has_them(single_run, tmp_path):
    shutil.copytree(single_run, tmp_path / "two")
    (tmp_path / "two" / "predictions" / "mme.validation.jsonl").unlink()
    run_launcher(2, tmp_path / "two", "--mode=eval", "--module=tests.interleaved", devices=2)
    assert check_predictions(tmp_path / "two", single_run) == EXAMPLES


@pytest.mark.whole
def test_processes_whose_rows_do_not_lie_side_by_side_train_and_evaluate_as_one(tmp_path):
    """Also with dropout and microbatches, which depend on a row's index in the batch."""
    flags = ["--config.optim.accumulate=2", "--config.backbone.dropout=0.3"]
    run_launcher(1, tmp_path / "alone", *flags)
    run_launcher(2, tmp_path / "two", *flags, "--module=tests.interleaved", devices=2)
    assert check_losses(losses(tmp_path / "two"), losses(tmp_path / "alone")) == 40
    assert check_predictions(tmp_path / "two", tmp_path / "alone") == EXAMPLES


@pytest.mark.whole
def test_a_stop_reaches_all_and_other_numbers_of_processes_go_on(single_run, tmp_path):
    process = start(2, tmp_path)
    reach(process, tmp_path, 6)
    process.send_signal(signal.SIGTERM)
    code, _, err = finish(process)
    assert code == 143, err[-3000:]
    assert "run the same command to go on" in err
    last_step = max(losses(tmp_path))
    _, err = run_launcher(1, tmp_path, devices=4)
    assert f"resumed {tmp_path}" in err and last_step < 40
    check_losses(losses(tmp_path), losses(single_run))


def test_the_death_of_one_process_stops_all_and_a_restart_loses_nothing(single_run, tmp_path):
    process = start(2, tmp_path)
    reach(process, tmp_path, 17)
    pids = [int(word) for word in _children(process.pid)]
    os.kill(pids[-1], signal.SIGKILL)
    start_time = time.monotonic()
    code, _, err = finish(process)
    assert code == 137 and time.monotonic() - start_time < 60, err[-3000:]
    assert "process 1 of 2 was killed by SIGKILL" in err.splitlines()[-1]
    assert not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids)
    # A file of one process is damaged as well: all processes must agree on the step before.
    # The death may have left an unfinished one, whose name is not a number.
    whole = [path for path in (tmp_path / "checkpoints").iterdir() if path.name.isdigit()]
    newest = max(whole, key=lambda path: int(path.name))
    assert len(whole) > 1
    largest = max(newest.glob("state/ocdbt.process_1/d/*"), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    _, err = run_launcher(2, tmp_path)
    assert f"checkpoint {newest.name} in" in err and "is damaged" in err
    check_losses(losses(tmp_path), losses(single_run))


def _children(pid: int) -> list[str]:
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_no_process_survives_the_launcher(tmp_path):
    process = start(2, tmp_path)
    end = time.monotonic() + LIMIT
    while len(pids := _children(process.pid)) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    process.kill()
    process.communicate()
    while any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_process_whose_parent_is_gone_does_not_begin():
    """The parent may be killed between the fork and the request for the signal of its death."""
    for parent, code in ((os.getpid(), 0), (os.getppid(), -signal.SIGKILL)):
        begin = functools.partial(launch.die_with_parent, parent)
        assert subprocess.run([sys.executable, "-c", ""], preexec_fn=begin).returncode == code


def test_several_processes_write_as_one(tmp_path):
    run_launcher(1, tmp_path, "--config.optim.steps=2", argument="smoke,task=generation")
    prompts = ["--mode=generate", "--prompt=Tom has 12 marbles and gets 30 more.", "--prompt=What is 5 and 7?"]
    # Samples: each row's key is where the row is.
    flags = ["--config.optim.steps=2", "--config.decode.temperature=1.0", *prompts]
    single_output, _ = run_launcher(1, tmp_path, *flags, argument="smoke,task=generation")
    double_output, _ = run_launcher(2, tmp_path, *flags, argument="smoke,task=generation")
    tensor_output, _ = run_launcher(
        2, tmp_path, *flags, "--config.mesh.tensor=2", "--config.mesh.data=1", argument="smoke,task=generation"
    )
    outputs = [
        [json.loads(line) for line in text.splitlines()] for text in (single_output, double_output, tensor_output)
    ]
    assert [row["prompt"] for row in outputs[0]] == ["Tom has 12 marbles and gets 30 more.", "What is 5 and 7?"]
    for other in outputs[1:]:
        assert [row["text"] for row in other] == [row["text"] for row in outputs[0]]
        np.testing.assert_allclose(
            [row["log_prob"] for row in other], [row["log_prob"] for row in outputs[0]], rtol=1e-4
        )


def test_piped_input_reaches_all_processes(single_run):
    process = start(2, single_run, "--mode=predict", "--input=-", stdin=subprocess.PIPE)
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
    """One process has three devices, which divide neither 8 rows nor the 32 rows of an evaluation."""
    for mode in ("train", "check"):
        code, _, err = finish(start(1, tmp_path / mode, f"--mode={mode}", devices=3))
        assert code == 2 and "batch_size=8 does not divide over data × fsdp=3" in err and "Traceback" not in err
    flags = ["--config.optim.batch_size=6", "--config.optim.steps=2", "--config.eval.batch_size=32"]
    run_launcher(1, tmp_path / "six", *flags, devices=3)
    assert (tmp_path / "six" / "predictions" / "mme.validation.jsonl").exists()
    code, _, err = finish(start(1, tmp_path / "cut", *flags, "--config.optim.accumulate=4", devices=3))
    assert code == 2 and "× accumulate=4" in err


@pytest.mark.whole
def test_processes_check_batches_whose_rows_share_tables(tmp_path):
    """The step is lowered for the whole batch, which has the tables of all processes."""
    out, _ = run_launcher(2, tmp_path, "--mode=check", name="luna", argument="smoke,task=tatqa")
    assert json.loads(out.splitlines()[-1])["batch_shapes"] == [[8, 96]]


def test_a_process_that_ignores_the_stop_has_not_ended(tmp_path, monkeypatch):
    """A scheduler starts the run again, as after any stop; 0 would say that it is done."""
    monkeypatch.setattr(launch, "PATIENCE", 0.5)
    lines = "import pathlib, signal, time; signal.signal(15, signal.SIG_IGN)"
    lines += f"; pathlib.Path({str(tmp_path / 'ready')!r}).touch(); time.sleep(100)"
    with launch._Processes([sys.executable, "-c", lines], [dict(os.environ)]) as processes:
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)
        processes._stop(signal.SIGTERM, None)
        assert processes.wait() == Preempted.exit_code


@pytest.mark.parametrize(
    ("codes", "cause"), [((2, -6), 2), ((-9, 5), -9), ((5, -6), 5), ((-6,), -6), ((4, 4, -11), 4), ((5, 1), 1)]
)
def test_the_cause_of_an_end_ranks_before_its_consequences(codes, cause):
    for order in itertools.permutations(codes):
        assert min(order, key=launch._rank_cause) == cause


def test_bad_flags_are_refused(tmp_path):
    with pytest.raises(UsageError, match="at least 1"):
        launch.main(["--processes=0", "--config=numgpt"])
    code, _, err = finish(start(2, tmp_path, "--config.optim.batch_size=7"))
    assert code == 2 and "batch_size=7 does not divide over data × fsdp=2" in err


def test_all_processes_refuse_a_workdir_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    code, _, err = finish(start(2, tmp_path / "file" / "run"))
    assert code == 2, err[-3000:]
    assert err.count("numjax: cannot write to") == 2 and "Traceback" not in err
