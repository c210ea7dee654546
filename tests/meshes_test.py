"""Every config trains on every mesh as on one device, and writes the same."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from tests.meshes import MESHES, STEPS
from tests.runs_test import ROOT


def words() -> list[str]:
    """Each file of configs/ that is a system, at its default task, and where it writes text, at that."""
    found = []
    for path in sorted((ROOT / "configs").glob("*.py")):
        module = importlib.import_module(f"numjax.bundled.configs.{path.stem}")
        if hasattr(module, "get_config"):
            found.append(f"{path.stem}:smoke")
            if "generation" in getattr(module, "TASKS", {}):
                found.append(f"{path.stem}:smoke,task=generation")
    return found


def words_of(result: dict) -> str:
    return re.sub(r"[\d.]+", "#", result["text"])


# Every config on every mesh is `make test-all`'s; these are a decoder that writes numbers and one that spells them.
OFTEN = ("gpt:smoke", "numgpt:smoke,task=generation")


@pytest.mark.parametrize(
    "word", [word if word in OFTEN else pytest.param(word, marks=pytest.mark.whole) for word in words()]
)
def test_a_config_trains_on_every_mesh_as_on_one_device(word, tmp_path):
    command = [sys.executable, "-m", "tests.meshes", word, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]
    alone, *others = [json.loads(line) for line in done.stdout.splitlines()]
    assert [alone["mesh"], *(other["mesh"] for other in others)] == list(MESHES)
    assert len(alone["losses"]) == STEPS and alone["losses"][0] != alone["losses"][-1] and not alone["split"]
    for other in others:
        np.testing.assert_allclose(other["losses"], alone["losses"], rtol=1e-5, err_msg=other["mesh"])
        np.testing.assert_allclose(other["scores"], alone["scores"], rtol=1e-3, err_msg=other["mesh"])
        assert other["splash"] < 1e-5
        # Neither the logits nor the gradient of an embedding is ever whole where the vocabulary is split.
        assert all(other["vocabulary"] not in dims for _, arrays in other["moved"] for dims in arrays), other["moved"]
        assert bool(other["moved"]) == other["mesh"].endswith(("2", "4"))
        assert bool(other["split"]) == (other["mesh"] != "8×1×1")
        for mine, theirs in zip(other["written"], alone["written"], strict=True):
            # A mantissa is a float, whose last digits sums in another order move.
            assert words_of(mine) == words_of(theirs) and mine["ended"] == theirs["ended"], other["mesh"]
            assert mine["log_prob"] == pytest.approx(theirs["log_prob"], rel=1e-3), other["mesh"]
            for numbers in zip(mine["numbers"], theirs["numbers"], strict=True):
                raw, wanted = (float(number["raw"]) for number in numbers)
                assert raw == pytest.approx(wanted, rel=1e-3), other["mesh"]
