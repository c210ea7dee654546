"""Every compatible pair of parts trains, is scored and writes; every other one is refused in a line that names both.

`make test` runs a fifth of the covering set, another one at each commit; `make test-all` the whole of it.
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

SHARE, BATCH = 5, 16
SYSTEMS = pairs.covering()


def commit() -> str:
    """What picks the fifth: the commit, so that five commits or so have run the whole."""
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return os.environ.get("NUMJAX_TEST_SEED", "") or found.stdout.strip()


def of_today() -> list[int]:
    if os.environ.get("NUMJAX_TEST_ALL"):
        return list(range(len(SYSTEMS)))
    rank = sorted(range(len(SYSTEMS)), key=lambda i: zlib.crc32(f"{commit()} {i}".encode()))
    return sorted(rank[: len(SYSTEMS) // SHARE])


def label(i: int) -> str:
    system = SYSTEMS[i]
    own = pairs.chosen_by(system.base)
    return " ".join([system.base, *(f"{a}={v}" for a, v in sorted(system.choices.items()) if own[a] != v)])


TODAY = of_today()


@pytest.mark.parametrize("batch", [TODAY[i : i + BATCH] for i in range(0, len(TODAY), BATCH)], ids=str)
def test_systems_train_two_steps_are_scored_and_write(batch, tmp_path):
    words = [sys.executable, "-m", "tests.pairs_run", str(tmp_path)]
    asked = "".join(
        json.dumps([number, SYSTEMS[number].base, dict(SYSTEMS[number].choices)]) + "\n" for number in batch
    )
    done = subprocess.run(words, cwd=ROOT, input=asked, capture_output=True, text=True, timeout=1200, check=False)
    found = {line["number"]: line for line in map(json.loads, done.stdout.splitlines())}
    for number in batch:
        assert number in found, (label(number), done.returncode, done.stderr[-2000:])
        assert "error" not in found[number], f"{label(number)}\n{found[number]['error']}"
        assert np.isfinite(found[number]["losses"]).all() and len(found[number]["seen"]) > 3, label(number)


def test_the_set_covers_every_compatible_pair():
    covered = {pair for system in SYSTEMS for pair in system.pairs()}
    assert set(pairs.compatible()) <= covered
    assert len(SYSTEMS) < 400
    for axis, values in pairs.axes().items():
        for value in values:
            assert any((axis, value) in pair for pair in covered), f"{axis}={value} is in no system"


def test_every_other_pair_is_refused_and_the_line_names_its_parts():
    """In every base, before anything is built; of a pair's two names one at least is in the line, with what it does
    not go with: the other, or what the base has beside it."""
    known, refused, both = pairs.compatible(), 0, 0
    axes = pairs.axes()
    for one, other in ((a, b) for a in axes for b in axes if a < b):
        for value in axes[one]:
            for second in axes[other]:
                if frozenset({(one, value), (other, second)}) in known:
                    continue
                refused += 1
                named = []
                for base in pairs.BASES:
                    found = pairs.faults(pairs.System(base, pairs.chosen_by(base) | {one: value, other: second}))
                    assert found, (base, one, value, other, second)
                    named += found
                assert any(value in line or second in line for line in named), (value, second, named[:3])
                both += any(value in line and second in line for line in named)
    assert refused > 100 and both > refused / 4, (refused, both)
