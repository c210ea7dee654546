"""What cells of a grid show together: which may be compared, which row wins, and the files that are committed.

All cells are made up (`made_up_cells`).
"""

from __future__ import annotations

import gzip
import json
import pathlib
import re
import runpy
import shutil
import sys
import tempfile

import numpy as np
import pytest

from numjax.bundled.configs import schemes
from numjax.bundled.experiments import identity, verify
from numjax.bundled.experiments.grid import archive
from numjax.bundled.experiments.grid.report import __main__ as tool
from numjax.bundled.experiments.grid.report import committed, files, folder, maps, metrics
from numjax.errors import UsageError
from tests.made_up_cells import (
    STREAMS,
    list_cells,
    make_cell,
    write_cell,
    write_cells,
    write_settings,
    write_step_times,
)

EXACT = metrics.METRICS[0]
ERROR = metrics.BY_KEY["relative_error_median"]
DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder_of_cells = tmp_path_factory.mktemp("grid")
    write_cells(folder_of_cells)
    files.write(folder_of_cells)
    return folder_of_cells


# -- what may be compared --------------------------------------------------------------------------------------------


def test_a_map_has_the_problems_of_most_of_its_cells(tmp_path, capsys):
    write_cells(tmp_path, ["digits", "carry", "ntl", "oracle"], ["add", "mul"])
    for row in ("digits", "ntl", "oracle"):
        write_settings(tmp_path, row, "present")
    write_settings(tmp_path, "carry", "older")
    tool.main([f"--out={tmp_path}"])
    line, _ = capsys.readouterr().out.splitlines()
    start = "6 cells of carry not in the map (cpu, 2 × 128, 4,000 steps, 128 a batch): "
    assert line.startswith(f"{start}they answer other problems than 3 rows; to have them there, run")
    text, page = ((tmp_path / f"grid.{kind}").read_text() for kind in ("md", "html"))
    assert line in text and line in page and "`carry`" not in text


def test_at_one_model_a_cell_each_column_has_problems_of_its_own(tmp_path):
    for row, column, problems in [
        *((row, column, column) for row in ("digits", "carry") for column in ("add", "mul", "copy")),
        *(("ntl", "add", "add"), ("ntl", "mul", "older")),
    ]:
        write_cell(tmp_path, make_cell(row, column, 0, "full", key=f"{row}-{column}"))
        write_settings(tmp_path, f"{row}-{column}", problems)
    ((grid,), _) = maps.make_maps(folder.read_cells(tmp_path)[0])
    assert set(grid.cells) == {
        *((row, column) for row in ("digits", "carry") for column in ("add", "mul", "copy")),
        ("ntl", "add"),
    }
    assert len(grid.left_out) == 1 and grid.left_out[0].startswith("1 cell of ntl not in the map")


def test_seeds_of_other_settings_are_not_averaged(tmp_path):
    write_cells(tmp_path, ["digits", "carry"], ["add", "mul"])
    for key, rate in (("digits", 0.1), ("carry", 0.1), ("other", 0.2)):
        write_settings(tmp_path, key, "present", **{"optim.weight_decay": rate})
    for seed in (7, 8):  # of one column, which the row has with the first settings too
        cell = make_cell("carry", "add", seed, key="other")
        cell["streams"]["inside"]["exact"] = 0.0
        write_cell(tmp_path, cell)
    ((grid,), faults) = maps.make_maps(folder.read_cells(tmp_path)[0])
    assert [cell.seed for cell in grid.cells["carry", "add"]] == [0, 1, 2] and not faults
    (line,) = grid.left_out
    assert line.startswith("2 cells of carry (seed 7, 8) not in the map (cpu, ")
    assert "other settings than 6 cells of this row (optim.weight_decay is 0.2, not 0.1); to have" in line


