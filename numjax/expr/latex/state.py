"""The state of a reader: its position in the formula, what surrounds it, and which bars belong together."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from numjax.expr.latex.lexer import END, WIDE
from numjax.expr.operators import CONNECTIVE, INFIX, LOGIC, TERMS, Infix
from numjax.expr.rules import Rules
from numjax.expr.tree import Tree

# Groups in groups: each costs a few frames of Python's stack, which holds 1,000.
MAX_NESTING = 100
LARGEST = 200_000  # nodes: a chain a = b = c holds b twice, and chains in chains twice twice

MISSING = Tree("W", "")
PADDING = Tree("E", "")

CLOSERS = frozenset(
    [END, ")", "]", "}", r"\}", r"\rangle", r"\rfloor", r"\rceil", r"\rvert", r"\rVert", r"\right", "&", r"\end"]
) | {r"\middle"}
FRACTIONS = frozenset([r"\over", r"\atop", r"\choose", r"\above"])
SEPARATORS = frozenset([",", ";", ".", WIDE, r"\\"])
STOPS = CLOSERS | SEPARATORS | FRACTIONS
BARS = frozenset(["|", r"\|", r"\mid"])
SCRIPTS = frozenset(["^", "_", "'", "!", "%", r"\%", r"\degree"])
# Signs between statements.
JOINING = frozenset(sign for sign, infix in INFIX.items() if infix.power in (CONNECTIVE, *LOGIC))
# These follow an operand without an operator, but are no factors.
ANNOTATIONS = frozenset([r"\pmod", r"\mod", r"\pod"])
DIGITS = frozenset("0123456789")
_GROUP_STARTS = frozenset(["{", "(", "[", r"\{", r"\left", r"\begin"])
_GROUP_ENDS = frozenset(["}", ")", "]", r"\}", r"\right", r"\end"])
_SIZED = frozenset([r"\left", r"\right", r"\middle"])  # the next token is a delimiter of theirs
_LONE = "lone"


class Parts(NamedTuple):
    """Formulas in a row.

    Attributes:
      chains: of each, its operands with relations between them: [operand, (type, symbol, head, power), operand, …].
      wides: whether wide space and no comma follows it. semicolon: whether there is one among the separators.
    """

    chains: list[list]
    wides: list[bool]
    semicolon: bool


class Stop(Exception):
    """The formula cannot be read: message and index of the token."""

    def __init__(self, message: str, index: int):
        super().__init__(message)
        self.message = message
        self.index = index


Action = Callable[..., "Tree | None"]


@functools.lru_cache(maxsize=1 << 13)
def make_leaf(kind: str, symbol: str) -> Tree:
    """A leaf, the same object for the same symbol."""
    return Tree(kind, symbol)


def make_sign(op: Infix, published: bool) -> Tree:
    """An operator's sign on its own: r_+ has the bare plus as its index."""
    kind, symbol = op.published if published else (op.type, op.symbol)
    return make_leaf("V" if kind == "F" else kind, symbol)


def hint(head: Tree) -> str:
    """The symbol of a compound operator: its operator without scripts, "O!sum" for a sum with a lower bound."""
    first = head.children[0] if head.children else head
    return f"{first.type}!{first.symbol}"


# Words that join or condition statements and name no quantity.
_CONNECTING = frozenset(
    "or and if when whenever where for with then so but iff implies because since hence thus while otherwise unless "
    "such s.t. only assuming provided given".split()
)


@functools.lru_cache(maxsize=1 << 12)
def is_connective(token: str) -> bool:
    """Whether a token of text begins with a word that joins statements."""
    if not token.startswith(("\\text", r"\mbox", r"\hbox")):
        return False
    words = token[token.index("{") + 1 : -1].replace(",", " ").split()
    if words and all(len(word) == 1 for word in words):
        words = ["".join(words)]  # as some corpora set their letters apart
    # SO is a group, IF the name of a function.
    return bool(words) and words[0].lower() in _CONNECTING and (words[0].islower() or words[0].istitle())


