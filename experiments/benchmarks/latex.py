"""Measures how fast LaTeX is parsed into operator trees: formulas a second on one core.

    python -m experiments.benchmarks.latex [--formulas=FILE] [--count=4000] [--rounds=5] [--fuzz=N] [--out=FILE]

FILE has a formula a line, or is a TSV of source and formula, also .gz. The default is ../shared/data/latex_formulas
(NUMJAX_DATA) if it is there, else generated formulas. The contenders take turns in every round; results are medians
of the processor time:

    tokens          the lexer alone
    parse           LaTeX to tree, by the default rules
    published       the same by LaTeXML's conventions
    print           tree to LaTeX
    tool            lines in, JSON lines out, as in python -m numjax.tools.trees
    latex2mathml    presentation MathML, which is no operator tree, if it is installed
    pylatexenc      its node walker, which does not interpret mathematics, if it is installed

The original pipeline (LaTeXML 0.8.7, then Tangent-CFT) parses 13.7 formulas/s of the same formulas. It is not a
contender here, since it takes a minute to start and needs Perl.

--fuzz=N also parses N random byte strings and broken formulas, and fails at the first exception or lost round trip.
"""

from __future__ import annotations

import gzip
import importlib
import json
import pathlib
import random
import resource
import statistics
import time
from collections.abc import Callable

from numjax.bundled.experiments import command
from numjax.bundled.experiments.benchmarks import corpus, pairs
from numjax.errors import DataError, UsageError
from numjax.expr.latex.lexer import LexError, tokenize
from numjax.expr.latex.parser import parse
from numjax.expr.printer.printer import latex
from numjax.expr.rules import DEFAULT, Rules
from numjax.expr.tree import Tree
from numjax.tools import trees as tool

PUBLISHED = Rules.as_published()
FLOOR = 5000  # formulas a second


def main(words: list[str] | None = None) -> dict:
    """Prints a table and the results as JSON on the last line."""
    parser = command.Parser(
        prog="python -m experiments.benchmarks.latex", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--formulas", help="a formula a line, or source<TAB>formula, also .gz")
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fuzz", type=int, default=0)
    parser.add_argument("--out", help="a JSON file to write")
    options = parser.parse_args(words)
    if options.rounds < 1 or options.count < 1 or options.fuzz < 0:
        raise UsageError("--rounds and --count must be positive")
    name, formulas = load_formulas(options.formulas, options.count)
    speeds, left_out = measure(formulas, options.rounds)
    n_parsed = sum(isinstance(parse(formula), Tree) for formula in formulas)
    print(f"{name}: {len(formulas)} formulas, {n_parsed / len(formulas):.2%} read")
    for contender, speed in speeds.items():
        print(f"  {contender:<14}{speed:10.0f} formulas/s")
    for peer in left_out:
        print(f"  left out: {peer} is not installed")
    result: dict = {"formulas": len(formulas), "read": n_parsed / len(formulas), "formulas_a_second": speeds}
    if options.fuzz:
        result["fuzz"] = fuzz(formulas, options.fuzz)
        print(f"  fuzz: {result['fuzz']}")
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result))
    return result


def short(peer: str) -> tuple[list[pairs.BenchmarkRow], list[str]]:
    """The short form for `make bench`: (rows of the table, peers that were left out)."""
    del peer  # the peers are those that are installed here
    speeds, left_out = measure(load_formulas(None, 1500)[1], rounds=3)
    floors = {"parse": FLOOR, "tool": FLOOR}
    rows = [pairs.BenchmarkRow(f"latex {k}", v, floor=floors.get(k), unit="formulas/s") for k, v in speeds.items()]
    return rows, left_out


