"""Makes problems from plans. A form is the wording of a problem; `fill` adds names, things and numbers.

Two problems of one form differ only in these. Training, validation and test have different forms.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np

from numjax.errors import UsageError
from numjax.numeral.words import find

from . import expression, numbers, plans, wording, words
from .expression import Node
from .plans import ProblemPlan

LARGEST_ANSWER = 10_000_000  # no answer is larger
_TRIES = 300  # attempts to fill one form; most forms need a few
STEPS = {1: 0.45, 2: 0.35, 3: 0.2}  # number of steps → probability
_ASIDES = 0.18  # probability of a number that is no operand
_STORIES = (0.68, 0.2, 0.08, 0.04)  # probability of 0, 1, 2 and 3 sentences without a number
_LEADS = 0.1  # probability that the first sentence begins with when, where or why
# Sentences that begin with such a word get no lead.
_HAS_LEAD = re.compile(
    r"(On|In|At|By|For|From|To|With|Of|If|Last|Each|Every|This|When|After|Before|During|Yesterday)\b"
)
_COMPARE = {
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


class ProblemForm(NamedTuple):
    """The wording of a problem, with open slots.

    Attributes:
      situation: its plan's file. steps: operations of its equation.
      sentences: wordings in order, the question last.
      kinds: of each number. equation, where, answer, units: as in `ProblemPlan`. quantities: intermediate results
        that must be positive, and whole if the answer is.
      is_new: whether training lacks any of the wordings.
    """

    situation: str
    steps: int
    sentences: tuple[str, ...]
    kinds: tuple[tuple[str, numbers.NumberKind], ...]
    equation: Node
    quantities: tuple[Node, ...]
    where: tuple[plans.Condition, ...]
    answer: str
    units: tuple[tuple[str, str], ...]
    is_new: bool

    @property
    def key(self) -> str:
        """A short text, the same for the same form."""
        return hashlib.blake2b(" ".join(self.sentences).encode(), digest_size=6).hexdigest()


class ComposedProblem(NamedTuple):
    """A problem, its equation "x = …" with numbers in the order of the text, and its exact answer."""

    text: str
    equation: str
    answer: str


@cache
def group_plans() -> tuple[tuple[ProblemPlan, ...], ...]:
    """Returns the plans in families: whole plans by situation, and parts by world."""
    groups: dict[str, list[ProblemPlan]] = {}
    for plan in plans.load():
        groups.setdefault(plan.situation if plan.kind == "plan" else f"{plan.situation}/{plan.world}", []).append(
            plan
        )
    return tuple(tuple(group) for group in groups.values())


@cache
def _family_weights() -> tuple[float, ...]:
    """Returns each family's probability: the root of its number of sentences, so that small ones are not overused."""
    sizes = [sum(len(fact) for plan in family for fact in (*plan.facts, plan.ask)) for family in group_plans()]
    roots = [size**0.5 for size in sizes]
    return tuple(root / sum(roots) for root in roots)


def draw_form(rng: np.random.Generator, use: str = "train", steps: int | None = None) -> ProblemForm:
    """Draws a form.

    Args:
      use: of its wordings: "train", "validation", "wordings" or "sentences", see `wording.make_pools`.
      steps: of the equation; None draws them from `STEPS`.

    Raises:
      UsageError: the plans hold no such form.
    """
    if steps is None:
        steps = int(rng.choice(list(STEPS), p=list(STEPS.values())))
    for _ in range(2000):
        family = group_plans()[int(rng.choice(len(group_plans()), p=_family_weights()))]
        chain = _draw_chain(rng, family, steps)
        if chain is None:
            continue
        form = _make_form(rng, chain, use)
        if form.steps == steps and (use == "train" or form.is_new):
            return form
    raise UsageError(f"problems: no form of {steps} steps with {use} wordings: choose fewer steps")


def _draw_chain(rng: np.random.Generator, family: tuple[ProblemPlan, ...], steps: int) -> list[ProblemPlan] | None:
    """Draws a whole plan, or a start, changes and an end; None if they do not have so many steps."""
    if family[0].kind == "plan":
        candidates = [plan for plan in family if expression.count_steps(plan.equation) == steps]
        return [candidates[int(rng.integers(len(candidates)))]] if candidates else None
    by_kind = {kind: [plan for plan in family if plan.kind == kind] for kind in ("start", "change", "end")}
    start, end = (by_kind[kind][int(rng.integers(len(by_kind[kind])))] for kind in ("start", "end"))
    n_left = steps - expression.count_steps(start.equation) - expression.count_steps(end.equation)
    if n_left < 0 or (n_left and not by_kind["change"]):
        return None
    changes: list[ProblemPlan] = []
    while n_left > 0:
        change = by_kind["change"][int(rng.integers(len(by_kind["change"])))]
        n_left -= expression.count_steps(change.equation)
        changes.append(change)
    return None if n_left else [start, *changes, end]


