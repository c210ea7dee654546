"""The sizes of the grid: models, steps and problems. All rows of a scale have the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from numjax.bundled.data.arithmetic.operations import OPERATIONS
from numjax.errors import UsageError

# Of the joint model of the scale cpu. The others have rows of hundreds of digits, or repeat what these ask.
MAIN = (
    *("copy", "add", "sub", "mul1", "mul2", "mul", "decadd", "max", "sort", "mod", "digit_at", "round", "convert"),
    *("mme", "tabular", "pick"),
)

# Tried on every row; the best on validation trains its seeds.
LEARNING_RATES = (5e-4, 1.5e-3, 4.5e-3)
TRIAL_SHARE = 0.1  # of the steps, for each learning rate


class Scale(NamedTuple):
    """The sizes of a run.

    Attributes:
      name: of the scale, in the names of cells.
      config: the scale of configs/schemes.py that it starts from.
      width, layers, heads: of the backbone. steps, batch_size, warmup: of the optimiser.
      problems: training problems of a column. test: problems in each stream of a column. validation: problems of a
        column that are answered at each point of a curve. points: number of these.
      is_joint: one model for all columns of the scale; else one for each column.
      columns: names of operations, by default all.
      rates: the learning rates that are tried on every row.
    """

    name: str
    config: str = "cpu"
    width: int = 128
    layers: int = 2
    heads: int = 4
    steps: int = 4000
    batch_size: int = 128
    warmup: int = 200
    problems: int = 10_000
    test: int = 50
    validation: int = 16
    points: int = 6
    is_joint: bool = True
    columns: tuple[str, ...] = tuple(OPERATIONS)
    rates: tuple[float, ...] = LEARNING_RATES

    def list_options(self) -> dict[str, Any]:
        """The settings of a config that the scale decides, path → value; those of the task apart."""
        return {
            "backbone.width": self.width,
            "backbone.layers": self.layers,
            "backbone.heads": self.heads,
            "data.bucket_by": "characters",  # so that all rows meet the same batches
            "optim.steps": self.steps,
            "optim.batch_size": self.batch_size,
            "optim.warmup": self.warmup,
            "eval.every": max(1, self.steps // self.points),
            "eval.examples": 0,
            "eval.best": True,
            "log_every": max(1, self.steps // 40),
        }


SCALES = {
    "smoke": Scale(
        "smoke", "smoke", width=64, layers=1, steps=600, batch_size=64, warmup=50, test=50, validation=100, points=3,
        columns=("copy", "add", "max"),
    ),
    "cpu": Scale("cpu", columns=MAIN),
    "full": Scale(
        "full", width=256, layers=4, heads=4, steps=20_000, batch_size=256, warmup=500, problems=200_000, test=500,
        validation=200, points=10, is_joint=False,
    ),
}  # fmt: skip


def make_scale(name: str, size: str = "") -> Scale:
    """The scale of a name.

    Args:
      size: LAYERSxWIDTH of the backbone at full scale; it becomes part of the scale's name, so that two sizes do not
        share cells.

    Raises:
      UsageError: there is no such scale, or the size is wrong.
    """
    if name not in SCALES:
        raise UsageError(f"--scale={name}: choose one of {', '.join(SCALES)}")
    scale = SCALES[name]
    if not size:
        return scale
    if name != "full":
        raise UsageError(f"--size={size}: the scale {name} has a fixed size; use --scale=full")
    layers, _, width = size.partition("x")
    if not (layers.isdecimal() and width.isdecimal() and 0 < int(layers) and 0 < int(width) and int(width) % 64 == 0):
        raise UsageError(f"--size={size}: give LAYERSxWIDTH with a width that 64 divides, such as 6x512")
    return scale._replace(
        name=f"{name}-{int(layers)}x{int(width)}", layers=int(layers), width=int(width), heads=int(width) // 64
    )


def choose_columns(words: Sequence[str], scale: Scale) -> tuple[str, ...]:
    """The columns that are asked for, in the order of the scale; all of the scale's without words.

    Raises:
      UsageError: an unknown column.
    """
    choices = scale.columns if scale.is_joint else tuple(OPERATIONS)
    for word in words:
        if word not in choices:
            where = f"the scale {scale.name}" if word in OPERATIONS else "the grid"
            raise UsageError(f"--columns={word}: {where} has no such column; there are {', '.join(choices)}")
    return tuple(name for name in choices if name in words) if words else scale.columns
