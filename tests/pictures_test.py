"""Pictures: one style everywhere, no text lost or covered, at most five lines; and each shows what its JSON holds."""

from __future__ import annotations

import ast
import importlib
import itertools
import json
import pathlib
import shutil

import numpy as np
import pytest
from matplotlib.text import Text

from numjax.bundled.configs import schemes
from numjax.bundled.experiments import pictures, plots, verify
from numjax.bundled.experiments.dice import table2 as dice_table2
from numjax.bundled.experiments.dice import table3 as dice_table3
from numjax.bundled.experiments.dice import table5 as dice_table5
from numjax.bundled.experiments.grid.report import folder as grid_folder
from numjax.bundled.experiments.grid.report import maps as grid_maps
from numjax.bundled.experiments.grid.report import table as grid_table
from numjax.bundled.experiments.intervals import coverage
from numjax.bundled.experiments.luna import table4 as luna_table4
from numjax.bundled.experiments.mathgpt import figures as mathgpt_figures
from numjax.bundled.experiments.mathgpt import settings as mathgpt_settings
from numjax.bundled.experiments.mathgpt import table3 as mathgpt_table3
from numjax.bundled.experiments.numgpt import fig1, fig3, settings, table1, table2, table3
from numjax.bundled.experiments.problems import ablation
from numjax.errors import UsageError
from numjax.geometry import style
from tests import made_up_cells

ROOT = pathlib.Path(__file__).resolve().parents[1]

# ---------------------------------------------------------------------------------------------------
# Contents as the experiments write them, with made-up numbers.


def make_table(name, module, rows, columns, has_paper=True, has_std=True, **more):
    """A table's content: numbers from 0 to 100, two rows with the same, the first cell without a result."""
    entries = []
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            here = {"mean": 97.0 - 7 * min(i, 4) + 0.1 * j, "std": 1.5 if has_std else None, "n": 3}
            paper = {"mean": 95.0 - 6 * i, "std": None} if has_paper else None
            if column.scale == 1:
                here["mean"], paper = here["mean"] / 100, paper and {"mean": paper["mean"] / 100, "std": None}
            entry = {"row": row, "system": row, "column": column.title, "task": column.task, "metric": column.metric}
            entries.append(entry | {"here": here if i or j else None, "paper": paper})
    content = {"name": name, "drawn_by": module, "tables": {name: entries}}
    return content | {"columns": {name: [column._asdict() for column in columns]}} | more


def make_curves(systems, seeds=2):
    answers = fig1.list_answers()
    x = np.linspace(0, 40, len(answers))
    curves = {}
    for i, system in enumerate(systems):
        confidence = (0.5 + 0.5 * np.sin((1 + 5 * i) * x)).tolist()
        curve = {"confidence": confidence, "accuracy": 0.9 - 0.1 * i, "variation": 2.0}
        curves[system] = {str(seed): curve for seed in range(seeds)}
    content = {"question": fig1.QUESTION, "right": list(fig1.RIGHT), "answers": answers, "curves": curves}
    return content | {"name": "fig1", "drawn_by": "numgpt.fig1"}


def make_f1(labels, longest=5):
    f1 = {
        label: [{str(n): max(0.0, 0.9 - 0.13 * i) for n in range(1, longest + 1)}] * 2
        for i, label in enumerate(labels)
    }
    fig1_data = {"embedded": [5, 51, 52], "natural": [54, 51, 52], "share": [0.4, 0.3]}
    fig1_data["points"] = [[0.0, 0.0], [1.0, 1.0], [1.0, 1.1], [-1.0, 0.3]]
    return {"name": "figures", "drawn_by": "digits.figures", "f1": f1, "fig1": fig1_data}


