"""Generates questions about tables in TAT-QA's form: with answer, derivation, scale and the cells of the evidence."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

from . import figures, wording
from .draw import Draw
from .question_wordings import WORDINGS
from .sheet import CellIndex, Ref, TableSheet, join_words

QUESTIONS = 6  # of a table
TRIES = 60
_CAUSES = (
    "higher prices of raw materials", "a longer winter", "the opening of a second site", "new rules on imports",
    "a strike in the spring", "better weather", "changes in currency rates", "the closing of an old plant",
    "more visitors from abroad", "a new supplier", "repairs to the roof", "a shortage of staff",
)  # fmt: skip
_PARTS = (
    "spare parts", "training courses", "rented buildings", "paper and ink", "travel to meetings", "day visitors",
    "second-hand goods", "free samples", "guest lectures", "licences", "cleaning", "short trips",
)  # fmt: skip
_UP = (("rise", "rise"), ("grow", "growth"), ("increase", "increase"), ("go up", "increase"))
_DOWN = (
    ("fall", "fall"),
    ("drop", "drop"),
    ("decrease", "decrease"),
    ("decline", "decline"),
    ("go down", "decrease"),
)


class Line(NamedTuple):
    """Numbers that differ in only one respect, entity or time.

    Attributes:
      refs: the numbers. names: of what they differ in. shared: what they have in common.
      singular, plural: the noun for what they differ in.
    """

    refs: list[Ref]
    names: list[str]
    shared: Ref
    singular: str
    plural: str

    def select(self, indices: Sequence[int]) -> Line:
        """Returns the line of the numbers at some indices."""
        return self._replace(refs=[self.refs[i] for i in indices], names=[self.names[i] for i in indices])


def make_contexts(count: int, seed: int, split: str, wordings: str = "apart") -> Iterator[dict[str, Any]]:
    """Yields `count` contexts in TAT-QA's form.

    Args:
      seed: of everything random. split: "train", "validation" or "test", which have different tables.
      wordings: "apart" (of the split), or "seen" (of the train split in every split).
    """
    wording_split = "train" if wordings == "seen" else split
    for index in range(count):
        draw = Draw(seed, wording.SPLITS.index(split), index)
        yield make_context(TableSheet(draw), f"tables-{split}-{index:05d}", wording_split)


def make_context(sheet: TableSheet, name: str, split: str) -> dict[str, Any]:
    """Returns a table with its questions."""
    draw = sheet.draw
    notes = _write_notes(sheet)
    questions: list[dict[str, Any]] = []
    texts: set[str] = set()
    for _ in range(TRIES):
        if len(questions) == QUESTIONS:
            break
        plan = draw.choice(PLANS)
        question = plan(sheet, draw, split) if plan not in (_ask_why, _ask_parts) else plan(sheet, draw, split, notes)
        if question is None or question["question"] in texts:
            continue
        texts.add(question["question"])
        order = len(questions) + 1
        questions.append({"uid": f"{name}-{order}", "order": order, "req_comparison": False} | question)
    return {
        "table": {"uid": name, "table": sheet.cells},
        "paragraphs": [
            {"uid": f"{name}-p{i}", "order": i, "text": text} for i, text in enumerate(sheet.paragraphs, 1)
        ],
        "questions": questions,
    }


def list_lines(sheet: TableSheet) -> list[Line]:
    """Returns every line of a table: over times, and over entities that are no total."""
    lines = []
    entities, moments = sheet.list_non_totals(), list(range(len(sheet.times)))
    for m in range(len(sheet.measures)):
        if moments:
            singular, plural = sheet.time_words
            for e in range(len(sheet.entities)) if sheet.entities else [-1]:
                refs = [Ref(m, e, t) for t in moments]
                lines.append(Line(refs, list(sheet.times), Ref(m, e), singular, plural))
        if entities:
            for t in moments or [-1]:
                refs = [Ref(m, e, t) for e in entities]
                names = [sheet.entities[e] for e in entities]
                lines.append(Line(refs, names, Ref(m, -1, t), sheet.field.singular, sheet.field.plural))
    return lines


def phrase(plan: str, split: str, draw: Draw, **slots: str) -> str:
    """Returns a question in a wording of a plan; sometimes its first letter is small or its mark missing."""
    text = draw.choice(wording.select_wordings(WORDINGS[plan], split)).format(**slots)
    text = text[0].upper() + text[1:]
    if draw.chance(0.06):
        text = text.rstrip("?.")
    return text[0].lower() + text[1:] if draw.chance(0.06) else text


def make_slots(sheet: TableSheet, shared: Ref, draw: Draw) -> dict[str, str]:
    """Returns the slots {x} and {X}."""
    text = wording.name_quantity(sheet, shared, draw)
    return {"x": text, "X": text.removeprefix("the ")}


def draw_line(sheet: TableSheet, draw: Draw, is_over_times: bool | None = None, least: int = 2) -> Line | None:
    """Draws a line of at least `least` numbers, None if there is none; `is_over_times`: over times, or at one."""
    candidates = [
        line
        for line in list_lines(sheet)
        if len(line.refs) >= least
        and (is_over_times is None or (line.refs[0].time != line.refs[-1].time) == is_over_times)
    ]
    return draw.choice(candidates) if candidates else None


def make_answer(
    question: str, value: Any, derivation: str, kind: str, scale: str, cells: Sequence[CellIndex]
) -> dict[str, Any]:
    """Returns a question about cells in TAT-QA's form."""
    return {
        "question": question,
        "answer": value,
        "derivation": derivation,
        "answer_type": kind,
        "answer_from": "table",
        "scale": scale,
        "rel_paragraphs": [],
        "mapping": [list(cell) for cell in cells],
    }


