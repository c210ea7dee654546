"""The sizes of LUNA's number encoders by name: (hidden width, layers).

A name is roughly the number of parameters at 768 dimensions; vectors of 64, such as those of a table's cells, take a
narrower encoder. LUNA's code also has "base": a CharLSTM of one layer, a CharFormer of three.
"""

from __future__ import annotations

from numjax.errors import UsageError

NARROW = 64  # up to so many dimensions `CELLS` overrides `WIDE`
WIDE = {
    "char_lstm": {"0.1M": (32, 3), "base": (128, 1), "1M": (128, 3), "9M": (208, 9)},
    "char_former": {"0.1M": (8, 3), "base": (32, 3), "1M": (64, 3), "9M": (128, 9)},
}
CELLS = {"char_lstm": {"1M": (112, 3), "9M": (196, 9)}}


def encoder_size(encoder: str, size: str, dim: int, default: tuple[int, int]) -> tuple[int, int]:
    """(hidden, layers) of an encoder whose vectors have `dim` dimensions; `default` if no size is named.

    Raises:
      UsageError: there is no such size.
    """
    if not size:
        return default
    sizes = WIDE[encoder] | (CELLS.get(encoder, {}) if dim <= NARROW else {})
    if size not in sizes:
        raise UsageError(f"{encoder}: parameters must be one of {', '.join(sizes)}, not {size!r}")
    return sizes[size]
