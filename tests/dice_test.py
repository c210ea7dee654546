"""The experiments of DICE: probes of every row and of a file of one's own, keyed and resumable."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pytest

from numjax.bundled.experiments import runs
from numjax.bundled.experiments.dice import probing, settings, table2, table3, table4
from numjax.errors import DataError, UsageError
from numjax.inspect import vectors
from numjax.probes import probe

SMOKE = ["--scale=smoke"]


@pytest.fixture
def glove(tmp_path, rng):
    """Vectors of 0 … 99 but 13 and 57, some by another spelling, amid words."""
    path = tmp_path / "mine.txt"
    lines = [f"{n} " + " ".join(f"{v:.4f}" for v in rng.standard_normal(4)) for n in range(100) if n not in (13, 57)]
    path.write_text("\n".join(["the 0.1 0.2 0.3 0.4", *lines, "apple 1 1 1 1"]) + "\n")
    return path


def test_a_file_of_ones_own_is_probed_with_one_command(glove, tmp_path, capsys):
    out = tmp_path / "out"
    table2.main([*SMOKE, f"--table={glove}", "--only=decode_linear,max", f"--out={out}"])
    written = json.loads((out / "table2.json").read_text())
    entries = {(e["row"], e["column"]): e for e in written["tables"]["table2"]}
    assert entries["mine.txt", "max 99"]["here"]["n"] == 2 and entries["mine.txt", "linear decode 99"]["here"]
    assert any("mine.txt has vectors of 98 of the 100" in remark for remark in written["remarks"])
    said = capsys.readouterr()
    assert "no vector of 2 numbers (13, 57)" in said.out + said.err
    # By hand, from the same vectors.
    numbers = np.array([n for n in range(100) if n not in (13, 57)])
    again = probe.run("max", vectors.make(str(glove))(numbers), numbers, [0, 1], table2.SIZES["smoke"])
    assert [entries["mine.txt", "max 99"]["seeds"][s] for s in "01"] == [result.test for result in again]
    assert "| DICE-D, as printed | 0.980 | – |" in (out / "table2.md").read_text()
    assert (out / "table2.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch):
    cell, sizes = probing.ProbeCell("value", "value", "decode_linear", 99), table2.SIZES["smoke"]
    first = probing.run(cell, [0], tmp_path, sizes)
    asked = []
    real = probe.run

    def noted(name, made, numbers, seeds, *rest):
        asked.append(list(seeds))
        return real(name, made, numbers, seeds, *rest)

    monkeypatch.setattr(probe, "run", noted)
    both = probing.run(cell, [0, 1], tmp_path, sizes)
    assert asked == [[1]] and list(both) == [0, 1] and both[0] == first[0]
    assert probing.run(cell, [0, 1], tmp_path, sizes) == both and asked == [[1]]
    keys = {
        probing.make_key(cell, sizes, False), probing.make_key(cell, sizes, True),
        probing.make_key(cell, sizes._replace(epochs=3), False),
        probing.make_key(cell._replace(high=98), sizes, False),
        probing.make_key(cell._replace(spec="value:scale=9"), sizes, False),
    }  # fmt: skip
    assert len(keys) == 5


def test_every_row_has_vectors():
    for row, (_, spec) in table2.SYSTEMS.items():
        numbers, found = probing.embed_numbers(probing.ProbeCell(row, spec, "max", 40))
        assert len(numbers) == 41 and found.shape == (41, vectors.make(spec).dim) and np.isfinite(found).all()
        assert len(np.unique(found.round(6), axis=0)) == 41, row


@pytest.mark.parametrize(
    ("words", "says"),
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
def test_bad_options_are_named(words, says):
    with pytest.raises(UsageError, match=says):
        table2.main([*SMOKE, *words])


def test_a_table_without_numbers_is_refused(tmp_path):
    (tmp_path / "words.txt").write_text("the 0.1 0.2\napple 0.3 0.4\n")
    with pytest.raises(DataError, match=r"too few|do not match"):
        table2.main([*SMOKE, f"--table={tmp_path / 'words.txt'}", "--only=max", f"--out={tmp_path}"])


def test_tables_of_magnitudes_have_a_cell_a_system_and_a_size():
    options = argparse.Namespace(scale="smoke", as_published=False, path="", variant="titles")
    cells = [settings.make_cell(options, system) for system in settings.SYSTEMS]
    sized = [settings.make_cell(options, table4.SYSTEM, size) for size in table4.SIZES]
    for some in (cells, sized):
        assert len({runs.make_key(cell) for cell in some}) == len(some) == len({cell.system for cell in some})
    assert "numeral" not in cells[0].config.embeds and cells[1].config.embeds.numeral.form == "2"
    for cell, size in zip(sized, table4.SIZES, strict=True):
        config = cell.config
        assert (
            config.backbone.width == size
            and config.embeds.token.init_std == size**-0.5
            and config.task.data_seed == 1
        )
    as_published = argparse.Namespace(**vars(options) | {"as_published": True})
    forms = {name: settings.make_cell(as_published, name).config.embeds.numeral.form for name in ("dice", "dice_d")}
    assert forms == {"dice": "2", "dice_d": "d"}, "rows stay apart"
    published = settings.make_cell(as_published, "dice_d").config
    assert published.task.select == "test" and published.task.num_classes == 7
    assert published.embeds.numeral.as_printed and not cells[2].config.embeds.numeral.as_printed
    with pytest.raises(UsageError, match="'33' is none of 32"):
        table4.main([*SMOKE, "--sizes=33"])


@pytest.mark.parametrize(("table", "row"), [(table3, "BiLSTM with DICE-D"), (table4, "128")])
def test_tables_of_magnitudes_show_what_was_run(table, row, tmp_path, monkeypatch):
    def pretended(cells, seeds, out):
        made_on = {"device": "cpu", "devices": 1, "cores": 2, "jax": "0"}
        metrics = {"test": {"micro_f1": 0.5, "macro_f1": 0.25}}
        return {
            (c.task, c.system): {
                s: runs.RunResult(c.task, c.system, s, "key", metrics, None, 1.0, made_on, "") for s in seeds
            }
            for c in cells
        }

    monkeypatch.setattr(runs, "run", pretended)
    table.main([*SMOKE, f"--out={tmp_path}"])
    name = table.__name__.rpartition(".")[2]
    written = json.loads((tmp_path / f"{name}.json").read_text())
    entries = {(e["row"], e["column"]): e for e in written["tables"][name]}
    assert entries[row, "micro-F1"]["here"]["mean"] == 50 and entries[row, "macro-F1"]["paper"]["mean"] > 40
    assert "stand-in" in (tmp_path / f"{name}.md").read_text() and (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_the_paper_is_quoted_as_it_is():
    assert max(micro for micro, _ in table4.PAPER.values()) == table3.PAPER["dice_d"][0]
    assert max(macro for _, macro in table4.PAPER.values()) == table3.PAPER["dice_d"][1]
    paper = table2.make_published(table2.PAPER["dice_d"])
    assert paper["max 9999"].mean == 0.96 and paper["decode 9999"].mean == 3.16 and paper["add 99"].mean == 0.75
    assert all(len(numbers) == 9 for numbers in (*table2.PAPER.values(), *table2.QUOTED.values()))
