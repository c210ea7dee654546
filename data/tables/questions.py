"""Questions about tables, in TAT-QA's form: each with its answer, derivation, scale and the cells of its evidence."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

from . import figures, wording
from .draw import Draw
from .question_wordings import WORDINGS
from .sheet import Place, Ref, Sheet, listed

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
    """Numbers that differ in one respect alone.

    Attributes:
      refs: the numbers. names: what they differ in, as one says it. shared: what they have in common.
      one, many: what each of them is of.
    """

    refs: list[Ref]
    names: list[str]
    shared: Ref
    one: str
    many: str

    def only(self, places: Sequence[int]) -> Line:
        """Some of them."""
        return self._replace(refs=[self.refs[i] for i in places], names=[self.names[i] for i in places])


def contexts(count: int, seed: int, split: str, wordings: str = "apart") -> Iterator[dict[str, Any]]:
    """So many contexts in TAT-QA's form.

    Args:
      seed: of everything random. split: "train", "validation" or "test", whose tables differ.
      wordings: "apart", or "seen": of the train split, whatever the split.
    """
    spoken = "train" if wordings == "seen" else split
    for place in range(count):
        draw = Draw(seed, wording.SPLITS.index(split), place)
        yield context(Sheet(draw), f"tables-{split}-{place:05d}", spoken)


def context(sheet: Sheet, name: str, split: str) -> dict[str, Any]:
    """A table with its questions."""
    draw = sheet.draw
    notes = _notes(sheet)
    found: list[dict[str, Any]] = []
    seen: set[str] = set()
    for _ in range(TRIES):
        if len(found) == QUESTIONS:
            break
        plan = draw.one(PLANS)
        asked = plan(sheet, draw, split) if plan not in (_why, _made_of) else plan(sheet, draw, split, notes)
        if asked is None or asked["question"] in seen:
            continue
        seen.add(asked["question"])
        order = len(found) + 1
        found.append({"uid": f"{name}-{order}", "order": order, "req_comparison": False} | asked)
    return {
        "table": {"uid": name, "table": sheet.cells},
        "paragraphs": [
            {"uid": f"{name}-p{i}", "order": i, "text": text} for i, text in enumerate(sheet.paragraphs, 1)
        ],
        "questions": found,
    }


def lines(sheet: Sheet) -> list[Line]:
    """Every line of a table: over times, and over entities that are no total."""
    found = []
    plain, moments = sheet.plain(), list(range(len(sheet.times)))
    for m in range(len(sheet.measures)):
        if moments:
            one, many = sheet.time_words
            for e in range(len(sheet.entities)) if sheet.entities else [-1]:
                refs = [Ref(m, e, t) for t in moments]
                found.append(Line(refs, list(sheet.times), Ref(m, e), one, many))
        if plain:
            for t in moments or [-1]:
                refs = [Ref(m, e, t) for e in plain]
                names = [sheet.entities[e] for e in plain]
                found.append(Line(refs, names, Ref(m, -1, t), sheet.field.one, sheet.field.many))
    return found


def ask(plan: str, split: str, draw: Draw, **slots: str) -> str:
    """A question of a plan; its first letter is small at times, its mark missing."""
    text = draw.one(wording.of_split(WORDINGS[plan], split)).format(**slots)
    text = text[0].upper() + text[1:]
    if draw.chance(0.06):
        text = text.rstrip("?.")
    return text[0].lower() + text[1:] if draw.chance(0.06) else text


def slots_of(sheet: Sheet, shared: Ref, draw: Draw) -> dict[str, str]:
    """The slots {x} and {X}."""
    text = wording.quantity(sheet, shared, draw)
    return {"x": text, "X": text.removeprefix("the ")}


def drawn_line(sheet: Sheet, draw: Draw, timed: bool | None = None, least: int = 2) -> Line | None:
    """A line of at least so many numbers, None where there is none; `timed`: over times, or at one."""
    found = [
        line
        for line in lines(sheet)
        if len(line.refs) >= least and (timed is None or (line.refs[0].time != line.refs[-1].time) == timed)
    ]
    return draw.one(found) if found else None


def answer(
    question: str, value: Any, derivation: str, kind: str, scale: str, cells: Sequence[Place]
) -> dict[str, Any]:
    """A question in TAT-QA's form, of cells."""
    return {
        "question": question,
        "answer": value,
        "derivation": derivation,
        "answer_type": kind,
        "answer_from": "table",
        "scale": scale,
        "rel_paragraphs": [],
        "mapping": [list(place) for place in cells],
    }


