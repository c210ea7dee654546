"""Checks that the parts of a config fit together, before any of them is built.

Each rule gives a line that names two parts and what would fit. The rules look only at the classes of the parts
(`protocols.py`), so that nothing need be loaded or trained.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from numjax.build import WORD_OF_KIND, find, options
from numjax.errors import UsageError
from numjax.protocols import ACTS, Task

# Task kind → the heads that answer it, as text for the message where there is none.
ANSWERS = {
    "classify": "classify",
    "span": "span",
    "units": "tagop",
    "masked": "masked",
    "language_model": "token, mixture or another that writes",
}
GIVERS = {
    "types": "set scheme.types=True, or choose scheme trees",
    "tree_positions": "choose scheme trees",
    "units": "choose task tatqa or claims",
}

# The least and the largest count of each setting that is one. More is a typing error, or the config of a stranger
# that would fill the memory.
COUNTS = {
    "seed": (0, 2**31 - 1),
    "num_seeds": (1, 1_000_000),
    "log_every": (1, 1_000_000_000),
    "scheme.pad_multiple": (1, 1_000_000),
    "backbone.layers": (1, 10_000),
    "backbone.width": (1, 1_000_000),
    "backbone.heads": (1, 1_000_000),
    "backbone.max_length": (1, 1_000_000_000),
    "data.digits": (1, 10_000),
    "data.length": (1, 1_000_000_000),
    "data.buckets": (1, 10_000),
    "data.threads": (0, 10_000),
    "data.prefetch": (0, 1_000_000),
    "data.workers": (0, 10_000),
    "data.train_size": (0, 2**62),
    "optim.batch_size": (1, 100_000_000),
    "optim.accumulate": (1, 1_000_000),
    "optim.steps": (0, 1_000_000_000),
    "optim.warmup": (0, 1_000_000_000),
    "eval.every": (0, 1_000_000_000),
    "eval.examples": (0, 2**62),
    "eval.batch_size": (1, 100_000_000),
    "decode.batch_size": (1, 100_000_000),
    "checkpoint.every": (0, 1_000_000_000),
    "checkpoint.keep": (1, 1_000_000),
}
# Settings that are a finite number from 0 on; those of the second list are below 1.
POSITIVE = ("optim.learning_rate", "optim.weight_decay", "optim.clip", "optim.epochs", "optim.floor")
SHARES = ("backbone.dropout",)
DTYPES = ("auto", "float32", "bfloat16", "float16")
# `Scheme.numbers` → where its [NUM]s stand, a head that predicts them, and a scheme that has them.
WRITERS = {
    "slot": ("for each number", "mixture", "replace"),
    "places": ("for each decimal place", "carry_save", "carry_save"),
    "prefix": ("before the digits of each number", "prefix", "value_prefix"),
}
MAX_BEAMS, MAX_TOP_K = 10_000, 2**31 - 1  # int32 holds top_k
LEAST_SHARE, MOST_SHARE = 0.001, 0.999  # of an interval; beyond, float32 and samples are too coarse


class NamedPart:
    """A part as its config names it.

    Attributes:
      kind: its folder. word: its kind in messages. key: its name in the config, such as "next" of heads.next; ""
        where a config has only one part of the kind. name: the part's name. cls: its class. options: its block
        without the name.
    """

    def __init__(self, kind: str, key: str, block: Mapping[str, Any]):
        self.kind, self.key, self.word = kind, key, WORD_OF_KIND[kind]
        self.name = str(block["name"])
        self.options = {k: v for k, v in dict(block).items() if k != "name"}
        self.cls = find(kind, self.name)

    def get_option(self, name: str) -> Any:
        """An option of its block, else the part's default; None without either."""
        parameter = options(self.kind, self.name).get(name)
        default = None if parameter is None or parameter.default is parameter.empty else parameter.default
        return self.options.get(name, default)

    def __str__(self) -> str:
        return f"{self.word} {self.key!r} ({self.name})" if self.key else f"{self.word} {self.name}"


def check(config: Any, task: Task) -> None:
    """Raises UsageError for the first two parts that do not fit together, or for a number out of range."""
    _check_numbers(config)
    if "decode" in config:
        decode = config.decode
        check_decoding(decode.max_tokens, decode.temperature, decode.top_k, decode.top_p, decode.get("beams", 0))
    for line in find_faults(config, task):
        raise UsageError(line)


