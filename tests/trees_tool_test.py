"""python -m numjax.tools.trees: every input line gets an answer."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from numjax.tools import trees as tool

COMMAND = [sys.executable, "-m", "numjax.tools.trees"]


def _run(data: bytes, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([*COMMAND, *words], input=data, capture_output=True, timeout=60)


def test_every_line_is_answered():
    process = _run(b"x + 1\n\n\\foo\r\n{x\n" + b"\xff\xfe(\n" + b"(" * 10_000 + b"\n\\frac{1}{2}")
    assert process.returncode == 0, process.stderr
    rows = [json.loads(line) for line in process.stdout.decode().splitlines()]
    assert rows[0] == {"tree": ["U", "plus", [["V", "x", None], ["N", "1", None]]], "latex": "x + 1"}
    assert rows[1] == {"error": "nothing to read", "at": 0}
    assert rows[2] == {"error": "unknown macro \\foo", "at": 0}
    assert [row.get("at") for row in rows[3:6]] == [0, 2, 101]
    assert rows[6]["tree"][1] == "divide" and len(rows) == 7


def test_jobs_keep_the_order():
    data = "".join(f"x_{{{i}}}\n" if i % 7 else "{\n" for i in range(1500)).encode()
    serial, parallel = _run(data), _run(data, "--jobs=2")
    assert serial.returncode == parallel.returncode == 0, parallel.stderr
    assert serial.stdout == parallel.stdout and len(serial.stdout.splitlines()) == 1500


def _run_in_process(monkeypatch, capfdbinary, data: bytes, *words: str) -> list[dict]:
    class _Stdin:
        buffer = io.BytesIO(data)

    monkeypatch.setattr(tool.sys, "stdin", _Stdin())
    assert tool.main(list(words)) == 0
    return [json.loads(line) for line in capfdbinary.readouterr().out.decode().splitlines()]


def test_published_conventions(monkeypatch, capfdbinary):
    (row,) = _run_in_process(monkeypatch, capfdbinary, b"(a - b - c) \\cdot f(x)\n", "--as_published")
    assert row["tree"][:2] == ["U", "times"]
    assert row["latex"] == "a - b - c \\cdotp f \\times x"


def test_articles(monkeypatch, capfdbinary):
    lines = [b'["U", "eq", [["V", "x", null], ["N", "12", null]]]', b'{"opt": ["N", "1", null], "tex": "1"}', b"{}",
             b"[", b'["?", "x", null]', b"[" * 5000]  # fmt: skip
    rows = _run_in_process(monkeypatch, capfdbinary, b"\n".join(lines), "--from=article")
    assert [row.get("latex") for row in rows[:2]] == ["x = 12", "1"]
    assert all("error" in row for row in rows[2:]) and len(rows) == 6


def test_symbols_that_have_no_utf8(monkeypatch, capfdbinary):
    (row,) = _run_in_process(monkeypatch, capfdbinary, b"\\tree[O]{*d800.}{{x}}\n")
    assert "tree" in row or "error" in row


def test_unknown_macros_by_switch(monkeypatch, capfdbinary):
    (row,) = _run_in_process(monkeypatch, capfdbinary, b"\\foo\n", "--unknown=symbol")
    assert row["tree"] == ["V", "\\foo", None]


@pytest.mark.parametrize(
    "words",
    [["--from=pdf"], ["--backend=none"], ["--jobs=0"], ["--from=article", "--backend=latexml"], ["--nothing"]],
)
def test_bad_usage_gives_a_one_line_error(words, capsys):
    assert tool.main(words) == 2
    assert capsys.readouterr().err.count("\n") == 1