def _number(
    sheet: Sheet, question: str, value: Decimal, derivation: str, refs: Sequence[Ref], scale: str | None = None
) -> dict[str, Any] | None:
    rounded = value.quantize(Decimal("0.01"), ROUND_HALF_UP)
    if not rounded:  # the metric gives no point for nought
        return None
    number = int(rounded) if rounded == rounded.to_integral_value() else float(rounded)
    scale = sheet.scale(refs[0].measure) if scale is None else scale
    return answer(question, number, derivation, "arithmetic", scale, [sheet.at[ref] for ref in refs])


def _plain(value: Decimal) -> str:
    return f"{value:,f}" if value >= 0 else f"(-{abs(value):,f})"


# --- Plans.


def _lookup(sheet: Sheet, draw: Draw, split: str) -> dict[str, Any] | None:
    ref = draw.one(list(sheet.values))
    text = sheet.text(ref)
    countable = sheet.measures[ref.measure].countable
    if countable and ref.entity >= 0 and draw.chance(0.5):
        name, time = wording.entity(sheet, ref.entity, draw), sheet.times[ref.time] if ref.time >= 0 else ""
        when = f" in {time}" if time else ""
        slots = {"did": f"did {name}", "have": "have", "had": f"{name} had", "who": name, "then": when}
        question = ask("how_many", split, draw, m=wording.measure(sheet, ref.measure, draw), **slots)
    else:
        question = ask("lookup", split, draw, **slots_of(sheet, ref, draw))
    return answer(question, [text], "", "span", sheet.scale(ref.measure), [sheet.at[ref]])


def _two_times(sheet: Sheet, draw: Draw) -> tuple[Line, str, str, Decimal, Decimal] | None:
    """(the line of the two, earlier and later as one says them, their numbers)."""
    line = drawn_line(sheet, draw, timed=True)
    if line is None:
        return None
    first, second = sorted(draw.some(range(len(line.refs)), 2), key=lambda i: sheet.order(line.refs[i].time))
    if draw.chance(0.5) and len(line.refs) > 2:  # neighbours are asked for most
        ordered = sorted(range(len(line.refs)), key=lambda i: sheet.order(line.refs[i].time))
        at = draw.whole(0, len(ordered) - 2)
        first, second = ordered[at], ordered[at + 1]
    two = line.only([first, second])
    a, b = (sheet.values[ref] for ref in two.refs)
    return two, two.names[0], two.names[1], a, b


def _change(sheet: Sheet, draw: Draw, split: str) -> dict[str, Any] | None:
    found = _two_times(sheet, draw)
    if found is None:
        return None
    line, early, late, a, b = found
    said = slots_of(sheet, line.shared, draw)
    if a != b and draw.chance(0.4):
        grow, growth = draw.one(_UP if b > a else _DOWN)
        higher = draw.one(("higher", "larger") if b > a else ("lower", "smaller"))
        question = ask("rise", split, draw, a=early, b=late, grow=grow, growth=growth, higher=higher, **said)
        two = line.only([1, 0] if b > a else [0, 1])
        first, second = (sheet.values[ref] for ref in two.refs)
        return _number(sheet, question, first - second, f"{_plain(first)}-{_plain(second)}", two.refs)
    question = ask("change", split, draw, a=early, b=late, **said)
    return _number(sheet, question, b - a, f"{_plain(b)}-{_plain(a)}", line.refs[::-1])


def _before(sheet: Sheet, draw: Draw, line: Line) -> tuple[Line, str] | None:
    """(a time and the one before it; how one asks of the later alone)."""
    ordered = sorted(range(len(line.refs)), key=lambda i: sheet.order(line.refs[i].time))
    at = draw.whole(1, len(ordered) - 1)
    two = line.only([ordered[at - 1], ordered[at]])
    return two, two.names[1]


