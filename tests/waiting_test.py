"""Lines about long waits: none for short ones, what is done for those that count, and none after the end."""

from __future__ import annotations

import itertools
import re
import time

import pytest

from numjax.runtime import log, waiting


@pytest.fixture
def lines(monkeypatch):
    """The lines that are printed; a wait is long after 20 ms."""
    printed: list[str] = []
    monkeypatch.setattr(waiting, "PATIENCE", 0.02)
    monkeypatch.setattr(waiting, "INTERVAL", 0.02)
    monkeypatch.setattr(log, "say", printed.append)
    return printed


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_short_wait_prints_nothing(lines, monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE", 3600.0)
    with waiting.Wait("compiling"):
        pass
    assert not lines


def test_a_long_wait_says_what_it_is_for_and_since_when(lines):
    with waiting.Wait("compiling the step"):
        wait_until(lambda: len(lines) > 1)
    assert all(re.fullmatch(r"compiling the step: \d+:\d\d so far", line) for line in lines)


def test_the_pauses_of_a_wait_that_does_not_count_double(lines, monkeypatch):
    times: list[float] = []
    monkeypatch.setattr(log, "say", lambda text: times.append(time.monotonic()))
    start = time.monotonic()
    with waiting.Wait("compiling"):
        wait_until(lambda: len(times) > 3)
    # As long as everything before; a busy machine makes pauses longer, never shorter.
    for earlier, later in itertools.pairwise(times):
        assert later - earlier > 0.9 * (earlier - start)


def test_a_wait_that_counts_says_how_far_it_is(lines):
    with waiting.Wait("scoring test", 250, "rows") as wait:
        for item in wait.count("abc", 100):
            n_lines = len(lines)
            wait_until(lambda n=n_lines: len(lines) > n + 1)
            assert lines[-1].startswith(f"scoring test: {'abc'.index(item) * 100} of 250 rows, ")
        n_lines = len(lines)
        wait_until(lambda: len(lines) > n_lines + 1)
        # The last batch is not full.
        assert lines[-1].startswith("scoring test: 250 of 250 rows, ")


@pytest.mark.parametrize("error", [None, KeyError])
def test_no_line_comes_after_the_end(lines, error):
    try:
        with waiting.Wait("compiling") as wait:
            wait_until(lambda: lines)
            if error:
                raise error
    except KeyError:
        pass
    wait._thread.join(30)
    assert not wait._thread.is_alive()
    n_lines = len(lines)
    time.sleep(0.1)
    assert len(lines) == n_lines


def test_training_breaks_its_silence_with_what_is_known(lines, monkeypatch):
    progress = log.Progress(100, 0, 1.0, None, note=lambda left: f"{left:.0f} s")
    monkeypatch.setattr(log, "SILENCE", 3600.0)
    progress.break_silence(1)
    assert not lines
    monkeypatch.setattr(log, "SILENCE", 0.0)
    progress.count(8, 64)
    progress.break_silence(1)
    # The first step compiles, so that nothing is known of the time that the others take.
    assert lines == ["step 1/100"]
    rates = progress.rates(2)
    progress.print_line(2, rates | {"loss": 1.0})
    progress.break_silence(3)
    left = 97 * rates["seconds_per_step"]
    assert lines[2] == f"step 3/100 · left {log.format_duration(left)} · {left:.0f} s"
    monkeypatch.setattr(log, "SILENCE", 3600.0)
    progress.break_silence(4)
    assert len(lines) == 3
    progress._line_time -= 4000
    progress.break_silence(5)
    progress.break_silence(6)
    assert len(lines) == 4, "a line ends the silence"
