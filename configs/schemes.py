"""Published ways to read and write a number, on exact arithmetic with one backbone.

    numjax train --config=schemes:digits --workdir=runs/digits  # additions, 2 cores
    numjax train --config=schemes:fone,task=max --workdir=runs/fone-max

Arguments: a row of `ROWS`, the name of a way; task=add|sub|… (the operations of data/arithmetic) or all;
smoke | cpu.
"""

from __future__ import annotations

from numjax.bundled.configs import anchor
from numjax.config.recipe import NLL, Recipe

TASKS = (
    *("add", "sub", "mul1", "mul2", "mul", "mul6", "decadd", "max", "sort", "mod", "digit_at", "count", "round"),
    *("convert", "frac", "fmul", "fdiv", "copy", "pick", "mme", "tabular", "orbit", "series", "all"),
)
# Text and marks are characters, so that no way of writing numbers gets better words than another.
VOCAB: dict[str, object] = dict(name="sentencepiece", size=400, split_digits=True)
SLOT = {"scheme": dict(name="replace", vocab=VOCAB)}
REVERSED = {"scheme": dict(name="reversed", vocab=VOCAB)}
NGRAM = {"embeds.before": dict(name="digit_ngram")}
NAMED = {"embeds.name": dict(name="number_name")}
KNOWN = {part: anchor.KNOWN[part] for part in ("embeds.before", "positions.rank", "positions.sequence")}
SCORED_ALONE = {"objectives.next": dict(room=0.125)}  # for heads with thousands of classes


def _spelled(name: str, **options: object) -> dict[str, object]:
    return {"scheme": dict(name=name, vocab=VOCAB, **options)}


def _with_room(length: int, max_tokens: int) -> dict[str, object]:
    """Room for rows and answers that are longer than their digits."""
    sizes = {"data": dict(length=length), "decode": dict(max_tokens=max_tokens)}
    sizes |= {"backbone": dict(max_length=length + max_tokens)}
    return {"when": {"smoke": sizes, "cpu": sizes}}


def _with_loss(name: str, weight: float, **options: object) -> dict[str, object]:
    return {"objectives.numbers": dict(name=name, head="next", weight=weight, **options)}


def _in_places(**options: object) -> dict[str, object]:
    """Answers with a position for each decimal place, up to 22, all predicted at once."""
    return {
        "scheme": dict(name="carry_save", vocab=VOCAB, places=22, **options),
        "positions.sequence": dict(name="coupled_bias", ahead=True, numbers=8),
        "heads.next": dict(name="carry_save"),
        "data": dict(digits=22),
    }


def _anchored(sized: bool = True, aligned: bool = True, **options: object) -> dict[str, object]:
    """A header and limbs, the lowest first. The header of a given number tells its size, if `sized`; and limbs know
    how many places they are apart, if `aligned`."""
    parts = _spelled("limbs", values=sized, **options) | {"embeds.token": dict(name="limbs")}
    parts |= {"embeds.numeral": anchor.LEADING} if sized else {}
    return parts | ({"positions.place": anchor.ALIGNED | dict(ahead=True)} if aligned else {})


