"""LUNA's probes on numbers of tables: examples and targets, resumed training, and the command."""

from __future__ import annotations

import argparse
import gzip
import io
import json
import tarfile
from decimal import Decimal
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from numjax.bundled.experiments import identity
from numjax.bundled.experiments.luna import numbers as number_tables
from numjax.bundled.experiments.luna import table2, toys
from numjax.bundled.experiments.stored import RunResult
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


def make_toy_key(*arguments) -> str:
    return identity.make_key(toys.list_settings(*arguments))


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
    examples = draw_examples(lines, "triple", 6000, rng)
    assert all(len(set(items)) == 3 for items in examples.tolist())
    kinds, counts = np.unique(np.sort(examples, axis=1), axis=0, return_counts=True)
    assert len(kinds) == 3 and abs(counts / 6000 - 1 / 3).max() < 0.03
    orders = np.unique(examples, axis=0, return_counts=True)[1]
    assert len(orders) == 18 and orders.min() > 250
    with pytest.raises(DataError, match="no row or column of the tables holds 3 different numbers"):
        draw_examples(collect_lines([[["1", "2"]]], numtok.find, 12), "triple", 1, rng)
    with pytest.raises(DataError, match="hold no number"):
        draw_examples(collect_lines([[["a"]]], numtok.find, 12), "single", 1, rng)


def test_every_held_out_example_has_a_number_never_seen(rng):
    sources = number_tables.make_lines(60)
    values = sources[-1].values
    assert len(set(values.tolist())) < len(values), "some are spelled in several ways"
    train, validation, test = split_by_value(sources, 3000, rng)
    train_values = {value for items in train for value in values[items.ravel()].tolist()}
    for part in (validation, test):
        for items in part:
            assert len(items) and not any(train_values >= set(row) for row in values[items].tolist())
    sets = [frozenset(row) for part in (train, validation, test) for row in part.pair.tolist()]
    assert len(set(sets)) == len(sets)
    published_train, published_test = split_as_published(sources, 3000, rng)
    assert [len(items) for items in published_train] == [2400] * 3 and [len(items) for items in published_test] == [
        600
    ] * 3
    financial = {*sources[0].cells.tolist()}
    assert not financial >= set(published_test.single[:, 0].tolist()), "only the last source"
    assert np.isin(published_test.single, published_train.single).mean() > 0.3


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
    targets = make_target(np.asarray(values))
    for value, significand, exponent in zip(values, *targets, strict=True):
        # Decimal writes zero's exponent otherwise.
        mantissa, _, power = f"{Decimal(value):.6e}".partition("e") if value else ("0", "e", "0")
        assert significand == pytest.approx(float(mantissa)) and exponent == np.clip(int(power), -2, 7) + 2
    lines = collect_lines(GRIDS, numtok.find, 12)
    at = lines.literals.index
    examples = ExamplesByKind(
        np.array([[at("5%")]]), np.array([[at("30"), at("-0.5")]]), np.array([[at("3"), at("2"), at("1")]])
    )
    targets_of_probe = make_targets(lines.values, examples)
    assert (
        targets_of_probe["decode"].exponent[0] == 0
        and targets_of_probe["add"].significand[0] == np.float32(2.95)
        and targets_of_probe["max"][0] == 0
    )
    assert targets_of_probe["subtract"].significand[0] == np.float32(3.05)


def make_small_trainer(bounds=(3,), seed=0):
    sources = number_tables.make_lines(40)
    lines = sources[-1]
    train, *_ = split_by_value(sources, 300, np.random.default_rng(seed))
    encoder = char_lstm.Embed(dim=8, hidden=4, length=12)
    strings = toys.make_strings(encoder, lines)
    options = joint.AdamOptions(batch_size=32, epochs=2, hidden=6)
    targets = make_targets(lines.values, train)
    return joint.Trainer(encoder, 8, strings, train, targets, options, seed, bounds), lines, train, targets


