"""Rows of cells and models of them: round trips, bad rows, masking, thresholds, repeated rows and frozen parts."""

from __future__ import annotations

import functools
import json
from decimal import Decimal
from types import SimpleNamespace

import jax
import numpy as np
import optax
import pytest

from numjax import api, modes
from numjax.build import build
from numjax.bundled.configs import tabbert
from numjax.bundled.experiments import runs
from numjax.bundled.experiments.luna import table4
from numjax.errors import DataError, UsageError
from numjax.nn.numerals import gather
from numjax.pipeline import features, source
from numjax.pipeline.loader import Loader
from numjax.system import make_model, make_objectives
from numjax.tasks import fraud, transactions
from numjax.text import rows, vocab
from numjax.text.grammar import automaton as grammars
from numjax.text.vocab import cells
from numjax.train import optim
from numjax.train.step import losses, train_step
from numjax.types import Batch, Mark, Number, Targets, Text, TrainState
from tests import drawn

BLOCK = tabbert.get_config("smoke").scheme.vocab.to_dict()
CITIES = ("La Verne", "ONLINE", "Rome")


def make_windows(rng, count: int = 24, width: int = 10) -> list[dict]:
    """Returns records whose label says whether any amount is negative."""
    records = []
    for i in range(count):
        table = []
        for j in range(width):
            amount = float(rng.lognormal(3, 1)) * (-1 if rng.random() < 0.02 else 1)
            city = CITIES[rng.integers(3)]
            has_state = city == CITIES[0]
            kind = "Online Transaction" if city == "ONLINE" else "Swipe Transaction"
            time, state, zip_code = 10**9 + 3600 * int(rng.integers(10**4)), "CA" * has_state, "91750.0" * has_state
            table.append([str(i % 3), str(j % 2), str(time), f"{amount:.2f}", kind, str(rng.integers(9)), city])
            table[-1] += [state, zip_code, "5411", ""]
        negative = any(row[3].startswith("-") for row in table)
        records.append(
            {"id": f"w{i}", "user": i % 3, "first": 10 * i, "rows": json.dumps(table), "label": int(negative)}
        )
    return records


def fit_scheme(records, task=None, **options) -> rows.Scheme:
    task = task or transactions.Task()
    return rows.Scheme(vocab.build(BLOCK | options, task.texts(records)), numbers=transactions.NUMBERS)


def test_windows_survive_encoding_and_decoding(rng, tmp_path):
    records = make_windows(rng)
    scheme, task = fit_scheme(records), transactions.Task()
    scheme.vocab.save(str(tmp_path))
    loaded_scheme = rows.Scheme(vocab.load(str(tmp_path)), numbers=transactions.NUMBERS)
    for record in records:
        document = task.example(record, scheme.parse).document
        encoding = scheme.encode(document, offsets=True)
        assert (
            scheme.decode(encoding.ids, encoding.numbers)
            == document
            == loaded_scheme.decode(encoding.ids, encoding.numbers)
        )
        assert len(encoding.ids) == 120 and (encoding.numeral_index.reshape(10, 12)[:, [2, 3, 9]] >= 0).all()
        trace = grammars.run(scheme.grammar(), encoding.ids)
        assert trace.error is None
        np.testing.assert_array_equal(trace.states, encoding.grammar_state)
        assert (encoding.offsets[1:, 0] == encoding.offsets[:-1, 1]).all() and (np.diff(encoding.offsets) > 0).all()
    padding = range(scheme.vocab.size, scheme.vocab_size)
    assert all(grammars.validate(scheme.grammar(), [i]) is not None for i in padding)


def test_negative_amounts_have_tokens_of_their_own(rng):
    records = make_windows(rng, 60)
    scheme = fit_scheme(records)
    column = scheme.cells.columns[3]
    minus = {value for value in column.values if value.startswith("-")}
    assert minus and {value.lstrip("-") for value in column.values} == {str(i) for i in range(10)}
    amounts = [float(row[3]) for record in records for row in json.loads(record["rows"])]
    bins = [column.values[scheme.cells.token(3, str(a)) - scheme.cells.spans[3][0]] for a in amounts]
    assert all((a < 0) == (v in minus) for a, v in zip(amounts, bins, strict=True))
    shares = np.bincount([int(v.lstrip("-")) for v in bins])
    assert shares.max() - shares.min() <= 2, "each bin has as many amounts"
    published = fit_scheme(records, signed=False).cells
    least = {published.token(3, text) for text in ("-99.00", "-1", "0.50", "0", "1.00")}
    assert least == {published.token(3, "0.01")}, "the published scheme puts all of them into one bin"


