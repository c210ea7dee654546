"""The names of numbers: which positions have them, and what they add."""

from __future__ import annotations

import numpy as np
import pytest

from numjax.build import build
from numjax.embed.number_name import Embed, Names
from numjax.errors import UsageError
from numjax.types import Tokens

MARKS = (("[@1]", 1), ("[@2]", 2), ("[#]", 3), ("[|1]", 4), ("[:7]", 5), ("[.05]", 6), ("[SEP]", 7), ("[=-1,]", 8))


def make_part(dim: int = 4) -> Embed:
    return build("embed", dict(name="number_name"), dim=dim, marks=MARKS)


def test_all_positions_of_a_number_have_its_name():
    (producer,) = make_part().producers()
    ids = np.int32([3, 5, 2, 4, 3, 5, 9, 5, 1, 8, 6, 5, 2, 3, 7, 1])
    assert producer.compute(ids).tolist() == [0, 0, 2, 2, 2, 2, 0, 0, 1, 1, 1, 1, 2, 2, 0, 1]


def test_it_adds_the_vector_of_a_name(rng):
    part = make_part()
    (producer,) = part.producers()
    ids = rng.integers(1, 10, (3, 12)).astype(np.int32)
    channel = np.stack([producer.compute(row) for row in ids])
    tokens = Tokens(ids, *(np.zeros_like(ids) for _ in range(2)), channels={"number_name": channel})
    vectors = rng.standard_normal((2, 4)).astype(np.float32)
    x = np.asarray(part.apply({"params": {"vectors": vectors}}, tokens))
    np.testing.assert_allclose(x, np.concatenate([np.zeros((1, 4)), vectors])[channel], atol=1e-6)
    assert {0, 1, 2} == set(channel.ravel().tolist())


def test_equal_producers_make_one_channel():
    assert make_part().producers() == make_part(8).producers() != (Names(((1, 1),), (5,)),)


def test_without_names_it_is_refused_in_one_line():
    with pytest.raises(UsageError, match="number_name: numbers have no names here: choose scheme limbs with names=8"):
        build("embed", dict(name="number_name"), dim=4, marks=(("[:7]", 3),)).producers()
