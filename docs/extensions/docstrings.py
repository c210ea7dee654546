"""Turns the docstrings of numjax, which are plain text with `code` in single backticks, into reStructuredText.

Napoleon then turns their sections (Args, Returns, Raises, Source) into fields.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

SECTIONS = ("Args:", "Returns:", "Raises:", "Attributes:", "Yields:", "Source:")
_CODE = re.compile(r"``.+?``|`[^`]+`", re.DOTALL)
# What reStructuredText would take for markup in text that is none.
_MARKUP = re.compile(r"[*|\\]|(?<=\w)_(?!\w)")
_ITEM = re.compile(r"[-*] |\d+\. ")
# Linen adds these fields to each module.
_LINEN_FIELDS = {"name", "parent", "scope"}


def to_rst(text: str) -> str:
    """A docstring as reStructuredText: code is literal, an indented block is a literal block, all else is escaped."""
    out, is_section_open = "", False
    for kind, block in _split_blocks(text):
        # The lines of a section follow its title without a blank line.
        gap = "\n" if is_section_open and kind == "text" else "\n\n"
        out += (gap if out else "") + (f"::\n\n{block}" if kind == "literal" else escape(block))
        is_section_open = block.split("\n")[-1].strip() in SECTIONS
    return out


def _split_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yields ("literal" or "text", block) for the blocks between blank lines.

    Indented lines are a literal block of their own, unless they belong to a section or to an item of a list. So is a
    table.
    """
    is_in_section, is_in_list = False, False
    for paragraph in re.split(r"\n[ \t]*\n", text.strip("\n")):
        for is_indented, group in itertools.groupby(paragraph.splitlines(), lambda line: line[:1] in (" ", "")):
            lines = list(group)
            if not is_indented:
                is_in_section = lines[-1].strip() in SECTIONS
                is_in_list = bool(_ITEM.match(lines[-1]))
            if all(line.startswith("|") for line in lines):
                yield "literal", "\n".join(f"    {line}" for line in lines)
            else:
                yield ("literal" if is_indented and not (is_in_section or is_in_list) else "text"), "\n".join(lines)


def escape(text: str) -> str:
    """The text with `code` as literals and with every other character that is markup escaped."""
    out, end = [], 0
    for match in _CODE.finditer(text):
        out.append(_MARKUP.sub(r"\\\g<0>", text[end : match.start()]))
        code = " ".join(match[0].strip("`").split())
        # A literal must be apart from the characters of a word.
        before = "\\ " if text[: match.start()][-1:].strip() else ""
        after = "\\ " if text[match.end() :][:1].strip() else ""
        out.append(f"{before}``{code}``{after}" if code else match[0])
        end = match.end()
    return "".join([*out, _MARKUP.sub(r"\\\g<0>", text[end:])])


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = to_rst("\n".join(lines)).splitlines()


def _skip(app: Any, what: str, name: str, obj: Any, is_skipped: bool, options: Any) -> bool | None:
    """Leaves out the fields of tuples, which have no docstring of their own, and the fields that Linen adds."""
    is_tuple_field = type(obj).__name__ == "_tuplegetter"
    return True if is_tuple_field or (what == "class" and name in _LINEN_FIELDS) else None


def setup(app: Any) -> dict[str, Any]:
    """Registers the steps before Napoleon's."""
    app.connect("autodoc-process-docstring", _process, priority=400)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True}