def test_an_option_that_was_added_between_two_seeds_parts_them_nowhere(tmp_path):
    """In a map, and where cells are committed. Another value of the option, or an unknown part, is another result."""
    older = {"scheme.name": "limbs", "scheme.size": 1}
    for key, options in {
        "older": older,
        "newer": older | {"scheme.known": False},
        "other": older | {"scheme.known": True},
        "gone": older | {"heads.next.name": "no_such_head"},
    }.items():
        write_settings(tmp_path, key, "present", **options)
    for seed, key in enumerate(("older", "newer", "older", "newer", "other", "gone")):
        write_cell(tmp_path, make_cell("carry", "add", seed, key=key))
    ((grid,), _) = maps.make_maps(folder.read_cells(tmp_path)[0])
    assert [cell.seed for cell in grid.cells["carry", "add"]] == [0, 1, 2, 3]
    assert ["known is True" in line or "no_such_head" in line for line in grid.left_out] == [True, True]
    results, second = tmp_path / "results", tmp_path / "second"
    archive.pack(tmp_path, results)
    for seed, key in ((0, "newer"), (1, "older")):  # the other one's key, and one that is another result
        write_cell(second, make_cell("carry", "add", seed, key=key))
    write_cell(second, make_cell("carry", "add", 2, key="other"))
    for key in ("older", "newer", "other"):
        (second / "settings").mkdir(exist_ok=True)
        shutil.copy(tmp_path / f"settings/{key}.json", second / "settings")
    (line,) = archive.unpack(results, second)[1]
    assert "seed2" in line and "another result (scheme.known" in line


def test_settings_are_united_over_columns_that_only_one_of_them_shares(tmp_path):
    for key, columns, options in (
        ("a", ["add"], {}),
        ("b", ["add", "mul"], {"scheme.known": False}),
        ("c", ["mul"], {}),
    ):
        write_settings(tmp_path, key, "present", **{"scheme.name": "limbs"}, **options)
        for column in columns:
            write_cell(tmp_path, make_cell("carry", column, "abc".index(key), key=key))
    ((grid,), _) = maps.make_maps(folder.read_cells(tmp_path)[0])
    assert [cell.seed for cell in grid.cells["carry", "mul"]] == [1, 2] and not grid.left_out


def test_cells_without_settings_do_not_stand_beside_cells_of_known_problems(tmp_path):
    write_cells(tmp_path, ["digits", "carry", "ntl"], ["add"])
    for row in ("digits", "carry"):
        write_settings(tmp_path, row, "present")
    ((grid,), _) = maps.make_maps(folder.read_cells(tmp_path)[0])
    assert grid.rows == ["digits", "carry"] and "do not say which problems they answer" in grid.left_out[0]


# -- who wins --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", [EXACT, ERROR])
def test_a_winner_beats_every_seed_of_every_other_row(metric, rng):
    n_winners = 0
    for _ in range(300):
        values = {
            row: rng.normal(0.1 * i, 0.05, int(rng.integers(1, 5))).tolist() for i, row in enumerate(["a", "b", "c"])
        }
        winner = maps.find_winner(values, metric)
        better = np.greater if metric.is_higher_better else np.less
        if winner is None:
            # Where all rows have enough seeds, nobody is beyond all seeds of all others.
            if all(len(row) >= maps.LEAST_SEEDS for row in values.values()):
                for row in values:
                    others = [value for other in values if other != row for value in values[other]]
                    assert not better.outer(values[row], others).all()
            continue
        n_winners += 1
        others = [value for row in values if row != winner for value in values[row]]
        assert len(values[winner]) >= 3 and better.outer(values[winner], others).all()
    assert n_winners > 30


