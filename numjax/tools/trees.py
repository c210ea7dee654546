"""python -m numjax.tools.trees [--from=latex] [--as_published] [--jobs=N]: prints the operator tree of each formula.

For each formula (a line of standard input) it prints a line with a JSON object, in the same order:
{"tree": [type, symbol, [children] | null], "latex": "…"}, or {"error": "…", "at": column} with columns from 0.
Parsing "latex" gives the same tree (under --as_published it is the published LaTeX, without parentheses). The tool
never crashes and never skips a line; an empty line is an error too. Lines end at "\\n" or "\\r\\n". Bytes that are
not UTF-8 become U+FFFD. With one job, each line is answered as soon as it arrives, so the tool can also run as a
coprocess.

--from=latex (default), mathml (content MathML, or presentation MathML with its TeX annotation), article (a JSON tree
[type, symbol, children], or a formula {"opt": …} of the original's articles). --backend=native (default) or latexml,
which needs LaTeXML installed. --unknown=symbol parses unknown macros as symbols instead of reporting them.
"""

from __future__ import annotations

import functools
import json
import multiprocessing
import sys
from collections.abc import Callable, Iterator

from numjax.errors import UsageError
from numjax.expr.latex.parser import parse
from numjax.expr.printer import published
from numjax.expr.printer.printer import latex
from numjax.expr.rules import DEFAULT, Rules, Unreadable
from numjax.expr.tree import Tree, from_json
from numjax.tools.command import make_parser, report, stream
from numjax.tools.numerals import read_blocks

# Parses a batch of lines.
Reader = Callable[[list[str]], "list[Tree | Unreadable]"]

SOURCES = ("latex", "mathml", "article")
BACKENDS = ("native", "latexml")
LINES = 512  # that a worker gets at once
_encode = json.JSONEncoder(ensure_ascii=False).encode


def _read_latex(lines: list[str], rules: Rules) -> list[Tree | Unreadable]:
    return [parse(line, rules) for line in lines]


def _read_article(lines: list[str]) -> list[Tree | Unreadable]:
    return [_parse_json(line) for line in lines]


def _parse_json(line: str) -> Tree | Unreadable:
    try:
        value = json.loads(line)
        if isinstance(value, dict):
            if "formulas" in value:
                return Unreadable("a whole article: give each of its formulas a line of its own", 0)
            value = value.get("opt", value.get("tree"))
        return from_json(value)
    except json.JSONDecodeError as error:
        return Unreadable(f"no JSON: {error.msg}", error.pos)
    except (ValueError, RecursionError) as error:
        return Unreadable(str(error) or "nested too deep", 0)


# LaTeX needs neither of these modules, and both are large: they are imported only when they are used.


def _read_mathml(lines: list[str], as_published: bool) -> list[Tree | Unreadable]:
    from numjax.expr import mathml

    return [mathml.parse(line, as_published=as_published) for line in lines]


def _read_latexml(lines: list[str], as_published: bool) -> list[Tree | Unreadable]:
    from numjax.expr.mathml import latexml

    return list(latexml.parse(lines, as_published=as_published))


def make_reader(source: str, backend: str, rules: Rules, as_published: bool = False) -> Reader:
    """Makes the reader for a source and a backend.

    Raises:
      UsageError: there is no such reader, or it is not installed.
    """
    if source not in SOURCES:
        raise UsageError(f"--from={source}: one of {', '.join(SOURCES)}")
    if backend not in BACKENDS:
        raise UsageError(f"--backend={backend}: one of {', '.join(BACKENDS)}")
    if backend == "latexml" and source != "latex":
        raise UsageError(f"--backend=latexml reads LaTeX, not --from={source}")
    if source == "article":
        return _read_article
    if source == "latex" and backend == "native":
        return functools.partial(_read_latex, rules=rules)
    if source == "mathml":
        return functools.partial(_read_mathml, as_published=as_published)
    from numjax.expr.mathml import latexml

    if not latexml.is_installed():
        raise UsageError("latexml and latexmlpost are not on the path: install LaTeXML, or use --backend=native")
    return functools.partial(_read_latexml, as_published=as_published)


def format_line(tree: Tree | Unreadable, as_published: bool) -> str:
    """Formats one line of output."""
    try:
        if isinstance(tree, Unreadable):
            return _encode({"error": tree.error, "at": tree.at})
        text = published.latex(tree) if as_published else latex(tree)
        return _encode({"tree": tree.to_json(), "latex": text})
    except (RecursionError, ValueError) as error:
        return _encode({"error": f"a tree that cannot be written: {error}", "at": 0})


def answer_lines(lines: list[str], reader: Reader, as_published: bool) -> str:
    """Makes the output for lines of input: as many lines."""
    try:
        trees = reader(lines)
    except UsageError:
        raise
    except Exception as error:
        # An error of a backend on one line must not affect the other lines: try each alone.
        if len(lines) > 1:
            return "".join(answer_lines([line], reader, as_published) for line in lines)
        trees = [Unreadable(f"{type(error).__name__}: {error}", 0)]
    # A formula may have escapes of lone surrogates, which UTF-8 cannot encode.
    text = "".join(format_line(tree, as_published) + "\n" for tree in trees)
    return text.encode("utf-8", "backslashreplace").decode()


def _read_lines() -> Iterator[list[str]]:
    for block in read_blocks(sys.stdin.buffer):
        text = block.decode("utf-8", errors="replace")
        yield [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def _read_chunks() -> Iterator[list[str]]:
    for lines in _read_lines():
        for begin in range(0, len(lines), LINES):
            yield lines[begin : begin + LINES]


def _answer_all(work: Callable[[list[str]], str], jobs: int) -> Iterator[bytes]:
    if jobs == 1:
        yield from (work(lines).encode() for lines in _read_lines())
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from (text.encode() for text in pool.imap(work, _read_chunks()))


def main(argv: list[str] | None = None) -> int:
    """Reads standard input to its end. Returns 0, 2 for bad usage, 130 after an interrupt, or 1 if reading or writing
    fails (a full disk)."""
    parser = make_parser("trees", __doc__)
    parser.add_argument("--from", dest="source", default="latex", help=f"one of {', '.join(SOURCES)}")
    parser.add_argument("--backend", default="native", help=f"one of {', '.join(BACKENDS)}")
    parser.add_argument("--as_published", action="store_true", help="the conventions of LaTeXML and Tangent-CFT")
    parser.add_argument("--unknown", choices=("error", "symbol"), help="how to treat unknown macros")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    try:
        flags = parser.parse_args(argv)
        if flags.jobs < 1:
            raise UsageError(f"--jobs={flags.jobs}: at least 1")
        rules = Rules.as_published() if flags.as_published else DEFAULT
        if flags.unknown:
            rules = rules._replace(unknown=flags.unknown)
        reader = make_reader(flags.source, flags.backend, rules, flags.as_published)
    except UsageError as error:
        return report("trees", error)
    work = functools.partial(answer_lines, reader=reader, as_published=flags.as_published)
    return stream("trees", _answer_all(work, flags.jobs))


if __name__ == "__main__":
    sys.exit(main())
