"""Problems at the ends of an operation: zeros, carries and borrows through all places, equal operands, results that
are shorter than the operands, and zeros at the end."""

from __future__ import annotations

from decimal import Decimal

from ..mme import generate, wordings
from . import make, measures, orbit, series, tabular
from .problem import Problem


def list_edges(name: str, length: int) -> list[Problem]:
    """The edges of an operation, with operands of up to so many digits."""
    return _EDGES[name](name, length)


def _find_ends(length: int) -> tuple[int, int, int]:
    """(99…9, 10…0, 50…0) of so many digits."""
    return 10**length - 1, 10 ** (length - 1), 10**length // 2


def _list_sums(name: str, length: int) -> list[Problem]:
    nines, power, half = _find_ends(length)
    if name == "add":
        pairs = [
            (0, 0),
            (0, nines),
            (nines, 1),
            (nines, nines),
            (half, half),
            (power, nines),
            (nines + 1 - power, power),
        ]
        return [make.make_sum(*pair) for pair in pairs]
    if name == "sub":
        pairs = [(0, 0), (nines, nines), (power, 1), (1, power), (nines, 0), (0, nines), (nines, nines - 1)]
        return [make.make_difference(*pair) for pair in pairs]
    texts = [
        *(("0", "0"), ("0.5", "0.5"), ("0.0001", str(nines)), ("0.0001", f"{nines}.9999"), ("0.0001", "0.9999")),
        *((f"{half}.25", f"{half}.25"), (f"{power}.5", "0.50"), (f"{nines}.9", "0.1")),
    ]
    return [make.make_decimal_sum(Decimal(a), Decimal(b)) for a, b in texts]


def _list_products(name: str, length: int) -> list[Problem]:
    nines, power, half = _find_ends(length)
    b = {"mul1": 9, "mul2": 99}.get(name, nines)
    pairs = [(nines, b), (0, nines), (0, 0), (nines, 1), (power, b), (half, b - b % 2)]
    return [make.make_product(*pair) for pair in pairs]


def _list_residues(name: str, length: int) -> list[Problem]:
    nines, power, _ = _find_ends(length)
    pairs = [(0, 0), (0, nines), (nines, nines), (power, 1)]
    rows = [(a, sign, b, p) for a, b in pairs for sign in "+*" for p in (7, 97)]
    return [make.make_residue(*row) for row in (*rows, (7, "+", 4, 11), (97, "*", nines, 97))]


def _list_digits(name: str, length: int) -> list[Problem]:
    nines, power, _ = _find_ends(length)
    rows = [(place, number) for number in (nines, power) for place in (1, length)]
    return [make.make_digit(*row) for row in (*rows, (1, 0))]


def _list_counts(name: str, length: int) -> list[Problem]:
    nines, power, _ = _find_ends(length)
    counts = [make.make_count(*row) for row in ((9, nines), (0, power), (1, nines), (0, 0))]
    return [make.make_length(number) for number in (0, power, nines)] + counts


def _list_choices(name: str, length: int) -> list[Problem]:
    nines, _, _ = _find_ends(length)
    return [make.make_pick(0, nines, True), make.make_pick(nines, nines - 1, False)]


def _list_lists(name: str, length: int) -> list[Problem]:
    nines, power, _ = _find_ends(length)
    texts = [
        *((nines, nines, nines), (0, nines, 0), (nines, nines - 1, power), (f"{power}.9", f"{power}.11", power)),
        *((0, "0.1", "0.01"), (f"{nines}.99", nines + 1, nines), (f"{nines}.5", nines, f"{nines}.49")),
    ]
    form = make.make_largest if name == "max" else make.make_sorted
    return [form([Decimal(text) for text in row]) for row in texts]


def _list_roundings(name: str, length: int) -> list[Problem]:
    nines, power, _ = _find_ends(length)
    rows = [(f"{nines}.9999", 3), (f"{power}.5", 1), ("0.5", 1), ("0.0005", 2), ("0.9995", 3), ("2.5", 1)]
    rows += [("9.5", 1), (str(nines), 1), (str(power), 4), ("2.3551", 3), ("9.9999", 3), ("12.351", 3)]
    return [make.make_rounded(Decimal(text), digits) for text, digits in rows]


