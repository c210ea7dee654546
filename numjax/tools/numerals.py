"""python -m numjax.tools.numerals [--rules=RULES]: prints the numerals of each line.

For each text line of standard input it prints a line with a JSON list of {"start", "end", "text", "value"}. Positions
count characters of the line. `value` is a decimal string, in scientific notation beyond 40 digits. Lines end at
"\\n" or "\\r\\n". Bytes that are not UTF-8 become U+FFFD. Each line is answered as soon as it arrives, so the tool
can also run as a coprocess.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from numjax import numeral
from numjax.errors import UsageError
from numjax.numeral.surface import format_plain
from numjax.tools.command import make_parser, report, stream
from numjax.types import Span

BLOCK = 1 << 18  # bytes read at once
_MUST_ESCAPE = {'"', "\\"}


def format_line(spans: Iterable[Span]) -> str:
    """Formats one line of output."""
    return "[" + ", ".join(map(_format_span, spans)) + "]"


def _format_span(span: Span) -> str:
    start, end, text, value = span
    # The value is ASCII. Only the text may have characters that must be escaped, if it is in words.
    quoted = (
        f'"{text}"' if text.isprintable() and not _MUST_ESCAPE & set(text) else json.dumps(text, ensure_ascii=False)
    )
    return f'{{"start": {start}, "end": {end}, "text": {quoted}, "value": "{format_plain(value)}"}}'


def answer_block(block: bytes, find: Callable[[str], list[Span]]) -> bytes:
    """Makes the output for whole lines of input, with or without a line end."""
    text = block.decode("utf-8", errors="replace")
    lines = text.removesuffix("\n").split("\n")
    out = [format_line(find(line.removesuffix("\r"))) for line in lines]
    return ("\n".join(out) + "\n").encode()


def read_blocks(source: BinaryIO) -> Iterator[bytes]:
    """Yields the input in blocks of whole lines, as soon as they arrive."""
    rest: list[bytes] = []
    # Every buffered reader has read1. It waits for some bytes, not for all.
    while chunk := source.read1(BLOCK):  # type: ignore[attr-defined]
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield b"".join(rest) + chunk[:cut]
            rest = []
        if cut < len(chunk):
            rest.append(chunk[cut:])
    if rest:
        yield b"".join(rest)


def main(argv: list[str] | None = None) -> int:
    """Reads standard input to its end. Returns 0, 2 for bad usage, 130 after an interrupt, or 1 if reading or writing
    fails (a full disk)."""
    parser = make_parser("numerals", __doc__)
    parser.add_argument("--rules", default="default", help=f"one of {', '.join(numeral.names())} (default: default)")
    try:
        find = numeral.load_finder(parser.parse_args(argv).rules)
    except UsageError as error:
        return report("numerals", error)
    return stream("numerals", (answer_block(block, find) for block in read_blocks(sys.stdin.buffer)))


if __name__ == "__main__":
    sys.exit(main())
