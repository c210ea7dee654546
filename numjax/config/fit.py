"""What goes together: asked of the parts that a config names, before anything is built of them.

Each rule is a line of two parts and what would fit. Parts say what they are in their classes (`protocols.py`), so
that nothing need be read or trained to know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from numjax.build import find
from numjax.errors import UsageError
from numjax.protocols import ACTS, Task

# Task kind → the heads that answer it, and what to say where there is none.
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
    "units": "choose task tatqa",
}


class Named:
    """A part as its config names it.

    Attributes:
      word, key: of its block, as in heads.next; key is "" where a config has one of the kind. cls: its class.
      options: its block without the name.
    """

    def __init__(self, kind: str, key: str, block: Mapping[str, Any], word: str = ""):
        self.key, self.word = key, word or kind
        self.name = str(block["name"])
        self.options = {k: v for k, v in dict(block).items() if k != "name"}
        self.cls = find(kind, self.name)

    def __str__(self) -> str:
        return f"{self.word} {self.key!r} ({self.name})" if self.key else f"{self.word} {self.name}"


def check(config: Any, task: Task) -> None:
    """Raises UsageError for the first two parts that do not go together, or a config of an earlier version."""
    if "positions" not in config:
        raise UsageError("the config says nothing of positions: it is of an earlier version of numjax, so train anew")
    for line in faults(config, task):
        raise UsageError(line)


def faults(config: Any, task: Task) -> Iterator[str]:
    """A line for each pair that does not go together."""
    of_task = Named("tasks", "", config.task, "task")
    scheme, backbone = Named("text", "", config.scheme, "scheme"), Named("backbone", "", config.backbone)
    embeds = _several("embed", config.embeds)
    positions, heads = _several("positions", config.positions), _several("heads", config.heads, "head")
    objectives = _several("objectives", config.objectives, "objective")
    yield from _reading(task, of_task, scheme, backbone)
    if task.answer not in scheme.cls.forms:
        yield (
            f"{of_task} wants answers of the form {task.answer!r}, to which {scheme} holds none: set "
            f"task.answer=text, or choose scheme {'trees' if task.answer == 'formula' else 'replace or digits'}"
        )
    yield from _needs(config, task, of_task)
    yield from _heads(task, of_task, heads)
    yield from _embeds(embeds)
    for one in positions:
        for place in ACTS:
            if one.cls.provides(place) and place not in backbone.cls.takes:
                yield (
                    f"{one} acts on attention, which {backbone} has not: choose positions that are added, such as "
                    "learned, or none"
                )
        if one.cls.reads_channels and not backbone.cls.by_position:
            yield f"{one} reads a channel of each position, and {backbone} places rows: choose backbone encoder"
    yield from _numbers(task, of_task, scheme, embeds, heads)
    yield from _objectives(task, of_task, scheme, heads, objectives)
    given = {channel.name for channel in (*scheme.cls.channels_of(scheme.options), *task.channels)}
    for one in (*embeds, *positions, backbone, *heads, *objectives):
        for name in one.cls.wants_channels(one.options):
            if name not in given and not one.cls.provides("producers"):
                what = GIVERS.get(name, "choose others")
                yield f"{one} reads the channel {name!r}, which neither {scheme} nor {of_task} gives: {what}"


def _several(kind: str, blocks: Mapping[str, Any], word: str = "") -> list[Named]:
    return [Named(kind, key, block, word) for key, block in sorted(blocks.items())]


def _reading(task: Task, of_task: Named, scheme: Named, backbone: Named) -> Iterator[str]:
    if task.reads != scheme.cls.reads:
        fits = "scheme rows" if task.reads == "rows" else "scheme subword, or a task of rows such as transactions"
        yield f"{of_task} reads {task.reads}, and {scheme} {scheme.cls.reads}: choose {fits}"
    if backbone.cls.reads == "rows" and scheme.cls.reads != "rows":
        yield f"{backbone} reads rows of cells, and {scheme} text: choose scheme rows, or backbone encoder"
    if task.kind == "language_model" and not backbone.cls.writes:
        yield f"{of_task} writes, and {backbone} sees whole texts: choose backbone decoder or encoder_decoder"
    if task.sources and not backbone.cls.encodes:
        yield f"{of_task} has a source for an encoder, and {backbone} has none: choose backbone encoder_decoder"
    if backbone.cls.encodes and not task.sources:
        yield (
            f"{backbone} reads a source, which {of_task} has not: choose backbone decoder, or what gives one "
            "(task equation_extraction with encoder=True, or word_problem)"
        )


def _needs(config: Any, task: Task, of_task: Named) -> Iterator[str]:
    for kind in ("heads", "objectives"):
        named = {str(block["name"]) for block in config[kind].values()} | set(config[kind])
        if lacking := [name for name in task.needs.get(kind, ()) if name not in named]:
            yield f"{of_task} needs {kind} {', '.join(lacking)} in the config"


def _heads(task: Task, of_task: Named, heads: list[Named]) -> Iterator[str]:
    if not heads:
        yield "the config names no heads: set task=… or config.heads"
        return
    writers = [one for one in heads if one.cls.provides("step_scores")]
    if len(writers) > 1:
        yield f"{' and '.join(map(str, writers))} each give the next token, and one writes: keep one"
    speaking = [one for one in heads if one.cls.provides("log_probs") or one.cls.provides("best")]
    if len(speaking) > 1:
        yield f"{' and '.join(map(str, speaking))} each predict a row, and a task reads one: keep one of them"
    for one in heads:
        only = one.cls.only_form(one.options)
        if only and (task.answer != only or not task.sources):
            yield (
                f"{one} writes a {only} alone, and {of_task} has more to write: set task.answer={only} and "
                "task.encoder=True, or text=True of the head"
            )
    if not any(one.cls.answers == task.kind for one in heads):
        shown = " and ".join(map(str, heads))
        yield f"{of_task} wants an answer that {shown} does not give: choose a head {ANSWERS[task.kind]}"


def _embeds(embeds: list[Named]) -> Iterator[str]:
    tokens = [one for one in embeds if one.cls.kind == "token"]
    if len(tokens) != 1:
        shown = " and ".join(map(str, tokens)) or "the config has none"
        yield f"a model reads tokens by one embedding: {shown}; keep or add one of kind token"


def _numbers(task: Task, of_task: Named, scheme: Named, embeds: list[Named], heads: list[Named]) -> Iterator[str]:
    if task.kind != "language_model":
        return
    slot = scheme.cls.numbers == "slot"
    for head in (one for one in heads if one.cls.provides("step_scores")):
        if head.cls.numbers and not slot:
            yield f"{head} writes numbers as [NUM], and {scheme} spells them: choose scheme replace, or head token"
        if slot and not head.cls.numbers:
            yield (
                f"{scheme} writes a number as [NUM], and {head} does not say which: choose head mixture, or "
                "scheme subword"
            )
        if task.metric.lstrip("-") == "perplexity" and head.cls.densities:
            yield f"{of_task} chooses its best step by perplexity, and {head} has densities: choose head token"
        for one in embeds:
            if one.cls.kind == "numeral" and not head.cls.numbers:
                yield (
                    f"{one} reads the numbers of what is written, and {head} spells them: choose scheme replace with "
                    f"head mixture, or take the embedding out (~embeds.{one.key})"
                )


def _objectives(
    task: Task, of_task: Named, scheme: Named, heads: list[Named], objectives: list[Named]
) -> Iterator[str]:
    if not objectives:
        yield "the config names no objectives"
    by_key = {one.key: one for one in heads}
    for one in objectives:
        kinds = one.cls.kinds_of(one.options)
        if kinds and task.kind not in kinds:
            yield f"{one} is of tasks of kind {' or '.join(kinds)}, and {of_task} is of kind {task.kind}"
        key = one.options.get("head")
        if key is None:
            continue
        if one.cls.reads_digits and not scheme.cls.digit_tokens:
            yield f"{one} reads digits that are tokens of their own, which {scheme} has not: choose scheme digits"
        if key not in by_key:
            yield f"{one} reads head {key!r}; the config has {', '.join(by_key) or 'none'}"
            continue
        wanted = ("log_prob", *one.cls.methods_of(one.options))
        if lacking := [method for method in wanted if not by_key[key].cls.provides(method)]:
            yield f"{one} wants {', '.join(lacking)} of its head, and {by_key[key]} has none: choose another"
