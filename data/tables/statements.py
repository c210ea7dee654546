"""Statements that a table entails or refutes, in TabFact's form.

Of each plan as many are true as false, and nothing but the table tells which: names, numbers and directions are drawn
alike for both.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

from . import figures, wording
from .draw import Draw
from .questions import Line, drawn_line, limit, slots_of
from .sheet import Sheet, listed
from .statement_wordings import NOT, WORDINGS

STATEMENTS = 8  # of a table, half of them entailed
TRIES = 80
DENIED = 0.2  # of the plans that can be denied
SIMPLE = ("value", "has", "text", "limit")
_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()
# Words for both ways: more, and less.
_WAYS: tuple[dict[str, tuple[str, ...]], ...] = (
    {
        "more": ("more",),
        "less": ("less", "fewer"),
        "higher": ("higher", "larger", "greater"),
        "lower": ("lower", "smaller"),
        "most": ("highest", "largest", "greatest"),
        "first": ("first", "ahead of all others"),
        "above": ("above", "over", "more than"),
        "below": ("below", "under"),
        "ahead": ("ahead of", "above"),
        "before": ("before", "ahead of"),
        "beats": ("exceeds", "beats", "tops"),
        "exceed": ("exceed",),
        "exceeds": ("exceeds", "is above"),
        "rise": ("rise", "grow", "increase", "go up"),
        "rose": ("rose", "grew", "increased", "went up"),
        "a_rise": ("a rise", "an increase", "growth"),
        "had_risen": ("had risen", "had grown", "had increased"),
    },
    {
        "more": ("less", "fewer"),
        "less": ("more",),
        "higher": ("lower", "smaller"),
        "lower": ("higher", "larger", "greater"),
        "most": ("lowest", "smallest", "least"),
        "first": ("last", "behind all others"),
        "above": ("below", "under", "less than"),
        "below": ("above", "over"),
        "ahead": ("behind", "below"),
        "before": ("behind", "after"),
        "beats": ("trails", "falls behind"),
        "exceed": ("fall below",),
        "exceeds": ("falls short of", "is below"),
        "rise": ("fall", "drop", "decrease", "go down"),
        "rose": ("fell", "dropped", "decreased", "went down", "declined"),
        "a_rise": ("a fall", "a drop", "a decrease"),
        "had_risen": ("had fallen", "had dropped", "had decreased"),
    },
)


class Fact(NamedTuple):
    """A plan and what fills its wordings."""

    plan: str
    slots: dict[str, str]


def tables(
    count: int, seed: int, split: str, wordings: str = "apart"
) -> Iterator[tuple[str, Sheet, list[tuple[str, int, str]]]]:
    """(id, table, [(statement, label, "simple" or "complex")]) of so many tables.

    Args:
      seed: of everything random. split: "train", "validation" or "test", whose tables differ.
      wordings: "apart", or "seen": of the train split, whatever the split.
    """
    spoken = "train" if wordings == "seen" else split
    for place in range(count):
        draw = Draw(seed, 10 + wording.SPLITS.index(split), place)
        sheet = Sheet(draw)
        yield f"tables-{split}-{place:05d}.csv", sheet, statements(sheet, spoken)


def statements(sheet: Sheet, split: str) -> list[tuple[str, int, str]]:
    """The statements of a table in random order, one true and one false of each plan that is drawn."""
    draw = sheet.draw
    found: list[tuple[str, int, str]] = []
    seen: set[str] = set()
    for _ in range(TRIES):
        plan = draw.one(PLANS)
        denied = draw.chance(DENIED)
        texts = []
        for label in (1, 0):
            fact = plan(sheet, draw, bool(label))
            # Of what is denied the opposite is drawn.
            if fact is not None and denied and fact.plan in NOT:
                fact = plan(sheet, draw, not label)
            texts.append(_said(fact, denied, split, draw) if fact is not None else "")
        if all(texts) and texts[0] != texts[1] and seen.isdisjoint(texts):
            seen.update(texts)
            kind = "simple" if fact is not None and fact.plan in SIMPLE else "complex"
            found += [(text, 1 - i, kind) for i, text in enumerate(texts)]
        if len(found) >= STATEMENTS:
            break
    return draw.some(found, len(found))


def _said(fact: Fact | None, denied: bool, split: str, draw: Draw) -> str:
    if fact is None:
        return ""
    known = NOT[fact.plan] if denied and fact.plan in NOT else wording.of_split(WORDINGS[fact.plan], split)
    text = draw.one(known).format(**fact.slots)
    text = text if draw.chance(0.15) else text[0].upper() + text[1:]
    return text + ("" if draw.chance(0.2) else ".")


def _way(more: bool, draw: Draw) -> dict[str, str]:
    return {name: draw.one(words) for name, words in _WAYS[0 if more else 1].items()}


def number(sheet: Sheet, m: int, value: Decimal, draw: Draw) -> str:
    """A number as a sentence has it: grouped or not, with its unit or scale at times."""
    style, measure = sheet.styles[m], sheet.measures[m]
    text = figures.bare(value, style._replace(grouped=style.grouped and draw.chance(0.8)))
    if style.places and "." in text and (draw.chance(0.5) or not value % 1):
        text = text.rstrip("0").rstrip(".")
    if sheet.scales[m] and draw.chance(0.4):
        text = f"{text} {sheet.scales[m]}"
    elif measure.unit in ("$", "€", "£"):
        text = f"{'-' if value < 0 else ''}{measure.unit}{text.lstrip('-')}" if draw.chance(0.4) else text
    elif measure.unit == "%":
        text = f"{text}%" if draw.chance(0.6) else text
    elif measure.unit and draw.chance(0.3):
        text = f"{text} {measure.unit}"
    return text


def wrong(value: Decimal, others: Sequence[Decimal], style: figures.Style, draw: Draw) -> Decimal:
    """Another number than `value`: one of the others, or one that is near it and as round."""
    different = [other for other in others if other != value]
    if different and draw.chance(0.6):
        return draw.one(different)
    unit = Decimal(1).scaleb(-style.places) * (style.round_to if not style.places else 1)
    for _ in range(20):
        moved = value * Decimal(draw.real(0.6, 1.4))
        moved = (moved / unit).to_integral_value(ROUND_HALF_UP) * unit
        if moved != value:
            return moved
    return value + unit * draw.one((1, 2, 3, -1))


# --- Plans: a fact that is true or false.


def _value(sheet: Sheet, draw: Draw, true: bool) -> Fact:
    ref = draw.one(list(sheet.values))
    m, value = ref.measure, sheet.values[ref]
    if not true:
        near = [other for at, other in sheet.values.items() if at.measure == m and at != ref]
        value = wrong(value, near, sheet.styles[m], draw)
    text = number(sheet, m, value, draw)
    if sheet.measures[m].countable and ref.entity >= 0 and ref.time < 0 and draw.chance(0.5):
        return Fact("has", {"a": sheet.entities[ref.entity], "v": text, "m": wording.measure(sheet, m, draw)})
    return Fact("value", slots_of(sheet, ref, draw) | {"v": text})


def _text(sheet: Sheet, draw: Draw, true: bool) -> Fact | None:
    if not sheet.attributes:
        return None
    name, e = draw.one(list(sheet.attributes)), draw.one(sheet.plain())
    text = sheet.attributes[name][e]
    if not true:
        others = [other for other in sheet.attributes[name] if other not in (text, "-")]
        if not others:
            return None
        text = draw.one(others)
    return Fact("text", {"attribute": name, "a": sheet.entities[e], "v": text})


def _pair(sheet: Sheet, draw: Draw, more: bool, line: Line) -> Line | None:
    """Two of a line of which the first is more than the second, or less."""
    pairs = [
        pair
        for pair in itertools.permutations(range(len(line.refs)), 2)
        if sheet.values[line.refs[pair[0]]] != sheet.values[line.refs[pair[1]]]
        and (sheet.values[line.refs[pair[0]]] > sheet.values[line.refs[pair[1]]]) == more
    ]
    return line.only(draw.one(pairs)) if pairs else None


def _more(sheet: Sheet, draw: Draw, true: bool) -> Fact | None:
    line = drawn_line(sheet, draw, timed=False)
    more = draw.chance(0.5)
    two = _pair(sheet, draw, more == true, line) if line else None
    if two is None:
        return None
    return Fact("more", slots_of(sheet, two.shared, draw) | _way(more, draw) | {"a": two.names[0], "b": two.names[1]})


def _moved(sheet: Sheet, draw: Draw, true: bool) -> Fact | None:
    line = drawn_line(sheet, draw, timed=True)
    more = draw.chance(0.5)
    if line is None:
        return None
    pairs = []
    for one, other in itertools.combinations(range(len(line.refs)), 2):
        first, second = sorted((one, other), key=lambda i: sheet.order(line.refs[i].time))
        a, b = sheet.values[line.refs[first]], sheet.values[line.refs[second]]
        if a != b and ((b > a) == more) == true:
            pairs.append((first, second))
    if not pairs:
        return None
    two = line.only(draw.one(pairs))
    return Fact(
        "moved", slots_of(sheet, two.shared, draw) | _way(more, draw) | {"a": two.names[0], "b": two.names[1]}
    )


def _moved_in(sheet: Sheet, draw: Draw, true: bool) -> Fact | None:
    """In one time, against the time before."""
    line = drawn_line(sheet, draw, timed=True)
    more = draw.chance(0.5)
    if line is None:
        return None
    ordered = sorted(range(len(line.refs)), key=lambda i: sheet.order(line.refs[i].time))
    pairs = [
        pair
        for pair in itertools.pairwise(ordered)
        if (a := sheet.values[line.refs[pair[0]]]) != (b := sheet.values[line.refs[pair[1]]])
        and ((b > a) == more) == true
    ]
    if not pairs:
        return None
    late = draw.one(pairs)[1]
    slots = slots_of(sheet, line.shared, draw) | _way(more, draw) | {"one": line.one}
    return Fact("moved_in", slots | {"b": line.names[late]})


def _extreme(sheet: Sheet, draw: Draw, true: bool) -> Fact | None:
    line = drawn_line(sheet, draw)
    if line is None:
        return None
    values, more = [sheet.values[ref] for ref in line.refs], draw.chance(0.5)
    best = max(values) if more else min(values)
    if values.count(best) > 1:
        return None
    at = values.index(best) if true else draw.one([i for i, value in enumerate(values) if value != best])
    slots = slots_of(sheet, line.shared, draw) | _way(more, draw) | {"one": line.one, "many": line.many}
    return Fact("extreme", slots | {"a": line.names[at]})


def _limit(sheet: Sheet, draw: Draw, true: bool) -> Fact | None:
    ref = draw.one(list(sheet.values))
    value, style, more = sheet.values[ref], sheet.styles[ref.measure], draw.chance(0.5)
    bound = wrong(value, [], style, draw)
    if (value > bound) != (more == true):
        bound = 2 * value - bound
    return Fact(
        "limit", slots_of(sheet, ref, draw) | _way(more, draw) | {"n": number(sheet, ref.measure, bound, draw)}
    )


def _bounded(sheet: Sheet, draw: Draw) -> tuple[Line, list[Decimal]] | None:
    line = drawn_line(sheet, draw, least=3)
    return (line, [sheet.values[ref] for ref in line.refs]) if line else None


def _slots(sheet: Sheet, line: Line, bound: Decimal, more: bool, draw: Draw) -> dict[str, str]:
    slots = slots_of(sheet, line.shared, draw) | _way(more, draw) | {"one": line.one, "many": line.many}
    return slots | {"n": number(sheet, line.refs[0].measure, bound, draw)}


def _k(count: int, draw: Draw) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) and draw.chance(0.6) else str(count)


def _count(sheet: Sheet, draw: Draw, true: bool) -> Fact | None:
    found = _bounded(sheet, draw)
    if found is None:
        return None
    line, values = found
    style, more = sheet.styles[line.refs[0].measure], draw.chance(0.5)
    bounds = [limit(values, style, draw) for _ in range(2)]
    if bounds[0] is None or bounds[1] is None or bounds[0] <= 0:
        return None
    counts = [sum((value > bound) == more for value in values) for bound in bounds if bound is not None]
    # The count of another limit, so that counts say nothing.
    if not true and counts[0] == counts[1]:
        return None
    return Fact("count", _slots(sheet, line, bounds[0], more, draw) | {"k": _k(counts[0 if true else 1], draw)})


def _rows(sheet: Sheet, draw: Draw, true: bool) -> Fact | None:
    count = len(sheet.plain())
    if count < 3 or not draw.chance(0.3):
        return None
    # Of tables of three to seven rows any of these numbers may be claimed.
    claimed = count if true else draw.one([other for other in range(3, 8) if other != count])
    return Fact("rows", {"k": _k(claimed, draw), "many": sheet.field.many})


def _count_text(sheet: Sheet, draw: Draw, true: bool) -> Fact | None:
    if not sheet.attributes:
        return None
    name = draw.one(list(sheet.attributes))
    texts = [sheet.attributes[name][e] for e in sheet.plain()]
    text, count = (chosen := draw.one(texts)), texts.count(chosen)
    if not true:
        counts = [texts.count(other) for other in texts] + [1, 2, 3]
        others = [other for other in counts if other != count]
        count = draw.one(others)
    slots = {"attribute": name, "v": text, "many": sheet.field.many, "k": _k(count, draw)}
    return Fact("count_text", slots)


def _quantified(sheet: Sheet, draw: Draw, true: bool) -> Fact | None:
    found = _bounded(sheet, draw)
    if found is None:
        return None
    line, values = found
    style, more, plan = sheet.styles[line.refs[0].measure], draw.chance(0.5), draw.one(("all", "none", "only"))
    unit = Decimal(1).scaleb(-style.places) * max(1, style.round_to if not style.places else 1)
    spread = max(values) - min(values)
    inside = [bound for bound in (limit(values, style, draw) for _ in range(6)) if bound is not None]
    edges = [
        min(values) - max(unit, (spread / 5).quantize(unit)),
        max(values) + max(unit, (spread / 5).quantize(unit)),
    ]
    wanted = []
    for bound in [*inside, *edges]:
        count = sum((value > bound) == more for value in values)
        holds = {"all": count == len(values), "none": count == 0, "only": count == 1}[plan]
        if holds == true and bound not in values and bound > 0:
            wanted.append(bound)
    if not wanted:
        return None
    return Fact(plan, _slots(sheet, line, draw.one(wanted), more, draw))


def _sum(sheet: Sheet, draw: Draw, true: bool) -> Fact | None:
    line = drawn_line(sheet, draw, least=3)
    if line is None or not sheet.measures[line.refs[0].measure].additive:
        return None
    m = line.refs[0].measure
    every = draw.chance(0.4) and line.refs[0].entity != line.refs[-1].entity
    some = line if every else line.only(draw.some(range(len(line.refs)), 2))
    value = sum((sheet.values[ref] for ref in some.refs), Decimal(0))
    if not true:
        pairs = itertools.combinations([sheet.values[ref] for ref in line.refs], 2)
        value = wrong(value, [] if every else [a + b for a, b in pairs], sheet.styles[m], draw)
    slots = slots_of(sheet, line.shared, draw) | {
        "v": number(sheet, m, value, draw),
        "many": line.many,
        "one": line.one,
    }
    return Fact("sum_all", slots) if every else Fact("sum", slots | {"all": listed(some.names)})


def _mean(sheet: Sheet, draw: Draw, true: bool) -> Fact | None:
    line = drawn_line(sheet, draw, least=3)
    if line is None or line.refs[0].entity == line.refs[-1].entity:
        return None
    m = line.refs[0].measure
    style = sheet.styles[m]._replace(places=max(1, sheet.styles[m].places), round_to=1)
    value = sum((sheet.values[ref] for ref in line.refs), Decimal(0)) / len(line.refs)
    value = value.quantize(Decimal(1).scaleb(-style.places), ROUND_HALF_UP)
    value = value if true else wrong(value, [], style, draw)
    text = f"{value.normalize():,f}" if sheet.styles[m].grouped else f"{value.normalize():f}"
    return Fact("mean", slots_of(sheet, line.shared, draw) | {"v": text, "many": line.many})


def _difference(sheet: Sheet, draw: Draw, true: bool) -> Fact | None:
    timed = draw.chance(0.4)
    line = drawn_line(sheet, draw, timed=timed)
    if line is None:
        return None
    two = line.only(draw.some(range(len(line.refs)), 2))
    if timed and sheet.order(two.refs[0].time) > sheet.order(two.refs[1].time):
        two = two.only([1, 0])
    a, b = (sheet.values[ref] for ref in two.refs)
    if a == b:
        return None
    others = [abs(sheet.values[x] - sheet.values[y]) for x, y in itertools.combinations(line.refs, 2)]
    value = abs(a - b)
    value = (
        value if true else wrong(value, [other for other in others if other], sheet.styles[two.refs[0].measure], draw)
    )
    more = b > a if timed else a > b
    slots = slots_of(sheet, two.shared, draw) | _way(more, draw) | {"a": two.names[0], "b": two.names[1]}
    return Fact("changed" if timed else "difference", slots | {"v": number(sheet, two.refs[0].measure, value, draw)})


def _percent(sheet: Sheet, draw: Draw, true: bool) -> Fact | None:
    line = drawn_line(sheet, draw, timed=True)
    if line is None:
        return None
    two = line.only(sorted(draw.some(range(len(line.refs)), 2), key=lambda i: sheet.order(line.refs[i].time)))
    a, b = (sheet.values[ref] for ref in two.refs)
    if a <= 0 or b <= 0 or a == b or sheet.measures[two.refs[0].measure].kind in ("temperature", "percent"):
        return None
    value = abs((b - a) / a * 100).quantize(Decimal("0.1") if draw.chance(0.6) else Decimal(1), ROUND_HALF_UP)
    if not value:
        return None
    if not true:
        value = wrong(value, [], figures.Style(1 if value != int(value) else 0), draw)
    slots = slots_of(sheet, two.shared, draw) | _way(b > a, draw) | {"a": two.names[0], "b": two.names[1]}
    return Fact("percent", slots | {"v": f"{value.normalize():f}"})


def _two(sheet: Sheet, draw: Draw, true: bool) -> Fact | None:
    """Two measures of one row or time."""
    alike = [
        (i, j)
        for i, j in itertools.permutations(range(len(sheet.measures)), 2)
        if (sheet.measures[i].unit, sheet.scales[i], sheet.measures[i].kind)
        == (sheet.measures[j].unit, sheet.scales[j], sheet.measures[j].kind)
    ]
    if not alike:
        return None
    i, j = draw.one(alike)
    ref, more = draw.one([one for one in sheet.values if one.measure == i]), draw.chance(0.5)
    other = ref._replace(measure=j)
    if sheet.values[ref] == sheet.values[other]:
        return None
    if (sheet.values[ref] > sheet.values[other]) != (more == true):
        ref, other = other, ref
    y = wording.measure(sheet, other.measure, draw)
    slots = slots_of(sheet, ref, draw) | _way(more, draw)
    return Fact("two", slots | {"y": y, "Y": y})


PLANS: tuple[Callable[[Sheet, Draw, bool], Fact | None], ...] = (
    _value, _value, _value, _text, _more, _more, _moved, _moved, _moved_in, _extreme, _extreme, _limit, _count,
    _count, _rows, _count_text, _quantified, _quantified, _sum, _sum, _mean, _difference, _difference, _percent, _two,
)  # fmt: skip


def records(count: int, seed: int, split: str, wordings: str = "apart") -> Iterator[dict[str, Any]]:
    """The same as flat records without ids of their own: table id, rows of cells, statement, label, kind."""
    for name, sheet, said in tables(count, seed, split, wordings):
        for place, (text, label, kind) in enumerate(said):
            yield {
                "id": f"{name}:{place}",
                "table_id": name,
                "caption": "",
                "table": sheet.cells,
                "statement": text,
                "label": label,
                "kind": kind,
            }