def _answer_number(
    sheet: TableSheet, question: str, value: Decimal, derivation: str, refs: Sequence[Ref], scale: str | None = None
) -> dict[str, Any] | None:
    rounded = value.quantize(Decimal("0.01"), ROUND_HALF_UP)
    if not rounded:  # the metric gives no point for zero
        return None
    number = int(rounded) if rounded == rounded.to_integral_value() else float(rounded)
    scale = sheet.get_scale(refs[0].measure) if scale is None else scale
    return make_answer(question, number, derivation, "arithmetic", scale, [sheet.cell_of[ref] for ref in refs])


def _format(value: Decimal) -> str:
    return f"{value:,f}" if value >= 0 else f"(-{abs(value):,f})"


# --- Plans: each returns a question, or None if the table does not suit it.


def _ask_lookup(sheet: TableSheet, draw: Draw, split: str) -> dict[str, Any] | None:
    ref = draw.choice(list(sheet.values))
    text = sheet.get_text(ref)
    countable = sheet.measures[ref.measure].countable
    if countable and ref.entity >= 0 and draw.chance(0.5):
        name, time = wording.name_entity(sheet, ref.entity, draw), sheet.times[ref.time] if ref.time >= 0 else ""
        time_phrase = f" in {time}" if time else ""
        slots = {"did": f"did {name}", "have": "have", "had": f"{name} had", "who": name, "then": time_phrase}
        question = phrase("how_many", split, draw, m=wording.name_measure(sheet, ref.measure, draw), **slots)
    else:
        question = phrase("lookup", split, draw, **make_slots(sheet, ref, draw))
    return make_answer(question, [text], "", "span", sheet.get_scale(ref.measure), [sheet.cell_of[ref]])


def _draw_two_times(sheet: TableSheet, draw: Draw) -> tuple[Line, str, str, Decimal, Decimal] | None:
    """Returns (line of two times, names of the earlier and the later, their numbers)."""
    line = draw_line(sheet, draw, is_over_times=True)
    if line is None:
        return None
    first, second = sorted(draw.sample(range(len(line.refs)), 2), key=lambda i: sheet.get_sort_key(line.refs[i].time))
    if draw.chance(0.5) and len(line.refs) > 2:  # adjacent times are asked for most often
        by_time = sorted(range(len(line.refs)), key=lambda i: sheet.get_sort_key(line.refs[i].time))
        index = draw.integer(0, len(by_time) - 2)
        first, second = by_time[index], by_time[index + 1]
    pair = line.select([first, second])
    a, b = (sheet.values[ref] for ref in pair.refs)
    return pair, pair.names[0], pair.names[1], a, b


