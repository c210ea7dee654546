"""Known numbers, which stand as they are read, from the highest digit (of our own, for the scheme `limbs`).

-1,234.5 is [^-,] [:1] [:2] [:3] [:4] [.] [:5]: its sign and whether commas group its digits, and its characters. Or
its header says how many digits stand behind the point, too: [^-1,].
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

PLAIN = re.compile(r"([+-]?)([0-9]{1,3}(?:,[0-9]{3})+|[0-9]*)(?:\.([0-9]+))?")
THOUSANDS = re.compile(r"(?<=[0-9])(?=(?:[0-9]{3})+$)")

POINT = "[.]"
DIGITS = tuple(f"[:{digit}]" for digit in range(10))
HEADERS = tuple(f"[^{sign}{group}]" for sign in ("", "-", "+") for group in ("", ","))
MARKS = (*HEADERS, POINT)
_HEADER = re.compile(r"\[\^([+-]?)([0-9]*)(,?)\]")

Moves = Mapping[str, Mapping[tuple[str, ...], str]]  # state → marks → state

_BEHIND: Moves = {
    "whole": {DIGITS: "whole", (POINT,): "point"},
    "point": {DIGITS: "part"},
    "part": {DIGITS: "part"},
}
# With commas there are more than three digits before the point.
MOVES: Moves = {
    "first": {DIGITS: "whole", (POINT,): "point"},
    **{f"grouped {i}": {DIGITS: f"grouped {i + 1}" if i < 3 else "whole"} for i in range(4)},
    **_BEHIND,
}
ENDS = ("whole", "part")
# No plus, no commas, no zero before other digits.
ANSWER_HEADERS = ("[^]", "[^-]")
ANSWER_MOVES: Moves = {
    "first": {DIGITS[:1]: "zero", DIGITS[1:]: "whole"},
    "zero": {(POINT,): "point"},
    **_BEHIND,
}
ANSWER_ENDS = ("zero", *ENDS)


def list_counted(most: int) -> tuple[str, ...]:
    """The headers that say how many digits stand behind the point, up to `most`."""
    return tuple(f"{header.rstrip(',]')}{n}{',' * (',' in header)}]" for header in HEADERS for n in range(most + 1))


def make_counted_moves(most: int) -> tuple[Moves, tuple[str, ...]]:
    """(the automaton behind these headers, states in which a number may end)."""
    moves: dict[str, dict[tuple[str, ...], str]] = {
        f"{n} left": {DIGITS: f"{n - 1} left"} for n in range(1, most + 1)
    }
    for n in range(most + 1):
        point = {(POINT,): f"{n} left"} if n else {}
        moves |= {
            f"first of {n}": {DIGITS: f"whole of {n}", **point},
            f"whole of {n}": {DIGITS: f"whole of {n}", **point},
        }
        moves |= {
            f"grouped {i} of {n}": {DIGITS: f"grouped {i + 1} of {n}" if i < 3 else f"whole of {n}"} for i in range(4)
        }
    return moves, ("whole of 0", *(["0 left"] if most else []))


def begin_state(header: str) -> str:
    """The state of `MOVES` behind a header, or of `make_counted_moves`."""
    match = _HEADER.fullmatch(header)
    assert match is not None
    return ("grouped 0" if match[3] else "first") + (f" of {match[2]}" if match[2] else "")


def write(surface: str, most: int = -1) -> tuple[str, ...] | None:
    """The marks of a plain or grouped number; None for others. The header says how many digits stand behind the point
    if they are at most `most`."""
    match = PLAIN.fullmatch(surface)
    if match is None or not (match[2] or match[3]):
        return None
    characters = surface.lstrip("+-").replace(",", "")
    digits = (POINT if character == "." else DIGITS[int(character)] for character in characters)
    count = len(match[3] or "")
    return (f"[^{match[1]}{count if count <= most else ''}{',' * (',' in match[2])}]", *digits)


def read(marks: Sequence[str]) -> str | None:
    """The surface of the marks of `write`; None if they are not one number."""
    header = _HEADER.fullmatch(marks[0]) if marks else None
    if header is None or not {*DIGITS, POINT}.issuperset(marks[1:]):
        return None
    characters = "".join("." if mark == POINT else mark[2] for mark in marks[1:])
    whole, point, part = characters.partition(".")
    surface = header[1] + (THOUSANDS.sub(",", whole) if header[3] else whole) + point + part
    return surface if write(surface, int(header[2] or -1)) == tuple(marks) else None
