"""python -m numjax.tools.inspect WORKDIR|EMBEDDING … [--out=FILE]: a page that shows how systems hold numbers.

The page is one HTML file that needs no network. Type a number, and it shows the number's symbols in every layout, its
exact value, its vector, the numbers nearest to it, where it stands among 0 … 999, and for a trained run what the run
writes when it is asked for the number, or how it judges the number as an answer. Up to four parts stand side by side.

EMBEDDING is `name:key=value,…` of any numeral embedding (a learned one has random parameters), or a GloVe or word2vec
text file; one with an open range, such as DICE, gets 0 … 999. LIST is numbers with commas between them, with
semicolons if a number has commas ("1,200;3.5"), LOW:HIGH, or a file with a number a line.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import time
from collections.abc import Sequence

from numjax.errors import DataError, UsageError
from numjax.inspect import microscope, render
from numjax.runtime import files
from numjax.tools.command import Parser, make_parser, report
from numjax.tools.geometry import parse_numbers, parse_range

OUT = "microscope.html"


def parse_texts(text: str) -> list[str]:
    """Parses a LIST into numbers as they are written.

    Raises:
      UsageError: it holds no number, or something else.
    """
    if not text:
        return []
    if ":" in text and ";" not in text and not os.path.isfile(text):
        return parse_numbers(text)
    if os.path.isfile(text):
        try:
            parts = pathlib.Path(text).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            raise UsageError(f"--numbers: cannot read {text} ({error.strerror})") from error
    else:
        parts = text.split(";" if ";" in text else ",")
    texts = [part.strip() for part in parts if part.strip()]
    if not texts:
        raise UsageError(f"--numbers={text}: no number in it; give 0.5,17 or '1,200;3.5' or a file")
    for part in texts:
        try:
            microscope.parse_number(part)
        except UsageError as error:
            raise UsageError(f"--numbers: {error}") from None
    return texts


def _make_parser() -> Parser:
    parser = make_parser("inspect", __doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("parts", nargs="+", metavar="WORKDIR|EMBEDDING", help="a run's folder, or an embedding")
    parser.add_argument("--out", default=OUT, help=f"the file to write (default: {OUT})")
    parser.add_argument("--numbers", default="", metavar="LIST", help="further numbers to compute ahead")
    parser.add_argument("--high", type=int, default=microscope.HIGH, help="the range is 0 … HIGH (default: 999)")
    parser.add_argument(
        "--prompt", default="", help="for runs that write, a text with {} for the number; for others a question"
    )
    parser.add_argument("--vocab", default="", help="of the layouts, such as gpt2:path=FOLDER")
    parser.add_argument("--trust", action="store_true", help="run modules outside numjax that a workdir names")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the page and prints where. Returns 0; for bad flags or data it prints one line and returns 2."""
    start = time.monotonic()
    try:
        flags = _make_parser().parse_args(argv)
        shown = microscope.examine(
            flags.parts,
            parse_texts(flags.numbers),
            high=flags.high,
            prompt=flags.prompt,
            vocab=flags.vocab,
            trust=flags.trust,
            options=lambda spec, numbers: parse_range("", spec, numbers),
        )
        page = render.make_page(shown)
        out = pathlib.Path(flags.out).expanduser()
        try:
            files.write(out, page)
        except OSError as error:
            raise UsageError(f"cannot write {out} ({error.strerror}): choose another --out") from error
    except (UsageError, DataError) as error:
        return report("inspect", error)
    except KeyboardInterrupt:
        return 130
    summary = render.summarise(shown, page)
    print(
        f"{out}: {summary['numbers']:,} numbers, {summary['layouts']} layouts, {summary['views']} embeddings, "
        f"{summary['bytes'] / 1e6:.1f} MB, in {time.monotonic() - start:.0f} s; open it in a browser"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
