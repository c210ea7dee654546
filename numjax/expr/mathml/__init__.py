"""MathML → operator tree, and LaTeXML, which writes it."""

from numjax.expr.mathml.parser import TEX, find_formulas, parse, parse_element

__all__ = ["TEX", "find_formulas", "parse", "parse_element"]
