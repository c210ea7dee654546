"""The report of a grid: every number of the cells is there, and bad files cost themselves alone.

All cells are made up (`made_up_cells`).
"""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest

from numjax.bundled.configs import schemes
from numjax.bundled.experiments.grid import groups
from numjax.bundled.experiments.grid.report import __main__ as tool
from numjax.bundled.experiments.grid.report import files, folder, maps, metrics, table
from numjax.errors import UsageError
from tests.made_up_cells import (
    HOSTILE,
    STREAMS,
    list_cells,
    make_cell,
    write_cell,
    write_cells,
    write_step_times,
    write_two_machines,
)


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder_of_cells = tmp_path_factory.mktemp("grid")
    write_cells(folder_of_cells)
    return folder_of_cells


@pytest.fixture(scope="module")
def made(out):
    return files.write(out)


def find_data(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def find_table(text: str) -> str:
    """The scores of the first stream."""
    return text.split("## Every score")[1].split("### ")[1]


# -- what is shown ---------------------------------------------------------------------------------------------------


def test_the_page_holds_every_number_of_every_cell(out, made):
    (grid,) = find_data(made.page)["maps"]
    rows, streams = [row["name"] for row in grid["rows"]], [stream["key"] for stream in grid["streams"]]
    n_numbers = 0
    by_cell = itertools.groupby(list_cells(out), key=lambda cell: (cell["row"], cell["column"]))
    for (row, column), cells in ((names, list(group)) for names, group in by_cell):
        shown = grid["cells"][rows.index(row)][grid["columns"].index(column)]
        assert shown["reason"] == (cells[0]["not_applicable"] or "")
        for metric in metrics.METRICS:
            for stream in [] if metric.key == metrics.EQUAL_SECONDS else ["all", *STREAMS]:
                values = [(c["metrics"] if stream == "all" else c["streams"].get(stream, {})) for c in cells]
                values = [value for value in (entry.get(metric.key) for entry in values) if value is not None]
                np.testing.assert_allclose(shown["values"][metric.key][streams.index(stream)], values, rtol=6e-4)
                n_numbers += len(values)
        for stream, ceiling in cells[0]["ceiling"].items():
            assert shown["ceiling"][streams.index(stream)] == pytest.approx(ceiling, rel=6e-4)
        assert [len(curve) for curve in shown["curves"]] == [len(cell["curve"]) for cell in cells]
        problems = grid["problems"][grid["columns"].index(column)]
        texts = [(*problems[number], written, bool(right)) for number, written, right in shown["examples"]]
        keys = ("stream", "prompt", "gold", "written", "exact")
        assert texts == [tuple(example[key] for key in keys) for example in cells[0]["examples"]]
    assert n_numbers > 4000
    assert grid["cells"][rows.index("fone")][grid["columns"].index("sort")] is None


def test_the_table_has_the_mean_the_deviation_and_the_number_of_seeds(out, made):
    del made
    text = (out / "grid.md").read_text()
    values = [c["streams"]["inside"]["exact"] for c in list_cells(out) if (c["row"], c["column"]) == ("ntl", "add")]
    lines = [line.split(" | ") for line in find_table(text).splitlines() if "`ntl`" in line]
    cell = lines[0][2 + list(find_data((out / "grid.html").read_text())["maps"][0]["columns"]).index("add")]
    assert cell == f"{100 * np.mean(values):.1f} ± {100 * np.std(values, ddof=1):.1f} (3)"
    assert "n/a" in text and "- xval writes no leading zeros: xval on copy." in text and "1 not run" in text
    assert re.search(r"`p1000` \| [0-9.]+ ± [0-9.]+ of 40\.0 \(3\)", text), "the ceiling stands beside the score"
    assert re.search(r"`waves` \| [0-9.]+ \(1\)", text), "one seed has no deviation"


def test_runs_that_diverged_are_counted(tmp_path):
    for seed in range(3):
        write_cell(tmp_path, make_cell("carry", "add", seed, diverged="the loss is NaN at step 9" if seed else None))
    made = files.write(tmp_path)
    assert "(3, 2 diverged)" in (tmp_path / "grid.md").read_text()
    assert find_data(made.page)["maps"][0]["cells"][0][0]["diverged"] == 2


def test_drawing_again_writes_the_same_bytes(out, made):
    del made
    names = ("grid.html", "grid.json", "grid.md", "grid.png")
    before = [(out / name).read_bytes() for name in names]
    files.write(out)
    assert [(out / name).read_bytes() for name in names] == before


def test_every_row_of_the_configs_has_a_group_and_a_strangers_row_is_added():
    assert not [row for row in schemes.ROWS if groups.find_group(row) == groups.ADDED]
    assert groups.find_group("waves") == groups.ADDED
    rows = [*schemes.ROWS, "oracle", "waves"]
    ordered = groups.sort_rows({*rows})
    assert sorted(ordered) == sorted(rows)
    runs = [group for group, _ in itertools.groupby(map(groups.find_group, ordered))]
    assert runs == [group for group in groups.GROUPS if group in runs], "a group stands in one piece"


def test_streams_stand_by_length():
    mixed = ["edges", "length 20", "length 8", "inside", "length 12"]
    assert maps.sort_streams(mixed) == ["inside", "length 8", "length 12", "length 20", "edges"]


# -- what may be compared --------------------------------------------------------------------------------------------


def test_maps_mix_neither_scales_nor_sizes(tmp_path):
    write_cells(tmp_path, ["digits", "carry", "oracle"], ["add", "copy"])
    for row in ("digits", "carry"):
        write_cell(tmp_path, make_cell(row, "add", 0, "smoke"))
        longer = make_cell(row, "add", 7)
        longer["settings"]["steps"] = 9000
        write_cell(tmp_path, longer)
    grids, faults = maps.make_maps(folder.read_cells(tmp_path)[0])
    assert not faults and [grid.name for grid in grids] == ["grid", "grid_cpu", "grid_smoke"]
    for grid in grids:
        trained = [cell for cells in grid.cells.values() for cell in cells if cell.settings]
        assert len({(cell.scale, *(cell.settings[key] for key in maps.SIZES)) for cell in trained}) == 1
    assert [len(grid.cells) for grid in grids] == [6, 4, 2], "a baseline stands in each map of its scale"
    assert sum(len(cells) for grid in grids[:2] for cells in grid.cells.values()) == 12 + 2 + 2 * 6
    assert "9,000 steps" in grids[1].label and "smoke" in grids[2].label


@pytest.mark.parametrize("name", ["aa.json", "zz.json"])
def test_of_two_files_of_a_cell_the_committed_code_counts(tmp_path, name):
    write_cell(tmp_path, make_cell("digits", "add", 0, dirty=True))
    other = make_cell("digits", "add", 0)
    other["streams"]["inside"]["exact"] = 0.123
    (tmp_path / "cells" / name).write_text(json.dumps(other))
    made = files.write(tmp_path)
    assert made.repeated == ["digits, add, seed 0: two files, of which one is shown"]
    assert "12.3 (1)" in (tmp_path / "grid.md").read_text()


def test_at_equal_seconds_every_row_has_as_long_as_the_fastest(out):
    (grid,), _ = maps.make_maps(folder.read_cells(out)[0])
    limit = maps.find_seconds(grid, "add")
    ends = {row: grid.cells[row, "add"][0].curve[-1][1] for row in grid.rows if grid.cells[row, "add"][0].curve}
    assert limit == min(ends.values())
    for row in ends:
        (score, *_) = maps.collect(grid, row, "add", folder.ALL, metrics.EQUAL_SECONDS)
        # The made-up curves are lines from 0.
        last = grid.cells[row, "add"][0].curve[-1]
        assert score == pytest.approx(last[2] * limit / last[1])
    assert maps.score_at(grid.cells["carry", "add"][0], 0.0) == 0


def test_a_score_between_two_validations_is_on_the_line_between_them(out):
    (grid,), _ = maps.make_maps(folder.read_cells(out)[0])
    cell = grid.cells["carry", "add"][0]._replace(curve=[(1, 10.0, 0.2), (2, 20.0, 0.6), (3, 30.0, 0.5)])
    scores = [maps.score_at(cell, seconds) for seconds in (0, 5, 10, 17.5, 20, 30, 99)]
    np.testing.assert_allclose(scores, [0, 0.1, 0.2, 0.5, 0.6, 0.5, 0.5])
    assert maps.score_at(cell._replace(curve=[]), 5) is None


@pytest.fixture
def two_machines(tmp_path):
    return write_two_machines(tmp_path)


def test_seconds_of_several_machines_are_not_compared(two_machines):
    content = files.write(two_machines).contents["grid"]
    assert not any(metrics.EQUAL_SECONDS in cell["others"] for cell in content["cells"])
    assert not content["least_seconds"] and "At equal seconds" not in (two_machines / "grid.md").read_text()


def test_a_clock_replaces_the_seconds_of_several_machines(two_machines):
    # digits is scored at 2,500, …, 10,000 s, carry at 500, …, 2,000. fone, trained in 720 s elsewhere, was not timed.
    write_step_times(two_machines, {"digits": 2500, "carry": 500, "unknown": 10})
    made = files.write(two_machines)
    content = made.contents["grid"]
    by_row = {cell["row"]: cell for cell in content["cells"] if cell["column"] == "add"}
    assert content["least_seconds"] == {"add": 2000.0, "mul": 2000.0} and not made.faults
    curves = {row: make_cell(row, "add", 0)["curve"] for row in ("digits", "carry")}
    assert by_row["carry"]["others"][metrics.EQUAL_SECONDS] == [pytest.approx(curves["carry"][-1]["exact"])]
    first = curves["digits"][0]["exact"]
    assert by_row["digits"]["others"][metrics.EQUAL_SECONDS] == [pytest.approx(first * 2000 / 2500, rel=1e-3)]
    assert metrics.EQUAL_SECONDS not in by_row["fone"]["others"]
    assert by_row["digits"]["validation"] == [curves["digits"][-1]["exact"]]
    (grid,) = find_data(made.page)["maps"]
    rows = {row["name"]: row for row in grid["rows"]}
    assert {name: row["isTimed"] for name, row in rows.items()} == {
        "digits": True, "carry": True, "fone": False, "oracle": False
    }  # fmt: skip
    assert rows["carry"]["seconds"] == 2000 and rows["carry"]["msPerStep"] == 500 and rows["fone"]["seconds"] == 500
    shown = dict(zip(rows, grid["cells"], strict=True))["digits"][grid["columns"].index("add")]["curves"]
    assert [point[1] for point in shown[0]] == [2500, 5000, 7500, 10000]
    text = (two_machines / "grid.md").read_text().split("## At equal seconds")[1]
    assert "33.3 minutes" in text and "made-up (family 1, model 2)" in text
    assert [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")][:2] == [
        "| `carry`",
        "| `digits`",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('{"scale": "cp', "step_times.cpu.json: "),
        ("[]", "step_times.cpu.json: holds no step times"),
        ({"problems": "additions"}, "step_times.cpu.json: has the problems 'additions' and the scale 'cpu'"),
        ({"rows": {"digits": {"step_ms": -1, "ratio": {"median": 1}}}}, "step_times.cpu.json: has the time -1"),
        ({"rows": {}}, "step_times.cpu.json: holds no step times (KeyError: 'digits')"),
    ],
)
def test_a_bad_file_of_step_times_costs_itself_alone(two_machines, change, message):
    path = write_step_times(two_machines, {"digits": 250})
    path.write_text(change if isinstance(change, str) else json.dumps(json.loads(path.read_text()) | change))
    made = files.write(two_machines)
    assert made.n_cells == 8 and len(made.faults) == 1 and made.faults[0].startswith(message)
    assert not made.contents["grid"]["clock"]


