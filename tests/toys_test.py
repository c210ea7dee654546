"""LUNA's probes on numbers of tables: what is drawn and asked, training from where it stopped, and the command."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from decimal import Decimal
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from numjax.bundled.experiments.luna import numbers as tables_of
from numjax.bundled.experiments.luna import table2, toys
from numjax.bundled.experiments.runs import RunResult
from numjax.embed import char_lstm
from numjax.errors import DataError, UsageError
from numjax.numeral import numtok
from numjax.numeral.exact import to_numeral
from numjax.probes import joint
from numjax.probes.numbers import (
    ExamplesByKind,
    collect_lines,
    draw_examples,
    make_target,
    make_targets,
    split_as_published,
    split_by_value,
)

GRIDS = [
    [["", "2019", "2018"], ["Sales", "$ 1,452.4", "$1,146"], ["Growth", "5%", "7%"], ["Note", "see 1 and 2", "2019"]],
    [["rank", "points"], ["1", "30"], ["2", "28"], ["3", "-0.5"], ["3", "1e5x7"]],
]


def test_lines_are_rows_and_columns_of_different_numbers():
    lines = collect_lines(GRIDS, numtok.find, 12)
    rows = [
        [lines.literals[i] for i in lines.items[a:b]] for a, b in zip(lines.starts, lines.starts[1:], strict=False)
    ]
    assert sorted(map(sorted, rows)) == sorted(
        map(
            sorted,
            [
                ["2019", "2018"], ["1,452.4", "1,146"], ["5%", "7%"], ["2019", "1,452.4"], ["2018", "1,146", "2019"],
                ["1", "30"], ["2", "28"], ["3", "-0.5"], ["1", "2", "3"], ["30", "28", "-0.5"],
            ],
        )
    )  # fmt: skip
    assert [lines.literals[i] for i in lines.cells].count("2019") == 2
    assert dict(zip(lines.literals, lines.values, strict=True))["5%"] == 0.05
    longer = collect_lines(GRIDS[1:], numtok.find, 3, lines)
    assert longer.literals[: len(lines.literals)] == lines.literals and "-0.5" in longer.literals


def test_draws_are_uniform_over_the_numbers_of_lines(rng):
    lines = collect_lines(GRIDS, numtok.find, 12)
    found = draw_examples(lines, "triple", 6000, rng)
    assert all(len(set(items)) == 3 for items in found.tolist())
    kinds, counts = np.unique(np.sort(found, axis=1), axis=0, return_counts=True)
    assert len(kinds) == 3 and abs(counts / 6000 - 1 / 3).max() < 0.03
    orders = np.unique(found, axis=0, return_counts=True)[1]
    assert len(orders) == 18 and orders.min() > 250
    with pytest.raises(DataError, match="no row or column of the tables holds 3 different numbers"):
        draw_examples(collect_lines([[["1", "2"]]], numtok.find, 12), "triple", 1, rng)
    with pytest.raises(DataError, match="hold no number"):
        draw_examples(collect_lines([[["a"]]], numtok.find, 12), "single", 1, rng)


def test_every_held_out_example_has_a_number_never_seen(rng):
    sources = tables_of.make_lines(60)
    values = sources[-1].values
    assert len(set(values.tolist())) < len(values), "some are spelled in several ways"
    train, validation, test = split_by_value(sources, 3000, rng)
    seen = {value for items in train for value in values[items.ravel()].tolist()}
    for held in (validation, test):
        for items in held:
            assert len(items) and not any(seen >= set(row) for row in values[items].tolist())
    sets = [frozenset(row) for part in (train, validation, test) for row in part.pair.tolist()]
    assert len(set(sets)) == len(sets)
    released, later = split_as_published(sources, 3000, rng)
    assert [len(items) for items in released] == [2400] * 3 and [len(items) for items in later] == [600] * 3
    financial = {*sources[0].cells.tolist()}
    assert not financial >= set(later.single[:, 0].tolist()), "the last source alone"
    assert np.isin(later.single, released.single).mean() > 0.3


def test_answers_are_those_of_decimals(rng):
    values = [
        0.0,
        5.0,
        -0.05,
        999999.5,
        1e-9,
        1e12,
        0.1 + 0.2,
        *(rng.standard_normal(50) * 10 ** rng.uniform(-3, 8, 50)),
    ]
    found = make_target(np.asarray(values))
    for value, significand, exponent in zip(values, *found, strict=True):
        # Decimal writes zero's exponent otherwise.
        mantissa, _, power = f"{Decimal(value):.6e}".partition("e") if value else ("0", "e", "0")
        assert significand == pytest.approx(float(mantissa)) and exponent == np.clip(int(power), -2, 7) + 2
    lines = collect_lines(GRIDS, numtok.find, 12)
    at = lines.literals.index
    asked = ExamplesByKind(
        np.array([[at("5%")]]), np.array([[at("30"), at("-0.5")]]), np.array([[at("3"), at("2"), at("1")]])
    )
    asks = make_targets(lines.values, asked)
    assert asks["decode"].exponent[0] == 0 and asks["add"].significand[0] == np.float32(2.95) and asks["max"][0] == 0
    assert asks["subtract"].significand[0] == np.float32(3.05)


def small(bounds=(3,), seed=0):
    sources = tables_of.make_lines(40)
    lines = sources[-1]
    train, *_ = split_by_value(sources, 300, np.random.default_rng(seed))
    encoder = char_lstm.Embed(dim=8, hidden=4, length=12)
    strings = toys.make_strings(encoder, lines)
    rule = joint.AdamOptions(batch_size=32, epochs=2, hidden=6)
    asks = make_targets(lines.values, train)
    return joint.Trainer(encoder, 8, strings, train, asks, rule, seed, bounds), lines, train, asks


def test_a_batch_encodes_each_string_once_and_gives_what_each_alone_gives():
    trainer, lines, train, asks = small()
    state = trainer.start()
    places = next(trainer._make_batches(0))
    step = trainer._make_step(places)
    used = {int(i) for items, at in zip(train, places, strict=True) for i in items[at].ravel()}
    rows = sum(group.rows for group in trainer.groups)
    assert len(trainer.groups) == 2 and len(used) <= rows < 32 * 6, "fewer than the numbers of a batch"
    loss = float(joint.total_loss(trainer.encoder, state.params, step, None))
    # Every number by itself, padded to the longest.
    items = ExamplesByKind(*(part[at] for part, at in zip(train, places, strict=True)))
    values = to_numeral([Decimal(1)] * len(lines.literals), toys.DIGITS)
    features = trainer.encoder.host_features(values, lines.literals)
    vectors = np.asarray(trainer.encoder.apply({"params": state.params["encoder"]}, values, features))
    x = ExamplesByKind(*(vectors[part] for part in items))
    parts = joint.losses(joint.apply_probes(state.params["probes"], x), joint._take_targets(asks, places))
    assert loss == pytest.approx(sum(float(part.mean()) for part in parts.values()), rel=1e-5)
    scores = trainer.evaluate(state.params, items, joint._take_targets(asks, places))
    assert scores["loss"] == pytest.approx(loss, rel=1e-5)
    error = np.asarray(parts["add_significand"]).mean() ** 0.5
    assert scores["add_significand"] == pytest.approx(error, rel=1e-5) and 0 <= scores["max"] <= 1


def test_steps_grow_smaller_to_the_last():
    trainer, *_ = small()
    state, moved = trainer.start(), []
    for number in range(trainer.options.epochs):
        for places in trainer._make_batches(number):
            before = jax.tree.map(np.array, state.params)  # the next step gives the state's memory away
            state, _ = trainer._step(state, trainer._make_step(places), jax.random.key(0))
            change = jax.tree.map(lambda a, b: np.abs(a - b).max(), state.params, before)
            moved.append(max(jax.tree.leaves(change)))
    # Adam moves by the rate at first; a step of the cosine before its end is (π / 2n)² of it.
    assert moved[0] == pytest.approx(trainer.options.learning_rate, rel=1e-3)
    assert len(moved) == trainer.steps * 2 and moved[-1] < 0.1 * moved[0]


def test_training_goes_on_from_its_last_epoch(tmp_path, monkeypatch):
    sizes = table2.SIZES["smoke"]
    cell = table2.make_cell("dice", "smoke", False)
    whole = toys.run(cell, [0], tmp_path / "whole", sizes, "", False)[0]
    real = joint.Trainer.run_epoch

    def broken(self, state, number):
        if number:
            raise KeyboardInterrupt
        return real(self, state, number)

    monkeypatch.setattr(joint.Trainer, "run_epoch", broken)
    with pytest.raises(KeyboardInterrupt):
        toys.run(cell, [0], tmp_path / "cut", sizes, "", False)
    monkeypatch.setattr(joint.Trainer, "run_epoch", real)
    again = toys.run(cell, [0], tmp_path / "cut", sizes, "", False)[0]
    assert again.metrics == whole.metrics and not list(tmp_path.rglob("*.npz"))
    trained = []
    monkeypatch.setattr(joint.Trainer, "run_epoch", lambda *args: trained.append(args))
    assert toys.run(cell, [0], tmp_path / "cut", sizes, "", False)[0] == again and not trained
    keys = {toys.make_key(cell, sizes, "", False), toys.make_key(cell, sizes, "", True)}
    keys |= {
        toys.make_key(cell, sizes._replace(epochs=3), "", False),
        toys.make_key(cell._replace(spec="x"), sizes, "", False),
    }
    assert len(keys) == 4


@pytest.mark.parametrize("bad", [0, 1])
def test_what_diverges_is_told_and_no_result(bad, tmp_path, monkeypatch):
    real = joint.Trainer.run_epoch

    def wrong(self, state, number):
        state, loss = real(self, state, number)
        params = jax.tree.map(lambda x: x * np.nan, state.params) if number == bad else state.params
        return joint.JointState(params, state.opt_state), np.nan if number == bad else loss

    monkeypatch.setattr(joint.Trainer, "run_epoch", wrong)
    found = toys.run(table2.make_cell("dice", "smoke", False), [0], tmp_path, table2.SIZES["smoke"], "", False)[0]
    assert found.metrics == {} and f"the loss of epoch {bad + 1} is nan" in str(found.diverged)


def test_too_few_numbers_are_named(tmp_path):
    for source, name, text in (
        ("tatqa", "dev.json", json.dumps([{"table": {"table": [["a", "5", "7", "9"]]}}])),
        ("tabfact", "1.html.csv", "a#b#c\n3#4#6\n"),
    ):
        (tmp_path / source).mkdir()
        (tmp_path / source / name).write_text(text)
    with pytest.raises(DataError, match="too few numbers to hold some of each kind out"):
        toys.draw_examples(str(tmp_path), table2.SIZES["smoke"], 0, False)


def test_tatqa_is_read_of_its_training_and_development_tables(tmp_path, capsys):
    (tmp_path / "tatqa").mkdir()
    for kind in ("train", "dev", "test_gold"):
        bad = [["a", "5"], None] if kind == "dev" else [["a", "5"], [kind, 6]]
        contexts = [{"table": {"table": bad}}, {"table": {"table": [[kind, "7"]]}}]
        (tmp_path / "tatqa" / f"tatqa_dataset_{kind}.json").write_text(json.dumps(contexts))
    found = list(tables_of.load_tables(str(tmp_path), "tatqa"))
    assert found == [[["dev", "7"]], [["a", "5"], ["train", "6"]], [["train", "7"]]]
    told = capsys.readouterr().err
    assert "1 tables left out, such as tatqa_dataset_dev.json, context 0: its table is no list of rows" in told


def test_the_command_writes_the_table(tmp_path, capsys):
    folder = tmp_path / "data"
    (folder / "tatqa").mkdir(parents=True)
    (folder / "tabfact" / "all_csv").mkdir(parents=True)
    contexts = [
        {"table": {"uid": "a", "table": tables_of._make_financial(np.random.default_rng(i))}} for i in range(30)
    ]
    (folder / "tatqa" / "tatqa_dataset_dev.json.gz").write_bytes(gzip.compress(json.dumps(contexts).encode()))
    for i in range(30):
        grid = tables_of._make_general(np.random.default_rng(i))
        text = "\n".join("#".join(row) for row in grid)
        (folder / "tabfact" / "all_csv" / f"1-{i}.html.csv").write_text(text)
    out = tmp_path / "out"
    table2.main(["--scale=smoke", f"--path={folder}", "--only=dice", "--as_published", f"--out={out}"])
    written = json.loads((out / "table2.json").read_text())
    entries = {(entry["row"], entry["column"]): entry for entry in written["tables"]["table2"]}
    assert entries["DICE", "decode exp"]["paper"]["mean"] == 67.9 and 0 <= entries["DICE", "list max"]["here"]["mean"]
    assert entries["RoBERTa", "decode sig"]["here"] is None
    assert 20 < entries[table2.CONSTANT, "list max"]["here"]["mean"] < 50
    assert RunResult(**written["runs"][0]).metrics["test"]["loss"] > 0
    assert "| CharLSTM | 0.095 |" in (out / "table2.md").read_text() and "| DICE |" in capsys.readouterr().out


def test_tabfact_is_read_of_its_training_tables(tmp_path, capsys):
    """As released: one archive or folder of all, and the list of those of training; without it all, which is said."""
    root = tmp_path / "tabfact"
    root.mkdir()
    (tmp_path / "tatqa").mkdir()
    (tmp_path / "tatqa" / "tatqa_dataset_dev.json").write_text("[]")
    with tarfile.open(root / "all_csv.tar.gz", "w:gz") as archive:
        for i in range(3):
            text = f"a#b\n{i}1#{i}2\n".encode()
            member = tarfile.TarInfo(f"all_csv/2-{i}.html.csv")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    every = [[["a", "b"], [f"{i}1", f"{i}2"]] for i in range(3)]
    assert list(tables_of.load_tables(str(tmp_path), "tabfact")) == every
    assert "all 3 tables are read, those of the test split too" in capsys.readouterr().err
    (root / "train_id.json").write_text('["2-2.html.csv", "2-0.html.csv"]')
    assert list(tables_of.load_tables(str(tmp_path), "tabfact")) == [every[0], every[2]]
    with tarfile.open(root / "all_csv.tar.gz") as archive:
        archive.extractall(root, filter="data")
    (root / "all_csv.tar.gz").unlink()
    assert list(tables_of.load_tables(str(tmp_path), "tabfact")) == [every[0], every[2]]
    assert not capsys.readouterr().err
    options = SimpleNamespace(path=str(tmp_path), as_published=False)
    found = toys.ExampleSplits((ExamplesByKind(*[np.arange(2)] * 3),) * 3, ({},) * 3)
    assert (
        "(tatqa_dataset_dev.json) and TabFact (training split)"
        in table2._make_remarks(options, table2.SIZES["smoke"], found)[1]
    )
    (root / "train_id.json").unlink()
    assert "TabFact (all tables" in table2._make_remarks(options, table2.SIZES["smoke"], found)[1]


def test_what_was_cut_short_is_named(tmp_path):
    """Wherever the cut is, the file of a training that is under way is refused in one line."""
    path = tmp_path / "seed_0.npz"
    start = joint.JointState({"w": np.zeros(3)}, ())
    toys._Progress(start, path).add(start, {"loss": 1.0}, 2.0)
    whole = path.read_bytes()
    assert toys._Progress(start, path).epoch == 1
    for size in (0, 3, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(UsageError, match="is damaged: delete it"):
            toys._Progress(start, path)


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(DataError, match="tatqa: no such file or folder; set path to the folder of tatqa and tabfact"):
        table2.main(["--scale=smoke", f"--path={tmp_path}", f"--out={tmp_path}"])


def test_numbers_of_the_real_tables(real_data):
    folder = real_data("tatqa").parent
    grids = tables_of.load_tables(str(folder), "tatqa")
    lines = collect_lines(grids, numtok.find, tables_of.LONGEST)
    assert len(lines.literals) > 3000 and "1,452.4" in lines.literals
    assert np.bincount(make_target(lines.values).exponent, minlength=10).min() > 0