def _change_in(sheet: Sheet, draw: Draw, split: str) -> dict[str, Any] | None:
    """By how much something rose or fell in one time: against the time before."""
    line = drawn_line(sheet, draw, timed=True)
    if line is None:
        return None
    found = _before(sheet, draw, line)
    if found is None:
        return None
    two, late = found
    a, b = (sheet.values[ref] for ref in two.refs)
    if a == b:
        return None
    grow, growth = draw.one(_UP if b > a else _DOWN)
    question = ask(
        "change_in",
        split,
        draw,
        b=late,
        grow=grow,
        growth=growth,
        one=line.one,
        **slots_of(sheet, two.shared, draw),
    )
    down = two if b < a else two.only([1, 0])
    first, second = (sheet.values[ref] for ref in down.refs)
    return _number(sheet, question, first - second, f"{_plain(first)}-{_plain(second)}", down.refs)


def _all(line: Line, whole: bool, draw: Draw) -> str:
    """The names of a line, or "both years" where there are no others."""
    if whole and len(line.names) == 2 and draw.chance(0.4):
        return draw.one((f"both {line.many}", f"the two {line.many}"))
    return listed(line.names)


def _percent_change(sheet: Sheet, draw: Draw, split: str) -> dict[str, Any] | None:
    found = _two_times(sheet, draw)
    if found is None:
        return None
    line, early, late, a, b = found
    if not a or sheet.measures[line.refs[0].measure].kind in ("temperature", "percent"):
        return None
    slots = slots_of(sheet, line.shared, draw) | {"a": early, "b": late}
    if b > a > 0 and draw.chance(0.35):
        grow, growth = draw.one(_UP)
        question = ask("percent_rise", split, draw, grow=grow, growth=growth, **slots)
    else:
        question = ask("percent_change", split, draw, **slots)
    derivation = f"({_plain(b)}-{_plain(a)})/{_plain(a)}"
    return _number(sheet, question, (b - a) / a * 100, derivation, line.refs[::-1], "percent")


def _difference(sheet: Sheet, draw: Draw, split: str) -> dict[str, Any] | None:
    line = drawn_line(sheet, draw, timed=False)
    if line is None:
        return None
    two = line.only(draw.some(range(len(line.refs)), 2))
    if sheet.values[two.refs[0]] < sheet.values[two.refs[1]]:
        two = two.only([1, 0])
    a, b = (sheet.values[ref] for ref in two.refs)
    plan = draw.one(wording.of_split(WORDINGS["difference"], split))
    names = [wording.entity(sheet, ref.entity, draw) for ref in two.refs]
    # Where neither is said to have more, either may come first.
    if "and {b}" in plan and draw.chance(0.5):
        names = names[::-1]
    text = plan.format(
        a=names[0],
        b=names[1],
        more="more",
        higher=draw.one(("higher", "larger")),
        **slots_of(sheet, line.shared, draw),
    )
    return _number(sheet, text[0].upper() + text[1:], a - b, f"{_plain(a)}-{_plain(b)}", two.refs)


def _several(sheet: Sheet, draw: Draw) -> Line | None:
    line = drawn_line(sheet, draw)
    if line is None or sheet.total in {ref.entity for ref in line.refs if ref.entity >= 0}:
        return None
    count = min(len(line.refs), draw.one((2, 2, 2, 3)))
    return line.only(draw.some(range(len(line.refs)), count) if draw.chance(0.5) else list(range(count)))


def _sum(sheet: Sheet, draw: Draw, split: str) -> dict[str, Any] | None:
    line = _several(sheet, draw)
    if line is None or not sheet.measures[line.refs[0].measure].additive:
        return None
    values = [sheet.values[ref] for ref in line.refs]
    question = ask(
        "sum",
        split,
        draw,
        all=_all(line, sheet.is_whole(line.refs), draw),
        **slots_of(sheet, line.shared, draw),
    )
    return _number(sheet, question, sum(values, Decimal(0)), "+".join(map(_plain, values)), line.refs)


