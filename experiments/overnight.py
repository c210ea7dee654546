"""The scale overnight, and what its tables share that start from pretrained weights and compare systems in folds."""

from __future__ import annotations

import argparse

from numjax.errors import UsageError

NAME = "overnight"
MINILM = "minilm"  # the weights of `make pretrained`
INSTALLED = (MINILM, "minilm3")  # all its layers, or the first three


def check(options: argparse.Namespace, folds: int) -> None:
    """Raises UsageError at overnight if there are no weights to start from, or more seeds than folds."""
    if options.scale != NAME:
        return
    if not options.bert:
        raise UsageError(f"--scale={NAME} starts from pretrained weights: give --bert={MINILM}")
    if len(options.seeds) > folds:
        raise UsageError(f"--seeds={len(options.seeds)}: at {NAME} each seed is one of {folds} folds")
