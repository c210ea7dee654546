"""python -m numjax.tools.numerals: every line is answered, whatever its bytes."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from numjax import numeral
from numjax.tools import numerals as tool

COMMAND = [sys.executable, "-m", "numjax.tools.numerals"]


def _run_tool(data: bytes, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([*COMMAND, *words], input=data, capture_output=True, timeout=60)


def test_every_line_is_answered():
    process = _run_tool(
        "Up 12.5% to $(1,746)\n\nünder −3\r\n".encode() + b"\xff\xfe 7\n" + b"9" * 10_000 + b"\nno number"
    )
    assert process.returncode == 0, process.stderr
    rows = [json.loads(line) for line in process.stdout.decode().splitlines()]
    assert rows[:4] == [
        [
            {"start": 3, "end": 8, "text": "12.5%", "value": "0.125"},
            {"start": 12, "end": 20, "text": "$(1,746)", "value": "-1746"},
        ],
        [],
        [{"start": 6, "end": 8, "text": "−3", "value": "-3"}],
        [{"start": 3, "end": 4, "text": "7", "value": "7"}],
    ]
    assert len(rows) == 6 and rows[5] == []
    assert rows[4][0]["value"].startswith("9.99") and Decimal(rows[4][0]["value"]) == Decimal("9" * 10_000)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0" * 50 + "7", "7"),
        ("9" * 40, "9" * 40),
        ("1" + "0" * 40, "1E+40"),
        ("0." + "0" * 50 + "1", "1E-51"),
        ("1e39", "1" + "0" * 39),
        ("1e999999999", "1E+999999999"),
        ("-0", "-0"),
        ("50%", "0.50"),
    ],
)
def test_values_are_scientific_beyond_40_digits(text, value):
    (span,) = json.loads(tool.answer_block(text.encode(), numeral.load_finder("default")))
    assert span["value"] == value and Decimal(span["value"]) == numeral.find(text)[0].value


@settings(deadline=None)
@given(st.lists(st.text('0123456789+-−.,%eE$€() aé"\\\t\r\x85\u2028')), st.sampled_from(numeral.names()))
@example(['"12\\'], "default")
def test_the_answer_is_json_of_the_spans(lines, rules):
    data = "".join(line + "\n" for line in lines).encode()
    answers = tool.answer_block(data, numeral.load_finder(rules)).decode().split("\n")[: len(lines)]
    for line, answer in zip(lines, answers, strict=True):
        spans = numeral.find(line.removesuffix("\r"), rules)
        fields = [(s["start"], s["end"], s["text"], Decimal(s["value"])) for s in json.loads(answer)]
        assert fields == [tuple(span) for span in spans]


class _Trickle(io.BytesIO):
    """A pipe whose input arrives in pieces of any size."""

    def __init__(self, pieces: list[bytes]):
        super().__init__(b"".join(pieces))
        self.sizes = [len(piece) for piece in pieces if piece]

    def read1(self, size: int | None = -1, /) -> bytes:
        return self.read(self.sizes.pop(0)) if self.sizes else b""


@given(st.lists(st.text("a1\n", max_size=5).map(str.encode)))
def test_blocks_hold_whole_lines_and_lose_nothing(pieces):
    blocks = list(tool.read_blocks(_Trickle(pieces)))
    assert b"".join(blocks) == b"".join(pieces)
    assert all(block.endswith(b"\n") for block in blocks[:-1])


def test_a_co_process_is_answered_line_by_line():
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        for number in (12, 345):
            process.stdin.write(f"and {number}\n".encode())
            process.stdin.flush()
            # The input is still open: without an answer this would wait for ever.
            assert json.loads(process.stdout.readline())[0]["value"] == str(number)
        process.stdin.close()
        assert process.wait(60) == 0


def test_a_closed_pipe_is_no_error():
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        # The tool may end before all input is written.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b"1 2 3\n" * 100_000)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        assert process.wait(60) == 0 and process.stderr.read() == b""


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="needs /dev/full, a disk without room")
def test_a_full_disk_gives_one_error_line():
    with open("/dev/full", "wb") as full:
        process = subprocess.run(COMMAND, input=b"1 2 3\n", stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert process.returncode == 1 and process.stderr.count(b"\n") == 1 and b"incomplete" in process.stderr


@pytest.mark.parametrize("words", [["--rules=nmgpt"], ["--rulez"]])
def test_bad_usage_gives_one_error_line(words):
    process = _run_tool(b"", *words)
    assert process.returncode == 2 and process.stdout == b"" and process.stderr.count(b"\n") == 1


def test_it_starts_without_jax_and_numpy():
    code = "import sys, numjax.tools.numerals as t; t.main([]); sys.exit(bool({'jax', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL).returncode == 0


def test_help_names_every_rule_of_the_package(capsys):
    with pytest.raises(SystemExit):
        tool.main(["--help"])
    output = capsys.readouterr().out
    assert {"default", "numgpt", "words"} <= set(numeral.names())
    assert all(name in output for name in numeral.names())
