"""Attention weights of a layer, recomputed in float64 from the layer's input and its parameters.

Fused kernels never store these weights. Use this module to look at one text.

Legend: T positions, D width, H heads, E width of a head, Q and K positions of two parts of the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from numjax.errors import UsageError

LOG2_LIMIT = 4.0  # the colour scale ends at 2⁴ times an even share


def weights(x_TD: np.ndarray, layer: Mapping[str, Any], segments_T: np.ndarray | None = None) -> np.ndarray:
    """softmax(QKᵀ/√E) of an encoder layer, float64[H, T, T]: the row of each unpadded position sums to 1.

    Args:
      x_TD: the input of the layer: the embedding, or the output of the previous layer.
      layer: the parameters of the layer, with qkv_kernel [D, 3, H, E] and qkv_bias [3, H, E].
      segments_T: a position attends to its own segment. 0 is padding: it attends to nothing, and nothing attends to
        it. None: one text without padding.

    Raises:
      UsageError: `layer` has no qkv_kernel or no qkv_bias.
    """
    if "qkv_kernel" not in layer or "qkv_bias" not in layer:
        raise UsageError(f"no attention of an encoder's layer: it has {', '.join(layer)}")
    x_TD = np.asarray(x_TD, np.float64)
    kernel, bias = (np.asarray(layer[name], np.float64) for name in ("qkv_kernel", "qkv_bias"))
    q, k = (np.einsum("td,dhe->hte", x_TD, kernel[:, i]) + bias[i][:, None] for i in (0, 1))
    scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
    segments = np.ones(len(x_TD), int) if segments_T is None else np.asarray(segments_T)
    visible = (segments[:, None] == segments[None]) & (segments > 0)
    scores = np.where(visible, scores, -np.inf)
    # The row of a padding position has no visible position and so no largest score.
    top = np.where(visible.any(axis=1), scores.max(axis=2, initial=-np.inf), 0.0)[..., None]
    exp_scores = np.exp(scores - top)
    return exp_scores / np.maximum(exp_scores.sum(axis=2, keepdims=True), 1e-300)


def draw_map(
    axes: Any,
    weights_QK: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    bold: tuple[Sequence[bool], Sequence[bool]] | None = None,
    title: str = "",
    size: float = 8.0,
    even_share: float | None = None,
) -> Any:
    """Draws a map of attention on matplotlib axes and returns the image, for a colour bar. Darker means more weight.

    Args:
      weights_QK: weights of one head, or the mean of several heads.
      rows, columns: names of the positions that attend, and of the positions that they attend to.
      bold: which rows and which columns are numbers; their names are bold and coloured.
      size: font size of the names, in points.
      even_share: show log2(weight / even_share) from −4 to 4. With 1/T, 0 is uniform attention over the whole text.
    """
    from numjax.geometry import style

    weights_QK = np.asarray(weights_QK)
    if weights_QK.shape != (len(rows), len(columns)):
        raise UsageError(f"a map of shape {weights_QK.shape} for {len(rows)} rows and {len(columns)} columns")
    limits: dict[str, Any] = dict(vmin=0)
    if even_share is not None:
        weights_QK = np.log2(np.maximum(weights_QK, 1e-9) / even_share)
        limits = dict(vmin=-LOG2_LIMIT, vmax=LOG2_LIMIT)
    image = axes.imshow(weights_QK, aspect="auto", interpolation="nearest", cmap=style.ORDERED, **limits)
    axes.set_xticks(range(len(columns)), [_escape_dollars(name) for name in columns], rotation=90, fontsize=size)
    axes.set_yticks(range(len(rows)), [_escape_dollars(name) for name in rows], fontsize=size)
    axes.tick_params(length=0)
    for labels, are_numbers in zip((axes.get_yticklabels(), axes.get_xticklabels()), bold or ((), ()), strict=True):
        for label, is_number in zip(labels, are_numbers, strict=False):
            label.set(color=style.EMPHASIS if is_number else style.TEXT, weight="bold" if is_number else "normal")
    axes.set_title(title)
    return image


def _escape_dollars(name: str) -> str:
    # matplotlib would read a dollar sign as the start of a formula.
    return name.replace("$", r"\$")