def _sum_all(sheet: Sheet, draw: Draw, split: str) -> dict[str, Any] | None:
    line = drawn_line(sheet, draw)
    if line is None or not sheet.measures[line.refs[0].measure].additive:
        return None
    timed = line.refs[0].time != line.refs[-1].time
    slots = slots_of(sheet, line.shared, draw) | {"one": line.one, "many": line.many}
    countable = sheet.measures[line.refs[0].measure].countable
    if countable and not timed and draw.chance(0.4):
        t = line.shared.time
        then = f" in {sheet.times[t]}" if t >= 0 else ""
        m = wording.measure(sheet, line.shared.measure, draw)
        question = ask("how_many_all", split, draw, m=m, many=line.many, then=then)
    else:
        question = ask("sum_all", split, draw, **slots)
    if (timed and line.many not in question) or (len(sheet.times) > 1 and not timed and line.shared.time < 0):
        return None
    if not timed and sheet.total >= 0:
        ref = line.refs[0]._replace(entity=sheet.total)
        return answer(question, [sheet.text(ref)], "", "span", sheet.scale(ref.measure), [sheet.at[ref]])
    values = [sheet.values[ref] for ref in line.refs]
    return _number(sheet, question, sum(values, Decimal(0)), "+".join(map(_plain, values)), line.refs)


def _average(sheet: Sheet, draw: Draw, split: str) -> dict[str, Any] | None:
    every = draw.chance(0.5)
    line = drawn_line(sheet, draw) if every else _several(sheet, draw)
    if line is None:
        return None
    said = slots_of(sheet, line.shared, draw)
    if every:
        question = ask("average_all", split, draw, one=line.one, many=line.many, **said)
        timed = line.refs[0].time != line.refs[-1].time
        if timed and line.one not in question:  # else one could not tell over what
            return None
    else:
        question = ask("average", split, draw, all=_all(line, sheet.is_whole(line.refs), draw), **said)
    values = [sheet.values[ref] for ref in line.refs]
    derivation = f"({'+'.join(map(_plain, values))})/{len(values)}"
    return _number(sheet, question, sum(values, Decimal(0)) / len(values), derivation, line.refs)


def _count_rows(sheet: Sheet, draw: Draw, split: str) -> dict[str, Any] | None:
    if not sheet.entities or draw.chance(0.5):  # one of few questions; not the same for each table
        return None
    plain = sheet.plain()
    question = ask("count_rows", split, draw, many=sheet.field.many)
    derivation = "##".join(sheet.entities[e] for e in plain)
    return answer(question, len(plain), derivation, "count", "", [sheet.of_entity[e] for e in plain])


def limit(values: Sequence[Decimal], style: figures.Style, draw: Draw) -> Decimal | None:
    """A number that parts several, as round as may be; None where there is none."""
    known = sorted(set(values))
    if len(known) < 2:
        return None
    at = draw.whole(0, len(known) - 2)
    low, high = known[at], known[at + 1]
    for power in range(6, -3, -1):
        unit = Decimal(10) ** power
        rounded = (low / unit).to_integral_value(ROUND_HALF_UP) * unit
        for candidate in (rounded, rounded + unit):
            if low < candidate < high and power >= -style.places:
                return candidate.quantize(Decimal(1)) if power >= 0 else candidate
    return None


def _count_more(sheet: Sheet, draw: Draw, split: str) -> dict[str, Any] | None:
    line = drawn_line(sheet, draw, least=3)
    if line is None:
        return None
    style = sheet.styles[line.refs[0].measure]
    bound = limit([sheet.values[ref] for ref in line.refs], style, draw)
    if bound is None or bound <= 0:
        return None
    more = draw.chance(0.6)
    chosen = [i for i, ref in enumerate(line.refs) if (sheet.values[ref] > bound) == more]
    written = f"{bound:,}" if style.grouped or draw.chance(0.2) else f"{bound}"
    if scale := sheet.scales[line.refs[0].measure]:
        written = f"{written} {scale}" if draw.chance(0.6) else written
    elif style.before.strip() and draw.chance(0.4):
        written = style.before.strip() + written
    elif sheet.measures[line.refs[0].measure].unit == "%":
        written = f"{written}%"
    slots = slots_of(sheet, line.shared, draw) | {"one": line.one, "many": line.many, "n": written}
    question = ask("count_more" if more else "count_less", split, draw, **slots)
    refs = line.only(chosen).refs
    return answer(
        question, len(refs), "##".join(sheet.text(ref) for ref in refs), "count", "", [sheet.at[ref] for ref in refs]
    )