def _check_numbers(config: Any) -> None:
    def find(path: str) -> Any:
        block, _, key = path.rpartition(".")
        return (config.get(block, {}) if block else config).get(key)

    for path, (least, most) in COUNTS.items():
        value = find(path)
        if value is not None and not least <= value <= most:
            raise UsageError(f"config.{path}={value} must be from {least} to {most:,}")
    for path in (*POSITIVE, *SHARES):
        value, most = find(path), math.inf if path in POSITIVE else 1
        if value is not None and not 0 <= value < most:
            raise UsageError(
                f"config.{path}={value:g} must be a number from 0{'' if path in POSITIVE else ', below 1'}"
            )
    for kind in ("embeds", "positions", "heads"):
        for key, block in config.get(kind, {}).items():
            if not 0 <= (rate := block.get("dropout", 0)) < 1:
                raise UsageError(f"config.{kind}.{key}.dropout={rate:g} must be a number from 0, below 1")
    dtype = find("backbone.dtype")
    if dtype is not None and dtype not in DTYPES:
        raise UsageError(f"config.backbone.dtype={dtype!r} must be one of {', '.join(DTYPES)}")
    for name in ("optim.rates", "optim.weight_decays"):
        for entry in find(name) or ():
            try:
                pattern, value = entry
                re.compile(pattern)
                float(value)
            except (TypeError, ValueError, re.error) as error:
                raise UsageError(
                    f"config.{name}: {entry!r} is not a pair of a regular expression and a number: {error}"
                ) from None
    betas = find("optim.betas")
    if betas is not None and not (len(betas) == 2 and all(0 <= beta < 1 for beta in betas)):
        raise UsageError(f"config.optim.betas={tuple(betas)} must be two numbers from 0, below 1")


def check_decoding(max_tokens: int, temperature: float, top_k: int, top_p: float, beams: int = 0) -> None:
    """Raises UsageError for a setting of generation that is out of range."""
    check_counts(max_tokens=max_tokens)
    if not 0 <= beams <= MAX_BEAMS or (beams and temperature > 0):
        raise UsageError(
            f"beams is from 0 to {MAX_BEAMS:,}, and a beam search samples nothing: leave temperature at 0"
        )
    if not 0 <= temperature < math.inf or not 0 <= top_k <= MAX_TOP_K or not 0 < top_p <= 1:
        raise UsageError(f"temperature is a number from 0, top_k is from 0 to {MAX_TOP_K:,}, and top_p in (0, 1]")


def check_counts(least: int = 1, most: int = 2**31 - 1, **counts: int) -> None:
    """Raises UsageError for a setting, by name, that is no whole number from `least` to `most`."""
    for name, count in counts.items():
        if not (isinstance(count, numbers.Integral) and least <= count <= most):
            raise UsageError(f"{name} must be a whole number from {least} to {most:,}, not {count}")


def parse_intervals(text: str) -> tuple[float, ...]:
    """The shares of intervals that a user typed, such as "0.5,0.9".

    Raises:
      UsageError: one is no number, out of range or given twice.
    """
    try:
        shares = tuple(float(word) for word in text.split(","))
    except ValueError:
        raise UsageError(f"--intervals={text}: give shares between 0 and 1, such as 0.5,0.9") from None
    check_intervals(shares)
    return shares


def check_intervals(shares: Sequence[float], samples: int = 1) -> None:
    """Raises UsageError for shares of central intervals that are out of range or given twice."""
    if not isinstance(shares, Sequence) or not all(isinstance(share, int | float) for share in shares):
        raise UsageError(f"intervals: give a list of shares, such as (0.5, 0.9), not {shares!r}")
    for share in shares:
        if not LEAST_SHARE <= share <= MOST_SHARE:
            raise UsageError(
                f"intervals: a share is from {LEAST_SHARE} to {MOST_SHARE}, not {share:g}: give some such as 0.5,0.9"
            )
    if len({*shares}) < len(shares):
        raise UsageError(
            f"intervals: {', '.join(f'{share:g}' for share in shares)} has a share twice: give each once"
        )
    check_counts(samples=samples)


