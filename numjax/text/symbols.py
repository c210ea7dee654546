"""The mathematical part of a vocabulary: the symbols of operator trees as marks, and what each stands for.

A symbol's mark is called "KIND TYPE SYMBOL" ("OP U eq", "VAR V x", "NUM N 7"), a special token "KIND ! NAME". So they
are saved, restored and inherited like any mark. Their order is that of MathGPT's output layer: start, end of
formula, variables, numbers, operators, END.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from numjax.errors import UsageError
from numjax.expr.tree import Tree
from numjax.text.base_vocabulary import BaseVocabulary

START, STOP, END = "[FORMULA]", "[/FORMULA]", "END ! END"
VAR, NUM, OP = "VAR", "NUM", "OP"
KIND = dict.fromkeys("UOFM+TWE", OP) | dict.fromkeys("VC-", VAR) | {"N": NUM}
LEAVES = "VC-N"  # types whose nodes have no children

DIGITS = "0123456789."
SIGNS = "+-eE"
# What each type's symbols are spelled under when the vocabulary lacks them; variables are spelled bare.
SPELL = {kind: f"OP ! SPELL {kind}" for kind in KIND}
UNKNOWN = ("VAR ! UNK", "NUM ! UNK", "OP ! UNK")
PADDING, ANON, ERROR = "VAR ! PAD", "OP ! ANON", "OP ! ERROR"
NUMBER, TEXT = "OP ! NUMBER", "OP ! TEXT"

# The n-th number of the text before a formula, where a formula points to it instead of spelling its digits.
POINTER = "NUM ! #{}"

# How many symbols of a type become tokens, the most frequent first (MathGPT's caps; its numbers are spelled anyway).
CAPS = {"T": 1000, "V": 1000, "N": 0}


def marks(
    counts: Mapping[str, Mapping[str, int]], *, numbers: int = 0, least: int = 1, caps: Mapping[str, int] = CAPS
) -> tuple[str, ...]:
    """The marks of a mathematical vocabulary, in order.

    Args:
      counts: type → symbol → how often it occurs.
      numbers: so many of the most frequent numbers of several characters become tokens of their own.
      least: symbols that occur less often are left out. caps: type → most symbols of it.
    """
    kept: dict[str, list[tuple[str, str]]] = {VAR: [], NUM: [], OP: []}
    for kind, found in counts.items():
        if kind not in KIND or kind in ("N", "E", "+"):
            continue
        for symbol in most_frequent(found, caps.get(kind), least):
            kept[KIND[kind]].append((kind, symbol))
    several = {symbol: n for symbol, n in counts.get("N", {}).items() if len(symbol) > 1}
    kept[NUM] += [("N", symbol) for symbol in (*DIGITS, *SIGNS)]
    kept[NUM] += [("N", symbol) for symbol in sorted(most_frequent(several, numbers, least))]
    names = {kind: [f"{kind} {type} {symbol}" for type, symbol in sorted(kept[kind])] for kind in (VAR, OP)}
    names[NUM] = [f"NUM {type} {symbol}" for type, symbol in kept[NUM]]
    return (
        *(START, STOP, UNKNOWN[0], PADDING, *names[VAR]),
        *(UNKNOWN[1], *names[NUM]),
        *(UNKNOWN[2], ANON, ERROR, NUMBER, TEXT, *SPELL.values(), *names[OP], END),
    )


def most_frequent(found: Mapping[str, int], cap: int | None, least: int = 1) -> list[str]:
    """Symbols by falling frequency, the first met before others of the same."""
    ranked = [s for s, n in sorted(found.items(), key=lambda item: -item[1]) if n >= least]
    return ranked if cap is None else ranked[:cap]


def count(trees: Iterable[Tree]) -> dict[str, Counter[str]]:
    """type → symbol → how often it occurs."""
    found: dict[str, Counter[str]] = {}
    for tree in trees:
        for node in tree.walk():
            found.setdefault(node.type, Counter())[node.symbol] += 1
    return found


def read_counts(path: str) -> dict[str, dict[str, int]]:
    """MathGPT's vocab.json: {type: {symbol: count}}.

    Raises:
      UsageError: no such file, or not of this form.
    """
    try:
        found = json.loads(pathlib.Path(path).expanduser().read_text())
        return {str(kind): {str(s): int(n) for s, n in of.items()} for kind, of in found.items()}
    except OSError as error:
        raise UsageError(f"cannot read the symbols in {path}: {error.strerror}") from None
    except (ValueError, AttributeError, TypeError) as error:
        raise UsageError(f"{path} is not of the form {{type: {{symbol: count}}}}: {error}") from None


class Symbols:
    """Ids of a vocabulary's mathematical marks, and back.

    Attributes:
      names: id → (kind, type, symbol) of every such mark, type "!" for special ones.
      pointers: ids of `POINTER`, the first number's first.
      first: the least id of all. size: how many ids from there on, other marks between them included.
    """

    def __init__(self, vocab: BaseVocabulary):
        self.vocab = vocab
        self.start, self.stop, self.end = (vocab.mark(name) for name in (START, STOP, END))
        self.names: dict[int, tuple[str, str, str]] = {}
        for name in vocab.marks:
            if found := re.fullmatch(r"(VAR|NUM|OP|END) (.) (.*)", name, re.DOTALL):
                self.names[vocab.mark(name)] = (found[1], found[2], found[3])
        pointers = [POINTER.format(i + 1) for i in range(len(vocab.marks))]
        self.pointers = tuple(vocab.mark(name) for name in pointers if name in vocab.marks)
        known = [self.start, self.stop, *self.names]
        self.first = min(known)
        self.size = max(known) + 1 - self.first
        self._by_key = {(type, symbol): i for i, (_, type, symbol) in self.names.items() if type != "!"}

    def of(self, type: str, symbol: str) -> int | None:
        """The token of a node's symbol, or None."""
        return self._by_key.get((type, symbol))

    def special(self, name: str) -> int:
        """The id of a special token."""
        return self.vocab.mark(name)

    def of_kind(self, kind: str, special: bool = False) -> list[int]:
        """Ids of a kind (VAR, NUM, OP), special ones or the others, in order."""
        return [i for i, (k, type, _) in self.names.items() if k == kind and (type == "!") == special]

    def spelled(self) -> tuple[tuple[int, ...], ...]:
        """For each id from `first` on, the text tokens of its symbol; none for special and empty ones."""
        out: list[tuple[int, ...]] = []
        for i in range(self.first, self.first + self.size):
            _, type, symbol = self.names.get(i, ("", "!", ""))
            out.append(() if type == "!" or not symbol else tuple(self.vocab.encode(symbol)))
        return tuple(out)


def printable(symbol: str) -> bool:
    """Whether a symbol shows on paper: not empty, printable Unicode."""
    return bool(symbol) and symbol.isprintable()


def minimal() -> Sequence[str]:
    """Marks without which no formula can be written: every symbol is spelled."""
    return marks({})
