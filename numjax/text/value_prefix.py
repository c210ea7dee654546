"""The value of a number before its digits, in answers too (the value-aware prefix; Dutulescu et al. 2026, arXiv
2601.09706)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numjax.protocols import FromContext
from numjax.text import digits
from numjax.text.grammar import answers
from numjax.text.grammar.tables import Edge
from numjax.text.vocab.base import BaseVocabulary


class Scheme(digits.Scheme):
    """[F] [NUM] d…d [/F] for every number: an embedding gives [NUM] the vector f(x) of the value.

    Answers have it as published: while the model learns, f(x) of the gold answer stands before the digits that it is
    to write, and tells them. While it writes, nobody knows x at [NUM], and head `prefix` projects the hidden state to
    a vector that stands in; objective `projection` draws it towards f(x). So the projection alone learns to compute.
    A validation loss has the gold value before the digits too: it says little about what the model writes by itself.
    Scheme digits with layout=value gives the values of the prompt only, and needs no projection.
    """

    numbers = "prefix"

    def __init__(self, vocab: FromContext[BaseVocabulary], rules: str = "default", pad_multiple: int = 128):
        super().__init__(vocab, rules, pad_multiple, layout="value", until="")
        self.unwritten = {}  # the model writes [NUM]
        self.forms = answers.NUMBERS if vocab.exact else ("text",)

    def _list_opening(self) -> list[int]:
        return [*super()._list_opening(), self.vocab.mark(self.mark_before)]

    def _fence_edges(self) -> list[Edge]:
        """As in digits, but no number begins without its [NUM]."""
        edges, prefix = super()._fence_edges(), [self.vocab.mark(self.mark_before)]
        return [edge for edge in edges if edge.state != "open" or list(edge.tokens) == prefix]

    @classmethod
    def gives_values(cls, options: Mapping[str, Any]) -> bool:
        return True
