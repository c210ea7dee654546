"""Vocabularies: text ↔ ids, built and loaded by name."""

from numjax.text.vocab.base import FILE
from numjax.text.vocab.registry import KINDS, TRAINED, build, load

__all__ = ["FILE", "KINDS", "TRAINED", "build", "load"]