def test_a_batch_encodes_each_string_once_and_has_the_losses_of_single_strings():
    trainer, lines, train, targets = make_small_trainer()
    state = trainer.start()
    indices = next(trainer._make_batches(0))
    step = trainer._make_step(indices)
    used_items = {int(i) for items, index in zip(train, indices, strict=True) for i in items[index].ravel()}
    rows = sum(group.rows for group in trainer.groups)
    assert len(trainer.groups) == 2 and len(used_items) <= rows < 32 * 6, "fewer rows than numbers in a batch"
    loss = float(joint.total_loss(trainer.encoder, state.params, step, None))
    # Every number is encoded by itself, padded to the longest.
    items = ExamplesByKind(*(part[index] for part, index in zip(train, indices, strict=True)))
    values = to_numeral([Decimal(1)] * len(lines.literals), toys.DIGITS)
    features = trainer.encoder.host_features(values, lines.literals)
    vectors = np.asarray(trainer.encoder.apply({"params": state.params["encoder"]}, values, features))
    x = ExamplesByKind(*(vectors[part] for part in items))
    parts = joint.losses(joint.apply_probes(state.params["probes"], x), joint._take_targets(targets, indices))
    assert loss == pytest.approx(sum(float(part.mean()) for part in parts.values()), rel=1e-5)
    scores = trainer.evaluate(state.params, items, joint._take_targets(targets, indices))
    assert scores["loss"] == pytest.approx(loss, rel=1e-5)
    error = np.asarray(parts["add_significand"]).mean() ** 0.5
    assert scores["add_significand"] == pytest.approx(error, rel=1e-5) and 0 <= scores["max"] <= 1


def test_steps_become_smaller_until_the_last():
    trainer, *_ = make_small_trainer()
    state, largest_changes = trainer.start(), []
    for epoch in range(trainer.options.epochs):
        for indices in trainer._make_batches(epoch):
            old_params = jax.tree.map(np.array, state.params)  # the next step donates the state's memory
            state, _ = trainer._step(state, trainer._make_step(indices), jax.random.key(0))
            changes = jax.tree.map(lambda a, b: np.abs(a - b).max(), state.params, old_params)
            largest_changes.append(max(jax.tree.leaves(changes)))
    # Adam moves by the rate at first; a step of the cosine before its end is (π / 2n)² of it.
    assert largest_changes[0] == pytest.approx(trainer.options.learning_rate, rel=1e-3)
    assert len(largest_changes) == trainer.steps * 2 and largest_changes[-1] < 0.1 * largest_changes[0]


def test_training_resumes_at_its_last_epoch(tmp_path, monkeypatch):
    sizes = table2.SIZES["smoke"]
    cell = table2.make_cell("dice", "smoke", False)
    whole = toys.run(cell, [0], tmp_path / "whole", sizes, "", False)[0]
    run_epoch = joint.Trainer.run_epoch

    def run_one_epoch(self, state, epoch):
        if epoch:
            raise KeyboardInterrupt
        return run_epoch(self, state, epoch)

    monkeypatch.setattr(joint.Trainer, "run_epoch", run_one_epoch)
    with pytest.raises(KeyboardInterrupt):
        toys.run(cell, [0], tmp_path / "cut", sizes, "", False)
    monkeypatch.setattr(joint.Trainer, "run_epoch", run_epoch)
    resumed = toys.run(cell, [0], tmp_path / "cut", sizes, "", False)[0]
    assert resumed.metrics == whole.metrics and not list(tmp_path.rglob("*.npz"))
    calls = []
    monkeypatch.setattr(joint.Trainer, "run_epoch", lambda *args: calls.append(args))
    assert toys.run(cell, [0], tmp_path / "cut", sizes, "", False)[0] == resumed and not calls
    keys = {make_toy_key(cell, sizes, "", False), make_toy_key(cell, sizes, "", True)}
    keys |= {
        make_toy_key(cell, sizes._replace(epochs=3), "", False),
        make_toy_key(cell._replace(spec="x"), sizes, "", False),
    }
    assert len(keys) == 4


