"""Every compatible pair of parts trains, is scored and writes; every other pair is refused in a line that names it.

`make test` runs the beginning of a covering set, of another one at each commit; `make test-all` runs a whole one.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import zlib

import numpy as np
import pytest

from tests import pairs
from tests.conftest import ROOT, find_commit

BATCHES, BATCH = 1, 16
MOST = 950  # systems of a whole set


@functools.cache
def choose_systems() -> list[pairs.Combination]:
    """Returns a whole covering set, or the beginning of the one that the commit picks.

    The first 16 systems have a ninth of all pairs between them: each is drawn for pairs that are still missing.
    """
    if os.environ.get("NUMJAX_TEST_ALL"):
        return pairs.make_covering_set()
    return pairs.make_covering_set(zlib.crc32(find_commit().encode()), most=BATCHES * BATCH)


def make_label(system: pairs.Combination) -> str:
    own = pairs.get_choices(system.base)
    return " ".join([system.base, *(f"{a}={v}" for a, v in sorted(system.choices.items()) if own[a] != v)])


WHOLE = [pytest.param(i, marks=pytest.mark.whole) for i in range(BATCHES, -(-MOST // BATCH))]


# The process that runs them chooses the systems: this takes a minute, and each process collects all tests.
@pytest.mark.parametrize("batch", [*range(BATCHES), *WHOLE])
def test_systems_train_two_steps_are_scored_and_write(batch, tmp_path):
    numbers = range(len(choose_systems()))[batch * BATCH : (batch + 1) * BATCH]
    if not numbers:
        pytest.skip("the covering set has fewer systems")
    systems = {number: choose_systems()[number] for number in numbers}
    words = [sys.executable, "-m", "tests.pairs_run", str(tmp_path)]
    lines = "".join(json.dumps([n, system.base, dict(system.choices)]) + "\n" for n, system in systems.items())
    process = subprocess.run(words, cwd=ROOT, input=lines, capture_output=True, text=True, timeout=1200, check=False)
    results = {line["number"]: line for line in map(json.loads, process.stdout.splitlines())}
    for number, system in systems.items():
        label = make_label(system)
        assert number in results, (label, process.returncode, process.stderr[-2000:])
        assert "error" not in results[number], f"{label}\n{results[number]['error']}"
        assert np.isfinite(results[number]["losses"]).all() and len(results[number]["seen"]) > 3, label


@pytest.mark.whole
def test_the_set_covers_every_compatible_pair():
    covered = {pair for system in choose_systems() for pair in system.list_pairs()}
    assert set(pairs.find_compatible_pairs()) <= covered
    assert len(choose_systems()) < MOST


def test_every_choice_is_in_a_compatible_pair():
    known = set().union(*pairs.find_compatible_pairs())
    for axis, values in pairs.list_axes().items():
        assert {(axis, value) for value in values} <= known, axis


def test_every_other_pair_is_refused_and_the_line_names_its_parts():
    """Every base refuses the pair before anything is built.

    The line has at least one of the two names and what it does not fit: the other name, or a part of the base.
    """
    known, n_refused, n_both = pairs.find_compatible_pairs(), 0, 0
    axes = pairs.list_axes()
    for one, other in ((a, b) for a in axes for b in axes if a < b):
        for value in axes[one]:
            for second in axes[other]:
                if frozenset({(one, value), (other, second)}) in known:
                    continue
                n_refused += 1
                lines = []
                for base in pairs.BASES:
                    faults = pairs.find_faults(
                        pairs.Combination(base, pairs.get_choices(base) | {one: value, other: second})
                    )
                    assert faults, (base, one, value, other, second)
                    lines += faults
                assert any(value in line or second in line for line in lines), (value, second, lines[:3])
                n_both += any(value in line and second in line for line in lines)
    assert n_refused > 100 and n_both > n_refused / 4, (n_refused, n_both)
