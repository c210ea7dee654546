"""Metrics of predicted formulas: tree match, tree edit distance, and whether values agree.

A prediction that is no formula is None. It counts as no match, as unsolved, and with the distance from an empty tree,
which is the number of the reference's nodes. "TED_read" leaves it out, as the original's baseline did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from numjax.errors import UsageError
from numjax.expr.arithmetic import Unevaluable, Value
from numjax.expr.distance import distance, to_published
from numjax.expr.evaluate import solve
from numjax.expr.tree import Tree, from_json

TOLERANCE = 1e-4  # of an answer, relative, and absolute below 1


def parse_tree(prediction: Any) -> Tree | None:
    """The tree of a prediction in the form of `Tree.to_json`; None for None and for any other form."""
    try:
        return None if prediction is None else from_json(prediction)
    except (ValueError, RecursionError):
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

    "tree_match": the same tree. "TED": edit distance, where a prediction that is no formula costs the reference's
    nodes; "TED_read": over formulas only (absent if there are none). "read": share of formulas. "solve_rate": the
    value is the answer, or without one the reference's value. "unevaluable": share of references without a value,
    which count as unsolved.

    Args:
      answers: the problems' stated answers; None for a problem without one.
      tolerance: relative, and absolute for answers below 1.
      as_published: as in MathGPT: ignore answers, compare values as floats, count distances over its model's nodes.
    """
    out = distances(predictions, references, as_published=as_published)
    count = len(references)
    stated = answers if answers is not None and not as_published else [None] * count
    gold = [
        value_of(reference) if answer is None else answer
        for reference, answer in zip(references, stated, strict=True)
    ]
    values = [value_of(prediction) for prediction in predictions]
    solved = sum(values_agree(f, w, None if as_published else tolerance) for f, w in zip(values, gold, strict=True))
    return out | {"solve_rate": solved / count, "unevaluable": sum(w is None for w in gold) / count}


def distances(
    predictions: Sequence[Tree | None], references: Sequence[Tree], *, as_published: bool = False
) -> dict[str, float]:
    """ "tree_match", "TED", "TED_read" and "read" of `scores`."""
    if len(predictions) != len(references) or not references:
        raise UsageError(f"{len(predictions)} predictions for {len(references)} references")
    if as_published:
        # Its tokens tell no sizes of lists and no hints of compounds.
        predictions = [None if tree is None else to_published(tree) for tree in predictions]
        references = [to_published(tree) for tree in references]
    count = len(references)
    charged, measured = [], []
    for prediction, reference in zip(predictions, references, strict=True):
        if prediction is None:
            charged.append(reference.size)
        else:
            measured.append(distance(prediction, reference))
    out = {
        "tree_match": sum(p == r for p, r in zip(predictions, references, strict=True)) / count,
        "TED": (sum(charged) + sum(measured)) / count,
        "read": len(measured) / count,
    }
    if measured:
        out["TED_read"] = sum(measured) / len(measured)
    return out


def value_of(tree: Tree | None) -> Value | None:
    """The value of an equation x = … or of an expression; None if it has none."""
    try:
        return None if tree is None else solve(tree)
    except Unevaluable:
        return None


def values_agree(prediction: Value | None, reference: Value | None, tolerance: float | None) -> bool:
    """Whether two values agree within a tolerance (relative, absolute below 1), or as floats without one; False if a
    value is None."""
    if prediction is None or reference is None:
        return False
    if isinstance(prediction, complex) or isinstance(reference, complex):
        first, second = _complex(prediction), _complex(reference)
        if tolerance is None or not (math.isfinite(abs(first)) and math.isfinite(abs(second))):
            return first == second
        return abs(first - second) <= tolerance * max(1, abs(second))
    if tolerance is None:
        return _float(prediction) == _float(reference)
    if not (math.isfinite(_float(prediction)) and math.isfinite(_float(reference))):
        return prediction == reference
    return abs(Fraction(prediction) - Fraction(reference)) <= Fraction(tolerance) * max(1, abs(Fraction(reference)))


def _complex(number: Value) -> complex:
    return number if isinstance(number, complex) else complex(_float(number))


def _float(number: Fraction | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
