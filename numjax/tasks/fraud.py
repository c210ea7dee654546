"""Whether one of ten card transactions in a row is a fraud (Padhi et al. 2021; LUNA's CrediTrans)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from numjax import bundled
from numjax.errors import DataError, UsageError
from numjax.pipeline import fields
from numjax.tasks import LABEL, transactions
from numjax.types import Document, Example, Mark

ROWS = 10  # of a window
THRESHOLD = 0.5  # if validation chose none, as in LUNA's code


class Task(transactions.Task):
    """Predicts the window's label. Frauds are rare: F1 is that of the fraudulent windows, above the threshold on
    their probability that is best on validation."""

    kind = "classify"
    reads_probabilities = True
    unanswered = {"label": 0}
    metric = "F1"
    file_forms = ("a .csv of the published table's columns",)
    needs = {"heads": ("classify",), "objectives": ("nll",)}
    brings = LABEL
    num_classes = 2

    def __init__(
        self,
        *,
        threshold: float = 0.0,
        path: str = "",
        by: str = "random",
        stride: int = 10,
        users: int = 50,
        size: int = 0,
        data_seed: int = 0,
        time: str = "s",
        fitted_on: str = "train",
    ):
        """
        Args:
          threshold: 0 to choose it on validation; 0.5 in LUNA's code.
          path, by, stride, users, size, data_seed, time, fitted_on: as for the task transactions.
        """
        if not 0 <= threshold < 1:
            raise UsageError(f"threshold={threshold} must be a probability; 0 chooses it on validation")
        super().__init__(
            path=path,
            by=by,
            stride=stride,
            users=users,
            size=size,
            data_seed=data_seed,
            time=time,
            fitted_on=fitted_on,
        )
        self.splits = {}
        self.threshold = threshold
        self.tuned = {} if threshold else {"threshold": THRESHOLD}

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The window and its label.

        Raises:
          DataError: there are not ten rows of eleven cells, or no label.
        """
        label = fields.label(record, "label", 2)
        example = super().example(record, parse)
        if (rows := example.document.count(Mark("[SEP]"))) != ROWS:
            raise DataError(f"field 'rows' has {rows} rows; a window has {ROWS}")
        return example._replace(labels={"label": label}, reference={"label": label})

    def from_file(self, path: str) -> Iterator[tuple[str, dict[str, Any] | ValueError]] | None:
        """The windows of a user's card table, a .csv or .csv.gz; see data/creditrans/README.md."""
        if not path.lower().endswith((".csv", ".csv.gz")):
            return None
        return bundled.call("data.creditrans.read", "read_windows", path)

    def make_prediction(
        self, example: Example, output: np.ndarray, threshold: float | None = None
    ) -> tuple[int, dict[str, float]]:
        """(1 for a fraud, else 0; {"probability"} of a fraud), from the two classes' log-probabilities.

        Args:
          threshold: chosen on validation; by default `THRESHOLD`.
        """
        del example
        (chance,) = _fraud_probabilities([output])
        return int(chance >= (self.threshold or threshold or THRESHOLD)), {"probability": float(chance)}

    def score(
        self,
        predictions: Sequence[int],
        references: Sequence[Mapping[str, Any]],
        log_probs: Sequence[Any] | None = None,
        threshold: float | None = None,
    ) -> dict[str, float]:
        """F1, precision and recall of frauds, and AUC if both classes occur.

        Args:
          log_probs: of the two classes; without them the predictions are used directly.
          threshold: chosen on validation; without one it is chosen here, and returned as a metric.
        """
        metrics: Any = importlib.import_module("sklearn.metrics")
        gold = np.asarray([reference["label"] for reference in references])
        metrics_by_name: dict[str, float] = {}
        labels = np.asarray(predictions)
        if log_probs is not None:
            chances = _fraud_probabilities(log_probs)
            limit = self.threshold or (best_threshold(gold, chances) if threshold is None else threshold)
            labels = (chances >= limit).astype(int)
            metrics_by_name["threshold"] = float(limit)
            if 0 < gold.sum() < len(gold):
                metrics_by_name["AUC"] = float(metrics.roc_auc_score(gold, chances))
        for name, metric in (("F1", "f1_score"), ("precision", "precision_score"), ("recall", "recall_score")):
            metrics_by_name[name] = float(getattr(metrics, metric)(gold, labels, zero_division=0))
        return metrics_by_name


def _fraud_probabilities(log_probs: Sequence[Any]) -> np.ndarray:
    """P(fraud), float64[E]."""
    return np.exp(np.asarray([row[1] for row in log_probs], np.float64))


def best_threshold(gold: np.ndarray, chances: np.ndarray) -> float:
    """The threshold with the best F1 of `chances >= threshold`, halfway between two chances; of equally good ones the
    highest. `THRESHOLD` if there are no positives."""
    if not gold.any():
        return THRESHOLD
    order = np.argsort(-chances, kind="stable")
    ranked, hits = chances[order], np.cumsum(gold[order])
    f1 = 2 * hits / (np.arange(1, len(gold) + 1) + gold.sum())
    # No threshold separates equal chances.
    f1[:-1][ranked[:-1] == ranked[1:]] = -1
    best = int(np.argmax(f1))
    below = ranked[best + 1] if best + 1 < len(ranked) else 0.0
    return float((ranked[best] + below) / 2)
