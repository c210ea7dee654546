"""Rows of cells and what learns from them: round trips, bad rows, masking, thresholds, repeated and frozen parts."""

from __future__ import annotations

import functools
import json
from decimal import Decimal
from types import SimpleNamespace

import jax
import numpy as np
import optax
import pytest

from numjax import api
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
from numjax.train import runs as run_modes
from numjax.train.step import losses, train_step
from numjax.types import Batch, Mark, Number, Targets, Text, TrainState
from tests import drawn

BLOCK = tabbert.get_config("smoke").scheme.vocab.to_dict()
CITIES = ("La Verne", "ONLINE", "Rome")


def windows(rng, count: int = 24, width: int = 10) -> list[dict]:
    """Records whose label is whether any amount is negative."""
    found = []
    for i in range(count):
        made = []
        for j in range(width):
            amount = float(rng.lognormal(3, 1)) * (-1 if rng.random() < 0.02 else 1)
            city = CITIES[rng.integers(3)]
            known = city == CITIES[0]
            how = "Online Transaction" if city == "ONLINE" else "Swipe Transaction"
            when, state, zip_code = 10**9 + 3600 * int(rng.integers(10**4)), "CA" * known, "91750.0" * known
            made.append([str(i % 3), str(j % 2), str(when), f"{amount:.2f}", how, str(rng.integers(9)), city])
            made[-1] += [state, zip_code, "5411", ""]
        negative = any(row[3].startswith("-") for row in made)
        found.append(
            {"id": f"w{i}", "user": i % 3, "first": 10 * i, "rows": json.dumps(made), "label": int(negative)}
        )
    return found


def scheme_of(records, task=None, **more) -> rows.Scheme:
    task = task or transactions.Task()
    return rows.Scheme(vocab.build(BLOCK | more, task.texts(records)), numbers=transactions.NUMBERS)


def test_windows_are_read_back_as_they_were(rng, tmp_path):
    records = windows(rng)
    scheme, task = scheme_of(records), transactions.Task()
    scheme.vocab.save(str(tmp_path))
    again = rows.Scheme(vocab.load(str(tmp_path)), numbers=transactions.NUMBERS)
    for record in records:
        document = task.example(record, scheme.parse).document
        found = scheme.encode(document, offsets=True)
        assert scheme.decode(found.ids, found.numbers) == document == again.decode(found.ids, found.numbers)
        assert len(found.ids) == 120 and (found.numeral_index.reshape(10, 12)[:, [2, 3, 9]] >= 0).all()
        trace = grammars.run(scheme.grammar(), found.ids)
        assert trace.error is None
        np.testing.assert_array_equal(trace.states, found.grammar_state)
        assert (found.offsets[1:, 0] == found.offsets[:-1, 1]).all() and (np.diff(found.offsets) > 0).all()
    padding = range(scheme.vocab.size, scheme.vocab_size)
    assert all(grammars.validate(scheme.grammar(), [i]) is not None for i in padding)


def test_negative_amounts_have_tokens_of_their_own(rng):
    records = windows(rng, 60)
    scheme = scheme_of(records)
    column = scheme.cells.columns[3]
    minus = {value for value in column.values if value.startswith("-")}
    assert minus and {value.lstrip("-") for value in column.values} == {str(i) for i in range(10)}
    amounts = [float(row[3]) for record in records for row in json.loads(record["rows"])]
    at = [column.values[scheme.cells.token(3, str(a)) - scheme.cells.spans[3][0]] for a in amounts]
    assert all((a < 0) == (v in minus) for a, v in zip(amounts, at, strict=True))
    shares = np.bincount([int(v.lstrip("-")) for v in at])
    assert shares.max() - shares.min() <= 2, "bins of equally many"
    published = scheme_of(records, signed=False).cells
    least = {published.token(3, text) for text in ("-99.00", "-1", "0.50", "0", "1.00")}
    assert least == {published.token(3, "0.01")}, "what is published puts them together"