def test_no_winner_without_ranges_or_among_baselines():
    high, low = [0.9, 0.91, 0.92], [0.5, 0.55, 0.6]
    assert maps.find_winner({"a": high, "b": low}, EXACT) == "a"
    assert maps.find_winner({"a": high, "b": low}, ERROR) == "b"
    assert maps.find_winner({"a": high, "b": [0.5, 0.6, 0.9]}, EXACT) is None, "they touch"
    assert maps.find_winner({"a": [0.9], "b": [0.5]}, EXACT) is None, "one seed has no range"
    assert maps.find_winner({"a": [0.9], "b": low}, EXACT) is None
    assert maps.find_winner({"a": [0.9, 0.92], "b": low}, EXACT) is None, "two seeds are too few"
    assert maps.find_winner({"a": high, "b": [0.89]}, EXACT) is None, "one seed may vary as much as a's"
    assert maps.find_winner({"a": high, "b": [0.8]}, EXACT) == "a"
    assert maps.find_winner({"a": high, "b": [0.8], "c": [0.3, 0.45]}, EXACT) is None, "or as much as c's two"
    assert maps.find_winner({"a": high, "b": [0.7], "c": [0.3, 0.45]}, EXACT) == "a"
    assert maps.find_winner({"a": high}, EXACT) is None, "nobody to beat"
    assert maps.find_winner({"a": high, "b": low, "oracle": [1.0]}, EXACT) == "a"


# -- what is committed -----------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path, out):
    """(a folder of experiments in which the grid is committed, the folder of its files)."""
    results = tmp_path / "experiments/grid/results"
    tool.main([f"--out={out}", f"--results={results}", "--dirty"])
    return tmp_path, results / "cpu"


def list_problems(root) -> list[str]:
    tables = [problem for path in verify.list_results(root) for problem in verify.check_table(path)]
    return [path.name for path, *_ in [*tables, *verify.check_pictures(root / "experiments")]]


def test_committed_results_are_checked(checkout):
    root, results = checkout
    assert sorted(path.name for path in results.iterdir()) == ["cells", "grid.json", "grid.md", "grid.png"]
    assert verify.list_results(root) == [results / "grid.json"] and not list_problems(root)
    content = json.loads((results / "grid.json").read_text())
    cell = next(cell for cell in content["cells"] if (cell["row"], cell["column"]) == ("carry", "add"))
    cell["values"]["inside"] = [0.5, 0.5, 0.5]
    (results / "grid.json").write_text(json.dumps(content))
    assert list_problems(root) == ["grid.md", "grid.png"]
    verify.tables.write_text(results / "grid.md", verify.report.render_file(results / "grid.json"))
    assert list_problems(root) == ["grid.png"]
    # Who is best follows from the scores alone: nobody types it.
    assert "| `add` | **carry" not in (results / "grid.md").read_text()


def test_committed_results_are_small_and_hold_every_exact_score(checkout, out):
    _, results = checkout
    content = json.loads((results / "grid.json").read_text())
    n_cells = len(list_cells(out))
    assert sum(path.stat().st_size for path in results.iterdir()) < 100_000 + 2000 * n_cells
    shown = {(cell["row"], cell["column"]): cell for cell in content["cells"]}
    for cell in list_cells(out):
        if not cell["not_applicable"]:
            own = shown[cell["row"], cell["column"]]
            at = own["seeds"].index(cell["seed"])
            assert all(own["values"][name][at] == cell["streams"][name]["exact"] for name in STREAMS)
            assert own["others"]["digits"][at] == pytest.approx(cell["metrics"]["digits"], rel=6e-4)


def test_of_each_scale_the_map_with_most_cells_is_committed(tmp_path):
    write_cells(tmp_path, ["digits", "carry"], ["add"])
    longer, small = make_cell("carry", "add", 0), make_cell("carry", "copy", 0, "smoke")
    longer["settings"]["steps"] = 9000
    for cell in (longer, small):
        path = write_cell(tmp_path, cell)
        path.rename(path.with_name(f"{cell['settings']['steps']}-{path.name}"))
    write_cells(tmp_path, ["digits", "carry"], ["add"])
    results = tmp_path / "results"
    folders = files.publish(files.make_report(tmp_path), results)
    assert sorted(folders) == [results / "cpu", results / "smoke"]
    labels = [json.loads((path / "grid.json").read_text())["map"] for path in sorted(folders)]
    assert "4,000 steps" in labels[0] and labels[1].startswith("smoke, ")


