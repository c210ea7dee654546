"""TabBERT (Padhi et al. 2021) on card transactions, with LUNA's number plugin (Han et al. 2022).

    numjax train --config=tabbert --workdir=runs/tabbert  # pre-training on generated users
    numjax train --config=tabbert:task=fraud --config.init_from=runs/tabbert --workdir=runs/fraud
    numjax train --config=tabbert:paper,size=9M --config.task.path=FOLDER --workdir=…
    numjax train --config=tabbert:paper,size=9M,task=fraud --config.task.path=FOLDER \\
      --config.init_from=… --workdir=…                    # folder of TabFormer's table; one GPU

Both take minutes on 2 cores. A fraud run needs the number plugin of the run that it starts from (numtok=, size=).

Arguments: smoke | laptop | paper; task=pretrain|fraud; numtok=addback|replace|none (a number's vector is added to its
cell's token, or replaces it); size=0.1M|1M|9M (parameters of the CharLSTM); for pre-training regress=on|off;
by=random|time|user (how windows are split); as_published.
"""

from __future__ import annotations

from typing import Any

from numjax.config.recipe import SIZES, Recipe
from numjax.tasks.transactions import COLUMNS

ROWS, CELLS = 10, len(COLUMNS) + 1  # rows of a window; cells of a row, with [SEP]

# A position for each cell, 120 in a window. A CharLSTM's vectors of numbers are added to their cells.
TABBERT = {
    "scheme": dict(
        name="rows",
        numbers=("Timestamp", "Amount", "Zip", "MCC"),
        signs=True,
        vocab=dict(
            name="cells", columns=COLUMNS, times=("Timestamp",), amounts=("Amount",), bins=10, signed=True, least=2
        ),
    ),
    "embeds": dict(token=dict(name="token"), numeral=dict(name="char_lstm", parameters="0.1M", fusion="add")),
    "positions": dict(sequence=dict(name="learned")),
    "backbone": SIZES
    | dict(
        name="tabular",
        width=64,
        columns=CELLS,
        layers=12,
        heads=12,
        mlp_ratio=4.0,
        field_layers=1,
        field_heads=8,
        field_mlp_width=64,
        max_length=ROWS * CELLS,
    ),
    # Zips, categories and prices repeat: each string is encoded once a batch.
    "data": dict(length=ROWS * CELLS, buckets=1, shared=True),
    "optim": dict(weight_decay=0.0, betas=(0.9, 0.999)),
}
WINDOWS = dict(path="", by="random", stride=10, users=50, size=0, data_seed=0, time="s", fitted_on="train")


def inner_widths(width: int) -> dict[str, Any]:
    """Sets the width of the heads' hidden layers: that of all cells of a row together."""
    return {"heads.masked": dict(inner=CELLS * width), "heads.number?": dict(inner=CELLS * width)}


TASKS = {
    # Masked cells are classified among the values of their column. Masked numbers are regressed, by sign and
    # logarithm; the loss is averaged in each of the four columns by itself.
    "pretrain": {
        "task": dict(name="transactions", **WINDOWS),
        "heads.number": dict(name="regression", inner=0, dropout=0.0, epsilon=1e-12),
        "objectives.number": dict(name="number", head="number", average="columns", columns=CELLS, weight=1.0),
        "optim": dict(learning_rate=5e-5, schedule="linear", batch_size=24, epochs=3),
        "when": {
            "smoke": inner_widths(4),
            "laptop": inner_widths(16) | {"optim": dict(learning_rate=1e-3, warmup=50, batch_size=32, epochs=10)},
            "paper": inner_widths(64),
            "as_published": {
                "data": dict(masking=dict(everywhere=True, separators=True)),
                "objectives.cells": dict(room=0.0),
            },
        },
    },
    # An LSTM over the rows of a frozen encoder. Training has as many windows with a fraud as without.
    "fraud": {
        "task": dict(name="fraud", threshold=0.0, **WINDOWS),
        "heads.label": dict(pool="lstm", columns=CELLS),
        "backbone": dict(dropout=0.0),
        "data": dict(balance="label"),
        "optim": dict(
            learning_rate=1e-3, clip=0.0, batch_size=256, epochs=10, rates=(("^(embeds_|fuse_|backbone/)", 0.0),)
        ),
        "when": {
            "laptop": {"optim": dict(batch_size=64, epochs=4)},
            "as_published": {"task": dict(threshold=0.5)},
        },
    },
}
PARTS = {
    "numtok": {
        # A number's vector is added to its cell's token, or replaces it.
        "addback": {},
        "replace": {"embeds.numeral": dict(fusion="replace")},
        # Only bins and labels. Masked numbers may still be regressed.
        "none": {"embeds.numeral": None, "data": dict(shared=False)},
    },
    # With L_R, or only L_C.
    "regress": {
        "on": {"needs": "task:transactions"},
        "off": {"needs": "task:transactions", "heads.number": None, "objectives.number": None},
    },
}
OPTIONS = {
    # Parameters of the CharLSTM.
    "size": {
        size: {"needs": "embeds.numeral", "embeds.numeral": dict(parameters=size)} for size in ("0.1M", "1M", "9M")
    },
    # How windows are split; in the paper, at random.
    "by": {how: {"task": dict(by=how)} for how in ("random", "time", "user")},
}
SCALES = {
    # Seconds: for tests. The fewest users that can be split.
    "smoke": {
        "backbone": dict(width=4, layers=1, heads=2, mlp_ratio=1.0, field_heads=2, field_mlp_width=8, dropout=0.0),
        "embeds.numeral?": dict(parameters="", hidden=4, layers=1),
        "task": dict(users=5),
        "data": dict(train_size=64),
        "optim": dict(learning_rate=1e-3, batch_size=16, epochs=1),
        "eval": dict(batch_size=32, examples=64),
    },
    # Minutes on two cores, from scratch: a larger learning rate, and kernels not smaller than 1/√width.
    "laptop": {
        "backbone": dict(
            width=16,
            layers=2,
            heads=4,
            mlp_ratio=2.0,
            field_heads=2,
            field_mlp_width=32,
            dropout=0.0,
            init_std=0.07,
        ),
    },
    # TabFormer's widths, for its table (--config.task.path).
    "paper": {"backbone": dict(width=64)},
}
# Times in nanoseconds. Amounts without a sign, both in bins and as numbers. Bins, tokens and pre-training use all
# rows, and every value has a token. Every cell is predicted, masked or not, also [SEP]. F1 at the threshold 0.5.
AS_PUBLISHED = {
    "task": dict(time="ns", fitted_on="all"),
    "scheme": dict(signs=False),
    "scheme.vocab": dict(signed=False, least=1),
}

get_config = Recipe(
    system=TABBERT,
    task="pretrain",
    tasks=TASKS,
    parts=PARTS,
    scale="laptop",
    scales=SCALES,
    options=OPTIONS,
    as_published=AS_PUBLISHED,
)