def _make_form(rng: np.random.Generator, chain: list[ProblemPlan], use: str) -> ProblemForm:
    sentences: list[str] = []
    kinds: dict[str, numbers.NumberKind] = {}
    where: list[plans.Condition] = []
    quantities: list[Node] = []
    quantity: Node = "q"
    is_new = False
    ask = ""
    for index, plan in enumerate(chain):
        names = {name: f"{name}{index}" for name in plan.numbers}

        def rename(node: Node, names: Mapping[str, str] = names, q: Node = quantity) -> Node:
            for name, new_name in names.items():
                node = expression.substitute(node, name, new_name)
            return expression.substitute(node, "q", q)

        def draw_wording(alternatives: tuple[str, ...], names: Mapping[str, str] = names) -> str:
            nonlocal is_new
            text, is_fresh = wording.draw(rng, alternatives, use)
            is_new |= is_fresh and text not in plans.list_training_wordings()
            return re.sub(r"\{(\w+)\}", lambda m: "{" + names.get(m[1], m[1]) + "}", text)

        facts = [draw_wording(fact) for fact in plan.facts]
        if plan.shuffle:
            facts = [facts[i] for i in rng.permutation(len(facts))]
        sentences += facts
        for name, kind in plan.numbers.items():
            kinds[names[name]] = kind._replace(base=names.get(kind.base, kind.base))
        where += [plans.Condition(rename(c.left), c.sign, rename(c.right)) for c in plan.where]
        quantity = rename(plan.equation)
        quantities.append(quantity)
        if plan.ask:
            ask = draw_wording(plan.ask)
    merge = all(plan.merge for plan in chain) and 0 < len(sentences) <= 3 and ask.endswith("?")
    if merge and rng.random() < 0.15:
        sentences = [_merge(sentences, ask)]
    else:
        texts, is_fresh = _add_stories(rng, sentences, ask, use)
        is_new |= is_fresh
        if any("{n}" in text for text in texts):
            kinds["n"] = (
                numbers.NumberKind("small", 2, 60) if rng.random() < 0.5 else numbers.NumberKind("count", 2, 300)
            )
        sentences = [*texts, ask]
    steps = expression.count_steps(quantity)
    return ProblemForm(
        chain[0].situation,
        steps,
        tuple(sentences),
        tuple(kinds.items()),
        quantity,
        tuple(quantities),
        tuple(where),
        chain[-1].answer,
        next((plan.units for plan in chain if plan.units), ()),
        is_new,
    )


def _add_stories(rng: np.random.Generator, facts: list[str], ask: str, use: str) -> tuple[list[str], bool]:
    """Returns (facts among sentences that no question needs, whether training lacks one of these)."""
    sentences, is_new = list(facts), False

    def draw_line(name: str) -> tuple[str, bool]:
        text, is_fresh = wording.draw(rng, words.load_words(name), use)
        return text, is_fresh and text not in plans.list_training_wordings()

    if sentences and not _HAS_LEAD.match(sentences[0]) and rng.random() < _LEADS:
        lead, is_new = draw_line("leads")
        sentences[0] = f"{lead} {_lower_first(sentences[0])}"
    if rng.random() < _ASIDES:
        aside, is_fresh = draw_line("asides")
        used_slots = wording.find_slots(" ".join((*facts, ask)))
        # An aside about other things needs a problem that names things but no other things.
        if "{things2}" not in aside or ("things" in used_slots and "things2" not in used_slots):
            sentences.insert(int(rng.integers(min(1, len(sentences)), len(sentences) + 1)), aside)
            is_new |= is_fresh
    for _ in range(int(rng.choice(len(_STORIES), p=_STORIES))):
        story, is_fresh = draw_line("stories")
        sentences.insert(int(rng.integers(len(sentences) + 1)), story)
        is_new |= is_fresh
    return sentences, is_new


def _lower_first(sentence: str) -> str:
    """Returns a sentence to stand behind other words: without its capital, unless it begins with a name."""
    return sentence if re.match(r"\{[ABC]\}|I\b|[A-Z]{2}", sentence) else sentence[:1].lower() + sentence[1:]


def _merge(facts: list[str], ask: str) -> str:
    """Returns facts and question as one sentence: "How many … if this and that?"."""
    clauses = [_lower_first(fact.rstrip(".")) for fact in facts]
    return f"{ask[:-1]} if {', '.join(clauses[:-1])}{' and ' * (len(clauses) > 1)}{clauses[-1]}?"


