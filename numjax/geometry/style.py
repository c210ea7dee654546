"""The look of all pictures: colours, marks, dashes, fonts and sizes.

Pictures must be readable on a page 800 pixels wide and on a phone, in grey, and by readers who see no difference
between red and green. So each of the five colours has a lightness of its own, and lines differ in dashes and marks
too. The colours are those of Okabe and Ito, but for wine, which is of Paul Tol's scheme "muted".
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from matplotlib import style

__all__ = ["COLOURS", "DASHES", "EDGE", "EMPHASIS", "LIGHTNESS_STEP", "MARKS", "ORDERED", "SETTINGS", "SHADE"]
__all__ += ["SMALL", "TEXT", "TEXT_COLOURS", "WIDTH", "apply"]

# Blue, orange, black, green, wine. Their lightness (CIE L*, 0 to 100) differs by LIGHTNESS_STEP or more.
COLOURS = ("#0072B2", "#E69F00", "#000000", "#009E73", "#882255")
LIGHTNESS_STEP = 10
# The same hues, dark enough to read as text on white.
TEXT_COLOURS = ("#005A8C", "#8A5F00", "#000000", "#00694D", "#882255")
# Numbers of marks and of colours have no common factor, so that 35 families have a look each.
MARKS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", (0, (4, 1.2)), (0, (1.5, 1.2)), (0, (5, 1.5, 1.5, 1.5)), (0, (9, 2)))
SHADE = "#DDEFE8"  # behind what is right
EDGE = "#999999"  # lines that only lead the eye
TEXT, EMPHASIS = TEXT_COLOURS[2], TEXT_COLOURS[4]  # names that stand out
ORDERED = "cividis_r"  # a colour map of quantities: the darker, the more, in grey too

WIDTH = 6.4  # inches, of every picture on a page
SMALL = 9.0  # points, of labels at marks
SETTINGS = {
    "figure.titlesize": 12.0,
    "figure.titleweight": "bold",
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "xtick.labelsize": 10.0,
    "ytick.labelsize": 10.0,
    "grid.color": "#E4E4E4",
    "legend.fontsize": 10.0,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 6.0,
    "figure.dpi": 100.0,
    "savefig.dpi": 160.0,
}


@contextlib.contextmanager
def apply() -> Iterator[None]:
    """Draws with this look, whatever the user's own settings of matplotlib are. They come back at the end."""
    with style.context(["default", SETTINGS]):
        yield
