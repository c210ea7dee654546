"""LaTeX → operator tree through LaTeXML, where it is installed: the reference for the native reader.

Formulas go in batches, since a start of LaTeXML takes a second. Each stands in a paragraph of its own behind a word
that names it. A batch counts only if every word comes back once, in order, with one formula behind it; else it is
halved and run again, so that a bad formula ends up alone and harms no other.
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
from numjax.expr import mathml
from numjax.expr.mathml import markup
from numjax.expr.mathml.markup import Node
from numjax.expr.rules import Unreadable
from numjax.expr.tree import Tree

BATCH = 64
# Seconds: for the start, and for each formula.
START, EACH = 30.0, 2.0
WORD = "numjaxformula"
HEAD = "\\documentclass{article}\n\\usepackage{amsmath,amssymb}\n\\begin{document}\n\n"
TAIL = "\\end{document}\n"

# Commands that would read or write files, end the document or change how it is read.
_REFUSED = re.compile(
    r"\\(?:input|include|openin|openout|read|write|immediate|special|catcode|csname|usepackage|RequirePackage"
    r"|documentclass|verbatiminput|lstinputlisting|includegraphics|endinput|InputIfFileExists|bibliography|par"
    r"|(?:begin|end)\s*\{\s*document\s*\})(?![A-Za-z])|\^\^"
)
# Commands whose effect may outlive the formula's group.
_LASTING = re.compile(r"\\(?:[gx]?def|global|let|(?:re|provide)?newcommand|DeclareMath|setcounter|newenvironment)")


def is_installed() -> bool:
    """Whether LaTeXML's two programs are on the path."""
    return all(shutil.which(program) for program in ("latexml", "latexmlpost"))


def parse(
    formulas: Iterable[str], *, jobs: int = 1, batch: int = BATCH, as_published: bool = False
) -> Iterator[Tree | Unreadable]:
    """The trees of formulas, in their order; an Unreadable for a formula that cannot be read.

    Args:
      formulas: LaTeX without dollar signs; read as they are needed.
      jobs: processes at once. batch: formulas of one run.
      as_published: with the conventions of the original pipeline, see `mathml.parse`.

    Raises:
      UsageError: LaTeXML is not installed, or jobs or batch are not positive.
    """
    if not is_installed():
        raise UsageError("latexml and latexmlpost are not on the path: install LaTeXML, or use the native reader")
    if jobs < 1 or batch < 1:
        raise UsageError(f"jobs={jobs} and batch={batch} must be positive")
    return _parse_in_order(iter(formulas), jobs, batch, as_published)


def _parse_in_order(
    formulas: Iterator[str], jobs: int, batch: int, as_published: bool
) -> Iterator[Tree | Unreadable]:
    running: collections.deque[Future[list[Tree | Unreadable]]] = collections.deque()
    with ThreadPoolExecutor(jobs) as pool:
        try:
            while True:
                # One batch more than jobs, so that no job waits for the reader of the results.
                while len(running) <= jobs and (part := list(itertools.islice(formulas, batch))):
                    running.append(pool.submit(_parse_batch, part, as_published))
                if not running:
                    return
                yield from running.popleft().result()
        finally:
            for future in running:
                future.cancel()


def _parse_batch(formulas: list[str], as_published: bool) -> list[Tree | Unreadable]:
    results: list[Tree | Unreadable | None] = [find_refusal(formula) for formula in formulas]
    accepted = [i for i, result in enumerate(results) if result is None]
    shared = [i for i in accepted if not _LASTING.search(formulas[i])]
    for group in [shared, *([i] for i in accepted if i not in set(shared))]:
        for i, result in zip(group, _run_halving([formulas[i] for i in group]), strict=True):
            results[i] = result if isinstance(result, Unreadable) else _to_tree(result, as_published)
    return [result if result is not None else Unreadable("not read", 0) for result in results]


def _to_tree(element: Node, as_published: bool) -> Tree | Unreadable:
    # Offsets in LaTeXML's output say nothing about the formula.
    tree = mathml.parse_element(element, as_published=as_published, through_tex=False)
    return tree if isinstance(tree, Tree) else Unreadable(f"LaTeXML: {tree.error}", 0)


