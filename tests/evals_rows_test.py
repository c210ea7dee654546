"""Predictions from heads' outputs, and records from lines: every row once, bad ones named, windows by their score."""

from __future__ import annotations

import io
import json
import math
from decimal import Decimal
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from numjax.decode.sample import Generated
from numjax.errors import DataError, UsageError
from numjax.evals import report, tuned
from numjax.evals.numbers import predicted_numbers, value_of
from numjax.expr import latex
from numjax.modes import inputs
from numjax.numeral.exact import to_numeral
from numjax.types import Estimate, Text

TASK = SimpleNamespace(from_file=lambda path: None, file_forms=("a table",))


class EncodedRows(SimpleNamespace):
    """An encoded split that has only these attributes and a number of rows."""

    def __len__(self):
        return 8


def spans(texts, origin, outputs):
    """`make_predictions` for windows whose positions are the characters of their text."""
    offsets = np.concatenate([[(i, i + 1) for i in range(len(text))] for text in texts])
    starts = np.cumsum([0, *map(len, texts)])
    encoded = SimpleNamespace(
        kind="span",
        origin=np.asarray(origin),
        columns=SimpleNamespace(offsets=offsets, starts=starts),
        example=lambda i: SimpleNamespace(document=(Text(texts[i]),)),
    )
    return report.make_predictions(encoded, {i: np.float64(row) for i, row in outputs.items()})


def test_spans_are_the_characters_of_the_best_window_of_each_text(rng):
    texts = ["the net sales", "sales rose  ", "other text"]
    outputs = {0: (4, 6, 1.5, -0.5), 1: (6, 11, 2.5, -1.0), 2: (0, 4, -3.0, -0.25)}
    predictions, fields = spans(texts, [0, 0, 2], outputs)
    assert predictions == {1: "rose", 2: "other"}, "under the window's own row, without blanks at the ends"
    assert fields == {i: {"score": outputs[i][2], "confidence": math.exp(outputs[i][3])} for i in (1, 2)}
    equal = {0: (0, 2, 2.5, -1.0), 1: (0, 4, 2.5, -1.0)}
    assert spans(texts, [0, 0, 2], equal)[0] == {0: "the"}, "of equals the first window"


def test_classes_are_the_most_probable_with_their_probability(rng):
    outputs = {i: np.log(rng.dirichlet(np.ones(4))) for i in range(6)}
    predictions, fields = report.make_predictions(SimpleNamespace(kind="classify"), outputs)
    for i, row in outputs.items():
        assert row[predictions[i]] == row.max() and isinstance(predictions[i], int)
        assert fields[i] == {"confidence": pytest.approx(np.exp(row.max()))}


def test_a_tasks_own_predictions_and_fields_are_kept_apart():
    encoded = SimpleNamespace(kind="classify", example=lambda i: f"example {i}")
    predictions, fields = report.make_predictions(
        encoded, {3: np.zeros(2), 5: np.ones(2)}, lambda example, row: (f"{example}: {row.sum():g}", {"n": len(row)})
    )
    assert predictions == {3: "example 3: 0", 5: "example 5: 2"} and fields == {3: {"n": 2}, 5: {"n": 2}}


def test_values_that_validation_chose_replace_the_defaults(capsys):
    defaults = {"threshold": 0.5, "margin": 2.0}
    assert report._tuned_arguments(defaults, {"threshold": 0.25, "margin": 1.0, "f1": 9.0}, "test") == {
        "threshold": 0.25, "margin": 1.0,
    }  # fmt: skip
    assert not capsys.readouterr().err
    assert report._tuned_arguments(defaults, {"threshold": 0.25}, "test") == {"threshold": 0.25, "margin": 2.0}
    assert "test: nothing was chosen on validation: scored with the default, margin 2" in capsys.readouterr().err


def test_tuned_values_come_back_or_say_why_not(tmp_path, capsys):
    task = SimpleNamespace(tuned={"threshold": 0.5})
    assert tuned.load(tmp_path, SimpleNamespace(tuned={})) == {} and not capsys.readouterr().err
    assert tuned.load(tmp_path, task) == {} and "no threshold was chosen" in capsys.readouterr().err
    tuned.save(tmp_path, {"threshold": 0.25, "other": 1})
    assert tuned.load(tmp_path, task) == {"threshold": 0.25}
    for damage in ("{", "[]", "{}", '{"threshold": null}', '{"threshold": "x"}'):
        (tmp_path / tuned.FILE).write_text(damage)
        with pytest.raises(UsageError, match="is damaged: delete it"):
            tuned.load(tmp_path, task)


