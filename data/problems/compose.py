"""Plans → problems: a form is how a problem is put, and filling it gives names, things and numbers.

Two problems of one form differ in what fills it alone. Training, validation and test have different forms.
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
from .plans import Plan

MOST = 10_000_000  # no answer is larger
_TRIES = 300  # fillings of one form; most take a few
STEPS = {1: 0.45, 2: 0.35, 3: 0.2}  # how often a problem has so many
_ASIDES = 0.18  # how often a problem has a number that is no operand
_STORIES = (0.68, 0.2, 0.08, 0.04)  # how often it has so many sentences without one
_LEADS = 0.1  # how often its first sentence begins with when, where or why
# Sentences that begin with such a word have that already.
_LED = re.compile(r"(On|In|At|By|For|From|To|With|Of|If|Last|Each|Every|This|When|After|Before|During|Yesterday)\b")
_COMPARE = {
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


class Form(NamedTuple):
    """How a problem is put.

    Attributes:
      situation: its plan's file. steps: operations of its equation.
      sentences: wordings in order, the question last; their slots are open.
      kinds: of each number. equation, where, answer, units: as in `Plan`. between: quantities that must be positive,
        and whole where the answer is.
      new: whether any wording is one that training does not have.
    """

    situation: str
    steps: int
    sentences: tuple[str, ...]
    kinds: tuple[tuple[str, numbers.Kind], ...]
    equation: Node
    between: tuple[Node, ...]
    where: tuple[plans.Condition, ...]
    answer: str
    units: tuple[tuple[str, str], ...]
    new: bool

    @property
    def key(self) -> str:
        """Short and the same for the same form."""
        return hashlib.blake2b(" ".join(self.sentences).encode(), digest_size=6).hexdigest()


class Problem(NamedTuple):
    """A problem, its equation "x = …", its exact answer, and its numbers in the order of the text."""

    text: str
    equation: str
    answer: str


@cache
def families() -> tuple[tuple[Plan, ...], ...]:
    """Whole plans by situation, and parts by world."""
    found: dict[str, list[Plan]] = {}
    for plan in plans.load():
        found.setdefault(plan.situation if plan.kind == "plan" else f"{plan.situation}/{plan.world}", []).append(plan)
    return tuple(tuple(group) for group in found.values())


@cache
def _weights() -> tuple[float, ...]:
    """How often a family is drawn: by the root of how many sentences it has, so that small ones are not worn out."""
    sizes = [sum(len(fact) for plan in family for fact in (*plan.facts, plan.ask)) for family in families()]
    roots = [size**0.5 for size in sizes]
    return tuple(root / sum(roots) for root in roots)


def draw_form(rng: np.random.Generator, use: str = "train", steps: int | None = None) -> Form:
    """A form.

    Args:
      use: what its wordings are for: "train", "validation", "wordings" or "sentences", see `wording.pools`.
      steps: of the equation; None draws them as `STEPS` says.

    Raises:
      UsageError: the plans hold no such form.
    """
    if steps is None:
        steps = int(rng.choice(list(STEPS), p=list(STEPS.values())))
    for _ in range(2000):
        family = families()[int(rng.choice(len(families()), p=_weights()))]
        chain = _chain(rng, family, steps)
        if chain is None:
            continue
        form = _form(rng, chain, use)
        if form.steps == steps and (use == "train" or form.new):
            return form
    raise UsageError(f"problems: no form of {steps} steps with {use} wordings: choose fewer steps")


def _chain(rng: np.random.Generator, family: tuple[Plan, ...], steps: int) -> list[Plan] | None:
    """A whole plan, or a start, changes and an end, that may come to so many steps."""
    if family[0].kind == "plan":
        fits = [plan for plan in family if expression.steps(plan.equation) == steps]
        return [fits[int(rng.integers(len(fits)))]] if fits else None
    of = {kind: [plan for plan in family if plan.kind == kind] for kind in ("start", "change", "end")}
    start, end = (of[kind][int(rng.integers(len(of[kind])))] for kind in ("start", "end"))
    left = steps - expression.steps(start.equation) - expression.steps(end.equation)
    if left < 0 or (left and not of["change"]):
        return None
    changes: list[Plan] = []
    while left > 0:
        change = of["change"][int(rng.integers(len(of["change"])))]
        left -= expression.steps(change.equation)
        changes.append(change)
    return None if left else [start, *changes, end]


def _form(rng: np.random.Generator, chain: list[Plan], use: str) -> Form:
    sentences: list[str] = []
    kinds: dict[str, numbers.Kind] = {}
    where: list[plans.Condition] = []
    between: list[Node] = []
    quantity: Node = "q"
    new = False
    ask = ""
    for place, plan in enumerate(chain):
        names = {name: f"{name}{place}" for name in plan.numbers}

        def renamed(node: Node, names: Mapping[str, str] = names, q: Node = quantity) -> Node:
            for name, other in names.items():
                node = expression.put(node, name, other)
            return expression.put(node, "q", q)

        def drawn(alternatives: tuple[str, ...], names: Mapping[str, str] = names) -> str:
            nonlocal new
            text, fresh = wording.draw(rng, alternatives, use)
            new |= fresh and text not in plans.trained()
            return re.sub(r"\{(\w+)\}", lambda m: "{" + names.get(m[1], m[1]) + "}", text)

        own = [drawn(fact) for fact in plan.facts]
        if plan.shuffle:
            own = [own[i] for i in rng.permutation(len(own))]
        sentences += own
        for name, kind in plan.numbers.items():
            kinds[names[name]] = kind._replace(of=names.get(kind.of, kind.of))
        where += [plans.Condition(renamed(c.left), c.sign, renamed(c.right)) for c in plan.where]
        quantity = renamed(plan.equation)
        between.append(quantity)
        if plan.ask:
            ask = drawn(plan.ask)
    merge = all(plan.merge for plan in chain) and 0 < len(sentences) <= 3 and ask.endswith("?")
    if merge and rng.random() < 0.15:
        sentences = [_merged(sentences, ask)]
    else:
        around, fresh = _surrounded(rng, sentences, ask, use)
        new |= fresh
        if any("{n}" in text for text in around):
            kinds["n"] = numbers.Kind("small", 2, 60) if rng.random() < 0.5 else numbers.Kind("count", 2, 300)
        sentences = [*around, ask]
    steps = expression.steps(quantity)
    return Form(
        chain[0].situation,
        steps,
        tuple(sentences),
        tuple(kinds.items()),
        quantity,
        tuple(between),
        tuple(where),
        chain[-1].answer,
        next((plan.units for plan in chain if plan.units), ()),
        new,
    )


def _surrounded(rng: np.random.Generator, facts: list[str], ask: str, use: str) -> tuple[list[str], bool]:
    """(facts among sentences that no question needs, whether one of these is new)."""
    out, new = list(facts), False

    def drawn(name: str) -> tuple[str, bool]:
        text, fresh = wording.draw(rng, words.words(name), use)
        return text, fresh and text not in plans.trained()

    if out and not _LED.match(out[0]) and rng.random() < _LEADS:
        lead, new = drawn("leads")
        out[0] = f"{lead} {_small(out[0])}"
    if rng.random() < _ASIDES:
        aside, fresh = drawn("asides")
        used = wording.slots(" ".join((*facts, ask)))
        # Other things than those that are asked for, and where nothing else counts as them.
        if "{things2}" not in aside or ("things" in used and "things2" not in used):
            out.insert(int(rng.integers(min(1, len(out)), len(out) + 1)), aside)
            new |= fresh
    for _ in range(int(rng.choice(len(_STORIES), p=_STORIES))):
        story, fresh = drawn("stories")
        out.insert(int(rng.integers(len(out) + 1)), story)
        new |= fresh
    return out, new


def _small(sentence: str) -> str:
    """A sentence that goes on behind others' words: without its capital, unless that is a name's."""
    return sentence if re.match(r"\{[ABC]\}|I\b|[A-Z]{2}", sentence) else sentence[:1].lower() + sentence[1:]


def _merged(facts: list[str], ask: str) -> str:
    """ "How many … if this and that?" """
    told = [_small(fact.rstrip(".")) for fact in facts]
    return f"{ask[:-1]} if {', '.join(told[:-1])}{' and ' * (len(told) > 1)}{told[-1]}?"


def fill(
    rng: np.random.Generator, form: Form, *, held_nouns: bool = False, invented: float = 0.3, factor: int = 1
) -> Problem | None:
    """A problem of a form, or None where no numbers fit in reasonable time.

    Args:
      held_nouns: its things are ones that training does not have. invented: how often a thing is an invented word.
      factor: by which the bounds of counts, measures and money are larger.
    """
    values = _values(rng, form, factor)
    if values is None:
        return None
    style = numbers.draw_style(rng)
    kinds = dict(form.kinds)
    written = {name: numbers.write(value, kinds[name], style) for name, value in values.items()}
    known = _slots(rng, form, style, held_nouns, invented) | {name: s.text for name, s in written.items()}
    whole = " ".join(form.sentences)
    order = {name: place for place, name in enumerate(dict.fromkeys(wording.slots(whole)))}
    text = words.join(re.sub(r"\{(\w+)\}", lambda m: known[m[1]], whole))
    if style.words and not _found(text, values, kinds):
        return None
    node = expression.ordered(form.equation, order)
    equation = f"x = {expression.write(node, {name: s.equation for name, s in written.items()})}"
    answer = numbers.decimal(expression.evaluate(form.equation, values))
    return Problem(_typed(rng, text), equation, answer)


def _values(rng: np.random.Generator, form: Form, factor: int) -> dict[str, Fraction] | None:
    constants = {Fraction(leaf) for leaf in expression.leaves(form.equation) if expression.is_constant(leaf)}
    for _ in range(_TRIES):
        values: dict[str, Fraction] = {}
        for name, kind in sorted(form.kinds, key=lambda item: item[1].name == "times"):
            values[name] = numbers.draw(rng, kind, values, factor)
        if len(set(values.values()) | constants) < len(values) + len(constants):
            continue  # each number must say which one it is
        try:
            if _fits(form, values):
                return values
        except ZeroDivisionError:
            continue
    return None


def _found(text: str, values: Mapping[str, Fraction], kinds: Mapping[str, numbers.Kind]) -> bool:
    """Whether each number is found in the text: "eighty and eight" is one, 88."""
    read = {Fraction(span.value) for span in find(text)}
    spelled = (value for name, value in values.items() if kinds[name].name not in ("fraction", "multiple", "percent"))
    return read.issuperset(spelled)


def _fits(form: Form, values: Mapping[str, Fraction]) -> bool:
    for node in form.between:
        for part in expression.parts(node):
            if not 0 < expression.evaluate(part, values) <= MOST:
                return False
        if form.answer == "whole" and expression.evaluate(node, values).denominator != 1:
            return False
    if form.answer == "decimal" and (expression.evaluate(form.equation, values) * 100).denominator != 1:
        return False
    return all(
        _COMPARE[c.sign](expression.evaluate(c.left, values), expression.evaluate(c.right, values))
        for c in form.where
    )


def _slots(rng, form: Form, style: numbers.Style, held: bool, invented: float) -> dict[str, str]:
    """What stands in the slots that are no numbers."""

    def several(found, count):
        return [found[i] for i in rng.choice(len(found), size=count, replace=False)]

    def thing(others: set[str]) -> words.Noun:
        while True:
            known = words.parted("things", held)
            noun = words.invented(rng) if rng.random() < invented else known[int(rng.integers(len(known)))]
            if noun.one not in others:
                return noun

    a, b, c = several(words.people(), 3)
    things = thing(set())
    things2 = thing({things.one})
    box, worker = several(words.parted("boxes", held), 1)[0], several(words.parted("workers", held), 1)[0]
    place, place2 = several(words.parted("places", held), 2)
    day, day2 = several(words.words("days"), 2)
    month, month2 = several(words.words("months"), 2)
    unit, units = form.units[int(rng.integers(len(form.units)))] if form.units else ("", "")
    out = {"A": a.name, "he": a.he, "him": a.him, "his": a.his, "B": b.name, "C": c.name}
    out |= {"he2": b.he, "him2": b.him, "his2": b.his}
    out |= {"things": things.many, "thing": things.one, "things2": things2.many, "thing2": things2.one}
    out |= {"boxes": box.many, "box": box.one, "workers": worker.many, "worker": worker.one}
    out |= {"place": place.one, "place2": place2.one, "day": day, "day2": day2, "month": month, "month2": month2}
    return out | {"unit": unit, "units": units, "currency": numbers.SIGNS[style.sign]}


def _typed(rng: np.random.Generator, text: str) -> str:
    """As people type: now and then without a question mark, in small letters or in capitals, or with blanks before
    points and commas, as some files have them."""
    draw = rng.random()
    if rng.random() < 0.05:
        text = re.sub(r"(?<=[a-z0-9])([.,?])(?= |$)", r" \1", text)
    if draw < 0.04:
        return text.removesuffix("?")
    if draw < 0.08:
        return text.lower()
    return text.upper() if draw < 0.095 else text