def find_faults(config: Any, task: Task) -> Iterator[str]:
    """Yields a line for each pair of parts that do not fit together."""
    task_part = NamedPart("tasks", "", config.task)
    scheme, backbone = NamedPart("text", "", config.scheme), NamedPart("backbone", "", config.backbone)
    embeds = _name_parts("embed", config.embeds)
    positions, heads = _name_parts("positions", config.positions), _name_parts("heads", config.heads)
    objectives = _name_parts("objectives", config.objectives)
    yield from _reading_faults(task, task_part, scheme, backbone)
    if task.answer not in scheme.cls.forms:
        yield (
            f"{task_part} wants answers of the form {task.answer!r}, which {scheme} cannot enforce: set "
            f"task.answer=text, or choose scheme {'trees' if task.answer == 'formula' else 'replace or digits'}"
        )
    if config.data.get("pack") and backbone.get_option("packed") is False:
        yield (
            f"data.pack puts several texts into a row, and {backbone} with packed=False lets them see each other: "
            "set backbone.packed=True"
        )
    yield from _missing_blocks(config, task, task_part)
    yield from _head_faults(task, task_part, heads)
    yield from _embed_faults(embeds)
    for part in positions:
        for action in ACTS:
            if part.cls.provides(action) and action not in backbone.cls.takes:
                yield (
                    f"{part} acts on attention, which {backbone} has not: choose positions that are added, such as "
                    "learned, or none"
                )
        if part.cls.reads_channels and not backbone.cls.by_position:
            yield f"{part} reads a channel of each position, and {backbone} places rows: choose backbone encoder"
    for part in (*embeds, *positions):
        if part.cls.made_for and part.cls.made_for != scheme.name:
            yield f"{part} reads symbols that {scheme} has not: choose scheme {part.cls.made_for}, or take it out"
    yield from _number_faults(task, task_part, scheme, embeds, heads, objectives)
    yield from _objective_faults(task, task_part, scheme, heads, objectives)
    given_channels = {channel.name for channel in (*scheme.cls.channels_of(scheme.options), *task.channels)}
    for part in (*embeds, *positions, backbone, *heads, *objectives):
        for name in part.cls.wants_channels(part.options):
            if name not in given_channels and not part.cls.provides("producers"):
                advice = GIVERS.get(name, "choose others")
                yield f"{part} reads the channel {name!r}, which neither {scheme} nor {task_part} gives: {advice}"


def _name_parts(kind: str, blocks: Mapping[str, Any]) -> list[NamedPart]:
    return [NamedPart(kind, key, block) for key, block in sorted(blocks.items())]


def _reading_faults(task: Task, task_part: NamedPart, scheme: NamedPart, backbone: NamedPart) -> Iterator[str]:
    if task.reads != scheme.cls.reads:
        advice = "scheme rows" if task.reads == "rows" else "scheme subword, or a task of rows such as transactions"
        yield f"{task_part} reads {task.reads}, and {scheme} {scheme.cls.reads}: choose {advice}"
    if backbone.cls.reads == "rows" and scheme.cls.reads != "rows":
        yield f"{backbone} reads rows of cells, and {scheme} text: choose scheme rows, or backbone encoder"
    if task.kind == "language_model" and not backbone.cls.writes:
        yield f"{task_part} writes, and {backbone} sees whole texts: choose backbone decoder or encoder_decoder"
    if task.sources and not backbone.cls.encodes:
        yield f"{task_part} has a source for an encoder, and {backbone} has none: choose backbone encoder_decoder"
    if backbone.cls.encodes and not task.sources:
        yield (
            f"{backbone} reads a source, which {task_part} has not: choose backbone decoder, or what gives one "
            "(task equation_extraction with encoder=True, or word_problem)"
        )


def _missing_blocks(config: Any, task: Task, task_part: NamedPart) -> Iterator[str]:
    for kind in ("heads", "objectives"):
        block_names = {str(block["name"]) for block in config[kind].values()} | set(config[kind])
        if missing := [name for name in task.needs.get(kind, ()) if name not in block_names]:
            yield f"{task_part} needs {WORD_OF_KIND[kind]} {', '.join(missing)} in the config"


def _head_faults(task: Task, task_part: NamedPart, heads: list[NamedPart]) -> Iterator[str]:
    if not heads:
        yield "the config names no heads: set task=… or config.heads"
        return
    writers = [head for head in heads if head.cls.provides("step_scores")]
    if len(writers) > 1:
        yield f"{' and '.join(map(str, writers))} each predict the next token: a model has one such head, keep one"
    row_heads = [head for head in heads if head.cls.provides("log_probs") or head.cls.provides("best")]
    if len(row_heads) > 1:
        yield f"{' and '.join(map(str, row_heads))} each predict a row, and a task reads one: keep one of them"
    for head in heads:
        only_form = head.cls.only_form(head.options)
        if only_form and (task.answer != only_form or not task.sources):
            yield (
                f"{head} writes a {only_form} alone, and {task_part} has more to write: set task.answer={only_form} "
                "and task.encoder=True, or text=True of the head"
            )
    if not any(head.cls.answers == task.kind for head in heads):
        head_names = " and ".join(map(str, heads))
        yield f"{task_part} wants an answer that {head_names} does not give: choose a head {ANSWERS[task.kind]}"


