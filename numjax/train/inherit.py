"""Starts a run from another run's parameters (`init_from`), matched by path; new vocabulary rows get the mean row."""

from __future__ import annotations

import contextlib
import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from absl import logging
from flax.errors import ScopeParamNotFoundError, ScopeParamShapeError

from numjax.build import build, is_own_module
from numjax.config.origin import check_scheme, home, load_config
from numjax.errors import UsageError
from numjax.model import Model
from numjax.pretrained import bert, gpt2, seq2seq, weights
from numjax.runtime import log, shard
from numjax.system import VOCABULARY, System
from numjax.text import vocab as vocabularies
from numjax.train import optim
from numjax.train.checkpoint import Checkpoints, is_stacked, split_layers, stack_layers
from numjax.train.compile import Compiled
from numjax.types import TrainState

# Backbone → the module that reads the safetensors that it can start from.
PRETRAINED: dict[str, Any] = {"decoder": gpt2, "encoder": bert, "encoder_decoder": seq2seq}


@contextlib.contextmanager
def refuse_other_config(name: Any) -> Iterator[None]:
    """Turns the errors of a model whose parameters have other names or shapes into a UsageError of one line.

    Args:
      name: of the run, for the message.
    """
    try:
        yield
    except (ScopeParamShapeError, ScopeParamNotFoundError) as error:
        reason = str(error).partition(" (https")[0]
        raise UsageError(f"{name}: its checkpoint is not of its config: {reason}: restore both") from None


def load_pretrained(system: System, compiled: Compiled, state: TrainState, source: pathlib.Path) -> TrainState:
    """The state with every parameter of `source` that has the same path.

    Vocabulary rows are matched by token: the base ids keep their rows, marks are matched by name (T5's and BART's by
    their use there, see their `MARKS`), and rows that the source lacks start at the mean row. Shorter position tables
    fill the first rows. The loaded, fresh and skipped parameters are logged.

    Args:
      source: a numjax workdir or one of its seeds, or safetensors (the file, or a folder with it or its shards): of
        GPT-2 for a decoder, of BERT or RoBERTa for an encoder, of T5 or BART for an encoder–decoder.

    Raises:
      UsageError: there is no readable checkpoint, its shapes do not fit, or its run encoded records in another way.
    """
    everywhere = shard.replicated(compiled.mesh)
    own_params = split_layers(state.params) if is_stacked(state.params) else state.params
    if weights.has_weights(source):
        family = PRETRAINED.get(system.config.backbone.name)
        if family is None:
            raise UsageError(
                f"init_from {source}: pretrained weights can be loaded only for backbone {', '.join(PRETRAINED)}"
            )
        weights.check_layers(source, system.model.backbone)
        source_params, step = family.read_params(source, system.model.backbone.heads), 0  # type: ignore[attr-defined]
        weights.check_function(source, system.model.backbone, *family.find_function(source_params))
        marks, spare = family.map_marks(source_params), family.limit_spare_rows(source_params)
        rows = _base_rows(system, len(source_params["embeds_token"]["table"]), source, marks, spare)
        source_params = jax.tree.map(lambda x: shard.distribute(x, everywhere), source_params)
    else:
        run = home(source)
        for difference in check_scheme(system.config, run):
            log.say(f"init_from {source}: {difference}")
        _report_splits(system, run)
        source_params, step = read_params(source, lambda shapes: jax.tree.map(lambda _: everywhere, shapes))
        rows = _vocabulary_rows(system, run)
    flat = {shard.path_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(source_params)}
    by_token = _token_row_params(system.model)
    loaded, fresh = [], []

    def take_or_keep(path, leaf):
        name = shard.path_name(path)
        source_leaf = flat.pop(name, None)
        if source_leaf is None:
            fresh.append(name)
            return leaf
        loaded.append(name)
        return jax.jit(functools.partial(_fit, name, rows=rows if name in by_token else None))(source_leaf, leaf)

    params = jax.tree_util.tree_map_with_path(take_or_keep, own_params)
    for what, paths in (("loaded", loaded), ("fresh", fresh), ("skipped", sorted(flat))):
        logging.info("init_from %s: %s %d: %s", source, what, len(paths), ", ".join(paths))
    if not loaded:
        raise UsageError(f"init_from {source}: not one parameter has the same path as in this config")
    log.say(f"init_from {source} (step {step}): {len(loaded)} loaded, {len(fresh)} fresh, {len(flat)} skipped")
    _report_parts(source, own_params, fresh, flat, system.config.optim.get("rates", ()))
    if is_stacked(state.params):
        params = stack_layers(params)
    layout = jax.tree.map(lambda s: s.sharding, compiled.abstract_state.params)
    params = jax.device_put(params, layout)
    ema = jax.tree.map(jnp.copy, params) if state.ema is not None else None
    return state._replace(params=params, ema=ema)