def test_lines_are_records_or_named_by_their_number(tmp_path):
    path = tmp_path / "records.jsonl"
    good = [{"text": "a\u2028b"}, {"id": "own", "text": "c"}]
    lines = [json.dumps(good[0], ensure_ascii=False), "", "  ", "{", "[1]", "9" * 5000, json.dumps(good[1])]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    assert inputs.read_lines(str(path)) == [line for line in lines if line.strip()]
    records = inputs.load_records(TASK, str(path))
    assert [name for name, _ in records] == [f"input-{n}" for n in (1, 4, 5, 6, 7)]
    assert records[0][1] == {"id": "input-1"} | good[0] and records[4][1] == good[1], "an id of its own stays"
    messages = [str(record) for _, record in records[1:4]]
    assert all(text.startswith(f"line {n} is not a JSON object") for n, text in enumerate(messages, 4)), messages
    assert messages[1].endswith("it is '[1]'") and "endless" in messages[2]
    valid, skipped = inputs.split_valid(records, strict=False)
    assert valid == [records[0][1], records[4][1]]
    assert skipped == [{"id": f"input-{n}", "split": "input", "reason": messages[n - 4]} for n in (4, 5, 6)]
    with pytest.raises(DataError, match="input-4: line 4"):
        inputs.split_valid(records, strict=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such file"), ("folder", "it is a folder"), (b"\n \n", "it holds no record"),
        (b"[]\n3\n", "no record: line 1 is not .*give a JSON object a line, or a table"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
    ],
)  # fmt: skip
def test_files_without_a_record_say_what_is_wrong(tmp_path, content, message):
    path = tmp_path / "x"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        inputs.load_records(TASK, str(path))


def test_the_task_parses_its_own_files(tmp_path):
    (tmp_path / "x").write_text("not JSON")
    task = SimpleNamespace(from_file=lambda path: iter([("first", {"a": 1})]), file_forms=())
    assert inputs.load_records(task, str(tmp_path / "x")) == [("first", {"a": 1})]
    task.from_file = lambda path: iter([])
    with pytest.raises(UsageError, match="it holds no record"):
        inputs.load_records(task, str(tmp_path / "x"))


def generated(values, estimates=None):
    """One row of generated numbers; None where the token is no number."""
    numerals = jax.tree.map(lambda x: x[None], to_numeral(values, 12))
    length = np.int32([len(values) - 1])  # the last one is behind the text
    return Generated(np.zeros((1, len(values))), length, np.zeros((1, len(values))), numerals, estimates, np.ones(1))


def test_generated_numbers_are_those_of_the_text_in_order():
    values = [Decimal("12.5"), None, Decimal("-3e7"), Decimal(0), None, Decimal(9)]
    numbers = predicted_numbers(generated(values), 0)
    assert [number.surface for number in numbers] == ["12.5", "-30000000", "0"]
    assert [number.value for number in numbers] == [Decimal("12.5"), Decimal(-30000000), Decimal(0)]
    assert all(number.raw == number.value and number.uncertainty() == {} for number in numbers)
    assert predicted_numbers(generated(values)._replace(numerals=None), 0) == []


def test_approximate_numbers_have_their_raw_value_and_their_interval():
    def numeral(*values):
        # The ends of an interval are numbers, whatever is marked as one.
        return jax.tree.map(lambda x: x[None], to_numeral([*map(Decimal, values)], 12))._replace(
            valid=np.zeros((1, len(values)), bool)
        )

    estimate = Estimate(
        np.float32([[1.2345678, 0]]), np.int32([[3, 0]]), numeral("1200", "0"), numeral("1300.5", "0"),
        np.float32([[0.912346, 0]]),
    )  # fmt: skip
    (number,) = predicted_numbers(generated([Decimal("1234.6"), Decimal(0)], estimate), 0, ("mantissa",))
    assert number.value == Decimal("1234.6") and number.raw == Decimal("1234.5678")
    interval = {"share": pytest.approx(0.912346, abs=5e-7), "low": "1200", "high": "1300.5"}
    assert number.uncertainty() == {"approximate": True, "intervals": [interval], "method": "mantissa"}
    (number,) = predicted_numbers(generated([Decimal("1234.6"), Decimal(0)], estimate), 0, ("number",))
    assert number.uncertainty() == {"approximate": True, "intervals": [interval], "method": "density"}


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("1/4", "0.25"), ("1/3", "1/3"), ("-7/2", "-3.5"), ("x=6/3", "2"), ("1/0", None),
        ("1/1152921504606846976", "8.67361737988403547205962240695953369140625E-19"), (f"1/{7**30}", f"1/{7**30}"),
    ],
)  # fmt: skip
def test_values_of_formulas_are_exact_decimals_or_fractions(formula, value):
    assert value_of(latex.parse(formula)) == value


