"""Says which numbers a model does not read whole, such as those of more digits than its embedding has."""

from __future__ import annotations

from collections.abc import Iterable

from numjax.numeral.exact import to_numeral
from numjax.pipeline.features import Encoded
from numjax.runtime import log
from numjax.system import System
from numjax.types import Number


def say_rows(system: System, encoded: Encoded, before: str = "") -> None:
    """Of encoded rows and of their source. `before` begins the line."""
    for rows in (encoded, encoded.source):
        if rows is not None and (line := system.name_unread(rows.columns.surfaces, rows.columns.numerals)):
            log.say(before + line)


def say_texts(system: System, texts: Iterable[str]) -> None:
    """Of texts that a user typed."""
    segments = (segment for text in texts for segment in system.scheme.parse(text))
    numbers = {s.surface: s.value for s in segments if isinstance(s, Number) and s.value.is_finite()}
    if line := system.name_unread([*numbers], to_numeral([*numbers.values()], system.config.data.digits)):
        log.say(line)
