"""A table in the making: what its cells mean, and how they are laid out.

What is measured depends on a measure, an entity and a time; a table shows two or three of them on its two axes:

| shape | rows and columns (or the other way round) |
|---|---|
| report | measures, times; of one subject |
| list | entities (with texts about them), measures |
| series | entities, times; of one measure, which the corner or a paragraph names |
| double | entities, measures with times ("revenue 2019") |
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple, TypeVar

from . import figures, invented
from .draw import Draw
from .fields import FIELDS, Field, Measure

INVENTED = 0.3  # of tables
SHAPES = ("list", "list", "list", "list", "series", "series", "double")
SCALES = ("thousand", "million", "billion")
SHORT = {
    "thousand": ("k", "thousands", "in thousands", "000s"),
    "million": ("m", "millions", "mn", "in millions"),
    "billion": ("bn", "billions", "in billions"),
}
SIGNS = ("$", "€", "£")
ABOUT = (
    "The table shows {about} of {whose}.",
    "{Whose}: {about}.",
    "Below are {about} for {whose}.",
    "This overview gives {about} of {whose}.",
)
STATED = (
    "{what} are in {scale}s.",
    "{what} in {scale}s.",
    "{what} are given in {scale}s.",
    "Numbers are stated in {scale}s.",
    "{what} are expressed in {scale}s unless noted otherwise.",
)

Place = tuple[int, int]
K = TypeVar("K")


class Ref(NamedTuple):
    """One number by what it is of: indices of `Sheet.measures`, `entities` and `times`; −1 where there are none."""

    measure: int
    entity: int = -1
    time: int = -1


class Sheet:
    """A table.

    Attributes:
      field: what it is about. measures, entities, times: what there is; entities and times as they are written.
      values: a number each. styles: of each measure. scales: of each measure, "" for none.
      attributes: texts of each entity by name.
      total: index of the entity that is the sum of the others, −1 for none.
      cells: the rows of the table. at: where each number stands; of_name: where entities, times, measures stand.
      paragraphs: texts beside it.
      subject: of a report, else "".
    """

    def __init__(self, draw: Draw, rows: tuple[int, int] = (3, 7)):
        self.draw = draw
        field = draw.one(FIELDS)
        if draw.chance(INVENTED):
            field = invented.field(field, draw)
        self.field: Field = field
        self.shape = draw.one([*SHAPES, *(["report"] * (6 if field.yearly else 1))])
        self._choose(rows)
        self.values: dict[Ref, Decimal] = {}
        self._fill()
        self.cells: list[list[str]] = []
        self.at: dict[Ref, Place] = {}
        self.of_entity: dict[int, Place] = {}
        self.of_time: dict[int, Place] = {}
        self.of_attribute: dict[tuple[str, int], Place] = {}
        self._lay_out()

    # --- What there is.

    def _choose(self, rows: tuple[int, int]) -> None:
        draw, field = self.draw, self.field
        count = {"report": (2, 6), "list": (2, 4), "series": (1, 1), "double": (1, 2)}[self.shape]
        measures = draw.some(field.measures, draw.whole(*count))
        if self.shape != "list":
            measures = [m for m in measures if m.kind not in ("year", "age")] or [field.measures[0]]
        self.measures: list[Measure] = measures
        self.subject, self.entities, self.attributes = "", [], {}
        if self.shape == "report":
            self.subject = invented.names(field.one, 1, draw)[0]
        else:
            size = draw.whole(*rows) if self.shape != "double" else draw.whole(3, 5)
            known = draw.some(field.names, size)
            if field.one in ("month", "day") and draw.chance(0.8):
                known = [name for name in field.names if name in known]
            self.entities = known if len(known) == size else invented.names(field.one, size, draw)
            if draw.chance(0.1):
                self.entities = [name.upper() if draw.chance(0.5) else name.lower() for name in self.entities]
                self.entities = list(dict.fromkeys(self.entities))
            if self.shape == "list":
                chosen = draw.some(field.attributes, draw.whole(0, 1) + draw.chance(0.15))
                self.attributes = {name: [draw.one(words[:6]) for _ in self.entities] for name, words in chosen}
        self.times = [] if self.shape == "list" else times(draw, 2 if self.shape == "double" else draw.whole(2, 5))
        self.scales = [""] * len(measures)
        if draw.chance(0.4):
            scale = draw.one(SCALES)
            scaled = [m.kind in ("money", "signed", "huge") for m in measures]
            self.scales = [scale if one else "" for one in scaled]
        self.total = -1
        if self.shape in ("list", "series") and all(m.additive for m in measures) and draw.chance(0.25):
            self.total = len(self.entities)
            self.entities = [*self.entities, draw.one(("Total", "total", "All", "Sum", "TOTAL", f"All {field.many}"))]
            self.attributes = {name: [*texts, "-"] for name, texts in self.attributes.items()}

    def _fill(self) -> None:
        draw = self.draw
        brackets, grouped = draw.chance(0.7), draw.chance(0.7)
        self.styles = [figures.style(m.kind, draw, brackets, grouped) for m in self.measures]
        moments = range(len(self.times)) if self.times else [-1]
        for m, measure in enumerate(self.measures):
            # What is near another number of its kind: an entity's over time, else a column's.
            groups = [[e] for e in self.plain()] if self.times else [self.plain()]
            for group in groups if self.entities else [[-1]]:
                refs = [Ref(m, e, t) for e in group for t in moments]
                found = figures.column(measure.kind, self.styles[m], len(refs), draw)
                self.values |= dict(zip(refs, found, strict=True))
            for t in moments if self.total >= 0 else ():
                parts = (self.values[Ref(m, e, t)] for e in self.plain())
                self.values[Ref(m, self.total, t)] = sum(parts, Decimal(0))

    # --- How it looks.

    def _lay_out(self) -> None:
        draw = self.draw
        case = draw.one((str, str, str.capitalize, str.title))
        units = draw.one(("header", "header", "cell", "first", "none"))
        self.case, where = case, draw.one(("corner", "header", "paragraph", "paragraph"))
        self.headers = [self._header(m, units, where) for m in range(len(self.measures))]
        corner = self._corner(where)
        self._paragraphs(corner, where)
        if self.shape in ("report", "series"):
            self.headers = [draw.one((h, h, f"{h}:")) if self.shape == "report" else h for h in self.headers]
        if self.shape == "report":
            grid = [[corner, *self.times]]
            for m, header in enumerate(self.headers):
                grid.append([header, *(self._cell(Ref(m, -1, t), m == 0) for t in range(len(self.times)))])
                self.at |= {Ref(m, -1, t): (m + 1, t + 1) for t in range(len(self.times))}
            self.of_time = {t: (0, t + 1) for t in range(len(self.times))}
        elif self.shape == "series":
            grid = [[corner, *self.times]]
            for e, name in enumerate(self.entities):
                grid.append([name, *(self._cell(Ref(0, e, t), e == 0) for t in range(len(self.times)))])
                self.at |= {Ref(0, e, t): (e + 1, t + 1) for t in range(len(self.times))}
                self.of_entity[e] = (e + 1, 0)
            self.of_time = {t: (0, t + 1) for t in range(len(self.times))}
        else:
            keys = [
                (m, t) for m in range(len(self.measures)) for t in (range(len(self.times)) if self.times else [-1])
            ]
            form = draw.one(("{m} {t}", "{t} {m}", "{m} ({t})"))
            heads = [self.headers[m] if t < 0 else form.format(m=self.headers[m], t=self.times[t]) for m, t in keys]
            names = [case(name) for name in self.attributes]
            grid = [[corner, *names, *heads]]
            for e, name in enumerate(self.entities):
                texts = [self.attributes[a][e] for a in self.attributes]
                grid.append([name, *texts, *(self._cell(Ref(m, e, t), e == 0) for m, t in keys)])
                self.of_entity[e] = (e + 1, 0)
                self.of_attribute |= {(a, e): (e + 1, 1 + i) for i, a in enumerate(self.attributes)}
                self.at |= {Ref(m, e, t): (e + 1, 1 + len(names) + i) for i, (m, t) in enumerate(keys)}
        if draw.chance({"report": 0.5, "series": 0.3, "list": 0.12, "double": 0.0}[self.shape]):
            grid = [list(row) for row in zip(*grid, strict=True)]
            self.at = _turned(self.at)
            self.of_entity = _turned(self.of_entity)
            self.of_time = _turned(self.of_time)
            self.of_attribute = _turned(self.of_attribute)
        self.cells = grid

    def _header(self, m: int, units: str, where: str) -> str:
        """A measure's header; sets its style's unit."""
        measure, draw = self.measures[m], self.draw
        unit, style = measure.unit, self.styles[m]
        text = self.case(measure.name) if not measure.name.isupper() else measure.name
        scale = self.scales[m]
        short = draw.one(SHORT[scale]) if scale and where == "header" else ""
        money = unit in SIGNS
        mark = unit
        if unit and units in ("cell", "first") and not (scale and money and draw.chance(0.5)):
            glue = "" if money or unit in ("%", "°C") else " "
            before, after = (draw.one((unit, f"{unit} ")), "") if money else ("", glue + unit)
            self.styles[m] = style._replace(before=before, after=after, first=units == "first" and unit != "%")
            mark = ""
        elif units == "none" and unit != "%":
            mark = ""
        inside = " ".join(part for part in (mark, short) if part)
        if not inside:
            return text
        return draw.one((f"{text} ({inside})", f"{text} ({inside})", f"{text}, {inside}", f"{text} [{inside}]"))

    def _corner(self, where: str) -> str:
        draw = self.draw
        scale = next(filter(None, self.scales), "")
        if scale and where == "corner":
            return draw.one(
                (f"(in {scale}s)", f"in {scale}s", f"{scale}s", f"{self.measures[0].unit} {scale}".strip())
            )
        if self.shape == "report":
            return draw.one(("", "item", "year", "Item", "", "Year"))
        if self.shape == "series":
            return draw.one((self.headers[0], self.case(self.field.one), self.headers[0], ""))
        return draw.one((self.field.one, self.case(self.field.one), self.case(self.field.one), "name", "Name"))

    def _cell(self, ref: Ref, first: bool) -> str:
        return figures.written(self.values[ref], self.styles[ref.measure], first)

    def _paragraphs(self, corner: str, where: str) -> None:
        draw, scale = self.draw, next(filter(None, self.scales), "")
        self.paragraphs: list[str] = []
        about = listed([measure.name for measure in self.measures[:2]])
        whose = self.subject or f"the {self.field.many}"
        # Of a series the table may not say what is measured.
        if (self.shape == "series" and corner != self.headers[0]) or draw.chance(0.4):
            self.paragraphs.append(
                draw.one(ABOUT).format(about=about, whose=whose, Whose=whose[0].upper() + whose[1:])
            )
        if scale and where == "paragraph":
            what = "All figures" if all(self.scales) else "Amounts"
            self.paragraphs.append(draw.one(STATED).format(what=what, scale=scale))

    # --- What one can say of it.

    @property
    def time_words(self) -> tuple[str, str]:
        """What a time is: one, several."""
        return ("quarter", "quarters") if self.times and self.times[0].startswith("Q") else ("year", "years")

    def is_whole(self, refs: Sequence[Ref]) -> bool:
        """Whether a line has no numbers but these."""
        timed = refs[0].time != refs[-1].time
        return len(refs) == (len(self.times) if timed else len(self.plain()))

    def order(self, time: int) -> str:
        """A key that sorts times."""
        return self.times[time]

    def scale(self, m: int) -> str:
        """TAT-QA's scale of a measure's numbers."""
        return "percent" if self.measures[m].unit == "%" else self.scales[m]

    def text(self, ref: Ref) -> str:
        """A number as its cell has it."""
        row, column = self.at[ref]
        return self.cells[row][column]

    def plain(self) -> list[int]:
        """Entities that are no total."""
        return [e for e in range(len(self.entities)) if e != self.total]


def _turned(places: dict[K, Place]) -> dict[K, Place]:
    return {key: (column, row) for key, (row, column) in places.items()}


def times(draw: Draw, count: int) -> list[str]:
    """Years, fiscal years or quarters that follow one another, sometimes the last first."""
    form = draw.one(("year", "year", "year", "year", "fiscal", "quarter"))
    if form == "quarter":
        count = min(count, 4)
        begin = draw.whole(1, 5 - count)
        found = [f"Q{begin + i}" for i in range(count)]
    else:
        step = draw.one((1, 1, 1, 1, 1, 2, 5, 10))
        begin = draw.whole(1970, 2024 - step * (count - 1))
        found = [str(begin + step * i) for i in range(count)]
        if form == "fiscal":
            pattern = draw.one(("FY{}", "FY {}", "Year {}"))
            found = [pattern.format(year) for year in found]
    return found[::-1] if draw.chance(0.4) else found


def listed(words: Sequence[str], last: str = "and") -> str:
    """ "a, b and c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