def test_what_the_training_rows_never_had_is_unknown(rng):
    scheme = scheme_of(windows(rng))
    cell = scheme.cells.token(6, "Atlantis")
    assert scheme.vocab.mark_name(cell) == "[UNK]"
    low, high = (scheme.cells.token(2, str(x)) for x in (0, 10**11))
    assert [scheme.cells.locate(low)[0], scheme.cells.locate(high)[0]] == [2, 2] and low != high
    record = windows(rng, 1)[0]
    found = json.loads(record["rows"])
    found[0][6], found[0][8] = "Atlantis", "1.0"
    document = transactions.Task().example(record | {"rows": found}, scheme.parse).document
    features_ = scheme.encode(document)
    read = scheme.decode(features_.ids, features_.numbers)
    assert read[6] == Mark("[UNK]") and read[8] == Number("1.0", Decimal("1.0")) and read[9:] == document[9:]


def test_what_is_no_row_is_one_line(rng):
    records = windows(rng)
    scheme, task = scheme_of(records), transactions.Task()
    document = task.example(records[0], scheme.parse).document
    bad = {
        "whole rows": document[:-1],
        "ends each row": (Mark("[SEP]"), *document[1:]),
        "Amount wants a number": (*document[:3], Text("much"), *document[4:]),
        "User wants a text": (Number("0", Decimal(0)), *document[1:]),
    }
    for says, changed in bad.items():
        with pytest.raises(DataError, match=says):
            scheme.encode(changed)
    for value in ("[]", "[[1]]", '[["a"]]', "{", '"x"', json.dumps([["x"] * 10])):
        with pytest.raises(DataError, match="rows of 11 texts"):
            task.example({"id": "x", "rows": value}, scheme.parse)
    wrong = json.loads(records[0]["rows"])
    wrong[2][3] = "nan"
    with pytest.raises(DataError, match="Amount 'nan' is no number"):
        task.example({"id": "x", "rows": wrong}, scheme.parse)
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
    (record,) = windows(rng, 1, 15)
    every = json.loads(record["rows"])
    overlapping = [record | {"first": s, "rows": json.dumps(every[s : s + 10])} for s in (0, 5)]
    told = list(transactions.Task(stride=5).texts(overlapping))
    assert told == [json.dumps([cell or rows.MISSING for cell in row]) for row in every]


# ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pretraining():
    """(config, scheme, encoded, model, objectives, weights) at smoke size."""
    rng = np.random.default_rng(3)
    config = tabbert.get_config("smoke,numtok=none")
    config.unlock()
    records = windows(rng)
    scheme = scheme_of(records)
    encoded = features.encode(transactions.Task(), scheme, records, config.data, "train", strict=True)
    model = make_model(config, build("tasks", config.task), scheme, "cpu")
    return config, scheme, encoded, model, *make_objectives(config, model, scheme)


def test_only_masked_cells_are_scored_and_lose_what_they_were(pretraining):
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


def test_the_loss_is_blind_outside_masked_cells(pretraining, rng):
    config, _, encoded, model, objectives, _ = pretraining
    batch = Loader(encoded, config, seed=5).batch(0)[0]
    params = drawn.draw(model, rng, batch)

    @jax.jit
    def run(batch):
        outs, _ = model.apply({"params": params}, batch)
        numerals = gather(batch.inputs.numerals, batch.targets.numeral_index)
        return losses(model, objectives, params, batch, None), model.heads["number"].error(outs["number"], numerals)

    found, each = run(batch)
    mask = batch.targets.mask
    other = batch._replace(targets=batch.targets._replace(ids=np.where(mask, batch.targets.ids, 1)))
    for name, loss in run(other)[0].items():
        assert loss.total == found[name].total > 0 and loss.count == found[name].count > 1
    nothing, _ = run(batch._replace(targets=batch.targets._replace(mask=np.zeros_like(mask))))
    assert all(loss.total == 0 and loss.count == 0 for loss in nothing.values())
    # Each column's mean by hand, of the numbers.
    each = np.asarray(each).reshape(-1, 12)
    scored = (mask & (batch.targets.numeral_index >= 0)).reshape(-1, 12)
    want = sum(each[scored[:, c], c].mean() for c in range(12) if scored[:, c].any())
    np.testing.assert_allclose(found["number"].total / found["number"].count, want, rtol=1e-5)


