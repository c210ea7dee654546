"""What a layer attends to: its attention weights, computed anew in float64 from what it reads and its parameters.

The fast path never holds them (fused kernels have none); this is for one text that somebody looks at.

Legend: T positions, D width, H heads, E width of a head, Q and K positions of two stretches of the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from numjax.errors import UsageError

FARTHEST = 4.0  # a picture's colours end where there is 2⁴ times an even share


def weights(x_TD: np.ndarray, layer: Mapping[str, Any], segments_T: np.ndarray | None = None) -> np.ndarray:
    """softmax(QKᵀ/√E) of an encoder's layer, float64[H, T, T]: each row of a text sums to 1.

    Args:
      x_TD: what the layer reads: the embedding, or the output of the layer before it.
      layer: its parameters, with qkv_kernel [D, 3, H, E] and qkv_bias [3, H, E].
      segments_T: a position sees those of its own segment; 0 is padding, which neither sees nor is seen. None: one
        text without padding.

    Raises:
      UsageError: these are no parameters of an encoder's layer.
    """
    if "qkv_kernel" not in layer or "qkv_bias" not in layer:
        raise UsageError(f"no attention of an encoder's layer: it has {', '.join(layer)}")
    x_TD = np.asarray(x_TD, np.float64)
    kernel, bias = (np.asarray(layer[name], np.float64) for name in ("qkv_kernel", "qkv_bias"))
    q, k = (np.einsum("td,dhe->hte", x_TD, kernel[:, i]) + bias[i][:, None] for i in (0, 1))
    scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
    segments = np.ones(len(x_TD), int) if segments_T is None else np.asarray(segments_T)
    seen = (segments[:, None] == segments[None]) & (segments > 0)
    scores = np.where(seen, scores, -np.inf)
    # A padding's row sees nothing and has no largest score.
    top = np.where(seen.any(axis=1), scores.max(axis=2, initial=-np.inf), 0.0)[..., None]
    found = np.exp(scores - top)
    return found / np.maximum(found.sum(axis=2, keepdims=True), 1e-300)


def picture(
    axes: Any,
    weights_QK: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    bold: tuple[Sequence[bool], Sequence[bool]] | None = None,
    title: str = "",
    size: float = 8.0,
    even: float | None = None,
) -> Any:
    """A map of attention on matplotlib axes, darker where there is more; returns the image, for a colour bar.

    Args:
      weights_QK: of one head, or a mean of several. rows, columns: names of positions that look and are looked at.
      bold: which of the rows and of the columns are numbers; they are written in colour. size: of the names, points.
      even: show log2(weight / even), red above 0 and blue below, from −4 to 4: with 1/T what is more, and what less,
        than an even look at the whole text would give.
    """
    from numjax.geometry.plots import COLOURS

    weights_QK = np.asarray(weights_QK)
    if weights_QK.shape != (len(rows), len(columns)):
        raise UsageError(f"a map of shape {weights_QK.shape} for {len(rows)} rows and {len(columns)} columns")
    shown: dict[str, Any] = dict(cmap="Greys", vmin=0)
    if even is not None:
        weights_QK = np.log2(np.maximum(weights_QK, 1e-9) / even)
        shown = dict(cmap="RdBu_r", vmin=-FARTHEST, vmax=FARTHEST)
    image = axes.imshow(weights_QK, aspect="auto", interpolation="nearest", **shown)
    axes.set_xticks(range(len(columns)), [_plain(name) for name in columns], rotation=90, fontsize=size)
    axes.set_yticks(range(len(rows)), [_plain(name) for name in rows], fontsize=size)
    axes.tick_params(length=0)
    for labels, marked in zip((axes.get_yticklabels(), axes.get_xticklabels()), bold or ((), ()), strict=True):
        for label, is_number in zip(labels, marked, strict=False):
            label.set(color=COLOURS[4] if is_number else "black", weight="bold" if is_number else "normal")
    axes.set_title(title, fontsize="medium")
    return image


def _plain(name: str) -> str:
    # A dollar sign would begin a formula.
    return name.replace("$", r"\$")
