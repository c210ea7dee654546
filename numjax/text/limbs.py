"""Numbers as a header and limbs of three digits, cut at the decimal point, the lowest first (of our own)."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from numjax.errors import UsageError
from numjax.protocols import FromContext
from numjax.text import digits, known
from numjax.text.base import EOS, RowBuilder
from numjax.text.digits import CLOSE, OPEN
from numjax.text.grammar import answers
from numjax.text.grammar.tables import Edge
from numjax.text.known import Moves, list_counted
from numjax.text.vocab.base import BaseVocabulary
from numjax.types import Abilities, Document, Grammar, Number

SIZES = (1, 3)  # digits of a limb; with these, commas between thousands stand between limbs
MOST_DECIMALS = 27
GIVEN = (
    "{} would stand in the text to be written, and tell its digits before they are written: set config.scheme.until "
    "to the mark before answers, or config.scheme.{}"
)
_HEADER = re.compile(r"\[([#=])([+-]?)([0-9]*)(,?)\]")
_COUNT = re.compile(r"\[\|[0-9]+\]")
_NAME = re.compile(r"\[@[0-9]+\]")

ONE, MORE = ", one limb", ", more limbs"  # what the first states of such numbers end with


class Limbs(NamedTuple):
    """The names of the limbs of `size` digits: whole ones, shorter ones before the point, shorter ones behind it."""

    size: int
    full: tuple[str, ...]
    short: tuple[str, ...]
    short_parts: tuple[str, ...]


@functools.cache
def list_limbs(size: int) -> Limbs:
    """The limbs of a size."""

    def name(point: str, counts: Sequence[int]) -> tuple[str, ...]:
        return tuple(f"[{point}{i:0{n}d}]" for n in counts for i in range(10**n))

    return Limbs(size, name(":", [size]), name(":", range(1, size)), name(".", range(1, size)))


class Scheme(digits.Scheme):
    """-1,234.5 is [#-1,] [.5] [:234] [:1]: a number of n digits has about n / 3 + 1 positions.

    The header says the sign, the count of limbs behind the point, and whether commas group the digits. Then come the
    limbs, the lowest first, so that a sum is written in the order in which its carries come. Limbs are cut at the
    point, so that a limb's digits have the same places in all numbers: with the positions `limbs`, operands and
    answers are aligned, also those with decimals. A shorter limb keeps zeros at the beginning or the end: 007 and
    1.000 come back as they are. With `size` 1 each digit is a limb: -1,234.5 is [#-1,] [:5] [:4] [:3] [:2] [:1].

    With `counted` a short number says first how many limbs it has before the point, and only the long ones begin with
    the header: with size 1 and counted=5, 42 is [|2] [#] [:2] [:4], and 123456 is [#] [:6] … [:1]. So a number can be
    chosen by its length before its lowest digit is written (as NumeroLogic's, arXiv 2404.00459), and no number is too
    long for the marks there are. The grammar keeps to the count: exactly so many limbs, or more than `counted`.

    With `names` a number of at least two limbs begins with a name, and one that repeats another has its name: with
    size 1, "12, 34, 12" is [@1] [#] [:2] [:1], [@2] [#] [:4] [:3], [@1] [#] [:2] [:1]. So a model that copies or
    chooses a number says which one before its first digit. Each new number takes the next name; behind the last name
    the first one is taken again, and belongs to the new number from there. A name that the model writes before other
    digits changes nothing: the digits are the number. But the grammar keeps to one limb without a name, and to more
    behind one.

    With `known` only numbers that have to be found are written lowest first. Those before the mark `until` are given,
    and one of at least two digits that repeats another is copied: they stand as they are read, 12.5 as [^] [:1] [:2]
    [.] [:5] (`text.known`). So numbers are compared from their highest digit, one digit after the other. Their places
    are known to positions where they are given (`positions.limbs`). In text without the mark all numbers stand so.

    A number in another form, such as 1e5 or (12), or with more limbs behind the point than `parts`, is spelled
    between [F] and [/F]. So every surface is restored exactly.
    """

    digit_tokens = False

    def __init__(
        self,
        vocab: FromContext[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        parts: int = 4,
        size: int = 3,
        values: bool = False,
        until: str = "[SEP]",
        counted: int = 0,
        names: int = 0,
        known: bool = False,
        decimals: bool = False,
        types: bool = False,
    ):
        """
        Args:
          parts: most limbs behind the point.
          size: digits of a limb, 1 or 3.
          values: the header of a given number has its value, for an embedding of numbers, and is a mark of its own,
            such as [=-1,]; so the size of a given number is known at one position. A text to be written cannot hold
            such a header: running text, and tasks without the mark `until`, need False, where all headers are alike.
          until: with `values` or `known`, the numbers before this mark are given.
          counted: numbers of at most so many limbs before the point say how many they are; 0 for none. Longer numbers
            than those of training can only be written if these have some without a count.
          names: how many names there are; 0 for none.
          known: known numbers stand as they are read.
          decimals: with `known`, the header of a given number with at most `parts` digits behind the point says how
            many they are, as the header of a number that is written has to: 12.5 is [^1] [:1] [:2] [.] [:5]. As with
            `values`, a text to be written cannot hold such a header.

        Raises:
          UsageError: `size` is neither, `parts` are more than 27 decimals, `counted` or `names` is negative, `known`
            stands beside values or limbs of three digits, or `decimals` without it.
        """
        if size not in SIZES:
            raise UsageError(f"limbs: size must be 1 or 3 digits, not {size}")
        if not 0 <= parts <= MOST_DECIMALS // size:
            raise UsageError(f"limbs: parts must be from 0 to {MOST_DECIMALS // size} with size={size}, not {parts}")
        for option, count in (("counted", counted), ("names", names)):
            if count < 0:
                raise UsageError(f"limbs: {option} must be at least 0, not {count}")
        if known and (size > 1 or values):
            raise UsageError(
                "limbs: known=True needs a position for each digit and no values: set size=1,values=False"
            )
        if decimals and not known:
            raise UsageError("limbs: decimals=True says more of known numbers: set known=True")
        self.known, self.decimals = known, list_counted(parts) if decimals else ()
        self.parts, self.values, self.limbs = parts, values, list_limbs(size)
        self.counts = tuple(f"[|{count}]" for count in range(counted + 1)) if counted else ()
        self.names = tuple(f"[@{name}]" for name in range(1, names + 1))
        super().__init__(vocab, rules, pad_multiple, layout="digits", until=until, types=types)
        self.forms = answers.NUMBERS  # limbs are symbols, over any vocabulary
        option = "values=False, without an embedding of numbers" if values else "decimals=False"
        revealing = self._list_headers("=") if values else self.decimals
        self.unwritten = {self.vocab.mark(m): GIVEN.format(m, option) for m in revealing}

    @classmethod
    def gives_values(cls, options: Mapping[str, Any]) -> bool:
        return bool(options.get("values", False))

    def abilities(self) -> Abilities:
        """Limbs keep every digit, over any vocabulary."""
        return super().abilities()._replace(exact=True, keeps_format=True)

    def aggregation(self) -> dict[str, Any]:
        """Empty: a digit is no token of its own."""
        return {}

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """The document of a row, as in `digits.Scheme`. A header without the limbs that it asks for, or with a wrong
        count of them, stays a mark, and so do its limbs and its name."""
        spelled: list[int] = []
        start, ids = 0, [int(token) for token in ids]
        names = [self.vocab.mark_name(token) or "" for token in ids]
        while start < len(ids):
            surface, end = self._find_number(names, start)
            if surface is None:
                spelled.append(ids[start])
                start += 1
                continue
            characters = [token for character in surface for token in self._spell(character)]
            spelled += [self.vocab.mark(OPEN), *characters, self.vocab.mark(CLOSE)]
            start = end
        return super().decode(spelled, numbers)

    def _find_number(self, names: Sequence[str], start: int) -> tuple[str | None, int]:
        """(the surface of the number that begins at `start`, where it ends); None if none does."""

        def skip(index: int, *kinds: str) -> int:
            while index < len(names) and names[index].startswith(kinds):
                index += 1
            return index

        if self.known and names[start].startswith("[^"):
            end = skip(start + 1, "[:", known.POINT)
            return known.read(names[start:end]), end
        count = start + bool(_NAME.fullmatch(names[start]))
        header = count + (count < len(names) and bool(_COUNT.fullmatch(names[count])))
        if header == len(names) or not _HEADER.fullmatch(names[header]):
            return None, header
        end = skip(header + 1, "[:", "[.")
        return self._read_number(names[start:header], names[header:end]), end

    def _read_number(self, before: Sequence[str], names: Sequence[str]) -> str | None:
        """The surface of a header and its limbs behind the marks of their name and count, if there are such; None if
        they are not a number that is written so."""
        surface = read_limbs(names, self.limbs.size)
        if surface is None:
            return None
        rest = list(before)
        if self._has_name(names) and not (rest and _NAME.fullmatch(rest.pop(0))):
            return None
        return surface if tuple(rest) == self._write_count(names) else None

    def _write_count(self, names: Sequence[str]) -> tuple[str, ...]:
        count = f"[|{count_whole(names)}]"
        return (count,) if count in self.counts else ()

    def _read_spelling(self, fence: str, ids: Sequence[int]) -> str:
        surface = super()._read_spelling(fence, ids)
        # Between words, which its characters are for WordPiece, stand blanks.
        return surface if self.vocab.exact else surface.replace(" ", "")

    def _list_headers(self, kind: str) -> list[str]:
        counts = ("", *map(str, range(1, self.parts + 1)))
        return [f"[{kind}{sign}{count}{group}]" for sign in ("", "-", "+") for count in counts for group in ("", ",")]

    def _list_marks(self) -> tuple[str, ...]:
        headers = self._list_headers("#") + (self._list_headers("=") if self.values else [])
        _, full, short, short_parts = self.limbs
        return (
            *full,
            *short,
            *short_parts,
            *headers,
            *self.counts,
            *self.names,
            *(known.MARKS if self.known else ()),
            *self.decimals,
            OPEN,
            CLOSE,
        )

    def _write_number(self, number: Number, row: RowBuilder) -> None:
        if self.known and (marks := self._write_known(number, row)):
            row.add([self.vocab.mark(name) for name in marks])
            return
        names = write_limbs(number.surface, self.parts, self.limbs.size)
        if names is None:
            start = len(row.ids)
            super()._write_number(number, row)
            # No value: it would tell the digits of an answer before they are written.
            row.numeral_index[start:] = [-1] * (len(row.ids) - start)
            return
        header, *limbs = names
        is_given = self.values and self._is_prompt(row)
        row.add([self.vocab.mark(name) for name in self._name_number(number, row)])
        row.add([self.vocab.mark(count) for count in self._write_count(names)])
        row.add([self.vocab.mark(header.replace("#", "=") if is_given else header)], len(row.numbers) - 1)
        if not is_given:
            row.numeral_index[-1] = -1
        row.add([self.vocab.mark(name) for name in limbs])

    def _write_known(self, number: Number, row: RowBuilder) -> tuple[str, ...] | None:
        """The marks of a number that stands as it is read; None for others."""
        has_order = sum(character.isdigit() for character in number.surface) > 1
        is_copied = has_order and number.surface in row.surfaces
        is_given = self._is_prompt(row)
        most = self.parts if self.decimals and is_given else -1
        return known.write(number.surface, most) if is_copied or is_given else None

    def _name_number(self, number: Number, row: RowBuilder) -> tuple[str, ...]:
        """The mark of a number's name, if it has one."""
        if not self.names:
            return ()
        others = () if row.memory else row.source
        for surface in (*(other.surface for other in others), number.surface):
            marks = write_limbs(surface, self.parts, self.limbs.size)
            if surface in row.memory or marks is None or not self._has_name(marks):
                continue
            is_full = len(row.memory) == len(self.names)
            row.memory[surface] = row.memory.pop(next(iter(row.memory))) if is_full else self.names[len(row.memory)]
        name = row.memory.get(number.surface)
        return (name,) if name else ()

    def _has_name(self, marks: Sequence[str]) -> bool:
        """Whether a number with this header and these limbs has a name."""
        return bool(self.names) and len(marks) > 2

    def _make_grammar(self) -> Grammar:
        edges, given_marks = self._text_edges()
        edges += self._fence_edges()
        begins = [edge for edge in edges if edge.state == "text"]
        moves, complete = make_moves(self.parts, self.limbs)
        kinds = ["#", "="] if self.values else ["#"]
        numbers, complete = self._number_edges("text", "limbs ", moves, complete, kinds)
        if self.known:
            numbers += self._known_edges("text", "known ", known.MOVES, known.HEADERS)
            complete += [f"known {state}" for state in known.ENDS]
        if self.decimals:
            counted, ends_counted = known.make_counted_moves(self.parts)
            numbers += self._known_edges("text", "known ", counted, self.decimals, is_given=True)
            complete += [f"known {state}" for state in ends_counted]
        begins += [edge for edge in numbers if edge.state == "text"]
        ends = ["text", *complete]
        edges = [edge for edge in [*edges, *numbers] if edge.state != "text"]
        edges += [edge._replace(state=state) for state in ends for edge in begins]
        return self._tables(edges, (*ends, "end"), given=given_marks)

    def _number_edges(
        self, state: str, prefix: str, moves: Moves, complete: Sequence[str], kinds: Sequence[str] = "#"
    ) -> tuple[list[Edge], list[str]]:
        """(edges from a state over a name, a count, a header and limbs, states in which the number may end), by the
        moves of limbs; headers that no number begins with are left out."""
        begins = {"": ""}  # count → what its states end with
        if self.counts:
            moves, complete = count_down(moves, complete, len(self.counts) - 1)
            begins = {"": f", over {len(self.counts) - 1}", **{c: f", {c[2:-1]} left" for c in self.counts}}
        headers = [(kind == "=", name) for kind in kinds for name in self._list_headers(kind)]
        lengths = {state: ""}  # state before the header or count → what its states end with
        name_edges: list[Edge] = []
        if self.names:
            firsts = {begin_state(name) + suffix for _, name in headers for suffix in begins.values()}
            moves, complete = split_lengths(moves, complete, firsts)
            named = f"{prefix}named"
            lengths = {state: ONE, named: MORE}
            name_edges = [Edge(state, [self.vocab.mark(name) for name in self.names], named)]
        edges = self._limb_edges(moves, prefix) + name_edges
        for (begin, length), (count, suffix) in itertools.product(lengths.items(), begins.items()):
            counted = f"{prefix}{count}{length}" if count else begin
            found = [
                Edge(counted, [self.vocab.mark(name)], prefix + to, given=is_given)
                for is_given, name in headers
                if (to := begin_state(name) + suffix + length) in moves
            ]
            edges += [Edge(begin, [self.vocab.mark(count)], counted)] if count and found else []
            edges += found
        return edges, [prefix + name for name in complete]

    def _known_edges(
        self, state: str, prefix: str, moves: Moves, headers: Sequence[str], is_given: bool = False
    ) -> list[Edge]:
        begins = [
            Edge(state, [self.vocab.mark(name)], prefix + known.begin_state(name), given=is_given) for name in headers
        ]
        return begins + self._limb_edges(moves, prefix)

    def _limb_edges(self, moves: Moves, prefix: str) -> list[Edge]:
        return [
            Edge(prefix + state, [self.vocab.mark(name) for name in names], prefix + to)
            for state, row in moves.items()
            for names, to in row.items()
        ]

    def _answer_edges(self) -> list[Edge]:
        """A blank and a number without a plus, a comma and zeros at its beginning."""
        end = [self.vocab.mark(EOS)]
        begin = "answer's header"
        edges = answers.path_edges(answers.START, self._spell(" "), begin)
        moves, complete = make_answer_moves(self.parts, self.limbs)
        numbers, complete = self._number_edges(begin, "answer's ", moves, complete)
        if self.known:
            numbers += self._known_edges(begin, "answer's known ", known.ANSWER_MOVES, known.ANSWER_HEADERS)
            complete += [f"answer's known {state}" for state in known.ANSWER_ENDS]
        return [*edges, *numbers, *(Edge(state, end, "end") for state in complete)]


def write_limbs(surface: str, parts: int, size: int = 3) -> tuple[str, ...] | None:
    """The names of the header and limbs of a plain or grouped number; None for others, and with more than `parts`
    limbs of `size` digits behind the point."""
    match = known.PLAIN.fullmatch(surface)
    if match is None or not (match[2] or match[3]):
        return None
    sign, whole, part = match[1], match[2].replace(",", ""), match[3] or ""
    behind = [part[i : i + size] for i in range(0, len(part), size)]
    if len(behind) > parts:
        return None
    before = [whole[max(i - size, 0) : i] for i in range(len(whole), 0, -size)]
    header = f"[#{sign}{len(behind) or ''}{',' * (',' in match[2])}]"
    limbs = [f"[{':' if len(group) == size else '.'}{group}]" for group in reversed(behind)]
    return (header, *limbs, *(f"[:{group}]" for group in before))


def count_whole(names: Sequence[str]) -> int:
    """How many limbs of `write_limbs` stand before the point."""
    match = _HEADER.fullmatch(names[0])
    assert match is not None
    return len(names) - 1 - int(match[3] or 0)


def read_limbs(names: Sequence[str], size: int = 3) -> str | None:
    """The surface of a header and its limbs; None if they are not one number."""
    match = _HEADER.fullmatch(names[0]) if names else None
    if match is None:
        return None
    sign, count, is_grouped = match[2], int(match[3] or 0), bool(match[4])
    groups = [name[2:-1] for name in names[1:]]
    if len(groups) < max(count, 1):
        return None
    behind, before = groups[:count], groups[count:]
    whole = "".join(reversed(before))
    surface = sign + (known.THOUSANDS.sub(",", whole) if is_grouped else whole)
    surface += "." * bool(behind) + "".join(reversed(behind))
    # Only what is written the same is read: this refuses short limbs inside.
    written = write_limbs(surface, count, size)
    return surface if written == (names[0].replace("=", "#"), *names[1:]) else None


def begin_state(header: str) -> str:
    """The state of `make_moves` behind a header."""
    match = _HEADER.fullmatch(header)
    assert match is not None
    whole = "grouped" if match[4] else "whole"
    return f"parts {match[3]}, {whole}" if match[3] else f"{whole} first"


def make_moves(parts: int, limbs: Limbs) -> tuple[Moves, list[str]]:
    """(the automaton over limbs, states in which a number may end) for the numbers that `read_limbs` reads."""
    size, full, short, _ = limbs
    # With commas there are more than three digits before the point.
    n_grouped = 3 // size
    moves: dict[str, dict[tuple[str, ...], str]] = {
        "whole first": {full: "whole", short: "last"},
        "whole": {full: "whole", short: "last"},
        "grouped first": {full: "grouped 1"},
        **{f"grouped {i}": {full: f"grouped {i + 1}"} for i in range(1, n_grouped)},
        f"grouped {n_grouped}": {full: "grouped", short: "last"},
        "grouped": {full: "grouped", short: "last"},
        "last": {},
    }
    for kind, first in (("whole", "whole"), ("grouped", "grouped first")):
        _add_parts(moves, parts, limbs, kind, first)
    return _drop_empty(moves), ["whole", "grouped", "last"]


def make_answer_moves(parts: int, limbs: Limbs) -> tuple[Moves, list[str]]:
    """As `make_moves`, for numbers with digits before the point, no zero before others, and no commas."""
    size, full, short, _ = limbs
    high, inner = (tuple(name for name in full if (name[2] == "0") == is_zero) for is_zero in (False, True))
    short = tuple(name for name in short if name[2] != "0")
    above = {high: "top", inner: "inner", short: "last"}
    # 0 itself. Where a limb is one digit, it may also be the end of a larger number.
    zero = above | {inner: "zero"} if size == 1 else above | {("[:0]",): "last"}
    moves: dict[str, dict[tuple[str, ...], str]] = {
        "whole first": zero, "zero": above, "top": above, "inner": above, "last": {}
    }  # fmt: skip
    _add_parts(moves, parts, limbs, "whole", "whole first")
    return _drop_empty(moves), ["zero", "top", "last"]


def count_down(moves: Moves, complete: Sequence[str], counted: int) -> tuple[Moves, list[str]]:
    """(the automaton with a count of the limbs before the point, states in which a number may end).

    From "s, k left" exactly k of them follow, k at most `counted`; from "s, over k" more than k, and then any number.
    """
    product: dict[str, dict[tuple[str, ...], str]] = {state: dict(row) for state, row in moves.items()}
    for count, (state, row) in itertools.product(range(counted + 1), moves.items()):
        is_behind = state.startswith(("parts", "rest"))
        if is_behind or count:
            product[f"{state}, {count} left"] = {n: f"{to}, {count - (not is_behind)} left" for n, to in row.items()}
        rest = f", over {count - (not is_behind)}" if count else ""  # behind the point all are still to come
        product[f"{state}, over {count}"] = {names: to + rest for names, to in row.items()}
    return _drop_dead(product, [*complete, *(f"{state}, 0 left" for state in complete)])


def split_lengths(moves: Moves, complete: Sequence[str], firsts: Iterable[str]) -> tuple[Moves, list[str]]:
    """(the automaton with the first states once for numbers of one limb and once for longer ones, states in which a
    number may end)."""
    ends = set(complete)
    split: dict[str, dict[tuple[str, ...], str]] = {state: dict(row) for state, row in moves.items()} | {"only": {}}
    for state in moves.keys() & set(firsts):
        split[state + ONE] = {names: "only" for names, to in moves[state].items() if to in ends}
        split[state + MORE] = {names: f"{to}, second" for names, to in moves[state].items()}
        split |= {f"{to}, second": dict(moves.get(to, {})) for to in moves[state].values()}
    return _drop_dead(split, [*complete, "only"])


def _drop_dead(moves: Moves, complete: Sequence[str]) -> tuple[Moves, list[str]]:
    """The moves from which a number can still end, and its ends."""
    alive, found = set(complete), True
    while found:
        found = {s for s, row in moves.items() if s not in alive and alive.intersection(row.values())}
        alive |= found
    rows = {s: {names: to for names, to in row.items() if to in alive} for s, row in moves.items() if s in alive}
    return rows, list(complete)


def _add_parts(moves: dict[str, dict[tuple[str, ...], str]], parts: int, limbs: Limbs, kind: str, first: str) -> None:
    """Adds the limbs behind the point, of which the first that is written may be short."""
    for count in range(1, parts + 1):
        behind = f"rest {count - 1}, {kind}" if count > 1 else first
        moves[f"parts {count}, {kind}"] = {limbs.full: behind, limbs.short_parts: behind}
        if count < parts:
            moves[f"rest {count}, {kind}"] = {limbs.full: behind}


def _drop_empty(moves: Moves) -> Moves:
    """The moves without those over no limbs."""
    return {state: {names: to for names, to in row.items() if names} for state, row in moves.items()}
