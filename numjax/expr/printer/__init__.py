"""Operator tree → LaTeX."""

from numjax.expr.printer.printer import latex

__all__ = ["latex"]
