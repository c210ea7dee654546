"""Every config trains and generates on every mesh as on one device."""

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


def list_config_words() -> list[str]:
    """Returns the words of each task of each config."""
    recipes = {
        path.stem: getattr(importlib.import_module(f"numjax.bundled.configs.{path.stem}"), "get_config", None)
        for path in sorted((ROOT / "configs").glob("*.py"))
    }
    words = [f"{name}:smoke,task={task}" for name, recipe in recipes.items() if recipe for task in recipe.tasks]
    return [*words, "schemes:fone,smoke,task=add"]  # a head that writes a number at one position


def mask_digits(result: dict) -> str:
    return re.sub(r"[\d.]+", "#", result["text"])


# `make test-all` runs every config, `make test` this one, which takes the least time.
DEFAULT_WORD = "gpt:smoke,task=mme"


@pytest.mark.parametrize(
    "word",
    [word if word == DEFAULT_WORD else pytest.param(word, marks=pytest.mark.whole) for word in list_config_words()],
)
def test_a_config_trains_on_every_mesh_as_on_one_device(word, tmp_path):
    command = [sys.executable, "-m", "tests.meshes", word, str(tmp_path)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert process.returncode == 0, process.stderr[-3000:]
    single, *others = [json.loads(line) for line in process.stdout.splitlines()]
    assert [single["mesh"], *(other["mesh"] for other in others)] == list(MESHES)
    assert len(single["losses"]) == STEPS and single["losses"][0] != single["losses"][-1] and not single["split"]
    for other in others:
        np.testing.assert_allclose(other["losses"], single["losses"], rtol=1e-5, err_msg=other["mesh"])
        np.testing.assert_allclose(other["scores"], single["scores"], rtol=1e-5, atol=1e-7, err_msg=other["mesh"])
        assert max(other["gradients"]) < 1e-5, other["mesh"]
        assert other["splash"] < 1e-5
        # With a split vocabulary, no device holds all logits or all of an embedding's gradient.
        assert all(other["vocabulary"] not in dims for _, arrays in other["moved"] for dims in arrays), other["moved"]
        assert bool(other["moved"]) == other["mesh"].endswith(("2", "4"))
        assert bool(other["split"]) == (other["mesh"] != "8×1×1")
        for generation, expected in zip(other["written"], single["written"], strict=True):
            # A mantissa is a float: sums in another order change its last digits.
            assert mask_digits(generation) == mask_digits(expected) and generation["ended"] == expected["ended"], (
                other["mesh"]
            )
            assert generation["log_prob"] == pytest.approx(expected["log_prob"], rel=1e-5), other["mesh"]
            for numbers in zip(generation["numbers"], expected["numbers"], strict=True):
                raw, expected_raw = (float(number["raw"]) for number in numbers)
                assert raw == pytest.approx(expected_raw, rel=1e-5), other["mesh"]
