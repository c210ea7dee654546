"""The table of defects and switches of experiments/grid/README.md: every switch exists, and none is left out."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest
from absl import flags
from ml_collections import config_flags

from numjax.build import BASE_OF_KIND, build, names, options
from numjax.bundled.configs import schemes
from numjax.bundled.experiments.grid.groups import find_group
from numjax.bundled.experiments.grid.rows import make_config, parse_addition
from numjax.bundled.experiments.grid.scales import Scale
from numjax.config import blocks, fit
from numjax.config.command_line import resolve_configs
from tests.conftest import ROOT

SECTION = "## Defects of published schemes, and their switches"
SWITCH = re.compile(r"`([a-z]+)/([a-z0-9_]+) ([a-z0-9_]+)=([\w.]+)`")


def read_section() -> str:
    text = (ROOT / "experiments" / "grid" / "README.md").read_text(encoding="utf-8")
    return text.split(f"{SECTION}\n", 1)[1].split("\n## ", 1)[0]


def read_value(text: str):
    return ast.literal_eval(text) if text in ("True", "False") or text[0].isdigit() else text


SWITCHES = [match.groups() for match in SWITCH.finditer(read_section())]


@pytest.mark.parametrize("switch", SWITCHES, ids="/".join)
def test_a_switch_is_an_option_of_its_kind(switch):
    kind, name, option, value = switch
    assert name in names(kind), f"there is no {kind}/{name}"
    known = options(kind, name)
    assert option in known, f"{kind}/{name} has no option {option}"
    assert type(known[option].default) is type(read_value(value))
    blocks_of_rows = [
        schemes.get_config(f"{row},smoke")[p] for row in schemes.ROWS for p in find_paths(row, kind, name)
    ]
    defaults = {block.get(option, known[option].default) for block in blocks_of_rows}
    assert (defaults or {known[option].default}) != {read_value(value)}, "the switch changes nothing"


def list_applications() -> list[tuple[str, str]]:
    """(row, change) of each switch in each row of its line that has the part. Parts of papers may have no row."""
    applications, rows = [], []
    for line in read_section().splitlines():
        if not line.startswith("| "):
            continue
        rows = re.findall(r"`(\w+)`", line.split("|")[1]) or rows
        for kind, name, option, value in SWITCH.findall(line):
            paths = [(row, path) for row in rows for path in find_paths(row, kind, name)]
            assert paths or "papers' tables" in line, f"no row of {', '.join(rows)} has {kind}/{name}"
            applications += [(row, f"{path}.{option}={value}") for row, path in paths]
    return applications


def find_paths(row: str, kind: str, name: str) -> list[str]:
    """The blocks of a row that name a part."""
    config: Any = schemes.get_config(f"{row},smoke")
    key, several = next((key, several) for key, (own_kind, several) in blocks.BLOCK_KINDS.items() if own_kind == kind)
    own_blocks = {f"{key}.{path}": block for path, block in config[key].items()} if several else {key: config[key]}
    return [path for path, block in own_blocks.items() if block["name"] == name]


@pytest.mark.parametrize(("row", "change"), list_applications(), ids=lambda word: word)
def test_a_switch_can_be_set_in_a_run_and_in_the_grid(row, change):
    path, _, value = change.partition("=")
    block_path, _, option = path.rpartition(".")
    words = resolve_configs(["numjax.main", f"--config=schemes:{row}", f"--config.{change}"])
    values = flags.FlagValues()
    holder = config_flags.DEFINE_config_file("config", flag_values=values, sys_argv=words)
    values(words)
    added = make_config(parse_addition(f"bare={row} {change}"), Scale("check"), ("add",))
    for config in (holder.value, added):
        fit.check(config, build("tasks", config.task))
        assert config[block_path][option] == read_value(value)


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