def _count_text(sheet: Sheet, draw: Draw, split: str) -> dict[str, Any] | None:
    if not sheet.attributes:
        return None
    name = draw.one(list(sheet.attributes))
    texts = sheet.attributes[name]
    text = draw.one([texts[e] for e in sheet.plain()])
    chosen = [e for e in sheet.plain() if texts[e] == text]
    question = ask("count_text", split, draw, many=sheet.field.many, attribute=name, text=text)
    cells = [sheet.of_attribute[name, e] for e in chosen]
    return answer(question, len(chosen), "##".join(text for _ in chosen), "count", "", cells)


def _text(sheet: Sheet, draw: Draw, split: str) -> dict[str, Any] | None:
    if not sheet.attributes:
        return None
    name, e = draw.one(list(sheet.attributes)), draw.one(sheet.plain())
    question = ask("text", split, draw, attribute=name, a=wording.entity(sheet, e, draw))
    return answer(question, [sheet.attributes[name][e]], "", "span", "", [sheet.of_attribute[name, e]])


def _share(sheet: Sheet, draw: Draw, split: str) -> dict[str, Any] | None:
    line = drawn_line(sheet, draw, timed=False)
    if line is None:
        return None
    ref = draw.one(line.refs)
    if sheet.total < 0:
        # The whole is not in the table.
        values = [sheet.values[other] for other in line.refs]
        if min(values) < 0 or not sum(values) or not sheet.measures[ref.measure].additive:
            return None
        question = ask("share", split, draw, a=sheet.entities[ref.entity], **slots_of(sheet, line.shared, draw))
        a, parts = sheet.values[ref], "+".join(map(_plain, values))
        share = a / sum(values, Decimal(0)) * 100
        return _number(sheet, question, share, f"{_plain(a)}/({parts})", [ref, *line.refs], "percent")
    whole = ref._replace(entity=sheet.total)
    a, b = sheet.values[ref], sheet.values[whole]
    if not b or a < 0 or b < 0:
        return None
    question = ask("share", split, draw, a=sheet.entities[ref.entity], **slots_of(sheet, line.shared, draw))
    return _number(sheet, question, a / b * 100, f"{_plain(a)}/{_plain(b)}", [ref, whole], "percent")


def _part(sheet: Sheet, draw: Draw, split: str) -> dict[str, Any] | None:
    """One measure as a share of another, or their ratio."""
    alike = [
        (i, j)
        for i, j in itertools.permutations(range(len(sheet.measures)), 2)
        if (sheet.measures[i].unit, sheet.scales[i]) == (sheet.measures[j].unit, sheet.scales[j])
        and sheet.measures[i].kind == sheet.measures[j].kind
        and sheet.measures[i].kind in ("money", "signed", "score", "big", "huge", "count")
    ]
    if not alike:
        return None
    i, j = draw.one(alike)
    other = draw.one([ref for ref in sheet.values if ref.measure == i])
    ref = other._replace(measure=j)
    a, b = sheet.values[ref], sheet.values[other]
    if a <= 0 or b <= 0:
        return None
    # "revenue to cost in 2019": who and when are said once.
    x, y = wording.measure(sheet, j, draw), wording.quantity(sheet, other, draw)
    if draw.chance(0.4):
        x = wording.quantity(sheet, ref, draw)
    if draw.chance(0.5):
        question = ask("ratio", split, draw, x=x, X=x.removeprefix("the "), y=y)
        return _number(sheet, question, a / b, f"{_plain(a)}/{_plain(b)}", [ref, other], "")
    question = ask("part", split, draw, x=x, X=x.removeprefix("the "), y=y)
    return _number(sheet, question, a / b * 100, f"{_plain(a)}/{_plain(b)}", [ref, other], "percent")