def _ask_change(sheet: TableSheet, draw: Draw, split: str) -> dict[str, Any] | None:
    comparison = _draw_two_times(sheet, draw)
    if comparison is None:
        return None
    line, early, late, a, b = comparison
    slots = make_slots(sheet, line.shared, draw)
    if a != b and draw.chance(0.4):
        grow, growth = draw.choice(_UP if b > a else _DOWN)
        higher = draw.choice(("higher", "larger") if b > a else ("lower", "smaller"))
        question = phrase("rise", split, draw, a=early, b=late, grow=grow, growth=growth, higher=higher, **slots)
        pair = line.select([1, 0] if b > a else [0, 1])
        first, second = (sheet.values[ref] for ref in pair.refs)
        return _answer_number(sheet, question, first - second, f"{_format(first)}-{_format(second)}", pair.refs)
    question = phrase("change", split, draw, a=early, b=late, **slots)
    return _answer_number(sheet, question, b - a, f"{_format(b)}-{_format(a)}", line.refs[::-1])


def _draw_adjacent_times(sheet: TableSheet, draw: Draw, line: Line) -> tuple[Line, str] | None:
    """Returns (line of a time and the one right before it, name of the later)."""
    by_time = sorted(range(len(line.refs)), key=lambda i: sheet.get_sort_key(line.refs[i].time))
    index = draw.integer(1, len(by_time) - 1)
    if not sheet.is_next(*(line.refs[i].time for i in by_time[index - 1 : index + 1])):
        return None
    pair = line.select([by_time[index - 1], by_time[index]])
    return pair, pair.names[1]


def _ask_change_in(sheet: TableSheet, draw: Draw, split: str) -> dict[str, Any] | None:
    """Asks by how much something rose or fell in one time, compared with the time before."""
    line = draw_line(sheet, draw, is_over_times=True)
    if line is None:
        return None
    comparison = _draw_adjacent_times(sheet, draw, line)
    if comparison is None:
        return None
    pair, late = comparison
    a, b = (sheet.values[ref] for ref in pair.refs)
    if a == b:
        return None
    grow, growth = draw.choice(_UP if b > a else _DOWN)
    question = phrase(
        "change_in",
        split,
        draw,
        b=late,
        grow=grow,
        growth=growth,
        one=line.singular,
        **make_slots(sheet, pair.shared, draw),
    )
    falling_pair = pair if b < a else pair.select([1, 0])
    first, second = (sheet.values[ref] for ref in falling_pair.refs)
    return _answer_number(sheet, question, first - second, f"{_format(first)}-{_format(second)}", falling_pair.refs)


def _name_all(line: Line, is_full: bool, draw: Draw) -> str:
    """Returns the names of a line, or "both years" if there are no others."""
    if is_full and len(line.names) == 2 and draw.chance(0.4):
        return draw.choice((f"both {line.plural}", f"the two {line.plural}"))
    return join_words(line.names)


def _ask_percent_change(sheet: TableSheet, draw: Draw, split: str) -> dict[str, Any] | None:
    comparison = _draw_two_times(sheet, draw)
    if comparison is None:
        return None
    line, early, late, a, b = comparison
    if a <= 0 or sheet.measures[line.refs[0].measure].kind in ("temperature", "percent"):
        return None
    slots = make_slots(sheet, line.shared, draw) | {"a": early, "b": late}
    if b > a > 0 and draw.chance(0.35):
        grow, growth = draw.choice(_UP)
        question = phrase("percent_rise", split, draw, grow=grow, growth=growth, **slots)
    else:
        question = phrase("percent_change", split, draw, **slots)
    derivation = f"({_format(b)}-{_format(a)})/{_format(a)}"
    return _answer_number(sheet, question, (b - a) / a * 100, derivation, line.refs[::-1], "percent")


