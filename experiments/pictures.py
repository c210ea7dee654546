"""Pictures of results as files, drawn from NAME.json alone by the module that it names ("drawn_by").

A picture holds the digest of what it shows: its texts, and the positions and looks of its lines and marks. A check
draws the figure again in memory and compares digests. It compares no pixels: these differ between versions of
matplotlib.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter
from PIL import Image, UnidentifiedImageError
from PIL.PngImagePlugin import PngInfo

from numjax.errors import UsageError
from numjax.geometry import style

MODULES = "numjax.bundled.experiments."
DIGEST = "Digest"  # the keyword of the digest in the PNG file
MOST_BYTES = 100_000
N_COLOURS = 64


def draw(content: Mapping[str, Any]) -> dict[str, Figure]:
    """File name → figure, of the content of a JSON file; none if it names no module that draws.

    Args:
      content: its "drawn_by" is a module of experiments/, such as "numgpt.fig1", with a function `draw(content)`.
    """
    if not content.get("drawn_by"):
        return {}
    with style.apply():
        return importlib.import_module(MODULES + content["drawn_by"]).draw(content)


def write(path: pathlib.Path) -> list[str]:
    """Draws the pictures of a JSON file beside it and returns their names. The same numbers make the same files.

    Raises:
      UsageError: a file cannot be written.
    """
    figures = draw(load(path))
    for name, figure in figures.items():
        target = path.parent / name
        try:
            _save(figure, target)
        except OSError as error:
            raise UsageError(f"cannot write {target} ({error.strerror}): choose another --out") from error
    return list(figures)


def _save(figure: Figure, target: pathlib.Path) -> None:
    buffer = io.BytesIO()
    with style.apply():
        figure.savefig(buffer)
    # No creation date and no version of matplotlib. Few colours make a file a third as large, and look the same.
    text = PngInfo()
    text.add_text(DIGEST, compute_digest(figure))
    image = Image.open(buffer).convert("RGB").quantize(N_COLOURS, dither=Image.Dither.NONE)
    image.save(target, "PNG", pnginfo=text, optimize=True)


def check(path: pathlib.Path) -> Iterator[tuple[pathlib.Path, str]]:
    """Yields (picture, what is wrong with it) for the pictures of a JSON file."""
    for name, figure in draw(load(path)).items():
        picture = path.parent / name
        if not picture.is_file():
            yield picture, f"is missing, and {path.name} draws it"
        elif read_digest(picture) != compute_digest(figure):
            yield picture, f"does not show what {path.name} draws now"
        elif picture.stat().st_size > MOST_BYTES:
            yield picture, f"has {picture.stat().st_size:,} bytes, more than {MOST_BYTES:,}"


def read_digest(picture: pathlib.Path) -> str:
    """The digest in a picture, "" if it has none."""
    with contextlib.suppress(OSError, UnidentifiedImageError), Image.open(picture) as image:
        return str(image.info.get(DIGEST, ""))
    return ""


def compute_digest(figure: Figure) -> str:
    """The digest of what a figure shows.

    What depends on the sizes of fonts is left out: ticks that matplotlib chooses, where labels are moved to, and
    where lines of text break.
    """
    texts = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    parts: list[Any] = [text.get_text().split() for text in texts]
    for axes in figure.axes:
        parts += [axes.get_title(loc=side) for side in ("left", "center")]
        parts += [text.get_text().split() for text in axes.texts]
        for axis in (axes.xaxis, axes.yaxis):
            formatter = axis.get_major_formatter()
            parts += [axis.get_scale(), axis.get_label_text()]
            parts += list(formatter.seq) if isinstance(formatter, FixedFormatter) else []
        for line in axes.lines:
            parts += [line.get_xydata(), line.get_color(), line.get_linestyle(), str(line.get_marker())]
        for collection in axes.collections:
            shapes = [path.vertices for path in collection.get_paths()]
            parts += [collection.get_offsets(), collection.get_facecolor(), *shapes]
        for patch in axes.patches:
            parts += [patch.get_patch_transform().transform(patch.get_path().vertices), str(patch.get_facecolor())]
    return hashlib.sha256(json.dumps(parts, default=_round).encode()).hexdigest()[:16]


def _round(array: Any) -> Any:
    # Six digits: sums of floats may differ in their last ones.
    return [[f"{value:.6g}" for value in row] for row in np.atleast_2d(np.ma.filled(array, np.nan))]


def load(path: pathlib.Path) -> dict[str, Any]:
    """The content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))