def find_refusal(formula: str) -> Unreadable | None:
    """Why a formula is not passed to LaTeXML, or None: it would change other formulas, or could read files."""
    if not formula.strip():
        return Unreadable("the formula is empty", 0)
    if match := _REFUSED.search(formula):
        return Unreadable(f"{match[0][:30]} is not allowed in a formula", match.start())
    open_braces: list[int] = []
    for match in re.finditer(r"\\.|[{}$]|[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]|\n\s*\n", formula, re.DOTALL):
        sign = match[0]
        if sign == "{":
            open_braces.append(match.start())
        elif sign == "}":
            if not open_braces:
                return Unreadable("a } without its {", match.start())
            open_braces.pop()
        elif sign[0] != "\\":
            return Unreadable(f"{sign[:1]!r} is not allowed in a formula", match.start())
    return Unreadable("a { without its }", open_braces[-1]) if open_braces else None


def _run_halving(formulas: Sequence[str]) -> list[Node | Unreadable]:
    """The <math> element of each formula, in as few runs as the bad formulas allow."""
    if not formulas:
        return []
    result = _run(formulas)
    if not isinstance(result, Unreadable):
        return list(result)
    if len(formulas) == 1:
        return [result]
    middle = len(formulas) // 2
    return _run_halving(formulas[:middle]) + _run_halving(formulas[middle:])


def _run(formulas: Sequence[str]) -> list[Node] | Unreadable:
    """One run in a folder of its own; Unreadable if it fails or its output is not complete."""
    with tempfile.TemporaryDirectory(prefix="numjax-latexml-") as name:
        folder = pathlib.Path(name)
        (folder / "in.tex").write_text(HEAD + "".join(map(_make_paragraph, itertools.count(), formulas)) + TAIL)
        limit = START + EACH * len(formulas)
        failure = _run_program(
            ["latexml", "--quiet", "--quiet", "--nocomments", "--dest=read.xml", "in.tex"], folder, limit
        )
        if failure:
            return Unreadable(failure, 0)
        xml_path = folder / "read.xml"
        # Letters are italic by default, and would become other characters.
        xml_path.write_text(xml_path.read_text().replace(' font="italic"', ""))
        command = ["latexmlpost", "--quiet", "--quiet", "--pmml", "--cmml", "--mathtex", "--dest=out.xml", "read.xml"]
        failure = _run_program(command, folder, limit)
        if failure:
            return Unreadable(failure, 0)
        document = markup.parse_xml((folder / "out.xml").read_text())
    return document if isinstance(document, Unreadable) else _find_formulas(document, len(formulas))


def _make_paragraph(index: int, formula: str) -> str:
    source = re.sub(r"(?<!\\)((?:\\\\)*)%", r"\1\\%", formula.strip())
    # The blank keeps a last backslash from the dollar.
    return f"{WORD}{index}: ${source} $\n\n"


def _run_program(command: list[str], folder: pathlib.Path, limit: float) -> str | None:
    """Runs a program; returns a line about its failure, or None. Kills its process group at the time limit."""
    with subprocess.Popen(
        command,
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
            return f"{command[0]} takes more than {limit:.0f} s"
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if status:
        return f"{command[0]} ends with status {status}"
    output_name = next(word for word in command if word.startswith("--dest=")).removeprefix("--dest=")
    return None if (folder / output_name).exists() else f"{command[0]} writes nothing"


def _find_formulas(document: Node, count: int) -> list[Node] | Unreadable:
    """The <math> element after each word, if all are there in their order."""
    elements: list[Node] = []
    for paragraph in document.walk():
        if paragraph.name != "p" or not paragraph.text.startswith(WORD):
            continue
        index = paragraph.text.removeprefix(WORD).partition(":")[0]
        math_nodes = [node for node in paragraph.walk() if node.name == "math"]
        if index != str(len(elements)) or len(math_nodes) != 1 or len(paragraph.children) != 1:
            return Unreadable(f"LaTeXML makes {len(math_nodes)} formulas of it", 0)
        elements.append(math_nodes[0])
    if len(elements) != count or sum(node.name == "math" for node in document.walk()) != count:
        return Unreadable("LaTeXML makes no formula of it", 0)
    return elements