def test_values_outside_the_training_rows_are_unknown(rng):
    scheme = fit_scheme(make_windows(rng))
    cell = scheme.cells.token(6, "Atlantis")
    assert scheme.vocab.mark_name(cell) == "[UNK]"
    low, high = (scheme.cells.token(2, str(x)) for x in (0, 10**11))
    assert [scheme.cells.locate(low)[0], scheme.cells.locate(high)[0]] == [2, 2] and low != high
    record = make_windows(rng, 1)[0]
    table = json.loads(record["rows"])
    table[0][6], table[0][8] = "Atlantis", "1.0"
    document = transactions.Task().example(record | {"rows": table}, scheme.parse).document
    encoding = scheme.encode(document)
    segments = scheme.decode(encoding.ids, encoding.numbers)
    assert (
        segments[6] == Mark("[UNK]") and segments[8] == Number("1.0", Decimal("1.0")) and segments[9:] == document[9:]
    )


def test_bad_rows_are_refused_in_one_line(rng):
    records = make_windows(rng)
    scheme, task = fit_scheme(records), transactions.Task()
    document = task.example(records[0], scheme.parse).document
    bad_documents = {
        "whole rows": document[:-1],
        "ends each row": (Mark("[SEP]"), *document[1:]),
        "Amount wants a number": (*document[:3], Text("much"), *document[4:]),
        "User wants a text": (Number("0", Decimal(0)), *document[1:]),
    }
    for message, segments in bad_documents.items():
        with pytest.raises(DataError, match=message):
            scheme.encode(segments)
    for value in ("[]", "[[1]]", '[["a"]]', "{", '"x"', json.dumps([["x"] * 10])):
        with pytest.raises(DataError, match="rows of 11 texts"):
            task.example({"id": "x", "rows": value}, scheme.parse)
    bad_rows = json.loads(records[0]["rows"])
    bad_rows[2][3] = "nan"
    with pytest.raises(DataError, match="Amount 'nan' is no number"):
        task.example({"id": "x", "rows": bad_rows}, scheme.parse)
    with pytest.raises(UsageError, match=r"scheme.vocab.name=cells"):
        rows.Scheme(vocab.build({"name": "sentencepiece", "size": 300}, ["a b"]))
    with pytest.raises(UsageError, match="no column 'Price'"):
        rows.Scheme(scheme.cells, numbers=("Price",))
    amount = next(column for column in scheme.cells.columns if column.name == "Amount")
    for cell in ("nan", "inf", "1e999", ""):
        with pytest.raises(DataError, match=f"Amount {cell!r} is no number"):
            scheme.cells.token(scheme.cells.columns.index(amount), cell)
        with pytest.raises(DataError, match=f"x {cell!r} is no number"):
            cells.fit([["1"], [cell]], {"x": "amount"})
    with pytest.raises(UsageError, match="not a vocabulary of cells"):
        cells.Cells(b'[{"name": "x"}]')


def test_overlapping_windows_count_their_rows_once(rng):
    (record,) = make_windows(rng, 1, 15)
    table = json.loads(record["rows"])
    overlapping = [record | {"first": s, "rows": json.dumps(table[s : s + 10])} for s in (0, 5)]
    texts = list(transactions.Task(stride=5).texts(overlapping))
    assert texts == [json.dumps([cell or rows.MISSING for cell in row]) for row in table]


# ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pretraining():
    """(config, scheme, encoded split, model, objectives, weights) at smoke scale."""
    rng = np.random.default_rng(3)
    config = tabbert.get_config("smoke,numtok=none")
    config.unlock()
    records = make_windows(rng)
    scheme = fit_scheme(records)
    encoded = features.encode(transactions.Task(), scheme, records, config.data, "train", strict=True)
    model = make_model(config, build("tasks", config.task), scheme, "cpu")
    return config, scheme, encoded, model, *make_objectives(config, model, scheme)