def _respective(sheet: Sheet, draw: Draw, split: str) -> dict[str, Any] | None:
    line = _several(sheet, draw)
    if line is None:
        return None
    question = ask("respective", split, draw, all=listed(line.names), **slots_of(sheet, line.shared, draw))
    texts, style = [sheet.text(ref) for ref in line.refs], sheet.styles[line.refs[0].measure]
    if style.first:
        texts = [text.removeprefix(style.before).removesuffix(style.after) for text in texts]
    scale = sheet.scale(line.refs[0].measure)
    return answer(question, texts, "", "multi-span", scale, [sheet.at[ref] for ref in line.refs])


def _most(sheet: Sheet, draw: Draw, split: str) -> dict[str, Any] | None:
    line = drawn_line(sheet, draw)
    if line is None:
        return None
    most = draw.chance(0.6)
    values = [sheet.values[ref] for ref in line.refs]
    best = max(values) if most else min(values)
    if values.count(best) > 1:
        return None
    ref = line.refs[values.index(best)]
    slots = slots_of(sheet, line.shared, draw) | {"one": line.one, "many": line.many}
    question = ask("most" if most else "least", split, draw, **slots)
    timed = line.refs[0].time != line.refs[-1].time
    place = (sheet.of_time if timed else sheet.of_entity).get(ref.time if timed else ref.entity)
    if place is None or (line.one not in question and line.many not in question):
        return None
    row, column = place
    text = sheet.cells[row][column]
    if timed and text.startswith(("FY", "Year")):  # whether "FY 2019" or 2019 is the answer depends on the wording
        return None
    return answer(question, [text], "", "span", "", [place])


def _notes(sheet: Sheet) -> dict[int, tuple[str, Any]]:
    """Sentences beside the table, {paragraph from 1: (measure, its cause, or its parts)}."""
    draw = sheet.draw
    found: dict[int, tuple[str, Any]] = {}
    if not draw.chance(0.35):
        return found
    for m in draw.some(range(len(sheet.measures)), draw.whole(1, 2)):
        name = sheet.measures[m].name
        subject = name[0].upper() + name[1:]
        if draw.chance(0.5):
            cause = draw.one(_CAUSES)
            form = draw.one(
                ("{} changed because of {}.", "{} changed, mainly due to {}.", "The change in {} is due to {}.")
            )
            text, what = form.format(name if form.startswith("The") else subject, cause), cause
        else:
            what = draw.some(_PARTS, draw.whole(2, 3))
            form = draw.one(("{} includes {}.", "{} consists of {}.", "{} covers {}."))
            text = form.format(subject, listed(what))
        sheet.paragraphs.append(text)
        found[len(sheet.paragraphs)] = (name, what)
    return found


def _why(sheet: Sheet, draw: Draw, split: str, notes: dict[int, tuple[str, Any]]) -> dict[str, Any] | None:
    return _noted(draw, split, notes, "why", str)


def _made_of(sheet: Sheet, draw: Draw, split: str, notes: dict[int, tuple[str, Any]]) -> dict[str, Any] | None:
    return _noted(draw, split, notes, "made_of", list)


def _noted(draw: Draw, split: str, notes: dict[int, tuple[str, Any]], plan: str, kind: type) -> dict[str, Any] | None:
    known = [(place, name, what) for place, (name, what) in notes.items() if isinstance(what, kind)]
    if not known:
        return None
    place, name, what = draw.one(known)
    parts = [what] if isinstance(what, str) else what
    found = answer(ask(plan, split, draw, m=name), parts, "", "span" if kind is str else "multi-span", "", [])
    return found | {"answer_from": "text", "rel_paragraphs": [str(place)]}


Plan = Callable[..., dict[str, Any] | None]
PLANS: tuple[Plan, ...] = (
    _lookup, _lookup, _lookup, _change, _change, _change, _change_in, _percent_change, _percent_change,
    _difference, _difference,
    _sum, _sum, _sum_all, _sum_all, _average, _average, _average, _count_rows, _count_more, _count_more, _count_text,
    _text, _share, _share, _part, _respective, _most, _most, _why, _made_of,
)  # fmt: skip
