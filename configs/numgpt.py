"""NumGPT (Jin et al. 2021): prototype mantissas, learned exponents, a numeral-aware loss.

    python -m numjax.main --config=configs/numgpt.py --workdir=runs/mme              # the paper's MME, 3 min, ~96%
    python -m numjax.main --config=configs/numgpt.py:task=measures --workdir=runs/measures   # 2 cores, 6 min, ~98%
    python -m numjax.main --config=configs/numgpt.py:task=mwpas --workdir=runs/mwpas
    python -m numjax.main --config=configs/numgpt.py:task=generation --workdir=runs/generation     # estimates of sums
    python -m numjax.main --config=configs/numgpt.py:task=generation,system=digits --workdir=runs/sums  # exact digits
    python -m numjax.main --config=configs/numgpt.py:task=problems --workdir=runs/problems      # in many wordings
    python -m numjax.main --config=configs/numgpt.py:paper,task=mme --workdir=…      # the paper's sizes, one GPU

Arguments: smoke | laptop | paper; system=numgpt|gpt|digits|dice (the columns of Table 1);
task=mme|gnc|mwpas|mwpas_hard|generation|magnitude|text, and in many wordings measures|mwpas_many|problems;
embed=prototype|dice|dice_d|MODULE; density=printed|scaled|learned; as_published.
"""

from __future__ import annotations

from typing import Any

from ml_collections import ConfigDict

from configs import common

MIXTURE = dict(density="printed", scale=2.5, keep=5, tied=False)


def get_config(argument: str | None = None) -> ConfigDict:
    """The config for an argument such as "laptop,task=mwpas,embed=dice"."""
    config = common.base()
    numgpt(config)
    return common.compose(
        argument,
        config,
        tasks=TASKS,
        scales=SCALES,
        swaps={"system": SYSTEMS, "embed": EMBEDS, "density": DENSITIES},
        as_published=as_published,
        default_task="mme",
        replacing=("system", "embed"),
    )


def numgpt(config: Any) -> None:
    """One position a numeral, its prototype embedding fused in, a mixture head where text is predicted.

    Exponent vectors start as large as the mantissa's features are; at the 0.02 of the other tables a model cannot
    tell 3 from 3,000 for the first hundreds of steps.
    """
    config.scheme = common.block(
        name="replace",
        rules=config.scheme.rules,
        pad_multiple=128,
        vocab=dict(name="sentencepiece", model="bpe", size=2000, split_digits=True),
    )
    config.embeds = common.block(
        token=dict(name="token"),
        numeral=dict(name="prototype", dim=64, sigma=0.5, low=-8, high=12, init_std=1.0, fusion="concat+linear"),
    )
    if "next" in config.heads:
        common.set_language_model(config, "mixture", **MIXTURE)


def plain(scheme: str):
    """A GPT that reads numbers as text: subwords or digits."""

    def change(config: Any) -> None:
        config.scheme = common.block(
            name=scheme,
            rules=config.scheme.rules,
            pad_multiple=128,
            vocab=dict(name="sentencepiece", model="bpe", size=2000, split_digits=False),
        )
        config.embeds = common.block(token=dict(name="token"))
        if "next" in config.heads:
            common.set_language_model(config, "token", tied=False)

    return change


def dice(form: str):
    """DICE in the place of the prototype embedding; about 2% of the numbers lie outside its range."""

    def change(config: Any) -> None:
        numgpt(config)
        config.embeds.numeral = common.block(
            name="dice",
            dim=64,
            form=form,
            low=0.0,
            high=100_000.0,
            out_of_range="random",
            as_printed=False,
            fusion="concat+linear",
        )

    return change


def other(name: str):
    """Any other numeral embedding, by the name of its file in numjax/embed/ or of your own module."""

    def change(config: Any) -> None:
        numgpt(config)
        config.embeds.numeral = common.block(name=name, dim=64, fusion="concat+linear")

    return change


def density(name: str):
    """How the mantissa's density is scaled."""

    def change(config: Any) -> None:
        if "density" not in config.heads.get("next", {}):
            raise ValueError("density= belongs to a mixture head: use it with task=generation or task=text")
        config.heads.next.density = name

    return change


def statement(dataset: str, **options):
    """True or false, from a question with an answer or a sentence."""

    def change(config: Any) -> None:
        config.task = common.block(name="statement", dataset=dataset, **options)
        common.set_classifier(config, 2)

    return change


def measures(config: Any) -> None:
    """MME in many wordings, counts in words too: answers what someone types (experiments/measures)."""
    statement("mme", wordings="many")(config)
    config.scheme.rules = "words"


def mwpas_many(config: Any) -> None:
    """MWPAS of problems composed in many wordings, whose numbers may be words."""
    statement("mwpas", negatives="hard", wordings="many")(config)
    config.scheme.rules = "words"