def test_a_row_with_a_seed_without_a_value_wins_nothing(tmp_path):
    write_cells(tmp_path, ["digits", "carry"], ["add"])
    files.write(tmp_path)
    assert "| **carry " in (tmp_path / "grid.md").read_text()
    cell = make_cell("carry", "add", 3)
    for metrics_of_stream in cell["streams"].values():
        metrics_of_stream["exact"] = None
    cell["metrics"]["exact"] = None
    write_cell(tmp_path, cell)
    page = files.write(tmp_path).page
    assert "| **carry " not in (tmp_path / "grid.md").read_text()
    assert re.search(r'"exact":\s*\[(\s*\[\s*-1\s*\],?)+\s*\]', page.split('"wins"')[1])


def test_results_of_uncommitted_code_are_refused(out, tmp_path, monkeypatch):
    monkeypatch.setattr(tool.command.sources, "list_changes", lambda: ["numjax/model.py"])
    with pytest.raises(UsageError, match="not committed"):
        tool.main([f"--out={out}", f"--results={tmp_path}"])
    assert not list(tmp_path.iterdir())


def find_section(text: str, name: str) -> str:
    return text.split(f"<!-- {name} -->")[1].split(f"<!-- end of {name} -->")[0]


def test_the_best_rows_and_the_costs_are_listed(out):
    text = (out / "grid.md").read_text()
    lines = {line.split("`")[1]: line.split(" | ") for line in find_section(text, "best").splitlines() if "`" in line}
    assert list(lines) == ["add", "mul", "sort", "copy"] and "All streams together" in find_section(text, "best")
    cells = [cell for cell in list_cells(out) if (cell["row"], cell["column"]) == ("carry", "add")]
    values = [cell["streams"]["length 8"]["exact"] for cell in cells]
    assert lines["add"][2] == f"**carry {100 * np.mean(values):.1f}**"
    costs = find_section(text, "costs")
    row = next(line for line in costs.splitlines() if "`digits`" in line)
    parts, numbers = "replace · digits, token · digits · nll", "4.2 | 500,000 | 125 | 8 | 0.001 | 3"
    assert row == f"| `digits` | {parts} | {numbers} | a made-up machine |"
    assert "oracle" not in costs, "nothing is trained"
    origin = find_section(text, "origin")
    assert "Not run: fone on sort." in origin and "Rows with 1 seed, of which nobody knows" in origin
    assert "they vary: waves." in origin
    absent = [row for row in schemes.ROWS if f"`{row}`" not in costs]
    assert f"{len(absent)} rows of `configs/schemes.py` have no cell here: {', '.join(absent)}." in origin


def test_means_are_those_of_rows_with_every_column(out):
    """By hand, from the cells. fone has no cell on sort, xval none with a meaning on copy, and oracle is no row."""
    section = find_section((out / "grid.md").read_text(), "means")
    head, _, *lines = [line.strip("| ").split(" | ") for line in section.strip().splitlines()]
    rows, at = {line[0].strip("`"): line for line in lines}, head.index("Numbers of 8 digits")
    shares: dict[str, dict[str, list[float]]] = {}
    for cell in list_cells(out):
        if "length 8" in cell["streams"] and cell["row"] != "oracle":
            shares.setdefault(cell["row"], {}).setdefault(cell["column"], []).append(
                cell["streams"]["length 8"]["exact"]
            )
    means = {row: np.mean([np.mean(v) for v in own.values()]) for row, own in shares.items() if len(own) == 4}
    assert set(rows) == set(means) and not {"fone", "xval"} & set(rows)
    best = max(means, key=means.__getitem__)
    for row, mean in means.items():
        assert rows[row][at] == (f"**{100 * mean:.1f}**" if row == best else f"{100 * mean:.1f}")
    last = [float(line[-1].strip("* ")) for line in lines]
    assert last == sorted(last, reverse=True), "the best on all streams together stands first"


