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


def test_two_heads_that_predict_a_row_are_refused_by_their_names(tmp_path, vocabulary):
    def add(config):
        config.heads.other = common.block(name="span")

    assemble(numgpt.get_config("smoke"), tmp_path, vocabulary=vocabulary)
    said = refused(tmp_path, vocabulary, add)
    assert re.search(r"heads label and other each predict a row.*keep one", said), said
