"""DICE (Sundararaman et al. 2020): numbers as fixed points on a circle or a sphere.

    numjax train --config=dice --workdir=runs/magnitude                     # stand-in titles, 2 cores, minutes
    numjax train --config=dice:paper --config.task.path=FOLDER --workdir=…  # Numeracy-600K
    numjax train --config=dice:task=squad --workdir=runs/squad              # BERT's shape, L_num, stand-in
    numjax train --config=dice:paper,task=squad --config.task.path=FOLDER \\
      --config.init_from=BERT --config.scheme.vocab.path=BERT --workdir=…   # folders of BERT-base and SQuAD 1.1
    numjax train --config=dice:overnight,task=squad,bert=minilm --config.task.path=FOLDER --workdir=…

Expected for magnitudes at laptop: micro-F1 64%, macro-F1 25 to 28%, after four minutes on one core.

Arguments: smoke | laptop | overnight | paper; task=magnitude|squad; embed=dice|dice_d|prototype|MODULE;
size=32|64|128|256|512 (of tokens and states); for squad lnum=on|off, numbers=0|1|2 (all questions, sub-split 1 or 2),
bert=minilm (start from the weights of `make pretrained`); as_published.
"""

from __future__ import annotations

from typing import Any

from numjax.bundled.configs import presets
from numjax.config.recipe import SIZES, Recipe

# The vector of a number replaces its token's: a point at an angle that depends on the value. About 2% of the numbers
# are outside the range. The masked number is [MASK], whose vector starts random. A BiLSTM with attention reads the
# vectors (section 5.1).
DICE = {
    "scheme": dict(
        name="replace",
        rules="default",
        vocab=dict(name="sentencepiece", model="bpe", size=2000, split_digits=True),
    ),
    "embeds": dict(
        token=dict(name="token"),
        numeral=dict(
            name="dice", form="2", low=0.0, high=100_000.0, out_of_range="random", as_printed=False, fusion="replace"
        ),
    ),
    "positions": dict(sequence=dict(name="none")),
    "backbone": dict(name="bilstm", width=128, layers=1, dropout=0.0, dtype="auto", init_std=0.02),
    "optim": dict(learning_rate=1e-3, weight_decay=0.0, batch_size=64, epochs=9),
}


def width_changes(dims: int) -> dict[str, Any]:
    """Sets the width of tokens and states. Token vectors start about as long as DICE's, which have length 1."""
    return {"backbone": dict(width=dims), "embeds.token": dict(init_std=dims**-0.5)}


