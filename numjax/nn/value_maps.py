"""Functions that bring numbers into a small range, and their inverses: what xVal and its re-implementations feed and
predict for a number.

With z = x / scale:

| map | f(x) | from |
|-----|------|------|
| linear | z | xVal's code, which scales nothing |
| linear5 | 5 z; with the largest absolute value as the scale, [−5, 5] | xVal's paper (arXiv 2310.02989) |
| log1p | sign(z) ln(1 + abs z) | the re-implementation in number token losses (arXiv 2411.02083) |
| bittokens | sign(z) (log10(min(abs z, 1e15) + 1e-14) / 6 + 2.5) | that in BitTokens (arXiv 2510.06824) |
"""

from __future__ import annotations

import math
from typing import Any

from numjax.errors import UsageError

MAPS = ("linear", "linear5", "log1p", "bittokens")
LIMIT = 1e30  # values beyond it count as it, so that float32 holds every product
TARGET_LIMIT = 1e15  # of a target whose error is squared, and its gradient again in their norm
POWER_LIMIT = 1e6  # of inputs of a network with powers, such as gelu's, and their gradients
_LARGEST, _SMALLEST = 1e15, 1e-14  # of bittokens


def check(part: str, name: str, scale: float) -> None:
    """Raises UsageError, in the name of a part, for an unknown map or a scale that is not above 0."""
    if name not in MAPS:
        raise UsageError(f"{part}: map must be one of {', '.join(MAPS)}, not {name!r}")
    if not (scale > 0 and math.isfinite(scale)):
        raise UsageError(f"{part}: scale must be above 0, not {scale:g}")


def apply_map(value: Any, name: str, scale: float, limit: float = LIMIT) -> Any:
    """f(value)[...] in the type of `value`, NumPy or JAX; z is kept within ±limit."""
    xp = value.__array_namespace__()
    value = xp.clip(value / scale, -limit, limit)
    size = xp.abs(value)
    if name == "log1p":
        return xp.sign(value) * xp.log1p(size)
    if name == "bittokens":
        return xp.sign(value) * (xp.log10(xp.clip(size, 0, _LARGEST) + _SMALLEST) / 6 + 2.5)
    return value * 5 if name == "linear5" else value


def invert_map(mapped: Any, name: str, scale: float) -> Any:
    """The number[...] with this f(x), within ±1e30; for values that `bittokens` never takes, the nearest it has.

    Near zero `bittokens` jumps from −1/6 to 1/6, so all values in between are 0.
    """
    xp = mapped.__array_namespace__()
    size = xp.abs(mapped)
    if name == "log1p":
        size = xp.expm1(xp.clip(size, 0, math.log(LIMIT)))
    elif name == "bittokens":
        size = xp.clip(10.0 ** (6 * (xp.clip(size, 1 / 6, 5.0) - 2.5)) - _SMALLEST, 0, _LARGEST)
    elif name == "linear5":
        size = size / 5
    return xp.clip(xp.sign(mapped) * size * scale, -LIMIT, LIMIT)
