"""Text → document and back."""

from numjax.text.document.segments import (
    merge,
    parse,
    spell_in_formula,
    surface,
    surface_of,
    take_beginning,
    written_text,
)

__all__ = ["merge", "parse", "spell_in_formula", "surface", "surface_of", "take_beginning", "written_text"]
