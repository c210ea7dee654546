"""TabBERT (Padhi et al. 2021) on card transactions, and LUNA's number plugin in it (Han et al. 2022).

    python -m numjax.main --config=configs/tabbert.py --workdir=runs/tabbert      # pre-training on made-up users
    python -m numjax.main --config=configs/tabbert.py:task=fraud --config.init_from=runs/tabbert --workdir=runs/fraud
    python -m numjax.main --config=configs/tabbert.py:paper,size=9M --config.task.path=FOLDER --workdir=…
    python -m numjax.main --config=configs/tabbert.py:paper,size=9M,task=fraud --config.task.path=FOLDER \\
      --config.init_from=… --workdir=…                     # folder of TabFormer's table; one GPU

Both on 2 cores: minutes. A fraud run has the number plugin of the run that it starts from (numtok=, size=).

Arguments: smoke | laptop | paper; task=pretrain|fraud; numtok=addback|replace|none (a number's vector is added to its
cell's token, or stands in its place); size=0.1M|1M|9M (parameters of the CharLSTM); for pre-training regress=on|off;
by=random|time|user (how windows are divided); as_published.
"""

from __future__ import annotations

from typing import Any

from ml_collections import ConfigDict

from configs import common

COLUMNS = (
    "User", "Card", "Timestamp", "Amount", "Use Chip", "Merchant Name", "Merchant City", "Merchant State", "Zip",
    "MCC", "Errors?",
)  # fmt: skip
ROWS, CELLS = 10, len(COLUMNS) + 1  # of a window; of a row, with [SEP]


def get_config(argument: str | None = None) -> ConfigDict:
    """The config for an argument such as "laptop,task=fraud,numtok=replace"."""
    return common.compose(
        argument,
        common.base(),
        tasks=TASKS,
        scales=SCALES,
        swaps={
            "numtok": NUMTOKS,
            "size": SIZES,
            "regress": {"on": regress, "off": no_regress},
            "by": {name: by(name) for name in ("random", "time", "user")},
        },
        as_published=as_published,
        default_task="pretrain",
        replacing=("numtok", "regress"),
    )


# --- Tasks.


def shared(config: Any) -> None:
    """A position a cell, 120 of a window; numbers added to their cells."""
    config.task = common.block(
        name="transactions",
        path="",
        by="random",
        stride=10,
        users=50,
        size=0,
        data_seed=0,
        time="s",
        fitted_on="train",
    )
    config.scheme = common.block(
        name="rows",
        pad_multiple=128,
        numbers=("Timestamp", "Amount", "Zip", "MCC"),
        signs=True,
        vocab=dict(
            name="cells", columns=COLUMNS, times=("Timestamp",), amounts=("Amount",), bins=10, signed=True, least=2
        ),
    )
    config.embeds = common.block(token=dict(name="token"))
    common.set_encoder(config, max_length=ROWS * CELLS)
    sizes = dict(width=64, columns=CELLS, layers=12, heads=12, mlp_ratio=4.0)
    fields = dict(field_layers=1, field_heads=8, field_mlp_width=64)
    config.backbone = common.block(**(config.backbone.to_dict() | sizes | fields | dict(name="tabular")))
    config.data.update(length=ROWS * CELLS, buckets=1)
    config.optim.update(weight_decay=0.0, betas=(0.9, 0.999))
    numtok("add")(config)


def pretrain(config: Any) -> None:
    """Masked cells among the values of their column; masked numbers by sign and logarithm."""
    shared(config)
    config.data.masking = common.block(
        rate=0.15, keep=0.1, random=0.1, literals=False, separators=False, everywhere=False
    )
    config.heads = common.block(masked=dict(name="masked", inner=0, tied=False, epsilon=1e-12))
    config.objectives = common.block(
        cells=dict(
            name="nll",
            head="masked",
            label=None,
            average="columns",
            columns=CELLS,
            constrain=True,
            given=False,
            room=0.25,
            weight=1.0,
        )
    )
    regress(config)
    config.optim.update(learning_rate=5e-5, schedule="linear", batch_size=24, epochs=3)


def fraud(config: Any) -> None:
    """An LSTM over the rows of a frozen encoder; as many windows with a fraud as without in training."""
    shared(config)
    config.task.name = "fraud"
    config.task.threshold = 0.0
    common.set_classifier(config, 2)
    config.heads.label.update(pool="lstm")
    config.heads.label.columns = CELLS
    config.backbone.dropout = 0.0
    config.data.balance = "label"
    config.optim.update(learning_rate=1e-3, clip=0.0, batch_size=256, epochs=10)
    config.optim.rates = (("^(embeds_|fuse_|backbone/)", 0.0),)


