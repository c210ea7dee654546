"""The test that could reject the carry-marginalised head: sums, differences, products, the largest number, copies.

python -m experiments.candidates.carry                      # laptop: three seeds, 72 runs, a night on 2 cores
python -m experiments.candidates.carry --only=add           # one operation
python -m experiments.candidates.carry --scale=smoke        # for form alone, minutes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numjax.bundled.experiments import command
from numjax.bundled.experiments.candidates import contest
from numjax.bundled.experiments.candidates.contest import POSITIONS, Contest, System

# Operation → options of scheme carry_save; "digits" is that of the system with carries.
OPERATIONS: Mapping[str, Mapping[str, object]] = {
    "add": {"digits": "0..19"},
    "sub": {"digits": "-9..18"},
    "mul1": {"digits": "0..81", "room": "sum"},
    "mul2": {"digits": "0..162", "room": "sum"},
    "max": {"digits": "0..19", "fraction": 4},
    "copy": {"digits": "0..19", "fraction": 4},
}


def list_options(operation: str, system: str) -> dict[str, object]:
    """The options of the scheme for an operation."""
    options = {} if system == "digits" else {f"scheme.{name}": value for name, value in OPERATIONS[operation].items()}
    if system == "limbs":
        # Places and decimals are multiples of three.
        options |= {"scheme.size": 3, "scheme.places": 24, "data.digits": 24}
        options |= {"scheme.fraction": 6} if "scheme.fraction" in options else {}
    return options | ({"scheme.digits": "0..9"} if system == "parallel" else {})


CONTEST = Contest(
    "carry",
    "Numbers written at once, with and without carries, against digit by digit",
    list(OPERATIONS),
    {
        "carry_save": System("carry_save", "All places at once, with carries", (POSITIONS,)),
        "limbs": System("carry_save", "Limbs of three places at once, with carries", (POSITIONS,)),
        "parallel": System("parallel", "All places at once, plain digits", (POSITIONS,)),
        "digits": System("digits_rev_answer", "Digit by digit, lowest first", (POSITIONS,)),
    },
    reference="digits",
    streams=("inside", "length 8", "length 12", "length 20", "edges"),
    list_options=list_options,
)


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing and writes the tables."""
    contest.run(CONTEST, __doc__ or "", words)


if __name__ == "__main__":
    command.entry(main)
