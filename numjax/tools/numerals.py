"""python -m numjax.tools.numerals [--rules=default|numgpt|words]: the numerals of each line of standard input.

Text lines in, a JSON list of {"start", "end", "text", "value"} a line out. Positions count characters; `value`
is a decimal string, scientific beyond 40 digits. Bytes that are not UTF-8 are read as U+FFFD.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator

from numjax import numeral
from numjax.errors import UsageError
from numjax.numeral.exact import plain
from numjax.types import Span


def line_of(spans: Iterable[Span]) -> str:
    """One line of output."""
    return "[" + ", ".join(map(_span, spans)) + "]"


def _span(span: Span) -> str:
    start, end, text, value = span
    if text.isascii() and text.isdigit() and len(text) <= 40:
        # Digits need no escaping, and their value no arithmetic.
        return f'{{"start": {start}, "end": {end}, "text": "{text}", "value": "{text.lstrip("0") or "0"}"}}'
    return json.dumps({"start": start, "end": end, "text": text, "value": plain(value)}, ensure_ascii=False)


def lines(source: Iterable[bytes], rules: str) -> Iterator[str]:
    """Output lines for input lines."""
    find = numeral.finder(rules)
    for raw in source:
        text = raw.decode("utf-8", errors="replace").rstrip("\r\n")
        yield line_of(find(text))


def main(argv: list[str] | None = None) -> int:
    """Reads standard input to its end; 0, or 2 for bad usage."""
    parser = argparse.ArgumentParser(prog="numjax.tools.numerals", description=__doc__.splitlines()[0])
    parser.add_argument("--rules", default="default", help=f"one of {', '.join(numeral.names())}")
    rules = parser.parse_args(argv).rules
    try:
        numeral.finder(rules)
    except UsageError as error:
        print(f"numerals: {error}", file=sys.stderr)
        return 2
    try:
        write = sys.stdout.buffer.write
        waiting, size = [], 0
        for line in lines(sys.stdin.buffer, rules):
            waiting.append(line)
            size += len(line)
            # A terminal or a pipe in use wants its answers now; bulk input wants few writes.
            if size > 1 << 16 or sys.stdin.isatty():
                write(("\n".join(waiting) + "\n").encode("utf-8", errors="replace"))
                waiting, size = [], 0
        if waiting:
            write(("\n".join(waiting) + "\n").encode("utf-8", errors="replace"))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has what it wanted; keep Python from complaining when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
