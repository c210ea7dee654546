"""python -m numjax.tools.trees [--from=latex] [--as_published] [--jobs=N]: the operator tree of each formula.

A formula a line in, a JSON object a line out, in the same order: {"tree": [type, symbol, [children] | null],
"latex": "…"}, the LaTeX that reads back as the tree (under --as_published the published one, without parentheses),
or {"error": "…", "at": column}, columns counted from 0. Never crashes, never skips a line; an empty line is an error
like any other. Lines end at "\\n" or "\\r\\n"; bytes that are not UTF-8 are read as U+FFFD. With one job, what has
arrived is answered at once, so the tool also serves as a co-process.

--from=latex (default), mathml (content MathML, or presentation MathML with its TeX annotation), article (a JSON tree
[type, symbol, children], or a formula {"opt": …} of the original's articles). --backend=native (default) or latexml,
which needs LaTeXML installed. --unknown=symbol reads unknown macros as symbols instead of reporting them.
"""

from __future__ import annotations

import functools
import json
import multiprocessing
import sys
from collections.abc import Callable, Iterator

from numjax.errors import UsageError
from numjax.expr import published
from numjax.expr.latex import parse
from numjax.expr.printer import latex
from numjax.expr.rules import DEFAULT, Rules, Unreadable
from numjax.expr.tree import Tree, from_json
from numjax.tools.command import Parser, stream
from numjax.tools.numerals import blocks

# What reads a batch of lines.
Reader = Callable[[list[str]], "list[Tree | Unreadable]"]

SOURCES = ("latex", "mathml", "article")
BACKENDS = ("native", "latexml")
LINES = 512  # a worker gets at once


def _latex(lines: list[str], rules: Rules) -> list[Tree | Unreadable]:
    return [parse(line, rules) for line in lines]


def _article(lines: list[str]) -> list[Tree | Unreadable]:
    return [_json(line) for line in lines]


def _json(line: str) -> Tree | Unreadable:
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


# Neither is needed for LaTeX, and each is large: they are imported when they are asked for.


def _mathml(lines: list[str], as_published: bool) -> list[Tree | Unreadable]:
    from numjax.expr import mathml

    return [mathml.parse(line, as_published=as_published) for line in lines]


def _latexml(lines: list[str], as_published: bool) -> list[Tree | Unreadable]:
    from numjax.expr import latexml

    return list(latexml.parse(lines, as_published=as_published))


def reader(source: str, backend: str, rules: Rules, as_published: bool = False) -> Reader:
    """What reads lines of that kind.

    Raises:
      UsageError: there is none, or it is not installed.
    """
    if source not in SOURCES:
        raise UsageError(f"--from={source}: one of {', '.join(SOURCES)}")
    if backend not in BACKENDS:
        raise UsageError(f"--backend={backend}: one of {', '.join(BACKENDS)}")
    if backend == "latexml" and source != "latex":
        raise UsageError(f"--backend=latexml reads LaTeX, not --from={source}")
    if source == "article":
        return _article
    if source == "latex" and backend == "native":
        return functools.partial(_latex, rules=rules)
    if source == "mathml":
        return functools.partial(_mathml, as_published=as_published)
    from numjax.expr import latexml

    if not latexml.installed():
        raise UsageError("latexml and latexmlpost are not on the path: install LaTeXML, or use --backend=native")
    return functools.partial(_latexml, as_published=as_published)


def line_of(made: Tree | Unreadable, as_published: bool) -> str:
    """One line of output."""
    try:
        if isinstance(made, Unreadable):
            return json.dumps({"error": made.error, "at": made.at}, ensure_ascii=False)
        text = published.latex(made) if as_published else latex(made)
        return json.dumps({"tree": made.to_json(), "latex": text}, ensure_ascii=False)
    except (RecursionError, ValueError) as error:
        return json.dumps({"error": f"a tree that cannot be written: {error}", "at": 0}, ensure_ascii=False)


def answer(lines: list[str], read: Reader, as_published: bool) -> str:
    """The lines of output for lines of input: as many."""
    try:
        made = read(lines)
    except UsageError:
        raise
    except Exception as error:
        # No line may take the others with it, whatever a backend does.
        if len(lines) > 1:
            return "".join(answer([line], read, as_published) for line in lines)
        made = [Unreadable(f"{type(error).__name__}: {error}", 0)]
    # Lone surrogates, which a formula may escape, have no UTF-8.
    text = "".join(line_of(one, as_published) + "\n" for one in made)
    return text.encode("utf-8", "backslashreplace").decode()


def _lines() -> Iterator[list[str]]:
    for block in blocks(sys.stdin.buffer):
        text = block.decode("utf-8", errors="replace")
        yield [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def _chunks() -> Iterator[list[str]]:
    for lines in _lines():
        for begin in range(0, len(lines), LINES):
            yield lines[begin : begin + LINES]


def _answers(work: Callable[[list[str]], str], jobs: int) -> Iterator[bytes]:
    if jobs == 1:
        yield from (work(lines).encode() for lines in _lines())
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from (text.encode() for text in pool.imap(work, _chunks()))


def main(argv: list[str] | None = None) -> int:
    """Reads standard input to its end; 0, 2 for bad usage, 130 when interrupted, 1 when reading or writing
    fails (a full disk)."""
    parser = Parser(prog="python -m numjax.tools.trees", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("--from", dest="source", default="latex", help=f"one of {', '.join(SOURCES)}")
    parser.add_argument("--backend", default="native", help=f"one of {', '.join(BACKENDS)}")
    parser.add_argument("--as_published", action="store_true", help="the conventions of LaTeXML and Tangent-CFT")
    parser.add_argument("--unknown", choices=("error", "symbol"), help="what becomes of unknown macros")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    try:
        flags = parser.parse_args(argv)
        if flags.jobs < 1:
            raise UsageError(f"--jobs={flags.jobs}: at least 1")
        rules = Rules.as_published() if flags.as_published else DEFAULT
        if flags.unknown:
            rules = rules._replace(unknown=flags.unknown)
        read = reader(flags.source, flags.backend, rules, flags.as_published)
    except UsageError as error:
        print(f"trees: {error}", file=sys.stderr)
        return 2
    work = functools.partial(answer, read=read, as_published=flags.as_published)
    return stream("trees", _answers(work, flags.jobs))


if __name__ == "__main__":
    sys.exit(main())