def _ask_difference(sheet: TableSheet, draw: Draw, split: str) -> dict[str, Any] | None:
    line = draw_line(sheet, draw, is_over_times=False)
    if line is None:
        return None
    pair = line.select(draw.sample(range(len(line.refs)), 2))
    if sheet.values[pair.refs[0]] < sheet.values[pair.refs[1]]:
        pair = pair.select([1, 0])
    a, b = (sheet.values[ref] for ref in pair.refs)
    template = draw.choice(wording.select_wordings(WORDINGS["difference"], split))
    names = [wording.name_entity(sheet, ref.entity, draw) for ref in pair.refs]
    # If the wording does not say which has more, either may come first.
    if "and {b}" in template and draw.chance(0.5):
        names = names[::-1]
    text = template.format(
        a=names[0],
        b=names[1],
        more="more",
        higher=draw.choice(("higher", "larger")),
        **make_slots(sheet, line.shared, draw),
    )
    return _answer_number(sheet, text[0].upper() + text[1:], a - b, f"{_format(a)}-{_format(b)}", pair.refs)


def _draw_several(sheet: TableSheet, draw: Draw) -> Line | None:
    line = draw_line(sheet, draw)
    if line is None or sheet.total in {ref.entity for ref in line.refs if ref.entity >= 0}:
        return None
    count = min(len(line.refs), draw.choice((2, 2, 2, 3)))
    return line.select(draw.sample(range(len(line.refs)), count) if draw.chance(0.5) else list(range(count)))


def _ask_sum(sheet: TableSheet, draw: Draw, split: str) -> dict[str, Any] | None:
    line = _draw_several(sheet, draw)
    if line is None or not sheet.measures[line.refs[0].measure].additive:
        return None
    values = [sheet.values[ref] for ref in line.refs]
    question = phrase(
        "sum",
        split,
        draw,
        all=_name_all(line, sheet.is_full_line(line.refs), draw),
        **make_slots(sheet, line.shared, draw),
    )
    return _answer_number(sheet, question, sum(values, Decimal(0)), "+".join(map(_format, values)), line.refs)


def _ask_sum_all(sheet: TableSheet, draw: Draw, split: str) -> dict[str, Any] | None:
    line = draw_line(sheet, draw)
    if line is None or not sheet.measures[line.refs[0].measure].additive:
        return None
    is_over_times = line.refs[0].time != line.refs[-1].time
    slots = make_slots(sheet, line.shared, draw) | {"one": line.singular, "many": line.plural}
    countable = sheet.measures[line.refs[0].measure].countable
    if countable and not is_over_times and draw.chance(0.4):
        t = line.shared.time
        time_phrase = f" in {sheet.times[t]}" if t >= 0 else ""
        m = wording.name_measure(sheet, line.shared.measure, draw)
        question = phrase("how_many_all", split, draw, m=m, many=line.plural, then=time_phrase)
    else:
        question = phrase("sum_all", split, draw, **slots)
    if is_over_times and line.plural not in question:
        return None
    if not is_over_times and sheet.total >= 0:
        ref = line.refs[0]._replace(entity=sheet.total)
        return make_answer(
            question, [sheet.get_text(ref)], "", "span", sheet.get_scale(ref.measure), [sheet.cell_of[ref]]
        )
    values = [sheet.values[ref] for ref in line.refs]
    return _answer_number(sheet, question, sum(values, Decimal(0)), "+".join(map(_format, values)), line.refs)