# --- The number plugin, and how windows are divided.


def numtok(fusion: str):
    """A CharLSTM's vector of each number, "add"ed to its token or in its place ("replace")."""

    def change(config: Any) -> None:
        config.embeds.numeral = common.block(name="char_lstm", parameters="0.1M", fusion=fusion, dim=64)
        config.data.shared = True  # zips, categories and prices come again: each string is encoded once a batch

    return change


def no_plugin(config: Any) -> None:
    """The baseline: bins and labels alone. Masked numbers may still be regressed (regress=on)."""
    del config.embeds["numeral"]
    config.data.shared = False


def size(parameters: str):
    """Another size of the CharLSTM."""

    def change(config: Any) -> None:
        if "numeral" not in config.embeds:
            raise ValueError("size= is of the number plugin: use it with numtok=addback or numtok=replace")
        config.embeds.numeral.parameters = parameters

    return change


def regress(config: Any) -> None:
    """L_R: masked numbers are regressed, each of the four columns by a mean of its own."""
    if config.task.name != "transactions":
        raise ValueError("regress= belongs to pre-training: use it with task=pretrain")
    config.heads.number = common.block(name="regression", inner=0, dropout=0.0, epsilon=1e-12)
    config.objectives.number = common.block(
        name="number", head="number", average="columns", columns=CELLS, weight=1.0
    )


def no_regress(config: Any) -> None:
    """L_C alone."""
    regress(config)
    del config.heads["number"], config.objectives["number"]


def by(how: str):
    """Windows divided at "random", as in the paper, by "time" or by "user"."""

    def change(config: Any) -> None:
        config.task.by = how

    return change


# --- Scales.


def resize(config: Any, width: int, **backbone: Any) -> None:
    """Sets every width."""
    config.backbone.update(width=width, **backbone)
    if "numeral" in config.embeds:
        config.embeds.numeral.dim = width
    for head in config.heads.values():
        if "inner" in head:
            head.inner = CELLS * width


def smoke(config: Any) -> None:
    """Seconds: for tests."""
    resize(config, 4, layers=1, heads=2, mlp_ratio=1.0, field_heads=2, field_mlp_width=8, dropout=0.0)
    if "numeral" in config.embeds:
        config.embeds.numeral.update(parameters="", hidden=4, layers=1)
    config.task.users = 5  # as few as can be parted by user
    config.data.train_size = 64
    config.optim.update(learning_rate=1e-3, batch_size=16, epochs=1)
    config.eval.update(batch_size=32, examples=64)


def laptop(config: Any) -> None:
    """Minutes on two cores, from scratch: larger steps, and kernels that are no smaller than 1/√width."""
    resize(
        config, 16, layers=2, heads=4, mlp_ratio=2.0, field_heads=2, field_mlp_width=32, dropout=0.0, init_std=0.07
    )
    if config.task.name == "transactions":
        config.optim.update(learning_rate=1e-3, warmup=50, batch_size=32, epochs=10)
    else:
        config.optim.update(batch_size=64, epochs=4)


def paper(config: Any) -> None:
    """TabFormer's widths, for its table (--config.task.path)."""
    resize(config, 64)


def as_published(config: Any) -> None:
    """Times in nanoseconds, no sign of amounts, neither in their bins nor as numbers; bins, tokens of all values and
    pre-training on all rows. Every cell is to be recovered, masked or not, [SEP] too. F1 at the threshold 0.5."""
    config.task.update(time="ns", fitted_on="all")
    config.scheme.signs = False
    config.scheme.vocab.update(signed=False, least=1)
    if config.task.name == "transactions":
        config.data.masking.update(everywhere=True, separators=True)
        config.objectives.cells.room = 0.0
    else:
        config.task.threshold = 0.5


TASKS = {"pretrain": pretrain, "fraud": fraud}
SCALES = {"smoke": smoke, "laptop": laptop, "paper": paper}
NUMTOKS = {"addback": numtok("add"), "replace": numtok("replace"), "none": no_plugin}
SIZES = {parameters: size(parameters) for parameters in ("0.1M", "1M", "9M")}