class ReaderState:
    """A formula while it is read: its tokens, the current index, and what surrounds it."""

    __slots__ = (
        "as_published", "atoms", "bar", "bars", "calls", "changes", "environments", "font", "i", "in_integrand",
        "in_set", "is_comma_list", "kets", "level", "rules", "tokens",
    )  # fmt: skip

    def __init__(self, tokens: list[str], rules: Rules, atoms: dict[str, Tree | Action]):
        self.tokens = tokens
        self.rules = rules
        self.calls = rules.calls
        self.atoms = atoms
        self.i = 0
        self.level = 0
        self.font: str | None = None
        self.bar = ""  # the bar that closes the current group
        self.in_set = False
        self.in_integrand = False
        self.environments = 0
        self.is_comma_list = False  # whether the last parenthesis can hold the arguments of a function
        self.as_published = not rules.products
        if self.as_published:
            self.tokens = tokens = [TERMS.get(token, token) for token in tokens]
        self.changes: list[tuple[int, str]] = []  # changed tokens: index, and the token before
        self.bars: dict[int, int] = {}
        self.kets: set[int] = set()
        if "|" in tokens or r"\|" in tokens or (r"\mid" in tokens and r"\rangle" in tokens):
            self._match_bars()

    def enter(self) -> None:
        self.level += 1
        if self.level > MAX_NESTING:
            raise Stop(f"nested more than {MAX_NESTING} deep", self.i)

    def raise_unclosed(self, opener: str, start: int) -> None:
        token = self.tokens[self.i]
        if token == END or token in ("}", "&", r"\\"):
            raise Stop(f"{opener} is not closed", start)
        raise Stop(f"{token} where {opener} should be closed", self.i)

    def skip_bracket(self) -> None:
        """[2em] behind \\\\: skipped."""
        i = self.i + 1
        while self.tokens[i] not in ("]", END, "{", "}"):
            i += 1
        if self.tokens[i] == "]":
            self.i = i + 1

    def _match_bars(self) -> None:
        """For every bar, how many follow it in the same group, and whether \\rangle comes before the next one.

        A \\rangle without its \\langle has no other opener than the bar before it, also if commas stand between them.
        """
        counts: list[dict[str, int]] = [{}]
        nearest: list[str] = [""]
        tokens = self.tokens
        lone_angles = self._find_lone_angles() if r"\rangle" in tokens else set()
        for i in range(len(tokens) - 1, -1, -1):
            token = tokens[i]
            if token in BARS:
                if i and tokens[i - 1] in _SIZED:
                    continue
                if nearest[-1] in (r"\rangle", _LONE) and token != r"\|":
                    self.kets.add(i)
                    nearest[-1] = token
                    continue
                nearest[-1] = token
                if token == r"\mid":
                    continue
                count = counts[-1].get(token, 0)
                self.bars[i] = count
                counts[-1][token] = count + 1
            elif token in (r"\rangle", r"\langle"):
                if not i or tokens[i - 1] not in _SIZED:
                    nearest[-1] = _LONE if i in lone_angles else token
            elif token in _GROUP_ENDS:
                counts.append({})
                nearest.append("")
            elif token in _GROUP_STARTS and len(counts) > 1:
                counts.pop()
                nearest.pop()
            elif token in (",", ";", WIDE, "&", r"\\"):
                if nearest[-1] != _LONE or token in ("&", r"\\"):
                    nearest[-1] = ""
            elif (token in JOINING and not self.as_published) or (token[-1:] == "}" and self.is_connective_at(i)):
                # Two bars of a modulus stand on one side of a connective: an odd one there has no partner.
                counts[-1] = {bar: count for bar, count in counts[-1].items() if count % 2 == 0}

    def _find_lone_angles(self) -> set[int]:
        """The indices of each \\rangle that has no \\langle before it in the same group."""
        lone: set[int] = set()
        n_open = [0]
        for i, token in enumerate(self.tokens):
            if token == r"\langle":
                n_open[-1] += 1
            elif token == r"\rangle":
                if n_open[-1]:
                    n_open[-1] -= 1
                elif i and self.tokens[i - 1] not in _SIZED:
                    lone.add(i)
            elif token in _GROUP_STARTS:
                n_open.append(0)
            elif token in _GROUP_ENDS and len(n_open) > 1:
                n_open.pop()
        return lone

    def is_connective_at(self, index: int) -> bool:
        """Whether a token is text that stands between formulas, as in x = 1 \\text{ or } x = 2, and no name with a
        script or an argument."""
        token = self.tokens[index]
        if self.as_published or len(token) < 2 or token[-1] != "}" or not is_connective(token):
            return False
        next_token = self.tokens[index + 1]
        return next_token not in ("_", "^") and (next_token != "(" or token[-2] == " " or "{ " in token)

    def change(self, index: int, token: str) -> None:
        """Replaces a token, until `undo`."""
        self.changes.append((index, self.tokens[index]))
        self.tokens[index] = token

    def undo(self, start: int) -> None:
        """Goes back to a token, and restores the tokens that were changed from there on."""
        while self.changes and self.changes[-1][0] >= start:
            index, self.tokens[index] = self.changes.pop()
        self.i = start

    def opens_group(self, i: int) -> bool:
        """Whether the bar at i, between two operands, opens a group: then an odd number follows."""
        return i in self.kets or self.bars.get(i, 0) % 2 == 1

    def is_relation_bar(self, token: str) -> bool:
        """Whether the bar here is a relation: it neither closes the current group nor opens one."""
        return not self.in_set and self.bar not in (token, "any") and not self.opens_group(self.i)