def generation(config: Any) -> None:
    """Writes the answer of a word problem: one number."""
    config.task = common.block(name="generation", answer="number")
    common.set_language_model(config, "mixture", **MIXTURE)


def problems(config: Any) -> None:
    """Writes the answer of problems composed in many wordings, whose numbers may be words."""
    generation(config)
    with config.unlocked():
        config.task.dataset = "problems"
    config.scheme.rules = "words"


def magnitude(config: Any) -> None:
    """The number of digits of a masked numeral (Numeracy-600K, or its stand-in)."""
    config.task = common.block(name="magnitude", variant="titles", path="", size=20_000, num_classes=8)
    common.set_classifier(config, 8)
    config.optim.epochs = 5


def text(config: Any) -> None:
    """Pre-training on a folder of text."""
    config.task = common.block(name="language_model", path="")
    common.set_language_model(config, "mixture", **MIXTURE)
    config.data.pack = True
    config.data.overflow = "split"
    config.backbone.packed = True
    config.optim.epochs = 1


def composed(config: Any) -> bool:
    """Whether its problems are those of data/problems, which are long and have many words."""
    task = config.task
    return task.get("dataset") == "problems" or (task.get("dataset") == "mwpas" and task.get("wordings") == "many")


def smoke(config: Any) -> None:
    """Seconds: for tests."""
    config.backbone.update(width=32, layers=2, heads=2, max_length=128)
    config.data.update(length=112, train_size=64)
    config.decode.max_tokens = 16
    config.scheme.vocab.size = 400
    config.optim.update(batch_size=16, epochs=1, learning_rate=1e-3)
    config.eval.update(batch_size=32, examples=64)
    if config.task.get("wordings") == "many" or composed(config):
        config.task.size = 400
    if config.task.get("dataset") == "problems":
        config.task.test = 10
    if composed(config):
        # So small a vocabulary cuts words to letters.
        config.backbone.max_length, config.data.length = 320, 280


def laptop(config: Any) -> None:
    """Minutes on two cores: 2 layers × 128, 8,000 training examples."""
    # At 12 × 768 a kernel's 0.02 is about half of 1/√width; as small as that at 128 it delays learning by epochs.
    config.backbone.update(width=128, layers=2, heads=4, max_length=160, init_std=0.08, dropout=0.0)
    config.data.train_size = 8000
    config.optim.update(batch_size=32, learning_rate=1e-3, schedule="cosine", warmup=200)
    if composed(config) or config.task.get("wordings") == "many":
        config.task.size = 100_000
        config.data.train_size = 0
        config.eval.examples = 2000
        config.optim.update(epochs=5, warmup=400)
    if composed(config):
        config.optim.epochs = 2
        config.scheme.vocab.size = 4000
        config.backbone.max_length, config.data.length = 200, 160
    elif config.task.name == "statement" and config.task.get("wordings") != "many":
        config.optim.epochs = 20 if config.task.dataset == "mme" else 10


def paper(config: Any) -> None:
    """12 layers × 768, batch 96, 6.25e-5, 50 epochs (5 for magnitudes, 1 for text); one GPU."""
    config.backbone.update(width=768, layers=12, heads=12, max_length=512, dtype="bfloat16")
    config.data.length = 480 if config.task.name == "language_model" else 128
    config.data.train_size = 0
    config.optim.update(batch_size=96, learning_rate=6.25e-5)
    if config.task.name in ("statement", "generation"):
        config.optim.epochs = 50
    config.scheme.vocab.size = 8000


def as_published(config: Any) -> None:
    """The authors' code: its numeral rules and initial exponents, numbers read back to nine digits, losses averaged
    over padding, pooling of the last padded position, answers that are whatever the model writes."""
    config.scheme.rules = "numgpt"
    if config.embeds.get("numeral", {}).get("name") == "prototype":
        config.embeds.numeral.init_std = 0.02
    if config.task.name == "generation":
        config.task.answer = "text"
    if "label" in config.heads:
        config.heads.label.pool = "last_padded"
    if "next" in config.heads:
        config.objectives.next.average = "all"
        if config.heads.next.name == "mixture":
            config.heads.next.update(keep=9, density="printed", tied=False)


TASKS = {
    "measures": measures,
    "mme": statement("mme"),
    "gnc": statement("gnc"),
    "mwpas": statement("mwpas", negatives="plain"),
    "mwpas_hard": statement("mwpas", negatives="hard"),
    "mwpas_many": mwpas_many,
    "generation": generation,
    "problems": problems,
    "magnitude": magnitude,
    "text": text,
}
SCALES = {"smoke": smoke, "laptop": laptop, "paper": paper}
EMBEDS = {"prototype": numgpt, "dice": dice("2"), "dice_d": dice("d"), "*": other}
SYSTEMS = {"numgpt": numgpt, "gpt": plain("subword"), "digits": plain("digits"), "dice": dice("2")}
DENSITIES = {name: density(name) for name in ("printed", "scaled", "learned")}
