"""Generates a table: what its cells mean, and their layout.

A number has a measure, an entity and a time; a table shows two or three of them on its two axes:

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

INVENTED_SHARE = 0.3  # of tables
SHAPES = ("list", "list", "list", "list", "series", "series", "double")
SCALES = ("thousand", "million", "billion")
SHORT_SCALES = {
    "thousand": ("k", "thousands", "in thousands", "000s"),
    "million": ("m", "millions", "mn", "in millions"),
    "billion": ("bn", "billions", "in billions"),
}
SIGNS = ("$", "€", "£")
CAPTIONS = (
    "The table shows {about} of {whose}.",
    "{Whose}: {about}.",
    "Below are {about} for {whose}.",
    "This overview gives {about} of {whose}.",
)
SCALE_NOTES = (
    "{what} are in {scale}s.",
    "{what} in {scale}s.",
    "{what} are given in {scale}s.",
    "{what} are stated in {scale}s.",
    "{what} are expressed in {scale}s unless noted otherwise.",
)

CellIndex = tuple[int, int]
K = TypeVar("K")


class Ref(NamedTuple):
    """Identifies a number: indices of `TableSheet.measures`, `entities` and `times`; −1 if there are none."""

    measure: int
    entity: int = -1
    time: int = -1


class TableSheet:
    """A table.

    Attributes:
      field: its subject. measures, entities, times: of its numbers; entities and times as they are written.
      values: the number of each `Ref`. styles: of each measure. scales: of each measure, "" for none.
      attributes: name → text of each entity.
      total: index of the entity that is the sum of the others, −1 for none.
      cells: the rows of the table. cell_of: row and column of each number. cell_of_entity, cell_of_time,
        cell_of_attribute: the same for entities, times and the entities' texts.
      paragraphs: texts beside it.
      subject: of a report, else "".
    """

    def __init__(self, draw: Draw, rows: tuple[int, int] = (3, 7)):
        self.draw = draw
        field = draw.choice(FIELDS)
        if draw.chance(INVENTED_SHARE):
            field = invented.invent_field(field, draw)
        self.field: Field = field
        self.shape = draw.choice([*SHAPES, *(["report"] * (6 if field.yearly else 1))])
        self._choose_contents(rows)
        self.values: dict[Ref, Decimal] = {}
        self._draw_values()
        self.cells: list[list[str]] = []
        self.cell_of: dict[Ref, CellIndex] = {}
        self.cell_of_entity: dict[int, CellIndex] = {}
        self.cell_of_time: dict[int, CellIndex] = {}
        self.cell_of_attribute: dict[tuple[str, int], CellIndex] = {}
        self._lay_out()

    # --- Contents.

    def _choose_contents(self, rows: tuple[int, int]) -> None:
        draw, field = self.draw, self.field
        count = {"report": (2, 6), "list": (2, 4), "series": (1, 1), "double": (1, 2)}[self.shape]
        measures = draw.sample(field.measures, draw.integer(*count))
        if self.shape != "list":
            measures = [m for m in measures if m.kind not in ("year", "age")] or [field.measures[0]]
        self.measures: list[Measure] = measures
        self.subject, self.entities, self.attributes = "", [], {}
        if self.shape == "report":
            self.subject = invented.invent_names(field.singular, 1, draw)[0]
        else:
            size = draw.integer(*rows) if self.shape != "double" else draw.integer(3, 5)
            names = draw.sample(field.names, size)
            if field.singular in ("month", "day") and draw.chance(0.8):
                names = [name for name in field.names if name in names]
            self.entities = names if len(names) == size else invented.invent_names(field.singular, size, draw)
            if draw.chance(0.1):
                self.entities = [name.upper() if draw.chance(0.5) else name.lower() for name in self.entities]
                self.entities = list(dict.fromkeys(self.entities))
            if self.shape == "list":
                attributes = draw.sample(field.attributes, draw.integer(0, 1) + draw.chance(0.15))
                self.attributes = {
                    name: [draw.choice(words[:6]) for _ in self.entities] for name, words in attributes
                }
        self.times = (
            [] if self.shape == "list" else draw_times(draw, 2 if self.shape == "double" else draw.integer(2, 5))
        )
        self.scales = [""] * len(measures)
        if draw.chance(0.4):
            scale = draw.choice(SCALES)
            is_scaled = [m.kind in ("money", "signed", "huge") for m in measures]
            self.scales = [scale if has_scale else "" for has_scale in is_scaled]
        self.total = -1
        if self.shape in ("list", "series") and all(m.additive for m in measures) and draw.chance(0.25):
            self.total = len(self.entities)
            self.entities = [
                *self.entities,
                draw.choice(("Total", "total", "All", "Sum", "TOTAL", f"All {field.plural}")),
            ]
            self.attributes = {name: [*texts, "-"] for name, texts in self.attributes.items()}

    def _draw_values(self) -> None:
        draw = self.draw
        brackets, grouped = draw.chance(0.7), draw.chance(0.7)
        self.styles = [figures.draw_style(m.kind, draw, brackets, grouped) for m in self.measures]
        moments = range(len(self.times)) if self.times else [-1]
        for m, measure in enumerate(self.measures):
            # Numbers that are close to each other: those of an entity over time, else those of a column.
            groups = [[e] for e in self.list_non_totals()] if self.times else [self.list_non_totals()]
            for group in groups if self.entities else [[-1]]:
                refs = [Ref(m, e, t) for e in group for t in moments]
                values = figures.draw_column(measure.kind, self.styles[m], len(refs), draw)
                self.values |= dict(zip(refs, values, strict=True))
            for t in moments if self.total >= 0 else ():
                parts = (self.values[Ref(m, e, t)] for e in self.list_non_totals())
                self.values[Ref(m, self.total, t)] = sum(parts, Decimal(0))

    # --- Layout.

    def _lay_out(self) -> None:
        draw = self.draw
        case = draw.choice((str, str, str.capitalize, str.title))
        units = draw.choice(("header", "header", "cell", "first", "none"))
        self.case, location = case, draw.choice(("corner", "header", "paragraph", "paragraph"))
        is_of_all = all(self.get_scale(m) for m in range(len(self.measures)))
        if location == "corner" and not is_of_all:
            location = "header"  # a corner speaks of all numbers of the table
        self.headers = [self._make_header(m, units, location) for m in range(len(self.measures))]
        corner = self._make_corner(location)
        self._write_paragraphs(corner, location, is_of_all)
        if self.shape in ("report", "series"):
            self.headers = [draw.choice((h, h, f"{h}:")) if self.shape == "report" else h for h in self.headers]
        if self.shape == "report":
            grid = [[corner, *self.times]]
            for m, header in enumerate(self.headers):
                grid.append([header, *(self._format_cell(Ref(m, -1, t), m == 0) for t in range(len(self.times)))])
                self.cell_of |= {Ref(m, -1, t): (m + 1, t + 1) for t in range(len(self.times))}
            self.cell_of_time = {t: (0, t + 1) for t in range(len(self.times))}
        elif self.shape == "series":
            grid = [[corner, *self.times]]
            for e, name in enumerate(self.entities):
                grid.append([name, *(self._format_cell(Ref(0, e, t), e == 0) for t in range(len(self.times)))])
                self.cell_of |= {Ref(0, e, t): (e + 1, t + 1) for t in range(len(self.times))}
                self.cell_of_entity[e] = (e + 1, 0)
            self.cell_of_time = {t: (0, t + 1) for t in range(len(self.times))}
        else:
            keys = [
                (m, t) for m in range(len(self.measures)) for t in (range(len(self.times)) if self.times else [-1])
            ]
            form = draw.choice(("{m} {t}", "{t} {m}", "{m} ({t})"))
            heads = [self.headers[m] if t < 0 else form.format(m=self.headers[m], t=self.times[t]) for m, t in keys]
            names = [case(name) for name in self.attributes]
            grid = [[corner, *names, *heads]]
            for e, name in enumerate(self.entities):
                texts = [self.attributes[a][e] for a in self.attributes]
                grid.append([name, *texts, *(self._format_cell(Ref(m, e, t), e == 0) for m, t in keys)])
                self.cell_of_entity[e] = (e + 1, 0)
                self.cell_of_attribute |= {(a, e): (e + 1, 1 + i) for i, a in enumerate(self.attributes)}
                self.cell_of |= {Ref(m, e, t): (e + 1, 1 + len(names) + i) for i, (m, t) in enumerate(keys)}
        if draw.chance({"report": 0.5, "series": 0.3, "list": 0.12, "double": 0.0}[self.shape]):
            grid = [list(row) for row in zip(*grid, strict=True)]
            self.cell_of = _transpose(self.cell_of)
            self.cell_of_entity = _transpose(self.cell_of_entity)
            self.cell_of_time = _transpose(self.cell_of_time)
            self.cell_of_attribute = _transpose(self.cell_of_attribute)
        self.cells = grid

    def _make_header(self, m: int, units: str, location: str) -> str:
        """Returns a measure's header; sets prefix and suffix of its style."""
        measure, draw = self.measures[m], self.draw
        unit, style = measure.unit, self.styles[m]
        text = self.case(measure.name) if not measure.name.isupper() else measure.name
        scale = self.scales[m]
        short = draw.choice(SHORT_SCALES[scale]) if scale and location == "header" else ""
        is_money = unit in SIGNS
        shown_unit = unit
        if unit and units in ("cell", "first") and not (scale and is_money and draw.chance(0.5)):
            glue = "" if is_money or unit in ("%", "°C") else " "
            prefix, suffix = (draw.choice((unit, f"{unit} ")), "") if is_money else ("", glue + unit)
            self.styles[m] = style._replace(prefix=prefix, suffix=suffix, first_only=units == "first" and unit != "%")
            shown_unit = ""
        elif units == "none" and unit != "%":
            shown_unit = ""
        unit_text = " ".join(part for part in (shown_unit, short) if part)
        if not unit_text:
            return text
        return draw.choice(
            (f"{text} ({unit_text})", f"{text} ({unit_text})", f"{text}, {unit_text}", f"{text} [{unit_text}]")
        )

    def _make_corner(self, location: str) -> str:
        draw = self.draw
        scale = next(filter(None, self.scales), "")
        if scale and location == "corner":
            return draw.choice(
                (f"(in {scale}s)", f"in {scale}s", f"{scale}s", f"{self.measures[0].unit} {scale}".strip())
            )
        if self.shape == "report":
            return draw.choice(("", "item", "year", "Item", "", "Year"))
        if self.shape == "series":
            return draw.choice((self.headers[0], self.case(self.field.singular), self.headers[0], ""))
        return draw.choice(
            (self.field.singular, self.case(self.field.singular), self.case(self.field.singular), "name", "Name")
        )

    def _format_cell(self, ref: Ref, is_first_row: bool) -> str:
        return figures.format_cell(self.values[ref], self.styles[ref.measure], is_first_row)

    def _write_paragraphs(self, corner: str, location: str, is_of_all: bool) -> None:
        draw, scale = self.draw, next(filter(None, self.scales), "")
        self.paragraphs: list[str] = []
        about = join_words([measure.name for measure in self.measures[:2]])
        owner = self.subject or f"the {self.field.plural}"
        # The table of a series may not name its measure.
        if (self.shape == "series" and corner != self.headers[0]) or draw.chance(0.4):
            self.paragraphs.append(
                draw.choice(CAPTIONS).format(about=about, whose=owner, Whose=owner[0].upper() + owner[1:])
            )
        if scale and location == "paragraph":
            scaled = [measure.name for measure, own in zip(self.measures, self.scales, strict=True) if own]
            subject = draw.choice(("All figures", "Numbers")) if is_of_all else f"Figures for {join_words(scaled)}"
            self.paragraphs.append(draw.choice(SCALE_NOTES).format(what=subject, scale=scale))

    # --- Queries.

    @property
    def time_words(self) -> tuple[str, str]:
        """Returns the noun for a time, singular and plural."""
        return ("quarter", "quarters") if self.times and self.times[0].startswith("Q") else ("year", "years")

    def is_full_line(self, refs: Sequence[Ref]) -> bool:
        """Whether the refs are all numbers of a line."""
        is_over_times = refs[0].time != refs[-1].time
        return len(refs) == (len(self.times) if is_over_times else len(self.list_non_totals()))

    def is_next(self, early: int, late: int) -> bool:
        """Returns whether a time is the year or quarter right after another."""
        return int(self.times[late][-4:].lstrip("Q")) - int(self.times[early][-4:].lstrip("Q")) == 1

    def get_sort_key(self, time: int) -> str:
        """Returns a key that sorts times."""
        return self.times[time]

    def get_scale(self, m: int) -> str:
        """Returns TAT-QA's scale of a measure's numbers."""
        return "percent" if self.measures[m].unit == "%" else self.scales[m]

    def get_text(self, ref: Ref) -> str:
        """Returns a number as its cell writes it."""
        row, column = self.cell_of[ref]
        return self.cells[row][column]

    def list_non_totals(self) -> list[int]:
        """Returns the indices of the entities that are no total."""
        return [e for e in range(len(self.entities)) if e != self.total]


def _transpose(places: dict[K, CellIndex]) -> dict[K, CellIndex]:
    return {key: (column, row) for key, (row, column) in places.items()}


def draw_times(draw: Draw, count: int) -> list[str]:
    """Draws consecutive years, fiscal years or quarters, sometimes in reverse order."""
    form = draw.choice(("year", "year", "year", "year", "fiscal", "quarter"))
    if form == "quarter":
        count = min(count, 4)
        begin = draw.integer(1, 5 - count)
        times = [f"Q{begin + i}" for i in range(count)]
    else:
        step = draw.choice((1, 1, 1, 1, 1, 2, 5, 10))
        begin = draw.integer(1970, 2024 - step * (count - 1))
        times = [str(begin + step * i) for i in range(count)]
        if form == "fiscal":
            pattern = draw.choice(("FY{}", "FY {}", "Year {}"))
            times = [pattern.format(year) for year in times]
    return times[::-1] if draw.chance(0.4) else times


def join_words(words: Sequence[str], last: str = "and") -> str:
    """Returns "a, b and c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
