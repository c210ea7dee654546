"""The test that could reject characters of residues: products of two numbers of up to six digits, and sums.

python -m experiments.candidates.residues                   # laptop: three seeds, 42 runs, hours on 2 cores
python -m experiments.candidates.residues --scale=smoke     # for form alone, minutes
"""

from __future__ import annotations

from collections.abc import Sequence

from numjax.bundled.experiments import command
from numjax.bundled.experiments.candidates import contest
from numjax.bundled.experiments.candidates.contest import Contest, System

# Whole numbers of up to 13 places: ten primes tell them apart.
WHOLE = "integer=13,fraction=0"
CONTEST = Contest(
    "residues",
    "Products and sums of numbers at one position",
    ("mul6", "add"),
    {
        "residues": System(
            "residues",
            "Residues, additive and multiplicative characters",
            ("embeds.numeral=residues:most=41,dim=128,fusion=replace", f"heads.next=residues:most=41,{WHOLE}"),
        ),
        "spare": System(
            "residues",
            "The same with three more primes, 6,000 steps",
            ("embeds.numeral=residues:most=53,dim=128,fusion=replace", f"heads.next=residues:most=53,{WHOLE}"),
        ),
        "alone": System(
            "residues",
            "Residues without digits and magnitude, 6,000 steps",
            (
                "embeds.numeral=residues:most=53,alone=True,dim=128,fusion=replace",
                f"heads.next=residues:most=53,alone=True,{WHOLE}",
            ),
        ),
        "additive": System(
            "residues",
            "Residues, additive characters alone",
            (
                "embeds.numeral=residues:most=41,multiplies=False,dim=128,fusion=replace",
                f"heads.next=residues:most=41,multiplies=False,{WHOLE}",
            ),
        ),
        "fone": System("fone", "Fourier features and digits", (f"heads.next=fone:{WHOLE}",)),
        "bittokens": System("bittokens", "Bits of a float64"),
        "digits": System("digits", "Digits", (contest.POSITIONS,)),
    },
    reference="fone",
    streams=("inside", "length 8", "length 12", "edges"),
    options={"optim.steps": 20_000, "eval.every": 1000, "task.size": 200_000},
    list_options=lambda operation, system: (
        # Products need products of features, which a gated MLP has.
        {"backbone.gated": True} | ({"optim.steps": 6000} if system in ("spare", "alone") else {})
    ),
)


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing and writes the tables."""
    contest.run(CONTEST, __doc__ or "", words)


if __name__ == "__main__":
    command.entry(main)