def _ask_average(sheet: TableSheet, draw: Draw, split: str) -> dict[str, Any] | None:
    use_all = draw.chance(0.5)
    line = draw_line(sheet, draw) if use_all else _draw_several(sheet, draw)
    if line is None:
        return None
    slots = make_slots(sheet, line.shared, draw)
    if use_all:
        question = phrase("average_all", split, draw, one=line.singular, many=line.plural, **slots)
        is_over_times = line.refs[0].time != line.refs[-1].time
        if is_over_times and line.singular not in question:  # else the question would not say over what
            return None
    else:
        question = phrase("average", split, draw, all=_name_all(line, sheet.is_full_line(line.refs), draw), **slots)
    values = [sheet.values[ref] for ref in line.refs]
    derivation = f"({'+'.join(map(_format, values))})/{len(values)}"
    return _answer_number(sheet, question, sum(values, Decimal(0)) / len(values), derivation, line.refs)


def _ask_count_rows(sheet: TableSheet, draw: Draw, split: str) -> dict[str, Any] | None:
    if not sheet.entities or draw.chance(0.5):  # not in every table: it has few wordings
        return None
    entities = sheet.list_non_totals()
    question = phrase("count_rows", split, draw, many=sheet.field.plural)
    derivation = "##".join(sheet.entities[e] for e in entities)
    return make_answer(question, len(entities), derivation, "count", "", [sheet.cell_of_entity[e] for e in entities])


def draw_limit(values: Sequence[Decimal], style: figures.CellStyle, draw: Draw) -> Decimal | None:
    """Draws a number, as round as possible, with some values below and some above it; None if there is none."""
    options = sorted(set(values))
    if len(options) < 2:
        return None
    index = draw.integer(0, len(options) - 2)
    low, high = options[index], options[index + 1]
    for power in range(6, -3, -1):
        unit = Decimal(10) ** power
        rounded = (low / unit).to_integral_value(ROUND_HALF_UP) * unit
        for candidate in (rounded, rounded + unit):
            if low < candidate < high and power >= -style.places:
                return candidate.quantize(Decimal(1)) if power >= 0 else candidate
    return None


def _ask_count_beyond(sheet: TableSheet, draw: Draw, split: str) -> dict[str, Any] | None:
    line = draw_line(sheet, draw, least=3)
    if line is None:
        return None
    style = sheet.styles[line.refs[0].measure]
    limit = draw_limit([sheet.values[ref] for ref in line.refs], style, draw)
    if limit is None or limit <= 0:
        return None
    is_more = draw.chance(0.6)
    indices = [i for i, ref in enumerate(line.refs) if (sheet.values[ref] > limit) == is_more]
    limit_text = f"{limit:,}" if style.grouped or draw.chance(0.2) else f"{limit}"
    if scale := sheet.scales[line.refs[0].measure]:
        limit_text = f"{limit_text} {scale}" if draw.chance(0.6) else limit_text
    elif style.prefix.strip() and draw.chance(0.4):
        limit_text = style.prefix.strip() + limit_text
    elif sheet.measures[line.refs[0].measure].unit == "%":
        limit_text = f"{limit_text}%"
    slots = make_slots(sheet, line.shared, draw) | {"one": line.singular, "many": line.plural, "n": limit_text}
    question = phrase("count_more" if is_more else "count_less", split, draw, **slots)
    refs = line.select(indices).refs
    return make_answer(
        question,
        len(refs),
        "##".join(sheet.get_text(ref) for ref in refs),
        "count",
        "",
        [sheet.cell_of[ref] for ref in refs],
    )


def _ask_count_text(sheet: TableSheet, draw: Draw, split: str) -> dict[str, Any] | None:
    if not sheet.attributes:
        return None
    name = draw.choice(list(sheet.attributes))
    texts = sheet.attributes[name]
    text = draw.choice([texts[e] for e in sheet.list_non_totals()])
    entities = [e for e in sheet.list_non_totals() if texts[e] == text]
    question = phrase("count_text", split, draw, many=sheet.field.plural, attribute=name, text=text)
    cells = [sheet.cell_of_attribute[name, e] for e in entities]
    return make_answer(question, len(entities), "##".join(text for _ in entities), "count", "", cells)