def test_only_masked_cells_are_scored_and_lose_their_value(pretraining):
    config, scheme, encoded, *_ = pretraining
    loader = Loader(encoded, config, seed=5)
    batches = [loader.batch(i)[0] for i in range(2 * loader.batches_of_epoch())]
    shares = []
    for batch in batches:
        targets, inputs = batch.targets, batch.inputs
        table = targets.ids.reshape(-1, 12)
        changed = inputs.ids != targets.ids
        assert not changed[~targets.mask].any() and not targets.mask.reshape(-1, 12)[:, 11].any(), "[SEP] stays"
        hidden = targets.mask & (inputs.numeral_index < 0) & (targets.numeral_index >= 0)
        assert (changed & (targets.numeral_index >= 0) <= hidden).all(), "a masked number is gone"
        shares += [targets.mask.reshape(-1, 12)[:, :11].mean(), (inputs.ids == scheme.vocab.mark("[MASK]")).mean()]
        assert (table[:, 11] == scheme.vocab.mark("[SEP]")).all() or not batch.valid.all()
    assert 0.11 < np.mean(shares[::2]) < 0.19 and 0.6 < np.mean(shares[1::2]) * 12 / 11 / np.mean(shares[::2]) < 0.95
    same = Loader(encoded, config, seed=5).batch(0)[0]
    np.testing.assert_array_equal(same.targets.mask, batches[0].targets.mask)
    first, second = (np.concatenate([b.targets.mask.sum(1) for b in part]) for part in (batches[:2], batches[2:]))
    assert not np.array_equal(np.sort(first), np.sort(second)), "another epoch, other cells"


def test_the_loss_depends_only_on_masked_cells(pretraining, rng):
    config, _, encoded, model, objectives, _ = pretraining
    batch = Loader(encoded, config, seed=5).batch(0)[0]
    params = drawn.draw_params(model, rng, batch)

    @jax.jit
    def run(batch):
        outs, _ = model.apply({"params": params}, batch)
        numerals = gather(batch.inputs.numerals, batch.targets.numeral_index)
        return losses(model, objectives, params, batch, None), model.heads["number"].error(outs["number"], numerals)

    parts, errors = run(batch)
    mask = batch.targets.mask
    other = batch._replace(targets=batch.targets._replace(ids=np.where(mask, batch.targets.ids, 1)))
    for name, loss in run(other)[0].items():
        assert loss.total == parts[name].total > 0 and loss.count == parts[name].count > 1
    empty_parts, _ = run(batch._replace(targets=batch.targets._replace(mask=np.zeros_like(mask))))
    assert all(loss.total == 0 and loss.count == 0 for loss in empty_parts.values())
    # The sum of each column's mean error, by hand.
    errors = np.asarray(errors).reshape(-1, 12)
    scored = (mask & (batch.targets.numeral_index >= 0)).reshape(-1, 12)
    expected = sum(errors[scored[:, c], c].mean() for c in range(12) if scored[:, c].any())
    np.testing.assert_allclose(parts["number"].total / parts["number"].count, expected, rtol=1e-5)


@pytest.mark.parametrize("fusion", ["addback", "replace"])
def test_strings_that_cards_share_are_encoded_once(fusion, rng):
    """Fewer strings give the same losses and gradients."""
    config = tabbert.get_config(f"smoke,numtok={fusion}")
    config.unlock()
    records = make_windows(rng)
    scheme = fit_scheme(records)
    encoded = features.encode(transactions.Task(), scheme, records, config.data, "train", strict=True)
    model = make_model(config, build("tasks", config.task), scheme, "cpu")
    objectives, _ = make_objectives(config, model, scheme)
    embed = model.embeds["numeral"]

    def make_host_features(numerals, surfaces):
        return {f"numeral/{key}": value for key, value in embed.host_features(numerals, surfaces).items()}

    results, strings, params = [], [], None
    for shared in (True, False):
        config.data.shared = shared
        batch = Loader(encoded, config, seed=5, host_features=make_host_features, process=(0, 1)).batch(0)[0]
        params = drawn.draw_params(model, rng, batch) if params is None else params

        def total(params, batch=batch):
            parts = losses(model, objectives, params, batch, None)
            return sum(loss.total / loss.count for loss in parts.values())

        results.append(jax.jit(jax.value_and_grad(total))(params))
        strings.append(np.prod(batch.inputs.features["numeral/characters"].shape[:-1]))
    assert strings[0] < 0.8 * strings[1]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), *results)
    assert max(np.abs(x).max() for x in jax.tree.leaves(results[0][1]["embeds_numeral"])) > 1e-4


