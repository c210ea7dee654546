"""The pages of docs/: their blocks of code, and the commands in them.

A block of `bash` or `python` is run by a test. One that cannot run there has a line before it that says why:

    % not run: needs SLURM
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import shlex
from collections.abc import Iterator

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
# READMEs of experiments/ and data/ are shown, but belong to these folders; tutorials run when the site is built.
FOLDERS = ("guides", "explanation", "reference")
_BLOCK = re.compile(r"^(?:% not run: ([^\n]+)\n)?```(\S*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
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
    name = page.relative_to(DOCS).with_suffix("").as_posix()
    text = page.read_text(encoding="utf-8")
    return [Block(name, language, code, reason) for reason, language, code in _BLOCK.findall(text)]


def split_commands(code: str) -> Iterator[list[str]]:
    """Yields the words of each `python -m MODULE …` and `make …`, also of one that stands in a word of another."""
    code = _HERE_DOCUMENT.sub("", code).replace("\\\n", " ").replace("|\n", "| ")
    for line in code.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|;<>")
        lexer.whitespace_split = True
        yield from _find_commands(list(lexer))


def _find_commands(words: list[str]) -> Iterator[list[str]]:
    for i, word in enumerate(words):
        if word in ("python", "make") and (word == "make" or words[i + 1] == "-m"):
            end = next((j for j in range(i, len(words)) if words[j] in ("|", ";", "<", ">")), len(words))
            yield words[i:end]
        elif "python -m " in word:
            yield from _find_commands(shlex.split(word.partition("=")[2]))
