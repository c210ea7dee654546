"""The model: fused embeddings, a backbone, heads. Every system is a choice of parts.

An encoder–decoder embeds its source like its text, with the same tables and fusions.

Legend: B rows, T positions, N numerals of a row, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.errors import UsageError
from numjax.nn.dense import project
from numjax.nn.numerals import gather_rows
from numjax.protocols import Producer
from numjax.types import Batch, HeadOut, Numeral, Tokens

FUSIONS = ("concat+linear", "add", "replace")
FUSION = FUSIONS[0]  # the default of a numeral embedding
AS_WIDE = ("add", "replace")  # with these, an embedding is as wide as the model


class Fusion(nn.Module):
    """Joins a numeral embedding to the token embedding. No other code distinguishes numerals from text.

    Attributes:
      how: "concat+linear": E = [TE, NE] W_b (NumGPT eq. 6) with one learned NE for all text and one learned
        TE for all numerals; "add": TE + NE P at numerals; "replace": NE P at numerals, TE elsewhere. P is
        the identity when the widths agree.
      width: D.
    """

    how: str
    width: int
    init_std: float = 0.02

    @nn.compact
    def __call__(self, x_BTD: jax.Array, ne_BND: jax.Array, index_BT: jax.Array) -> jax.Array:
        is_numeral = (index_BT >= 0)[..., None]
        normal = nn.initializers.normal(self.init_std)
        dim = ne_BND.shape[-1]
        if self.how == "concat+linear":
            # [TE, NE] W_b as two products: so a numeral is projected once a row, not once a position,
            # and the shared vectors once a step.
            kernel = self.param("kernel", normal, (self.width + dim, self.width), jnp.float32)
            shared_te = self.param("numeral_token", normal, (self.width,), jnp.float32)
            shared_ne = self.param("text_numeral", normal, (dim,), jnp.float32)
            token_kernel, numeral_kernel = kernel[: self.width], kernel[self.width :]
            text = project(x_BTD, token_kernel) + shared_ne @ numeral_kernel
            numeral = gather_rows(project(ne_BND, numeral_kernel), index_BT) + shared_te @ token_kernel
            return jnp.where(is_numeral, numeral, text)
        if dim != self.width:
            kernel = self.param("kernel", normal, (dim, self.width), jnp.float32)
            ne_BND = project(ne_BND, kernel)
        ne_BTD = gather_rows(ne_BND, index_BT)
        return jnp.where(is_numeral, x_BTD + ne_BTD if self.how == "add" else ne_BTD, x_BTD)


class Model(nn.Module):
    """Embeddings → backbone → heads.

    Attributes:
      embeds: name → module; exactly one of kind "token".
      fusions: name of a numeral embedding → how it joins (see `Fusion`).
      backbone: the stack.
      heads: name → module.
    """

    embeds: Mapping[str, nn.Module]
    fusions: Mapping[str, str]
    backbone: nn.Module
    heads: Mapping[str, nn.Module]

    def setup(self):
        for name, how in self.fusions.items():
            if how not in FUSIONS:
                raise UsageError(f"embed {name!r}: fusion must be one of {', '.join(FUSIONS)}, not {how!r}")
        # Linen names the parameters of these attributes embeds_NAME/…, heads_NAME/….
        self.fuse = {n: Fusion(how, self.backbone.width, self.backbone.init_std) for n, how in self.fusions.items()}

    def __call__(self, batch: Batch, *, deterministic: bool = True) -> tuple[dict[str, HeadOut], dict[str, Any]]:
        """(head name → output, name → intermediate array)."""
        x, extra = self.embed(batch.inputs), {}
        if batch.source is not None:
            if not self.encodes:
                raise UsageError("this backbone reads no source: set backbone.name=encoder_decoder")
            extra["source"] = (self.embed(batch.source), batch.source)
        h, acts, _ = self.backbone(x, batch.inputs, deterministic=deterministic, **extra)
        return self._apply_heads(h, batch.inputs), {"tokens": x, "table": self._table()} | acts

    @property
    def encodes(self) -> bool:
        """Whether the backbone has an encoder, whose input is `Batch.source`."""
        return self.backbone.encodes

    @property
    def writer(self) -> str:
        """Name of the head that predicts the next token, for generation and likelihoods.

        Raises:
          UsageError: no head predicts the next token, or several do.
        """
        writers = [name for name, head in self.heads.items() if head.provides("step_scores")]
        if not writers:
            raise UsageError("this model only classifies: take a run of task=generation or task=text")
        if len(writers) > 1:
            raise UsageError(
                f"heads {' and '.join(writers)} each predict the next token: a model has one such head, keep one"
            )
        return writers[0]

    @property
    def reads_numerals(self) -> bool:
        """Whether it has an embedding of numbers."""
        return bool(self.fusions)

    def parts(self) -> dict[str, Any]:
        """Its parts by the label that error messages use."""
        parts_by_label: dict[str, Any] = {f"embed {name!r}": part for name, part in self.embeds.items()}
        parts_by_label |= {f"positions {name!r}": part for name, part in self.backbone.positions.items()}
        parts_by_label["the backbone"] = self.backbone
        return parts_by_label | {f"head {name!r}": part for name, part in self.heads.items()}

    def producers(self) -> tuple[Producer, ...]:
        """Producers of the channels that its parts read and no scheme gives, each once.

        Raises:
          UsageError: two parts make different channels of the same name.
        """
        producers_by_channel: dict[str, Producer] = {}
        for label, part in self.parts().items():
            for producer in part.producers():
                if producers_by_channel.setdefault(producer.channel.name, producer) != producer:
                    raise UsageError(
                        f"{label} makes another channel {producer.channel.name!r} than a part before it: keep one"
                    )
        return tuple(producers_by_channel.values())

    def remember(self, source: Tokens, cache: Any, tables: Mapping[str, Any] | None = None) -> Any:
        """The cache with a source, encoded once for the decoder; `tables` as in `step`."""
        return self.backbone.remember(self.embed(source, tables), source, cache)

    def tables(self) -> dict[str, Mapping[str, jax.Array]]:
        """Arrays that embeddings compute from their parameters alone, by embedding. A decoder computes them once,
        before its loop."""
        return {name: tables for name, embed in self.embeds.items() if (tables := embed.tables())}

    def embed(self, tokens: Tokens, tables: Mapping[str, Any] | None = None) -> jax.Array:
        """x[B, T, D] before positions: token and type embeddings added, with every numeral embedding fused in."""
        x = None
        for name in self._embeds_of_kind("token"):
            embed_tables = (tables or {}).get(name)
            x = self.embeds[name](tokens) if embed_tables is None else self.embeds[name](tokens, embed_tables)
        if x is None:
            raise UsageError("the model needs one embedding of kind token")
        for name in self._embeds_of_kind("type"):
            x = x + self.embeds[name](tokens)
        for name in self._embeds_of_kind("numeral"):
            if tokens.numerals is None or tokens.numeral_index is None:
                raise UsageError(f"embed {name!r} reads numerals, but the scheme marks none: use scheme replace")
            features = {k.split("/", 1)[1]: v for k, v in tokens.features.items() if k.startswith(f"{name}/")}
            numerals, index = tokens.numerals, tokens.numeral_index
            if tokens.distinct is not None and tokens.distinct_index is not None:
                numerals, index = tokens.distinct, tokens.distinct_index  # each string once a group of rows
            ne_BND = self.embeds[name](numerals, features)
            # Padding slots hold zeros, for which an embedding may return anything: mask the result.
            ne_BND = jnp.where(numerals.valid[..., None], ne_BND, 0)
            x = self.fuse[name](x, ne_BND, index)
        if tokens.vectors is not None and tokens.numeral_index is not None:
            x = jnp.where((tokens.numeral_index >= 0)[..., None], tokens.vectors.astype(x.dtype), x)
        return x

    def embed_numerals(self, numerals: Numeral, features: Mapping[str, jax.Array], name: str) -> jax.Array:
        """NE[B, N, d] of one numeral embedding, before fusion, for geometry and notebooks."""
        return self.embeds[name](numerals, features)

    def embed_part(self, tokens: Tokens, name: str) -> jax.Array:
        """x[B, T, D] of one embedding of tokens or types, before the sum; also for geometry."""
        return self.embeds[name](tokens)

    def added_positions(self, tokens: Tokens) -> jax.Array:
        """The sum that positions add to the input, [B, T, D], for geometry."""
        return self.backbone.added_positions(tokens)

    def step(
        self, tokens: Tokens, cache: Any, tables: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, HeadOut], Any]:
        """(head name → output, the new cache) for further positions after a cache. `tables`: see `Model.tables`."""
        h, _, cache = self.backbone(self.embed(tokens, tables), tokens, cache=cache)
        return self._apply_heads(h, tokens), cache

    def read_heads(self, tokens: Tokens) -> dict[str, HeadOut]:
        """The outputs of the heads for embedded tokens without a stack, for their weights."""
        return self._apply_heads(self.embed(tokens), tokens)

    def _table(self):
        return next((self.embeds[name].table for name in self._embeds_of_kind("token")), None)

    def _apply_heads(self, h, tokens):
        table = self._table()
        return {name: head(h, tokens, table) for name, head in self.heads.items()}

    def _embeds_of_kind(self, kind: str) -> list[str]:
        return [name for name, embed in self.embeds.items() if embed.kind == kind]
