"""Starting from another run's parameters (`init_from`): by path, with new rows at the mean row."""

from __future__ import annotations

import contextlib
import functools
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from absl import logging

from numjax.build import build
from numjax.config.origin import check_scheme, config_of
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

# Whose safetensors a backbone can start from.
PRETRAINED: dict[str, Any] = {"decoder": gpt2, "encoder": bert, "encoder_decoder": seq2seq}


def load_pretrained(system: System, compiled: Compiled, state: TrainState, source: pathlib.Path) -> TrainState:
    """The state with every parameter that `source` holds under the same path: a numjax workdir, or the safetensors
    of GPT-2, for a decoder, of BERT or RoBERTa, for an encoder, or of T5 or BART, for an encoder–decoder (the file,
    or a folder with `model.safetensors`).

    Vocabulary rows go by token: the base ids keep their rows, marks are matched by name (T5's and BART's by what
    they do there, see their `MARKS`), and rows that the source lacks start at the mean row. Shorter position tables
    fill the first rows. What was loaded, left fresh and skipped is logged.

    Raises:
      UsageError: there is no readable checkpoint, its shapes do not fit, or it read its records otherwise.
    """
    everywhere = shard.replicated(compiled.mesh)
    mine = split_layers(state.params) if is_stacked(state.params) else state.params
    if weights.is_here(source):
        family = PRETRAINED.get(system.config.backbone.name)
        if family is None:
            raise UsageError(f"init_from {source}: weights of others are read for {', '.join(PRETRAINED)} alone")
        theirs, step = family.read(source, system.model.backbone.heads), 0  # type: ignore[attr-defined]
        marks = family.marks(theirs)
        rows = _base_rows(system, len(theirs["embeds_token"]["table"]), source, marks)
        theirs = jax.tree.map(lambda x: shard.place(x, everywhere), theirs)
    else:
        for told in check_scheme(system.config, source):
            log.say(f"init_from {source}: {told}")
        _tell_splits(system, source)
        theirs, step = read_params(source, lambda shapes: jax.tree.map(lambda _: everywhere, shapes))
        rows = _vocabulary_rows(system, source)
    flat = {shard.path_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(theirs)}
    by_token = _by_token(system.model)
    loaded, fresh = [], []

    def take(path, leaf):
        name = shard.path_name(path)
        found = flat.pop(name, None)
        if found is None:
            fresh.append(name)
            return leaf
        loaded.append(name)
        return jax.jit(functools.partial(_fit, name, rows=rows if name in by_token else None))(found, leaf)

    params = jax.tree_util.tree_map_with_path(take, mine)
    for what, paths in (("loaded", loaded), ("fresh", fresh), ("skipped", sorted(flat))):
        logging.info("init_from %s: %s %d: %s", source, what, len(paths), ", ".join(paths))
    if not loaded:
        raise UsageError(f"init_from {source}: not one parameter has the same path as in this config")
    log.say(f"init_from {source} (step {step}): {len(loaded)} loaded, {len(fresh)} fresh, {len(flat)} skipped")
    _tell_parts(source, mine, fresh, flat, system.config.optim.get("rates", ()))
    if is_stacked(state.params):
        params = stack_layers(params)
    layout = jax.tree.map(lambda s: s.sharding, compiled.abstract_state.params)
    params = jax.device_put(params, layout)
    ema = jax.tree.map(jnp.copy, params) if state.ema is not None else None
    return state._replace(params=params, ema=ema)


def _tell_parts(source: pathlib.Path, mine: Any, fresh: list[str], skipped: Mapping[str, Any], rates: Any) -> None:
    """Says where another model was trained there than this: what stays random here, and what of it has no place."""
    factors = jax.tree_util.tree_leaves_with_path(optim.factors(mine, rates))
    stay = {shard.path_name(path) for path, factor in factors if factor == 0}
    if random := [name for name in fresh if name in stay]:
        log.say(
            f"init_from {source}: {len(random)} parameters that never change here (optim.rates) are not there and "
            f"stay random, the first is {random[0]}: start from a run with the same embeddings"
        )
    if other := [name for name in sorted(skipped) if not name.startswith("heads_")]:
        log.say(f"init_from {source}: {len(other)} of its parameters have no place here, the first is {other[0]}")


