"""Measures how fast numerals are found: MB/s of the rules and of the command-line tool, on one core.

    python -m experiments.benchmarks.numerals [--text=FILE ...] [--rules=default,numgpt,words] [--gpt2=FOLDER]
        [--megabytes=8] [--rounds=5] [--out=FILE]

FILE is text, also .gz; without one, sentences with numbers are generated. Each text is repeated to --megabytes. The
contenders take turns in every round. Results are medians over rounds of the processor time, which other work on the
machine hardly affects, and (in the JSON) of the wall-clock time:

    scan          re.finditer of "[0-9]+" line by line: the best that Python can do
    find RULES    the spans with their values, line by line
    tool RULES    bytes in, JSON lines out, as in the tool
    process RULES python -m numjax.tools.numerals from start to end, files in and out
    gpt2          GPT-2's byte-level BPE line by line (Hugging Face tokenizers), with --gpt2=FOLDER of its files
"""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import platform
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from numjax import numeral
from numjax.bundled.experiments import command
from numjax.bundled.experiments.benchmarks import pairs
from numjax.errors import DataError, UsageError
from numjax.tools import numerals as tool


def main(words: list[str] | None = None) -> dict:
    """Prints a table and the results as JSON on the last line."""
    parser = command.Parser(
        prog="python -m experiments.benchmarks.numerals", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--text", action="append", default=[], help="a file of text, also .gz; may be repeated")
    parser.add_argument("--rules", default="default", help=f"comma-separated, of {', '.join(numeral.names())}")
    parser.add_argument("--gpt2", help="a folder with encoder.json and vocab.bpe (or vocab.json and merges.txt)")
    parser.add_argument("--megabytes", type=float, default=8, help="size that each text is repeated to")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", help="a JSON file to write")
    options = parser.parse_args(words)
    if options.rounds < 1 or options.megabytes <= 0:
        raise UsageError("--rounds and --megabytes must be positive")
    texts = {pathlib.Path(name).name: read_text(name) for name in options.text} or {"made up": make_text()}
    encode = load_bpe(options.gpt2) if options.gpt2 else None
    results = {
        name: measure(repeat_text(data, options.megabytes), options.rules.split(","), encode, options.rounds)
        for name, data in texts.items()
    }
    result = {"machine": platform.processor() or platform.machine(), "python": platform.python_version()}
    result |= {"rounds": options.rounds, "texts": results}
    for name, row in results.items():
        print(f"{name}: {row['megabytes']:.1f} MB, {row['numbers']} numbers")
        for contender, speed in row["megabytes_a_second"].items():
            print(f"  {contender:<16}{speed:9.1f} MB/s")
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result))
    return result


def short(peer: str) -> tuple[list[pairs.BenchmarkRow], list[str]]:
    """The short form for `make bench`: (rows of the table, peers that were left out)."""
    del peer  # no peer is needed: the tool's speed has its own floor
    rules = ["default", "numtok"]
    speeds = measure(repeat_text(make_text(), 2), rules, None, rounds=3)["megabytes_a_second"]
    floors = {f"process {name}": 5.0 for name in rules}
    return [pairs.BenchmarkRow(f"numerals {k}", v, floor=floors.get(k), unit="MB/s") for k, v in speeds.items()], []