@pytest.mark.parametrize("fusion", ["addback", "replace"])
def test_strings_that_cards_share_are_encoded_once(fusion, rng):
    """The same losses and gradients, of fewer strings."""
    config = tabbert.get_config(f"smoke,numtok={fusion}")
    config.unlock()
    records = windows(rng)
    scheme = scheme_of(records)
    encoded = features.encode(transactions.Task(), scheme, records, config.data, "train", strict=True)
    model = make_model(config, build("tasks", config.task), scheme, "cpu")
    objectives, _ = make_objectives(config, model, scheme)
    embed = model.embeds["numeral"]

    def host(numerals, surfaces):
        return {f"numeral/{key}": value for key, value in embed.host_features(numerals, surfaces).items()}

    found, strings, params = [], [], None
    for shared in (True, False):
        config.data.shared = shared
        batch = Loader(encoded, config, seed=5, host_features=host, process=(0, 1)).batch(0)[0]
        params = drawn.draw(model, rng, batch) if params is None else params

        def total(params, batch=batch):
            made = losses(model, objectives, params, batch, None)
            return sum(loss.total / loss.count for loss in made.values())

        found.append(jax.jit(jax.value_and_grad(total))(params))
        strings.append(np.prod(batch.inputs.features["numeral/characters"].shape[:-1]))
    assert strings[0] < 0.8 * strings[1]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), *found)
    assert max(np.abs(x).max() for x in jax.tree.leaves(found[0][1]["embeds_numeral"])) > 1e-4


@pytest.mark.parametrize("most", [3, 6])
def test_a_head_that_reads_the_scored_positions_alone_gives_the_same(most, rng):
    """Six scored positions a row at most: where there is room for three, all are read."""
    head = build("heads", {"name": "masked", "tied": False, "inner": 8}, **drawn.KNOWN)
    hidden = rng.standard_normal((3, 12, 16)).astype(np.float32)
    mask = np.zeros((3, 12), bool)
    mask[[0] * 6, [1, 3, 4, 8, 9, 11]] = mask[1, 5] = True
    tokens, _ = drawn.tokens(rng)
    params = drawn.draw(head, rng, hidden, tokens, None)
    targets = Targets(rng.integers(0, drawn.SIZE, (3, 12)), mask)

    def loss(room):
        def of(hidden):
            out = {"next": head.apply({"params": params}, hidden, tokens, None)}
            objective = build(
                "objectives", {"name": "nll", "head": "next", "average": "columns", "columns": 4, "room": room}
            )
            return objective({"next": head}, out, {}, Batch(tokens, targets)).total

        return jax.jit(jax.value_and_grad(of))(hidden)

    for few, every in zip(loss(most / 12), loss(0.0), strict=True):
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


def test_the_threshold_is_the_best_there_is(rng):
    for count in (1, 2, 7, 40):
        gold = (rng.random(count) < 0.3).astype(int)
        chances = rng.integers(1, 9, count) / 10
        found = fraud.best_threshold(gold, chances)

        def f1(threshold, gold=gold, chances=chances):
            said = chances >= threshold
            return 2 * (said & (gold == 1)).sum() / max(1, said.sum() + gold.sum())

        assert f1(found) == pytest.approx(max(f1(t) for t in [*chances, 2.0])) and 0 < found < 1
    assert fraud.best_threshold(np.zeros(3, int), np.ones(3)) == 0.5


def test_test_is_scored_at_the_threshold_of_validation():
    task = fraud.Task()
    gold = [{"label": label} for label in (0, 0, 1, 1)]
    chances = np.asarray([0.01, 0.02, 0.03, 0.2])
    log_probs = list(np.log(np.stack([1 - chances, chances], axis=1)))
    chosen = task.score([0] * 4, gold, log_probs)
    assert chosen["F1"] == 1 == chosen["AUC"] and chosen["threshold"] == pytest.approx(0.025)
    fixed = task.score([0] * 4, gold, log_probs, threshold=0.1)
    assert fixed["F1"] == pytest.approx(2 / 3) and fixed["recall"] == 0.5 and fixed["threshold"] == 0.1
    published = fraud.Task(threshold=0.5).score([0] * 4, gold, log_probs, threshold=0.1)
    assert published["F1"] == 0 and published["threshold"] == 0.5
    assert task.score([1, 0, 1, 1], gold)["precision"] == pytest.approx(2 / 3)
    with pytest.raises(UsageError, match=r"threshold=1\.5"):
        fraud.Task(threshold=1.5)