def _tell_splits(system: System, source: pathlib.Path) -> None:
    """Says where a run had the same data divided otherwise: it may have read what is tested on here."""
    with contextlib.suppress(UsageError, KeyError):
        mine, theirs = system.task.dataset, build("tasks", config_of(source)["task"]).dataset
        names = sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))
        # Of other files there is nothing to say.
        if names and not {"name", "path", "form", "variant"} & set(names):
            told = ", ".join(f"{name}={theirs.get(name)!r} there and {mine.get(name)!r} here" for name in names)
            log.say(f"init_from {source}: {told}: its training may have read this run's test split")


def read_params(workdir: pathlib.Path, layout: Callable[[Any], Any] | None = None) -> tuple[Any, int]:
    """(parameters as they lie on disk, step) of a workdir's best checkpoint, else of its newest.

    Args:
      layout: shapes → a sharding for each; by default all is put on this process's first device.

    Raises:
      UsageError: no checkpoint there can be read.
    """
    for name in ("best", "checkpoints"):
        if (workdir / name).is_dir():
            checkpoints = Checkpoints(workdir / name)
            try:
                found = checkpoints.restore_params(layout)
            finally:
                checkpoints.close()
            if found is not None:
                return found
    seeds = "".join(f", such as {seed}" for seed in sorted(workdir.glob("seed_*"))[:1])
    raise UsageError(f"{workdir} holds no checkpoint that can be read: give the --workdir of a finished run{seeds}")


def _vocabulary_rows(system: System, source: pathlib.Path) -> list[int] | None:
    """For each id of ours the row of theirs (−1: none); None when theirs cannot be read."""
    folder = source / VOCABULARY
    if not (folder / vocabularies.FILE).exists():
        return None
    theirs, mine = vocabularies.load(str(folder)), system.scheme.vocab
    if theirs.pieces != mine.pieces:  # type: ignore[attr-defined]
        raise UsageError(f"init_from {source}: its vocabulary differs from the workdir's: start with a new --workdir")
    behind = [mine.mark_name(token) for token in range(theirs.base, mine.size)]  # type: ignore[attr-defined]
    rows = [*range(theirs.base), *(theirs.mark(m) if m in theirs.marks else -1 for m in behind)]
    return rows + [-1] * (system.scheme.vocab_size - len(rows))


def _base_rows(system: System, size: int, source: pathlib.Path, marks: Mapping[str, int]) -> list[int]:
    """Their row for each id of ours: its own for text, that of `marks` for a mark, none for what else lies behind.

    A mark that is a symbol of theirs takes the row of its use too: [CLS] is <s>, and BART's decoder starts with </s>.
    T5 has more rows than its vocabulary has pieces, and ours spells in bytes what that cannot: neither has the other.
    """
    vocab: Any = system.scheme.vocab
    known = vocab.known
    if known != size and not (marks and known < size):
        raise UsageError(
            f"init_from {source}: its vocabulary has {size} tokens and ours {known}: set config.scheme.vocab to "
            "dict(name='gpt2', path=FOLDER) of the same model, 'wordpiece' for BERT, or dict(name='sentencepiece', "
            "path=FILE) for T5"
        )
    used = {vocab.mark(name): row for name, row in marks.items() if name in vocab.marks}
    return [used.get(token, token if token < known else -1) for token in range(system.scheme.vocab_size)]


def _by_token(model: Model) -> set[str]:
    """Paths of the parameters with a row a token: tables of token embeddings, and of heads over the vocabulary the
    kernel and the bias. Other modules may have parameters of these names, with rows of their own."""
    embeds: Mapping[str, Any] = model.embeds
    tables = {f"embeds_{name}/table" for name, embed in embeds.items() if embed.kind == "token"}
    heads = [name for name, head in model.heads.items() if head.by_token]
    return tables | {f"heads_{name}/{part}" for name in heads for part in ("kernel", "bias")}


def _fit(name: str, found: jax.Array, leaf: jax.Array, *, rows: list[int] | None) -> jax.Array:
    if rows is not None:
        index = jnp.asarray(rows)
        mean = found[: sum(r >= 0 for r in rows)].mean(axis=0)
        known = (index >= 0).reshape(-1, *(1,) * (found.ndim - 1))
        return jnp.where(known, found[jnp.maximum(index, 0)], mean).astype(leaf.dtype)
    if name.endswith("/places") and found.shape[1:] == leaf.shape[1:]:
        short = min(found.shape[0], leaf.shape[0])
        return leaf.at[:short].set(found[:short])
    if found.shape != leaf.shape:
        raise UsageError(
            f"init_from: {name} is {found.shape} there and {leaf.shape} here: use the same sizes of config.backbone"
        )
    return found.astype(leaf.dtype)