def test_the_baseline_copy_stands_among_the_means_and_is_never_bold(tmp_path):
    write_cells(tmp_path, ["digits", "oracle"], ["add", "mul"])
    for column in ("add", "mul"):
        write_cell(tmp_path, make_cell("oracle", column, 0) | {"row": "copy"})
    files.write(tmp_path)
    section = find_section((tmp_path / "grid.md").read_text(), "means")
    rows = [line.strip("| ").split(" | ") for line in section.strip().splitlines()[2:]]
    assert [row[:2] for row in rows] == [["`copy`", "baselines"], ["`digits`", "layout"]]
    assert not any("*" in text for text in rows[0]) and all("*" in text for text in rows[1][2:])


def load_docs_settings(folder):
    """docs/conf.py as if `folder` were the checkout."""
    (folder / "docs").mkdir(exist_ok=True)
    (folder / "docs/experiments").symlink_to(folder / "experiments")
    return runpy.run_path(str(shutil.copy(DOCS / "conf.py", folder / "docs/conf.py")))


@pytest.mark.parametrize("is_committed", [False, True])
def test_the_page_of_the_results_is_in_the_documentation_as_soon_as_they_are(is_committed, checkout, monkeypatch):
    root, results = checkout
    monkeypatch.setattr(sys, "path", [*sys.path])
    if not is_committed:
        (results / "grid.md").unlink()
    settings = load_docs_settings(root)
    content = [(DOCS / "results/index.md").read_text()]
    settings["list_grid_page"](None, "results/index", content)
    assert ("explanation/number.md" in settings["exclude_patterns"]) == (not is_committed)
    assert content[0].splitlines().count("../explanation/number") == is_committed


def test_the_page_of_the_results_shows_parts_that_there_are(checkout):
    _, results = checkout
    page, table_text = (DOCS / "explanation/number.md").read_text(), (results / "grid.md").read_text()
    marks = re.findall(r":(?:start-after|end-before): (<!-- .* -->)", page)
    assert len(marks) == 6 and [table_text.count(mark) for mark in marks] == [1] * 6
    paths = re.findall(r"\.\./experiments/grid/results/cpu/(\S+?)[)\s]", page)
    assert set(paths) == {"grid.md", "grid.png"} and all((results / name).is_file() for name in paths)


def test_rows_that_are_equally_good_are_named_together(tmp_path):
    for row in ("digits", "carry", "ntl", "abacus"):
        cell = make_cell(row, "add", 0)
        cell["streams"] = {"inside": {"exact": 1.0}, "length 8": {"exact": 0.0}}
        write_cell(tmp_path, cell)
    files.write(tmp_path)
    best = find_section((tmp_path / "grid.md").read_text(), "best")
    assert "| `add` | digits, ntl and 2 more 100.0 | nobody |" in best


def test_committed_cells_go_on_in_another_folder(tmp_path):
    first, second, results = (tmp_path / name for name in ("first", "second", "results"))
    write_cells(first, ["digits", "carry"], ["add", "mul"])
    write_settings(first, "digits", "present")
    (first / "cells/half.json").write_text("{")
    paths = archive.pack(first, results)
    assert sorted(path.name for path in paths) == ["carry.json.gz", "digits.json.gz"]
    before = [path.read_bytes() for path in paths]
    cell = first / "cells/cpu.digits.add.seed0.json"
    (second / "cells").mkdir(parents=True)
    (second / "cells" / cell.name).write_text("of its own")
    count, conflicts = archive.unpack(results, second)
    assert count == len(list((first / "cells").glob("cpu.*"))) - 1
    assert len(conflicts) == 1 and "half a file" in conflicts[0], "a line says that it is not taken"
    assert (second / "cells" / cell.name).read_text() == "of its own"
    (second / "cells" / cell.name).write_text(cell.read_text())
    for path in (*(first / "cells").glob("cpu.*"), *(first / "settings").glob("*")):
        assert json.loads((second / path.relative_to(first)).read_text()) == json.loads(path.read_text())
    assert archive.unpack(results, second) == (0, [])
    archive.pack(second, results)
    assert [path.read_bytes() for path in paths] == before, "the same cells are the same bytes"


