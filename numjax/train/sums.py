"""Metrics as (total, count) pairs: added over steps, microbatches and devices, and divided only at the end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Sums = Mapping[str, tuple[Any, Any]]


def add(first: Sums, second: Sums) -> dict[str, tuple[Any, Any]]:
    """The sum of both, name by name; a missing name counts as (0, 0)."""
    pairs = dict(first)
    for name, (total, count) in second.items():
        pair = pairs.get(name, (0.0, 0.0))
        pairs[name] = (pair[0] + total, pair[1] + count)
    return pairs


def divide(sums: Sums) -> dict[str, float]:
    """name → total / count, NaN where nothing was counted."""
    return {name: float(t) / float(c) if float(c) else math.nan for name, (t, c) in sums.items()}


def perplexity(means: Mapping[str, float], head: str, has_density: bool) -> dict[str, float]:
    """exp of a head's mean loss of probability masses, as {"perplexity"} or {"mass_perplexity"}.

    It is that of the whole text, with the numbers that a head predicts beside the tokens. A mixture's loss mixes
    densities (numerals) with masses (tokens), so its exponential is no perplexity. For a mixture it is the
    exponential of the masses, "mass_perplexity": selector, token and exponent without the mantissa. It is not
    comparable with a plain model's perplexity, which spells numbers out.
    """
    if has_density:
        return {"mass_perplexity": math.exp(min(means[f"{head}/mass"], 700.0))}
    parts = [mean for name, mean in means.items() if name.startswith(f"{head}/")]
    return {"perplexity": math.exp(min(sum(parts), 700.0))} if f"{head}/token" in means else {}
