"""How right predicted formulas are: tree match, tree edit distance, and whether their values agree.

A prediction that is no formula is None. It counts: as no match, as unsolved, and with the distance from nothing,
which is all nodes of the reference. The figure that leaves it out, as the original's baseline did, is given too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from numjax.errors import UsageError
from numjax.expr.arithmetic import Unevaluable, Value
from numjax.expr.distance import distance, published
from numjax.expr.evaluate import solve
from numjax.expr.tree import Tree, from_json

TOLERANCE = 1e-4  # of an answer, relative, and absolute below 1


def tree_of(prediction: Any) -> Tree | None:
    """The tree of a prediction in the form of `Tree.to_json`; None for None, and for what is not of that form."""
    try:
        return None if prediction is None else from_json(prediction)
    except ValueError:
        return None


def scores(
    predictions: Sequence[Tree | None],
    references: Sequence[Tree],
    answers: Sequence[Value | None] | None = None,
    *,
    tolerance: float = TOLERANCE,
    as_published: bool = False,
) -> dict[str, float]:
    """Means over all pairs, by name.

    "tree_match": the same tree. "TED": edit distance, what is no formula charged with the reference's nodes;
    "TED_read": over formulas alone (absent if there are none). "read": share of formulas. "solve_rate": the value is
    the answer, or without one the reference's value; "unevaluable" of the references are counted as unsolved.

    Args:
      answers: stated with the problems; None where there is none.
      tolerance: relative, and absolute for answers below 1.
      as_published: MathGPT's: answers ignored, values equal as floats, the distance over its model's nodes.
    """
    out = distances(predictions, references, as_published=as_published)
    count = len(references)
    stated = answers if answers is not None and not as_published else [None] * count
    wanted = [
        value(reference) if answer is None else answer for reference, answer in zip(references, stated, strict=True)
    ]
    found = [value(prediction) for prediction in predictions]
    solved = sum(same(f, w, None if as_published else tolerance) for f, w in zip(found, wanted, strict=True))
    return out | {"solve_rate": solved / count, "unevaluable": sum(w is None for w in wanted) / count}


def distances(
    predictions: Sequence[Tree | None], references: Sequence[Tree], *, as_published: bool = False
) -> dict[str, float]:
    """ "tree_match", "TED", "TED_read" and "read" of `scores`."""
    if len(predictions) != len(references) or not references:
        raise UsageError(f"{len(predictions)} predictions for {len(references)} references")
    count = len(references)
    charged, read = [], []
    for prediction, reference in zip(predictions, references, strict=True):
        if prediction is None:
            charged.append((published(reference) if as_published else reference).size)
        else:
            read.append(distance(prediction, reference, as_published=as_published))
    out = {
        "tree_match": sum(p == r for p, r in zip(predictions, references, strict=True)) / count,
        "TED": (sum(charged) + sum(read)) / count,
        "read": len(read) / count,
    }
    if read:
        out["TED_read"] = sum(read) / len(read)
    return out


def value(tree: Tree | None) -> Value | None:
    """What an equation x = … gives, or an expression; None where it has no value."""
    try:
        return None if tree is None else solve(tree)
    except Unevaluable:
        return None


def same(found: Value | None, wanted: Value | None, tolerance: float | None) -> bool:
    """Whether two values agree: relatively, absolutely below 1; as floats without a tolerance. None is no value."""
    if found is None or wanted is None:
        return False
    if isinstance(found, complex) or isinstance(wanted, complex):
        return (
            complex(found) == complex(wanted)
            if tolerance is None
            else abs(complex(found) - complex(wanted)) <= tolerance
        )
    if tolerance is None:
        return _float(found) == _float(wanted)
    if not (math.isfinite(_float(found)) and math.isfinite(_float(wanted))):
        return found == wanted
    return abs(Fraction(found) - Fraction(wanted)) <= Fraction(tolerance) * max(1, abs(Fraction(wanted)))


def _float(number: Fraction | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
