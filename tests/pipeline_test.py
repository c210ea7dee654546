"""Encoding and batches, against references written one position at a time."""

from __future__ import annotations

import collections
import tempfile
from decimal import Decimal

import numpy as np
import pytest

from numjax.errors import DataError, UsageError
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.pipeline import batch as batches
from numjax.pipeline import columns as stores
from numjax.pipeline.loader import Loader
from numjax.tasks import language_model
from numjax.types import TREE_POSITIONS, Example, Features, Mark, Number, Numeral, Tokens
from tests.encoded import (
    DIGITS,
    NUMBERS,
    SCHEMES,
    WORDS,
    LabelledTextTask,
    encode,
    make_config,
    make_loader,
    make_records,
    make_scheme,
    make_text_task,
)

# ---------------------------------------------------------------------------------------------------
# Batches against a reference that loops over positions.


def make_reference_batch(
    rows: list[list[tuple[Features, int]]], kind: str, length: int, pad: int, start: int
) -> dict:
    """Returns the expected arrays of a batch as lists; a numeral is its value, and None where there is none."""
    out = collections.defaultdict(list)
    for group in rows:
        row = collections.defaultdict(list)
        for segment, (features, loss_from) in enumerate(group, 1):
            values = [None if i < 0 else features.numbers[i].value for i in features.numeral_index]
            for t in range(len(features.ids) - (kind == "language_model")):
                row["ids"].append(int(features.ids[t]))
                row["positions"].append(t)
                row["segment_ids"].append(segment)
                row["values"].append(values[t])
                if kind == "language_model":
                    row["target_ids"].append(int(features.ids[t + 1]))
                    row["target_values"].append(values[t + 1])
                    row["mask"].append(t + 1 >= loss_from)
                    row["states"].append(int(features.grammar_state[t + 1]))
                else:
                    row["states"].append(int(features.grammar_state[t]))
        fills = dict(ids=pad, positions=0, segment_ids=0, values=None, states=start)
        if kind == "language_model":
            fills |= dict(target_ids=pad, target_values=None, mask=False)
        for name, fill in fills.items():
            out[name].append(row[name] + [fill] * (length - len(row[name])))
    return out


@pytest.mark.parametrize("kind", ["language_model", "classify"])
@pytest.mark.parametrize("name", SCHEMES)
def test_a_batch_equals_a_loop_over_positions(name, kind, rng):
    scheme, pad, start = make_scheme(name), 5, 3
    examples = []
    for record in make_records(rng, 12):
        row = scheme.encode((Mark("[CLS]"), *scheme.parse(record["text"]), Mark("[EOS]")))
        # The grammars of text have few states: random ones distinguish positions.
        row = row._replace(grammar_state=rng.integers(0, 99, len(row.ids) + 1))
        examples.append((row, int(rng.integers(0, len(row.ids) + 1))))
    writer = stores.ColumnsWriter(DIGITS)
    for row, loss_from in examples:
        writer.add(row, loss_from)
    counts = np.asarray([3, 1, 0, 4, 0, 2])
    members = rng.permutation(12)[: counts.sum()]
    grouped = [list(members[end - n : end]) for n, end in zip(counts, np.cumsum(counts), strict=True)]
    length = max(sum(len(examples[i][0].ids) for i in row) for row in grouped)
    numerals = max(sum(len(examples[i][0].numbers) for i in row) for row in grouped)
    batch = batches.gather(
        writer.finish(),
        members,
        counts,
        kind=kind,
        length=length,
        numerals=numerals,
        grammar=True,
        pad_id=pad,
        start_state=start,
    )
    expected = make_reference_batch([[examples[i] for i in row] for row in grouped], kind, length, pad, start)
    for key in ("ids", "positions", "segment_ids"):
        assert getattr(batch.inputs, key).tolist() == expected[key], key
        assert getattr(batch.inputs, key).dtype == np.int32
    assert batch.grammar_state.tolist() == expected["states"]
    tables = [to_decimals(Numeral(*(x[b] for x in batch.inputs.numerals))) for b in range(len(counts))]

    def values(index_BT):
        return [[None if i < 0 else tables[b][i] for i in row] for b, row in enumerate(index_BT)]

    assert values(batch.inputs.numeral_index) == expected["values"]
    assert any(value is not None for row in expected["values"] for value in row)
    if kind == "language_model":
        assert batch.targets.ids.tolist() == expected["target_ids"]
        assert batch.targets.mask.tolist() == expected["mask"]
        assert values(batch.targets.numeral_index) == expected["target_values"]
    else:
        assert batch.targets is None
    assert batch.valid.tolist() == [n > 0 for n in counts]
    assert batch.example_id.tolist() == [row[0] if len(row) == 1 else -1 for row in grouped]