def _ask_text(sheet: TableSheet, draw: Draw, split: str) -> dict[str, Any] | None:
    if not sheet.attributes:
        return None
    name, e = draw.choice(list(sheet.attributes)), draw.choice(sheet.list_non_totals())
    question = phrase("text", split, draw, attribute=name, a=wording.name_entity(sheet, e, draw))
    return make_answer(question, [sheet.attributes[name][e]], "", "span", "", [sheet.cell_of_attribute[name, e]])


def _ask_share(sheet: TableSheet, draw: Draw, split: str) -> dict[str, Any] | None:
    line = draw_line(sheet, draw, is_over_times=False)
    if line is None:
        return None
    ref = draw.choice(line.refs)
    if sheet.total < 0:
        # The table does not have the total.
        values = [sheet.values[part] for part in line.refs]
        if min(values) < 0 or not sum(values) or not sheet.measures[ref.measure].additive:
            return None
        question = phrase("share", split, draw, a=sheet.entities[ref.entity], **make_slots(sheet, line.shared, draw))
        a, parts = sheet.values[ref], "+".join(map(_format, values))
        share = a / sum(values, Decimal(0)) * 100
        return _answer_number(sheet, question, share, f"{_format(a)}/({parts})", [ref, *line.refs], "percent")
    total = ref._replace(entity=sheet.total)
    a, b = sheet.values[ref], sheet.values[total]
    if not b or a < 0 or b < 0:
        return None
    question = phrase("share", split, draw, a=sheet.entities[ref.entity], **make_slots(sheet, line.shared, draw))
    return _answer_number(sheet, question, a / b * 100, f"{_format(a)}/{_format(b)}", [ref, total], "percent")


def _ask_ratio(sheet: TableSheet, draw: Draw, split: str) -> dict[str, Any] | None:
    """Asks for one measure as a share of another, or for their ratio."""
    pairs = [
        (i, j)
        for i, j in itertools.permutations(range(len(sheet.measures)), 2)
        if (sheet.measures[i].unit, sheet.scales[i]) == (sheet.measures[j].unit, sheet.scales[j])
        and sheet.measures[i].kind == sheet.measures[j].kind
        and sheet.measures[i].kind in ("money", "signed", "score", "big", "huge", "count")
    ]
    if not pairs:
        return None
    i, j = draw.choice(pairs)
    base = draw.choice([ref for ref in sheet.values if ref.measure == i])
    ref = base._replace(measure=j)
    a, b = sheet.values[ref], sheet.values[base]
    if a <= 0 or b <= 0:
        return None
    # "revenue to cost in 2019": entity and time are named once.
    x, y = wording.name_measure(sheet, j, draw), wording.name_quantity(sheet, base, draw)
    if draw.chance(0.4):
        x = wording.name_quantity(sheet, ref, draw)
    if draw.chance(0.5):
        question = phrase("ratio", split, draw, x=x, X=x.removeprefix("the "), y=y)
        return _answer_number(sheet, question, a / b, f"{_format(a)}/{_format(b)}", [ref, base], "")
    question = phrase("part", split, draw, x=x, X=x.removeprefix("the "), y=y)
    return _answer_number(sheet, question, a / b * 100, f"{_format(a)}/{_format(b)}", [ref, base], "percent")


def _ask_respective(sheet: TableSheet, draw: Draw, split: str) -> dict[str, Any] | None:
    line = _draw_several(sheet, draw)
    if line is None:
        return None
    question = phrase("respective", split, draw, all=join_words(line.names), **make_slots(sheet, line.shared, draw))
    texts, style = [sheet.get_text(ref) for ref in line.refs], sheet.styles[line.refs[0].measure]
    if style.first_only:
        texts = [text.removeprefix(style.prefix).removesuffix(style.suffix) for text in texts]
    scale = sheet.get_scale(line.refs[0].measure)
    return make_answer(question, texts, "", "multi-span", scale, [sheet.cell_of[ref] for ref in line.refs])


