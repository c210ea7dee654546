"""FLOPs of a traced function: its matrix products, with all runs of loops and recomputation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from jax.extend.core import Literal
from jax.interpreters import partial_eval as pe


def count(jaxpr: Any, branch: Callable[[Iterable[float]], float] = max) -> float:
    """Counts multiplications and additions of all matrix products of a jaxpr, over all devices.

    A kernel counts all tiles of its grid, also those that a causal mask skips. A condition counts as its most
    expensive branch, or as `branch` of the counts of its branches. A loop that may end early counts as its most
    rounds: the largest constant of its condition.
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
        elif name == "while":
            operands = [x for own in options["cond_jaxpr"].jaxpr.eqns for x in own.invars]
            times = max((int(x.val) for x in operands if isinstance(x, Literal) and np.ndim(x.val) == 0), default=1)
        elif name == "shard_map":
            times = options["mesh"].size
        elif name == "pallas_call":
            times = math.prod(options["grid_mapping"].grid)
        if name == "cond":
            total += branch(count(branch_jaxpr, branch) for branch_jaxpr in options["branches"])
            continue
        for inner in _inner_jaxprs(options):
            total += times * count(inner, branch)
    return total


def drop_dead_code(jaxpr: Any) -> Any:
    """Drops what no result needs, as the compiler does."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    return pe.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[0]


def _inner_jaxprs(options):
    for value in options.values():
        for element in value if isinstance(value, (tuple, list)) else (value,):
            if hasattr(getattr(element, "jaxpr", element), "eqns"):
                yield element
