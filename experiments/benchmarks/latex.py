"""How fast LaTeX becomes operator trees: formulas a second on one core.

    python -m experiments.benchmarks.latex [--formulas=FILE] [--count=4000] [--rounds=5] [--fuzz=N] [--out=FILE]

FILE has a formula a line, or is the TSV of source and formula, also .gz; by default ../shared/data/latex_formulas
(NUMJAX_DATA) where it is, else formulas are made up. The contenders take turns in every round; medians of the
processor time are given:

    tokens          the lexer alone
    parse           LaTeX to tree, by the default rules
    published       the same by LaTeXML's conventions
    print           tree to LaTeX
    tool            lines in, JSON lines out, as python -m numjax.tools.trees does it
    latex2mathml    presentation MathML, which is no tree of operators, where it is installed
    pylatexenc      its node walker, which knows no mathematics, where it is installed

The original pipeline (LaTeXML 0.8.7, then Tangent-CFT) does 13.7 formulas/s on the same formulas; it is no contender
here, since it takes a minute to start and needs Perl.

--fuzz=N also reads N random byte strings and broken formulas, and fails at the first exception or lost round trip.
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
from numjax.expr.latex import parse
from numjax.expr.lexer import LexError, tokens_of
from numjax.expr.printer import latex
from numjax.expr.rules import DEFAULT, Rules
from numjax.expr.tree import Tree
from numjax.tools import trees as tool

PUBLISHED = Rules.as_published()
FLOOR = 3000  # formulas a second


def main(words: list[str] | None = None) -> dict:
    """Prints a table and the results as JSON on the last line."""
    made = command.Parser(prog="python -m experiments.benchmarks.latex", description=(__doc__ or "").splitlines()[0])
    made.add_argument("--formulas", help="a formula a line, or source<TAB>formula, also .gz")
    made.add_argument("--count", type=int, default=4000)
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--fuzz", type=int, default=0)
    made.add_argument("--out", help="a JSON file to write")
    options = made.parse_args(words)
    if options.rounds < 1 or options.count < 1 or options.fuzz < 0:
        raise UsageError("--rounds and --count must be positive")
    name, formulas = chosen(options.formulas, options.count)
    speeds, left_out = measure(formulas, options.rounds)
    read = sum(isinstance(parse(formula), Tree) for formula in formulas)
    print(f"{name}: {len(formulas)} formulas, {read / len(formulas):.2%} read")
    for contender, speed in speeds.items():
        print(f"  {contender:<14}{speed:10.0f} formulas/s")
    for peer in left_out:
        print(f"  left out: {peer} is not installed")
    result: dict = {"formulas": len(formulas), "read": read / len(formulas), "formulas_a_second": speeds}
    if options.fuzz:
        result["fuzz"] = fuzz(formulas, options.fuzz)
        print(f"  fuzz: {result['fuzz']}")
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result))
    return result


def short(peer: str) -> tuple[list[pairs.Row], list[str]]:
    """The short form for `make bench`: (rows of the table, what was left out)."""
    del peer  # what is installed here is what is compared
    speeds, left_out = measure(chosen(None, 1500)[1], rounds=3)
    floors = {"parse": FLOOR}
    rows = [pairs.Row(f"latex {k}", v, floor=floors.get(k), unit="formulas/s") for k, v in speeds.items()]
    return rows, left_out


def chosen(path: str | None, count: int) -> tuple[str, list[str]]:
    """(name, formulas): every k-th of the file, so that all its sources are in.

    Raises:
      DataError: the file cannot be read.
    """
    here = pathlib.Path(path) if path else corpus.home() / "latex_formulas" / "formulas.tsv.gz"
    if path is None and not here.exists():
        return "made up", made_up(count)
    try:
        with (gzip.open if here.suffix == ".gz" else open)(here, "rt", encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip("\n").rpartition("\t")[2] for line in file]
    except (OSError, EOFError) as error:
        raise DataError(f"{here} cannot be read: {error}") from None
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise DataError(f"{here} is empty: give a file of formulas")
    return here.name, lines[:: max(1, len(lines) // count)][:count]


def made_up(count: int) -> list[str]:
    """Seeded formulas of the usual kinds."""
    rng = random.Random(0)
    atoms: list[Callable[[], str]] = [
        lambda: rng.choice("abcnxyz"),
        lambda: str(rng.randrange(200)),
        lambda: rf"\{rng.choice(['alpha', 'beta', 'pi', 'lambda'])}",
        lambda: f"{rng.choice('fgA')}({rng.choice('xyz')})",
        lambda: f"{rng.choice('xyz')}_{{{rng.randrange(9)}}}^2",
    ]

    def expression(depth: int) -> str:
        if depth == 0:
            return rng.choice(atoms)()
        left, right = expression(depth - 1), expression(rng.randrange(depth))
        forms = [f"{left} + {right}", f"{left} {right}", rf"\frac{{{left}}}{{{right}}}", rf"\sqrt{{{left}}}"]
        forms += [f"({left} - {right})", rf"\sum_{{i=1}}^n {left}", rf"\left( {left} \right)^{{{right}}}"]
        return rng.choice(forms)

    return [f"{expression(rng.randrange(3))} = {expression(rng.randrange(4))}" for _ in range(count)]


def measure(formulas: list[str], rounds: int) -> tuple[dict[str, float], list[str]]:
    """Median formulas/s of each contender, and the peers that are not installed."""
    trees = [tree for tree in map(parse, formulas) if isinstance(tree, Tree)]
    read = tool.reader("latex", "native", DEFAULT)
    contenders: dict[str, tuple[int, Callable[[], object]]] = {
        "tokens": (len(formulas), lambda: [_tokens(formula) for formula in formulas]),
        "parse": (len(formulas), lambda: [parse(formula) for formula in formulas]),
        "published": (len(formulas), lambda: [parse(formula, PUBLISHED) for formula in formulas]),
        "print": (len(trees), lambda: [latex(tree) for tree in trees]),
        "tool": (len(formulas), lambda: tool.answer(formulas, read, False)),
    }
    left_out = []
    for name, find in (("latex2mathml", _latex2mathml), ("pylatexenc", _pylatexenc)):
        try:
            convert = find()
        except ImportError:
            left_out.append(name)
            continue
        some = formulas[:300]  # they are slow
        contenders[name] = (len(some), lambda convert=convert, some=some: [_safe(convert, one) for one in some])
    seconds: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, (_, run) in contenders.items():
            start = _cpu_seconds()
            run()
            seconds.setdefault(name, []).append(max(_cpu_seconds() - start, 1e-9))
    return {name: round(contenders[name][0] / statistics.median(v), 1) for name, v in seconds.items()}, left_out


def _tokens(formula: str) -> object:
    try:
        return tokens_of(formula)
    except LexError as error:
        return error


def _latex2mathml() -> Callable[[str], object]:
    return importlib.import_module("latex2mathml.converter").convert


def _pylatexenc() -> Callable[[str], object]:
    walker = importlib.import_module("pylatexenc.latexwalker").LatexWalker
    return lambda formula: walker(f"${formula}$").get_latex_nodes()


def _safe(convert: Callable[[str], object], formula: str) -> object:
    try:
        return convert(formula)
    except Exception as error:  # whatever a peer raises, its time counts
        return error


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


_PIECES = r"""
\left \right { } ^ _ | \| ( ) [ ] \{ \} \frac \sqrt \sum \int & \\ \begin{matrix} \end{matrix} \over \langle \rangle ,
; . = + - \times : \mid 1 2.5 ,000 x d f \quad ' ! \% \text{a} \text{ \mathrm \bf \not \operatorname \tree[O]{a}{
\pmod \stackrel \middle \partial \sin \forall \newcommand{\a}{ \a \def\b#1{#1#1} \b \left. \hskip3 \circ \verb|
\begin{cases} \end{cases} \prime ~ \substack \xrightarrow
""".split()


def fuzz(formulas: list[str], count: int, seed: int = 0) -> dict[str, float]:
    """Random bytes, random commands and broken formulas, by both conventions; what is read must come back.

    Raises:
      AssertionError: it did not.
    """
    rng = random.Random(seed)
    slowest = 0.0
    read = 0
    for _ in range(count):
        formula = _broken(rng, formulas)
        start = time.perf_counter()
        found = parse(formula)
        parse(formula, PUBLISHED)
        slowest = max(slowest, time.perf_counter() - start)
        if isinstance(found, Tree):
            read += 1
            assert parse(latex(found)) == found, f"{formula!r} does not come back"
        else:
            assert 0 <= found.at <= len(formula), f"{formula!r}: {found}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"formulas": count, "read": read, "slowest_seconds": round(slowest, 4), "peak_mib": round(peak)}


def _broken(rng: random.Random, formulas: list[str]) -> str:
    kind = rng.random()
    if kind < 0.35:
        return rng.randbytes(rng.randrange(60)).decode("utf-8", "replace")
    if kind < 0.55:
        return "".join(rng.choice(_PIECES) for _ in range(rng.randrange(40)))
    formula = rng.choice(formulas)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(formula) + 1)
        if rng.random() < 0.4:
            formula = formula[:at] + formula[at + rng.randrange(1, 6) :]
        else:
            formula = formula[:at] + rng.choice([*_PIECES, chr(rng.randrange(32, 0x2400))]) + formula[at:]
    return formula


if __name__ == "__main__":
    command.entry(main)