def test_a_report_keeps_the_rows_that_were_committed_before(tmp_path, capsys):
    first, second, results = (tmp_path / name for name in ("first", "second", "results"))
    for folder_of_cells, row in ((first, "digits"), (second, "carry")):
        write_cells(folder_of_cells, [row, "oracle"], ["add"])
        for key in (row, "oracle"):
            write_settings(folder_of_cells, key, "present")
        tool.main([f"--out={folder_of_cells}", f"--results={results}", "--dirty"])
    assert "are there now" in capsys.readouterr().out
    content = json.loads((results / "cpu/grid.json").read_text())
    assert set(content["rows"]) == {"digits", "carry", "oracle"}


def test_a_committed_cell_is_never_replaced_by_another_result(tmp_path, capsys):
    first, second, results = (tmp_path / name for name in ("first", "second", "results"))
    for out, key, size in ((first, "digits", 10), (second, "older", 9)):
        write_cell(out, make_cell("digits", "add", 0, key=key))
        write_settings(out, key, "present", **{"task.size": size})
    (path,) = archive.pack(first, results)
    before = path.read_bytes()
    own = second / "cells/cpu.digits.add.seed0.json"
    (line,) = archive.unpack(results, second)[1]
    assert f"{own}: {path} has another result (task.size is 10, not 9)" in line
    with pytest.raises(UsageError, match=rf"task\.size is 10, not 9.*remove {path}; to keep it, remove"):
        tool.main([f"--out={second}", f"--results={results}", "--dirty"])
    assert line in capsys.readouterr().out
    own.write_text("{")
    write_cell(second, make_cell("digits", "mul", 0))
    with pytest.raises(UsageError, match=r"half a file.*remove"):
        archive.pack(second, results)
    assert path.read_bytes() == before and not (results / "cpu/grid.json").exists()
    path.unlink()
    assert archive.pack(second, results) == [path], "the user has removed it"


def test_step_times_are_committed_and_never_replaced(tmp_path):
    first, results, second = (tmp_path / name for name in ("first", "results", "second"))
    write_cells(first, ["digits", "carry"], ["add"])
    path = write_step_times(first, {"digits": 250, "carry": 50})
    archive.pack(first, results)
    files.publish(files.make_report(first), results)
    assert archive.unpack(results, second) == (6, [])
    copied = second / path.name
    assert copied.read_bytes() == path.read_bytes() == (results / "cpu/step_times.json").read_bytes()
    write_step_times(second, {"digits": 250, "carry": 60})
    before = copied.read_bytes()
    assert archive.unpack(results, second) == (0, [f"{copied}: {results}/cpu/step_times.json has other step times"])
    with pytest.raises(UsageError, match=r"step_times.json: .*step_times.cpu.json has other step times: remove one"):
        archive.pack(second, results)
    assert copied.read_bytes() == before and (results / "cpu/step_times.json").read_bytes() == path.read_bytes()


def test_committed_step_times_are_checked(committed_results):
    path = write_step_times(committed_results, {"digits": 250, "carry": 50})
    path = path.rename(committed_results / "cpu/step_times.json")
    ((_, _, message),) = committed.check(committed_results)
    assert message == "rows: is not what the committed cells give", "the table was made without a clock"
    with tempfile.TemporaryDirectory() as out:
        archive.unpack(committed_results, pathlib.Path(out))
        files.publish(files.make_report(pathlib.Path(out)), committed_results)
    assert not list(committed.check(committed_results))
    path.write_text("{}")
    (first, _, message), *_ = committed.check(committed_results)
    assert first == path and message.startswith("holds no step times")