@pytest.mark.parametrize("max_scored", [3, 6])
def test_a_head_applied_only_to_scored_positions_gives_the_same_loss(max_scored, rng):
    """A row has at most six scored positions. With room for only three, the head is applied to all positions."""
    head = build("heads", {"name": "masked", "tied": False, "inner": 8}, **drawn.CONTEXT)
    hidden = rng.standard_normal((3, 12, 16)).astype(np.float32)
    mask = np.zeros((3, 12), bool)
    mask[[0] * 6, [1, 3, 4, 8, 9, 11]] = mask[1, 5] = True
    tokens, _ = drawn.draw_tokens(rng)
    params = drawn.draw_params(head, rng, hidden, tokens, None)
    targets = Targets(rng.integers(0, drawn.SIZE, (3, 12)), mask)

    def loss(room):
        def compute_total(hidden):
            out = {"next": head.apply({"params": params}, hidden, tokens, None)}
            objective = build(
                "objectives", {"name": "nll", "head": "next", "average": "columns", "columns": 4, "room": room}
            )
            return objective({"next": head}, out, {}, Batch(tokens, targets)).total

        return jax.jit(jax.value_and_grad(compute_total))(hidden)

    for few, every in zip(loss(max_scored / 12), loss(0.0), strict=True):
        np.testing.assert_allclose(few, every, rtol=1e-5, atol=1e-6)


def test_table4_pre_trains_each_row_once():
    options = SimpleNamespace(scale="smoke", as_published=False, by="time", users=0, path="")
    cells = table4.make_cells(options)
    assert [cell.system for cell in cells] == list(table4.SYSTEMS) == list(table4.PAPER)
    assert len({runs.make_key(c) for cell in cells for c in (cell, cell.start)}) == 2 * len(cells)
    for cell in cells:
        row = table4.SYSTEMS[cell.system]
        assert cell.task == "fraud-time" and cell.config.task.by == cell.start.config.task.by == "time"
        assert cell.config.embeds == cell.start.config.embeds and cell.config.backbone.width == 4
        assert ("number" in cell.start.config.objectives) == row.regress
        assert ("numeral" in cell.config.embeds) == bool(row.numtok)


# ---------------------------------------------------------------------------------------------------


def test_the_threshold_maximises_f1(rng):
    for count in (1, 2, 7, 40):
        gold = (rng.random(count) < 0.3).astype(int)
        chances = rng.integers(1, 9, count) / 10
        best = fraud.best_threshold(gold, chances)

        def f1(threshold, gold=gold, chances=chances):
            predictions = chances >= threshold
            return 2 * (predictions & (gold == 1)).sum() / max(1, predictions.sum() + gold.sum())

        assert f1(best) == pytest.approx(max(f1(t) for t in [*chances, 2.0])) and 0 < best < 1
    assert fraud.best_threshold(np.zeros(3, int), np.ones(3)) == 0.5


def test_the_test_split_is_scored_at_the_threshold_of_validation():
    task = fraud.Task()
    gold = [{"label": label} for label in (0, 0, 1, 1)]
    chances = np.asarray([0.01, 0.02, 0.03, 0.2])
    log_probs = list(np.log(np.stack([1 - chances, chances], axis=1)))
    best = task.score([0] * 4, gold, log_probs)
    assert best["F1"] == 1 == best["AUC"] and best["threshold"] == pytest.approx(0.025)
    given_threshold = task.score([0] * 4, gold, log_probs, threshold=0.1)
    assert (
        given_threshold["F1"] == pytest.approx(2 / 3)
        and given_threshold["recall"] == 0.5
        and given_threshold["threshold"] == 0.1
    )
    published = fraud.Task(threshold=0.5).score([0] * 4, gold, log_probs, threshold=0.1)
    assert published["F1"] == 0 and published["threshold"] == 0.5
    assert task.score([1, 0, 1, 1], gold)["precision"] == pytest.approx(2 / 3)
    with pytest.raises(UsageError, match=r"threshold=1\.5"):
        fraud.Task(threshold=1.5)


