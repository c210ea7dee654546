"""python -m numjax.tools.numerals [--rules=default|accounting|numgpt|numtok|words]: the numerals of each line.

Text lines of standard input in, a JSON list of {"start", "end", "text", "value"} a line out. Positions count
characters of the line; `value` is a decimal string, scientific beyond 40 digits. Lines end at "\\n" or "\\r\\n";
bytes that are not UTF-8 are read as U+FFFD. What has arrived is answered at once, so the tool also serves as a co-
process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from numjax import numeral
from numjax.errors import UsageError
from numjax.numeral.surface import plain
from numjax.tools.command import Parser, stream
from numjax.types import Span

BLOCK = 1 << 18  # bytes read at once
_ESCAPED = {'"', "\\"}


def line_of(spans: Iterable[Span]) -> str:
    """One line of output."""
    return "[" + ", ".join(map(_span, spans)) + "]"


def _span(span: Span) -> str:
    start, end, text, value = span
    # The value is ASCII; only a text of words, with its blanks and hyphens, might hold what must be escaped.
    quoted = f'"{text}"' if text.isprintable() and not _ESCAPED & set(text) else json.dumps(text, ensure_ascii=False)
    return f'{{"start": {start}, "end": {end}, "text": {quoted}, "value": "{plain(value)}"}}'


def answer(block: bytes, find: Callable[[str], list[Span]]) -> bytes:
    """Output for whole lines of input, each with or without its end."""
    text = block.decode("utf-8", errors="replace")
    lines = text.removesuffix("\n").split("\n")
    out = [line_of(find(line.removesuffix("\r"))) for line in lines]
    return ("\n".join(out) + "\n").encode()


def blocks(source: BinaryIO) -> Iterator[bytes]:
    """The input in blocks of whole lines, as soon as they are there."""
    rest: list[bytes] = []
    # read1 exists on every buffered reader: it waits for some bytes, not for all.
    while read := source.read1(BLOCK):  # type: ignore[attr-defined]
        cut = read.rfind(b"\n") + 1
        if cut:
            yield b"".join(rest) + read[:cut]
            rest = []
        if cut < len(read):
            rest.append(read[cut:])
    if rest:
        yield b"".join(rest)


def main(argv: list[str] | None = None) -> int:
    """Reads standard input to its end; 0, 2 for bad usage, 130 when interrupted, 1 when reading or writing
    fails (a full disk)."""
    parser = Parser(prog="python -m numjax.tools.numerals", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("--rules", default="default", help=f"one of {', '.join(numeral.names())} (default: default)")
    try:
        find = numeral.finder(parser.parse_args(argv).rules)
    except UsageError as error:
        print(f"numerals: {error}", file=sys.stderr)
        return 2
    return stream("numerals", (answer(block, find) for block in blocks(sys.stdin.buffer)))


if __name__ == "__main__":
    sys.exit(main())