def test_a_cell_that_the_folder_lacks_stays_committed(tmp_path):
    first, second, results = (tmp_path / name for name in ("first", "second", "results"))
    write_cell(first, make_cell("digits", "add", 0))
    write_cell(second, make_cell("digits", "mul", 0))
    for out in (first, second):
        (path,) = archive.pack(out, results)
    assert archive.load(path).keys() == {f"cells/cpu.digits.{column}.seed0.json" for column in ("add", "mul")}


def test_cells_of_uncommitted_code_are_not_committed(tmp_path):
    write_cell(tmp_path / "out", make_cell("carry", "add", 0))
    write_cell(tmp_path / "out", make_cell("digits", "add", 0, dirty=True))
    with pytest.raises(UsageError, match=r"cpu\.digits\.add\.seed0\.json: made by code that was not committed"):
        archive.pack(tmp_path / "out", tmp_path / "results")
    assert not (tmp_path / "results").exists()


@pytest.fixture
def committed_results(tmp_path):
    """A folder of committed results of one row, with a key that follows from its settings."""
    out, results, options = tmp_path / "out", tmp_path / "results", {"grid.problems": "present", "task.size": 10}
    key = identity.make_key(options)
    for seed in range(3):
        write_cell(out, make_cell("digits", "add", seed, key=key))
    write_settings(out, key, "present", **{"task.size": 10})
    tool.main([f"--out={out}", f"--results={results}", "--dirty"])
    return results


def test_committed_cells_and_their_table_agree(committed_results):
    assert not list(committed.check(committed_results))
    table = committed_results / "cpu/grid.json"
    content = json.loads(table.read_text())
    content["cells"][0]["values"]["all"][1] += 1e-6
    table.write_text(json.dumps(content))
    ((path, _, message),) = committed.check(committed_results)
    assert path == table and message == "digits, add: is not what the committed cells give"
    (committed_results / "cpu/cells/digits.json.gz").write_bytes(b"no gzip")
    (_, _, damage), (_, _, message) = committed.check(committed_results)
    assert "damaged" in damage and message == "no cells are committed beside it"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"dirty": True}, "made by code that was not committed"),
        ({"key": "another"}, "its settings are not in the file"),
        ({"column": "mul"}, "is another cell: cpu, digits, mul, seed 1"),
        ({"form": 0}, "an older form"),
        ({"ceiling": {"inside": 0.2}}, "inside: more answers are right than the row can write"),
        ({"seconds": 1.0}, "rows: is not what the committed cells give"),
    ],
)
def test_a_committed_cell_that_is_edited_is_named(committed_results, edit, message):
    path = committed_results / "cpu/cells/digits.json.gz"
    content = archive.load(path)
    content["cells/cpu.digits.add.seed1.json"] |= edit
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    assert any(message in problem.message for problem in committed.check(committed_results))


def test_committed_settings_are_those_of_their_key(committed_results):
    path = committed_results / "cpu/cells/digits.json.gz"
    content = archive.load(path)
    (name,) = (name for name in content if name.startswith("settings/"))
    content[name]["task.size"] = 9
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    assert next(iter(committed.check(committed_results))).message == f"{name}: is not what its name says"


@pytest.mark.parametrize(
    "content", [b"no gzip", b"[]", b'{"cells/a.json": 1}', b'{"../escape.json": {}}', b'{"cells/a/b.json": {}}']
)
def test_a_file_that_holds_no_cells_is_one_line(content, tmp_path):
    path = tmp_path / "results/cpu/cells/a.json.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(content if content == b"no gzip" else gzip.compress(content))
    with pytest.raises(UsageError, match=r"damaged|holds no cells") as error:
        archive.unpack(tmp_path / "results", tmp_path / "out")
    assert "\n" not in str(error.value) and not (tmp_path / "out").exists()
