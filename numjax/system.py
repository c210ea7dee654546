"""From a config to the parts of a run: where the host half and the device half meet."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from flax.core import FrozenDict
from jax.sharding import Mesh

from numjax.build import build, find
from numjax.config import fit
from numjax.config.origin import check_scheme
from numjax.errors import UsageError
from numjax.expr.tree import Tree
from numjax.model import AS_WIDE, FUSION, Model
from numjax.pipeline import features, source
from numjax.pipeline.loader import Encoded, Loader
from numjax.pretrained import installed
from numjax.protocols import Scheme, Task
from numjax.runtime import processes
from numjax.text import document as documents
from numjax.text import vocab as vocabularies
from numjax.train.optim import Ramp
from numjax.types import Channel, Document, Features, Formula, Numeral

VOCABULARY = "vocabulary"


class System(NamedTuple):
    """The parts of a run, built from its config.

    Attributes:
      config: as given.
      task, scheme: the host half.
      model, objectives, weights: the device half; objectives and their weights by name.
      host_features: what the embeddings compute on the host, for the pipeline; None when none does.
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
        """What positions have beside ids, by name."""
        return features.declared(self.scheme, self.task, self.model.producers())

    def encode(self, document: Document, source: Features | None = None) -> Features:
        """A document as the model reads it; `source`: what an encoder reads beside it."""
        return features.produced(self.scheme.encode(document, source=source), self.model.producers())

    def encode_split(
        self, records: Sequence[Mapping[str, Any]], split: str, strict: bool = False, limit: int = 0
    ) -> Encoded:
        """A split's records as rows, see `pipeline.features.encode`."""
        known: Any = self.task, self.scheme, records, self.config.data, split, strict, limit
        return features.encode(*known, producers=self.model.producers())


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
      workdir: holds the vocabulary; trained at first use on the train split, by process 0.
      records: the task's training records, when they are loaded already.
      vocabulary: one to use instead.
      platform: what the steps will be compiled for, by default what runs here.

    Raises:
      UsageError: parts that do not go together.
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
    """The scheme around the workdir's vocabulary, which is inherited (`init_from`), loaded or trained; its grammar
    holds answers to the form that the task asks for.

    Raises:
      UsageError: the run that it is inherited from has another scheme; or the scheme has no such form.
    """
    if vocabulary is None:
        vocabulary = _vocabulary(config, workdir, task, records)
    scheme = build("text", {k: v for k, v in config.scheme.items() if k != "vocab"}, vocab=vocabulary)
    return scheme.answering(task.answer)


def _vocabulary(config, workdir, task, records):
    folder = workdir / VOCABULARY
    block = config.scheme.vocab.to_dict()
    if "path" in block:
        block["path"] = installed.located(block["path"])
    if jax.process_index() == 0 and not (folder / vocabularies.FILE).exists():
        start = pathlib.Path(installed.located(config.init_from))
        inherits = bool(config.init_from) and (start / VOCABULARY / vocabularies.FILE).exists()
        if inherits:
            check_scheme(config, start)  # before records are read, which may take hours
        load = records or (lambda: source.load(task.dataset, task.fitted_on, config.data.dir))
        marks = _marks(config, task, load)
        if inherits:
            vocabulary = vocabularies.load(str(start / VOCABULARY))
            # One that has the scheme's marks keeps its own symbols.
            known = set(find("text", config.scheme.name).marks) <= set(vocabulary.marks)
            vocabulary = vocabulary if known else vocabulary.with_marks(marks)
        else:
            texts = None
            if block["name"] in vocabularies.TRAINED and not block.get("path"):
                texts = task.texts(load())
            vocabulary = vocabularies.build(block, texts, marks)
        vocabulary.save(str(folder))
    processes.barrier("vocabulary")
    return vocabularies.load(str(folder))


def _marks(config, task, load) -> tuple[str, ...]:
    """The scheme's marks; where it has them made from formulas, from those of the train split."""
    return find("text", config.scheme.name).marks_of(config.scheme.get("symbols") or {}, trees(task, load))


def trees(task: Task, load: Callable[[], Iterable[Mapping[str, Any]]]) -> Iterator[Tree]:
    """The operator trees of a task's records, which are loaded at the first; records that cannot be read are left
    out, since `encode` names them."""
    for number, record in enumerate(load()):
        try:
            example = task.example({"id": str(number), **record}, documents.parse)
        except ValueError:
            continue
        segments = (*(example.source or ()), *example.document)
        yield from (s.tree for s in segments if isinstance(s, Formula) and s.tree is not None)


