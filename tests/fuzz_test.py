"""Replays the seeds of fuzzing and its corpus: inputs that broke a parser, or that reach lines which no seed does."""

from __future__ import annotations

import importlib

import pytest

from tests.fuzz.driver import CORPUS, TARGETS

INPUTS = [(target, path) for target in TARGETS for path in sorted((CORPUS / target).glob("*"))]


@pytest.mark.parametrize("target", TARGETS)
def test_every_parser_keeps_its_promise_for_the_seeds(target):
    module = importlib.import_module(f"tests.fuzz.{target}")
    for seed in module.SEEDS:
        for end in range(len(seed) + 1):
            module.check(seed[:end])


@pytest.mark.parametrize(("target", "path"), INPUTS, ids=[f"{target}-{path.name}" for target, path in INPUTS])
def test_every_parser_keeps_its_promise_for_the_corpus(target, path):
    importlib.import_module(f"tests.fuzz.{target}").check(path.read_bytes())
