"""A seeded stand-in for TabFormer's table of card transactions, in its own CSV form, for any number of users.

    python -m data.creditrans.generate --users=2000 --out=transactions.csv.gz [--seed=0] [--rows=1000]

A user's rows depend only on the seed and the user's number. A user has a home town, a few cards, a circle of
merchants with their own prices and hours, trips abroad, refunds (`$-99.00`) and errors. Sometimes a card is stolen:
a few transactions within two days, mostly online or far from home, at merchants outside the circle, between 1 and
6 a.m., for a few cents or for some hundred dollars. Some honest rows look like that too, and some frauds do not.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import datetime
import gzip
import io
import math
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from numjax.errors import UsageError

from .read import COLUMNS

ROWS = 1000  # of a user, on average


class Trade(NamedTuple):
    """A kind of merchant.

    Attributes:
      mcc: its code. dollars, spread: the median amount, and the spread of its logarithm.
      hour, hours: the usual time of day, and its spread. share: how often, relative to the others.
      online: share of its merchants that sell online.
    """

    mcc: int
    dollars: float
    spread: float
    hour: float
    hours: float
    share: float
    online: float = 0.0


TRADES = (
    Trade(5411, 42.0, 0.8, 17, 3, 5.0), Trade(5812, 28.0, 0.6, 19, 2, 2.5), Trade(5814, 9.0, 0.5, 12, 3, 3.0),
    Trade(5541, 38.0, 0.3, 8, 3, 2.5), Trade(5912, 22.0, 0.8, 15, 4, 1.5), Trade(5300, 95.0, 0.6, 14, 3, 1.5),
    Trade(4784, 12.0, 0.7, 7, 2, 0.8), Trade(7538, 180.0, 0.7, 10, 3, 0.3), Trade(4829, 90.0, 0.7, 13, 4, 1.0),
    Trade(4900, 75.0, 0.4, 11, 3, 0.5, 0.7), Trade(5311, 60.0, 0.8, 16, 3, 0.8, 0.4),
    Trade(5732, 140.0, 0.9, 18, 3, 0.3, 0.5), Trade(5651, 55.0, 0.7, 16, 3, 0.5, 0.4),
    Trade(3640, 210.0, 0.5, 12, 5, 0.15, 0.6), Trade(3001, 260.0, 0.5, 13, 5, 0.1, 0.9),
    Trade(4411, 300.0, 0.6, 14, 5, 0.05, 0.6), Trade(7996, 55.0, 0.5, 13, 2, 0.2, 0.2),
)  # fmt: skip
# Merchant codes where stolen cards are used.
STOLEN = (5311, 5732, 5651, 3640, 3001, 4411)
TOWNS = (
    ("La Verne", "CA", 91750), ("Monterey Park", "CA", 91754), ("Houston", "TX", 77002), ("Brooklyn", "NY", 11201),
    ("Chicago", "IL", 60601), ("Phoenix", "AZ", 85003), ("Columbus", "OH", 43085), ("Atlanta", "GA", 30303),
    ("Portland", "OR", 97201), ("Omaha", "NE", 68102), ("Tampa", "FL", 33602), ("Denver", "CO", 80202),
    ("Louisville", "KY", 40202), ("Boise", "ID", 83702), ("Newark", "NJ", 7102), ("Madison", "WI", 53703),
)  # fmt: skip
ABROAD = (("Rome", "Italy"), ("Cancun", "Mexico"), ("Toronto", "Canada"), ("Paris", "France"), ("Tokyo", "Japan"))
ONLINE = ("ONLINE", "", "")
END = datetime.datetime(2020, 3, 1)  # of all cards
_CHIP = datetime.date(2014, 6, 1)  # cards have chips from this day on


class _Merchant(NamedTuple):
    name: str
    trade: Trade
    location: tuple[str, str, str]
    scale: float  # of its prices


def generate_rows(users: int, seed: int, average: int = ROWS) -> Iterator[list[str]]:
    """Yields the cells of `COLUMNS`, row after row: by user, card and time.

    Args:
      users: how many. average: rows of a user, on average.
    """
    for user in range(users):
        yield from _generate_user(user, np.random.default_rng([seed, user]), average)


def _generate_user(user: int, rng: np.random.Generator, average: int) -> Iterator[list[str]]:
    count = max(20, int(average * rng.lognormal(-0.125, 0.5)))
    town = TOWNS[rng.integers(len(TOWNS))]
    locations = [
        (town[0], town[1], _format_zip(town[2])),
        *((f"{town[0]} {w}", town[1], _format_zip(town[2] + d)) for w, d in _SUBURBS),
    ]
    shares = np.asarray([trade.share for trade in TRADES])
    circle = [_draw_merchant(rng, TRADES[t], locations) for t in rng.choice(len(TRADES), 24, p=shares / shares.sum())]
    weights = rng.dirichlet(np.full(len(circle), 0.7))
    cards = int(rng.integers(1, 5))
    wealth = rng.lognormal(0.0, 0.35)
    start = datetime.datetime(int(rng.integers(2005, 2017)), int(rng.integers(1, 13)), int(rng.integers(1, 28)))
    for card, size in enumerate(_divide_count(rng, count, cards)):
        purchases = _draw_purchases(rng, size, start, circle, weights, wealth)
        purchases += _draw_thefts(rng, purchases, locations)
        for time, merchant, cents, fraud in sorted(purchases, key=lambda row: row[0]):
            yield _write_cells(rng, user, card, time, merchant, cents, fraud)


_SUBURBS = (("Park", 4), ("Heights", 9), ("Springs", 17))


def _divide_count(rng, count: int, cards: int) -> list[int]:
    sizes = (count * rng.dirichlet(np.full(cards, 2.0))).astype(int)
    return [max(1, int(size)) for size in sizes]


def _draw_merchant(rng, trade: Trade, locations) -> _Merchant:
    is_online = rng.random() < trade.online
    location = ONLINE if is_online else locations[int(rng.integers(len(locations)) * rng.random())]
    return _Merchant(str(int(rng.integers(-(2**63), 2**63))), trade, location, float(rng.lognormal(0, 0.4)))


def _draw_purchases(rng, size, start, circle, weights, wealth):
    days = start + (END - start) * np.sort(rng.random(size))
    abroad: tuple[str, str, str] | None = None
    purchases = []
    draws = rng.random((size, 3)).tolist()
    merchant_indices = np.searchsorted(np.cumsum(weights)[:-1], rng.random(size)).tolist()
    shifts = rng.standard_normal((size, 2)).tolist()
    for day, (trip_draw, refund_draw, cent_draw), index, (hour_shift, price_shift) in zip(
        days.tolist(), draws, merchant_indices, shifts, strict=True
    ):
        if trip_draw < (0.2 if abroad else 0.004):  # a trip begins, or ends
            city, country = ABROAD[rng.integers(len(ABROAD))]
            abroad = None if abroad else (city, country, "")
        merchant = circle[index]
        if abroad is not None and merchant.location != ONLINE:
            merchant = _draw_merchant(rng, merchant.trade, [abroad])
        trade = merchant.trade
        time = day.replace(hour=0, minute=0, second=0, microsecond=0)
        time += datetime.timedelta(minutes=60 * min(23.9, max(0.0, trade.hour + trade.hours * hour_shift)))
        dollars = trade.dollars * merchant.scale * wealth * math.exp(trade.spread * price_shift)
        cents = int(100 * dollars) + int(100 * cent_draw) % 10 + 1
        purchases.append((time, merchant, -10 * (cents // 10) if refund_draw < 0.04 else cents, False))
    return purchases


def _draw_thefts(rng, purchases_before, locations):
    purchases = []
    for _ in range(rng.poisson(len(purchases_before) / 250)):
        start = purchases_before[rng.integers(len(purchases_before))][0]
        trades = [trade for trade in TRADES if trade.mcc in STOLEN]
        far_locations = [(*ABROAD[0], ""), locations[-1], (*ABROAD[1], "")]
        for _ in range(int(rng.integers(2, 8))):
            trade = trades[rng.integers(len(trades))]
            merchant = _draw_merchant(rng, trade, far_locations)
            if rng.random() < 0.6:
                merchant = merchant._replace(location=ONLINE)
            time = start + datetime.timedelta(hours=float(rng.uniform(0, 48)))
            if rng.random() < 0.7:
                time = time.replace(hour=int(rng.integers(1, 6)))
            dollars = rng.uniform(0.5, 3.0) if rng.random() < 0.2 else trade.dollars * rng.lognormal(0.6, 0.6)
            purchases.append((time, merchant, int(100 * dollars) + 1, True))
    return purchases


def _write_cells(rng, user, card, time, merchant, cents, is_fraud) -> list[str]:
    city, state, zip_code = merchant.location
    has_chip = time.date() >= _CHIP and rng.random() < 0.85
    kind = "Online" if merchant.location == ONLINE else "Chip" if has_chip else "Swipe"
    errors = []
    if rng.random() < 0.015 + 0.05 * (cents > 40_000):
        errors.append("Insufficient Balance")
    if kind != "Online" and rng.random() < 0.004:
        errors.append("Bad PIN")
    if kind == "Online" and rng.random() < (0.03 if is_fraud else 0.01):
        errors.append(("Bad CVV", "Bad Expiration", "Bad Card Number")[rng.integers(3)])
    if rng.random() < 0.003:
        errors.append("Technical Glitch")
    amount = f"${'-' * (cents < 0)}{abs(cents) // 100}.{abs(cents) % 100:02d}"
    return [
        *(str(user), str(card), str(time.year), str(time.month), str(time.day), f"{time:%H:%M}", amount),
        *(f"{kind} Transaction", merchant.name, city, state, zip_code, str(merchant.trade.mcc)),
        *(",".join(errors), "Yes" if is_fraud else "No"),
    ]


def _format_zip(number: int) -> str:
    return f"{number}.0"


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the table; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m data.creditrans.generate", description=(__doc__ or "")[:79])
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--rows", type=int, default=ROWS, help="of a user, on average")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="-", help=".csv or .csv.gz; by default the table is printed")
    options = parser.parse_args(arguments)
    try:
        if min(options.users, options.rows) < 1 or options.seed < 0:
            raise UsageError("--users and --rows must be at least 1, --seed not negative")
        with _open_output(options.out) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(generate_rows(options.users, options.seed, options.rows))
    except UsageError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"cannot write {options.out}: {error.strerror}", file=sys.stderr)
        return UsageError.exit_code
    return 0


@contextlib.contextmanager
def _open_output(path: str) -> Iterator[io.TextIOBase]:
    if path == "-":
        yield sys.stdout  # type: ignore[misc]
    elif path.endswith(".gz"):
        # Without a time stamp, so that the same rows give the same bytes.
        with open(path, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as zipped:
            with io.TextIOWrapper(zipped, encoding="utf-8", newline="") as file:
                yield file
    else:
        with open(path, "w", encoding="utf-8", newline="") as file:
            yield file


if __name__ == "__main__":
    sys.exit(main())
