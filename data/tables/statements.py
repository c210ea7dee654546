"""Generates statements that a table entails or refutes, in TabFact's form.

As many statements of each plan are true as false, and only the table shows which: names, numbers and directions are
drawn in the same way for both.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

from . import figures, wording
from .draw import Draw
from .facts import Evidence, Fact, phrase_fact
from .questions import Line, draw_limit, draw_line, make_slots
from .sheet import CellIndex, Ref, TableSheet, join_words
from .statement_wordings import DENIALS

STATEMENTS = 8  # of a table, half of them entailed
TRIES = 80
DENIED_SHARE = 0.2  # of the plans that can be denied
SIMPLE = ("value", "has", "text", "limit")
_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()
# Words for both directions: more, and less.
_DIRECTIONS: tuple[dict[str, tuple[str, ...]], ...] = (
    {
        "more": ("more",),
        "less": ("less", "fewer"),
        "higher": ("higher", "larger", "greater"),
        "lower": ("lower", "smaller"),
        "most": ("highest", "largest", "greatest"),
        "first": ("first", "ahead of all others"),
        "above": ("above", "over", "more than"),
        "at_most": ("at most", "no more than"),
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
        "at_most": ("at least", "no less than"),
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


class Statement(NamedTuple):
    """A statement, whether its table entails it (1) or refutes it (0), its kind ("simple" or "complex"), and how to
    judge it."""

    text: str
    label: int
    kind: str
    evidence: Evidence


def make_tables(
    count: int, seed: int, split: str, wordings: str = "apart"
) -> Iterator[tuple[str, TableSheet, list[Statement]]]:
    """Yields (id, table, its statements) for `count` tables.

    Args:
      seed: of everything random. split: "train", "validation" or "test", which have different tables.
      wordings: "apart" (of the split), or "seen" (of the train split in every split).
    """
    wording_split = "train" if wordings == "seen" else split
    for index in range(count):
        draw = Draw(seed, 10 + wording.SPLITS.index(split), index)
        sheet = TableSheet(draw)
        yield f"tables-{split}-{index:05d}.csv", sheet, make_statements(sheet, wording_split)


def make_statements(sheet: TableSheet, split: str) -> list[Statement]:
    """Returns the statements of a table in random order, one true and one false for each plan that is drawn."""
    draw = sheet.draw
    statements: list[Statement] = []
    used_texts: set[str] = set()
    for _ in range(TRIES):
        plan = draw.choice(PLANS)
        is_denied = draw.chance(DENIED_SHARE)
        pair = []
        for label in (1, 0):
            fact = plan(sheet, draw, bool(label))
            # A denied statement needs the opposite fact, in a plan that can be denied too.
            needs_opposite = fact is not None and is_denied and fact.plan in DENIALS
            if needs_opposite:
                fact = plan(sheet, draw, not label)
            if fact is not None and (fact.plan in DENIALS or not needs_opposite):
                text, evidence = phrase_fact(fact, is_denied, split, draw)
                kind = "simple" if fact.plan in SIMPLE else "complex"
                pair.append(Statement(text, label, kind, evidence))
        texts = {statement.text for statement in pair}
        if len(texts) == 2 and used_texts.isdisjoint(texts):
            used_texts |= texts
            statements += pair
        if len(statements) >= STATEMENTS:
            break
    return draw.sample(statements, len(statements))


def _find_cells(sheet: TableSheet, refs: Sequence[Ref]) -> tuple[CellIndex, ...]:
    return tuple(sheet.cell_of[ref] for ref in refs)


def _draw_direction(is_more: bool, draw: Draw) -> dict[str, str]:
    return {name: draw.choice(words) for name, words in _DIRECTIONS[0 if is_more else 1].items()}


def phrase_number(sheet: TableSheet, m: int, value: Decimal, draw: Draw) -> str:
    """Returns a number as a sentence writes it: grouped or not, sometimes with its unit or scale."""
    style, measure = sheet.styles[m], sheet.measures[m]
    text = figures.format_number(value, style._replace(grouped=style.grouped and draw.chance(0.8)))
    if style.places and "." in text and (draw.chance(0.5) or not value % 1):
        text = text.rstrip("0").rstrip(".")
    if sheet.scales[m]:  # a unit without the scale would say another number
        text = f"{text} {sheet.scales[m]}" if draw.chance(0.4) else text
    elif measure.unit in ("$", "€", "£"):
        text = f"{'-' if value < 0 else ''}{measure.unit}{text.lstrip('-')}" if draw.chance(0.4) else text
    elif measure.unit == "%":
        text = f"{text}%" if draw.chance(0.6) else text
    elif measure.unit and draw.chance(0.3):
        text = f"{text} {measure.unit}"
    return text


def draw_wrong_number(
    value: Decimal, alternatives: Sequence[Decimal], style: figures.CellStyle, draw: Draw
) -> Decimal:
    """Draws a number other than `value`: one of the alternatives, or one that is close to it and as round."""
    candidates = [alternative for alternative in alternatives if alternative != value]
    if candidates and draw.chance(0.6):
        return draw.choice(candidates)
    unit = Decimal(1).scaleb(-style.places) * (style.round_to if not style.places else 1)
    for _ in range(20):
        candidate = value * Decimal(draw.uniform(0.6, 1.4))
        candidate = (candidate / unit).to_integral_value(ROUND_HALF_UP) * unit
        if candidate != value:
            return candidate
    return value + unit * draw.choice((1, 2, 3, -1))


def _rounds_to(exact: Decimal, value: Decimal) -> bool:
    """Whether a number is right as rounded to the decimals that a statement writes of `value`."""
    places = -min(0, int(value.normalize().as_tuple().exponent))
    return exact.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP) == value


# --- Plans: each returns a fact that is true or false, or None if the table does not suit it.


def _state_value(sheet: TableSheet, draw: Draw, is_true: bool) -> Fact:
    ref = draw.choice(list(sheet.values))
    m, value = ref.measure, sheet.values[ref]
    if not is_true:
        alternatives = [
            alternative
            for alternative_ref, alternative in sheet.values.items()
            if alternative_ref.measure == m and alternative_ref != ref
        ]
        value = draw_wrong_number(value, alternatives, sheet.styles[m], draw)
    text = phrase_number(sheet, m, value, draw)
    if sheet.measures[m].countable and ref.entity >= 0 and ref.time < 0 and draw.chance(0.5):
        slots = {"a": sheet.entities[ref.entity], "v": text, "m": wording.name_measure(sheet, m, draw)}
        return Fact("has", slots, "EQUAL", _find_cells(sheet, [ref]))
    return Fact("value", make_slots(sheet, ref, draw) | {"v": text}, "EQUAL", _find_cells(sheet, [ref]))


def _state_text(sheet: TableSheet, draw: Draw, is_true: bool) -> Fact | None:
    if not sheet.attributes:
        return None
    name, e = draw.choice(list(sheet.attributes)), draw.choice(sheet.list_non_totals())
    text = sheet.attributes[name][e]
    if not is_true:
        alternatives = [alternative for alternative in sheet.attributes[name] if alternative not in (text, "-")]
        if not alternatives:
            return None
        text = draw.choice(alternatives)
    slots = {"attribute": name, "a": sheet.entities[e], "t": text}
    return Fact("text", slots, "TEXT", (sheet.cell_of_attribute[name, e],))


def _draw_pair(sheet: TableSheet, draw: Draw, is_more: bool, line: Line) -> Line | None:
    """Draws two numbers of a line, the first larger than the second, or smaller."""
    pairs = [
        pair
        for pair in itertools.permutations(range(len(line.refs)), 2)
        if sheet.values[line.refs[pair[0]]] != sheet.values[line.refs[pair[1]]]
        and (sheet.values[line.refs[pair[0]]] > sheet.values[line.refs[pair[1]]]) == is_more
    ]
    return line.select(draw.choice(pairs)) if pairs else None


def _state_more(sheet: TableSheet, draw: Draw, is_true: bool) -> Fact | None:
    line = draw_line(sheet, draw, is_over_times=False)
    is_more = draw.chance(0.5)
    pair = _draw_pair(sheet, draw, is_more == is_true, line) if line else None
    if pair is None:
        return None
    slots = make_slots(sheet, pair.shared, draw) | _draw_direction(is_more, draw)
    first, second = _find_cells(sheet, pair.refs)
    operation = "GREATER" if is_more else "LESS"
    return Fact("more", slots | {"a": pair.names[0], "b": pair.names[1]}, operation, (first,), (second,))


def _state_change(sheet: TableSheet, draw: Draw, is_true: bool) -> Fact | None:
    line = draw_line(sheet, draw, is_over_times=True)
    is_more = draw.chance(0.5)
    if line is None:
        return None
    pairs = []
    for left, right in itertools.combinations(range(len(line.refs)), 2):
        first, second = sorted((left, right), key=lambda i: sheet.get_sort_key(line.refs[i].time))
        a, b = sheet.values[line.refs[first]], sheet.values[line.refs[second]]
        if a != b and ((b > a) == is_more) == is_true:
            pairs.append((first, second))
    if not pairs:
        return None
    pair = line.select(draw.choice(pairs))
    slots = make_slots(sheet, pair.shared, draw) | _draw_direction(is_more, draw)
    early, late = _find_cells(sheet, pair.refs)
    operation = "GREATER" if is_more else "LESS"
    return Fact("moved", slots | {"a": pair.names[0], "b": pair.names[1]}, operation, (late,), (early,))


def _state_change_in(sheet: TableSheet, draw: Draw, is_true: bool) -> Fact | None:
    """States a change in one time, compared with the time before."""
    line = draw_line(sheet, draw, is_over_times=True)
    is_more = draw.chance(0.5)
    if line is None:
        return None
    by_time = sorted(range(len(line.refs)), key=lambda i: sheet.get_sort_key(line.refs[i].time))
    pairs = [
        pair
        for pair in itertools.pairwise(by_time)
        if sheet.is_next(*(line.refs[i].time for i in pair))
        and (a := sheet.values[line.refs[pair[0]]]) != (b := sheet.values[line.refs[pair[1]]])
        and ((b > a) == is_more) == is_true
    ]
    if not pairs:
        return None
    late = draw.choice(pairs)[1]
    slots = make_slots(sheet, line.shared, draw) | _draw_direction(is_more, draw) | {"one": line.singular}
    operation, cells = "ROSE" if is_more else "FELL", _find_cells(sheet, [line.refs[late]])
    return Fact("moved_in", slots | {"b": line.names[late]}, operation, cells)


def _state_extreme(sheet: TableSheet, draw: Draw, is_true: bool) -> Fact | None:
    line = draw_line(sheet, draw)
    if line is None:
        return None
    values, is_more = [sheet.values[ref] for ref in line.refs], draw.chance(0.5)
    best = max(values) if is_more else min(values)
    if values.count(best) > 1:
        return None
    index = values.index(best) if is_true else draw.choice([i for i, value in enumerate(values) if value != best])
    slots = (
        make_slots(sheet, line.shared, draw)
        | _draw_direction(is_more, draw)
        | {"one": line.singular, "many": line.plural}
    )
    cells, operation = _find_cells(sheet, line.refs), "LARGEST" if is_more else "SMALLEST"
    others = (*cells[:index], *cells[index + 1 :])
    return Fact("extreme", slots | {"a": line.names[index]}, operation, (cells[index],), others)


def _state_limit(sheet: TableSheet, draw: Draw, is_true: bool) -> Fact | None:
    ref = draw.choice(list(sheet.values))
    value, style, is_more = sheet.values[ref], sheet.styles[ref.measure], draw.chance(0.5)
    bound = draw_wrong_number(value, [], style, draw)
    if (value > bound) != (is_more == is_true):
        bound = 2 * value - bound
    slots = make_slots(sheet, ref, draw) | _draw_direction(is_more, draw)
    slots |= {"n": phrase_number(sheet, ref.measure, bound, draw)}
    return Fact("limit", slots, "ABOVE" if is_more else "BELOW", _find_cells(sheet, [ref]))


def _draw_values(sheet: TableSheet, draw: Draw) -> tuple[Line, list[Decimal]] | None:
    line = draw_line(sheet, draw, least=3)
    return (line, [sheet.values[ref] for ref in line.refs]) if line else None


def _make_limit_slots(sheet: TableSheet, line: Line, bound: Decimal, is_more: bool, draw: Draw) -> dict[str, str]:
    slots = (
        make_slots(sheet, line.shared, draw)
        | _draw_direction(is_more, draw)
        | {"one": line.singular, "many": line.plural}
    )
    return slots | {"n": phrase_number(sheet, line.refs[0].measure, bound, draw)}


def _write_count(count: int, draw: Draw) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) and draw.chance(0.6) else str(count)


def _state_count(sheet: TableSheet, draw: Draw, is_true: bool) -> Fact | None:
    line_values = _draw_values(sheet, draw)
    if line_values is None:
        return None
    line, values = line_values
    style, is_more = sheet.styles[line.refs[0].measure], draw.chance(0.5)
    bounds = [draw_limit(values, style, draw) for _ in range(2)]
    if bounds[0] is None or bounds[1] is None or bounds[0] <= 0:
        return None
    counts = [sum((value > bound) == is_more for value in values) for bound in bounds if bound is not None]
    # A false count is the true count of another limit, so that the count alone shows nothing.
    if not is_true and counts[0] == counts[1]:
        return None
    slots = _make_limit_slots(sheet, line, bounds[0], is_more, draw)
    slots |= {"k": _write_count(counts[0 if is_true else 1], draw)}
    return Fact("count", slots, "COUNT-ABOVE" if is_more else "COUNT-BELOW", _find_cells(sheet, line.refs))


def _state_rows(sheet: TableSheet, draw: Draw, is_true: bool) -> Fact | None:
    count = len(sheet.list_non_totals())
    if count < 3 or not draw.chance(0.3):
        return None
    # Tables have three to seven rows, so a false statement may claim any of these numbers.
    claimed_count = (
        count if is_true else draw.choice([alternative for alternative in range(3, 8) if alternative != count])
    )
    slots = {"k": _write_count(claimed_count, draw), "many": sheet.field.plural}
    return Fact("rows", slots, "SIZE", tuple(sheet.cell_of_entity[e] for e in sheet.list_non_totals()))


def _state_count_text(sheet: TableSheet, draw: Draw, is_true: bool) -> Fact | None:
    if not sheet.attributes:
        return None
    name = draw.choice(list(sheet.attributes))
    texts = [sheet.attributes[name][e] for e in sheet.list_non_totals()]
    text, count = (chosen_text := draw.choice(texts)), texts.count(chosen_text)
    if not is_true:
        counts = [texts.count(alternative) for alternative in texts] + [1, 2, 3]
        alternatives = [alternative for alternative in counts if alternative != count]
        count = draw.choice(alternatives)
    slots = {"attribute": name, "t": text, "many": sheet.field.plural, "k": _write_count(count, draw)}
    cells = tuple(sheet.cell_of_attribute[name, e] for e in sheet.list_non_totals())
    return Fact("count_text", slots, "COUNT-TEXT", cells)


def _state_quantified(sheet: TableSheet, draw: Draw, is_true: bool) -> Fact | None:
    line_values = _draw_values(sheet, draw)
    if line_values is None:
        return None
    line, values = line_values
    style, is_more, plan = sheet.styles[line.refs[0].measure], draw.chance(0.5), draw.choice(("all", "none", "only"))
    unit = Decimal(1).scaleb(-style.places) * max(1, style.round_to if not style.places else 1)
    spread = max(values) - min(values)
    inner_bounds = [bound for bound in (draw_limit(values, style, draw) for _ in range(6)) if bound is not None]
    outer_bounds = [
        min(values) - max(unit, (spread / 5).quantize(unit)),
        max(values) + max(unit, (spread / 5).quantize(unit)),
    ]
    fitting_bounds = []
    for bound in [*inner_bounds, *outer_bounds]:
        count = sum((value > bound) == is_more for value in values)
        holds = {"all": count == len(values), "none": count == 0, "only": count == 1}[plan]
        if holds == is_true and bound not in values and bound > 0:
            fitting_bounds.append(bound)
    if not fitting_bounds:
        return None
    slots = _make_limit_slots(sheet, line, draw.choice(fitting_bounds), is_more, draw)
    operation = {"all": "ALL", "none": "NONE", "only": "ONE"}[plan] + ("-ABOVE" if is_more else "-BELOW")
    return Fact(plan, slots, operation, _find_cells(sheet, line.refs))


def _state_sum(sheet: TableSheet, draw: Draw, is_true: bool) -> Fact | None:
    line = draw_line(sheet, draw, least=3)
    if line is None or not sheet.measures[line.refs[0].measure].additive:
        return None
    m = line.refs[0].measure
    use_all = draw.chance(0.4) and line.refs[0].entity != line.refs[-1].entity
    selection = line if use_all else line.select(draw.sample(range(len(line.refs)), 2))
    value = sum((sheet.values[ref] for ref in selection.refs), Decimal(0))
    if not is_true:
        pairs = itertools.combinations([sheet.values[ref] for ref in line.refs], 2)
        value = draw_wrong_number(value, [] if use_all else [a + b for a, b in pairs], sheet.styles[m], draw)
    slots = make_slots(sheet, line.shared, draw) | {
        "v": phrase_number(sheet, m, value, draw),
        "many": line.plural,
        "one": line.singular,
    }
    cells = _find_cells(sheet, selection.refs)
    if use_all:
        return Fact("sum_all", slots, "TOTAL", cells)
    return Fact("sum", slots | {"all": join_words(selection.names)}, "SUM", cells)


def _state_mean(sheet: TableSheet, draw: Draw, is_true: bool) -> Fact | None:
    line = draw_line(sheet, draw, least=3)
    if line is None or line.refs[0].entity == line.refs[-1].entity:
        return None
    m = line.refs[0].measure
    style = sheet.styles[m]._replace(places=max(1, sheet.styles[m].places), round_to=1)
    mean = sum((sheet.values[ref] for ref in line.refs), Decimal(0)) / len(line.refs)
    value = mean.quantize(Decimal(1).scaleb(-style.places), ROUND_HALF_UP)
    value = value if is_true else draw_wrong_number(value, [], style, draw)
    if not is_true and _rounds_to(mean, value):
        return None
    text = f"{value.normalize():,f}" if sheet.styles[m].grouped else f"{value.normalize():f}"
    slots = make_slots(sheet, line.shared, draw) | {"v": text, "many": line.plural}
    return Fact("mean", slots, "MEAN", _find_cells(sheet, line.refs))


def _state_difference(sheet: TableSheet, draw: Draw, is_true: bool) -> Fact | None:
    is_over_times = draw.chance(0.4)
    line = draw_line(sheet, draw, is_over_times=is_over_times)
    if line is None:
        return None
    pair = line.select(draw.sample(range(len(line.refs)), 2))
    if is_over_times and sheet.get_sort_key(pair.refs[0].time) > sheet.get_sort_key(pair.refs[1].time):
        pair = pair.select([1, 0])
    a, b = (sheet.values[ref] for ref in pair.refs)
    if a == b:
        return None
    alternatives = [abs(sheet.values[x] - sheet.values[y]) for x, y in itertools.combinations(line.refs, 2)]
    value = abs(a - b)
    value = (
        value
        if is_true
        else draw_wrong_number(
            value,
            [alternative for alternative in alternatives if alternative],
            sheet.styles[pair.refs[0].measure],
            draw,
        )
    )
    is_more = b > a if is_over_times else a > b
    slots = (
        make_slots(sheet, pair.shared, draw)
        | _draw_direction(is_more, draw)
        | {"a": pair.names[0], "b": pair.names[1]}
    )
    slots |= {"v": phrase_number(sheet, pair.refs[0].measure, value, draw)}
    operation, (first, second) = "MORE-BY" if is_more else "LESS-BY", _find_cells(sheet, pair.refs)
    if is_over_times:
        return Fact("changed", slots, operation, (second,), (first,))
    return Fact("difference", slots, operation, (first,), (second,))


def _state_percent(sheet: TableSheet, draw: Draw, is_true: bool) -> Fact | None:
    line = draw_line(sheet, draw, is_over_times=True)
    if line is None:
        return None
    pair = line.select(
        sorted(draw.sample(range(len(line.refs)), 2), key=lambda i: sheet.get_sort_key(line.refs[i].time))
    )
    a, b = (sheet.values[ref] for ref in pair.refs)
    if a <= 0 or b <= 0 or a == b or sheet.measures[pair.refs[0].measure].kind in ("temperature", "percent"):
        return None
    change = abs((b - a) / a * 100)
    value = change.quantize(Decimal("0.1") if draw.chance(0.6) else Decimal(1), ROUND_HALF_UP)
    if not value:
        return None
    if not is_true:
        value = draw_wrong_number(value, [], figures.CellStyle(1 if value != int(value) else 0), draw)
        if _rounds_to(change, value):
            return None
    slots = (
        make_slots(sheet, pair.shared, draw) | _draw_direction(b > a, draw) | {"a": pair.names[0], "b": pair.names[1]}
    )
    operation, (early, late) = "UP-PERCENT" if b > a else "DOWN-PERCENT", _find_cells(sheet, pair.refs)
    return Fact("percent", slots | {"v": f"{value.normalize():f}"}, operation, (late,), (early,))


def _state_two_measures(sheet: TableSheet, draw: Draw, is_true: bool) -> Fact | None:
    """Compares two measures of one row or time."""
    pairs = [
        (i, j)
        for i, j in itertools.permutations(range(len(sheet.measures)), 2)
        if (sheet.measures[i].unit, sheet.scales[i], sheet.measures[i].kind)
        == (sheet.measures[j].unit, sheet.scales[j], sheet.measures[j].kind)
    ]
    if not pairs:
        return None
    i, j = draw.choice(pairs)
    ref, is_more = draw.choice([candidate for candidate in sheet.values if candidate.measure == i]), draw.chance(0.5)
    other = ref._replace(measure=j)
    if sheet.values[ref] == sheet.values[other]:
        return None
    if (sheet.values[ref] > sheet.values[other]) != (is_more == is_true):
        ref, other = other, ref
    y = wording.name_measure(sheet, other.measure, draw)
    slots = make_slots(sheet, ref, draw) | _draw_direction(is_more, draw)
    first, second = _find_cells(sheet, [ref, other])
    return Fact("two", slots | {"y": y, "Y": y}, "GREATER" if is_more else "LESS", (first,), (second,))


PLANS: tuple[Callable[[TableSheet, Draw, bool], Fact | None], ...] = (
    _state_value, _state_value, _state_value, _state_text, _state_more, _state_more, _state_change,
    _state_change, _state_change_in, _state_extreme, _state_extreme, _state_limit, _state_count, _state_count,
    _state_rows, _state_count_text, _state_quantified, _state_quantified, _state_sum, _state_sum, _state_mean,
    _state_difference, _state_difference, _state_percent, _state_two_measures,
)  # fmt: skip


def make_records(count: int, seed: int, split: str, wordings: str = "apart") -> Iterator[dict[str, Any]]:
    """Yields the statements as flat records: id, table id, caption, rows of cells, statement, label, kind,
    evidence (the fields of `Evidence`)."""
    for name, sheet, statements in make_tables(count, seed, split, wordings):
        for index, statement in enumerate(statements):
            yield {
                "id": f"{name}:{index}",
                "table_id": name,
                "caption": "",
                "table": sheet.cells,
                "statement": statement.text,
                "label": statement.label,
                "kind": statement.kind,
                "evidence": statement.evidence._asdict(),
            }
