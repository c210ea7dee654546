"""Every compatible pair of parts trains, is scored and writes; every other pair is refused in a line that names it.

`make test` runs an eighth of the covering set, another one at each commit; `make test-all` runs the whole set.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib

import numpy as np
import pytest

from tests import pairs
from tests.conftest import ROOT

SHARE, BATCH = 8, 16
SYSTEMS = pairs.make_covering_set()


def find_commit() -> str:
    """Returns what picks the eighth: the commit, so that about eight commits run the whole set."""
    process = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return os.environ.get("NUMJAX_TEST_SEED", "") or process.stdout.strip()


def choose_numbers() -> list[int]:
    if os.environ.get("NUMJAX_TEST_ALL"):
        return list(range(len(SYSTEMS)))
    rank = sorted(range(len(SYSTEMS)), key=lambda i: zlib.crc32(f"{find_commit()} {i}".encode()))
    return sorted(rank[: len(SYSTEMS) // SHARE])


def make_label(i: int) -> str:
    system = SYSTEMS[i]
    own = pairs.get_choices(system.base)
    return " ".join([system.base, *(f"{a}={v}" for a, v in sorted(system.choices.items()) if own[a] != v)])


NUMBERS = choose_numbers()


@pytest.mark.parametrize("batch", [NUMBERS[i : i + BATCH] for i in range(0, len(NUMBERS), BATCH)], ids=str)
def test_systems_train_two_steps_are_scored_and_write(batch, tmp_path):
    words = [sys.executable, "-m", "tests.pairs_run", str(tmp_path)]
    lines = "".join(
        json.dumps([number, SYSTEMS[number].base, dict(SYSTEMS[number].choices)]) + "\n" for number in batch
    )
    process = subprocess.run(words, cwd=ROOT, input=lines, capture_output=True, text=True, timeout=1200, check=False)
    results = {line["number"]: line for line in map(json.loads, process.stdout.splitlines())}
    for number in batch:
        assert number in results, (make_label(number), process.returncode, process.stderr[-2000:])
        assert "error" not in results[number], f"{make_label(number)}\n{results[number]['error']}"
        assert np.isfinite(results[number]["losses"]).all() and len(results[number]["seen"]) > 3, make_label(number)


def test_the_set_covers_every_compatible_pair():
    covered = {pair for system in SYSTEMS for pair in system.list_pairs()}
    assert set(pairs.find_compatible_pairs()) <= covered
    assert len(SYSTEMS) < 950
    for axis, values in pairs.list_axes().items():
        for value in values:
            assert any((axis, value) in pair for pair in covered), f"{axis}={value} is in no system"


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
