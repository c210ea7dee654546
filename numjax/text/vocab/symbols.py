"""The mathematical part of a vocabulary: the symbols of operator trees as marks.

A symbol's mark has the name "KIND TYPE SYMBOL" ("OP U eq", "VAR V x", "NUM N 7"), a special token "KIND ! NAME". So
they are saved, restored and inherited like all marks. Their order is that of MathGPT's output layer: start, end of
formula, variables, numbers, operators, END.
"""

from __future__ import annotations

import pathlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from numjax.errors import UsageError
from numjax.expr.tree import Tree
from numjax.runtime import files
from numjax.text.vocab.base import BaseVocabulary

START, STOP, END = "[FORMULA]", "[/FORMULA]", "END ! END"
VAR, NUM, OP = "VAR", "NUM", "OP"
KIND = dict.fromkeys("UOFM+TWE", OP) | dict.fromkeys("VC-", VAR) | {"N": NUM}
LEAVES = "VC-N"  # types whose nodes have no children

DIGITS = "0123456789."
SIGNS = "+-eE"
# Type → the token before a spelled symbol that the vocabulary lacks; variables are spelled without it.
SPELL = {kind: f"OP ! SPELL {kind}" for kind in KIND}
UNKNOWN = ("VAR ! UNK", "NUM ! UNK", "OP ! UNK")
PADDING, ANON, ERROR = "VAR ! PAD", "OP ! ANON", "OP ! ERROR"
NUMBER, TEXT = "OP ! NUMBER", "OP ! TEXT"

# The mark by which a formula points to the n-th number of the text before it, instead of spelling its digits.
POINTER = "NUM ! #{}"

# Most symbols of a type that become tokens, the most frequent first (MathGPT's caps; it spells numbers anyway).
CAPS = {"T": 1000, "V": 1000, "N": 0}


def list_marks(
    counts: Mapping[str, Mapping[str, int]], *, numbers: int = 0, least: int = 1, caps: Mapping[str, int] = CAPS
) -> tuple[str, ...]:
    """The marks of a mathematical vocabulary, in order.

    Args:
      counts: type → symbol → how often it occurs.
      numbers: how many of the most frequent numbers of several characters become tokens.
      least: symbols that occur less often are left out. caps: type → most symbols of it.
    """
    symbols: dict[str, list[tuple[str, str]]] = {VAR: [], NUM: [], OP: []}
    for kind, frequencies in counts.items():
        if kind not in KIND or kind in ("N", "E", "+"):
            continue
        for symbol in rank_by_frequency(frequencies, caps.get(kind), least):
            symbols[KIND[kind]].append((kind, symbol))
    long_numbers = {symbol: n for symbol, n in counts.get("N", {}).items() if len(symbol) > 1}
    symbols[NUM] += [("N", symbol) for symbol in (*DIGITS, *SIGNS)]
    symbols[NUM] += [("N", symbol) for symbol in sorted(rank_by_frequency(long_numbers, numbers, least))]
    names = {kind: [f"{kind} {type} {symbol}" for type, symbol in sorted(symbols[kind])] for kind in (VAR, OP)}
    names[NUM] = [f"NUM {type} {symbol}" for type, symbol in symbols[NUM]]
    return (
        *(START, STOP, UNKNOWN[0], PADDING, *names[VAR]),
        *(UNKNOWN[1], *names[NUM]),
        *(UNKNOWN[2], ANON, ERROR, NUMBER, TEXT, *SPELL.values(), *names[OP], END),
    )


def rank_by_frequency(frequencies: Mapping[str, int], cap: int | None, least: int = 1) -> list[str]:
    """Symbols by falling frequency; equally frequent ones keep their order."""
    ranked = [s for s, n in sorted(frequencies.items(), key=lambda item: -item[1]) if n >= least]
    return ranked if cap is None else ranked[:cap]


def count_symbols(trees: Iterable[Tree]) -> dict[str, Counter[str]]:
    """Type → symbol → how often it occurs in the trees."""
    counts: dict[str, Counter[str]] = {}
    for tree in trees:
        for node in tree.walk():
            counts.setdefault(node.type, Counter())[node.symbol] += 1
    return counts


def load_counts(path: str) -> dict[str, dict[str, int]]:
    """The counts in MathGPT's vocab.json: {type: {symbol: count}}.

    Raises:
      UsageError: there is no such file, or it does not have this form.
    """
    try:
        counts = files.parse_json(pathlib.Path(path).expanduser().read_bytes())
        return {str(kind): {str(s): int(n) for s, n in by_symbol.items()} for kind, by_symbol in counts.items()}
    except OSError as error:
        raise UsageError(f"cannot read the symbols in {path}: {error.strerror}") from None
    except (ValueError, AttributeError, TypeError) as error:
        raise UsageError(f"{path} is not of the form {{type: {{symbol: count}}}}: {error}") from None


class Symbols:
    """Ids of a vocabulary's mathematical marks, and back.

    Attributes:
      names: id → (kind, type, symbol) of every such mark, type "!" for special ones.
      pointers: ids of `POINTER`, in the order of the numbers.
      first: the least id of all. size: how many ids follow from there, other marks between them included.
    """

    def __init__(self, vocab: BaseVocabulary):
        self.vocab = vocab
        self.start, self.stop, self.end = (vocab.mark(name) for name in (START, STOP, END))
        self.names: dict[int, tuple[str, str, str]] = {}
        for name in vocab.marks:
            if match := re.fullmatch(r"(VAR|NUM|OP|END) (.) (.*)", name, re.DOTALL):
                self.names[vocab.mark(name)] = (match[1], match[2], match[3])
        pointers = [POINTER.format(i + 1) for i in range(len(vocab.marks))]
        self.pointers = tuple(vocab.mark(name) for name in pointers if name in vocab.marks)
        ids = [self.start, self.stop, *self.names]
        self.first = min(ids)
        self.size = max(ids) + 1 - self.first
        self._by_key = {(type, symbol): i for i, (_, type, symbol) in self.names.items() if type != "!"}

    def find_token(self, type: str, symbol: str) -> int | None:
        """The token of a node's symbol, or None."""
        return self._by_key.get((type, symbol))

    def special_id(self, name: str) -> int:
        """The id of a special token."""
        return self.vocab.mark(name)

    def ids_of_kind(self, kind: str, special: bool = False) -> list[int]:
        """Ids of a kind (VAR, NUM, OP), either the special ones or the others, in order."""
        return [i for i, (k, type, _) in self.names.items() if k == kind and (type == "!") == special]

    def list_spellings(self) -> tuple[tuple[int, ...], ...]:
        """For each id from `first` on, the text tokens of its symbol; none for special and empty symbols."""
        out: list[tuple[int, ...]] = []
        for i in range(self.first, self.first + self.size):
            _, type, symbol = self.names.get(i, ("", "!", ""))
            out.append(() if type == "!" or not symbol else tuple(self.vocab.encode(symbol)))
        return tuple(out)


def is_printable(symbol: str) -> bool:
    """Whether a symbol is printable Unicode and not empty."""
    return bool(symbol) and symbol.isprintable()


def minimal_marks() -> Sequence[str]:
    """The marks that every formula needs; with only these, all symbols are spelled."""
    return list_marks({})
