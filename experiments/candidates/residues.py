"""The test that could reject characters of residues: products of two numbers of up to six digits, and sums.

python -m experiments.candidates.residues                   # laptop: three seeds, 24 runs, hours on 2 cores
python -m experiments.candidates.residues --scale=smoke     # for form alone, minutes
"""

from __future__ import annotations

from collections.abc import Sequence

from numjax.bundled.experiments import command
from numjax.bundled.experiments.candidates import contest
from numjax.bundled.experiments.candidates.contest import Contest, System

CONTEST = Contest(
    "residues",
    "Products and sums of numbers at one position",
    ("mul6", "add"),
    {
        "residues": System("residues", "Residues, additive and multiplicative characters"),
        "additive": System(
            "residues",
            "Residues, additive characters alone",
            ("embeds.numeral=residues:multiplies=False,fusion=concat+linear",
             "heads.next=residues:integer=13,fraction=5,multiplies=False"),
        ),
        "fone": System("fone", "Fourier features and digits"),
        "bittokens": System("bittokens", "Bits of a float64"),
    },
    reference="fone",
    streams=("inside", "edges"),
    options={"optim.steps": 20_000, "optim.learning_rate": 1e-3, "eval.every": 1000, "task.size": 200_000},
)  # fmt: skip


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing and writes the tables."""
    contest.run(CONTEST, __doc__ or "", words)


if __name__ == "__main__":
    command.entry(main)