def _ask_extreme(sheet: TableSheet, draw: Draw, split: str) -> dict[str, Any] | None:
    line = draw_line(sheet, draw)
    if line is None:
        return None
    is_most = draw.chance(0.6)
    values = [sheet.values[ref] for ref in line.refs]
    best = max(values) if is_most else min(values)
    if values.count(best) > 1:
        return None
    ref = line.refs[values.index(best)]
    slots = make_slots(sheet, line.shared, draw) | {"one": line.singular, "many": line.plural}
    question = phrase("most" if is_most else "least", split, draw, **slots)
    is_over_times = line.refs[0].time != line.refs[-1].time
    cell = (sheet.cell_of_time if is_over_times else sheet.cell_of_entity).get(
        ref.time if is_over_times else ref.entity
    )
    if cell is None or (line.singular not in question and line.plural not in question):
        return None
    row, column = cell
    text = sheet.cells[row][column]
    if is_over_times and text.startswith(
        ("FY", "Year")
    ):  # whether "FY 2019" or 2019 is the answer depends on the wording
        return None
    return make_answer(question, [text], "", "span", "", [cell])


def _write_notes(sheet: TableSheet) -> dict[int, tuple[str, Any]]:
    """Adds sentences to the paragraphs; returns {paragraph from 1: (measure, its cause or its parts)}."""
    draw = sheet.draw
    notes: dict[int, tuple[str, Any]] = {}
    if not draw.chance(0.35):
        return notes
    for m in draw.sample(range(len(sheet.measures)), draw.integer(1, 2)):
        name = sheet.measures[m].name
        subject = name[0].upper() + name[1:]
        if draw.chance(0.5):
            cause = draw.choice(_CAUSES)
            form = draw.choice(
                ("{} changed because of {}.", "{} changed, mainly due to {}.", "The change in {} is due to {}.")
            )
            text, content = form.format(name if form.startswith("The") else subject, cause), cause
        else:
            content = draw.sample(_PARTS, draw.integer(2, 3))
            form = draw.choice(("{} includes {}.", "{} consists of {}.", "{} covers {}."))
            text = form.format(subject, join_words(content))
        sheet.paragraphs.append(text)
        notes[len(sheet.paragraphs)] = (name, content)
    return notes


def _ask_why(sheet: TableSheet, draw: Draw, split: str, notes: dict[int, tuple[str, Any]]) -> dict[str, Any] | None:
    return _ask_note(draw, split, notes, "why", str)


def _ask_parts(sheet: TableSheet, draw: Draw, split: str, notes: dict[int, tuple[str, Any]]) -> dict[str, Any] | None:
    return _ask_note(draw, split, notes, "made_of", list)


def _ask_note(
    draw: Draw, split: str, notes: dict[int, tuple[str, Any]], plan: str, kind: type
) -> dict[str, Any] | None:
    options = [
        (paragraph, name, content) for paragraph, (name, content) in notes.items() if isinstance(content, kind)
    ]
    if not options:
        return None
    paragraph, name, content = draw.choice(options)
    parts = [content] if isinstance(content, str) else content
    question = make_answer(
        phrase(plan, split, draw, m=name), parts, "", "span" if kind is str else "multi-span", "", []
    )
    return question | {"answer_from": "text", "rel_paragraphs": [str(paragraph)]}


Plan = Callable[..., dict[str, Any] | None]
PLANS: tuple[Plan, ...] = (
    _ask_lookup, _ask_lookup, _ask_lookup, _ask_change, _ask_change, _ask_change, _ask_change_in,
    _ask_percent_change, _ask_percent_change, _ask_difference, _ask_difference, _ask_sum, _ask_sum,
    _ask_sum_all, _ask_sum_all, _ask_average, _ask_average, _ask_average, _ask_count_rows, _ask_count_beyond,
    _ask_count_beyond, _ask_count_text, _ask_text, _ask_share, _ask_share, _ask_ratio, _ask_respective,
    _ask_extreme, _ask_extreme, _ask_why, _ask_parts,
)  # fmt: skip
