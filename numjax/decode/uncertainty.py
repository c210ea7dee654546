"""How sure a model is of text that it has written: the masses of tokens and numbers, and quantiles of numbers.

Legend: B rows, M max_tokens, Q levels.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax

from numjax.decode import sample
from numjax.model import Model
from numjax.types import Grammar, HeadOut, Numeral, Targets


class Measures(NamedTuple):
    """What a model says of its text.

    Attributes:
      token_log_prob: float32[B, M], the log mass of each token under the grammar, at temperature 1.
      number_log_mass: float32[B, M], see `heads.base.NumberDistribution`; quantiles: Numeral[B, M, Q]:
        see there. Both are None for heads that state no distribution of numbers.
    """

    token_log_prob: jax.Array
    number_log_mass: jax.Array | None = None
    quantiles: Numeral | None = None


@functools.partial(jax.jit, static_argnames=("model", "head", "max_tokens", "num_id", "end_id"))
def measure(
    model: Model,
    params: Any,
    tables: Grammar,
    request: sample.Request,
    targets: Targets,
    levels: jax.Array,
    *,
    head: str,
    max_tokens: int,
    num_id: int,
    end_id: int,
) -> Measures:
    """The measures of texts, all of whose tokens are in `request.forced`.

    Args:
      targets: the same tokens [B, M], with the numbers that they belong to and these numbers.
      levels: float32[Q]. For the rest see `sample.generate`.
    """
    part = model.heads[head]
    has_quantiles = part.provides("number_quantiles")
    generated = sample.generate(
        model,
        params,
        tables,
        request,
        head=head,
        max_tokens=max_tokens,
        num_id=num_id,
        end_id=end_id,
        greedy=True,
        keep_hidden=has_quantiles,
    )
    if not has_quantiles or generated.hidden is None:
        return Measures(generated.log_prob)
    heads: Any = model.apply({"params": params}, request.prompt, method="read_heads")
    out = HeadOut(generated.hidden, heads[head].weights)
    # Row by row: the tables of places and carries of a whole batch would not fit.
    rows = jax.lax.map(
        lambda row: jax.tree.map(
            lambda x: x[0],
            part.number_quantiles(out._replace(hidden=row[0][None]), jax.tree.map(lambda x: x[None], row[1]), levels),
        ),
        (generated.hidden, targets),
    )
    return Measures(generated.log_prob, part.number_log_mass(out, targets), rows)
