"""Operator trees, with the node types of MathGPT's trees (Tangent-CFT's tags).

| type | stands for                                             | children                        |
|------|--------------------------------------------------------|---------------------------------|
| U    | operator whose order does not matter: eq, plus, times  | operands                        |
| O    | operator whose order matters: divide, SUP, SUB, int    | operands; none: the bare sign   |
| F    | function: sin, log, abs, an accent                     | arguments; none: the bare name  |
| M    | group: list, set, vector, matrix and its rows          | members                         |
| +    | compound operator: a hint of what it is                | the operator itself, operands   |
| E    | error ("cerror"), or without children matrix padding   | what could not be read          |
| V    | variable                                               | none                            |
| N    | number as written                                      | none                            |
| C    | constant: infinity, emptyset                           | none                            |
| T    | text                                                   | none                            |
| W    | something missing                                      | none                            |
| -    | symbol of unknown meaning                              | none                            |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

TYPES = ("U", "O", "F", "M", "+", "E", "V", "N", "C", "T", "W", "-")


class _Draft:
    """A node while its fields are set: much faster than to set those of a tree, which does not allow it."""

    __slots__ = ("_hash", "children", "depth", "size", "symbol", "type")

    type: str
    symbol: str
    children: tuple[Tree, ...] | None
    depth: int
    size: int


class Tree(_Draft):
    """A node and its subtrees. It is immutable and hashed once, when it is made, so looking up a tree takes O(1).

    Attributes:
      type: one of TYPES. symbol: its name ("divide"), or for V, N and T what is written.
      children: trees, or None for a leaf; an empty sequence becomes None.
      depth: levels, 1 for a leaf. size: nodes.
    """

    __slots__ = ()

    def __new__(cls, type: str, symbol: str, children: Sequence[Tree] | None = None) -> Tree:
        draft = _Draft()
        draft.type = type
        draft.symbol = symbol
        deepest, size, hashes = 0, 1, []
        if children:
            draft.children = tuple(children)
            for child in draft.children:
                size += child.size
                hashes.append(child._hash)
                if child.depth > deepest:
                    deepest = child.depth
        else:
            draft.children = None
        draft.depth = deepest + 1
        draft.size = size
        draft._hash = hash((type, symbol, *hashes))
        draft.__class__ = cls
        return draft  # type: ignore[return-value]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"trees do not change: make another one instead of setting {name}")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not Tree or self._hash != other._hash:
            return False
        return (self.type, self.symbol, self.children) == (other.type, other.symbol, other.children)

    def __repr__(self) -> str:
        suffix = "" if self.children is None else f", {list(self.children)!r}"
        return f"Tree({self.type!r}, {self.symbol!r}{suffix})"

    def __reduce__(self):
        return Tree, (self.type, self.symbol, self.children)

    def walk(self) -> Iterator[Tree]:
        """All nodes, parents first, without recursion."""
        stack: list[Tree] = [self]
        while stack:
            node = stack.pop()
            yield node
            if node.children:
                stack.extend(reversed(node.children))

    def to_json(self) -> list[Any]:
        """[type, symbol, [children] or None], the form of the original's articles."""
        children = None if self.children is None else [child.to_json() for child in self.children]
        return [self.type, self.symbol, children]


def from_json(value: Any) -> Tree:
    """The tree of [type, symbol, [children] or None].

    Raises:
      ValueError: it is not of that form, or a type is unknown.
    """
    if not isinstance(value, (list, tuple)) or len(value) != 3:
        raise ValueError(f"a tree is [type, symbol, children], not {str(value)[:60]!r}")
    kind, symbol, children = value
    if kind not in TYPES or not isinstance(symbol, str):
        raise ValueError(
            f"a tree has a type of {' '.join(TYPES)} and a symbol, not {kind!r} and {str(symbol)[:60]!r}"
        )
    if children is None:
        return Tree(kind, symbol)
    if not isinstance(children, (list, tuple)):
        raise ValueError(f"children are a list or null, not {str(children)[:60]!r}")
    return Tree(kind, symbol, [from_json(child) for child in children])
