"""Table 2: accuracy with [AGG] before and after the digits, and with [PAUSE] instead of [AGG].

python -m experiments.digits.table2 --mawps=mawps --fermat=FERMAT          # laptop; shares table 1's runs
"""

from __future__ import annotations

from collections.abc import Sequence

from numjax.bundled.experiments import command
from numjax.bundled.experiments.digits import settings

SYSTEMS = ("digits", "agg_after", "agg", "pause")


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table2.{md,json}."""
    title = "Table 2: where the aggregate stands, and a pause in its place"
    settings.write_table("table2", title, __doc__, SYSTEMS, "accuracy", settings.ACCURACY, words)


if __name__ == "__main__":
    command.entry(main)
