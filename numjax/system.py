"""Builds the parts of a run from its config, those of the host and those of the device."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import jax
import numpy as np
from flax.core import FrozenDict
from jax.sharding import Mesh

from numjax.build import build, find
from numjax.config import fit, origin
from numjax.errors import DataError, UsageError
from numjax.expr.tree import Tree
from numjax.model import AS_WIDE, FUSION, Model
from numjax.nn.ramp import Ramp
from numjax.numeral import exact
from numjax.pipeline import features, source
from numjax.pipeline.loader import Encoded, Loader
from numjax.pretrained import installed
from numjax.protocols import Scheme, Task
from numjax.runtime import processes
from numjax.runtime.waiting import Wait
from numjax.text import document as documents
from numjax.text import vocab as vocabularies
from numjax.types import PART, Abilities, Channel, Document, Features, Formula, NumberRange, Numeral

VOCABULARY = "vocabulary"


class System(NamedTuple):
    """The parts of a run, built from its config.

    Attributes:
      config: the config.
      task, scheme: the parts of the host.
      model, objectives, weights: the parts of the device; objectives and their weights by name.
      host_features: the function that computes the embeddings' features on the host; None if no embedding has any.
    """

    config: Any
    task: Task
    scheme: Scheme
    model: Model
    objectives: Mapping[str, Any]
    weights: Mapping[str, Any]
    host_features: Callable[[Numeral, Any], dict[str, np.ndarray]] | None

    @property
    def channels(self) -> dict[str, Channel]:
        """The channels of its rows, by name."""
        return features.list_channels(self.scheme, self.task, self.model.producers())

    def find_abilities(self) -> Abilities:
        """What scheme, embeddings, positions and heads together can do with numbers."""
        abilities = self.scheme.abilities()
        writers = [head for head in self.model.heads.values() if head.provides("step_scores")]
        embeds = [embed for embed in self.model.embeds.values() if embed.kind == "numeral"]
        reads, writes, is_exact = abilities.reads, abilities.writes, abilities.exact
        if reads is not None and self.scheme.hides_digits:
            at_slot = NumberRange(digits=self.config.data.digits)
            for embed in embeds:
                at_slot = embed.number_range.intersect(at_slot) if embed.number_range else at_slot
            reads = self.scheme.widen(at_slot).intersect(reads) if embeds else None
        if self.scheme.numbers == "slot" and writers:
            in_slot, is_exact = writers[0].number_range, writers[0].exact
            writes = self.scheme.widen(in_slot) if in_slot else None
        parsers = [part for part in self.model.backbone.positions.values() if part.needs_parse]
        return abilities._replace(
            reads=reads, writes=writes if writers else None, exact=is_exact, needs_parse=bool(parsers)
        )

    def name_unread(self, surfaces: Sequence[str], numerals: Numeral) -> str:
        """A line about the numbers that the model does not read whole; "" if it does, or its scheme does not say.

        Args:
          surfaces: as they are written. numerals: their values, on the host; those that are not valid do not count.
        """
        reads = self.find_abilities().reads if self.scheme.provides("abilities") else NumberRange()
        inside = exact.is_inside(numerals, reads) if reads else ~numerals.valid
        unread = np.flatnonzero(~inside)
        if not len(unread):
            return ""
        names = ", ".join(surfaces[int(i)].removeprefix(PART) for i in unread[:3])
        what = reads.describe() if reads else "no numbers"
        return (
            f"{len(unread):,} of {int(numerals.valid.sum()):,} different numbers are not read whole, such as "
            f"{names}: this system reads {what}"
        )

    def represents(self, value: Decimal) -> bool:
        """Whether a perfect model would write exactly this number."""
        try:
            is_kept = self.scheme.nearest(value) == value
        except DataError:
            return False
        writers = [head for head in self.model.heads.values() if head.provides("step_scores")]
        if not self.scheme.whole_numbers:
            return is_kept and any(self.scheme.widen(head.number_range).holds(value) for head in writers)
        return is_kept and any(head.represents(value) for head in writers)

    def encode(self, document: Document, source: Features | None = None) -> Features:
        """A document as the model's input; `source`: the encoder's input."""
        return features.add_produced_channels(self.scheme.encode(document, source=source), self.model.producers())

    def encode_source(self, document: Document) -> Features:
        """A document as the encoder's input."""
        return features.encode_source(document, self.scheme, self.model.producers())

    def encode_split(
        self, records: Sequence[Mapping[str, Any]], split: str, strict: bool = False, limit: int = 0
    ) -> Encoded:
        """A split's records as rows, see `pipeline.features.encode`."""
        arguments: Any = self.task, self.scheme, records, self.config.data, split, strict, limit
        return features.encode(*arguments, producers=self.model.producers())

    def leave_room(self, encoded: Encoded, split: str, strict: bool = False) -> Encoded:
        """The rows behind whose prompts there is room for an answer; the others are listed as skipped.

        Raises:
          DataError: under `strict`, a prompt that leaves no room.
        """
        if not self.task.generates or self.model.encodes:
            return encoded
        prompts, max_tokens = encoded.columns.loss_from, self.config.decode.max_tokens
        context = self.model.backbone.max_length
        reasons = {
            int(i): f"its prompt of {prompts[i]} positions and decode.max_tokens={max_tokens} do not fit "
            f"backbone.max_length={context}"
            for i in np.flatnonzero(prompts + max_tokens > context)
        }
        if not reasons:
            return encoded
        if strict:
            first = min(reasons)
            raise DataError(f"record {encoded.example(first).id} of {split}: {reasons[first]}")
        return encoded.leave_out(reasons, split)


