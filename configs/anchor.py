"""Anchor, our own: numbers in text as a header and digits, aligned at the decimal point; each digit knows those next
to it, and where numbers are written only those that have to be found are written from the lowest digit.

    numjax train --config=anchor:task=text --config.task.path=FOLDER --workdir=…   # any text
    numjax train --config=anchor:task=mme --workdir=runs/anchor-mme                # NumGPT's tasks
    numjax train --config=anchor:task=problems --workdir=runs/anchor-problems      # word problems in many wordings
    numjax train --config=luna:task=tatqa,numtok=anchor --workdir=runs/anchor-tatqa    # LUNA's tasks, with an encoder

Arguments: smoke | laptop | overnight | paper; task=text and the other tasks of configs/numgpt.py; limb=1|3 (digits of
a position: a number of n digits has n + 1 positions, known ones one more for a point, or n / 3 + 1); size=on|off
(whether the header of a given number tells its size and first digits); count=off|on (whether a number of up to five
limbs before the point says first how many they are: one more position); align=on|off (whether attention knows how
many places two digits are apart); ngram=on|off (whether the vector of a digit tells those next to it; never with
limb=3); known=on|off (whether numbers that are given, or repeat another, stand as they are read, without absolute
positions and sizes; on by default where numbers are written, never with limb=3).
"""

from __future__ import annotations

from numjax.bundled.configs import numgpt
from numjax.config.recipe import Change, Recipe

LIMBS = dict(name="limbs", size=1, parts=12)
ALIGNED = dict(name="limbs_bias", numbers=8)
LEADING = dict(name="leading", fusion="concat+linear")
ANCHOR = {
    "scheme": LIMBS
    | dict(rules="default", vocab=dict(name="sentencepiece", model="bpe", size=2000, split_digits=True)),
    "embeds": dict(token=dict(name="limbs"), before=dict(name="digit_ngram")),
    # A written header, and each digit behind it, has the place of the digit that comes next.
    "positions": dict(sequence=dict(name="learned"), place=ALIGNED | dict(ahead=True)),
    "heads": dict(next=dict(name="token", tied=True)),
}
# Where the model only reads, the header of a number tells its size and first digits.
READ: Change = {
    "scheme": dict(values=True, until=""),
    "embeds.numeral": LEADING,
}
WRITTEN = ("text", "generation", "problems")  # tasks that write numbers in running text, where all headers are alike
KNOWN: Change = {
    "scheme": dict(known=True, values=False),
    "embeds.numeral?": None,
    "embeds.before": dict(name="digit_ngram", behind=3),
    "positions.rank": dict(name="rank_bias"),
    "positions.sequence": dict(name="none"),
}
LOWEST_FIRST: Change = {
    "scheme": dict(known=False),
    "embeds.before?": dict(behind=0),
    "positions.rank?": None,
    "positions.sequence": dict(name="learned"),
}


def _add(task: Change, change: Change) -> Change:
    """A task of NumGPT with a further change of the system."""
    return {**task, **change, "scheme": {**task.get("scheme", {}), **change["scheme"]}}


PARTS = {
    "limb": {
        "1": {"needs": "scheme:limbs"},
        "3": {
            "needs": "scheme:limbs",
            **LOWEST_FIRST,
            "scheme": dict(size=3, parts=4, known=False),
            "embeds.before": None,
        },
    },
    "size": {
        "on": {"needs": "embeds.numeral"},
        "off": {"needs": "embeds.numeral", "embeds.numeral": None, "scheme": dict(values=False)},
    },
    "count": {
        "off": {"needs": "scheme:limbs"},
        "on": {"needs": "scheme:limbs", "scheme": dict(counted=5)},
    },
    "align": {"on": {"needs": "positions.place"}, "off": {"needs": "positions.place", "positions.place": None}},
    "known": {"on": {"needs": "scheme:limbs", **KNOWN}, "off": {"needs": "positions.rank", **LOWEST_FIRST}},
    "ngram": {"on": {"needs": "embeds.before"}, "off": {"needs": "embeds.before", "embeds.before": None}},
}

get_config = Recipe(
    system=ANCHOR,
    task="mme",
    tasks={name: _add(task, KNOWN if name in WRITTEN else READ) for name, task in numgpt.TASKS.items()},
    parts=PARTS,
    scale="laptop",
    scales=numgpt.SCALES,
)
