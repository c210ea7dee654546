"""The metrics that a map can show: their names, which end is better, and how colours follow them."""

from __future__ import annotations

from typing import NamedTuple

EQUAL_SECONDS = "equal_seconds"


class Metric(NamedTuple):
    """A metric of cells.

    Attributes:
      key: in the cells. is_share: shown in percent.
      worst, best: values with the colours of the two ends; between them colours are even, on a log scale if `is_log`.
      is_of_all: it says something of all problems of a cell; else nobody wins by it.
    """

    key: str
    label: str
    meaning: str
    worst: float
    best: float
    is_share: bool = False
    is_log: bool = False
    is_of_all: bool = True

    @property
    def is_higher_better(self) -> bool:
        return self.best > self.worst


METRICS = (
    Metric("exact", "exact answers", "share of answers that are right in every digit", 0, 1, True),
    Metric("digits", "right digits", "share of the answer's digits that are right, aligned at the point", 0, 1, True),
    Metric("well_formed", "well-formed answers", "share of answers of the right form", 0, 1, True),
    Metric("within_1_percent", "within 1 %", "share of answers that are off by 1 % or less", 0, 1, True),
    Metric(
        "relative_error_median", "relative error, median", "distance to the right answer over its size", 1, 1e-6,
        is_log=True,
    ),
    Metric(
        "log_error", "log error", "distance in orders of magnitude, where signs agree", 3, 0, is_of_all=False
    ),
    Metric(
        "sign_errors", "lost signs", "share of answers that are no number, zero, or of the wrong sign", 1, 0, True
    ),
    Metric("r2", "R²", "share of the variance of the right answers that the answers explain", 0, 1),
    Metric("scaled_error", "scaled error", "error of a forecast over that of repeating the last value", 2, 0),
    Metric("log_smape", "log-sMAPE", "share of 15 digits that are right, by the relative distance", 0, 1),
    Metric("calibration_error", "calibration error", "how far stated probabilities are from the truth", 0.5, 0, True),
    Metric(
        EQUAL_SECONDS, "exact answers at equal seconds",
        "share of validation answers that are right when every row has trained as long as the fastest one", 0, 1,
        True,
    ),
)  # fmt: skip
BY_KEY = {metric.key: metric for metric in METRICS}
