"""The table of defects and switches of experiments/grid/README.md: every switch exists, and none is left out."""

from __future__ import annotations

import ast
import re

import pytest

from numjax.build import BASE_OF_KIND, names, options
from numjax.bundled.configs import schemes
from numjax.bundled.experiments.grid.groups import find_group
from tests.conftest import ROOT

SECTION = "## Defects of published schemes, and their switches"
SWITCH = re.compile(r"`([a-z]+)/([a-z0-9_]+) ([a-z0-9_]+)=(\w+)`")


def read_section() -> str:
    text = (ROOT / "experiments" / "grid" / "README.md").read_text(encoding="utf-8")
    return text.split(f"{SECTION}\n", 1)[1].split("\n## ", 1)[0]


def read_value(text: str):
    return ast.literal_eval(text) if text in ("True", "False") or text.isdigit() else text


SWITCHES = [match.groups() for match in SWITCH.finditer(read_section())]


@pytest.mark.parametrize("switch", SWITCHES, ids="/".join)
def test_a_switch_is_an_option_and_not_its_default(switch):
    kind, name, option, value = switch
    assert name in names(kind), f"there is no {kind}/{name}"
    known = options(kind, name)
    assert option in known, f"{kind}/{name} has no option {option}"
    assert type(known[option].default) is type(read_value(value)) and known[option].default != read_value(value)


def test_every_option_that_restores_a_publication_is_in_the_table():
    restoring = {
        (kind, name, option)
        for kind in BASE_OF_KIND
        for name in names(kind)
        for option in options(kind, name)
        if option in ("as_published", "as_printed")
    }
    assert len(restoring) > 10
    assert restoring <= {switch[:3] for switch in SWITCHES}


def test_every_published_row_is_in_the_table():
    lines = [line for line in read_section().splitlines() if line.startswith("| `")]
    rows = {name for line in lines for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert rows == {row for row in schemes.ROWS if find_group(row) != "ours"}
    assert all(line.count("|") == 5 for line in read_section().splitlines() if line.startswith("| "))
