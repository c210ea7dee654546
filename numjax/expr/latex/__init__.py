"""LaTeX → operator tree."""

from numjax.expr.latex.parser import parse

__all__ = ["parse"]