def test_channels_are_packed_and_padded_as_they_declare(rng):
    sizes, levels = [3, 1, 5], 4
    rows = []
    for size in sizes:
        rows.append(
            stores.EncodedRow(
                ids=np.arange(size, dtype=np.int32),
                numeral_index=np.full(size, -1, np.int32),
                grammar_state=np.zeros(size, np.int32),
                numerals=to_numeral([], DIGITS),
                surfaces=(),
                loss_from=0,
                labels={},
                channels={
                    "types": rng.integers(1, 9, size).astype(np.int32),
                    "tree_positions": rng.integers(0, 9, (size, levels)).astype(np.int32),
                },
            )
        )
    batch = batches.assemble(
        [[rows[0], rows[1]], [], [rows[2]]],
        [[7, 8], [], [9]],
        kind="classify",
        length=6,
        numerals=2,
        digits=DIGITS,
        declared={"tree_positions": TREE_POSITIONS},
    )
    types, tree_positions = ([row.channels[name] for row in rows] for name in ("types", "tree_positions"))
    channels = batch.inputs.channels
    assert channels["types"].tolist() == [[*types[0], *types[1], 0, 0], [0] * 6, [*types[2], 0]]
    assert channels["tree_positions"].shape == (3, 6, levels)
    assert np.array_equal(channels["tree_positions"][2, :5], tree_positions[2])
    assert (channels["tree_positions"][1] == -1).all()
    assert batch.example_id.tolist() == [-1, -1, 9]


@pytest.mark.parametrize("threshold", [0, 64])
def test_host_features_are_computed_once_a_number_or_once_a_batch_with_one_result(threshold, rng):
    counts: collections.Counter = collections.Counter()

    def host_features(numerals: Numeral, surfaces):
        counts.update(s for s in surfaces if s)
        value = np.where(numerals.valid, numerals.exponent * 10.0 + numerals.digits[:, 0], -1)
        return {"value": value.astype(np.float32), "size": np.asarray([[len(s)] * 3 for s in surfaces], np.int32)}

    config = make_config(memory=threshold)
    encoded = encode(make_text_task(), make_scheme("replace"), make_records(rng, 20), config)
    loader = Loader(encoded, config, seed=0, host_features=host_features, process=(0, 1))
    for batch in loader.epoch(4):
        table, features = batch.inputs.numerals, batch.inputs.features
        expected = np.where(table.valid, table.exponent * 10.0 + table.digits[..., 0], -1)
        assert np.array_equal(features["value"], expected) and features["value"].dtype == np.float32
        assert features["size"].shape == (*table.valid.shape, 3)
        for b, i in enumerate(batch.example_id):
            if i >= 0:
                lengths = [len(s) for s in encoded.rows[i].surfaces]
                assert features["size"][b, : len(lengths), 0].tolist() == lengths
    assert set(counts) == {s for row in encoded.rows for s in row.surfaces}
    if threshold:
        assert set(counts.values()) == {1}


# ---------------------------------------------------------------------------------------------------
# Encoding: which records are whole, cut or skipped.