ROWS = {
    # Numbers in pieces of a trained vocabulary, as they come.
    "bpe": {
        "scheme": dict(name="subword", vocab=dict(name="sentencepiece", model="bpe", size=1000, split_digits=False))
    },
    "digits": _spelled("digits", layout="digits"),
    "digits_rev": REVERSED,
    "digits_rev_answer": _spelled("reversed", which="answers"),
    "chunk3": _spelled("chunks"),
    "chunk3_l2r": _spelled("chunks", direction="l2r"),
    # A letter for each place before its digit; the steps of additions before their sum.
    "hints": _spelled("hints", which="answers") | _with_room(200, 72),
    "scratchpad": _spelled("digits", layout="digits") | {"task": dict(steps="scratchpad")} | _with_room(648, 584),
    "numerologic": _spelled("header"),
    # Three significant digits (Charton), and RegressLM's four.
    "p10": _spelled("scientific"),
    "p1000": _spelled("scientific", form="mantissa"),
    "b1999": _spelled("scientific", form="signed"),
    "fp15": _spelled("scientific", form="number", least=-9, most=6, subnormals=True) | SCORED_ALONE,
    "regresslm": _spelled("scientific", digits=4, least=-10, most=10),
    "ieee10": _spelled("scientific", digits=4, least=-12, most=6, exponent="before", rounding="down"),
    # Time series: numbers in the scale of those before them.
    "chronos": _spelled("bins"),
    "llmtime": _spelled("rescaled") | _with_room(224, 24),
    "rt": _spelled("places") | {"embeds.place": dict(name="place_code", scale=1e6)},
    "coupled": _spelled("reversed", which="answers") | {"positions.sequence": dict(name="coupled", offset=30)},
    "abacus": _spelled("reversed", places=20) | {"positions.place": dict(name="abacus", offset=30)},
    # The same digits without learned positions, of which those beyond the lengths of training stay as they began.
    "nope": _spelled("digits", layout="digits") | {"positions.sequence": dict(name="none")},
    "nope_rev": REVERSED | {"positions.sequence": dict(name="none")},
    "rope": _spelled("digits", layout="digits") | {"positions.sequence": dict(name="rope")},
    "alibi": _spelled("digits", layout="digits") | {"positions.sequence": dict(name="alibi")},
    "xval": SLOT
    | {
        "embeds.numeral": dict(name="value", scale=1e5, fusion="replace"),
        "heads.next": dict(name="xval", scale=1.0, keep=9),
    },
    # The paper's scale, which brings the largest number of a corpus to 5.
    "xval_linear5": SLOT
    | {
        "embeds.numeral": dict(name="value", map="linear5", scale=1e6, fusion="replace"),
        "heads.next": dict(name="xval", map="linear5", scale=1e6, keep=9),
    },
    # Both maps are nearly logarithms: small and large numbers are as far apart.
    "xval_log1p": SLOT
    | {
        "embeds.numeral": dict(name="value", map="log1p", fusion="replace"),
        "heads.next": dict(name="xval", map="log1p", scale=1.0, keep=9),
    },
    "xval_bittokens": SLOT
    | {
        "embeds.numeral": dict(name="value", map="bittokens", fusion="replace"),
        "heads.next": dict(name="xval", map="bittokens", scale=1.0, keep=9),
    },
    # Read by bins or frequencies, written as one value.
    "ple": SLOT
    | {
        "embeds.numeral": dict(name="ple", fusion="concat+linear"),
        "heads.next": dict(name="xval", scale=1.0, keep=9),
    },
    "periodic": SLOT
    | {
        "embeds.numeral": dict(name="periodic", fusion="concat+linear"),
        "heads.next": dict(name="xval", scale=1.0, keep=9),
    },
    # Whole numbers alone.
    "intseq": SLOT
    | {
        "embeds.numeral": dict(name="intseq", fusion="concat+linear"),
        "heads.next": dict(name="intseq"),
        **SCORED_ALONE,
    },
    "fone": SLOT
    | {
        "embeds.numeral": dict(name="fone", integer=13, fraction=5, fusion="concat+linear"),
        "heads.next": dict(name="fone", integer=13, fraction=5),
    },
    # Two periods for each place; and five digits a slot, for numbers of any length, as in the paper's ablations.
    "fone_2x5": SLOT
    | {
        "embeds.numeral": dict(name="fone", integer=13, fraction=5, bases="2+5", fusion="concat+linear"),
        "heads.next": dict(name="fone", integer=13, fraction=5, bases="2+5"),
    },
    "fone_slots": _spelled("slots", digits=5)
    | {
        "embeds.numeral": dict(name="fone", integer=5, fraction=5, fusion="concat+linear"),
        "heads.next": dict(name="fone", integer=5, fraction=5),
        "positions.place": dict(name="abacus", offset=30, slots=True),
    },
    # Our own: each place may hold a carry, and the loss is that of the number.
    "carry": SLOT
    | {
        "embeds.numeral": dict(name="fone", integer=13, fraction=5, fusion="concat+linear"),
        "heads.next": dict(name="carry", integer=13, fraction=5),
    },
    # Our own: a header and limbs of three digits, aligned at the point; and with a limb for each digit.
    "limbs": _anchored(),
    "anchor": _anchored(size=1, parts=12),
    # As in running text, where a header tells no size; and without the alignment.
    "anchor_unsized": _anchored(sized=False, size=1, parts=12),
    "anchor_unaligned": _anchored(aligned=False, size=1, parts=12),
    # A number of up to five digits before the point says first how many they are.
    "anchor_counted": _anchored(sized=False, size=1, parts=12, counted=5),
    # Each digit's vector tells the three digits before it, or five; and without the alignment.
    "anchor_ngram": _anchored(sized=False, size=1, parts=12) | NGRAM,
    "anchor_ngram5": _anchored(sized=False, size=1, parts=12) | {"embeds.before": dict(name="digit_ngram", before=5)},
    "anchor_ngram_unaligned": _anchored(sized=False, aligned=False, size=1, parts=12) | NGRAM,
    # A number that repeats another has its name; and the same without absolute positions.
    "anchor_named": _anchored(sized=False, size=1, parts=12, names=8) | NGRAM | NAMED,
    "anchor_named_free": _anchored(sized=False, size=1, parts=12, names=8)
    | NGRAM
    | NAMED
    | {"positions.sequence": dict(name="none")},
    # Only numbers that are neither given nor repeated are written lowest first; no absolute positions.
    "anchor_known": _anchored(sized=False, size=1, parts=12, known=True) | KNOWN,
    # The header of a given number says how many digits stand behind its point, as that of an answer has to.
    "anchor_known_decimals": _anchored(sized=False, size=1, parts=12, known=True, decimals=True) | KNOWN,
    # Our own: characters of residues, under which sums and products are rotations.
    "residues": SLOT
    | {
        "embeds.numeral": dict(name="residues", dim=128, fusion="replace"),
        "heads.next": dict(name="residues", integer=13, fraction=5),
    },
    # Our own: attention knows how many places two digits are apart. `coupled` with relative positions.
    "coupled_bias": _spelled("reversed", which="answers")
    | {"positions.sequence": dict(name="coupled_bias", ahead=True, numbers=8)},
    # Each place may hold a carry, over positions, one for each place; and with digits that hold no carry.
    "carry_save": _in_places(),
    "parallel": _in_places(digits="0..9"),
    "bittokens": SLOT
    | {"embeds.numeral": dict(name="bits", dim=128, fusion="replace"), "heads.next": dict(name="bits")},
    "bittokens_base10": SLOT
    | {"embeds.numeral": dict(name="base10", fusion="concat+linear"), "heads.next": dict(name="base10")},
    "numgpt": SLOT
    | {
        "embeds.numeral": dict(
            name="prototype", dim=64, sigma=0.5, low=-8, high=20, init_std=1.0, fusion="concat+linear"
        ),
        "heads.next": dict(name="mixture", density="learned", scale=2.5, keep=7, low=-8, high=20),
    },
    # Given numbers have a vector of their value, and answers are spelled. With [AGG] it is a sum of digits.
    "agg": _spelled("digits", layout="agg") | {"embeds.token": dict(name="digit_aggregate")},
    "luna": _spelled("digits", layout="value_after") | {"embeds.numeral": dict(name="char_lstm", fusion="add")},
    "value_prefix": _spelled("digits", layout="value") | {"embeds.numeral": dict(name="value_mlp", fusion="add")},
    "value_prefix_rnn": _spelled("digits", layout="value") | {"embeds.numeral": dict(name="char_lstm", fusion="add")},
    # As published: answers have a value too, for which a projection stands in while they are written.
    "value_prefix_projected": _spelled("value_prefix")
    | {
        "embeds.numeral": dict(name="value_mlp", fusion="add"),
        "heads.next": dict(name="prefix"),
        **_with_loss("projection", 1.0),
    },
    # A tree of digits for each number.
    "mathgpt": _spelled("trees", symbols=dict(path="", numbers=0, least=1), number_trees=True)
    | {
        "embeds.token": dict(name="linked", special_std=0.02),
        "embeds.type": dict(name="token_type"),
        "positions.tree": dict(name="tree", init_std=0.005),
        "heads.next": dict(name="joint", tied=True, bias=True),
        "objectives.next": dict(constrain=True, given=True),
    },
    # This vector is all that the model sees of a given number.
    "dice": _spelled("digits", layout="value_alone")
    | {"embeds.numeral": dict(name="dice", low=0.0, high=1e6, fusion="concat+linear")},
    # Losses beside the cross-entropy, on digits.
    "ntl": _spelled("digits", layout="digits") | _with_loss("ntl", 0.3),
    "ntl_number": _spelled("digits", layout="digits") | _with_loss("ntl", 0.3, level="number"),
    "ntl_mse": _spelled("digits", layout="digits") | _with_loss("ntl", 0.3, form="mse"),
    "dist2": _spelled("digits", layout="digits") | _with_loss("dist2", 0.3),
    "smmd": _spelled("digits", layout="digits") | _with_loss("smmd", 0.3),
    "del": _spelled("digits", layout="digits") | _with_loss("digit_entropy", 0.01),
}

get_config = Recipe(
    system={"objectives": dict(next=NLL)},
    task="add",
    tasks={name: {"task": dict(name="arithmetic", operations=name)} for name in TASKS},
    parts={"row": ROWS},
    bare="row",
    required={"row": "schemes needs a way of writing numbers, such as schemes:digits or schemes:fone; there are"},
    scale="cpu",
    scales={
        # Half a minute on two cores.
        "smoke": {
            "backbone": dict(width=64, layers=1, heads=4, init_std=0.08, dropout=0.0, max_length=152),
            "data": dict(length=120),
            "optim": dict(steps=600, batch_size=64, learning_rate=3e-3, schedule="cosine", warmup=50),
            "eval": dict(every=300, examples=200),
        },
        # Additions: ten minutes on two cores. All operations of the grid's scale cpu: an hour and more on one.
        "cpu": {
            "backbone": dict(width=128, layers=2, heads=4, init_std=0.08, dropout=0.0, max_length=160),
            "data": dict(length=120),
            "decode": dict(max_tokens=40),  # sums of two numbers of 30 digits, with their marks
            "optim": dict(steps=4000, batch_size=128, learning_rate=2e-3, schedule="cosine", warmup=200),
            "eval": dict(every=1000, examples=400),
        },
    },
)
