"""Shared by all tests: CPU, a compilation cache for the run, and the folder of real data where there is one."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Tests compile much and compute little: light optimisation and the older code for fusions, which is smaller,
# take a quarter of the time of compiling.
# On a busy machine eight devices of two cores may meet late: 40 seconds would end them.
FLAGS = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    " --xla_cpu_collective_call_terminate_timeout_seconds=300"
)
if importlib.metadata.version("jaxlib") < "0.11":
    FLAGS += " --xla_cpu_use_fusion_emitters=false"  # later ones have no older code, and abort at the flag
os.environ.setdefault("XLA_FLAGS", FLAGS)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(tempfile.gettempdir(), "numjax-test-jit-cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import numpy as np
import pytest
from absl import flags

from numjax.bundled import data

# grain's worker processes read absl flags, which nothing parses under pytest.
if not flags.FLAGS.is_parsed():
    flags.FLAGS.mark_as_parsed()


# Files of few tests that take minutes: begun last, they would leave one worker alone with them.
LONG = ("pairs_test", "meshes_test", "processes_test", "readme_test", "plan_test", "faults_test", "runs_test")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not os.environ.get("NUMJAX_TEST_ALL"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("whole")])
        items[:] = [item for item in items if not item.get_closest_marker("whole")]
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


@pytest.fixture(autouse=True, scope="module")
def room_for_programs():
    """A process holds only so many memory maps, and every compiled program takes some until it is let go."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()


@pytest.fixture(scope="session")
def real_data():
    """Path of a folder of real data by name; the test is skipped where it is absent."""
    base = pathlib.Path(os.environ.get("NUMJAX_DATA", ROOT.parent / "shared" / "data"))

    def find(name: str) -> pathlib.Path:
        if not (base / name).exists():
            pytest.skip(f"{name} is not under NUMJAX_DATA ({base})")
        return base / name

    return find


@pytest.fixture
def rng(request) -> np.random.Generator:
    """Random numbers of a test's own; NUMJAX_TEST_SEED draws others than the ones of every day."""
    return np.random.default_rng(
        [int(os.environ.get("NUMJAX_TEST_SEED", "0")), zlib.crc32(request.node.name.encode())]
    )


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory) -> pathlib.Path:
    return tmp_path_factory.mktemp("datasets")


@pytest.fixture(scope="session")
def everything(data_dir):
    """All records of a dataset by split, built once a configuration."""

    def read(name: str, **options) -> dict[str, list[dict]]:
        return {split: list(data.load(name, split, data_dir, **options)) for split in ("train", "validation", "test")}

    return read