def test_rare_windows_are_repeated_to_parity(rng):
    records = make_windows(rng, 40)
    encoded = features.encode(fraud.Task(), fit_scheme(records), records, tabbert.get_config("smoke").data, "train")
    labels = np.asarray([r["label"] for r in records])
    assert 0 < labels.sum() < 20
    balanced = features.balance_classes(encoded, "label", 0)
    balanced_labels = balanced.columns.labels["label"]
    assert (balanced_labels == 1).sum() == (balanced_labels == 0).sum() == (labels == 0).sum()
    repeats = np.bincount(balanced.origin, minlength=40)
    assert (repeats[labels == 0] == 1).all() and np.ptp(repeats[labels == 1]) <= 1
    np.testing.assert_array_equal(balanced.rows[len(balanced) - 1].ids, encoded.rows[int(balanced.origin[-1])].ids)
    with pytest.raises(UsageError, match=r"data\.balance='grade'"):
        features.balance_classes(encoded, "grade", 0)


def test_the_encoder_stays_fixed_and_the_head_learns(rng):
    config = tabbert.get_config("smoke,task=fraud,numtok=none")
    config.unlock()
    config.optim.batch_size = 8
    records = make_windows(rng, 8)
    scheme = fit_scheme(records)
    encoded = features.encode(fraud.Task(), scheme, records, config.data, "train")
    model = make_model(config, build("tasks", config.task), scheme, "cpu")
    objectives, weights = make_objectives(config, model, scheme)
    batch = Loader(encoded, config, seed=0).batch(0)[0]
    rates = tuple(config.optim.rates)
    rate = optim.schedule("constant", 0.01, 9)
    optimizer = optim.adamw(rate, weight_decay=0.1, clip=1.0, rates=rates)
    params = drawn.draw_params(model, rng, batch)
    state = TrainState(np.int32(0), params, optimizer.init(params))

    @jax.jit
    def run(state, batch):
        outs, acts = model.apply({"params": state.params}, batch)
        body = functools.partial(train_step, model, objectives, weights, optimizer, rate, 1, 0)
        return body(state, batch, rates=rates), model.heads["label"].log_probs(outs["label"]), acts["final"]

    (after, metrics), log_probs, final = run(state, batch)
    same = jax.tree.map(np.array_equal, after.params, state.params)
    changed_parts = {name for name, is_same in same.items() if not all(jax.tree.leaves(is_same))}
    assert changed_parts == {"heads_label"} and not any(jax.tree.leaves(same["heads_label"]))
    size = sum(x.size for x in jax.tree.leaves(state.params["heads_label"]))
    assert sum(x.size for x in jax.tree.leaves(state.opt_state)) < 2 * size + 9, "frozen parameters have no moments"
    # The head by hand: an LSTM over ten rows of 48, then a softmax.
    p = jax.tree.map(lambda x: np.asarray(x, np.float64), state.params["heads_label"])
    inputs, h, c = np.asarray(final, np.float64).reshape(8, 10, 48), np.zeros((8, 48)), np.zeros((8, 48))

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    for t in range(10):
        i, f, g, o = np.split(
            inputs[:, t] @ p["lstm_input_kernel"] + h @ p["lstm_recurrent_kernel"] + p["lstm_bias"], 4, 1
        )
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    logits = h @ p["kernel"] + p["bias"]
    expected = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    np.testing.assert_allclose(log_probs, expected, atol=1e-5)
    assert optax.tree.norm(state.params["heads_label"]) > 0 and float(metrics["grad_norm"][0]) > 0


def test_config_words_that_do_not_fit_are_refused():
    for words, message in (("regress=on,task=fraud", "task=pretrain"), ("numtok=none,size=9M", "numtok=addback")):
        with pytest.raises(ValueError, match=message):
            tabbert.get_config(f"smoke,{words}")
    published = tabbert.get_config("smoke,as_published")
    assert published.data.masking.everywhere and not published.scheme.signs and published.task.fitted_on == "all"
    assert "number" not in tabbert.get_config("smoke,regress=off").objectives
    assert build("tasks", published.task).splits == {"train": "train+validation+test"}
    assert build("tasks", tabbert.get_config("as_published,task=fraud").task).splits == {}