def _list_copies(name: str, length: int) -> list[Problem]:
    nines, power, _ = _find_ends(length)
    texts = ["0", "00", "0.0", "-0.0", "1.000", "007", f"{power:,}", f"-{nines}", f"{power}.00", "1e3", "1e-3"]
    return [make.make_copy(text) for text in texts]


def _list_conversions(name: str, length: int) -> list[Problem]:
    nines, power, _ = _find_ends(length)
    rows = [("1", 0), ("1", length), ("1", -4), ("1", -1), (str(nines), length - 1), (f"{power}1", length)]
    return [make.make_converted(digits, n, as_power) for digits, n in rows for as_power in (True, False)]


def _list_fractions(name: str, length: int) -> list[Problem]:
    nines, power, _ = _find_ends(length)
    sums = [(1, 2, 1, 2), (power, nines, nines - power, nines), (nines, nines, 1, 2), (1, nines, 1, nines - 1)]
    reduced = [(nines, nines), (nines, 3), (power, nines), (nines - 1, 2), (3, nines)]
    return [make.make_reduced(*row) for row in reduced] + [make.make_fraction_sum(*row) for row in sums]


def _list_scaled(name: str, length: int) -> list[Problem]:
    texts = [("1", "1"), ("1e7", "1e-7"), ("9999999e7", "9999999e7"), ("1e-14", "1e-14"), ("1000001", "1000001")]
    texts += [
        ("3", "7"),
        ("2", "3"),
        ("2.5", "0.4"),
        ("9999999", "1.000001"),
        ("1234567", "1234567"),
        ("0", "9999999"),
    ]
    form = make.make_scaled_product if name == "fmul" else make.make_scaled_quotient
    return [form(Decimal(a), Decimal(b)) for a, b in texts]


def _list_measures(name: str, length: int) -> list[Problem]:
    """Answers at both ends of what fits, and next to them."""
    edges = []
    for thing, count in ((generate.THINGS[0], 1), (generate.THINGS[0], 1000), (generate.THINGS[6], 7)):
        name = wordings.WORDS.names[thing.name][0].split("/")[count != 1]
        low, high = count * thing.low, count * thing.high
        text = f"What do {count} {name} come to in {thing.unit}?"
        edges += [measures.make_fit(thing, count, text, str(n)) for n in (low - 1, low, high, high + 1)]
    return edges


def _list_tables(name: str, length: int) -> list[Problem]:
    """All columns at the ends of their ranges, and a season of 0."""
    edges = []
    for target in tabular.TARGETS:
        for text in ("1", "9.999", "5"):
            edges.append(tabular.make_table(target, [Decimal(text).scaleb(unit) for unit in tabular.UNITS]))
    return edges


def _list_orbits(name: str, length: int) -> list[Problem]:
    """Circles, and a planet that starts at its pericentre."""
    inner, outer = orbit.Planet(*map(Decimal, ("1", "1", "0"))), orbit.Planet(*map(Decimal, ("5", "3", "2")))
    return [
        orbit.make_orbit([inner, outer], index, asked, 0.0, 2.0)
        for index, asked in ((0, "eccentricity"), (1, "eccentricity"), (1, "axis"))
    ]


def _list_series(name: str, length: int) -> list[Problem]:
    """A constant, a line up, a line down to 0, and a season of two values."""
    numbers = range(series.VALUES + 1)
    rows = [
        [50] * len(numbers),
        list(numbers),
        [len(numbers) - 1 - n for n in numbers],
        [40 + n % 2 for n in numbers],
    ]
    return [series.make_series([Decimal(n) for n in row]) for row in rows]


_EDGES = {
    **dict.fromkeys(("add", "sub", "decadd"), _list_sums),
    **dict.fromkeys(("mul1", "mul2", "mul", "mul6"), _list_products),
    **dict.fromkeys(("max", "sort"), _list_lists),
    **dict.fromkeys(("fmul", "fdiv"), _list_scaled),
    "mod": _list_residues,
    "digit_at": _list_digits,
    "count": _list_counts,
    "round": _list_roundings,
    "convert": _list_conversions,
    "frac": _list_fractions,
    "copy": _list_copies,
    "pick": _list_choices,
    "mme": _list_measures,
    "tabular": _list_tables,
    "orbit": _list_orbits,
    "series": _list_series,
}
