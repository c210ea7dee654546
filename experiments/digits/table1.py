"""Table 1: accuracy with [AGG] before the digits and with the auxiliary loss, against digits alone.

python -m experiments.digits.table1 --mawps=mawps --fermat=FERMAT          # laptop: from scratch, 2 cores
python -m experiments.digits.table1 --scale=smoke                          # generated problems, minutes
"""

from __future__ import annotations

from collections.abc import Sequence

from numjax.bundled.experiments import command
from numjax.bundled.experiments.digits import settings

SYSTEMS = ("digits", "agg", "aux")


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table1.{md,json}."""
    title = "Table 1: accuracy with aggregated digits"
    settings.write_table("table1", title, __doc__, SYSTEMS, "accuracy", settings.ACCURACY, words)


if __name__ == "__main__":
    command.entry(main)