def make_measures(has_panels=True, count=87):
    measure = {"value": 0.4, "chance": 0.2, "p": 0.01}
    by_system = dict.fromkeys(mathgpt_figures.NEIGHBOURS, measure | {"count": count, "k": 5})
    by_system |= dict.fromkeys(mathgpt_figures.POSITIONS, measure | {"value": -0.2})
    measures = [{"mathgpt": by_system, "gpt": by_system}]
    content = {"name": "figures", "drawn_by": "mathgpt.figures", "measures": measures}
    if has_panels:
        grid = [[float(i % 5), float(i // 5)] for i in range(25)]
        families = ["relation", "sum", "product", "big operator", "quantifier"] * 5
        panel = {"title": "MathGPT, t-SNE with seed 0", "kept": 0.5, "points": grid, "families": families}
        panel |= {"labels": [f"$x_{{{i}}}$" for i in range(25)], "edges": [[0, 1], [1, 2]]}
        content["panels"] = {"fig2.png": [panel], "fig4.png": [panel, panel]}
    return content


def make_ablation(names=None):
    systems = ablation.make_systems()
    figures = {
        name: {"0": dict.fromkeys(ablation.COLUMNS.values(), 0.9 - 0.05 * i)}
        for i, name in enumerate(systems)
        if names is None or name in names
    }
    labels = {name: system.label for name, system in systems.items()}
    return {"name": "ablation", "drawn_by": "problems.ablation", "labels": labels, "figures": figures}


def make_coverage(systems):
    """Two seeds of each system, the first of which is the surest."""
    entries = [
        {
            "system": system,
            "stream": stream,
            "seed": seed,
            "covered": [share**2 / (1 + i) for share in coverage.SHARES],
        }
        for i, system in enumerate(systems)
        for stream in coverage.STREAMS
        for seed in (0, 1)
    ]
    return {"drawn_by": "intervals.coverage", "coverage": entries}


def make_dice_table5(is_real):
    columns = [
        dice_table5.TableColumn(f"F1, {epochs}", dice_table5.name_task(1, epochs), "f1")
        for epochs in dice_table5.EPOCHS
    ]
    data = "squad" if is_real else "stand-in"
    content = make_table("table5", "dice.table5", list(dice_table5.SYSTEMS.values()), columns, data=data)
    tables = {f"Sub-split {split}": content["tables"]["table5"] for split in dice_table5.SPLITS}
    return content | {"tables": tables}


def make_grid(rows, columns, main="inside"):
    """A map of made-up cells."""
    cells = [
        grid_folder.parse_cell(made_up_cells.make_cell(row, column, seed))
        for row in rows for column in columns for seed in range(2)
    ]  # fmt: skip
    cells.append(grid_folder.parse_cell(made_up_cells.make_cell(rows[0], "mme", 0, **made_up_cells.NO_MEANING)))
    (grid,), _ = grid_maps.make_maps(cells)
    return grid_table.make_content(grid, []) | {"name": "grid", "main": main}


LABELS = list(settings.SYSTEMS.values())
DICE_COLUMNS = [dice_table2.make_column(name, high) for name in dice_table2.PROBES for high in dice_table2.HIGHS]
DICE_ROWS = [label for label, _ in dice_table2.SYSTEMS.values()]
DICE_LABELS = list(dice_table3.QUOTED)
SIGMA_ROWS = [f"σ = {sigma:g}" for sigma in fig3.SIGMAS]
CASES = {
    "numgpt.fig1, two": make_curves(["gpt", "numgpt"]),
    "numgpt.fig1, four": make_curves(list(settings.SYSTEMS)),
    "numgpt.fig3": make_table("fig3", "numgpt.fig3", SIGMA_ROWS, [fig3.COLUMN], sigmas=list(fig3.SIGMAS)),
    "numgpt.table1": make_table("table1", "numgpt.table1", ["MAJ", *LABELS], table1.COLUMNS),
    "numgpt.table1, one seed": make_table("table1", "numgpt.table1", LABELS[:2], table1.COLUMNS[:1], True, False),
    "numgpt.table2": make_table("table2", "numgpt.table2", LABELS, table2.COLUMNS, data="titles"),
    "numgpt.table3": make_table("table3", "numgpt.table3", LABELS, table3.COLUMNS),
    "dice.table2": make_table("table2", "dice.table2", DICE_ROWS, DICE_COLUMNS),
    "dice.table2, one row": make_table("table2", "dice.table2", DICE_ROWS[-1:], DICE_COLUMNS),
    "dice.table3": make_table("table3", "dice.table3", DICE_LABELS, dice_table3.COLUMNS, data="stand-in"),
    "dice.table3, news": make_table(
        "table3_news", "dice.table3", DICE_LABELS, dice_table3.COLUMNS, data="FOLDER", variant="news"
    ),
    "dice.table4": make_table("table4", "dice.table4", ["32", "64", "512"], dice_table3.COLUMNS, data="titles"),
    "dice.table5": make_dice_table5(True),
    "dice.table5, stand-in": make_dice_table5(False),
    "luna.table4": make_table(
        "table4", "luna.table4", [row.label for row in luna_table4.SYSTEMS.values()],
        [luna_table4.TableColumn("F1", "fraud", "F1")], data="stand-in",
    ),
    "mathgpt.table3": make_table(
        "table3", "mathgpt.table3", list(mathgpt_table3.LABELS.values()), mathgpt_settings.EQUATION.columns
    ),
    "mathgpt.figures": make_measures(),
    "mathgpt.figures, few symbols": make_measures(False, 4),
    "digits.figures": make_f1(["eq. 1", "place values", "sum", "mean", "max", "min", "median"]),
    "digits.figures, many": make_f1(["eq. 1", "sum", *(f"dice:form=d,dim={2 ** i}" for i in range(9))], 6),
    "grid.report.table": make_grid(tuple(made_up_cells.ROWS), made_up_cells.COLUMNS, "length 20"),
    "grid.report.table, all": make_grid([*schemes.ROWS, "waves", "oracle"], schemes.TASKS),
    "intervals.coverage": make_coverage(list(coverage.SYSTEMS)),
    "intervals.coverage, two": make_coverage(["digits", "numgpt"]),
    "problems.ablation": make_ablation(),
    "problems.ablation, four": make_ablation(["pointed", "no_ranks", "linked", "spelled"]),
}  # fmt: skip


COMMITTED = {
    str(path.relative_to(ROOT)): content
    for path in verify.list_results(ROOT)
    if (content := pictures.load(path)).get("drawn_by")
}


@pytest.fixture(scope="module", params=[*CASES, *COMMITTED])
def drawn(request):
    """The figures of a case, laid out as they are saved."""
    figures = pictures.draw((CASES | COMMITTED)[request.param])
    with style.apply():
        for figure in figures.values():
            figure.draw_without_rendering()
    assert figures
    return figures


def list_texts(figure):
    """The texts that can be seen, with their boxes in pixels."""
    hidden = {
        label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        for label in (tick.label1, tick.label2)
        if not (low := min(axis.get_view_interval())) - 1e-9 <= tick.get_loc() <= max(axis.get_view_interval()) + 1e-9
        or low != low
    }
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text() and text not in hidden]
    return [(text, text.get_window_extent()) for text in texts]


def list_curves(axes):
    return [line for line in axes.lines if line.get_linestyle() != "None" and len(line.get_xdata()) > 2]


def test_no_text_leaves_the_canvas_or_covers_another(drawn):
    for name, figure in drawn.items():
        texts = list_texts(figure)
        assert len(texts) > 5
        for text, box in texts:
            inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
            assert inside, (name, text.get_text(), box, figure.bbox)
        for (first, a), (second, b) in itertools.combinations(texts, 2):
            # Texts beside each other need a gap; lines of text below each other may touch.
            apart = a.x1 + 2 <= b.x0 or b.x1 + 2 <= a.x0 or a.y1 <= b.y0 + 1 or b.y1 <= a.y0 + 1
            assert apart, (name, first.get_text(), second.get_text())


def test_a_panel_has_at_most_five_lines_each_with_its_name_at_its_end(drawn):
    for figure in drawn.values():
        for axes in figure.axes:
            curves = list_curves(axes)
            assert len(curves) <= 5
            is_cloud = not axes.get_xticks().size
            names = [text.get_text().replace("\n", " ") for text in axes.texts]
            for curve in [] if is_cloud else curves:
                assert not axes.get_legend() and len(names) >= len(curves)
                looks = [(c.get_color(), c._unscaled_dash_pattern) for c in curves]
                assert len({str(look) for look in looks}) == len(curves)
                right = axes.transData.transform(curve.get_xydata())[:, 0].max()
                assert any(box.x0 > right for text, box in list_texts(figure) if text in axes.texts)


def test_a_figure_has_a_message_and_named_axes_in_the_same_sizes(drawn):
    sizes = {style.SMALL, style.SMALL + 1, *(style.SETTINGS[f"{key}size"] for key in SIZES)}
    for figure in drawn.values():
        assert figure.get_figwidth() == style.WIDTH
        title = figure._suptitle
        assert len(title.get_text().replace("\n", " ").split()) >= 4 and title.get_weight() == "bold"
        assert {text.get_fontsize() for text, _ in list_texts(figure)} <= sizes
        assert {text.get_fontname() for text, _ in list_texts(figure)} == {"DejaVu Sans"}
        for axes in figure.axes:
            assert axes.get_xlabel() or axes.get_subplotspec().rowspan.stop < axes.get_gridspec().nrows
            has_rows = axes.get_ylim()[0] > axes.get_ylim()[1]
            assert axes.get_ylabel() or figure._supylabel or has_rows
            assert not axes.spines["top"].get_visible()


SIZES = ("figure.title", "axes.title", "axes.label", "xtick.label", "legend.font", "font.")


def test_the_users_own_settings_change_no_picture(tmp_path):
    import matplotlib

    path = tmp_path / "fig1.json"
    path.write_text(json.dumps(CASES["numgpt.fig1, two"]))
    pictures.write(path)
    first = (tmp_path / "fig1.png").read_bytes()
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9, "axes.facecolor": "red", "savefig.dpi": 20}):
        pictures.write(path)
    assert (tmp_path / "fig1.png").read_bytes() == first, "the same numbers make the same file"
    assert len(first) < pictures.MOST_BYTES and b"tIME" not in first and b"Software" not in first


