"""The layers' outputs and the attention weights of an encoder for one record."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from numjax.errors import UsageError
from numjax.geometry import attention
from numjax.runtime import processes, shard
from numjax.types import TYPES

if TYPE_CHECKING:
    from numjax.api import Loaded


class Activations(NamedTuple):
    """One row of an encoder, T positions.

    Attributes:
      tokens: marks by name, pieces as text, [NUM] as its number: "⟨2,082⟩".
      types: int32[T], 0 up to the first [SEP] where the scheme has types (without the units of TagOp).
      numbers: int32[T] into `surfaces`, −1 for positions of no number.
      surfaces: the numbers as written.
      layers: float32[L + 1, T, D], the embedding and the output of each layer.
    """

    tokens: list[str]
    types: np.ndarray
    numbers: np.ndarray
    surfaces: tuple[str, ...]
    layers: np.ndarray


def read_activations(model: Loaded, record: Mapping[str, Any] | str) -> Activations:
    """The output of every layer for a record; for a text that is cut into windows, for the first window.

    Args:
      record: a record of the task; a text means {"text": …}.

    Raises:
      DataError: the record cannot be used.
      UsageError: the model is no encoder.
    """
    _check_encoder(model)
    encoded = model.encode([{"text": record} if isinstance(record, str) else record])
    encoded.masking = None  # pre-training would mask positions
    row, vocab = encoded.rows[0], model.system.scheme.vocab
    batch = shard.put(next(model.batches(encoded)), model.mesh)
    with jax.sharding.use_abstract_mesh(model.mesh.abstract_mesh):
        layers = processes.fetch(_layers(model.system.model, model.params, batch))[:, 0, : len(row.ids)]
    tokens = []
    for token, number in zip(row.ids.tolist(), row.numeral_index.tolist(), strict=True):
        mark = vocab.mark_name(token)  # type: ignore[attr-defined]
        name = vocab.decode([token]).strip() if mark is None else mark
        tokens.append(f"⟨{row.surfaces[number]}⟩" if mark == "[NUM]" and number >= 0 else name)
    types = row.channels.get(TYPES.name, np.zeros(len(row.ids), np.int32)).reshape(len(row.ids), -1)[:, 0]
    return Activations(tokens, types, row.numeral_index, row.surfaces, layers.astype(np.float32))


def attention_weights(model: Loaded, record: Mapping[str, Any] | str | Activations, layer: int = -2) -> np.ndarray:
    """Attention weights of an encoder's layer, float64[H, T, T]: how much position t attends to each position.

    Args:
      record: a record of the task, or the result of `read_activations` for it.
      layer: counted from 0, or from the end with −1; the last but one is that of LUNA's Fig. 3.

    Raises:
      UsageError: the model is no encoder, has no such layer, or its attention differs from BERT's.
    """
    _check_encoder(model)
    stack: Any = model.system.model.backbone
    attention_positions = [
        name for name, part in stack.positions.items() if part.provides("angles") or part.provides("bias")
    ]
    changed_options = [name for name in ("qk_norm", "window", "kv_heads") if getattr(stack, name)]
    changed_options += ["norm_place"] if stack.norm_place != "post" else [] if stack.scaled else ["scaled"]
    if attention_positions or changed_options:
        change = f"positions {attention_positions[0]!r}" if attention_positions else f"backbone.{changed_options[0]}"
        raise UsageError(f"attention weights are computed for attention as in BERT, which {change} changes")
    activations = record if isinstance(record, Activations) else read_activations(model, record)
    count = len(activations.layers) - 1
    if not -count <= layer < count:
        raise UsageError(f"layer={layer}: the model has {count}, counted from 0 or backwards from −1")
    params = model.params["backbone"][f"layer_{layer % count}"]
    return attention.weights(activations.layers[layer % count], jax.tree.map(processes.fetch, dict(params)))


def _check_encoder(model: Loaded) -> None:
    if (name := model.system.config.backbone.name) != "encoder":
        raise UsageError(f"backbone {name} is no encoder: load a run of configs/luna.py or dice.py:task=squad")


@functools.partial(jax.jit, static_argnames="model")
def _layers(model, params, batch):
    """The embedding and every layer's output, [L + 1, B, T, D]."""
    _, acts = model.apply({"params": params}, batch)
    return jnp.stack([acts["embedded"], *(acts[f"layer_{i}"] for i in range(model.backbone.layers))])