def _report_parts(
    source: pathlib.Path, params: Any, fresh: list[str], skipped: Mapping[str, Any], rates: Any
) -> None:
    """Reports differences between the two models: frozen parameters that stay random, and unused parameters."""
    factors = jax.tree_util.tree_leaves_with_path(optim.rate_factors(params, rates))
    frozen = {shard.path_name(path) for path, factor in factors if factor == 0}
    if random := [name for name in fresh if name in frozen]:
        log.say(
            f"init_from {source}: {len(random)} parameters that never change here (optim.rates) are not there and "
            f"stay random, the first is {random[0]}: start from a run with the same embeddings"
        )
    if unused := [name for name in sorted(skipped) if not name.startswith("heads_")]:
        log.say(f"init_from {source}: {len(unused)} of its parameters have no place here, the first is {unused[0]}")


def _report_splits(system: System, source: pathlib.Path) -> None:
    """Reports if the source run split the same data in another way: it may have trained on this run's test split."""
    with contextlib.suppress(UsageError, KeyError):
        block = load_config(source)["task"]
        # A module that only the other run's config names could be anyone's: it is not run to compare splits.
        if not is_own_module("tasks", block["name"]) and block["name"] != system.config.task.name:
            return
        own_dataset, source_dataset = system.task.dataset, build("tasks", block).dataset
        names = sorted(
            name
            for name in own_dataset.keys() | source_dataset.keys()
            if own_dataset.get(name) != source_dataset.get(name)
        )
        # With other data there is nothing to report.
        if names and not {"name", "path", "form", "variant"} & set(names):
            differences = ", ".join(
                f"{name}={source_dataset.get(name)!r} there and {own_dataset.get(name)!r} here" for name in names
            )
            log.say(f"init_from {source}: {differences}: its training may have read this run's test split")


def read_params(workdir: pathlib.Path, layout: Callable[[Any], Any] | None = None) -> tuple[Any, int]:
    """(parameters in their form on disk, step) of a workdir's best checkpoint, else of its newest.

    Args:
      layout: shapes → a sharding for each; by default all arrays go to this process's first device.

    Raises:
      UsageError: the workdir has no readable checkpoint.
    """
    for name in ("best", "checkpoints"):
        if (workdir / name).is_dir():
            checkpoints = Checkpoints(workdir / name, read_only=True)
            try:
                restored = checkpoints.restore_params(layout)
            finally:
                checkpoints.close()
            if restored is not None:
                return restored
    seeds = "".join(f", such as {seed}" for seed in sorted(workdir.glob("seed_*"))[:1])
    raise UsageError(f"{workdir} holds no checkpoint that can be read: give the --workdir of a finished run{seeds}")