# ---------------------------------------------------------------------------------------------------
# Colours.


def measure_lightness(colour: str) -> float:
    """CIE L* under D65 of a colour such as #0072B2."""
    values = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    luminance = float(np.dot([0.2126, 0.7152, 0.0722], linear))
    return 116 * luminance ** (1 / 3) - 16 if luminance > 216 / 24389 else luminance * 24389 / 27


def test_colours_differ_in_grey():
    lightness = sorted(map(measure_lightness, style.COLOURS))
    assert np.diff(lightness).min() >= style.LIGHTNESS_STEP, lightness
    assert lightness[-1] < 75, "a line must be seen on white"
    assert measure_lightness(style.SHADE) > 85, "the shade lies behind all lines"
    assert max(map(measure_lightness, style.TEXT_COLOURS)) < 48, "a text must be read on white: 4.5 to 1"


def test_colours_differ_without_red_green_vision():
    # Viénot, Brettel and Mollon 1999: colours as seen without medium cones (deuteranopes) or long ones (protanopes).
    rgb = np.asarray([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in style.COLOURS]) ** 2.2
    to_lms = np.asarray([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
    for reduce in ([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]], [[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]]):
        seen = rgb @ (np.linalg.inv(to_lms) @ np.asarray(reduce) @ to_lms).T
        seen = seen.clip(0, 1) ** (1 / 2.2)
        distances = [np.abs(a - b).max() for a, b in itertools.combinations(seen, 2)]
        assert min(distances) > 0.15, distances


def test_a_map_of_quantities_is_ordered_in_grey():
    colours = ["#{:02X}{:02X}{:02X}".format(*colour) for colour in plots.list_colours(17)]
    steps = np.diff([measure_lightness(colour) for colour in colours])
    assert steps.max() < -3, "each step is darker, so that one scale serves all eyes"


def test_35_families_look_different():
    looks = {(i % len(style.COLOURS), i % len(style.MARKS)) for i in range(35)}
    assert len(looks) == 35 and len(style.DASHES) == len({*map(str, style.DASHES)}) == len(style.COLOURS)


# ---------------------------------------------------------------------------------------------------
# Charts.


def test_names_are_moved_as_little_as_it_takes(rng):
    for _ in range(50):
        count = int(rng.integers(1, 6))
        centres, heights = sorted(rng.uniform(0, 30, count)), rng.uniform(5, 15, count).tolist()
        moved = plots.spread(centres, heights)
        gaps = [b - a - (h + g) / 2 for a, b, h, g in zip(moved, moved[1:], heights, heights[1:], strict=False)]
        assert all(gap >= -1e-9 for gap in gaps)
        if all(b - a >= (h + g) / 2 for a, b, h, g in zip(centres, centres[1:], heights, heights[1:], strict=False)):
            np.testing.assert_allclose(moved, centres)


def test_more_than_five_lines_are_refused():
    lines = [plots.Line(str(i), [(0, i, None), (1, i, None)]) for i in range(6)]
    with pytest.raises(ValueError, match="6 lines in a panel"):
        plots.draw_lines("title", {"": lines}, plots.Axis("x"), plots.Axis("y"))


def test_the_best_range_of_a_width_has_no_worse_one_inside():
    assert fig3.find_best_range([(1, 90), (2, 97), (3, 80), (4, 97.5), (5, 96)]) == (4, 5)
    assert fig3.find_best_range([(1, 97), (2, 96.5), (3, 95.1)]) == (1, 3)
    assert fig3.find_best_range([(1, 97)]) == (1, 1)


def test_a_title_follows_the_numbers():
    content = CASES["numgpt.fig1, two"]
    assert list(pictures.draw(content)) == ["fig1.png"]
    title = pictures.draw(content)["fig1.png"]._suptitle.get_text().replace("\n", " ")
    assert title == "NumGPT judges 80% of the answers rightly, GPT with subwords 90%"
    figures = pictures.draw(CASES["numgpt.fig1, four"])
    titles = [figure._suptitle.get_text().replace("\n", " ") for figure in figures.values()]
    assert titles == [
        "NumGPT judges 60% of the answers rightly, GPT with subwords 90%",
        "NumGPT judges 60% of the answers rightly, the other systems 70 to 90%",
    ]
    content = make_table("table1", "numgpt.table1", LABELS, table1.COLUMNS[:2])
    title = pictures.draw(content)["table1.png"]._suptitle.get_text().replace("\n", " ")
    assert title == f"Highest mean accuracy: {LABELS[1]} on MME; {LABELS[0]} on GNC"


# ---------------------------------------------------------------------------------------------------
# Pictures and their JSON.


@pytest.fixture
def folder(tmp_path):
    """A folder of experiments with one table and its picture."""
    results = tmp_path / "numgpt/results/laptop"
    results.mkdir(parents=True)
    shutil.copy(ROOT / "experiments/numgpt/results/laptop/table1.json", results)
    pictures.write(results / "table1.json")
    return tmp_path


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_picture_that_is_older_than_its_json_is_named(folder):
    path = folder / "numgpt/results/laptop/table1.json"
    assert not list(verify.check_pictures(folder))
    edit(path, lambda content: content.update(commit="other", remarks=["what no picture shows"]))
    assert not list(verify.check_pictures(folder))
    edit(path, lambda content: content["tables"]["table1"][6]["here"].update(mean=61.0))
    ((picture, _, message),) = verify.check_pictures(folder)
    assert picture == path.with_suffix(".png") and "does not show what table1.json draws now" in message
    pictures.write(path)
    assert not list(verify.check_pictures(folder))


def test_a_picture_without_json_or_digest_is_named(folder):
    path = folder / "numgpt/results/laptop/table1.png"
    shutil.copy(path, path.with_name("other.png"))
    ((picture, _, message),) = verify.check_pictures(folder)
    assert picture.name == "other.png" and "no JSON" in message
    path.with_name("other.png").unlink()
    path.write_bytes(b"\x89PNG")
    ((_, _, message),) = verify.check_pictures(folder)
    assert "does not show" in message
    path.unlink()
    ((_, _, message),) = verify.check_pictures(folder)
    assert "is missing, and table1.json draws it" in message


def test_a_change_of_a_text_or_a_look_or_a_number_changes_the_digest(monkeypatch):
    def digest(content):
        (figure,) = pictures.draw(content).values()
        return pictures.compute_digest(figure)

    content = make_curves(["gpt", "numgpt"])
    digests = [digest(content), digest(json.loads(json.dumps(content)))]
    assert digests[0] == digests[1]
    content["curves"]["numgpt"]["0"]["confidence"][7] += 1e-3
    digests.append(digest(content))
    content["question"] = "How many grams are 3 eggs?"
    digests.append(digest(content))
    content["right"] = [70, 150]
    digests.append(digest(content))
    monkeypatch.setattr(plots, "COLOURS", style.COLOURS[::-1])
    digests.append(digest(content))
    assert len(set(digests)) == 5


def test_a_picture_that_cannot_be_written_is_one_line(folder):
    path = folder / "numgpt/results/laptop/table1.json"
    path.with_suffix(".png").unlink()
    path.with_suffix(".png").mkdir()
    with pytest.raises(UsageError, match=r"cannot write .*table1\.png \(Is a directory\)"):
        pictures.write(path)


# ---------------------------------------------------------------------------------------------------
# Laws.

# The modules that call matplotlib. `style` is the look, the others use it.
DRAWING = {"numjax.geometry.style", "numjax.geometry.plots", "numjax.geometry.attention"}
DRAWING |= {"experiments.plots", "experiments.pictures"}
METHODS = {
    "annotate",
    "axhline",
    "axvline",
    "axvspan",
    "bar",
    "barh",
    "colorbar",
    "errorbar",
    "hist",
    "imshow",
    "legend",
}
METHODS |= {
    "savefig",
    "scatter",
    "semilogx",
    "set_title",
    "set_xlabel",
    "set_ylabel",
    "set_ylim",
    "subplots",
    "suptitle",
}
COLOUR_NAMES = {"black", "blue", "green", "grey", "gray", "orange", "red"}


def list_modules():
    for folder in ("numjax", "experiments", "data", "configs"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts), ast.parse(path.read_text())


def test_only_drawing_modules_call_matplotlib():
    violations = []
    for name, tree in list_modules():
        if name in DRAWING:
            continue
        for node in ast.walk(tree):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(module.split(".")[0] in ("matplotlib", "PIL") for module in modules):
                violations.append(f"{name}:{node.lineno}: imports matplotlib")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
                violations.append(f"{name}:{node.lineno}: calls {node.func.attr}")
    assert not violations, "; ".join(violations)


def test_colours_and_sizes_are_those_of_the_style():
    """No module but the style names a colour: each takes it from there."""
    for name, tree in list_modules():
        if name in DRAWING - {"numjax.geometry.style"}:
            words = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
            wrong_words = {word for word in words if word.startswith("#") or word in COLOUR_NAMES}
            assert not wrong_words, (name, wrong_words)


def test_every_module_that_draws_has_a_case_here_and_is_named_by_its_json():
    modules = {
        name.removeprefix("experiments.")
        for name, tree in list_modules()
        if name.startswith("experiments.") and name not in DRAWING
        and any(isinstance(node, ast.FunctionDef) and node.name == "draw" for node in tree.body)
    }  # fmt: skip
    assert modules == {case.partition(",")[0] for case in CASES} == {c["drawn_by"] for c in CASES.values()}
    for name in modules:
        module = importlib.import_module(pictures.MODULES + name)
        folder = pathlib.Path(module.__file__).parent
        texts = [
            path.read_text() for path in (folder / "settings.py", pathlib.Path(module.__file__)) if path.exists()
        ]
        assert any(f'"{name}"' in text for text in texts), f"{name} is not named in its JSON"


def test_notebooks_draw_in_the_style():
    paths = sorted((ROOT / "experiments/notebooks").glob("*.ipynb"))
    for path in paths:
        text = "".join(line for cell in json.loads(path.read_text())["cells"] for line in cell["source"])
        assert "plt.rcParams.update(style.SETTINGS)" in text, path.name
        for word in ('"RdBu', "fontsize=", '"#'):
            assert word not in text, (path.name, word)
    assert len(paths) > 2
