"""The README: its commands exist, its parts fit, and it runs as printed."""

from __future__ import annotations

import itertools
import re

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


def test_it_runs_as_printed(tmp_path):
    """At smoke scale, in one folder; `make examples` asks whether the answers are right."""
    for block, following in itertools.pairwise([*BLOCKS, BLOCKS[0]]):
        if block.language == "text" or block.reason:
            continue
        output = pages.run_block(block, tmp_path)
        if following.language == "text":
            lines, printed_lines = output.splitlines(), following.code.splitlines()
            assert len(lines) == len(printed_lines), output
            # What does not depend on what a model has learned.
            assert [line.split()[0] for line in lines[:4]] == [line.split()[0] for line in printed_lines[:4]]
            assert " = " in lines[-1]