def test_rare_windows_are_repeated_to_parity(rng):
    records = windows(rng, 40)
    encoded = features.encode(fraud.Task(), scheme_of(records), records, tabbert.get_config("smoke").data, "train")
    labels = np.asarray([r["label"] for r in records])
    assert 0 < labels.sum() < 20
    found = features.balance_classes(encoded, "label", 0)
    of = found.columns.labels["label"]
    assert (of == 1).sum() == (of == 0).sum() == (labels == 0).sum()
    times = np.bincount(found.origin, minlength=40)
    assert (times[labels == 0] == 1).all() and np.ptp(times[labels == 1]) <= 1
    np.testing.assert_array_equal(found.rows[len(found) - 1].ids, encoded.rows[int(found.origin[-1])].ids)
    with pytest.raises(UsageError, match=r"data\.balance='grade'"):
        features.balance_classes(encoded, "grade", 0)


def test_the_encoder_stays_and_the_head_learns(rng):
    config = tabbert.get_config("smoke,task=fraud,numtok=none")
    config.unlock()
    config.optim.batch_size = 8
    records = windows(rng, 8)
    scheme = scheme_of(records)
    encoded = features.encode(fraud.Task(), scheme, records, config.data, "train")
    model = make_model(config, build("tasks", config.task), scheme, "cpu")
    objectives, weights = make_objectives(config, model, scheme)
    batch = Loader(encoded, config, seed=0).batch(0)[0]
    rates = tuple(config.optim.rates)
    optimizer, rate = optim.adamw(0.01, 9, weight_decay=0.1, clip=1.0, rates=rates)
    params = drawn.draw(model, rng, batch)
    state = TrainState(np.int32(0), params, optimizer.init(params))

    @jax.jit
    def run(state, batch):
        outs, acts = model.apply({"params": state.params}, batch)
        body = functools.partial(train_step, model, objectives, weights, optimizer, rate, 1, 0)
        return body(state, batch, rates=rates), model.heads["label"].log_probs(outs["label"]), acts["final"]

    (after, metrics), said, final = run(state, batch)
    same = jax.tree.map(np.array_equal, after.params, state.params)
    moved = {name for name, of in same.items() if not all(jax.tree.leaves(of))}
    assert moved == {"heads_label"} and not any(jax.tree.leaves(same["heads_label"]))
    size = sum(x.size for x in jax.tree.leaves(state.params["heads_label"]))
    assert sum(x.size for x in jax.tree.leaves(state.opt_state)) < 2 * size + 9, "no moments of what stays"
    # The head by hand: an LSTM over ten rows of 48, then a softmax.
    p = jax.tree.map(lambda x: np.asarray(x, np.float64), state.params["heads_label"])
    read, h, c = np.asarray(final, np.float64).reshape(8, 10, 48), np.zeros((8, 48)), np.zeros((8, 48))

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    for t in range(10):
        i, f, g, o = np.split(
            read[:, t] @ p["lstm_input_kernel"] + h @ p["lstm_recurrent_kernel"] + p["lstm_bias"], 4, 1
        )
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    logits = h @ p["kernel"] + p["bias"]
    want = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    np.testing.assert_allclose(said, want, atol=1e-5)
    assert optax.tree.norm(state.params["heads_label"]) > 0 and float(metrics["grad_norm"][0]) > 0


def test_configs_say_what_does_not_go_together():
    for word, says in (("regress=on,task=fraud", "task=pretrain"), ("numtok=none,size=9M", "numtok=addback")):
        with pytest.raises(ValueError, match=says):
            tabbert.get_config(f"smoke,{word}")
    published = tabbert.get_config("smoke,as_published")
    assert published.data.masking.everywhere and not published.scheme.signs and published.task.fitted_on == "all"
    assert "number" not in tabbert.get_config("smoke,regress=off").objectives
    assert build("tasks", published.task).splits == {"train": "train+validation+test"}
    assert build("tasks", tabbert.get_config("as_published,task=fraud").task).splits == {}


