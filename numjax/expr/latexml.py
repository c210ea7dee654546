"""LaTeX → operator tree through LaTeXML, where it is installed: the reference that the native reader is held against.

Formulas go in batches, since a start of LaTeXML takes a second. Each stands in a paragraph of its own behind a word
that names it. A batch counts only if every word comes back once, in order, with one formula behind it; else it is
halved and run again, so that a bad formula is left alone in the end and harms no other.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from numjax.errors import UsageError
from numjax.expr import markup, mathml
from numjax.expr.markup import Node
from numjax.expr.rules import Unreadable
from numjax.expr.tree import Tree

BATCH = 64
# Seconds: for the start, and for each formula.
START, EACH = 30.0, 2.0
WORD = "numjaxformula"
HEAD = "\\documentclass{article}\n\\usepackage{amsmath,amssymb}\n\\begin{document}\n\n"
TAIL = "\\end{document}\n"

# What would read or write files, end the document or change how it is read.
_REFUSED = re.compile(
    r"\\(?:input|include|openin|openout|read|write|immediate|special|catcode|csname|usepackage|RequirePackage"
    r"|documentclass|verbatiminput|lstinputlisting|includegraphics|endinput|InputIfFileExists|bibliography|par"
    r"|(?:begin|end)\s*\{\s*document\s*\})(?![A-Za-z])|\^\^"
)
# What may outlive the formula's own group.
_LASTING = re.compile(r"\\(?:[gx]?def|global|let|(?:re|provide)?newcommand|DeclareMath|setcounter|newenvironment)")


def installed() -> bool:
    """Whether LaTeXML's two programs are on the path."""
    return all(shutil.which(program) for program in ("latexml", "latexmlpost"))


def parse(
    formulas: Iterable[str], *, jobs: int = 1, batch: int = BATCH, as_published: bool = False
) -> Iterator[Tree | Unreadable]:
    """The trees of formulas, in their order; what cannot be read is an Unreadable.

    Args:
      formulas: LaTeX without dollar signs; read as they are needed.
      jobs: processes at once. batch: formulas of one run.
      as_published: with the conventions of the original pipeline, see `mathml.parse`.

    Raises:
      UsageError: LaTeXML is not installed, or jobs or batch are not positive.
    """
    if not installed():
        raise UsageError("latexml and latexmlpost are not on the path: install LaTeXML, or use the native reader")
    if jobs < 1 or batch < 1:
        raise UsageError(f"jobs={jobs} and batch={batch} must be positive")
    return _ordered(iter(formulas), jobs, batch, as_published)


def _ordered(formulas: Iterator[str], jobs: int, batch: int, as_published: bool) -> Iterator[Tree | Unreadable]:
    running: collections.deque[Future[list[Tree | Unreadable]]] = collections.deque()
    with ThreadPoolExecutor(jobs) as pool:
        try:
            while True:
                # One batch more than jobs, so that none waits for the reader of the results.
                while len(running) <= jobs and (part := list(itertools.islice(formulas, batch))):
                    running.append(pool.submit(_batch, part, as_published))
                if not running:
                    return
                yield from running.popleft().result()
        finally:
            for future in running:
                future.cancel()


def _batch(formulas: list[str], as_published: bool) -> list[Tree | Unreadable]:
    results: list[Tree | Unreadable | None] = [refusal(formula) for formula in formulas]
    good = [i for i, found in enumerate(results) if found is None]
    together = [i for i in good if not _LASTING.search(formulas[i])]
    for group in [together, *([i] for i in good if i not in set(together))]:
        for i, found in zip(group, _halving([formulas[i] for i in group]), strict=True):
            results[i] = found if isinstance(found, Unreadable) else _tree(found, as_published)
    return [found if found is not None else Unreadable("not read", 0) for found in results]


def _tree(found: Node, as_published: bool) -> Tree | Unreadable:
    # Places in LaTeXML's output say nothing about the formula.
    made = mathml.of(found, as_published=as_published, through_tex=False)
    return made if isinstance(made, Tree) else Unreadable(f"LaTeXML: {made.error}", 0)


