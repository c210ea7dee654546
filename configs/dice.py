"""DICE (Sundararaman et al. 2020): numbers as fixed points on a circle or a sphere.

    python -m numjax.main --config=configs/dice.py --workdir=runs/magnitude    # stand-in titles, 2 cores, minutes
    python -m numjax.main --config=configs/dice.py:paper --config.task.path=FOLDER --workdir=…    # Numeracy-600K
    python -m numjax.main --config=configs/dice.py:task=squad --workdir=runs/squad   # BERT's shape, L_num, stand-in
    python -m numjax.main --config=configs/dice.py:paper,task=squad --config.task.path=FOLDER \\
      --config.init_from=BERT --config.scheme.vocab.path=BERT --workdir=…       # folders of BERT-base and SQuAD 1.1

To be expected of magnitudes at laptop: micro-F1 of 64%, macro-F1 of 25 to 28%, after four minutes of one core.

Arguments: smoke | laptop | paper; task=magnitude|squad; embed=dice|dice_d|prototype|MODULE; size=32|64|128|256|512
(of tokens and states); for squad lnum=on|off, numbers=0|1|2 (all questions, sub-split 1 or 2); as_published.
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
        swaps={"embed": EMBEDS, "size": SIZES, "lnum": {"on": lnum, "off": no_lnum}, "numbers": NUMBERS},
        as_published=as_published,
        default_task="magnitude",
        replacing=("embed", "lnum"),
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
    config.positions = common.block(sequence=dict(name="none"))
    dice("2")(config)
    common.set_classifier(config, 8)
    config.heads.label.update(pool="attention", use_bias=False)
    config.optim.update(learning_rate=1e-3, weight_decay=0.0, batch_size=64, epochs=9)


def squad(config: Any) -> None:
    """A span answers a question; the numbers' last hidden states obey L_num (section 5.2, appendix B).

    The paper states λ, the epochs and the model; the rest is BERT's own for SQuAD.
    """
    config.task = common.block(name="span_answer", path="", numbers=1, size=0)
    config.scheme = common.block(
        name="subword",
        rules="default",
        pad_multiple=128,
        types=True,
        vocab=dict(name="wordpiece", path="", size=8000, lower=True),
    )
    config.embeds = common.block(token=dict(name="token"))
    common.set_encoder(config, max_length=384)
    config.heads = common.block(span=dict(name="span", longest=30))
    # BERT's loss is the mean of the start's and the end's, ours their sum.
    config.objectives = common.block(span=dict(name="nll", head="span", label="span", weight=0.5))
    lnum(config)
    config.data.update(length=384, overflow="windows")
    config.data.stride = 128
    config.optim.update(
        learning_rate=3e-5, schedule="linear", weight_decay=0.01, betas=(0.9, 0.999), batch_size=32, epochs=3
    )


def lnum(config: Any) -> None:
    """L_num over all pairs of a context's numbers."""
    if config.task.name != "span_answer":
        raise ValueError("lnum= belongs to span answers: use it with task=squad")
    config.objectives.numbers = common.block(
        name="cosine_distance", of="final", within="row", pairs=0, norm="abs", token_type=1, weight=1e-3
    )


def no_lnum(config: Any) -> None:
    """The baseline."""
    lnum(config)
    del config.objectives["numbers"]


def numbers(which: int):
    """All questions, or a sub-split of those with numbers for answers."""

    def change(config: Any) -> None:
        if config.task.name != "span_answer":
            raise ValueError("numbers= belongs to span answers: use it with task=squad")
        config.task.numbers = which

    return change


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
    if config.task.name == "span_answer":
        return
    if "numeral" in config.embeds:
        config.embeds.numeral.dim = width
    config.embeds.token.init_std = width**-0.5


def smoke(config: Any) -> None:
    """Seconds: for tests."""
    resize(config, 32)
    config.data.update(length=112, train_size=64)
    config.scheme.vocab.size = 400
    if config.task.name == "span_answer":
        config.backbone.update(heads=2, max_length=112)
        config.data.stride = 48
        config.task.size = 400
        config.optim.learning_rate = 1e-3
    config.optim.update(batch_size=16, epochs=1)
    config.eval.update(batch_size=32, examples=64)


def laptop(config: Any) -> None:
    """Minutes on two cores: 128 dimensions, 8,000 training examples."""
    resize(config, 128)
    config.data.train_size = 8000
    if config.task.name == "span_answer":
        # From scratch, on short texts: larger steps, and kernels that are no smaller than 1/√width.
        config.backbone.update(layers=2, heads=4, init_std=0.08, dropout=0.0)
        config.scheme.vocab.size = 2000
        config.optim.update(learning_rate=1e-3, warmup=100, batch_size=16, epochs=10)


def paper(config: Any) -> None:
    """256 dimensions, all records, 9 epochs; one GPU. The paper states no batch size, optimiser or rate.

    For span answers BERT-base-uncased, which init_from and scheme.vocab.path name; 3 epochs.
    """
    if config.task.name == "span_answer":
        config.backbone.update(width=768, layers=12, heads=12, max_length=512)
        config.data.train_size = 0
        config.optim.warmup = 50
        return
    resize(config, 256)
    config.data.update(length=128, train_size=0)
    config.task.size = 0
    config.scheme.vocab.size = 8000


def as_published(config: Any) -> None:
    """Market comments in seven classes, eq. 6 as printed, the epoch chosen on test. Of span answers: one random pair
    of numbers a batch, and what the last epoch has learned."""
    if config.task.name == "span_answer":
        config.eval.best = False
        if "numbers" in config.objectives:
            config.objectives.numbers.update(within="batch", pairs=1)
        return
    config.task.update(variant="comments", num_classes=7, select="test")
    config.heads.label.num_classes = 7
    if config.embeds.get("numeral", {}).get("name") == "dice":
        config.embeds.numeral.as_printed = True  # DICE-2 is printed as it is


TASKS = {"magnitude": magnitude, "squad": squad}
NUMBERS = {str(which): numbers(which) for which in (0, 1, 2)}
SCALES = {"smoke": smoke, "laptop": laptop, "paper": paper}
EMBEDS = {"dice": dice("2"), "dice_d": dice("d"), "*": other}
SIZES = {str(width): size(width) for width in (32, 64, 128, 256, 512)}