def test_predictions_are_told_as_they_are_scored(tmp_path, capsys):
    """On test, and of records of one's own in another process, above the threshold that validation chose."""
    config = tabbert.get_config("smoke,task=fraud,numtok=none")
    with config.unlocked():
        config.compile_cache = ""
        config.data.dir = str(tmp_path / "data")
        config.task.update(users=4, size=100)
        config.backbone.layers = 1
        config.optim.steps = 2
        config.eval.update(every=2, batch_size=64)
    folder = tmp_path / "run"
    metrics = run_modes.run(config, str(folder), "train")
    said = capsys.readouterr().err
    assert "never change (optim.rates) and are random: set --config.init_from" in said
    threshold = metrics["validation"]["threshold"]
    assert metrics["test"]["threshold"] == threshold
    for split, name in (("validation", "fraud.validation.jsonl"), ("test", "fraud.jsonl")):
        rows_ = [json.loads(line) for line in (folder / "predictions" / name).read_text().splitlines()]
        gold = np.asarray([r["reference"]["label"] for r in rows_])
        found = np.asarray([r["prediction"] for r in rows_])
        hits = int((gold & found).sum())
        assert metrics[split]["F1"] == pytest.approx(2 * hits / max(1, gold.sum() + found.sum()))
        assert metrics[split]["recall"] == pytest.approx(hits / gold.sum())
        chances = np.asarray([r["probability"] for r in rows_])
        np.testing.assert_array_equal(found, chances >= threshold)
    assert json.loads((folder / "tuned.json").read_text()) == {"threshold": threshold}
    (folder / "tuned.json").write_text(json.dumps({"threshold": (chances.min() + chances.max()) / 2}))
    model = api.load(folder)
    records = source.load(model.system.task.dataset, "test", config.data.dir)
    again = model.predict([{"rows": record["rows"]} for record in records])
    np.testing.assert_allclose([row["probability"] for row in again], chances, rtol=1e-5)
    decided = [int(row["probability"] >= model.tuned["threshold"]) for row in again]
    assert [row["prediction"] for row in again] == decided and {*decided} == {0, 1}
    (folder / "tuned.json").unlink()
    capsys.readouterr()
    assert api.load(folder).tuned == {} and "run --mode=eval" in capsys.readouterr().err
    (folder / "tuned.json").write_text("{")
    with pytest.raises(UsageError, match="is damaged"):
        api.load(folder)
    bad = [{"rows": json.dumps([[*row[:3], "", *row[4:]] for row in json.loads(records[0]["rows"])])}]
    (folder / "tuned.json").unlink()
    assert api.load(folder).predict(bad, skipped=(skipped := [])) == []
    assert [row["reason"] for row in skipped] == ["Amount is missing"]


def test_a_start_from_another_model_is_told(tmp_path, capsys):
    """What stays random where it is lacking there, and what of it is left."""

    def ran(folder, numtok, source):
        config = tabbert.get_config(f"smoke,task=fraud,numtok={numtok}")
        with config.unlocked():
            config.compile_cache, config.init_from = "", source
            config.data.dir = str(tmp_path / "data")
            config.task.update(users=4, size=50)
            config.backbone.layers = 1
            config.optim.steps = 1
            config.eval.update(every=1, examples=8)
        run_modes.run(config, str(folder), "train")
        return capsys.readouterr().err

    ran(tmp_path / "bare", "none", "")
    said = ran(tmp_path / "plugged", "addback", str(tmp_path / "bare"))
    assert (
        "parameters that never change here (optim.rates) are not there and stay random, the first is embeds_" in said
    )
    assert "have no place here" not in said
    said = ran(tmp_path / "again", "none", str(tmp_path / "plugged"))
    assert "have no place here, the first is embeds_numeral/" in said and "stay random" not in said
