"""XML as a plain tree whose nodes know their offsets; entity bombs and external entities are refused.

defusedxml guards the parser. HTML's named characters (`&alpha;`, `&InvisibleTimes;`) are replaced first, so that
pages without a document type can be read too.
"""

from __future__ import annotations

import bisect
import html.entities
import re
import xml.etree.ElementTree as etree
from collections.abc import Iterator
from typing import Any

import defusedxml
from defusedxml import ElementTree as defused

from numjax.expr.rules import Unreadable

LARGEST = 1 << 24  # characters of a source

# XML's own, which must stay escaped.
_XML_ENTITIES = frozenset(("lt", "gt", "amp", "quot", "apos"))
_ENTITY = re.compile(r"&([A-Za-z][A-Za-z0-9]{1,40});")


class Node:
    """An element: its local name, attributes and contents (nodes and text, in order), and offset in the source."""

    __slots__ = ("attributes", "contents", "name", "offset")

    def __init__(self, name: str, attributes: dict[str, str], offset: int):
        self.name = name
        self.attributes = attributes
        self.contents: list[Node | str] = []
        self.offset = offset

    @property
    def children(self) -> list[Node]:
        """The child elements."""
        return [part for part in self.contents if isinstance(part, Node)]

    @property
    def text(self) -> str:
        """All text below, outer blanks removed."""
        parts: list[str] = []
        stack: list[Node | str] = [self]
        while stack:
            part = stack.pop()
            if isinstance(part, str):
                parts.append(part)
            else:
                stack.extend(reversed(part.contents))
        return "".join(parts).strip()

    def walk(self) -> Iterator[Node]:
        """All elements, parents first, without recursion."""
        stack: list[Node] = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))


def parse_xml(source: str) -> Node | Unreadable:
    """The root of an XML text."""
    if len(source) > LARGEST:
        return Unreadable(f"longer than {LARGEST:,} characters", LARGEST)
    text, origin = _replace_entities(source)
    builder = _Builder(origin)
    parser: Any = defused.XMLParser(target=builder)  # type: ignore[call-arg]
    builder.parser = parser.parser
    try:
        # Half a surrogate pair can be in a string but not in a file.
        builder.encoded = text.encode()
        parser.feed(builder.encoded)
        return parser.close()
    except UnicodeEncodeError as error:
        return Unreadable("half of a surrogate pair is no character", origin(error.start))
    except defusedxml.EntitiesForbidden:
        return Unreadable("entities of its own are refused", builder.find_offset())
    except defusedxml.ExternalReferenceForbidden:
        return Unreadable("external entities are refused", builder.find_offset())
    except defusedxml.DTDForbidden:
        return Unreadable("document types are refused", builder.find_offset())
    except etree.ParseError as error:
        line, column = error.position
        return Unreadable(
            f"not well-formed: {str(error).partition(':')[0]}", origin(_find_offset(text, line, column))
        )


def _replace_entities(source: str) -> tuple[str, Any]:
    """The source with HTML's named characters replaced, and a function from its offsets to the source's."""
    starts, shifts, shift = [0], [0], 0

    def put(match: re.Match[str]) -> str:
        nonlocal shift
        character = None if match[1] in _XML_ENTITIES else html.entities.html5.get(match[1] + ";")
        if character is None:
            return match[0]
        starts.append(match.start() - shift + len(character))
        shift += len(match[0]) - len(character)
        shifts.append(shift)
        return character

    text = _ENTITY.sub(put, source)
    return text, lambda offset: offset + shifts[bisect.bisect_right(starts, offset) - 1]


def _find_offset(text: str, line: int, column: int) -> int:
    """Index of the character in a line (from 1) at a column (from 0, in bytes of UTF-8)."""
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
    return start + len(text[start : start + column].encode()[:column].decode(errors="ignore"))


class _Builder:
    """Makes Nodes of the parser's events."""

    parser: Any
    encoded: bytes

    def __init__(self, origin):
        self._origin = origin
        self._open: list[Node] = []
        self._root: Node | None = None
        self._last_count = (0, 0)

    def find_offset(self) -> int:
        """The parser's offset, in characters of the source."""
        byte = max(self.parser.CurrentByteIndex, 0)
        counted_bytes, characters = self._last_count
        characters += len(self.encoded[counted_bytes:byte].decode(errors="ignore"))
        self._last_count = (max(byte, counted_bytes), characters)
        return self._origin(characters)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        names = {key.rpartition("}")[2]: value for key, value in attributes.items()}
        node = Node(tag.rpartition("}")[2], names, self.find_offset())
        if self._open:
            self._open[-1].contents.append(node)
        else:
            self._root = node
        self._open.append(node)

    def end(self, tag: str) -> None:
        self._open.pop()

    def data(self, text: str) -> None:
        if self._open:
            self._open[-1].contents.append(text)

    def close(self) -> Node:
        assert self._root is not None, "the parser has refused a text without a root"
        return self._root