def assemble(
    config: Any,
    workdir: pathlib.Path,
    records: Callable[[], Any] | None = None,
    *,
    vocabulary: Any = None,
    platform: str | None = None,
) -> System:
    """Builds every part that the config names.

    Args:
      config: see `recipe.BASE`.
      workdir: holds the vocabulary. Process 0 trains it on the train split at first use.
      records: the task's training records, if they are loaded already.
      vocabulary: a vocabulary to use instead.
      platform: the platform that the steps will be compiled for; by default JAX's default backend.

    Raises:
      UsageError: parts do not fit together.
    """
    task = build("tasks", config.task)
    fit.check(config, task)
    scheme = make_scheme(config, workdir, task, records, vocabulary)
    model = make_model(config, task, scheme, platform or jax.default_backend())
    objectives, weights = make_objectives(config, model, scheme)
    return System(config, task, scheme, model, objectives, weights, _host_features(model))


def make_scheme(
    config: Any, workdir: pathlib.Path, task: Task, records: Callable[[], Any] | None, vocabulary: Any = None
) -> Scheme:
    """The scheme with the workdir's vocabulary, which is inherited (`init_from`), loaded or trained. Its grammar
    allows only answers of the task's form.

    Raises:
      UsageError: the run to inherit from has another scheme, or the scheme cannot enforce the form.
    """
    if vocabulary is None:
        vocabulary = _make_vocabulary(config, workdir, task, records)
    scheme = build("text", {k: v for k, v in config.scheme.items() if k != "vocab"}, vocab=vocabulary)
    return scheme.answering(task.answer)


def _make_vocabulary(config, workdir, task, records):
    folder = workdir / VOCABULARY
    block = config.scheme.vocab.to_dict()
    if "path" in block:
        block["path"] = installed.resolve_path(block["path"])
    if jax.process_index() == 0 and not (folder / vocabularies.FILE).exists():
        source_run = origin.home(pathlib.Path(installed.resolve_path(config.init_from)))
        inherits = bool(config.init_from) and (source_run / VOCABULARY / vocabularies.FILE).exists()
        if inherits:
            origin.check_scheme(config, source_run)  # before records are read, which may take hours
        load = records or (lambda: source.load(task.dataset, task.fitted_on, config.data.dir))
        marks = _marks(config, task, load)
        if inherits:
            vocabulary = vocabularies.load(str(source_run / VOCABULARY))
            # A vocabulary that has the scheme's marks keeps its own symbols.
            has_marks = set(find("text", config.scheme.name).marks) <= set(vocabulary.marks)
            vocabulary = vocabulary if has_marks else vocabulary.with_marks(marks)
        else:
            texts = None
            if block["name"] in vocabularies.TRAINED and not block.get("path"):
                texts = task.texts(load())
            with Wait("making the vocabulary, once for a workdir"):
                vocabulary = vocabularies.build(block, texts, marks)
        vocabulary.save(str(folder))
    processes.barrier("vocabulary")
    return vocabularies.load(str(folder))


def _marks(config, task, load) -> tuple[str, ...]:
    """The scheme's marks; if they depend on formulas, on those of the train split."""
    return find("text", config.scheme.name).marks_of(config.scheme.get("symbols") or {}, trees(task, load))


def trees(task: Task, load: Callable[[], Iterable[Mapping[str, Any]]]) -> Iterator[Tree]:
    """Yields the operator trees of a task's records. The first one loads the records; bad records are left out, since
    `encode` lists them."""
    for number, record in enumerate(load()):
        try:
            example = task.example({"id": str(number), **record}, documents.parse)
        except ValueError:
            continue
        segments = (*(example.source or ()), *example.document)
        yield from (s.tree for s in segments if isinstance(s, Formula) and s.tree is not None)


