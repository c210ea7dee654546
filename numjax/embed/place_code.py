"""What a digit is worth at its place, as a fixed code (Regression Transformer; Born and Manica 2023, "Float
encodings")."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.errors import UsageError
from numjax.protocols import FromContext
from numjax.types import Tokens

FORMS = ("paper", "code")


def make_codes(values_S: np.ndarray, dim: int, form: str = "paper") -> np.ndarray:
    """float32[S, dim]: with v the value of a symbol, dimension j is (−1)^j v / (j + 1).

    "code" is what the authors' code computes: v / (i + 1) for even i, and its negative at i + 1.
    """
    j = np.arange(dim)
    if form == "code":
        j_even = j - j % 2
        factors = np.where(j % 2, -1.0, 1.0) / (j_even + 1)
    else:
        factors = np.where(j % 2, -1.0, 1.0) / (j + 1)
    return (values_S[:, None] * factors).astype(np.float32)


class Embed(protocols.Embed, nn.Module):
    """The code of each token that is a number, such as the symbols of scheme `places`; 0 for other tokens. It has no
    parameters, and is added to the token embedding.

    Attributes:
      dim: width D. scale: divisor of the values, so that the largest in use is about 1.
      form: "paper", or "code", see `make_codes`.
    """

    dim: FromContext[int]
    number_symbols: FromContext[tuple[tuple[int, float], ...] | None] = None
    scale: float = 1.0
    form: str = "paper"
    kind = "type"

    def __post_init__(self):
        super().__post_init__()
        if self.form not in FORMS:
            raise UsageError(f"place_code: form must be one of {', '.join(FORMS)}, not {self.form!r}")
        if not self.scale > 0:
            raise UsageError(f"place_code: scale must be above 0, not {self.scale:g}")

    @nn.compact
    def __call__(self, tokens: Tokens) -> jax.Array:
        if not self.number_symbols:
            raise UsageError("place_code: no token of this vocabulary is a number: choose scheme places")
        ids = np.asarray([token for token, _ in self.number_symbols])
        values = np.asarray([value for _, value in self.number_symbols], np.float64) / self.scale
        codes = make_codes(values, self.dim, self.form)
        # Row 0 is that of the other tokens.
        row_of = np.zeros(int(ids.max()) + 2, np.int32)
        row_of[ids] = np.arange(1, len(ids) + 1)
        index = jnp.asarray(row_of)[jnp.minimum(tokens.ids, len(row_of) - 1)]
        return jnp.take(jnp.concatenate([jnp.zeros((1, self.dim), jnp.float32), codes]), index, axis=0)
