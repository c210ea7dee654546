"""The experiments of DICE: probes of every row and of a user's file, with keys and resumable."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pytest

from numjax.bundled.experiments import identity, runs
from numjax.bundled.experiments.dice import probing, settings, table2, table3, table4
from numjax.bundled.experiments.stored import RunResult
from numjax.errors import DataError, UsageError
from numjax.inspect import vectors
from numjax.probes import probe

SMOKE = ["--scale=smoke"]


def make_probe_key(*arguments) -> str:
    return identity.make_key(probing.list_settings(*arguments))


@pytest.fixture
def glove(tmp_path, rng):
    """A file with vectors of 0 … 99 without 13 and 57, between vectors of words."""
    path = tmp_path / "mine.txt"
    lines = [f"{n} " + " ".join(f"{v:.4f}" for v in rng.standard_normal(4)) for n in range(100) if n not in (13, 57)]
    path.write_text("\n".join(["the 0.1 0.2 0.3 0.4", *lines, "apple 1 1 1 1"]) + "\n")
    return path


def test_a_users_file_is_probed_with_one_command(glove, tmp_path, capsys):
    out = tmp_path / "out"
    table2.main([*SMOKE, f"--table={glove}", "--only=decode_linear,max", f"--out={out}"])
    report = json.loads((out / "table2.json").read_text())
    entries = {(e["row"], e["column"]): e for e in report["tables"]["table2"]}
    assert entries["mine.txt", "max 99"]["here"]["n"] == 2 and entries["mine.txt", "linear decode 99"]["here"]
    assert any("mine.txt has vectors of 98 of the 100" in remark for remark in report["remarks"])
    output = capsys.readouterr()
    assert "no vector of 2 numbers (13, 57)" in output.out + output.err
    # The same vectors, probed directly.
    numbers = np.array([n for n in range(100) if n not in (13, 57)])
    results = probe.run("max", vectors.make(str(glove))(numbers), numbers, [0, 1], table2.SIZES["smoke"])
    assert [entries["mine.txt", "max 99"]["seeds"][s] for s in "01"] == [result.test for result in results]
    assert "| DICE-D, as printed | 0.980 | – |" in (out / "table2.md").read_text()
    assert (out / "table2.png").read_bytes().startswith(b"\x89PNG")


def test_finished_probes_are_not_run_again(tmp_path, monkeypatch):
    cell, sizes = probing.ProbeCell("value", "value", "decode_linear", 99), table2.SIZES["smoke"]
    first = probing.run(cell, [0], tmp_path, sizes)
    seed_lists = []
    run_probe = probe.run

    def record_seeds(name, embeddings, numbers, seeds, *rest):
        seed_lists.append(list(seeds))
        return run_probe(name, embeddings, numbers, seeds, *rest)

    monkeypatch.setattr(probe, "run", record_seeds)
    results = probing.run(cell, [0, 1], tmp_path, sizes)
    assert seed_lists == [[1]] and list(results) == [0, 1] and results[0] == first[0]
    assert probing.run(cell, [0, 1], tmp_path, sizes) == results and seed_lists == [[1]]
    keys = {
        make_probe_key(cell, sizes, False), make_probe_key(cell, sizes, True),
        make_probe_key(cell, sizes._replace(epochs=3), False),
        make_probe_key(cell._replace(high=98), sizes, False),
        make_probe_key(cell._replace(spec="value:scale=9"), sizes, False),
    }  # fmt: skip
    assert len(keys) == 5


def test_every_row_has_vectors():
    for row, (_, spec) in table2.SYSTEMS.items():
        numbers, embeddings = probing.embed_numbers(probing.ProbeCell(row, spec, "max", 40))
        assert (
            len(numbers) == 41 and embeddings.shape == (41, vectors.make(spec).dim) and np.isfinite(embeddings).all()
        )
        assert len(np.unique(embeddings.round(6), axis=0)) == 41, row


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ranges=0"], r"the range 0 … 0 is empty"),
        (["--ranges=9x"], "whole numbers"),
        (["--table=nowhere.txt"], "there is no such file"),
        (["--embed=dyce:dim=3"], "did you mean dice"),
        (["--embed=value", "--embed=value"], "given twice"),
        (["--epochs=-1"], "1 or more"),
        (["--only=dice_e"], "did you mean dice_d"),
    ],
)
def test_bad_options_are_refused(words, message):
    with pytest.raises(UsageError, match=message):
        table2.main([*SMOKE, *words])


def test_a_table_without_numbers_is_refused(tmp_path):
    (tmp_path / "words.txt").write_text("the 0.1 0.2\napple 0.3 0.4\n")
    with pytest.raises(DataError, match=r"too few|do not match"):
        table2.main([*SMOKE, f"--table={tmp_path / 'words.txt'}", "--only=max", f"--out={tmp_path}"])


def test_tables_of_magnitudes_have_a_cell_a_system_and_a_size():
    options = argparse.Namespace(scale="smoke", as_published=False, path="", variant="titles")
    cells = [settings.make_cell(options, system) for system in settings.SYSTEMS]
    size_cells = [settings.make_cell(options, table4.SYSTEM, size) for size in table4.SIZES]
    for group in (cells, size_cells):
        assert len({runs.make_key(cell) for cell in group}) == len(group) == len({cell.system for cell in group})
    assert "numeral" not in cells[0].config.embeds and cells[1].config.embeds.numeral.form == "2"
    for cell, size in zip(size_cells, table4.SIZES, strict=True):
        config = cell.config
        assert (
            config.backbone.width == size
            and config.embeds.token.init_std == size**-0.5
            and config.task.data_seed == 1
        )
    as_published = argparse.Namespace(**vars(options) | {"as_published": True})
    forms = {name: settings.make_cell(as_published, name).config.embeds.numeral.form for name in ("dice", "dice_d")}
    assert forms == {"dice": "2", "dice_d": "d"}, "each row keeps its form"
    config_as_published = settings.make_cell(as_published, "dice_d").config
    assert config_as_published.task.select == "test" and config_as_published.task.num_classes == 7
    assert config_as_published.embeds.numeral.as_printed and not cells[2].config.embeds.numeral.as_printed
    with pytest.raises(UsageError, match="'33' is none of 32"):
        table4.main([*SMOKE, "--sizes=33"])


@pytest.mark.parametrize(("table", "row"), [(table3, "BiLSTM with DICE-D"), (table4, "128")])
def test_tables_of_magnitudes_show_the_results_of_their_runs(table, row, tmp_path, monkeypatch):
    def return_results(cells, seeds, out):
        machine = {"device": "cpu", "devices": 1, "cores": 2, "jax": "0"}
        metrics = {"test": {"micro_f1": 0.5, "macro_f1": 0.25}}
        return {
            (c.task, c.system): {
                s: RunResult(c.task, c.system, s, "key", metrics, None, 1.0, machine, "") for s in seeds
            }
            for c in cells
        }

    monkeypatch.setattr(runs, "run", return_results)
    table.main([*SMOKE, f"--out={tmp_path}"])
    name = table.__name__.rpartition(".")[2]
    report = json.loads((tmp_path / f"{name}.json").read_text())
    entries = {(e["row"], e["column"]): e for e in report["tables"][name]}
    assert entries[row, "micro-F1"]["here"]["mean"] == 50 and entries[row, "macro-F1"]["paper"]["mean"] > 40
    assert "stand-in" in (tmp_path / f"{name}.md").read_text() and (tmp_path / f"{name}.png").stat().st_size > 5_000


def test_published_figures_are_those_of_the_paper():
    assert max(micro for micro, _ in table4.PAPER.values()) == table3.PAPER["dice_d"][0]
    assert max(macro for _, macro in table4.PAPER.values()) == table3.PAPER["dice_d"][1]
    paper = table2.make_published(table2.PAPER["dice_d"])
    assert paper["max 9999"].mean == 0.96 and paper["decode 9999"].mean == 3.16 and paper["add 99"].mean == 0.75
    assert all(len(numbers) == 9 for numbers in (*table2.PAPER.values(), *table2.QUOTED.values()))
