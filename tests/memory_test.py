"""What a program computes on its way stays with the process: counted by the pages that the system has to find."""

from __future__ import annotations

import json
import subprocess
import sys

import jax
import pytest

from numjax import memory

# Two matrices of 32 MiB that no result keeps, in three calls after the first.
FAULTS = """
import json, resource, sys
import jax
import jax.numpy as jnp
from numjax import memory

kept = memory.keep() if sys.argv[1] == "keep" else False

@jax.jit
def large(x):
    return jnp.sort(jnp.sort(jnp.outer(x, x), axis=0), axis=1).sum()

x = jnp.arange(2900.0)
large(x).block_until_ready()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    large(x).block_until_ready()
print(json.dumps({"kept": kept, "faults": resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before}))
"""


def run(how, **environment):
    clean = {"PATH": "/usr/bin:/bin", "JAX_PLATFORMS": "cpu", **environment}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True, env=clean, timeout=300
    )
    return json.loads(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_calls_after_the_first_find_their_memory_there():
    as_it_is, kept = run("leave"), run("keep")
    assert kept["kept"] and not as_it_is["kept"]
    assert kept["faults"] < 200
    # Three calls, 32 MiB at least, 4 KiB a page; none where the system gives huge pages of its own accord.
    assert kept["faults"] < as_it_is["faults"] or as_it_is["faults"] < 200


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_the_users_own_wish_goes_first(monkeypatch, name):
    monkeypatch.setenv(name, {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}.get(name, "2"))
    assert memory.keep() is False


def test_hosts_of_accelerators_are_left_alone(monkeypatch):
    for name in ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    before = jax.config.jax_platforms
    try:
        jax.config.update("jax_platforms", "cuda,cpu")
        assert memory.keep() is False
    finally:
        jax.config.update("jax_platforms", before)