def load_formulas(path: str | None, count: int) -> tuple[str, list[str]]:
    """(name, formulas): every k-th formula of the file, so that all its sources are included.

    Raises:
      DataError: the file cannot be read.
    """
    source_path = pathlib.Path(path) if path else corpus.data_folder() / "latex_formulas" / "formulas.tsv.gz"
    if path is None and not source_path.exists():
        return "made up", make_formulas(count)
    try:
        with (gzip.open if source_path.suffix == ".gz" else open)(
            source_path, "rt", encoding="utf-8", errors="replace"
        ) as file:
            lines = [line.rstrip("\n").rpartition("\t")[2] for line in file]
    except (OSError, EOFError) as error:
        raise DataError(f"{source_path} cannot be read: {error}") from None
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise DataError(f"{source_path} is empty: give a file of formulas")
    return source_path.name, lines[:: max(1, len(lines) // count)][:count]


def make_formulas(count: int) -> list[str]:
    """Seeded formulas of the usual kinds."""
    rng = random.Random(0)
    atoms: list[Callable[[], str]] = [
        lambda: rng.choice("abcnxyz"),
        lambda: str(rng.randrange(200)),
        lambda: rf"\{rng.choice(['alpha', 'beta', 'pi', 'lambda'])}",
        lambda: f"{rng.choice('fgA')}({rng.choice('xyz')})",
        lambda: f"{rng.choice('xyz')}_{{{rng.randrange(9)}}}^2",
    ]

    def make_expression(depth: int) -> str:
        if depth == 0:
            return rng.choice(atoms)()
        left, right = make_expression(depth - 1), make_expression(rng.randrange(depth))
        forms = [f"{left} + {right}", f"{left} {right}", rf"\frac{{{left}}}{{{right}}}", rf"\sqrt{{{left}}}"]
        forms += [f"({left} - {right})", rf"\sum_{{i=1}}^n {left}", rf"\left( {left} \right)^{{{right}}}"]
        return rng.choice(forms)

    return [f"{make_expression(rng.randrange(3))} = {make_expression(rng.randrange(4))}" for _ in range(count)]


def measure(formulas: list[str], rounds: int) -> tuple[dict[str, float], list[str]]:
    """(median formulas/s of each contender, the peers that are not installed)."""
    trees = [tree for tree in map(parse, formulas) if isinstance(tree, Tree)]
    parse_line = tool.make_reader("latex", "native", DEFAULT)
    contenders: dict[str, tuple[int, Callable[[], object]]] = {
        "tokens": (len(formulas), lambda: [_try_tokens(formula) for formula in formulas]),
        "parse": (len(formulas), lambda: [parse(formula) for formula in formulas]),
        "published": (len(formulas), lambda: [parse(formula, PUBLISHED) for formula in formulas]),
        "print": (len(trees), lambda: [latex(tree) for tree in trees]),
        "tool": (len(formulas), lambda: tool.answer_lines(formulas, parse_line, False)),
    }
    left_out = []
    for name, load in (("latex2mathml", _load_latex2mathml), ("pylatexenc", _load_pylatexenc)):
        try:
            convert = load()
        except ImportError:
            left_out.append(name)
            continue
        sample = formulas[:300]  # the peers are slow
        contenders[name] = (
            len(sample),
            lambda convert=convert, sample=sample: [_try_convert(convert, formula) for formula in sample],
        )
    seconds: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, (_, run) in contenders.items():
            start = _cpu_seconds()
            run()
            seconds.setdefault(name, []).append(max(_cpu_seconds() - start, 1e-9))
    return {name: round(contenders[name][0] / statistics.median(v), 1) for name, v in seconds.items()}, left_out


def _try_tokens(formula: str) -> object:
    try:
        return tokenize(formula)
    except LexError as error:
        return error


def _load_latex2mathml() -> Callable[[str], object]:
    return importlib.import_module("latex2mathml.converter").convert


def _load_pylatexenc() -> Callable[[str], object]:
    walker = importlib.import_module("pylatexenc.latexwalker").LatexWalker
    return lambda formula: walker(f"${formula}$").get_latex_nodes()


def _try_convert(convert: Callable[[str], object], formula: str) -> object:
    try:
        return convert(formula)
    except Exception as error:  # whatever a peer raises, its time counts
        return error


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


_PIECES = r"""
\left \right { } ^ _ | \| ( ) [ ] \{ \} \frac \sqrt \sum \int & \\ \begin{matrix} \end{matrix} \over \langle \rangle ,
; . = + - \times : \mid 1 2.5 ,000 x d f \quad ' ! \% \text{a} \text{ \mathrm \bf \not \operatorname \tree[O]{a}{
\pmod \stackrel \middle \partial \sin \forall \newcommand{\a}{ \a \def\b#1{#1#1} \b \left. \hskip3 \circ \verb|
\begin{cases} \end{cases} \prime ~ \substack \xrightarrow
""".split()


def fuzz(formulas: list[str], count: int, seed: int = 0) -> dict[str, float]:
    """Parses random bytes and commands and broken formulas by both conventions; each tree must round-trip.

    Raises:
      AssertionError: a tree changed, or the position of an error is outside the formula.
    """
    rng = random.Random(seed)
    slowest = 0.0
    n_parsed = 0
    for _ in range(count):
        formula = _make_broken(rng, formulas)
        start = time.perf_counter()
        outcome = parse(formula)
        parse(formula, PUBLISHED)
        slowest = max(slowest, time.perf_counter() - start)
        if isinstance(outcome, Tree):
            n_parsed += 1
            assert parse(latex(outcome)) == outcome, f"{formula!r}: its printed tree parses to another tree"
        else:
            assert 0 <= outcome.at <= len(formula), f"{formula!r}: {outcome}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"formulas": count, "read": n_parsed, "slowest_seconds": round(slowest, 4), "peak_mib": round(peak)}


def _make_broken(rng: random.Random, formulas: list[str]) -> str:
    kind = rng.random()
    if kind < 0.35:
        return rng.randbytes(rng.randrange(60)).decode("utf-8", "replace")
    if kind < 0.55:
        return "".join(rng.choice(_PIECES) for _ in range(rng.randrange(40)))
    formula = rng.choice(formulas)
    for _ in range(rng.randrange(1, 6)):
        index = rng.randrange(len(formula) + 1)
        if rng.random() < 0.4:
            formula = formula[:index] + formula[index + rng.randrange(1, 6) :]
        else:
            formula = formula[:index] + rng.choice([*_PIECES, chr(rng.randrange(32, 0x2400))]) + formula[index:]
    return formula


if __name__ == "__main__":
    command.entry(main)