# -- bad files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"form": 1, "row": "di', "bad.json: half a file or no JSON"),
        ("[1, 2]", "bad.json: an older form of cells (None)"),
        (json.dumps(make_cell("digits", "add", 0) | {"form": 2}), "bad.json: a newer form of cells (2)"),
        (json.dumps(make_cell("digits", "add", 0) | {"row": None}), '"row" is None'),
        (json.dumps(make_cell("digits", "add", 0) | {"seed": True}), '"seed" is True'),
        (json.dumps(make_cell("digits", "add", 0) | {"curve": [3]}), '"curve" has the point 3'),
        (json.dumps(make_cell("digits", "add", 0) | {"examples": [{}]}), '"examples" has {}'),
        (json.dumps(make_cell("digits", "add", 0) | {"metrics": None}), "neither"),
        (json.dumps(make_cell("digits", "add", 0) | {"streams": {"inside": 3}}), 'the metrics of "inside" are 3'),
        (b"\xff\xfe\x00", "bad.json: half a file or no JSON"),
    ],
)
def test_a_broken_file_costs_itself_alone(content, message, tmp_path, capsys):
    write_cell(tmp_path, make_cell("carry", "add", 0))
    bad = tmp_path / "cells/bad.json"
    bad.write_bytes(content if isinstance(content, bytes) else content.encode())
    tool.main([f"--out={tmp_path}"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and message in lines[0]
    assert "1 cells; 1 files are no cells and left out" in lines[1]
    assert lines[0] in (tmp_path / "grid.md").read_text()
    assert find_data((tmp_path / "grid.html").read_text())["faults"] == lines[:1]


def test_a_folder_without_cells_is_one_line(tmp_path):
    with pytest.raises(UsageError, match=r"no cells/\*\.json in it"):
        tool.main([f"--out={tmp_path}"])
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells/a.json").write_text("{}")
    with pytest.raises(UsageError, match=r"none of 1 files is a cell; the first: a\.json: an older form"):
        tool.main([f"--out={tmp_path}"])
    (tmp_path / "cells/a.json").write_text(json.dumps(make_cell("carry", "add", 0)))
    (tmp_path / "grid.html").mkdir()
    with pytest.raises(UsageError, match=r"cannot write .*grid\.html"):
        tool.main([f"--out={tmp_path}"])


def test_what_was_not_measured_is_no_number(tmp_path):
    cell = make_cell("carry", "add", 0)
    cell["metrics"] |= {"exact": float("nan"), "log_error": float("inf")}
    cell["examples"][0]["written"] = None
    write_cell(tmp_path, cell)
    made = files.write(tmp_path)
    shown = find_data(made.page)["maps"][0]["cells"][0][0]
    assert shown["values"]["exact"][-1] == [] and shown["values"]["log_error"][-1] == []
    assert shown["examples"][0][1] == "" and "NaN" not in made.page


# -- one file --------------------------------------------------------------------------------------------------------


def test_the_page_needs_no_network_and_data_cannot_run(tmp_path):
    cell = make_cell("carry", "add", 0, hardware=HOSTILE)
    cell["examples"][0] |= {"prompt": HOSTILE, "written": HOSTILE + "{{script}}\u2028"}
    write_cell(tmp_path, cell)
    page = files.write(tmp_path).page
    assert not re.search(r"(?:src|href)=\"(?!data:,|#)|@import|url\(|fetch\(|XMLHttp", page.split("</noscript>")[0])
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page), "the name of SVG is not fetched"
    assert "default-src &#x27;none&#x27;" in page
    assert page.count("<script") == page.count("</script>") == 2 and HOSTILE not in page
    data = find_data(page)["maps"][0]
    assert data["problems"][0][0][1] == HOSTILE and data["cells"][0][0]["examples"][0][1].endswith("{{script}}\u2028")


def test_the_picture_names_its_winners(made):
    content = json.loads(json.dumps(made.contents["grid"])) | {"name": "grid"}
    assert table.describe(content) == "carry is best beyond the seeds on 4 of 4 kinds of problem"
    for cell in content["cells"]:  # of three seeds, which all win, one is unlike the others
        cell["values"] = {stream: [*values[:-1], 0.0] for stream, values in cell["values"].items()}
    nobody = "o row is best beyond its seeds on any of the 4 kinds of problem"
    # Of four columns, each the mean of two seeds and a 0.
    values = [cell["values"]["inside"] for cell in content["cells"] if cell["row"] == "carry"]
    mean = 100 * sum(sum(own) / len(own) for own in values) / len(values)
    assert table.describe(content) == f"carry has the highest mean, {mean:.0f}%; n{nobody}" and len(values) == 4
    content["cells"] = [cell for cell in content["cells"] if cell["row"] == "oracle"]
    assert table.describe(content) == f"N{nobody}"
