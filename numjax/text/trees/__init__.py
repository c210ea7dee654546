"""Formulas as operator trees in a sequence of tokens."""

from numjax.text.trees.scheme import Scheme

__all__ = ["Scheme"]