def test_predictions_are_written_as_they_are_scored(tmp_path, capsys):
    """On the test split, and for other records in a loaded model, with the threshold chosen on validation."""
    config = tabbert.get_config("smoke,task=fraud,numtok=none")
    with config.unlocked():
        config.compile_cache = ""
        config.data.dir = str(tmp_path / "data")
        config.task.update(users=4, size=100)
        config.backbone.layers = 1
        config.optim.steps = 2
        config.eval.update(every=2, batch_size=64)
    folder = tmp_path / "run"
    metrics = modes.run(config, str(folder), "train")
    messages = capsys.readouterr().err
    assert "never change (optim.rates) and are random: set --config.init_from" in messages
    threshold = metrics["validation"]["threshold"]
    assert metrics["test"]["threshold"] == threshold
    for split, name in (("validation", "fraud.validation.jsonl"), ("test", "fraud.jsonl")):
        rows_ = [json.loads(line) for line in (folder / "predictions" / name).read_text().splitlines()]
        gold = np.asarray([r["reference"]["label"] for r in rows_])
        predictions = np.asarray([r["prediction"] for r in rows_])
        hits = int((gold & predictions).sum())
        assert metrics[split]["F1"] == pytest.approx(2 * hits / max(1, gold.sum() + predictions.sum()))
        assert metrics[split]["recall"] == pytest.approx(hits / gold.sum())
        chances = np.asarray([r["probability"] for r in rows_])
        np.testing.assert_array_equal(predictions, chances >= threshold)
    assert json.loads((folder / "tuned.json").read_text()) == {"threshold": threshold}
    (folder / "tuned.json").write_text(json.dumps({"threshold": (chances.min() + chances.max()) / 2}))
    model = api.load(folder)
    records = source.load(model.system.task.dataset, "test", config.data.dir)
    new_rows = model.predict([{"rows": record["rows"]} for record in records])
    np.testing.assert_allclose([row["probability"] for row in new_rows], chances, rtol=1e-5)
    decisions = [int(row["probability"] >= model.tuned["threshold"]) for row in new_rows]
    assert [row["prediction"] for row in new_rows] == decisions and {*decisions} == {0, 1}
    (folder / "tuned.json").unlink()
    capsys.readouterr()
    assert api.load(folder).tuned == {} and "run --mode=eval" in capsys.readouterr().err
    (folder / "tuned.json").write_text("{")
    with pytest.raises(UsageError, match="is damaged"):
        api.load(folder)
    bad_records = [{"rows": json.dumps([[*row[:3], "", *row[4:]] for row in json.loads(records[0]["rows"])])}]
    (folder / "tuned.json").unlink()
    assert api.load(folder).predict(bad_records, skipped=(skipped := [])) == []
    assert [row["reason"] for row in skipped] == ["Amount is missing"]


@pytest.mark.whole
def test_a_start_from_another_model_is_reported(tmp_path, capsys):
    """The run reports frozen parameters that the start lacks, and parameters of the start that it does not use."""

    def train_and_capture(folder, numtok, source):
        config = tabbert.get_config(f"smoke,task=fraud,numtok={numtok}")
        with config.unlocked():
            config.compile_cache, config.init_from = "", source
            config.data.dir = str(tmp_path / "data")
            config.task.update(users=4, size=50)
            config.backbone.layers = 1
            config.optim.steps = 1
            config.eval.update(every=1, examples=8)
        modes.run(config, str(folder), "train")
        return capsys.readouterr().err

    train_and_capture(tmp_path / "bare", "none", "")
    messages = train_and_capture(tmp_path / "plugged", "addback", str(tmp_path / "bare"))
    assert (
        "parameters that never change here (optim.rates) are not there and stay random, the first is embeds_"
        in messages
    )
    assert "have no place here" not in messages
    messages = train_and_capture(tmp_path / "again", "none", str(tmp_path / "plugged"))
    assert "have no place here, the first is embeds_numeral/" in messages and "stay random" not in messages
