"""The README and the pages of docs/: their blocks of code, and the commands in them.

A block of `bash` or `python` is run by a test. One that cannot run there has a line before it that says why:

    % not run: needs SLURM

in the README `<!-- not run: needs SLURM -->`.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from absl import flags
from ml_collections import config_flags

from numjax import main
from numjax.bundled.experiments.examples.__main__ import shrink_sizes
from numjax.config import command_line

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# READMEs of experiments/ and data/ are shown, but belong to these folders; tutorials run when the site is built.
FOLDERS = ("guides", "explanation", "reference")
_BLOCK = re.compile(
    r"^(?:(?:%|<!--) not run: ([^\n]+?)(?: -->)?\n)?```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
_HERE_DOCUMENT = re.compile(r"<<'(\w+)'\n.*?^\1$", re.MULTILINE | re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of code: its page, its language, its text, and why it is not run ("" if it is)."""

    page: str
    language: str
    code: str
    reason: str


def list_pages() -> list[pathlib.Path]:
    """The pages that are written by hand, the front page and the tutorials among them."""
    folders = (*FOLDERS, "tutorials", "results")
    return [DOCS / "index.md", *(page for folder in folders for page in sorted((DOCS / folder).glob("*.md")))]


def find_blocks(page: pathlib.Path) -> list[Block]:
    """All blocks of a page, in order; directives have a language in braces, such as {toctree}."""
    name = page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT).with_suffix("").as_posix()
    text = page.read_text(encoding="utf-8")
    return [Block(name, language, code, reason) for reason, language, code in _BLOCK.findall(text)]


def split_commands(code: str) -> Iterator[list[str]]:
    """Yields the words of each `numjax COMMAND …`, `python -m MODULE …` and `make …`, also inside of another's."""
    code = _HERE_DOCUMENT.sub("", code).replace("\\\n", " ").replace("|\n", "| ")
    for line in code.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|;<>")
        lexer.whitespace_split = True
        yield from _find_commands(list(lexer))


def _find_commands(words: list[str]) -> Iterator[list[str]]:
    for i, word in enumerate(words):
        if word in ("numjax", "make") or (word == "python" and words[i + 1] == "-m"):
            end = next((j for j in range(i, len(words)) if words[j] in ("|", ";", "<", ">", "#")), len(words))
            yield words[i:end]
        elif word.partition("=")[2].startswith(("numjax ", "python -m ")):
            yield from _find_commands(shlex.split(word.partition("=")[2]))


def parse_run(words: list[str]) -> tuple[Any, str, str]:
    """(config, mode, workdir) of a run's command, such as `numjax train --config=…`, parsed as it is parsed there.

    Raises:
      UsageError, flags.Error: a flag, a word or a value is wrong.
    """
    values = flags.FlagValues()
    for name in ("set", "workdir", "mode", "input", "prompt", "intervals", "strict", "trust", "distributed"):
        values[name] = flags.FLAGS[name]
    before = {name: (values[name].value, values[name].present) for name in values}
    try:
        resolved_words = command_line.resolve_configs(words[1:])
        config_flags.DEFINE_config_file("config", None, flag_values=values, sys_argv=resolved_words)
        rest = values(resolved_words)
        assert len(rest) == 1, f"not a flag: {rest[1:]}"
        assert words[1] in main.MODES, words
        return values["config"].value, words[1], values["workdir"].value
    finally:
        for name, (value, present) in before.items():
            flags.FLAGS[name].value, flags.FLAGS[name].present = value, present


def write_files(blocks: list[Block]) -> None:
    """Writes the Python blocks that begin with the name of a file, such as "# mine.py"."""
    for block in blocks:
        if block.language == "python" and (match := re.match(r"# (\w+\.py)\n", block.code)):
            pathlib.Path(match[1]).write_text(block.code, encoding="utf-8")


def run_block(block: Block, folder: pathlib.Path) -> str:
    """Runs a block at smoke scale, asserts that it succeeds, and returns what it prints."""
    environment = os.environ | {
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "NUMJAX_CACHE": str(folder / "cache"),
    }
    if block.language == "python":
        command = [sys.executable, "-c", block.code]
    else:
        command = ["bash", "-euc", shrink_sizes(block.code)]
    process = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1200)
    assert process.returncode == 0, f"{block.page}: {block.code}\n{process.stderr[-3000:]}"
    return process.stdout
