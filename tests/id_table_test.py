"""Tables of values that belong to token ids, against dictionaries."""

from __future__ import annotations

import numpy as np
import pytest

from numjax.nn import id_table


@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_table_has_the_values_of_its_ids_and_no_others(rng, count):
    values = {int(token): int(value) for token, value in rng.integers(-5, 40, (count, 2))} | {-1: 9}
    ids = rng.integers(0, 60, 500).astype(np.int32)  # some are beyond the table
    known = {token: value for token, value in values.items() if token >= 0}
    expected = np.asarray([known.get(token, 0) for token in ids.tolist()], np.int32)
    result = id_table.look_up(id_table.make(values.items()), ids)
    assert result.dtype == np.int32 and (result == expected).all()
    is_one = id_table.look_up(id_table.make_set(values), ids)
    assert is_one.dtype == bool and (is_one == np.isin(ids, list(known))).all()
