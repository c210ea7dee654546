"""Parts that do not go together are refused before anything is compiled, by the names that the config gives them."""

from __future__ import annotations

import re

import pytest

from configs import common, numgpt
from numjax.errors import UsageError
from numjax.system import assemble
from numjax.text import vocab as vocabularies


@pytest.fixture(scope="module")
def vocabulary():
    return vocabularies.build({"name": "sentencepiece", "size": 300}, ["A text with 12 numbers."])


def refused(tmp_path, vocabulary, change, argument: str = "smoke") -> str:
    """What `assemble` says of a config after a change."""
    config = numgpt.get_config(argument)
    with config.unlocked():
        change(config)
    with pytest.raises(UsageError) as caught:
        assemble(config, tmp_path, vocabulary=vocabulary)
    return str(caught.value)


def test_of_two_heads_that_give_the_next_token_none_writes(tmp_path, vocabulary):
    config = numgpt.get_config("smoke,task=generation")
    made = assemble(config, tmp_path, vocabulary=vocabulary).model
    assert made.writer == "next"
    with config.unlocked():
        config.heads.other = common.block(name="token")
    with pytest.raises(UsageError, match=r"heads next and other each give the next token.*keep one"):
        _ = assemble(config, tmp_path, vocabulary=vocabulary).model.writer


def test_two_heads_that_predict_a_row_are_refused_by_their_names(tmp_path, vocabulary):
    def add(config):
        config.heads.other = common.block(name="span")

    assemble(numgpt.get_config("smoke"), tmp_path, vocabulary=vocabulary)
    said = refused(tmp_path, vocabulary, add)
    assert re.search(r"heads label and other each predict a row.*keep one", said), said


@pytest.mark.parametrize(
    ("head", "objective", "method"),
    [
        ("classify", "nll", "total_log_prob"),
        ("masked", "digit_aggregate", "step_scores"),
        ("token", "number", "error"),
        ("mixture", "distill", "total_cross_entropy"),
        ("span", "tagop", "scored, right"),
    ],
)
def test_an_objective_that_its_head_cannot_serve_is_refused_with_the_method(
    tmp_path, vocabulary, head, objective, method
):
    def change(config):
        config.heads = common.block(mine=dict(name=head) | (dict(num_classes=2) if head == "classify" else {}))
        config.objectives = common.block(loss=dict(name=objective, head="mine"))

    said = refused(tmp_path, vocabulary, change)
    assert f"objective 'loss' ({objective}) wants {method} of its head, and head 'mine' has no such" in said, said
