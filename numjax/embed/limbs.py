"""Tokens, with limbs of three digits as sums over their places (for the scheme `limbs`; of our own).

Legend: B rows, T positions, V vocabulary, D width, H harmonics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.embed.token import lookup
from numjax.errors import UsageError
from numjax.nn.einsum import einsum
from numjax.protocols import FromContext
from numjax.types import Tokens

_LIMB = re.compile(r"\[([:.])([0-9]{1,3})\]")
_HEADER = re.compile(r"\[([#=])([+-]?)([0-9]*)(,?)\]")
_SIZE, _ABOVE, _BELOW = 3, 10, 11  # places; no digit at a place above the highest, and below the lowest


class Embed(protocols.Embed, nn.Module):
    """A learned vector per token, but that of a limb is Σ_places (p + Σ_h (cos 2πhd/10, sin 2πhd/10) W_h), with p and
    W_h of the place and d its digit.

    So 1,000 limbs share what is known of a digit at a place. With a tied head the logit of a limb is a sum of three,
    one a digit: the softmax over limbs is three digit classifiers.

    Likewise the vector of a header may be the sum of its parts: sign, limbs behind the point, commas, and whether it
    is of a given number. So a header that training rarely has is known by its parts, and copied from a given one.

    Attributes:
      dim: D. vocab_size: V, padded. marks: (name, id) of the vocabulary's marks.
      header_parts: headers are sums of their parts; else each has a vector of its own.
      harmonics: H, 1 to 5; with 5 a digit's vector may be any.
      init_std: of the table. dtype: compute type; vectors are read in it.
    """

    dim: FromContext[int]
    vocab_size: FromContext[int]
    marks: FromContext[tuple[tuple[str, int], ...] | None] = None
    header_parts: bool = False
    harmonics: int = 5
    init_std: float = 0.02
    dtype: FromContext[str] = "float32"
    kind = "token"
    made_for = "limbs"

    def setup(self):
        if not 1 <= self.harmonics <= 5:
            raise UsageError(f"embed limbs: harmonics must be from 1 to 5, not {self.harmonics}")
        ids, digits = list_limbs(self.marks or ())
        if not len(ids):
            raise UsageError("embed limbs: the vocabulary has no limbs: choose scheme limbs")
        init = nn.initializers.normal(self.init_std)
        own = self.param("table", init, (self.vocab_size, self.dim), jnp.float32)
        turns = self.param("turns", init, (_SIZE, 2 * self.harmonics, self.dim), jnp.float32)
        places = self.param("places", init, (_SIZE, self.dim), jnp.float32)
        empty = self.param("empty", init, (2, _SIZE, self.dim), jnp.float32)
        by_digit = einsum("xf,pfd->xpd", _make_codes(self.harmonics), turns) + places
        by_digit = jnp.concatenate([by_digit, empty])
        vectors = sum(by_digit[digits[:, place], place] for place in range(_SIZE))
        self.table = jnp.asarray(own).at[ids].set(vectors)
        if self.header_parts:
            headers, parts = list_headers(self.marks or ())
            counts = dict(kind=2, sign=3, limbs=int(parts[:, 2].max()) + 1, commas=2)
            tables = [
                self.param(f"header_{name}", init, (count, self.dim), jnp.float32) for name, count in counts.items()
            ]
            self.table = self.table.at[headers].set(sum(t[parts[:, i]] for i, t in enumerate(tables)))

    def tables(self) -> Mapping[str, jax.Array]:
        """{"table": the vectors of all tokens, [V, D]}, which depend only on parameters. Computed once a step."""
        return {"table": self.table}

    def __call__(self, tokens: Tokens, tables: Mapping[str, jax.Array] | None = None) -> jax.Array:
        """x[B, T, D]."""
        return lookup(self.table if tables is None else tables["table"], tokens.ids, self.dtype)


def list_limbs(marks: tuple[tuple[str, int], ...]) -> tuple[np.ndarray, np.ndarray]:
    """(ids int32[N] of the marks that are limbs; their digits at the places 1, 10 and 100, int32[N, 3]).

    A limb before the point ends at its lowest place, one behind it, such as [.5], begins at its highest.
    """
    ids, digits = [], []
    for name, token in marks:
        if match := _LIMB.fullmatch(name):
            limb = [int(digit) for digit in reversed(match[2])]
            missing = _SIZE - len(limb)
            ids.append(token)
            digits.append(limb + missing * [_ABOVE] if match[1] == ":" else missing * [_BELOW] + limb)
    return np.asarray(ids, np.int32), np.asarray(digits, np.int32).reshape(-1, _SIZE)


def list_headers(marks: tuple[tuple[str, int], ...]) -> tuple[np.ndarray, np.ndarray]:
    """(ids int32[N] of the marks that are headers; their parts int32[N, 4]: 1 of a given number, the index of the
    sign in "", + and −, the count of limbs behind the point, 1 with commas)."""
    found = [(token, match) for name, token in marks if (match := _HEADER.fullmatch(name))]
    parts = [(m[1] == "=", ("", "+", "-").index(m[2]), int(m[3] or 0), m[4] == ",") for _, m in found]
    return np.asarray([token for token, _ in found], np.int32), np.asarray(parts, np.int32).reshape(-1, 4)


def _make_codes(harmonics: int) -> np.ndarray:
    """float32[10, 2 H], cos and sin of the digits' angles."""
    angles = 2 * np.pi * np.outer(np.arange(10), np.arange(1, harmonics + 1)) / 10
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)
