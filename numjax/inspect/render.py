"""The page of a microscope: what its script reads, packed into few bytes."""

from __future__ import annotations

import base64
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from numjax.errors import UsageError
from numjax.inspect import answers, symbols, webpage
from numjax.inspect.microscope import Microscope, Part
from numjax.inspect.views import Map, View
from numjax.numeral.exact import format_plain

MOST_BYTES = 3_000_000
LEVELS = 254  # of a map; level 255 is "no pair"
_FOLDER = pathlib.Path(__file__).parent / "page"
# Name → bytes of a component, most exact first.
PRECISIONS = {"float16": 2, "int8": 1}


def make_page(microscope: Microscope) -> str:
    """The page.

    Raises:
      UsageError: it would be larger than `MOST_BYTES`.
    """
    names = ", ".join(part.name for part in microscope.parts)
    title = f"{names} · microscope for numbers"
    data = pack(microscope)
    size = len(webpage.make_page(_FOLDER, title, data).encode())
    precision = _choose_precision(microscope, MOST_BYTES - size)
    for part, packed in zip(microscope.parts, data["parts"], strict=True):
        for view, packed_view in zip(part.views, packed["views"], strict=True):
            packed_view |= pack_vectors(view.vectors, precision)
    return webpage.make_page(_FOLDER, title, data)


def pack(microscope: Microscope) -> dict[str, Any]:
    """Everything but the vectors, as JSON holds it; arrays are base64 of little-endian bytes."""
    return {
        "high": microscope.high,
        "texts": list(microscope.texts),
        "values": [format_plain(value) for value in microscope.values],
        "rules": [reading.rules for reading in microscope.readings[0]],
        # A rule that reads the text as one number of the exact value is the usual case: 1.
        "readings": [
            [1 if reading.spans == ((text, format_plain(value)),) else reading.spans for reading in readings]
            for text, value, readings in zip(microscope.texts, microscope.values, microscope.readings, strict=True)
        ],
        "vocabulary": microscope.vocabulary,
        "layouts": [_pack_layout(layout) for part in microscope.parts for layout in part.layouts]
        + [_pack_layout(layout) for layout in microscope.layouts],
        "parts": [_pack_part(part) for part in microscope.parts],
    }


def _pack_layout(layout: symbols.Layout) -> dict[str, Any]:
    index = {name: i for i, name in enumerate(dict.fromkeys(name for row in layout.symbols for name in row or ()))}
    rows = [None if row is None else " ".join(str(index[name]) for name in row) for row in layout.symbols]
    return {
        "name": layout.name, "description": layout.description, "slot": layout.slot, "symbols": list(index),
        "rows": rows,
    }  # fmt: skip


def _pack_part(part: Part) -> dict[str, Any]:
    return {
        "name": part.name,
        "facts": part.facts,
        "views": [_pack_view(view) for view in part.views],
        "written": None if part.written is None else _pack_written(part.written),
        "judged": None if part.judged is None else _pack_judged(part.judged),
        "silence": part.silence,
    }


def _pack_view(view: View) -> dict[str, Any]:
    return {
        "name": view.name,
        "dim": view.dim,
        "has": encode(view.has_vector, "<u1"),
        "k": view.nearest.shape[1],
        "nearest": encode(view.nearest, "<i2"),
        # 1 − cosine keeps the digits of vectors that are almost parallel.
        "distances": encode(1 - view.cosines, "<f4"),
        "maps": [_pack_map(cells) for cells in view.maps],
        "points": encode(view.points, "<f4"),
        "share": view.share,
    }


def _pack_map(cells: Map) -> dict[str, Any]:
    known = cells.cosines[~np.isnan(cells.cosines)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    levels = np.round((cells.cosines - low) / ((high - low) or 1.0) * LEVELS)
    return {
        "size": len(cells.cosines), "step": cells.step, "low": low, "high": high,
        "levels": encode(np.where(np.isnan(levels), LEVELS + 1, levels), "<u1"),
    }  # fmt: skip


def _pack_written(written: answers.Written) -> dict[str, Any]:
    def pack_candidate(candidate: answers.Candidate) -> list[Any]:
        interval = candidate.interval
        ends = [] if interval is None else [interval["low"], interval["high"], interval["share"]]
        return [candidate.text, float(f"{math.exp(candidate.log_prob):.4g}"), *ends]

    rows = [None if row is None else [pack_candidate(candidate) for candidate in row] for row in written.candidates]
    return {"prompt": written.prompt, "example": written.example, "meaning": written.meaning, "rows": rows}


def _pack_judged(judged: answers.Judged) -> dict[str, Any]:
    return {
        "question": judged.question, "probabilities": encode(judged.probabilities, "<f4"), "sweep": judged.sweep,
        "sweepProbabilities": encode(judged.sweep_probabilities, "<f4"),
    }  # fmt: skip


def pack_vectors(vectors_ND: np.ndarray, precision: str) -> dict[str, Any]:
    """The vectors in a precision of `PRECISIONS`, each over its largest absolute component, with these scales and the
    largest error of a cosine that this causes."""
    scales = np.abs(vectors_ND).max(axis=1)
    units = vectors_ND / np.where(scales == 0, 1, scales)[:, None]
    stored = units.astype(np.float16) if precision == "float16" else np.round(127 * units).astype(np.int8)
    return {
        "precision": precision,
        "vectors": encode(stored, "<f2" if precision == "float16" else "<i1"),
        "scales": encode(scales, "<f8"),
        "error": float(np.abs(_cosines(units) - _cosines(stored.astype(np.float64))).max()),
    }


def _cosines(x_ND: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(x_ND, axis=1, keepdims=True)
    x_ND = x_ND / np.where(norms == 0, 1, norms)
    return x_ND @ x_ND.T


def _choose_precision(microscope: Microscope, room: int) -> str:
    shapes = [view.vectors.shape for part in microscope.parts for view in part.views]
    for precision, size in PRECISIONS.items():
        # Base64 takes 4 bytes for 3; a scale takes 8 bytes, and the keys of a view about a hundred.
        if sum(4 * math.ceil((count * dim * size + 8 * count) / 3) + 200 for count, dim in shapes) <= room:
            return precision
    widths = " + ".join(str(dim) for _, dim in shapes)
    raise UsageError(
        f"{len(microscope.texts)} vectors of {widths} dimensions do not fit a page of {MOST_BYTES / 1e6:g} MB: give "
        "fewer parts, or a smaller --high"
    )


def encode(x: Any, dtype: str) -> str:
    """An array as base64 of its bytes in a dtype."""
    return base64.b64encode(np.ascontiguousarray(x).astype(dtype).tobytes()).decode()


def decode(text: str, dtype: str) -> np.ndarray:
    """The flat array of `encode`."""
    return np.frombuffer(base64.b64decode(text), dtype)


def summarise(microscope: Microscope, page: str) -> Mapping[str, Any]:
    """What a command reports about a page."""
    shown: Sequence[Part] = microscope.parts
    return {
        "numbers": len(microscope.texts),
        "layouts": sum(layout.scheme is not None for layout in microscope.layouts),
        "views": sum(len(part.views) for part in shown),
        "bytes": len(page.encode()),
    }
