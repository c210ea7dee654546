"""FLOPs of a traced function: its matrix products, with loops counted and recomputation included."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from jax.interpreters import partial_eval as pe


def count(jaxpr: Any, branch: Callable[[Iterable[float]], float] = max) -> float:
    """Multiplications and additions of all matrix products of a jaxpr, over all devices.

    A kernel counts as many tiles as its grid has, those that a causal mask skips included. Of the branches of a
    condition the dearest counts, or what `branch` makes of them.
    """
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    total = 0.0
    for equation in jaxpr.eqns:
        name, options = equation.primitive.name, equation.params
        if name == "dot_general":
            (contracted, _), _ = options["dimension_numbers"]
            inner = math.prod(equation.invars[0].aval.shape[i] for i in contracted)
            total += 2.0 * inner * math.prod(equation.outvars[0].aval.shape)
            continue
        times = 1.0
        if name == "scan":
            times = options["length"]
        elif name == "shard_map":
            times = options["mesh"].size
        elif name == "pallas_call":
            times = math.prod(options["grid_mapping"].grid)
        if name == "cond":
            total += branch(count(one, branch) for one in options["branches"])
            continue
        for inner in _inner(options):
            total += times * count(inner, branch)
    return total


def live(jaxpr: Any) -> Any:
    """Without what no result needs, as the compiler will leave it out."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    return pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[0]


def _inner(options):
    for value in options.values():
        for one in value if isinstance(value, (tuple, list)) else (value,):
            if hasattr(getattr(one, "jaxpr", one), "eqns"):
                yield one