def test_each_row_takes_the_rate_of_least_validation_loss(tmp_path, monkeypatch):
    options = argparse.Namespace(trials=3, out=tmp_path, path="", as_published=False)
    cells = [table2.make_cell(row, "laptop", False) for row in ("char_lstm", "dice")]
    losses = {"char_lstm": {1e-3: 5.0, 3e-3: 4.0, 6e-3: 3.0}, "dice": {1e-3: 5.0, 3e-3: 4.0}}
    calls = []

    def score(cell, seeds, out, sizes, path, as_published, test):
        calls.append((cell.row, list(seeds), out, sizes.items, sizes.epochs, test))
        loss = losses[cell.row].get(sizes.learning_rate)
        metrics = {"validation": {"loss": loss}} if loss else {}
        return {s: RunResult("toys", cell.row, s, f"{cell.row}{loss}", metrics, None, 1.0, {}, "") for s in seeds}

    monkeypatch.setattr(toys, "run", score)
    whole = table2.SIZES["laptop"]
    chosen, entries = table2.choose_rates(cells, options, whole)
    assert chosen == {"char_lstm": whole, "dice": whole._replace(learning_rate=3e-3)}
    assert [trial["chosen"] for trial in entries["trial_records"]["toys/dice"]] == [False, True, False], (
        "a diverged trial is none"
    )
    keys = [run["key"] for run in entries["trial_runs"]["runs"]]
    assert keys[:4] == ["char_lstm5.0", "char_lstm4.0", "char_lstm3.0", "dice5.0"]
    assert calls == [(cell.row, [1000], tmp_path / "trials", 76_800, 6, False) for cell in cells for _ in range(3)]
    losses["dice"].clear()
    with pytest.raises(UsageError, match="toys/dice: all 3 trials diverged: try other settings"):
        table2.choose_rates(cells, options, whole)


def test_a_trial_is_not_scored_on_test(tmp_path):
    cell, sizes = table2.make_cell("dice", "smoke", False), table2.SIZES["smoke"]
    result = toys.run(cell, [1000], tmp_path, sizes, "", False, test=False)[1000]
    assert result.metrics.keys() == {"validation", "training"}


@pytest.mark.parametrize("bad_epoch", [0, 1])
def test_diverged_training_is_reported_and_has_no_metrics(bad_epoch, tmp_path, monkeypatch):
    run_epoch = joint.Trainer.run_epoch

    def run_wrong_epoch(self, state, epoch):
        state, loss = run_epoch(self, state, epoch)
        params = jax.tree.map(lambda x: x * np.nan, state.params) if epoch == bad_epoch else state.params
        return joint.JointState(params, state.opt_state), np.nan if epoch == bad_epoch else loss

    monkeypatch.setattr(joint.Trainer, "run_epoch", run_wrong_epoch)
    result = toys.run(table2.make_cell("dice", "smoke", False), [0], tmp_path, table2.SIZES["smoke"], "", False)[0]
    assert result.metrics == {} and f"the loss of epoch {bad_epoch + 1} is nan" in str(result.diverged)


def test_too_few_numbers_are_named(tmp_path):
    for source, name, text in (
        ("tatqa", "dev.json", json.dumps([{"table": {"table": [["a", "5", "7", "9"]]}}])),
        ("tabfact", "1.html.csv", "a#b#c\n3#4#6\n"),
    ):
        (tmp_path / source).mkdir()
        (tmp_path / source / name).write_text(text)
    with pytest.raises(DataError, match="too few numbers to hold some of each kind out"):
        toys.draw_examples(str(tmp_path), table2.SIZES["smoke"], 0, False)


def test_numbers_of_tatqa_come_from_its_training_and_development_tables(tmp_path, capsys):
    (tmp_path / "tatqa").mkdir()
    for kind in ("train", "dev", "test_gold"):
        first_table = [["a", "5"], None] if kind == "dev" else [["a", "5"], [kind, 6]]
        contexts = [{"table": {"table": first_table}}, {"table": {"table": [[kind, "7"]]}}]
        (tmp_path / "tatqa" / f"tatqa_dataset_{kind}.json").write_text(json.dumps(contexts))
    tables = list(number_tables.load_tables(str(tmp_path), "tatqa"))
    assert tables == [[["dev", "7"]], [["a", "5"], ["train", "6"]], [["train", "7"]]]
    message = capsys.readouterr().err
    assert "1 tables left out, such as tatqa_dataset_dev.json, context 0: its table is no list of rows" in message