# L_num applies to all pairs of numbers in a context.
L_NUM = dict(name="cosine_distance", of="final", within="row", pairs=0, norm="abs", token_type=1, weight=1e-3)
TASKS = {
    # The number of digits of a masked number.
    "magnitude": {
        "task": dict(name="magnitude", variant="titles", path="", size=20_000, num_classes=8, select="validation"),
        "heads.label": dict(pool="attention", use_bias=False),
        "when": {
            "smoke": width_changes(32),
            "laptop": width_changes(128),
            "paper": width_changes(256)
            | {"data": dict(length=128, train_size=0), "task": dict(size=0), "scheme.vocab": dict(size=8000)},
            # Market comments in seven classes, eq. 6 as printed; the test split chooses the epoch.
            "as_published": {
                "task": dict(variant="comments", num_classes=7, select="test"),
                "embeds.numeral:dice": dict(as_printed=True),
            },
        },
    },
    # A span answers a question. L_num applies to the last hidden states of the numbers (section 5.2, appendix B). The
    # paper states λ, the epochs and the model; the rest is as in BERT for SQuAD.
    "squad": {
        "task": dict(name="span_answer", path="", numbers=1, size=0),
        "scheme": dict(
            name="subword",
            rules="default",
            types=True,
            vocab=dict(name="wordpiece", path="", size=8000, lower=True),
        ),
        "embeds": dict(token=dict(name="token")),
        "positions": dict(sequence=dict(name="learned")),
        "backbone": SIZES | presets.PRESETS["bert"].backbone | dict(max_length=384),
        "objectives.numbers": L_NUM,
        "data": dict(length=384, overflow="windows", stride=128),
        "optim": dict(
            learning_rate=3e-5, schedule="linear", weight_decay=0.01, betas=(0.9, 0.999), batch_size=32, epochs=3
        ),
        "when": {
            "smoke": {
                "backbone": dict(width=32, heads=2, max_length=112),
                "data": dict(stride=48),
                "task": dict(size=400),
                "optim": dict(learning_rate=1e-3, epochs=1),
            },
            # From scratch, on short texts: a larger learning rate, and kernels not smaller than 1/√width.
            "laptop": {
                "backbone": dict(width=128, layers=2, heads=4, init_std=0.08, dropout=0.0),
                "scheme.vocab": dict(size=2000),
                "optim": dict(learning_rate=1e-3, warmup=100, batch_size=16, epochs=10),
            },
            # BERT-base-uncased: set init_from and scheme.vocab.path to its folder.
            "paper": {
                "backbone": dict(width=768, layers=12, heads=12, max_length=512),
                "data": dict(train_size=0),
                "optim": dict(warmup=50),
            },
            # One random pair of numbers a batch; the last epoch, not the best.
            "as_published": {
                "eval": dict(best=False),
                "objectives.numbers?": dict(within="batch", pairs=1),
            },
        },
    },
}
PARTS = {
    "embed": {
        "dice": {"needs": "embeds.numeral"},
        "dice_d": {"needs": "embeds.numeral", "embeds.numeral": dict(form="d")},
        # Any other, by the name of its file in numjax/embed/ or of your own module.
        "*": {"needs": "embeds.numeral", "embeds.numeral": dict(name="*", fusion="replace")},
    },
    "lnum": {
        "on": {"needs": "task:span_answer"},
        "off": {"needs": "task:span_answer", "objectives.numbers": None},
    },
}
# all-MiniLM-L6-v2 with its vocabulary, 22.7 M weights, as `make pretrained` installs it. Answers need a new head.
MINILM = {
    "needs": "task:span_answer",
    "init_from": "pretrained:minilm",
    "scheme.vocab": dict(name="wordpiece", path="pretrained:minilm", lower=True),
    "backbone": dict(width=384, layers=6, heads=12, init_std=0.02, max_length=512, dropout=0.1),
    "optim": dict(learning_rate=1e-4, warmup=5, batch_size=16),
}
OPTIONS = {
    "bert": {"minilm": MINILM},
    # Width of tokens and states (Table 4).
    "size": {
        str(dims): {"backbone": dict(width=dims), "when": {"task=magnitude": width_changes(dims)}}
        for dims in (32, 64, 128, 256, 512)
    },
    # All questions, or a sub-split of the questions whose answers are numbers.
    "numbers": {str(which): {"needs": "task:span_answer", "task": dict(numbers=which)} for which in (0, 1, 2)},
}
SCALES = {
    # Seconds: for tests.
    "smoke": {
        "data": dict(length=112, train_size=64),
        "scheme.vocab": dict(size=400),
        "optim": dict(batch_size=16, epochs=1),
        "eval": dict(batch_size=32, examples=64),
    },
    # Minutes on two cores: 8,000 training examples.
    "laptop": {"data": dict(train_size=8000)},
    # All training examples; answers to questions need bert=minilm.
    "overnight": {"from": "laptop", "data": dict(train_size=0)},
    # One GPU. The paper states no batch size, optimiser or rate for magnitudes.
    "paper": {},
}

get_config = Recipe(
    system=DICE,
    task="magnitude",
    tasks=TASKS,
    parts=PARTS,
    scale="laptop",
    scales=SCALES,
    options=OPTIONS,
    as_published={},
)
