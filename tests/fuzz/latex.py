"""Formulas in LaTeX, and the way back."""

from __future__ import annotations

from numjax.expr.latex import parse
from numjax.expr.printer import latex
from numjax.expr.rules import Rules, Unreadable

SEEDS = (
    rb"\frac{1}{2} (a + b)^2 = c", rb"\sum_{i=1}^n x_i \le \sqrt[3]{y}",
    rb"\begin{cases} x & y > 0 \\ -x \end{cases}",
    rb"\left| \int_0^1 f(x) \, dx \right|", rb"$1{,}000 \times 10^{-3}$", rb"\def\a#1{#1^2} \a{x}",
)  # fmt: skip


def check(data: bytes) -> None:
    """A formula is a tree, or it is said where it cannot be read; a printed tree reads back as the same tree."""
    text = data.decode("utf-8", "surrogateescape")
    for rules in (Rules(), Rules.as_published()):
        tree = parse(text, rules)
        if isinstance(tree, Unreadable):
            assert tree.error and "\n" not in tree.error and 0 <= tree.at <= len(text)
        elif rules == Rules():
            assert parse(latex(tree)) == tree, latex(tree)
