"""Digit aggregation (How to Leverage Digit Embeddings to Represent Numbers?): [AGG] in the input, a loss on digits.

    python -m numjax.main --config=configs/digits.py --workdir=runs/digits                # [F] d…d [/F], MAWPS's form
    python -m numjax.main --config=configs/digits.py:layout=agg --workdir=…               # [F] [AGG] d…d [/F]
    python -m numjax.main --config=configs/digits.py:aux=soft --workdir=…                 # the auxiliary loss
    python -m numjax.main --config=configs/digits.py:task=fermat,backbone=bart --workdir=…
    python -m numjax.main --config=configs/digits.py:system=gpt --workdir=…               # a decoder alone
    python -m numjax.main --config=configs/digits.py:paper,task=fermat --workdir=…        # the paper's sizes, one GPU

    python -m numjax.main --config=configs/digits.py:paper,backbone=flan --config.scheme.vocab.path=FLAN \
        --config.init_from=FLAN --workdir=…                              # from a folder of FLAN base's files

To be expected at laptop, where nothing is pretrained: 2 to 3% of MAWPS's problems solved after four minutes of one
core, which a constant answer does too, and less than 1% of FERMAT's after ten.

Arguments: smoke | laptop | paper; task=mawps|svamp|asdiv|addsub|fermat; layout=plain|digits|agg|agg_after|pause;
aux=off|soft|straight|literal; backbone=t5|bart from scratch, or what files of weights want: flan (T5 1.1 too),
t5_1.0, bart; system=gpt; as_published. Each task reads the files where `--config.task.path` says, else generated
ones.
"""

from __future__ import annotations

from typing import Any

from ml_collections import ConfigDict

from configs import common

# Weight of the cross-entropy, λ of eq. 3, by task and backbone (Table 4; FLAN base stands for T5).
LAMBDAS = {("mawps", "t5"): 0.6, ("mawps", "bart"): 0.6, ("fermat", "t5"): 0.65, ("fermat", "bart"): 0.6}


def get_config(argument: str | None = None) -> ConfigDict:
    """The config for an argument such as "laptop,task=fermat,layout=agg"."""
    config = common.base()
    return common.compose(
        argument,
        config,
        tasks=TASKS,
        scales=SCALES,
        swaps={"backbone": BACKBONES, "system": SYSTEMS, "layout": LAYOUTS, "aux": LOSSES},
        as_published=as_published,
        default_task="mawps",
        replacing=("backbone", "system"),
    )


def task(form: str):
    """What sets up a word-problem task: T5's encoder and decoder over digits between [F] and [/F]."""

    def chosen(config: Any) -> None:
        config.task = common.block(name="word_problem", form=form, path="", encoder=True, as_published=False)
        if form == "fermat":
            config.task = common.block(**config.task, views="paper")
        config.scheme = common.block(
            name="digits",
            rules="digits",
            layout="digits",
            until="[CLS]",
            pad_multiple=128,
            vocab=dict(name="sentencepiece", model="bpe", size=2000, split_digits=True, path=""),
        )
        config.embeds = common.block(token=dict(name="digit_aggregate", aggregate="weighted", gradient=True))
        common.set_language_model(config, "token", tied=True)
        t5(config)
        with config.unlocked():
            config.data.source_length = 0
        config.decode.beams = 3

    return chosen


def t5(config: Any) -> None:
    """T5 1.1's stacks: relative positions, RMS norms before, a gated MLP."""
    kept = {key: value for key, value in config.backbone.items() if key not in ("scan", "packed", "init_std")}
    config.backbone = common.block(**kept | dict(name="encoder_decoder"))


def bart(config: Any) -> None:
    """BART's stacks: learned positions, layer norms behind, biases; a tied head with a bias."""
    common.set_encoder_decoder(config, "bart")
    # From scratch, kernels start as t5's.
    del config.backbone["shrink"], config.backbone["initial"]


def published(form: str):
    """The stacks and the head that T5's or FLAN's files of weights are of."""

    def chosen(config: Any) -> None:
        common.set_encoder_decoder(config, form, head_size=0, mlp_width=0, encoder_layers=0)

    return chosen


def gpt(config: Any) -> None:
    """A decoder alone, which reads the question as its prompt."""
    config.backbone = common.base().backbone
    config.task.encoder = False
    config.scheme.until = "[SEP]"