def _embed_faults(embeds: list[NamedPart]) -> Iterator[str]:
    token_embeds = [embed for embed in embeds if embed.cls.kind == "token"]
    if len(token_embeds) != 1:
        embed_names = " and ".join(map(str, token_embeds)) or "the config has none"
        yield f"a model reads tokens by one embedding: {embed_names}; keep or add one of kind token"


def _number_faults(
    task: Task,
    task_part: NamedPart,
    scheme: NamedPart,
    embeds: list[NamedPart],
    heads: list[NamedPart],
    objectives: list[NamedPart],
) -> Iterator[str]:
    for part in embeds:
        if part.cls.reads_surfaces and not scheme.cls.whole_numbers:
            yield (
                f"{part} reads how the number of each [NUM] is written, and {scheme} has parts of numbers there: "
                f"choose scheme replace, or an embedding of values such as fone"
            )
    if task.kind != "language_model":
        return
    has_slots, has_places = scheme.cls.numbers in WRITERS, scheme.cls.numbers == "places"
    for head in (part for part in heads if part.cls.provides("step_scores")):
        if head.cls.numbers and not has_slots:
            yield f"{head} writes numbers as [NUM], and {scheme} spells them: choose scheme replace, or head token"
        if has_slots and not head.cls.numbers:
            yield (
                f"{scheme} writes a number as [NUM], and {head} does not say which: choose head "
                f"{WRITERS[scheme.cls.numbers][1]}, or scheme subword"
            )
        if has_slots and head.cls.numbers and head.cls.written_as != scheme.cls.numbers:
            what, choice, _ = WRITERS[scheme.cls.numbers]
            yield (
                f"{scheme} has a [NUM] {what}, which {head} does not predict: choose head {choice}, or scheme "
                f"{WRITERS[head.cls.written_as][2]}"
            )
        if head.cls.trained_by and not any(part.name == head.cls.trained_by for part in objectives):
            yield (
                f"{head} has weights that the likelihood does not train: add "
                f"--set=+objectives.{head.cls.trained_by}={head.cls.trained_by}:head={head.key}"
            )
        if task.metric.lstrip("-") == "perplexity" and head.cls.densities:
            yield f"{task_part} chooses its best step by perplexity, and {head} has densities: choose head token"
        for part in embeds:
            if part.cls.kind == "numeral" and has_places:
                yield (
                    f"{part} reads the number of each [NUM], and {scheme} has one for each decimal place of what is "
                    f"still to be written: take the embedding out (~embeds.{part.key})"
                )
            elif part.cls.kind == "numeral" and not head.cls.numbers and not scheme.cls.gives_values(scheme.options):
                yield (
                    f"{part} reads the numbers of what is written, and {head} spells them: choose scheme replace "
                    f"with head mixture, scheme digits with layout=value, or take the embedding out "
                    f"(~embeds.{part.key})"
                )


def _objective_faults(
    task: Task, task_part: NamedPart, scheme: NamedPart, heads: list[NamedPart], objectives: list[NamedPart]
) -> Iterator[str]:
    if not objectives:
        yield "the config names no objectives"
    by_key = {part.key: part for part in heads}
    for part in objectives:
        kinds = part.cls.kinds_of(part.options)
        if kinds and task.kind not in kinds:
            yield f"{part} is of tasks of kind {' or '.join(kinds)}, and {task_part} is of kind {task.kind}"
        key = part.get_option("head")
        if key is None:
            continue
        if part.cls.reads_digits and not scheme.cls.digit_tokens:
            yield f"{part} reads digits that are tokens of their own, which {scheme} has not: choose scheme digits"
        if key not in by_key:
            yield f"{part} reads head {key!r}; the config has {', '.join(by_key) or 'none'}"
            continue
        required = ("log_prob", *part.cls.methods_of(part.options))
        if missing := [method for method in required if not by_key[key].cls.provides(method)]:
            yield f"{part} wants {', '.join(missing)} of its head, and {by_key[key]} has none: choose another"
    trained = {part.get_option(option) for part in objectives for option in part.cls.head_options}
    for key in sorted(by_key.keys() - trained):
        add = f"add --set=+objectives.{key}=nll:head={key}, or " if by_key[key].cls.answers == task.kind else ""
        yield f"{by_key[key]} has no objective, so nothing would train it: {add}remove it with --set=~heads.{key}"
