"""Every compatible pair of parts in some system: a covering set, made from what the parts say of themselves.

A system is a base, which trains a task in a few seconds, with blocks swapped as `--set` swaps them. A pair is
compatible if a base takes both of its parts, the rest as it is or swapped too; `fit.find_faults` says so without
building anything.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from numjax.build import build, find, names, options
from numjax.config import blocks, fit
from tests.conftest import ROOT

Choice = tuple[str, str]  # (axis, what is chosen on it)
RECORDS = 200  # of a task: enough for a vocabulary
TEXT = f"task=language_model:path={ROOT / 'tests' / 'fixtures' / 'text'}"  # sixty documents with numbers
SIZES = dict(width=16, layers=1, heads=2, mlp_ratio=2)
# Name → (file of configs/, argument, words of --set): every task, with what it is read and written by.
BASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "statement": ("numgpt", "smoke", ()),
    "statement spelled": ("numgpt", "smoke,system=gpt", ()),
    "language_model": ("numgpt", "smoke,task=text", (TEXT,)),
    "language_model formulas": ("mathgpt", "smoke,task=text", (TEXT,)),
    "generation": ("numgpt", "smoke,task=generation", ()),
    "generation spelled": ("numgpt", "smoke,task=generation,system=digits", ()),
    "magnitude": ("dice", "smoke", ()),
    "span_answer": ("dice", "smoke,task=squad", ()),
    "word_problem": ("digits", "smoke", ()),
    "word_problem slot": ("digits", "smoke", ("scheme=replace", "heads.next=fone", "embeds.token=token")),
    "tatqa": ("luna", "smoke,task=tatqa", ()),
    "tabfact": ("luna", "smoke,task=tabfact", ()),
    "table_text": ("luna", "smoke,task=pretrain", ()),
    "transactions": ("tabbert", "smoke", ()),
    "fraud": ("tabbert", "smoke,task=fraud", ()),
    "equation_extraction": ("mathgpt", "smoke", ()),
    "equation_extraction read": ("mathgpt", "smoke,reader=scratch", ()),
    "equation_extraction slot": (
        "mathgpt",
        "smoke,system=gpt,reader=scratch",
        ("scheme=replace", "heads.next=mixture", "+embeds.numeral=dice"),
    ),
    "headline": ("mathgpt", "smoke,task=headline", ()),
    "student_action": ("mathgpt", "smoke,task=student_action", ()),
    "answer_scoring": ("mathgpt", "smoke,task=answer_scoring", ()),
    "feedback": ("mathgpt", "smoke,task=feedback", ()),
    "solving": ("mathgpt", "smoke,task=gsm8k", ()),
    "articles": ("mathgpt", "smoke,task=articles", ()),
}
NONE = "none"


class System(NamedTuple):
    """A base and what is chosen on each axis."""

    base: str
    choices: Mapping[str, str]

    def pairs(self) -> Iterator[frozenset[Choice]]:
        return map(frozenset, itertools.combinations(sorted({"base": self.base, **self.choices}.items()), 2))


@functools.cache
def axes() -> dict[str, tuple[str, ...]]:
    """Axis → what can be chosen on it: every part of its kind."""
    of_kind: dict[str, list[str]] = {"token": [], "numeral": [NONE], "type": [NONE]}
    for name in names("embed"):
        of_kind[find("embed", name).kind].append(name)
    found = {axis: tuple(values) for axis, values in of_kind.items()}
    extra = (NONE, *(name for name in names("objectives") if name not in ("nll", "masked", "tagop")))
    return {
        "scheme": tuple(names("text")),
        **found,
        "positions": tuple(names("positions")),
        "backbone": tuple(names("backbone")),
        "head": tuple(names("heads")),
        "objective": extra,
    }


@functools.cache
def _base(name: str) -> Any:
    file, argument, words = BASES[name]
    config = importlib.import_module(f"numjax.bundled.configs.{file}").get_config(argument)
    return blocks.apply_changes(config, words)


def main_head(config: Any) -> str:
    """The head that the task reads: what is chosen on the axis of heads stands in its place."""
    return next(name for name in ("next", "label", "span", "answer", "masked") if name in config.heads)


def config_of(system: System) -> Any:
    """The config of a system, small enough to be trained in seconds."""
    config = _base(system.base).copy_and_resolve_references().unlock()
    head, chosen = main_head(config), dict(system.choices)
    words = []
    for axis, place in (("scheme", "scheme"), ("backbone", "backbone")):
        if axis in chosen and chosen[axis] != config[place].name:
            words.append(f"{place}={chosen[axis]}")
    kinds = {name: find("embed", block.name).kind for name, block in config.embeds.items()}
    for axis in ("token", "numeral", "type"):
        here = [name for name, kind in kinds.items() if kind == axis]
        if axis not in chosen:
            continue
        words += [f"~embeds.{name}" for name in here if config.embeds[name].name != chosen[axis]]
        if chosen[axis] != NONE and not any(config.embeds[name].name == chosen[axis] for name in here):
            words.append(f"+embeds.{axis if axis in ('token', 'numeral') else 'type'}={chosen[axis]}")
    if "positions" in chosen:
        words += [f"~positions.{name}" for name in config.positions]
        words.append(f"+positions.sequence={chosen['positions']}")
    if "head" in chosen and chosen["head"] != config.heads[head].name:
        words.append(f"heads.{head}={chosen['head']}")
    if chosen.get("objective", NONE) != NONE:
        wants = "head" in options("objectives", chosen["objective"])
        words.append(f"+objectives.extra={chosen['objective']}" + (f":head={head}" if wants else ""))
    blocks.apply_changes(config, words)
    _shrink(config)
    return config


def _shrink(config: Any) -> None:
    before = _room(config)
    if "size" in options("tasks", config.task.name):
        # Else most of the time goes into reading records that nobody trains on.
        config.task.size = min(config.task.get("size") or RECORDS, RECORDS)
    for name, value in SIZES.items():
        if name in config.backbone:
            config.backbone[name] = value
    if "max_length" in config.backbone:
        config.backbone.max_length = before
    if config.backbone.name == "tabular":
        config.backbone.update(columns=12, field_heads=2, heads=2, field_mlp_width=16)
    config.backbone.dtype = "float32"


def _room(config: Any) -> int:
    """Positions that the base needs, and those of what is written."""
    room = max(config.data.length, config.data.get("source_length", 0)) + config.decode.max_tokens
    return -(-room // 12) * 12


@functools.cache
def _faults(base: str, choices: tuple[Choice, ...]) -> tuple[str, ...]:
    config = config_of(System(base, dict(choices)))
    return tuple(fit.find_faults(config, build("tasks", config.task)))


def faults(system: System) -> tuple[str, ...]:
    return _faults(system.base, tuple(sorted(system.choices.items())))


def chosen_by(base: str) -> dict[str, str]:
    """What a base has on each axis."""
    config = _base(base)
    kinds = {name: find("embed", block.name).kind for name, block in config.embeds.items()}
    found = {"scheme": config.scheme.name, "backbone": config.backbone.name, "objective": NONE}
    for axis in ("token", "numeral", "type"):
        found[axis] = next((config.embeds[name].name for name, kind in kinds.items() if kind == axis), NONE)
    names_ = [block.name for block in config.positions.values()]
    found["positions"] = "tree" if "tree" in names_ else names_[0]
    return found | {"head": config.heads[main_head(config)].name}


def fitting(base: str, rng: np.random.Generator, wanted: Mapping[str, str], tries: int = 12) -> System | None:
    """A system of this base with what is wanted, other axes drawn where they fit; None where there is none."""
    start = System(base, chosen_by(base) | wanted)
    if faults(start):
        return None
    for axis in rng.permutation([axis for axis in axes() if axis not in wanted]).tolist():
        values = axes()[axis]
        for value in rng.permutation(values).tolist()[:tries]:
            other = System(base, {**start.choices, axis: value})
            if not faults(other):
                start = other
                break
    return start


@functools.cache
def compatible() -> Mapping[frozenset[Choice], System]:
    """Every pair of choices, or of a choice and a base, that some base takes, with a system that has it."""
    found: dict[frozenset[Choice], System] = {}
    rng = np.random.default_rng(0)

    def add(system: System) -> None:
        for pair in system.pairs():
            found.setdefault(pair, system)

    singles = [{axis: value} for axis, values in axes().items() for value in values]
    for base in BASES:
        for _ in range(6):
            if (system := fitting(base, rng, {})) is not None:
                add(system)
        for one, other in itertools.combinations_with_replacement(singles, 2):
            if one == other or one.keys() != other.keys():
                system = System(base, chosen_by(base) | one | other)
                if not faults(system):
                    add(system)
    return found


def covering(seed: int = 0, depth: int = 8) -> list[System]:
    """Systems that have every compatible pair between them: each the best of a few drawn around a pair that is
    left."""
    rng, left, out = np.random.default_rng(seed), set(compatible()), []
    while left:
        pair = min(left, key=lambda p: (hash_of(p, seed), sorted(p)))
        best: System | None = None
        gain = 0
        for _ in range(depth):
            system = _around(pair, rng)
            if system is not None and (new := len(left & set(system.pairs()))) > gain:
                best, gain = system, new
        best = best or compatible()[pair]
        out.append(best)
        left -= set(best.pairs())
    return out


def hash_of(pair: frozenset[Choice], seed: int) -> int:
    return zlib.crc32(repr((seed, sorted(pair))).encode())


def _around(pair: frozenset[Choice], rng: np.random.Generator) -> System | None:
    """A system with the pair, the rest drawn; in a base of its own, or in any that takes it."""
    wanted = dict(pair)
    base = wanted.pop("base", None)
    for one in [base] if base else rng.permutation(list(BASES)).tolist()[:4]:
        if (system := fitting(one, rng, wanted)) is not None:
            return system
    return None
