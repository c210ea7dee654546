"""What a run leaves behind in its process: nothing that grows from run to run."""

from __future__ import annotations

import collections
import gc
import sys

import jax
import pytest
import tensorstore

import numjax
from numjax import modes
from numjax.train import tensorstore_json
from tests.runs_test import cache, tiny  # noqa: F401

TINY = {"optim.steps": 4, "eval.every": 2, "checkpoint.every": 2, "eval.examples": 8, "decode.max_tokens": 8}
# Python's memory blocks that two runs may leave: fewer than any cause that is mended (see `count`) left in one.
BLOCKS = 600


def count() -> dict[str, int]:
    """What the process holds: builders, jitted functions, compiled programs and blocks of memory."""
    gc.collect()
    names = collections.Counter(type(item).__name__ for item in gc.get_objects())
    return {
        "builders": names["MwpasGeneration"],
        "jitted functions": names["PjitInfo"],
        "programs": len(jax.devices()[0].client.live_executables()),
        "blocks": sys.getallocatedblocks(),
    }


@pytest.mark.whole
def test_a_process_that_trains_loads_and_generates_again_does_not_grow(tmp_path):
    config = tiny("smoke,task=generation", **TINY)

    def run(name):
        modes.run(config, str(tmp_path / name), "train")
        numjax.load(tmp_path / name).generate(["Q: Ann has 12 apples and buys 30 more. A:"], max_tokens=8)

    for i in range(2):
        run(f"warm_up_{i}")
    before = count()
    for i in range(2):
        run(f"run_{i}")
    after = count()
    growth = {name: after[name] - before[name] for name in before}
    assert growth.pop("blocks") < BLOCKS
    assert not {name: number for name, number in growth.items() if number > 0}


SPECS = [
    tensorstore.KvStore.Spec({"driver": "file", "path": "/tmp/Größe 'π' \"2\"\\n\n/"}),
    tensorstore.Spec(
        {
            "driver": "zarr",
            "kvstore": {"driver": "memory", "path": "α/"},
            "metadata": {"shape": [3, 2], "chunks": [3, 2], "dtype": "<f4", "fill_value": 1e-7, "filters": None},
        }
    ),
]


@pytest.mark.parametrize("spec", SPECS, ids=["store", "array"])
def test_the_json_of_a_spec_is_tensorstores_own_and_is_freed(spec):
    tensorstore_json.stop_leak()
    original = type(spec).to_json.__wrapped__
    assert spec.to_json() == original(spec)
    assert spec.to_json(include_defaults=True) == original(spec, include_defaults=True)
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(100):
        spec.to_json()
    gc.collect()
    assert sys.getallocatedblocks() - before < 100
