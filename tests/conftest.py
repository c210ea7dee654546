"""Fixtures and settings for all tests: CPU, a compilation cache, and the folder of real data if it exists."""

from __future__ import annotations

import collections
import functools
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Tests compile much and compute little. Light optimisation and the older, smaller code for fusions take a quarter of
# the compile time.
# Eight devices on two cores of a busy machine may reach a collective late: the default limit of 40 seconds is short.
FLAGS = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    " --xla_cpu_collective_call_terminate_timeout_seconds=300"
)
if importlib.metadata.version("jaxlib") < "0.11":
    FLAGS += " --xla_cpu_use_fusion_emitters=false"  # later versions have no older code and abort at the flag
os.environ.setdefault("XLA_FLAGS", FLAGS)
# One thread for each process: workers share the cores, and on AMD Zen 4 sums of several threads may differ from call
# to call (jax-ml/jax issue 39741), where tests compare runs bit for bit.
os.environ.setdefault("NPROC", "1")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(tempfile.gettempdir(), "numjax-test-jit-cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import numpy as np
import pytest
from absl import flags

from numjax.bundled import data
from numjax.runtime import log, waiting

# On a busy machine a wait may be long enough for a line, which tests of other lines do not expect.
log.SILENCE = waiting.PATIENCE = 86400.0

# grain's worker processes read absl flags, which nothing parses under pytest.
if not flags.FLAGS.is_parsed():
    flags.FLAGS.mark_as_parsed()


# Files of few tests that take minutes. They start first: otherwise one worker would run them alone at the end.
SLOW_FILES = ("pairs_test", "processes_test", "docs_test", "meshes_test", "readme_test", "faults_test", "runs_test")


# NUMJAX_TEST_SHARE=3, which `make test` sets, leaves out two thirds of the slow cases, others at each commit.
SHARE = int(os.environ.get("NUMJAX_TEST_SHARE", "1"))
SLOW_TESTS = {line for line in (ROOT / "tests" / "slow_tests.txt").read_text().splitlines() if line[:1] != "#"}


@functools.cache
def find_commit() -> str:
    """Returns what picks the cases that `make test` runs of many: the commit, or NUMJAX_TEST_SEED."""
    process = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return os.environ.get("NUMJAX_TEST_SEED", "") or process.stdout.strip()


def is_chosen(item: pytest.Item) -> bool:
    if os.environ.get("NUMJAX_TEST_ALL"):
        return True
    test = item.nodeid.removeprefix("tests/").partition("[")[0]
    is_due = test not in SLOW_TESTS or zlib.crc32(f"{find_commit()} {item.nodeid}".encode()) % SHARE == 0
    return is_due and not item.get_closest_marker("whole")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = {item: is_chosen(item) for item in items}
    config.hook.pytest_deselected(items=[item for item in items if not chosen[item]])
    items[:] = [item for item in items if chosen[item]]
    items.sort(key=lambda item: SLOW_FILES.index(item.path.stem) if item.path.stem in SLOW_FILES else len(SLOW_FILES))


ABSENT = "is not under NUMJAX_DATA"


def pytest_terminal_summary(terminalreporter) -> None:
    """Says how many tests were skipped because their data are absent, and which data."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    names = collections.Counter(
        m[1] for m in (re.search(rf"Skipped: (\S+) {ABSENT}", reason) for reason in reasons) if m
    )
    if names:
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(names.items()))
        terminalreporter.write_line(
            f"{names.total()} tests lacked their data, which are not under NUMJAX_DATA: {listed}"
        )


@pytest.fixture(autouse=True, scope="module")
def clear_caches():
    """Clears the caches of JAX. A process has a limit of memory maps, and each cached program uses some."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()


@pytest.fixture(scope="session")
def real_data():
    """Returns a function: name → path of a folder of real data. It skips the test if the folder does not exist."""
    base = pathlib.Path(os.environ.get("NUMJAX_DATA", ROOT.parent / "shared" / "data"))

    def find(name: str) -> pathlib.Path:
        if not (base / name).exists():
            pytest.skip(f"{name} {ABSENT} ({base})")
        return base / name

    return find


@pytest.fixture
def rng(request) -> np.random.Generator:
    """A random generator for each test. NUMJAX_TEST_SEED changes its seed."""
    return np.random.default_rng(
        [int(os.environ.get("NUMJAX_TEST_SEED", "0")), zlib.crc32(request.node.name.encode())]
    )


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory) -> pathlib.Path:
    return tmp_path_factory.mktemp("datasets")


@pytest.fixture(scope="session")
def load_splits(data_dir):
    """Returns a function that loads all records of a dataset by split. Each configuration is built once."""

    def load(name: str, **options) -> dict[str, list[dict]]:
        return {split: list(data.load(name, split, data_dir, **options)) for split in ("train", "validation", "test")}

    return load