def measure(data: bytes, rules: list[str], encode: Callable | None, rounds: int) -> dict:
    """Median MB/s of each contender on one text."""
    lines = data.decode(errors="replace").splitlines()
    blocks = [b"".join(part) for part in _split_blocks(data.splitlines(keepends=True))]
    scan = re.compile("[0-9]+").finditer
    contenders: dict[str, Callable[[], object]] = {"scan": lambda: [list(scan(line)) for line in lines]}
    for name in rules:
        find = numeral.load_finder(name)
        contenders[f"find {name}"] = lambda find=find: [find(line) for line in lines]
        contenders[f"tool {name}"] = lambda find=find: [tool.answer_block(block, find) for block in blocks]
    if encode is not None:
        contenders["gpt2"] = lambda: [encode(line).ids for line in lines]
    seconds: dict[str, list[float]] = {}
    walls: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "in.txt")
        source.write_bytes(data)
        contenders |= {f"process {name}": lambda name=name: run_process(source, name) for name in rules}
        for _ in range(rounds):
            for name, run in contenders.items():
                start, wall = cpu_seconds(), time.perf_counter()
                run()
                seconds.setdefault(name, []).append(cpu_seconds() - start)
                walls.setdefault(name, []).append(time.perf_counter() - wall)
    size = len(data) / 1e6
    numbers = sum(len(numeral.find(line)) for line in lines)

    def compute_speeds(times: dict[str, list[float]]) -> dict[str, float]:
        return {name: round(size / statistics.median(values), 2) for name, values in times.items()}

    return {
        "megabytes": size,
        "numbers": numbers,
        "megabytes_a_second": compute_speeds(seconds),
        "megabytes_a_second_on_the_wall": compute_speeds(walls),
    }


def cpu_seconds() -> float:
    """User and system time of this process and of its finished children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _split_blocks(lines: list[bytes]) -> list[list[bytes]]:
    """Splits lines into blocks of about the size that the tool reads at once."""
    out: list[list[bytes]] = [[]]
    size = 0
    for line in lines:
        if size > tool.BLOCK:
            out.append([])
            size = 0
        out[-1].append(line)
        size += len(line)
    return out


def run_process(source: pathlib.Path, rules: str) -> None:
    """Runs the tool as a process that reads a file and writes another."""
    with source.open("rb") as stdin, source.with_suffix(".out").open("wb") as stdout:
        words = [sys.executable, "-m", "numjax.tools.numerals", f"--rules={rules}"]
        subprocess.run(words, stdin=stdin, stdout=stdout, check=True)


def read_text(name: str) -> bytes:
    """The bytes of a file of text, also .gz.

    Raises:
      DataError: the file cannot be read.
    """
    try:
        with (gzip.open if name.endswith(".gz") else open)(name, "rb") as file:
            data = file.read()
    except (OSError, EOFError) as error:
        raise DataError(f"{name} cannot be read: {error}") from None
    if not data:
        raise DataError(f"{name} is empty: give a file of text")
    return data


def make_text(sentences: int = 20_000) -> bytes:
    """Seeded random sentences in which about every tenth word is a number."""
    rng = random.Random(0)
    plain_words = "the market rose after a quiet week and most of them said that prices would hold for now".split()
    kinds: list[Callable[[], str]] = [
        lambda: str(rng.randrange(2030)),
        lambda: f"{rng.randrange(10**7):,}",
        lambda: f"${rng.uniform(0, 900):.2f}",
        lambda: f"{rng.uniform(-9, 99):.1f}%",
    ]
    lines = []
    for _ in range(sentences):
        words = [
            rng.choice(kinds)() if rng.random() < 0.1 else rng.choice(plain_words) for _ in range(rng.randint(8, 40))
        ]
        lines.append(" ".join(words) + ".\n")
    return "".join(lines).encode()


def repeat_text(data: bytes, megabytes: float) -> bytes:
    """The text with a final line end, repeated to about `megabytes`."""
    data = data.rstrip(b"\n") + b"\n"
    return data * max(1, round(megabytes * 1e6 / len(data)))


def load_bpe(folder: str) -> Callable:
    """The `encode` function of a byte-level BPE from its two files.

    Raises:
      UsageError: the files are not there.
    """
    # One core for each contender; must be set before the library starts its threads.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from tokenizers import ByteLevelBPETokenizer

    for vocabulary, merges in (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt")):
        paths = pathlib.Path(folder, vocabulary), pathlib.Path(folder, merges)
        if all(path.exists() for path in paths):
            return ByteLevelBPETokenizer(*map(str, paths)).encode
    raise UsageError(f"--gpt2={folder} holds neither encoder.json and vocab.bpe nor vocab.json and merges.txt")


if __name__ == "__main__":
    command.entry(main, starts_programs=True)
