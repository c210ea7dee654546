"""A program that starts anew for huge pages: the same process, arguments and input, and far fewer page faults."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from numjax import huge_pages

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Two matrices of 32 MiB that no result keeps, in three calls after the first.
PROGRAM = """
import json, os, resource, sys
from numjax import huge_pages

if sys.argv[1] == "ask":
    huge_pages.ask()

import jax
import jax.numpy as jnp

@jax.jit
def large(x):
    return jnp.sort(jnp.sort(jnp.outer(x, x), axis=0), axis=1).sum()

x = jnp.arange(2900.0)
large(x).block_until_ready()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    large(x).block_until_ready()
found = {"faults": resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, "pid": os.getpid()}
found |= {"words": sys.argv[1:], "input": sys.stdin.read(), "told": os.environ.get("GLIBC_TUNABLES")}
print(json.dumps(found))
sys.exit(7)
"""
on_request = pytest.mark.skipif(not huge_pages._on_request(), reason="this system gives huge pages to all or to none")


@pytest.fixture
def started(monkeypatch):
    """What would have been started, of a program that JAX runs on the processor and the user wishes nothing for."""
    found = []
    monkeypatch.setattr(huge_pages, "_began_as_this", lambda: True)
    monkeypatch.setattr(huge_pages, "_glibc", lambda: (2, 36))
    monkeypatch.setattr(os, "execve", lambda *words: found.append(words))
    for told in [word for word in os.environ if word.startswith("MALLOC_")]:
        monkeypatch.delenv(told)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv(huge_pages.TUNABLES, "glibc.pthread.rseq=1")
    return found


def run(folder, words, how):
    """What the program, as `python WORDS`, says of itself."""
    (folder / "program.py").write_text(PROGRAM)
    clean = {"PATH": os.environ["PATH"], "JAX_PLATFORMS": "cpu", "PYTHONPATH": f"{ROOT}:{folder}"}
    words = [sys.executable, *words, how, "two words"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean, cwd=folder
    ) as process:
        found = json.loads(process.communicate("typed", timeout=300)[0])
    assert process.returncode == 7 and found["pid"] == process.pid
    assert found["words"] == [how, "two words"] and found["input"] == "typed"
    return found


@on_request
@pytest.mark.parametrize("words", [["program.py"], ["-m", "program"]], ids=["file", "module"])
def test_a_program_goes_on_as_itself_with_huge_pages(tmp_path, words):
    as_it_is, asked = run(tmp_path, words, "leave"), run(tmp_path, words, "ask")
    assert as_it_is["told"] is None and asked["told"] == huge_pages.ASK
    # 32 MiB and more in each of three calls, 4 KiB a fault; how many huge pages are free is the machine's affair.
    assert as_it_is["faults"] > 3 * 8192 and as_it_is["faults"] > 2 * asked["faults"]


@on_request
def test_what_runs_inside_another_program_leaves_it_alone(tmp_path):
    """As in a notebook, which would lose all that it knows."""
    inside = "import runpy; runpy.run_path('program.py', run_name='__main__')"
    assert run(tmp_path, ["-c", inside], "ask")["told"] is None


@on_request
@pytest.mark.parametrize(
    ("name", "value"),
    [("MALLOC_ARENA_MAX", "2"), (huge_pages.TUNABLES, huge_pages.REFUSE), ("JAX_PLATFORMS", "cuda,cpu")],
)
def test_it_is_left_alone(monkeypatch, started, name, value):
    """Where the user has a wish of his own, or JAX an accelerator."""
    huge_pages.ask()
    assert [words[2][huge_pages.TUNABLES] for words in started] == [f"glibc.pthread.rseq=1:{huge_pages.ASK}"]
    monkeypatch.setenv(name, value)
    huge_pages.ask()
    assert len(started) == 1


@pytest.mark.parametrize(
    ("mode", "times"),
    [("always [madvise] never", 1), ("[always] madvise never", 0), ("always madvise [never]", 0), (None, 0)],
)
def test_only_systems_that_wait_to_be_asked_are_asked(monkeypatch, tmp_path, started, mode, times):
    monkeypatch.setattr(huge_pages, "MODES", tmp_path / "enabled")
    if mode is not None:
        (tmp_path / "enabled").write_text(mode)
    huge_pages.ask()
    assert len(started) == times


def test_programs_of_others_find_their_environment():
    assert huge_pages.plain({"A": "b", huge_pages.TUNABLES: huge_pages.ASK}) == {"A": "b"}
    both = {huge_pages.TUNABLES: f"glibc.pthread.rseq=1:{huge_pages.ASK}"}
    assert huge_pages.plain(both) == {huge_pages.TUNABLES: "glibc.pthread.rseq=1"}
