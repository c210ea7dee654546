"""Metrics as (total, count) pairs: added up over steps, microbatches and devices, divided once, last."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Sums = Mapping[str, tuple[Any, Any]]


def add(left: Sums, right: Sums) -> dict[str, tuple[Any, Any]]:
    """Sums of both, name by name; a name that one side lacks counts as nothing there."""
    out = dict(left)
    for name, (total, count) in right.items():
        have = out.get(name, (0.0, 0.0))
        out[name] = (have[0] + total, have[1] + count)
    return out


def divide(sums: Sums) -> dict[str, float]:
    """name → total / count, NaN where nothing was counted."""
    return {name: float(t) / float(c) if float(c) else math.nan for name, (t, c) in sums.items()}


def perplexity(means: Mapping[str, float], head: str, has_density: bool) -> dict[str, float]:
    """exp of a head's mean loss, and only of masses.

    A mixture's loss mixes densities (numerals) with masses (tokens), so its exponential is no perplexity.
    There the masses' is given as "mass_perplexity": selector, token and exponent, the mantissa left out. It is
    not comparable with a plain model's perplexity, which spells numbers out.
    """
    if has_density:
        return {"mass_perplexity": math.exp(min(means[f"{head}/mass"], 700.0))}
    return {"perplexity": math.exp(min(means[f"{head}/token"], 700.0))} if f"{head}/token" in means else {}
