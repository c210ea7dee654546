"""Makes a covering set: combinations of parts that contain every compatible pair of parts.

A combination is a base, which trains a task in a few seconds, with blocks changed as `--set` changes them. A pair is
compatible if a base accepts both of its parts; the other parts may be changed or not. `fit.find_faults` decides this
from the parts' own declarations and builds nothing.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import types
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from ml_collections import ConfigDict

from numjax.build import build, find, names, options
from numjax.config import blocks, fit
from tests.conftest import ROOT

Choice = tuple[str, str]  # (axis, the value on it)
RECORDS = 200  # of a task, which is enough for a vocabulary
TEXT = f"task=language_model:path={ROOT / 'tests' / 'fixtures' / 'text'}"  # sixty documents with numbers
SIZES = dict(width=16, layers=1, heads=2, mlp_ratio=2)
# Name → (file of configs/, argument, words of --set): every task, with systems that encode and write it.
BASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "statement": ("numgpt", "smoke", ()),
    "statement spelled": ("numgpt", "smoke,system=gpt", ()),
    "language_model": ("numgpt", "smoke,task=text", (TEXT,)),
    "language_model formulas": ("mathgpt", "smoke,task=text", (TEXT,)),
    "generation": ("numgpt", "smoke,task=generation", ()),
    "generation spelled": ("numgpt", "smoke,task=generation,system=digits", ()),
    "generation prefix": (
        "numgpt",
        "smoke,task=generation,system=digits",
        (
            "scheme=value_prefix",
            "heads.next=prefix",
            "+embeds.numeral=value_mlp",
            "+objectives.numbers=projection:head=next",
        ),
    ),
    "magnitude": ("dice", "smoke", ()),
    "span_answer": ("dice", "smoke,task=squad", ()),
    "word_problem": ("digits", "smoke", ()),
    "span_corruption": ("digits", "smoke,task=pretraining", ()),
    "word_problem slot": ("digits", "smoke", ("scheme=replace", "heads.next=fone", "embeds.token=token")),
    "tatqa": ("luna", "smoke,task=tatqa", ()),
    "tabfact": ("luna", "smoke,task=tabfact", ()),
    "claims": ("luna", "smoke,task=claims", ()),
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
NAMED_BLOCKS = ("embeds", "positions", "heads", "objectives")


class Combination(NamedTuple):
    """A base and the choice on each axis."""

    base: str
    choices: Mapping[str, str]

    def list_pairs(self) -> Iterator[frozenset[Choice]]:
        return map(frozenset, itertools.combinations(sorted({"base": self.base, **self.choices}.items()), 2))


@functools.cache
def list_axes() -> dict[str, tuple[str, ...]]:
    """Returns axis → its possible choices: every part of its kind."""
    names_of_kind: dict[str, list[str]] = {"token": [], "numeral": [NONE], "type": [NONE]}
    for name in names("embed"):
        names_of_kind[find("embed", name).kind].append(name)
    embeddings = {axis: tuple(values) for axis, values in names_of_kind.items()}
    objectives = (NONE, *(name for name in names("objectives") if name not in ("nll", "masked", "tagop")))
    return {
        "scheme": tuple(names("text")),
        **embeddings,
        "positions": tuple(names("positions")),
        "backbone": tuple(names("backbone")),
        "head": tuple(names("heads")),
        "objective": objectives,
    }


@functools.cache
def _load_base(name: str) -> Any:
    file, argument, words = BASES[name]
    config = importlib.import_module(f"numjax.bundled.configs.{file}").get_config(argument)
    return blocks.apply_changes(config, words)


def get_main_head(config: Any) -> str:
    """Returns the name of the head that the task uses. The choice on the axis of heads replaces it."""
    return next(name for name in ("next", "label", "span", "answer", "masked") if name in config.heads)


def _scheme_options(choices: Mapping[str, str]) -> str:
    """What the scheme needs for other choices."""
    if choices.get("scheme") != "limbs":
        return ""
    needs = {("type", "number_name"): "names=2", ("positions", "rank_bias"): "size=1,known=True"}
    words = [words for choice, words in needs.items() if choice in choices.items()]
    return f":{','.join(words)}" if words else ""


def make_config(combination: Combination) -> Any:
    """Makes the config of a combination, small enough to train in seconds."""
    config = _change_blocks(combination).copy_and_resolve_references().unlock()
    _shrink(config)
    return config


def _change_blocks(combination: Combination) -> Any:
    """Makes the config of a combination. It shares the blocks that it does not change: a whole copy takes longer
    than all that a pair is asked for."""
    base = dict(_load_base(combination.base).items())
    config = ConfigDict(base | {field: ConfigDict(dict(base[field].items())) for field in NAMED_BLOCKS})
    head, choices = get_main_head(config), dict(combination.choices)
    words = []
    for axis, field in (("scheme", "scheme"), ("backbone", "backbone")):
        if axis in choices and choices[axis] != config[field].name:
            words.append(f"{field}={choices[axis]}{_scheme_options(choices) if axis == 'scheme' else ''}")
    kinds = {name: find("embed", block.name).kind for name, block in config.embeds.items()}
    for axis in ("token", "numeral", "type"):
        embed_names = [name for name, kind in kinds.items() if kind == axis]
        if axis not in choices:
            continue
        words += [f"~embeds.{name}" for name in embed_names if config.embeds[name].name != choices[axis]]
        if choices[axis] != NONE and not any(config.embeds[name].name == choices[axis] for name in embed_names):
            words.append(f"+embeds.{axis if axis in ('token', 'numeral') else 'type'}={choices[axis]}")
    if "positions" in choices:
        words += [f"~positions.{name}" for name in config.positions]
        words.append(f"+positions.sequence={choices['positions']}")
    if "head" in choices and choices["head"] != config.heads[head].name:
        words.append(f"heads.{head}={choices['head']}")
    if choices.get("objective", NONE) != NONE:
        needs_head = "head" in options("objectives", choices["objective"])
        words.append(f"+objectives.extra={choices['objective']}" + (f":head={head}" if needs_head else ""))
    return blocks.apply_changes(config, words)


def _shrink(config: Any) -> None:
    max_length = _count_positions(config)
    if "size" in options("tasks", config.task.name):
        # Without this limit, most of the time goes into records that no step trains on.
        config.task.size = min(config.task.get("size") or RECORDS, RECORDS)
    for name, value in SIZES.items():
        if name in config.backbone:
            config.backbone[name] = value
    if "max_length" in config.backbone:
        config.backbone.max_length = max_length
    if config.backbone.name == "tabular":
        config.backbone.update(columns=12, field_heads=2, heads=2, field_mlp_width=16)
    config.backbone.dtype = "float32"


def _count_positions(config: Any) -> int:
    """Returns the number of positions that the base needs for its input and its generated tokens."""
    n_positions = max(config.data.length, config.data.get("source_length", 0)) + config.decode.max_tokens
    return -(-n_positions // 12) * 12


@functools.cache
def _build_task(base: str) -> Any:
    return build("tasks", _load_base(base).task)


@functools.cache
def _find_faults(base: str, choices: tuple[Choice, ...]) -> tuple[str, ...]:
    return tuple(fit.find_faults(_change_blocks(Combination(base, dict(choices))), _build_task(base)))


def find_faults(combination: Combination) -> tuple[str, ...]:
    return _find_faults(combination.base, tuple(sorted(combination.choices.items())))


@functools.cache
def get_choices(base: str) -> Mapping[str, str]:
    """Returns the choice of a base on each axis."""
    config = _load_base(base)
    kinds = {name: find("embed", block.name).kind for name, block in config.embeds.items()}
    choices = {"scheme": config.scheme.name, "backbone": config.backbone.name, "objective": NONE}
    for axis in ("token", "numeral", "type"):
        choices[axis] = next((config.embeds[name].name for name, kind in kinds.items() if kind == axis), NONE)
    position_names = [block.name for block in config.positions.values()]
    choices["positions"] = "tree" if "tree" in position_names else position_names[0]
    return types.MappingProxyType(choices | {"head": config.heads[get_main_head(config)].name})


def draw_combination(
    base: str, rng: np.random.Generator, fixed_choices: Mapping[str, str], tries: int = 12
) -> Combination | None:
    """Draws a combination of this base with the fixed choices. Other axes are drawn where a choice fits.

    Returns None if the base does not accept the fixed choices.
    """
    combination = Combination(base, get_choices(base) | fixed_choices)
    if find_faults(combination):
        return None
    for axis in rng.permutation([axis for axis in list_axes() if axis not in fixed_choices]).tolist():
        values = list_axes()[axis]
        for value in rng.permutation(values).tolist()[:tries]:
            candidate = Combination(base, {**combination.choices, axis: value})
            if not find_faults(candidate):
                combination = candidate
                break
    return combination


@functools.cache
def find_compatible_pairs() -> Mapping[frozenset[Choice], Combination]:
    """Returns compatible pair → a combination with it. A pair is two choices, or a choice and a base."""
    combinations: dict[frozenset[Choice], Combination] = {}
    rng = np.random.default_rng(0)

    def add(combination: Combination) -> None:
        for pair in combination.list_pairs():
            combinations.setdefault(pair, combination)

    singles = [{axis: value} for axis, values in list_axes().items() for value in values]
    for base in BASES:
        for _ in range(6):
            if (combination := draw_combination(base, rng, {})) is not None:
                add(combination)
        for first, second in itertools.combinations_with_replacement(singles, 2):
            if first == second or first.keys() != second.keys():
                combination = Combination(base, get_choices(base) | first | second)
                is_known = all(pair in combinations for pair in combination.list_pairs())
                if not is_known and not find_faults(combination):
                    add(combination)
    return combinations


def make_covering_set(seed: int = 0, most: int | None = None, depth: int = 8) -> list[Combination]:
    """Returns combinations that together contain every compatible pair, or as many pairs as `most` of them do.

    Each is drawn for a pair that is still missing: the best of `depth` draws.
    """
    rng, missing_pairs, combinations = np.random.default_rng(seed), set(find_compatible_pairs()), []
    while missing_pairs and len(combinations) != most:
        pair = min(missing_pairs, key=lambda p: (hash_pair(p, seed), sorted(p)))
        best: Combination | None = None
        gain = 0
        for _ in range(depth):
            combination = _draw_around(pair, rng)
            if combination is not None and (new_gain := len(missing_pairs & set(combination.list_pairs()))) > gain:
                best, gain = combination, new_gain
        best = best or find_compatible_pairs()[pair]
        combinations.append(best)
        missing_pairs -= set(best.list_pairs())
    return combinations


def hash_pair(pair: frozenset[Choice], seed: int) -> int:
    return zlib.crc32(repr((seed, sorted(pair))).encode())


def _draw_around(pair: frozenset[Choice], rng: np.random.Generator) -> Combination | None:
    """Draws a combination with the pair. Its base is the pair's own, or one of up to four drawn bases."""
    fixed_choices = dict(pair)
    base = fixed_choices.pop("base", None)
    for name in [base] if base else rng.permutation(list(BASES)).tolist()[:4]:
        if (combination := draw_combination(name, rng, fixed_choices)) is not None:
            return combination
    return None