def refusal(formula: str) -> Unreadable | None:
    """Why a formula is not given to LaTeXML: it would spill over, or could read files."""
    if not formula.strip():
        return Unreadable("the formula is empty", 0)
    if refused := _REFUSED.search(formula):
        return Unreadable(f"{refused[0][:30]} is not allowed in a formula", refused.start())
    open_at: list[int] = []
    for match in re.finditer(r"\\.|[{}$]|[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]|\n\s*\n", formula, re.DOTALL):
        sign = match[0]
        if sign == "{":
            open_at.append(match.start())
        elif sign == "}":
            if not open_at:
                return Unreadable("a } without its {", match.start())
            open_at.pop()
        elif sign[0] != "\\":
            return Unreadable(f"{sign[:1]!r} is not allowed in a formula", match.start())
    return Unreadable("a { without its }", open_at[-1]) if open_at else None


def _halving(formulas: Sequence[str]) -> list[Node | Unreadable]:
    """The <math> element of each formula, found in as few runs as the bad ones among them allow."""
    if not formulas:
        return []
    found = _run(formulas)
    if not isinstance(found, Unreadable):
        return list(found)
    if len(formulas) == 1:
        return [found]
    middle = len(formulas) // 2
    return _halving(formulas[:middle]) + _halving(formulas[middle:])


def _run(formulas: Sequence[str]) -> list[Node] | Unreadable:
    """One run in a folder of its own; Unreadable if anything about it is not as it must be."""
    with tempfile.TemporaryDirectory(prefix="numjax-latexml-") as name:
        folder = pathlib.Path(name)
        (folder / "in.tex").write_text(HEAD + "".join(map(_paragraph, itertools.count(), formulas)) + TAIL)
        limit = START + EACH * len(formulas)
        failure = _call(["latexml", "--quiet", "--quiet", "--nocomments", "--dest=read.xml", "in.tex"], folder, limit)
        if failure:
            return Unreadable(failure, 0)
        read = folder / "read.xml"
        # Letters are italic by default, and would become other characters.
        read.write_text(read.read_text().replace(' font="italic"', ""))
        words = ["latexmlpost", "--quiet", "--quiet", "--pmml", "--cmml", "--mathtex", "--dest=out.xml", "read.xml"]
        failure = _call(words, folder, limit)
        if failure:
            return Unreadable(failure, 0)
        document = markup.read((folder / "out.xml").read_text())
    return document if isinstance(document, Unreadable) else _formulas(document, len(formulas))


def _paragraph(index: int, formula: str) -> str:
    source = re.sub(r"(?<!\\)((?:\\\\)*)%", r"\1\\%", formula.strip())
    # The blank keeps a last backslash from the dollar.
    return f"{WORD}{index}: ${source} $\n\n"


def _call(words: list[str], folder: pathlib.Path, limit: float) -> str | None:
    """Runs a program; a line about its failure, or None. Its whole group ends with the time."""
    with subprocess.Popen(
        words,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return f"{words[0]} takes more than {limit:.0f} s"
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if status:
        return f"{words[0]} ends with status {status}"
    written = next(word for word in words if word.startswith("--dest=")).removeprefix("--dest=")
    return None if (folder / written).exists() else f"{words[0]} writes nothing"


def _formulas(document: Node, count: int) -> list[Node] | Unreadable:
    """The <math> element behind each word, if all are there as they were written."""
    found: list[Node] = []
    for paragraph in document.walk():
        if paragraph.name != "p" or not paragraph.text.startswith(WORD):
            continue
        index = paragraph.text.removeprefix(WORD).partition(":")[0]
        maths = [node for node in paragraph.walk() if node.name == "math"]
        if index != str(len(found)) or len(maths) != 1 or len(paragraph.children) != 1:
            return Unreadable(f"LaTeXML makes {len(maths)} formulas of it", 0)
        found.append(maths[0])
    if len(found) != count or sum(node.name == "math" for node in document.walk()) != count:
        return Unreadable("LaTeXML makes no formula of it", 0)
    return found
