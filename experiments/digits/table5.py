"""Table 5: character error rate (edits over the answer's length; less is better) of table 1's systems.

python -m experiments.digits.table5 --mawps=mawps --fermat=FERMAT          # laptop; shares table 1's runs
"""

from __future__ import annotations

from collections.abc import Sequence

from numjax.bundled.experiments import command
from numjax.bundled.experiments.digits import settings

SYSTEMS = ("digits", "agg", "aux")


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table5.{md,json}."""
    title = "Table 5: character error rate with aggregated digits"
    settings.write_table("table5", title, __doc__, SYSTEMS, "cer", settings.CER, words)


if __name__ == "__main__":
    command.entry(main)