def make_model(config: Any, task: Task, scheme: Scheme, platform: str) -> Model:
    """The model that the config's blocks make over the scheme's vocabulary."""
    dtype = config.backbone.get("dtype", "float32")
    if dtype == "auto":
        dtype = "float32" if platform == "cpu" else "bfloat16"
    numbers = number_symbols(scheme.vocab)
    backbone = make_backbone(dict(config.backbone) | {"dtype": dtype}, config.positions, **numbers)
    known = numbers | {
        "vocab_size": scheme.vocab_size,
        "size": scheme.vocab.size,
        "base": scheme.vocab.base,
        "num_id": scheme.vocab.mark("[NUM]"),
        "digits": config.data.digits,
        "width": backbone.width,
        "dim": backbone.width,
        "dtype": dtype,
        "num_classes": task.num_classes,
    }
    if spelled := scheme.symbol_pieces():
        first, pieces = spelled
        known |= {"symbols": (first, pieces), "symbol_range": (first, len(pieces)), "types": scheme.token_types}
    known |= scheme.aggregation()
    embeds, fusions = {}, {}
    for name, block in sorted(config.embeds.items()):
        options = {k: v for k, v in block.items() if k != "fusion"}
        if find("embed", block.name).kind != "numeral":
            embeds[name] = build("embed", options, **known)
            continue
        fusions[name] = block.get("fusion", FUSION)
        embeds[name] = build("embed", options, **known | ({} if fusions[name] in AS_WIDE else {"dim": None}))
    heads = {name: build("heads", block, **known) for name, block in sorted(config.heads.items())}
    # Frozen, so that the model can be a static argument of jitted functions.
    return Model(FrozenDict(embeds), FrozenDict(fusions), backbone, FrozenDict(heads))


def number_symbols(vocab: Any) -> dict[str, tuple[tuple[int, Any], ...]]:
    """Which tokens are digits and numbers by themselves: fields of `Context`."""
    values, digits = vocab.number_values, vocab.digit_values
    return {
        "number_symbols": tuple((token, float(values[token])) for token in vocab.number_ids),
        "digit_symbols": tuple((token, int(digits[token])) for token in vocab.number_ids if digits[token] >= 0),
    }


def make_backbone(block: Mapping[str, Any], positions: Mapping[str, Any], **known: Any) -> Any:
    """The backbone with the positions of its stacks; `known`: fields of `Context` for these."""
    order = {name: build("positions", one, **known) for name, one in sorted(positions.items())}
    return build("backbone", block, positions=FrozenDict(order))


def make_objectives(config: Any, model: Model, scheme: Scheme) -> tuple[dict[str, Any], dict[str, Any]]:
    """(objectives, their weights) by name; a weight is a number or a `Ramp`."""
    known = {"grammar": scheme.grammar()} | scheme.aggregation() | number_symbols(scheme.vocab)
    objectives, weights = {}, {}
    for name, block in sorted(config.objectives.items()):
        options = {k: v for k, v in block.items() if k != "weight"}
        objectives[name] = build("objectives", options, **known)
        if objectives[name].whole_batch and config.optim.accumulate > 1:
            raise UsageError(f"objective {name!r} is of a batch as a whole: set optim.accumulate=1, or within='row'")
        weights[name] = _weight(block.get("weight", 1.0))
    return objectives, weights


def reader(system: System, encoded: Encoded, mesh: Mesh, seed: int = 0) -> Loader:
    """Batches of a split in an order by `seed`; this process reads the rows that its devices in the mesh hold."""
    reads, features = processes.row_shards(mesh), system.host_features
    return Loader(encoded, system.config, seed=seed, host_features=features, process=reads)


def _weight(found: Any) -> Any:
    """A number, or from a block of `start`, `end` and `steps` what changes with the step."""
    if isinstance(found, int | float):
        return float(found)
    return Ramp(float(found["start"]), float(found["end"]), int(found["steps"]))


def _host_features(model: Model):
    wanted = {name: embed for name, embed in model.embeds.items() if embed.provides("host_features")}
    if not wanted:
        return None

    def features(numerals: Numeral, surfaces) -> dict[str, np.ndarray]:
        return {
            f"{name}/{key}": value
            for name, embed in wanted.items()
            for key, value in embed.host_features(numerals, surfaces).items()
        }

    return features
