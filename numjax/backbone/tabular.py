"""TabBERT (Padhi et al. 2021): an encoder over the cells of each row of a table, then one over the rows.

Legend: B rows of a batch, T = R·C positions, R rows of a table, C its columns, D width of a cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.core import FrozenDict

from numjax import protocols
from numjax.backbone import encoder
from numjax.backbone.block import Block, Shared
from numjax.errors import UsageError
from numjax.nn.dense import project
from numjax.protocols import FromContext
from numjax.types import Tokens


class Backbone(protocols.Backbone, nn.Module):
    """Cells attend to the cells of their row, without positions. The cells of a row, side by side, pass a linear
    layer and become one vector of C·D. Rows attend to each other like BERT's positions, and the output is split into
    cells.

    Attributes:
      width: D. columns: C; each text consists of whole rows of so many positions.
      layers, heads, mlp_ratio, max_length, types, dropout, scan, remat, attention, dtype, norm_epsilon, init_std,
        positions: of the encoder over rows, as in `encoder.Backbone`; its width is C·D, and max_length counts cells.
      field_layers, field_heads, field_mlp_width: of the encoder over cells, whose MLPs use ReLU.
    """

    width: int = 64
    columns: int = 12
    layers: int = 12
    heads: int = 12
    mlp_ratio: float = 4
    max_length: int = 120
    types: Sequence[int] = (2,)
    dropout: float = 0.0
    scan: bool = False
    remat: str = "none"
    attention: str = "auto"
    dtype: str = "float32"
    norm_epsilon: float = 1e-12
    init_std: float = 0.02
    field_layers: int = 1
    field_heads: int = 8
    field_mlp_width: int = 64
    field_epsilon: float = 1e-5
    positions: FromContext[Mapping[str, Any]] = FrozenDict()
    reads = "rows"
    by_position = False

    @nn.compact
    def __call__(
        self, x_BTD: jax.Array, tokens: Tokens, *, cache: Any = None, deterministic: bool = True
    ) -> tuple[jax.Array, dict[str, Any], None]:
        """(hidden states of cells; by name "fields" of the encoder over cells, "rows" [B, R, C·D], and the outputs of
        the encoder over rows; no cache)."""
        rows, length, columns = *x_BTD.shape[:2], self.columns
        if length % columns:
            raise UsageError(f"{length} positions are no whole rows of backbone.columns={columns}: see data.length")
        if self.width % self.field_heads:
            raise UsageError(f"backbone.width={self.width} does not divide over field_heads={self.field_heads}")
        count, row_width = length // columns, columns * self.width
        acts: dict[str, Any] = {}
        x = x_BTD.astype(self.dtype).reshape(rows * count, columns, self.width)
        segments = tokens.segment_ids.reshape(rows * count, columns)
        fields = encoder.Backbone(
            width=self.width,
            layers=self.field_layers,
            heads=self.field_heads,
            mlp_width=self.field_mlp_width,
            max_length=columns,
            dropout=self.dropout,
            attention=self.attention,
            dtype=self.dtype,
            norm_epsilon=self.field_epsilon,
            init_std=self.init_std,
            mlp="relu",
            parent=None,
        )
        for layer in range(self.field_layers):
            block = Block(fields.layer_options(causal=False), name=f"fields_{layer}")
            x, _ = block(x, Shared(segments), None, deterministic)
        acts["fields"] = x.reshape(x_BTD.shape)
        kernel = self.param("kernel", nn.initializers.normal(self.init_std), (row_width, row_width), jnp.float32)
        bias = self.param("bias", nn.initializers.zeros, (row_width,), jnp.float32)
        x = project(x.reshape(rows, count, row_width), kernel.astype(x.dtype)) + bias.astype(x.dtype)
        acts["rows"] = x
        stack = encoder.Backbone(
            width=row_width,
            layers=self.layers,
            heads=self.heads,
            mlp_ratio=self.mlp_ratio,
            max_length=max(1, self.max_length // columns),
            types=self.types,
            dropout=self.dropout,
            scan=self.scan,
            remat=self.remat,
            attention=self.attention,
            dtype=self.dtype,
            norm_epsilon=self.norm_epsilon,
            init_std=self.init_std,
            positions={name: part.clone(parent=None, name=None) for name, part in self.positions.items()},
            name="rows",
        )
        h, row_acts, _ = stack(x, _rows_of(tokens, columns), cache=cache, deterministic=deterministic)
        h = h.reshape(x_BTD.shape)
        return h, acts | {name: value for name, value in row_acts.items() if name != "final"} | {"final": h}, None


def _rows_of(tokens: Tokens, columns: int) -> Tokens:
    """Tokens with one position per row of the table: that of its first cell."""

    def first(x):
        return x.reshape(x.shape[0], -1, columns)[..., 0]

    return Tokens(first(tokens.ids), first(tokens.positions) // columns, first(tokens.segment_ids))