def fill(
    rng: np.random.Generator, form: ProblemForm, *, held_nouns: bool = False, invented: float = 0.3, factor: int = 1
) -> ComposedProblem | None:
    """Returns a problem of a form, or None if no numbers fit after some attempts.

    Args:
      held_nouns: use things that training does not have. invented: probability that a thing is an invented word.
      factor: multiplies the bounds of counts, measures and money.
    """
    values = _draw_values(rng, form, factor)
    if values is None:
        return None
    style = numbers.draw_style(rng)
    kinds = dict(form.kinds)
    surfaces = {name: numbers.write(value, kinds[name], style) for name, value in values.items()}
    fillers = _fill_slots(rng, form, style, held_nouns, invented) | {name: s.text for name, s in surfaces.items()}
    template = " ".join(form.sentences)
    rank = {name: index for index, name in enumerate(dict.fromkeys(wording.find_slots(template)))}
    text = words.tidy_text(re.sub(r"\{(\w+)\}", lambda m: fillers[m[1]], template))
    if style.words and not _has_all_numbers(text, values, kinds):
        return None
    node = expression.order_operands(form.equation, rank)
    equation = f"x = {expression.write(node, {name: s.equation for name, s in surfaces.items()})}"
    answer = numbers.format_decimal(expression.evaluate(form.equation, values))
    return ComposedProblem(_vary_typing(rng, text), equation, answer)


def _draw_values(rng: np.random.Generator, form: ProblemForm, factor: int) -> dict[str, Fraction] | None:
    constants = {Fraction(leaf) for leaf in expression.leaves(form.equation) if expression.is_constant(leaf)}
    for _ in range(_TRIES):
        values: dict[str, Fraction] = {}
        for name, kind in sorted(form.kinds, key=lambda item: item[1].name == "times"):
            values[name] = numbers.draw(rng, kind, values, factor)
        if len(set(values.values()) | constants) < len(values) + len(constants):
            continue  # all numbers must differ, so that a number identifies its operand
        try:
            if _fits(form, values):
                return values
        except ZeroDivisionError:
            continue
    return None


def _has_all_numbers(text: str, values: Mapping[str, Fraction], kinds: Mapping[str, numbers.NumberKind]) -> bool:
    """Whether the text's numbers can be read back: "eighty and eight" would be one number, 88."""
    values_in_text = {Fraction(span.value) for span in find(text)}
    expected = (
        value for name, value in values.items() if kinds[name].name not in ("fraction", "multiple", "percent")
    )
    return values_in_text.issuperset(expected)


def _fits(form: ProblemForm, values: Mapping[str, Fraction]) -> bool:
    for node in form.quantities:
        for part in expression.subexpressions(node):
            if not 0 < expression.evaluate(part, values) <= LARGEST_ANSWER:
                return False
        if form.answer == "whole" and expression.evaluate(node, values).denominator != 1:
            return False
    if form.answer == "decimal" and (expression.evaluate(form.equation, values) * 100).denominator != 1:
        return False
    return all(
        _COMPARE[c.sign](expression.evaluate(c.left, values), expression.evaluate(c.right, values))
        for c in form.where
    )


def _fill_slots(
    rng, form: ProblemForm, style: numbers.NumberStyle, held_nouns: bool, invented: float
) -> dict[str, str]:
    """Returns the texts of the slots that are not numbers."""

    def draw_several(options, count):
        return [options[i] for i in rng.choice(len(options), size=count, replace=False)]

    def draw_thing(excluded: set[str]) -> words.Noun:
        while True:
            nouns = words.select_nouns("things", held_nouns)
            noun = words.invent_noun(rng) if rng.random() < invented else nouns[int(rng.integers(len(nouns)))]
            if noun.singular not in excluded:
                return noun

    a, b, c = draw_several(words.load_people(), 3)
    things = draw_thing(set())
    things2 = draw_thing({things.singular})
    box, worker = (
        draw_several(words.select_nouns("boxes", held_nouns), 1)[0],
        draw_several(words.select_nouns("workers", held_nouns), 1)[0],
    )
    location, location2 = draw_several(words.select_nouns("places", held_nouns), 2)
    day, day2 = draw_several(words.load_words("days"), 2)
    month, month2 = draw_several(words.load_words("months"), 2)
    unit, units = form.units[int(rng.integers(len(form.units)))] if form.units else ("", "")
    fillers = {"A": a.name, "he": a.he, "him": a.him, "his": a.his, "B": b.name, "C": c.name}
    fillers |= {"he2": b.he, "him2": b.him, "his2": b.his}
    fillers |= {
        "things": things.plural,
        "thing": things.singular,
        "things2": things2.plural,
        "thing2": things2.singular,
    }
    fillers |= {"boxes": box.plural, "box": box.singular, "workers": worker.plural, "worker": worker.singular}
    fillers |= {
        "place": location.singular,
        "place2": location2.singular,
        "day": day,
        "day2": day2,
        "month": month,
        "month2": month2,
    }
    return fillers | {"unit": unit, "units": units, "currency": numbers.SIGNS[style.sign]}


def _vary_typing(rng: np.random.Generator, text: str) -> str:
    """Returns a text as people type it: sometimes without a question mark, in small letters, in capitals, or with
    blanks before points and commas, as some files have them."""
    chance = rng.random()
    if rng.random() < 0.05:
        text = re.sub(r"(?<=[a-z0-9])([.,?])(?= |$)", r" \1", text)
    if chance < 0.04:
        return text.removesuffix("?")
    if chance < 0.08:
        return text.lower()
    return text.upper() if chance < 0.095 else text