@pytest.mark.parametrize("name", SCHEMES)
def test_encoded_rows_equal_the_output_of_the_scheme(name, rng):
    scheme, config = make_scheme(name), make_config()
    records = make_records(rng, 15)
    encoded = encode(make_text_task(), scheme, records, config)
    assert len(encoded) == len(records) and not encoded.skipped
    for record, row in zip(records, encoded.rows, strict=True):
        expected = scheme.encode((Mark("[CLS]"), *scheme.parse(record["text"]), Mark("[EOS]")))
        assert row.ids.tolist() == expected.ids.tolist()
        assert row.numeral_index.tolist() == expected.numeral_index.tolist()
        assert row.grammar_state.tolist() == expected.grammar_state[:-1].tolist()
        assert row.surfaces == tuple(n.surface for n in expected.numbers)
        assert to_decimals(row.numerals) == [n.value for n in expected.numbers]
        assert row.loss_from == 1
    assert encoded.lengths.tolist() == [len(row.ids) - 1 for row in encoded.rows]
    assert [encoded.example(i).id for i in range(len(encoded))] == [r["id"] for r in records]


def test_bad_records_are_skipped_and_named_or_stop_a_strict_run(rng):
    records = make_records(rng, 6)
    del records[1]["text"]
    records[3]["text"] = "eggs " * 200
    del records[4]["id"]
    records[5]["label"] = "yes"
    config = make_config()
    encoded = encode(LabelledTextTask(), make_scheme("replace"), records, config, split="validation")
    assert [encoded.example(i).id for i in range(len(encoded))] == ["r0", "r2", "validation-4"]
    assert [(row["id"], row["split"]) for row in encoded.skipped] == [(f"r{i}", "validation") for i in (1, 3, 5)]
    reasons = [row["reason"] for row in encoded.skipped]
    assert "'text'" in reasons[0] and "more than data.length=48" in reasons[1] and "'label'" in reasons[2]
    assert all("\n" not in reason for reason in reasons)
    with pytest.raises(DataError, match=r"record r1 of validation: .*'text'"):
        encode(LabelledTextTask(), make_scheme("replace"), records, config, split="validation", strict=True)


def test_a_missing_key_is_named_even_where_a_task_does_not_look():
    class CarelessTask(LabelledTextTask):
        def example(self, record, parse):
            return Example(record["id"], parse(record["body"]))

    encoded = encode(CarelessTask(), make_scheme("replace"), [{"id": "x", "text": "a"}], make_config())
    assert encoded.skipped == [{"id": "x", "split": "train", "reason": "there is no field 'body'"}]


def test_a_wrong_setup_is_an_error_and_no_bad_record():
    class MarkTask(LabelledTextTask):
        def example(self, record, parse):
            return Example(record["id"], (Mark("[NO SUCH MARK]"),))

    with pytest.raises(UsageError, match="NO SUCH MARK"):
        encode(MarkTask(), make_scheme("replace"), [{"id": "x"}], make_config())


def test_records_to_predict_need_no_answer_and_others_do():
    records = [{"id": "x", "text": "a sum"}]
    assert len(encode(LabelledTextTask(), make_scheme("replace"), records, make_config(), split="input")) == 1
    encoded = encode(LabelledTextTask(), make_scheme("replace"), records, make_config(), split="test")
    assert len(encoded) == 0 and "'label'" in encoded.skipped[0]["reason"]


@pytest.mark.parametrize("kind", ["language_model", "classify"])
def test_texts_without_numbers_empty_texts_and_endless_numbers_are_fine(kind):
    texts = ["", "no numbers at all", "7" * 10_000, "0." + "0" * 5000 + "1"]
    records = [{"id": str(i), "text": text, "label": 1} for i, text in enumerate(texts)]
    task = make_text_task() if kind == "language_model" else LabelledTextTask()
    encoded = encode(task, make_scheme("replace"), records, make_config(length=24))
    assert not encoded.skipped
    (batch,) = Loader(encoded, make_config(length=24), seed=0, process=(0, 1)).epoch(4)
    order = np.argsort(batch.example_id)
    assert batch.inputs.numerals.valid[order].sum(axis=1).tolist() == [0, 0, 1, 1]
    assert batch.inputs.numerals.exponent[order, 0].tolist() == [0, 0, 9999, -5001]
    assert batch.inputs.numerals.n_digits[order, 0].tolist() == [0, 0, 10_000, 1]