def test_stdin_gives_the_same_lines_as_a_file(monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b'{"a": 1}\n\n{"a": 2}\n')))
    task = SimpleNamespace(from_file=None, file_forms=())  # no file of the task's own
    assert [record["a"] for _, record in inputs.load_records(task, "-")] == [1, 2]


@pytest.mark.parametrize("losses", [True, False])
@pytest.mark.parametrize(("generates", "generate"), [(False, True), (False, False), (True, False), (True, True)])
def test_texts_and_losses_are_made_only_where_they_are_asked_for(monkeypatch, generates, generate, losses):
    """A split of two rows: a task that generates is scored on texts, any other on the outputs of its head, which come
    with the losses."""
    monkeypatch.setattr(report, "make_loader", lambda *a: SimpleNamespace(epoch=lambda size, limit: ()))
    outputs = {0: np.log([0.25, 0.75]), 1: np.log([0.9, 0.1])}
    monkeypatch.setattr(report, "evaluate", lambda *a: ({"loss": 1.0}, outputs))
    monkeypatch.setattr("numjax.evals.generate.predict", lambda *a: ({0: "x", 1: "y"}, {}))
    task = SimpleNamespace(
        generates=generates, tuned={}, reads_probabilities=False, provides=lambda name: False,
        score=lambda predictions, references, **more: {"said": predictions, "wanted": references, **more},
    )  # fmt: skip
    system = SimpleNamespace(task=task, config=SimpleNamespace(eval=SimpleNamespace(batch_size=2)))
    encoded = EncodedRows(kind="classify", example=lambda i: SimpleNamespace(reference=10 + i))
    compiled = SimpleNamespace(mesh=None)
    metrics = report.score_split(system, compiled, None, encoded, "test", None, generate=generate, losses=losses)
    expected = {"loss": 1.0} if losses or not generates else {}
    if generate or not generates:
        expected |= {"said": ["x", "y"] if generates else [1, 0], "wanted": [10, 11]}
    assert metrics == expected


def test_a_task_that_tunes_values_but_predicts_as_all_do_is_scored_once(monkeypatch):
    monkeypatch.setattr(report, "make_loader", lambda *a: SimpleNamespace(epoch=lambda size, limit: ()))
    monkeypatch.setattr(report, "evaluate", lambda *a: ({}, {0: np.log([0.25, 0.75])}))
    arguments = []

    def score(predictions, references, **more):
        arguments.append(more)
        return {"threshold": 0.75}

    task = SimpleNamespace(
        generates=False, tuned={"threshold": 0.5}, reads_probabilities=True, provides=lambda name: False, score=score
    )
    system = SimpleNamespace(task=task, config=SimpleNamespace(eval=SimpleNamespace(batch_size=2)))
    encoded = EncodedRows(kind="classify", example=lambda i: SimpleNamespace(reference=1))
    for split, known, threshold in (("validation", None, None), ("test", {"validation": {"threshold": 0.3}}, 0.3)):
        metrics = report.score_split(system, SimpleNamespace(mesh=None), None, encoded, split, None, tuned=known)
        assert metrics == {"threshold": 0.75}
        assert arguments[-1].get("threshold") == threshold
        np.testing.assert_allclose(arguments[-1]["log_probs"], [np.log([0.25, 0.75])])


def test_a_record_in_place_of_a_file_is_no_such_file():
    with pytest.raises(UsageError, match="there is no such file"):
        inputs.read_lines(json.dumps({"question": "How many? " * 100}))