def _vocabulary_rows(system: System, source: pathlib.Path) -> list[int] | None:
    """For each id of this run, the source's row (−1: none); None if the source has no vocabulary."""
    folder = source / VOCABULARY
    if not (folder / vocabularies.FILE).exists():
        return None
    source_vocab, vocab = vocabularies.load(str(folder)), system.scheme.vocab
    if source_vocab.pieces != vocab.pieces:  # type: ignore[attr-defined]
        raise UsageError(f"init_from {source}: its vocabulary differs from the workdir's: start with a new --workdir")
    names = [vocab.mark_name(token) for token in range(source_vocab.base, vocab.size)]  # type: ignore[attr-defined]
    rows = [*range(source_vocab.base), *(source_vocab.mark(m) if m in source_vocab.marks else -1 for m in names)]
    return rows + [-1] * (system.scheme.vocab_size - len(rows))


def _base_rows(system: System, size: int, source: pathlib.Path, marks: Mapping[str, int], spare: int) -> list[int]:
    """For each id of this run, the pretrained model's row: the same row for text, that of `marks` for a mark, −1 for
    all other ids after the text.

    A mark that has a symbol there takes the row of the symbol's use: [CLS] is <s>, and BART's decoder starts with
    </s>. T5 has more rows than its vocabulary has pieces, and this run's vocabulary has bytes for text that T5 cannot
    spell: these rows and bytes have no counterpart.

    Args:
      size: the model's rows; spare: how many of them may have no piece.

    Raises:
      UsageError: the vocabulary is not the model's: its size differs, or text has the id of the model's end mark.
    """
    vocab: Any = system.scheme.vocab
    n_known, end = vocab.known, marks.get("[EOS]")
    reason = "" if 0 <= size - n_known <= spare else f"its vocabulary has {size} tokens and ours {n_known}"
    if not reason and end is not None and (text := vocab.bytes_of(end)):
        reason = f"its token {end} ends a text and ours is {text.decode(errors='replace')!r}"
    if reason:
        raise UsageError(
            f"init_from {source}: {reason}: set config.scheme.vocab to "
            "dict(name='gpt2', path=FOLDER) of the same model, 'wordpiece' for BERT, or dict(name='sentencepiece', "
            "path=FILE) for T5"
        )
    mark_rows = {vocab.mark(name): row for name, row in marks.items() if name in vocab.marks}
    return [mark_rows.get(token, token if token < n_known else -1) for token in range(system.scheme.vocab_size)]


def _token_row_params(model: Model) -> set[str]:
    """Paths of the parameters with one row per token: the tables of token embeddings, and the kernel and bias of
    heads over the vocabulary. Other modules may have parameters of these names with other rows."""
    embeds: Mapping[str, Any] = model.embeds
    tables = {f"embeds_{name}/table" for name, embed in embeds.items() if embed.kind == "token"}
    heads = [name for name, head in model.heads.items() if head.by_token]
    return tables | {f"heads_{name}/{part}" for name in heads for part in ("kernel", "bias")}


def _fit(name: str, source_leaf: jax.Array, leaf: jax.Array, *, rows: list[int] | None) -> jax.Array:
    is_longer = rows is not None or name.endswith("/places")  # the number of rows may differ
    if source_leaf.ndim != leaf.ndim or source_leaf.shape[is_longer:] != leaf.shape[is_longer:]:
        raise UsageError(
            f"init_from: {name} is {source_leaf.shape} there and {leaf.shape} here: use the same sizes of "
            "config.backbone"
        )
    if rows is not None:
        index = jnp.asarray(rows)
        mean = source_leaf[: sum(r >= 0 for r in rows)].mean(axis=0)
        has_row = (index >= 0).reshape(-1, *(1,) * (source_leaf.ndim - 1))
        return jnp.where(has_row, source_leaf[jnp.maximum(index, 0)], mean).astype(leaf.dtype)
    if is_longer:
        count = min(source_leaf.shape[0], leaf.shape[0])
        return leaf.at[:count].set(source_leaf[:count])
    return source_leaf.astype(leaf.dtype)