def test_a_split_without_one_number_still_has_a_table():
    encoded = encode(make_text_task(), make_scheme("replace"), [{"id": "a", "text": "eggs"}], make_config())
    batch, *_ = Loader(encoded, make_config(), seed=0, process=(0, 1)).epoch(1)
    assert batch.inputs.numerals.valid.shape == (1, 4) and not batch.inputs.numerals.valid.any()


@pytest.mark.parametrize("name", SCHEMES)
def test_windows_of_a_long_text_hold_every_target_once_with_its_number(name, rng):
    scheme = make_scheme(name)
    record = {"id": "long", "text": " ".join(rng.choice([*WORDS, *NUMBERS], 60))}
    whole = scheme.encode((Mark("[CLS]"), *scheme.parse(record["text"]), Mark("[EOS]")))
    encoded = encode(make_text_task(), scheme, [record], make_config(length=16, overflow="split"))
    assert len(encoded) > 3 and encoded.lengths.max() == 16 and encoded.lengths.sum() == len(whole.ids) - 1
    ids, values, states = [int(whole.ids[0])], [], []
    for row in encoded.rows:
        assert ids[-1] == row.ids[0]
        ids += row.ids[1:].tolist()
        decimals = to_decimals(row.numerals)
        assert len(decimals) == len(set(row.numeral_index.tolist()) - {-1})
        values += [None if i < 0 else decimals[i] for i in row.numeral_index[1:]]
        states += row.grammar_state[1:].tolist()
    assert ids == whole.ids.tolist() and states == whole.grammar_state[1:-1].tolist()
    assert values == [None if i < 0 else whole.numbers[i].value for i in whole.numeral_index[1:]]
    assert {encoded.example(i).id for i in range(len(encoded))} == {"long"}


def test_windows_score_what_the_whole_text_scores(rng):
    class PromptTask(language_model.Task):
        def example(self, record, parse):
            return super().example(record, parse)._replace(loss_from=self.first_scored)

    task = PromptTask(path="unused")
    task.first_scored = 4
    scheme = make_scheme("replace")
    record = {"id": "x", "text": " ".join(["eggs 7 grams 12 sum 98765"] * 5)}
    whole = scheme.encode(task.example(record, scheme.parse).document)
    config = make_config(length=4, overflow="split")
    encoded = encode(task, scheme, [record], config)
    mask = []
    for batch in Loader(encoded, config, seed=0, process=(0, 1)).epoch(1):
        mask += batch.targets.mask[batch.inputs.segment_ids > 0].tolist()
    # Short last windows come first in an epoch, so the number of scored targets is compared.
    assert sum(mask) == len(whole.ids) - whole.starts[4] and 0 < sum(mask) < len(mask)


def test_truncation_keeps_the_start_and_the_last_mark_for_a_classifier(rng):
    scheme = make_scheme("digits")
    record = {"id": "x", "text": " ".join(["98765 eggs"] * 9), "label": 1}
    whole = scheme.encode((Mark("[CLS]"), *scheme.parse(record["text"]), Mark("[EOS]"))).ids.tolist()
    config = make_config(length=12, overflow="truncate")
    (labelled_row,) = encode(LabelledTextTask(), scheme, [record], config).rows
    assert labelled_row.ids.tolist() == [*whole[:11], scheme.vocab.mark("[EOS]")]
    assert len(labelled_row.surfaces) == len(set(labelled_row.numeral_index.tolist()) - {-1})
    (text_row,) = encode(make_text_task(), scheme, [record], config).rows
    assert text_row.ids.tolist() == whole[:13]


