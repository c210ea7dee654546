"""The page of a grid in a browser: the map, its filters, the charts and the examples, by mouse and keyboard.

All cells are made up (`made_up_cells`).
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import time

import numpy as np
import pytest

from numjax.bundled.experiments.grid import groups
from numjax.bundled.experiments.grid.report import files
from tests.chromium import Browser, find_chromium
from tests.made_up_cells import (
    COLUMNS,
    HOSTILE,
    ROWS,
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
    folder = tmp_path_factory.mktemp("page")
    write_cells(folder)
    files.write(folder)
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if find_chromium() is None:
        pytest.skip("no chromium is installed: the page cannot be tried in a browser")
    browser = Browser(tmp_path_factory.mktemp("browser"))
    browser.call("Emulation.setFocusEmulationEnabled", enabled=True)
    yield browser
    browser.close()


@pytest.fixture
def page(browser, out):
    browser.open((out / "grid.html").as_uri())
    yield (out / "grid.html").as_uri()
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    assert browser.problems == []
    assert {address.partition("#")[0] for address in browser.requests} == {(out / "grid.html").as_uri()}


ROW_NAMES = "[...document.querySelectorAll('#map tbody th[scope=row] button')].map((b) => b.textContent)"


def find_cell(row: str, column: str) -> str:
    """A script for a cell of the map."""
    return f"""[...document.querySelectorAll('#map td[data-row]')].find((td) =>
        td.getAttribute('aria-label').startsWith({json.dumps(f"{row} on {column}:")}))"""


def choose(browser: Browser, name: str, value: str) -> None:
    browser.evaluate(
        f"(() => {{ const e = document.getElementById('{name}'); e.value = {json.dumps(value)};"
        "e.dispatchEvent(new Event('change')); })()"
    )


def test_every_cell_stands_in_the_map_with_its_range(browser, page, out):
    by_cell = {}
    for cell in list_cells(out):
        by_cell.setdefault((cell["row"], cell["column"]), []).append(cell)
    for (row, column), cells in by_cell.items():
        label = browser.evaluate(f"{find_cell(row, column)}.getAttribute('aria-label')")
        if cells[0]["not_applicable"]:
            assert cells[0]["not_applicable"] in label
            continue
        values = [100 * cell["streams"]["inside"]["exact"] for cell in cells]
        shown = [float(number) for number in re.findall(r"([0-9.]+)\u00a0%", label)]
        wanted = [np.mean(values), min(values), max(values)] if len(values) > 1 else values
        np.testing.assert_allclose(shown, wanted, atol=0.06)
    assert browser.evaluate(f"{find_cell('fone', 'sort')}.getAttribute('aria-label')") == "fone on sort: not run."
    n_cells = browser.evaluate("document.querySelectorAll('#map td[data-row]').length")
    assert n_cells == len(ROWS) * len(COLUMNS)
    browser.evaluate(f"{find_cell('carry', 'add')}.focus()")
    assert "3 seeds from" in browser.text("#tip") and "Best" in browser.text("#tip")
    choose(browser, "stream", "3")  # 20 digits
    assert "It can represent 6.4" not in browser.text("#tip")
    label = browser.evaluate(f"{find_cell('xval', 'add')}.getAttribute('aria-label')")
    assert "It can represent 60" in label
    height = browser.evaluate(f"{find_cell('xval', 'add')}.querySelector('.hatch').getBoundingClientRect().height")
    whole = browser.evaluate(f"{find_cell('xval', 'add')}.getBoundingClientRect().height")
    assert height / whole == pytest.approx(0.4, abs=0.02), "the hatching is the share out of reach"


def test_columns_sort_the_rows(browser, page, out):
    means = {}
    for cell in list_cells(out):
        if cell["column"] == "sort":
            means.setdefault(cell["row"], []).append(cell["streams"]["inside"]["exact"])
    best_first = sorted(means, key=lambda row: -np.mean(means[row]))
    grouped = browser.evaluate(ROW_NAMES)
    means_of = "[...document.querySelectorAll('#map td.mean:not(.missing)')].length"
    assert browser.evaluate(means_of) == len(ROWS) - 2, "a row that lacks a column has no mean: fone, xval"
    click = "document.querySelector('#map [data-sort=sort]').click()"
    browser.evaluate(click)
    assert browser.evaluate(ROW_NAMES) == [*best_first, "fone"], "a row without a score comes last"
    sorting = "document.querySelector('#map [data-sort=sort]').parentElement.getAttribute('aria-sort')"
    assert browser.evaluate(sorting) == "descending" and "best first" in browser.text("#status")
    assert browser.evaluate("document.activeElement.dataset.sort") == "sort", "the focus stays"
    browser.evaluate(click)
    assert browser.evaluate(ROW_NAMES) == [*best_first[::-1], "fone"]
    browser.evaluate(click)
    assert browser.evaluate(ROW_NAMES) == grouped and browser.evaluate(sorting) == "none"
    choose(browser, "metric", "relative_error_median")
    browser.evaluate("document.querySelector('#map [data-sort=add]').click()")
    names = browser.evaluate(ROW_NAMES)
    assert names[0] == "oracle" and names[-1] == "xval", "a small error is better"
    add = "document.querySelector('#map [data-sort=add]').parentElement.getAttribute('aria-sort')"
    assert browser.evaluate(add) == "ascending"


def test_groups_columns_streams_and_metrics_filter(browser, page):
    toggle = "[...document.querySelectorAll('.toggles button')].find((b) => b.textContent === {}).click()"
    browser.evaluate(toggle.format(json.dumps("layout")))
    names = browser.evaluate(ROW_NAMES)
    assert {*names} == {row for row in ROWS if groups.find_group(row) != "layout"}
    assert "layout is hidden: 7 rows, 4 columns" in browser.text("#status")
    browser.evaluate(toggle.format(json.dumps("mul")))
    assert browser.evaluate("document.querySelectorAll('#map thead th').length") == 1 + 3 + 1
    before = browser.evaluate(f"{find_cell('carry', 'add')}.textContent")
    choose(browser, "stream", "3")
    assert browser.evaluate(f"{find_cell('carry', 'add')}.textContent") != before
    choose(browser, "metric", "calibration_error")
    assert browser.evaluate(f"{find_cell('carry', 'add')}.textContent") == "10"
    choose(browser, "metric", "equal_seconds")
    assert browser.evaluate("document.getElementById('stream').disabled")
    address = browser.evaluate("location.hash")
    browser.open(page + address)
    assert "layout" not in browser.text("#map") and browser.evaluate(ROW_NAMES) == names
    assert browser.evaluate("document.getElementById('metric').value") == "equal_seconds"


def test_the_link_to_the_map_changes_nothing_else(browser, page):
    """It is the first thing that the keyboard reaches."""
    choose(browser, "metric", "log_error")
    browser.evaluate("document.querySelector('#map [data-sort=add]').click()")
    names = browser.evaluate(ROW_NAMES)
    browser.evaluate("location.hash = '#map'; dispatchEvent(new HashChangeEvent('hashchange'))")
    assert browser.evaluate(ROW_NAMES) == names and browser.evaluate("state.metric") == "log_error"
    assert browser.evaluate("document.getElementById('map-choice').value") == "0"


def test_an_address_that_names_nothing_shows_the_page(browser, page):
    browser.open(f"{page}#map=none&metric=x&stream=y&column=z&rows=%3Cb%3E,carry&sort=q&without=nothing")
    assert len(browser.evaluate(ROW_NAMES)) == len(ROWS)
    assert browser.evaluate("state.compared.length") == 1


def test_the_keyboard_reaches_everything(browser, page):
    browser.evaluate("document.querySelector('#map td[tabindex=\"0\"]').focus()")
    where = "[document.activeElement.dataset.row, document.activeElement.dataset.column].map(Number)"
    assert browser.evaluate(where) == [0, 0]
    browser.press("ArrowRight")
    assert browser.evaluate(where) == [0, 1]
    browser.evaluate(
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown', bubbles: true}))"
    )
    assert browser.evaluate(where) == [1, 1]
    browser.press("End")
    assert browser.evaluate(where) == [1, 3]
    browser.press("Home")
    assert browser.evaluate("document.querySelectorAll('#map td[tabindex=\"0\"]').length") == 1
    assert browser.evaluate("!document.getElementById('tip').hidden")
    name = browser.evaluate("document.activeElement.getAttribute('aria-label')").split(" on ")[0]
    browser.press("Enter")
    assert browser.evaluate("document.activeElement.id") == "cell-title" and name in browser.text("#facts")
    assert browser.text("#cell-title") == f"One kind of problem: {browser.evaluate('grid.columns[0]')}"
    unnamed = browser.evaluate("""[...document.querySelectorAll('button, input, select, table, svg')].filter((e) =>
        !(e.textContent.trim() || e.ariaLabel || e.labels?.length)).map((e) => e.outerHTML)""")
    assert unnamed == [] and browser.evaluate("document.documentElement.lang") == "en"
    assert browser.evaluate("document.getElementById('status').getAttribute('aria-live')") == "polite"
    for width in (390, 1280):
        browser.set_width(width)
        assert browser.evaluate("document.documentElement.scrollWidth") == width


def test_five_rows_are_compared_at_most(browser, page):
    assert browser.evaluate("state.compared.length") == 5
    press = "[...document.querySelectorAll('#map tbody th button')].find((b) => b.textContent === {}).click()"
    browser.evaluate(press.format("'p1000'"))
    assert "take one out first" in browser.text("#status") and browser.evaluate("state.compared.length") == 5
    browser.evaluate("document.querySelector('#compared button').click()")
    browser.evaluate(press.format("'p1000'"))
    names = browser.evaluate("state.compared.map((row) => grid.rows[row].name)")
    assert len(names) == 5 and names[-1] == "p1000"
    for chart in ("lengths", "seconds"):
        labels = browser.evaluate(f"[...document.querySelectorAll('#{chart} svg .name')].map((t) => t.textContent)")
        assert sorted(labels) == sorted(names), "each line has its name"
        boxes = browser.evaluate(
            f"[...document.querySelectorAll('#{chart} svg .name')].map((t) => t.getBoundingClientRect().toJSON())"
        )
        for a, b in itertools.combinations(boxes, 2):
            apart = a["right"] <= b["left"] or b["right"] <= a["left"] or abs(a["top"] - b["top"]) > 10
            assert apart, "names do not cover each other"


def test_the_page_says_whose_seconds_it_shows(browser, tmp_path):
    two_machines = write_two_machines(tmp_path)
    files.write(two_machines)
    address = (two_machines / "grid.html").as_uri()
    browser.open(address)
    assert "cannot be compared" in browser.text("#clock") and "carry of a server" in browser.text("#clock")
    write_step_times(two_machines, {"digits": 250, "carry": 50})
    files.write(two_machines)
    browser.open(address)
    assert "made-up (family 1, model 2)" in browser.text("#clock")
    assert "Not timed there: fone." in browser.text("#clock")
    label = browser.evaluate("document.querySelector('#seconds svg').getAttribute('aria-label')")
    assert "carry: 50 s" in label and re.search(r"fone: (;|$)", label)
    assert browser.problems == []


def test_names_of_lines_stand_at_their_ends_where_there_is_room(browser, page):
    del page
    moved = browser.evaluate("spread([10, 100, 200, 202, 204].map((y) => ({ x: 0, y })), 14, 204).map((l) => l.y)")
    assert moved == [10, 100, 176, 190, 204]


def test_one_long_answer_leaves_the_others_their_width(browser, tmp_path):
    for row in ("digits", "carry"):
        cell = make_cell(row, "add", 0)
        cell["examples"][0]["written"] = "1" * 500 if row == "carry" else "12"
        write_cell(tmp_path, cell)
    files.write(tmp_path)
    browser.set_width(1200)
    browser.open((tmp_path / "grid.html").as_uri())
    widths = browser.evaluate(
        "[...document.querySelectorAll('#examples thead th')].map((th) => th.getBoundingClientRect().width)"
    )
    assert max(widths) - min(widths) < 2


def test_charts_show_the_scores(browser, page, out):
    browser.open(f"{page}#column=mul&rows=carry,digits")
    label = browser.evaluate("document.querySelector('#lengths svg').getAttribute('aria-label')")
    for row in ("carry", "digits"):
        for stream, name in (("inside", "Lengths of training"), ("length 20", "Numbers of 20 digits")):
            cells = [c for c in list_cells(out) if (c["row"], c["column"]) == (row, "mul")]
            mean = 100 * np.mean([cell["streams"][stream]["exact"] for cell in cells])
            own = label.split(f"{row}: ")[1].split("; ")[0]
            assert float(re.search(rf"{name} ([0-9.]+)", own)[1]) == pytest.approx(mean, abs=0.06)
    assert "exact answers on validation" in browser.evaluate(
        "document.querySelector('#seconds svg').getAttribute('aria-label')"
    )


def test_a_chart_has_the_lengths_that_its_column_has(browser, tmp_path):
    short = make_cell("carry", "mul", 0)
    short["streams"] = {name: short["streams"][name] for name in ("inside", "edges")}
    for cell in (short, make_cell("carry", "add", 0)):
        write_cell(tmp_path, cell)
    files.write(tmp_path)
    lengths = "[...document.querySelectorAll('#lengths text[text-anchor=middle]')].map((t) => t.textContent)"
    for column, wanted in (("add", ["training", "8", "12", "20"]), ("mul", ["training"])):
        browser.open(f"{(tmp_path / 'grid.html').as_uri()}#column={column}")
        assert browser.evaluate(lengths) == wanted
    assert browser.problems == []


def test_examples_show_what_each_row_wrote(browser, page):
    browser.open(f"{page}#column=add&rows=carry,ntl")
    rows = "[...document.querySelectorAll('#examples tbody tr')].map((tr) => tr.innerText)"
    texts = browser.evaluate(rows)
    assert len(texts) == len(STREAMS) and "<b>carry</b>" in texts[0] and "101" in texts[1]
    assert browser.evaluate("document.querySelector('#examples b')") is None
    browser.evaluate("document.getElementById('only-wrong').click()")
    assert len(browser.evaluate(rows)) == 3
    choose(browser, "example-stream", "length 8")
    assert "No examples" in browser.text("#examples")


def test_ceilings_and_origin_are_listed(browser, page):
    choose(browser, "ceiling-stream", "1")
    rows = "[...document.querySelectorAll('#ceilings tbody tr')]"
    line = f"{rows}.find((tr) => tr.innerText.startsWith('p1000')).innerText"
    assert browser.evaluate(line).split()[-len(COLUMNS) :] == ["40"] * len(COLUMNS)
    origin = browser.text("#origin")
    assert "a made-up machine" in origin and "0123abc" in origin and "xval writes no leading zeros" in origin


def test_scales_are_switched_not_mixed(browser, tmp_path):
    write_cells(tmp_path, ["digits", "carry"], ["add"])
    write_cell(tmp_path, make_cell("digits", "copy", 0, "smoke"))
    files.write(tmp_path)
    browser.open((tmp_path / "grid.html").as_uri())
    assert "copy" not in browser.text("#map")
    choose(browser, "map-choice", "1")
    assert "copy" in browser.text("#map") and "carry" not in browser.text("#map")
    assert "smoke" in browser.text("#summary") and browser.problems == []


def test_text_of_cells_does_not_run_in_the_browser(browser, tmp_path):
    cell = make_cell("carry", "add", 0, hardware=HOSTILE) | {"row": HOSTILE}
    cell["examples"][0] |= {"prompt": HOSTILE, "written": HOSTILE}
    path = tmp_path / "cells/0.json"
    path.parent.mkdir()
    path.write_text(json.dumps(cell))
    files.write(tmp_path)
    browser.open((tmp_path / "grid.html").as_uri())
    assert browser.evaluate("document.scripts.length") == 2 and browser.evaluate("document.images.length") == 0
    assert HOSTILE in browser.text("#examples") and HOSTILE in browser.text("#origin") and browser.problems == []


def test_a_cell_with_metrics_alone_is_shown(browser, tmp_path):
    bare = make_cell("carry", "add", 0, streams={}, ceiling={}, curve=[], examples=[], settings={}, hardware=None)
    write_cell(tmp_path, bare | dict.fromkeys(("commit", "slots_per_number", "parameters", "ms_per_step")))
    files.write(tmp_path)
    browser.open((tmp_path / "grid.html").as_uri())
    assert browser.evaluate("document.querySelectorAll('#map td[data-row]').length") == 1
    assert "Nothing to show" in browser.text("#seconds") and "No examples" in browser.text("#examples")
    browser.evaluate("document.querySelector('#map td[data-row]').click()")
    assert browser.problems == []


def luminance(colour: str) -> float:
    """Relative luminance of "rgb(r, g, b)"."""
    parts = np.asarray([float(part) for part in re.findall(r"[0-9.]+", colour)[:3]]) / 255
    return float(
        np.dot([0.2126, 0.7152, 0.0722], np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4))
    )


@pytest.mark.parametrize("is_dark", [False, True])
def test_figures_are_readable_on_their_colours(browser, page, is_dark):
    scheme = "dark" if is_dark else "light"
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    # The page paints its cells again when it hears of the change, which is when a frame is drawn.
    browser.call("Page.captureScreenshot")
    painted = f"getComputedStyle({find_cell('oracle', 'add')}).backgroundColor"
    browser.wait_for(f"isDark.matches === {json.dumps(is_dark)} && {painted} === `rgb(${{colourOf(1).join(', ')}})`")
    pairs = browser.evaluate("""[...document.querySelectorAll('#map td.filled')].map((td) =>
        [getComputedStyle(td).color, getComputedStyle(td).backgroundColor])""")
    pairs.append(
        browser.evaluate("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
    )
    assert len(pairs) > 30
    for text, ground in pairs:
        low, high = sorted((luminance(text), luminance(ground)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ground)
    paper = luminance(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    best, worst = (
        luminance(browser.evaluate(f"getComputedStyle({find_cell(row, 'add')}).backgroundColor"))
        for row in ("oracle", "xval")
    )
    assert abs(best - paper) > abs(worst - paper), "the better, the further from the paper"


def test_it_prints_in_light_colours_without_controls(browser, page):
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.evaluate("getComputedStyle(document.getElementById('choose')).display") == "none"
    assert browser.evaluate("getComputedStyle(document.querySelector('#map td')).printColorAdjust") == "exact"
    width = browser.evaluate("document.getElementById('map').offsetWidth")
    assert 0 < width <= browser.evaluate("document.body.clientWidth")
    browser.call("Emulation.setEmulatedMedia", media="")
    content = base64.b64decode(browser.call("Page.printToPDF")["data"])
    assert content.startswith(b"%PDF") and len(content) > 10_000
    end = time.monotonic() + 10
    while browser.evaluate("isPrinted") and time.monotonic() < end:
        time.sleep(0.05)
    assert not browser.evaluate("isPrinted"), "after printing the page has its own colours again"