def test_the_command_writes_the_table(tmp_path, capsys):
    folder = tmp_path / "data"
    (folder / "tatqa").mkdir(parents=True)
    (folder / "tabfact" / "all_csv").mkdir(parents=True)
    contexts = [
        {"table": {"uid": "a", "table": number_tables._make_financial(np.random.default_rng(i))}} for i in range(30)
    ]
    (folder / "tatqa" / "tatqa_dataset_dev.json.gz").write_bytes(gzip.compress(json.dumps(contexts).encode()))
    for i in range(30):
        grid = number_tables._make_general(np.random.default_rng(i))
        text = "\n".join("#".join(row) for row in grid)
        (folder / "tabfact" / "all_csv" / f"1-{i}.html.csv").write_text(text)
    out = tmp_path / "out"
    table2.main(["--scale=smoke", f"--path={folder}", "--only=dice", "--as_published", f"--out={out}"])
    results = json.loads((out / "table2.json").read_text())
    entries = {(entry["row"], entry["column"]): entry for entry in results["tables"]["table2"]}
    assert entries["DICE", "decode exp"]["paper"]["mean"] == 67.9 and 0 <= entries["DICE", "list max"]["here"]["mean"]
    assert entries["RoBERTa", "decode sig"]["here"] is None
    assert 20 < entries[table2.CONSTANT, "list max"]["here"]["mean"] < 50
    assert RunResult(**results["runs"][0]).metrics["test"]["loss"] > 0
    assert "| CharLSTM | 0.095 |" in (out / "table2.md").read_text() and "| DICE |" in capsys.readouterr().out


def test_numbers_of_tabfact_come_from_its_training_tables(tmp_path, capsys):
    """The release has all tables, packed or not, and a list of the training ones. Without the list, all are used."""
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
    tables = [[["a", "b"], [f"{i}1", f"{i}2"]] for i in range(3)]
    assert list(number_tables.load_tables(str(tmp_path), "tabfact")) == tables
    assert "all 3 tables are read, those of the test split too" in capsys.readouterr().err
    (root / "train_id.json").write_text('["2-2.html.csv", "2-0.html.csv"]')
    assert list(number_tables.load_tables(str(tmp_path), "tabfact")) == [tables[0], tables[2]]
    with tarfile.open(root / "all_csv.tar.gz") as archive:
        archive.extractall(root, filter="data")
    (root / "all_csv.tar.gz").unlink()
    assert list(number_tables.load_tables(str(tmp_path), "tabfact")) == [tables[0], tables[2]]
    assert not capsys.readouterr().err
    options = SimpleNamespace(path=str(tmp_path), as_published=False)
    examples = toys.ExampleSplits((ExamplesByKind(*[np.arange(2)] * 3),) * 3, ({},) * 3)
    assert (
        "(tatqa_dataset_dev.json) and TabFact (training split)"
        in table2._make_remarks(options, table2.SIZES["smoke"], examples)[1]
    )
    (root / "train_id.json").unlink()
    assert "TabFact (all tables" in table2._make_remarks(options, table2.SIZES["smoke"], examples)[1]


def test_a_truncated_progress_file_is_named(tmp_path):
    """Wherever the cut is, the file is refused in one line."""
    path = tmp_path / "seed_0.npz"
    start = joint.JointState({"w": np.zeros(3)}, ())
    toys._Progress(start, path).add(start, {"loss": 1.0}, 2.0)
    whole = path.read_bytes()
    assert toys._Progress(start, path).epoch == 1
    for size in (0, 3, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(UsageError, match="is damaged: delete it"):
            toys._Progress(start, path)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(DataError, match="tatqa: no such file or folder; set path to the folder of tatqa and tabfact"):
        table2.main(["--scale=smoke", f"--path={tmp_path}", f"--out={tmp_path}"])


def test_numbers_of_the_real_tables(real_data):
    folder = real_data("tatqa").parent
    grids = number_tables.load_tables(str(folder), "tatqa")
    lines = collect_lines(grids, numtok.find, number_tables.LONGEST)
    assert len(lines.literals) > 3000 and "1,452.4" in lines.literals
    assert np.bincount(make_target(lines.values).exponent, minlength=10).min() > 0