def layout(name: str):
    """How numbers are laid out in questions."""

    def chosen(config: Any) -> None:
        config.scheme.layout = name

    return chosen


def auxiliary(prediction: str):
    """λ · CE + (1 − λ) · AUX (eq. 3) with the auxiliary loss in one of its forms."""

    def chosen(config: Any) -> None:
        form = "fermat" if config.task.form == "fermat" else "mawps"
        # The paper's own, whose digits have no gradient.
        used = "literal" if config.task.as_published else prediction
        weight = LAMBDAS[form, "bart" if config.backbone.get("norm_place") == "post" else "t5"]
        config.objectives.next.weight = weight
        aux = dict(name="digit_aggregate", head="next", prediction=used, weight=1 - weight)
        config.objectives = common.block(next=config.objectives.next, aux=aux)

    return chosen


def no_auxiliary(config: Any) -> None:
    """Cross-entropy alone."""
    del config


def smoke(config: Any) -> None:
    """Seconds: for tests."""
    config.backbone.update(width=32, layers=1, heads=2)
    config.data.train_size = 64
    config.data.buckets = 1  # one shape, one compilation
    config.scheme.vocab.size = 500
    config.optim.update(batch_size=16, epochs=1, learning_rate=1e-3)
    config.eval.update(batch_size=32, examples=32)
    config.decode.batch_size = 32
    room(config, 128, 24)


def laptop(config: Any) -> None:
    """Minutes on one core: 2 layers × 128 on either side, 20 times 4,000 training problems at most. FERMAT's are made
    from templates: 40,000 of them once, since of 4,000 the loss on others rises again from the third epoch on."""
    made = config.task.form == "fermat"
    config.backbone.update(width=128, layers=2, heads=4, dropout=0.1)
    config.data.train_size = 40_000 if made else 4000
    config.optim.update(
        batch_size=32,
        epochs=1 if made else 20,
        learning_rate=1e-3,
        schedule="cosine",
        warmup=100,
        weight_decay=0.005,
    )
    # The loss chooses the epoch: nothing need be written before the end.
    config.eval.update(examples=500, generate=False)
    if made:
        config.eval.every = 250
    room(config, 128, 24)


def paper(config: Any) -> None:
    """The paper's base sizes, batches and learning rates (Table 4), from scratch unless `--config.init_from` says.
    FLAN base has 12 layers × 768 a side, BART base 6; one GPU."""
    post = config.backbone.get("norm_place") == "post"
    fermat = config.task.form == "fermat"
    config.backbone.update(width=768, layers=6 if post else 12, heads=12, dropout=0.1, dtype="float32")
    if config.backbone.get("gated", False) and "mlp_width" in config.backbone:
        config.backbone.mlp_width = 2048  # FLAN base's
    config.data.train_size = 0
    config.scheme.vocab.size = 32000
    config.optim.update(
        batch_size=128 if post else 64,
        epochs=50 if fermat else 150,
        learning_rate=1e-5 if fermat else 1e-4,
        weight_decay=0.005,
        warmup=100,
        betas=(0.9, 0.999),
    )
    config.seed = 42
    room(config, 128, 24)


def room(config: Any, asked: int, written: int) -> None:
    """How many positions a question and an answer may have; marks make more of the paper's 128 and 16."""
    positions = 2 * asked
    if config.backbone.name == "decoder":
        config.data.length, config.backbone.max_length = positions + written, positions + 2 * written
    else:
        config.data.length, config.data.source_length, config.backbone.max_length = written, positions, positions
    config.decode.max_tokens = written


def as_published(config: Any) -> None:
    """Answers as the files write them, "Not commutable" among them; PyTorch's betas; the paper's one seed. Its
    auxiliary loss, where one is asked for, is the literal one."""
    config.task.as_published = True
    config.optim.betas = (0.9, 0.999)
    config.seed = 42


TASKS = {form: task(form) for form in ("mawps", "svamp", "asdiv", "addsub", "fermat")}
SCALES = {"smoke": smoke, "laptop": laptop, "paper": paper}
BACKBONES = {"t5": t5, "bart": bart, "flan": published("flan"), "t5_1.0": published("t5")}
SYSTEMS = {"gpt": gpt}
LAYOUTS = {name: layout(name) for name in ("plain", "digits", "agg", "agg_after", "pause")}
LOSSES = {"off": no_auxiliary} | {name: auxiliary(name) for name in ("soft", "straight", "literal")}