def make_model(config: Any, task: Task, scheme: Scheme, platform: str) -> Model:
    """The model of the config's blocks for the scheme's vocabulary."""
    dtype = config.backbone.get("dtype", "float32")
    if dtype == "auto":
        dtype = "float32" if platform == "cpu" else "bfloat16"
    if config.backbone.get("attention") == "cudnn" and platform != "gpu":
        raise UsageError(f"backbone.attention=cudnn is of NVIDIA GPUs, and this device is a {platform}: set auto")
    numbers = number_symbols(scheme.vocab) | {"num_id": scheme.vocab.mark("[NUM]")}
    aggregation = scheme.aggregation()
    numbers |= {name: aggregation[name] for name in ("written_places",) if name in aggregation}
    backbone = make_backbone(dict(config.backbone) | {"dtype": dtype}, config.positions, **numbers)
    context = numbers | {
        "vocab_size": scheme.vocab_size,
        "size": scheme.vocab.size,
        "base": scheme.vocab.base,
        "digits": config.data.digits,
        "width": backbone.width,
        "dim": backbone.width,
        "dtype": dtype,
        "num_classes": task.num_classes,
    }
    if symbol_pieces := scheme.symbol_pieces():
        first, pieces = symbol_pieces
        context |= {"symbols": (first, pieces), "symbol_range": (first, len(pieces)), "types": scheme.token_types}
    context |= aggregation
    embeds, fusions = {}, {}
    for name, block in sorted(config.embeds.items()):
        options = {k: v for k, v in block.items() if k != "fusion"}
        if find("embed", block.name).kind != "numeral":
            embeds[name] = build("embed", options, **context)
            continue
        fusions[name] = block.get("fusion", FUSION)
        embeds[name] = build("embed", options, **context | ({} if fusions[name] in AS_WIDE else {"dim": None}))
    heads = {name: build("heads", block, **context) for name, block in sorted(config.heads.items())}
    # Frozen, so that the model can be a static argument of jitted functions.
    return Model(FrozenDict(embeds), FrozenDict(fusions), backbone, FrozenDict(heads))


def number_symbols(vocab: Any) -> dict[str, tuple[Any, ...]]:
    """The tokens that are digits and numbers by themselves, or stand beside them: fields of `Context`."""
    values, digits = vocab.number_values, vocab.digit_values
    return {
        "number_symbols": tuple((token, float(values[token])) for token in vocab.number_ids),
        "digit_symbols": tuple((token, int(digits[token])) for token in vocab.number_ids if digits[token] >= 0),
        "marks": tuple((name, vocab.mark(name)) for name in vocab.marks),
        "point_ids": vocab.point_ids,
    }


def make_backbone(block: Mapping[str, Any], positions: Mapping[str, Any], **context: Any) -> Any:
    """The backbone with the positions of its stacks; `context`: fields of `Context` for the positions."""
    parts = {
        name: build("positions", position_block, **context) for name, position_block in sorted(positions.items())
    }
    return build("backbone", block, positions=FrozenDict(parts))


def make_objectives(config: Any, model: Model, scheme: Scheme) -> tuple[dict[str, Any], dict[str, Any]]:
    """(objectives by name, their weights by name); a weight is a number or a `Ramp`."""
    context = {"grammar": scheme.grammar(), "num_id": scheme.vocab.mark("[NUM]")}
    context |= scheme.aggregation() | number_symbols(scheme.vocab)
    objectives, weights = {}, {}
    for name, block in sorted(config.objectives.items()):
        options = {k: v for k, v in block.items() if k != "weight"}
        objectives[name] = build("objectives", options, **context)
        if objectives[name].whole_batch and config.optim.accumulate > 1:
            raise UsageError(f"objective {name!r} needs whole batches: set optim.accumulate=1, or within='row'")
        weights[name] = _weight(block.get("weight", 1.0))
    return objectives, weights


def make_loader(system: System, encoded: Encoded, mesh: Mesh, seed: int = 0, few_shapes: bool = False) -> Loader:
    """The loader of a split's batches, in the order of `seed`. This process loads the rows of its own devices.
    `few_shapes`: see `Loader`."""
    options: Any = dict(seed=seed, host_features=system.host_features, few_shapes=few_shapes)
    return Loader(encoded, system.config, process=processes.row_shards(mesh), **options)


def _weight(weight: Any) -> Any:
    """A number; or a `Ramp` from a block of `start`, `end` and `steps`."""
    if isinstance(weight, int | float):
        return float(weight)
    return Ramp(float(weight["start"]), float(weight["end"]), int(weight["steps"]))


def _host_features(model: Model):
    embeds = {name: embed for name, embed in model.embeds.items() if embed.provides("host_features")}
    if not embeds:
        return None

    def features(numerals: Numeral, surfaces) -> dict[str, np.ndarray]:
        return {
            f"{name}/{key}": value
            for name, embed in embeds.items()
            for key, value in embed.host_features(numerals, surfaces).items()
        }

    return features
