"""Plans of problems, read from plans/*.toml: one file for each situation.

A `[[plan]]` is a whole problem: its facts in order, its question, its equation. `[[start]]`, `[[change]]` and
`[[end]]` are parts of one `world`: any start, none to three changes and any end of a world make a problem. A start
says what there is (`equation` gives the quantity q), a change computes a new quantity from it ("q - c"), an end asks
for it or for something computed from it ("q / n").

| key | |
|---|---|
| `name` | unique in its file |
| `world` | of parts |
| `equation` | names of numbers, constants, q; + - * / and brackets |
| `numbers` | a table: name → kind, see numbers.py |
| `facts` | a list of sentences; each a list of alternatives, which may hold choices: "[has|owns]" |
| `ask` | alternatives of the question (plans and ends) |
| `where` | conditions on the numbers and q: ["c < q"] |
| `answer` | "whole" (default), "decimal" (at most two places) or "any" |
| `units` | alternatives for {unit} and {units}: "metre metres" |
| `shuffle` | the facts may stand in any order |
| `merge` | false: never asked as "How many … if …?" |

Slots of sentences: the numbers by their names; people {A} {B} {C} with {he} {him} {his} of A, {he2} … of B (the
beginning of a sentence becomes a capital); {things} {thing} {things2} {thing2} what is counted; {boxes} {box} what
holds things; {place} {place2} with an article before them; {workers} {worker} people by what they do; {day} {day2}
{month} {month2}; {unit} {units}; {currency} the money's name.
"""

from __future__ import annotations

import functools
import pathlib
import re
import tomllib
from typing import Any, NamedTuple

from numjax.errors import UsageError

from . import expression, numbers, wording, words
from .expression import Node

FOLDER = pathlib.Path(__file__).parent / "plans"
SLOTS = frozenset(
    "A B C he him his he2 him2 his2 things thing things2 thing2 boxes box place place2 workers worker day day2 month "
    "month2 unit units currency".split()
)
KINDS = ("plan", "start", "change", "end")
ANSWERS = ("whole", "decimal", "any")
_KEYS = frozenset("name world equation numbers facts ask where answer units shuffle merge".split())
_COMPARISON = re.compile(r"(.+?)\s*(<=|>=|<|>|==|!=)\s*(.+)")


class Condition(NamedTuple):
    """A comparison of two expressions: left `sign` right."""

    left: Node
    sign: str
    right: Node


class ProblemPlan(NamedTuple):
    """A whole problem or a part of one; see the table above."""

    situation: str
    kind: str
    name: str
    world: str
    equation: Node
    numbers: dict[str, numbers.NumberKind]
    facts: tuple[tuple[str, ...], ...]
    ask: tuple[str, ...]
    where: tuple[Condition, ...]
    answer: str
    units: tuple[tuple[str, str], ...]
    shuffle: bool
    merge: bool


@functools.cache
def load() -> tuple[ProblemPlan, ...]:
    """Returns every plan and part, in the order of files and lines.

    Raises:
      UsageError: a plan is not of the form above. The message names file and plan.
    """
    plans: list[ProblemPlan] = []
    for path in sorted(FOLDER.glob("*.toml")):
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{path.name}: {error}") from None
        if unknown := tables.keys() - set(KINDS):
            raise UsageError(f"{path.name}: {', '.join(sorted(unknown))}: give {', '.join(KINDS)}")
        for kind in KINDS:
            for raw in tables.get(kind, ()):
                try:
                    plans.append(_parse_plan(path.stem, kind, raw))
                except (UsageError, KeyError, TypeError, ValueError) as error:
                    raise UsageError(f"{path.name}, {kind} {raw.get('name')!r}: {error}") from None
    names = [(plan.situation, plan.kind, plan.name) for plan in plans]
    if duplicates := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"plans named twice: {sorted(duplicates)}")
    return tuple(plans)


@functools.cache
def list_training_wordings() -> frozenset[str]:
    """Returns every wording that training may use; several sentences may share a wording."""
    lists = {alternatives for plan in load() for alternatives in (*plan.facts, plan.ask) if alternatives}
    lists.update(words.load_words(name) for name in ("asides", "stories", "leads"))
    return frozenset(text for each in lists for group in wording.make_pools(each)["train"] for text in group)


def _parse_plan(situation: str, kind: str, raw: dict[str, Any]) -> ProblemPlan:
    if unknown := raw.keys() - _KEYS:
        raise UsageError(f"unknown {', '.join(sorted(unknown))}")
    if (kind == "plan") == ("world" in raw):
        raise UsageError("parts have a world, whole plans none")
    equation = expression.parse(raw["equation"])
    kinds = {name: numbers.parse_kind(text) for name, text in raw.get("numbers", {}).items()}
    facts = tuple(tuple([fact] if isinstance(fact, str) else fact) for fact in raw.get("facts", ()))
    plan = ProblemPlan(
        situation=situation,
        kind=kind,
        name=raw["name"],
        world=raw.get("world", ""),
        equation=equation,
        numbers=kinds,
        facts=facts,
        ask=tuple(raw.get("ask", ())),
        where=tuple(_parse_condition(text) for text in raw.get("where", ())),
        answer=raw.get("answer", "whole"),
        units=tuple((singular, plural) for singular, plural in (unit.split(" ") for unit in raw.get("units", ()))),
        shuffle=bool(raw.get("shuffle", False)),
        merge=bool(raw.get("merge", True)),
    )
    _check(plan)
    return plan


def _parse_condition(text: str) -> Condition:
    match = _COMPARISON.fullmatch(text)
    if match is None:
        raise UsageError(f"the condition {text!r} compares nothing")
    return Condition(expression.parse(match[1]), match[2], expression.parse(match[3]))


def _check(plan: ProblemPlan) -> None:
    """Raises UsageError if a plan cannot make a problem."""
    if plan.answer not in ANSWERS:
        raise UsageError(f"answer={plan.answer!r}: give one of {', '.join(ANSWERS)}")
    if bool(plan.ask) != (plan.kind in ("plan", "end")):
        raise UsageError("plans and ends ask; starts and changes do not")
    used = {leaf for leaf in expression.leaves(plan.equation) if not expression.is_constant(leaf)}
    if ("q" in used) != (plan.kind in ("change", "end")):
        raise UsageError("changes and ends are of q; plans and starts are not")
    if unknown := used - {"q"} - plan.numbers.keys():
        raise UsageError(f"the equation has {', '.join(sorted(unknown))}, which `numbers` does not name")
    for sentence in (*(s for fact in plan.facts for s in fact), *plan.ask):
        for text in wording.expand(sentence):
            if re.search(r"[\[\]|]", text):
                raise UsageError(f"a choice is not closed in {sentence!r}")
            for slot in wording.find_slots(text):
                if slot not in SLOTS and slot not in plan.numbers:
                    raise UsageError(f"no slot is called {slot!r}, in {sentence!r}")
                if slot in ("unit", "units") and not plan.units and not plan.world:
                    raise UsageError(f"{{{slot}}} without `units`, in {sentence!r}")
    for name in plan.numbers:
        lists = [*plan.facts, plan.ask]
        if not any(all(f"{{{name}}}" in text for text in alternatives) for alternatives in lists if alternatives):
            raise UsageError(f"the number {name} is not given in each alternative of one sentence")
