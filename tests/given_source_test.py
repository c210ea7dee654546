"""All numbers of an encoder's source are given: parts that tell given numbers from written ones know it."""

from __future__ import annotations

import numpy as np
import pytest

from numjax.bundled.configs import digits
from numjax.config.blocks import apply_changes
from numjax.evals import generate
from numjax.system import assemble
from numjax.text import vocab

RECORDS = [
    {"id": "1", "question": "Ann has 1,250 apples and eats 49.5, how many are left?", "answer": "1200.5"},
    {"id": "2", "question": "What is 7 plus 4e-7 plus 730?", "answer": "737"},
]
LIMBS = [
    "scheme=limbs:size=1,parts=8,known=True,until=[SEP]",
    "embeds.token=token",
    "+embeds.before=digit_ngram:behind=3",
]
SYSTEMS = {
    "rank": ([*LIMBS, "positions.sequence=rank_bias"], ("rank", "digits_behind")),
    "power": ([*LIMBS, "positions.sequence=limbs_bias"], ("limb_power", "digits_behind")),
    "coupled": (["embeds.token=token", "positions.sequence=coupled_bias"], ("significance",)),
}


@pytest.fixture(params=SYSTEMS)
def system_and_channels(request, tmp_path):
    changes, channels = SYSTEMS[request.param]
    vocabulary = vocab.build(
        {"name": "sentencepiece", "size": 300, "split_digits": True},
        [record["question"] for record in RECORDS],
        ("[SEP]",),
    )
    return assemble(apply_changes(digits.get_config("smoke"), changes), tmp_path, vocabulary=vocabulary), channels


def test_numbers_of_a_source_have_the_channels_of_given_numbers(system_and_channels):
    """They are those of the same text before the mark that ends what is given."""
    system, channels = system_and_channels
    mark = system.scheme.vocab.mark("[SEP]")
    encoded = system.encode_split(RECORDS, "test", strict=True)
    for row in encoded.rows:
        ids = np.asarray(row.source.ids)
        assert mark not in ids
        for producer in system.model.producers():
            expected = producer.compute(np.append(ids, mark))[:-1]
            assert (row.source.channels[producer.channel.name] == expected).all()
        for name in channels:
            assert row.source.channels[name].any(), name


def test_a_prompt_is_encoded_as_the_source_of_a_record(system_and_channels):
    system, channels = system_and_channels
    encoded = system.encode_split(RECORDS, "test", strict=True)
    rows, _ = generate._encode_prompts(system, [record["question"] for record in RECORDS])
    for row, trained in zip(rows, encoded.rows, strict=True):
        assert row.source.ids.tolist() == trained.source.ids.tolist()
        for name in channels:
            assert (row.source.channels[name] == trained.source.channels[name]).all()
