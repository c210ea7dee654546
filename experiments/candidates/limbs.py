"""The test that could reject place-anchored limbs: sums of whole numbers and of decimals, the largest number.

python -m experiments.candidates.limbs                      # laptop: three seeds, 54 runs, hours on 2 cores
python -m experiments.candidates.limbs --scale=smoke        # for form alone, minutes
"""

from __future__ import annotations

from collections.abc import Sequence

from numjax.bundled.experiments import command
from numjax.bundled.experiments.candidates import contest
from numjax.bundled.experiments.candidates.contest import POSITIONS, Contest, System

CONTEST = Contest(
    "limbs",
    "Limbs of three digits against single digits",
    ("add", "decadd", "max"),
    {
        "limbs": System("limbs", "Limbs, the size of given numbers in their headers"),
        "no_size": System(
            "limbs", "Limbs, headers without the size", ("scheme=limbs:values=False", "~embeds.numeral")
        ),
        "one_digit": System("anchor", "A header and a limb for each digit"),
        "unaligned": System("anchor", "A header and a limb for each digit, not aligned", ("~positions.place",)),
        "unsized": System(
            "anchor",
            "A header and a limb for each digit, headers without the size",
            ("scheme=limbs:values=False,size=1,parts=12", "~embeds.numeral"),
        ),
        "digits": System("digits_rev_answer", "Digit by digit, lowest first", (POSITIONS,)),
    },
    reference="digits",
    streams=("inside", "length 8", "length 12", "length 18", "edges"),
    list_options=lambda operation, system: {"task.longer": "8+12+18"},
)


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing and writes the tables."""
    contest.run(CONTEST, __doc__ or "", words)


if __name__ == "__main__":
    command.entry(main)
