"""Known numbers, which stand as they are read, from the highest digit (of our own, for the scheme `limbs`).

-1,234.5 is [^-,] [:1] [:2] [:3] [:4] [.] [:5]: its sign and whether commas group its digits, and its characters.
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


def begin_state(header: str) -> str:
    """The state of `MOVES` behind a header."""
    return "grouped 0" if "," in header else "first"


def write(surface: str) -> tuple[str, ...] | None:
    """The marks of a plain or grouped number; None for others."""
    match = PLAIN.fullmatch(surface)
    if match is None or not (match[2] or match[3]):
        return None
    characters = surface.lstrip("+-").replace(",", "")
    digits = (POINT if character == "." else DIGITS[int(character)] for character in characters)
    return (f"[^{match[1]}{',' * (',' in match[2])}]", *digits)


def read(marks: Sequence[str]) -> str | None:
    """The surface of the marks of `write`; None if they are not one number."""
    if not marks or marks[0] not in HEADERS or not {*DIGITS, POINT}.issuperset(marks[1:]):
        return None
    characters = "".join("." if mark == POINT else mark[2] for mark in marks[1:])
    whole, point, part = characters.partition(".")
    surface = marks[0].strip("[^,]") + (THOUSANDS.sub(",", whole) if "," in marks[0] else whole) + point + part
    return surface if write(surface) == tuple(marks) else None
