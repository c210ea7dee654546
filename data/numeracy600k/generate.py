"""A seeded stand-in for Numeracy-600K in its own file form: made-up headlines and market comments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..sampling import log_uniform

# Shares of the magnitudes 0 to 7 in percent, as stated by the dataset's authors (update of 2019-08-24).
SHARES = {
    "titles": (0.31, 36.38, 31.47, 6.88, 24.30, 0.34, 0.31, 0.01),
    "comments": (24.14, 38.50, 24.04, 11.72, 1.07, 0.29, 0.23, 0.01),
}


class NumberTemplate(NamedTuple):
    """A text with its annotated number {n}; {c} is a company, {p} a town, {o} another small number."""

    text: str
    magnitudes: tuple[int, ...]
    style: str = "count"  # "count": a whole number; "measure": decimals too; "year"


TEMPLATES = {
    "titles": (
        NumberTemplate("{c} shares climb {n} percent after a strong quarter", (0, 1, 2), "measure"),
        NumberTemplate("{n} reasons to visit {p} this winter", (1, 2)),
        NumberTemplate("{n} hurt as bus overturns near {p}", (1, 2, 3)),
        NumberTemplate("Our {n} favourite gifts from {p}", (1, 2)),
        NumberTemplate("{p} to host trade summit in {n}", (4,), "year"),
        NumberTemplate("{c} promises clean power by {n}", (4,), "year"),
        NumberTemplate("Looking back at {n}: the year that changed {p}", (4,), "year"),
        NumberTemplate("{p} marathon draws {n} runners on day {o}", (3, 4, 5, 6)),
        NumberTemplate("{c} to cut {n} jobs in {p}", (2, 3, 4, 5)),
        NumberTemplate("{c} recalls {n} cars over faulty brakes", (4, 5, 6, 7)),
        NumberTemplate("Retired nurse from {p} wins ${n} in draw {o}", (5, 6, 7)),
        NumberTemplate("{p} striker nets {n} in cup win", (1,)),
        NumberTemplate("Driver, {n}, held after chase through {p}", (2,)),
        NumberTemplate("Strike at {c} enters day {n}, {o} lines idle", (1, 2)),
        NumberTemplate("{c} pays ${n} million for site in {p}", (0, 1, 2, 3), "measure"),
        NumberTemplate("{p} growth outlook cut to {n} percent", (0, 1), "measure"),
        NumberTemplate("{c} opens shop number {n} in {p}", (1, 2, 3)),
        NumberTemplate("Storm leaves {n} homes dark around {p}", (3, 4, 5, 6)),
        NumberTemplate("Quake of magnitude {n} rattles {p}", (1,), "measure"),
        NumberTemplate("{p} bakery turns {n}", (2, 3)),
    ),
    "comments": (
        NumberTemplate("{c} SAYS Q{o} SALES ROSE {n} PERCENT", (0, 1, 2), "measure"),
        NumberTemplate("{c} Q{o} EARNINGS ${n} A SHARE", (0, 1), "measure"),
        NumberTemplate("{c} SETS DIVIDEND AT ${n} A SHARE", (0,), "measure"),
        NumberTemplate("{c} SEES FULL-YEAR REVENUE NEAR ${n} MILLION", (2, 3), "measure"),
        NumberTemplate("{c} NET LOSS WIDENS TO ${n} MILLION IN Q{o}", (0, 1, 2, 3), "measure"),
        NumberTemplate("{c} TO ISSUE {n} NEW SHARES", (5, 6, 7)),
        NumberTemplate("{c} DOWN {n} PCT IN EARLY TRADE IN {p}", (0, 1, 2), "measure"),
        NumberTemplate("{c} TO SHUT {n} STORES IN {p}", (1, 2, 3)),
        NumberTemplate("{c} EXPECTS SAVINGS FROM {n} ON", (4,), "year"),
        NumberTemplate("{c} ORDER BOOK STANDS AT {n} UNITS", (3, 4, 5, 6)),
        NumberTemplate("FOREIGN FUNDS BUY NET {n} SHARES OF {c}", (4, 5, 6, 7)),
        NumberTemplate("{p} INDEX OPENS UP {n} POINTS", (1, 2, 3), "measure"),
        NumberTemplate("{c} RATING HELD, TARGET RAISED TO {n}", (1, 2, 3)),
        NumberTemplate("{c} NAMES {n} DIRECTORS TO ITS BOARD", (1,)),
    ),
}
_FIRST = (
    "Alder Brix Corvo Dunmore Eastgate Fenwick Garnet Halden Istria Juno Kestrel Lumen Marlow Nordal Orrin Pelham"
)
_SECOND = "Foods Motors Steel Energy Bank Air Media Mining Pharma Retail Shipping Software Textiles Water"
_TOWNS = (
    "Almere Bergen Cusco Dakar Essen Fargo Ghent Hobart Izmir Jaipur Kyoto Lund Malaga Napier Oslo Perth Quito Turin "
    "Recife Salta Utrecht Varna Windhoek Xiamen Yerevan Zagreb Agadir Bodo Cork Durban Evora Fukuoka Graz Hilo "
    "Iquitos Jos Kigali Leeds Minsk Nantes Odense Pune Riga Seville Tampere Ulm Vigo Wuhan York Zwolle"
)


def _surface(magnitude: int, style: str, digits: int, share: float) -> str:
    """A numeral of a magnitude; `share` in [0, 1) selects its form."""
    if magnitude == 0:
        return f"0.{digits % 99 + 1:02d}" if share < 0.7 else f"0.{digits % 9 + 1}"
    if style == "year":
        return str(1950 + digits % 86)
    if style == "measure" and share < 0.6:
        return f"{digits}.{int(share * 1000) % 10}"
    return f"{digits:,}" if share < 0.5 else str(digits)


def generate_records(variant: str, size: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yields raw records with the keys of the published files.

    Args:
      variant: "titles" or "comments".
      size: how many.
      seed: of everything random.
    """
    rng = np.random.default_rng(seed)
    templates = TEMPLATES[variant]
    by_magnitude = [[t for t in templates if m in t.magnitudes] for m in range(8)]
    shares = np.array(SHARES[variant])
    magnitudes = rng.choice(8, size=size, p=shares / shares.sum())
    digits = log_uniform(rng, 10 ** np.maximum(magnitudes - 1, 0), 10 ** np.maximum(magnitudes, 1) - 1, size)
    picks = rng.random((size, 6)).tolist()
    first, second, towns = _FIRST.split(), _SECOND.split(), _TOWNS.split()
    for index, (magnitude, value) in enumerate(zip(magnitudes.tolist(), digits.tolist(), strict=True)):
        template_draw, first_draw, second_draw, place_draw, other_draw, style_draw = picks[index]
        options = by_magnitude[magnitude]
        template = options[int(template_draw * len(options))]
        company = f"{first[int(first_draw * len(first))]} {second[int(second_draw * len(second))]}"
        town = towns[int(place_draw * len(towns))]
        if variant == "comments":
            company, town = company.upper(), town.upper()
        number = _surface(magnitude, template.style, value, style_draw)
        prefix, suffix = (
            part.format(c=company, p=town, o=int(other_draw * 4) + 1) for part in template.text.split("{n}")
        )
        text = prefix + number + suffix
        annotation = dict(number=number, offset=len(prefix), length=len(number), magnitude=magnitude)
        if variant == "titles":
            yield dict(id=index, title=text, publish_date="", **annotation)
        else:
            yield dict(id=index, UNIQUE_STORY_INDEX="stand-in", comment=text, **annotation)