def test_options_that_do_not_go_together_are_refused():
    records = [{"id": "x", "text": "a", "label": 0}]
    with pytest.raises(UsageError, match="only language models can split"):
        encode(LabelledTextTask(), make_scheme("replace"), records, make_config(overflow="split"))
    with pytest.raises(UsageError, match="overflow must be one of"):
        encode(LabelledTextTask(), make_scheme("replace"), records, make_config(overflow="wrap"))


def test_columns_beyond_memory_go_to_a_file_and_hold_the_same(rng, monkeypatch):
    task, scheme, records = make_text_task(), make_scheme("digits"), make_records(rng, 30)
    in_memory = encode(task, scheme, records, make_config())
    on_disk = encode(task, scheme, records, make_config(memory=0))
    assert on_disk.columns.spilled and not in_memory.columns.spilled
    for a, b in zip(in_memory.columns, on_disk.columns, strict=True):
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype and np.array_equal(a, b)
    with pytest.raises(UsageError, match=r"data\.workers"):
        Loader(on_disk, make_config(workers=1, memory=0), seed=0, process=(0, 1)).iterate()
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    with pytest.raises(UsageError, match="make room, set TMPDIR, or raise"):
        encode(task, scheme, records, make_config(memory=0))


def test_a_subset_holds_the_chosen_rows_and_their_examples(rng):
    encoded = encode(LabelledTextTask(), make_scheme("digits"), make_records(rng, 9), make_config())
    part = encoded.subset([7, 2, 2])
    assert [part.example(i).id for i in range(3)] == ["r7", "r2", "r2"]
    for i, j in enumerate([7, 2, 2]):
        for a, b in zip(part.rows[i], encoded.rows[j], strict=True):
            if isinstance(a, np.ndarray):
                assert np.array_equal(a, b)
        assert part.rows[i].labels["label"] == encoded.rows[j].labels["label"]
    assert part.rows[-1].ids.tolist() == encoded.rows[2].ids.tolist()
    with pytest.raises(IndexError):
        part.rows[3]


def test_labels_follow_their_rows(rng):
    loader = make_loader(rng, kind="classify")
    for batch in loader.epoch(5):
        assert batch.labels["label"].dtype == np.int32 and batch.labels["vector"].dtype == np.float32
        for b, i in enumerate(batch.example_id):
            expected = loader.encoded.example(i).reference if batch.valid[b] else 0
            assert batch.labels["label"][b] == expected
            assert batch.labels["vector"][b].tolist() == ([expected, 0.5] if batch.valid[b] else [0, 0])


def test_documents_for_inspection_are_not_shifted():
    scheme = make_scheme("replace")
    rows = [scheme.encode(scheme.parse(text)) for text in ("3.14", "1,200 eggs")]
    batch = batches.from_features(rows, DIGITS)
    assert batch.inputs.ids.shape[1] % 8 == 0 and isinstance(batch.inputs, Tokens)
    for b, row in enumerate(rows):
        assert batch.inputs.ids[b, : len(row.ids)].tolist() == row.ids.tolist()
        assert (batch.inputs.segment_ids[b] > 0).sum() == len(row.ids)
    assert to_decimals(Numeral(*(x[:, 0] for x in batch.inputs.numerals))) == [Decimal("3.14"), Decimal(1200)]


def test_numbers_with_one_surface_and_different_values_stay_distinct():
    index = np.asarray([0, 1, 2], np.int32)
    numbers = (Number("0", Decimal("0")), Number("-0", Decimal("-0")), Number("0", Decimal("-0")))
    writer = stores.ColumnsWriter(DIGITS)
    writer.add(Features(np.zeros(3, np.int32), index, numbers, (0, 1, 2, 3), np.zeros(4, np.int32)))
    columns = writer.finish()
    assert columns.row(0).numerals.sign.tolist() == [1, -1, -1] and columns.row(0).surfaces == ("0", "-0", "0")
