"""DICE (Sundararaman et al. 2020): numbers as fixed points on a circle or a sphere.

    python -m numjax.main --config=configs/dice.py --workdir=runs/magnitude    # stand-in titles, 2 cores, minutes
    python -m numjax.main --config=configs/dice.py:paper --config.task.path=FOLDER --workdir=…    # Numeracy-600K

Arguments: smoke | laptop | paper; task=magnitude; embed=dice|dice_d|prototype|MODULE; size=32|64|128|256|512 (of
tokens and states); as_published.
"""

from __future__ import annotations

from typing import Any

from ml_collections import ConfigDict

from configs import common


def get_config(argument: str | None = None) -> ConfigDict:
    """The config for an argument such as "laptop,task=magnitude,embed=dice_d"."""
    return common.compose(
        argument,
        common.base(),
        tasks=TASKS,
        scales=SCALES,
        swaps={"embed": EMBEDS, "size": SIZES},
        as_published=as_published,
        default_task="magnitude",
        replacing=("embed",),
    )


def magnitude(config: Any) -> None:
    """The number of digits of a masked number, by a BiLSTM with attention (section 5.1).

    The numbers around the masked one are DICE vectors; the masked one is [MASK], a vector that starts out random.
    """
    config.task = common.block(
        name="magnitude", variant="titles", path="", size=20_000, num_classes=8, select="validation"
    )
    config.scheme.vocab.update(model="bpe", split_digits=True)
    config.scheme.name = "replace"
    config.backbone = common.block(name="bilstm", width=128, layers=1, dropout=0.0, dtype="auto", init_std=0.02)
    dice("2")(config)
    common.set_classifier(config, 8)
    config.heads.label.update(pool="attention", use_bias=False)
    config.optim.update(learning_rate=1e-3, weight_decay=0.0, batch_size=64, epochs=9)


def dice(form: str):
    """DICE in the place of a number's token; about 2% of the numbers lie outside its range."""

    def change(config: Any) -> None:
        config.embeds = common.block(
            token=dict(name="token"),
            numeral=dict(
                name="dice",
                form=form,
                low=0.0,
                high=100_000.0,
                out_of_range="random",
                as_printed=False,
                fusion="replace",
            ),
        )
        resize(config, config.backbone.width)

    return change


def other(name: str):
    """Any other numeral embedding, by the name of its file in numjax/embed/ or of your own module."""

    def change(config: Any) -> None:
        config.embeds.numeral = common.block(name=name, fusion="replace")
        resize(config, config.backbone.width)

    return change


def size(width: int):
    """Another width of tokens and states (Table 4)."""

    def change(config: Any) -> None:
        resize(config, width)

    return change


def resize(config: Any, width: int) -> None:
    """Sets every width; token vectors start out about as long as DICE's, which have length 1."""
    config.backbone.width = width
    if "numeral" in config.embeds:
        config.embeds.numeral.dim = width
    config.embeds.token.init_std = width**-0.5


def smoke(config: Any) -> None:
    """Seconds: for tests."""
    resize(config, 32)
    config.data.update(length=112, train_size=64)
    config.scheme.vocab.size = 400
    config.optim.update(batch_size=16, epochs=1)
    config.eval.update(batch_size=32, examples=64)


def laptop(config: Any) -> None:
    """Minutes on two cores: 128 dimensions, 8,000 training examples."""
    resize(config, 128)
    config.data.train_size = 8000


def paper(config: Any) -> None:
    """256 dimensions, all records, 9 epochs; one GPU. The paper states no batch size, optimiser or rate."""
    resize(config, 256)
    config.data.update(length=128, train_size=0)
    config.task.size = 0
    config.scheme.vocab.size = 8000


def as_published(config: Any) -> None:
    """Market comments in seven classes, eq. 6 as printed, the epoch chosen on test."""
    config.task.update(variant="comments", num_classes=7, select="test")
    config.heads.label.num_classes = 7
    if config.embeds.get("numeral", {}).get("name") == "dice":
        config.embeds.numeral.update(form="d", as_printed=True)


TASKS = {"magnitude": magnitude}
SCALES = {"smoke": smoke, "laptop": laptop, "paper": paper}
EMBEDS = {"dice": dice("2"), "dice_d": dice("d"), "*": other}
SIZES = {str(width): size(width) for width in (32, 64, 128, 256, 512)}
