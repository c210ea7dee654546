"""The README: its commands exist, its parts fit, and it runs as printed."""

from __future__ import annotations

import re

import pytest

from numjax import build, main
from numjax.__main__ import list_tools
from numjax.config import fit
from tests import pages

README = pages.ROOT / "README.md"
BLOCKS = pages.find_blocks(README)


def test_every_block_is_run_is_output_or_says_why_not():
    assert {block.language for block in BLOCKS} == {"bash", "python", "text"}
    assert [block.reason != "" for block in BLOCKS].count(True) == 1
    assert README.read_text("utf-8").count("\n```") == 2 * len(BLOCKS)


def test_every_command_has_flags_that_exist_and_parts_that_fit():
    """Also those in tables, each with the flags of the rows below it."""
    commands = [words for block in BLOCKS for words in pages.split_commands(block.code) if block.language == "bash"]
    start: list[str] = []
    for cell in re.findall(r"`([^`\n]+)`", README.read_text("utf-8")):
        words = cell.split()
        if words[0] == "numjax":
            commands.append(words)
            start = words
        elif cell.startswith("--set="):
            commands.append([*start, *words])
    runs = [words for words in commands if words[0] == "numjax" and words[1] in main.MODES]
    assert sum("--set=" in word for words in runs for word in words) == 6
    for words in runs:
        config, mode, _ = pages.parse_run(words)
        assert mode == "train" and not list(fit.find_faults(config, build.build("tasks", config.task))), words
    for words in commands:
        assert words[0] == "make" or words[1] in {*main.MODES, *list_tools(), "--help"}, words


@pytest.mark.whole
def test_it_runs_as_printed(tmp_path):
    """At smoke scale, in one folder; `make examples` looks whether the answers are right."""
    for block in BLOCKS:
        if block.language != "text" and not block.reason:
            pages.run_block(block, tmp_path)
