"""Digit aggregation (How to Leverage Digit Embeddings to Represent Numbers?): [AGG] in the input, a loss on digits.

    numjax train --config=digits --workdir=runs/digits          # [F] d…d [/F], MAWPS's form
    numjax train --config=digits:layout=agg --workdir=…         # [F] [AGG] d…d [/F]
    numjax train --config=digits:aux=soft --workdir=…           # the auxiliary loss
    numjax train --config=digits:task=fermat,backbone=bart --workdir=…
    numjax train --config=digits:task=pretraining --config.task.path=TEXTS --workdir=runs/pretrained
    numjax train --config=digits --config.init_from=runs/pretrained --workdir=…    # start from it
    numjax train --config=digits:system=gpt --workdir=…         # only a decoder
    numjax train --config=digits:paper,task=fermat --workdir=…  # the paper's sizes, one GPU

    numjax train --config=digits:paper,backbone=flan --config.scheme.vocab.path=FLAN \
        --config.init_from=FLAN --workdir=…                     # from a folder of FLAN base's files

Expected at laptop, without pretraining: 2 to 3% of MAWPS's problems solved after four minutes on one core (a constant
answer solves as many), and less than 1% of FERMAT's after ten minutes.

Arguments: smoke | laptop | overnight | paper; task=mawps|svamp|asdiv|addsub|together|fermat|pretraining (together:
the first three in one, of `--config.task.path`'s folders of their names); layout=plain|digits|agg|agg_after|pause;
aux=off|soft|straight|literal; backbone=t5|bart from scratch, or for files of weights: flan (T5 1.1 too), t5_1.0,
bart; system=gpt; as_published. Each task reads the files at `--config.task.path`; without a path it uses generated
data.
"""

from __future__ import annotations

from typing import Any

from numjax.bundled.configs import presets
from numjax.config.recipe import SIZES, Recipe

# T5 1.1's encoder and decoder, with digits between [F] and [/F]. The marks need more positions than the paper's 128
# and 16.
DIGITS = {
    "scheme": dict(
        name="digits",
        rules="digits",
        layout="digits",
        until="[CLS]",
        vocab=dict(name="sentencepiece", model="bpe", size=2000, split_digits=True, path=""),
    ),
    "embeds": dict(token=dict(name="digit_aggregate", aggregate="weighted", gradient=True)),
    "positions": dict(sequence=dict(name="relative")),
    "backbone": dict(name="encoder_decoder", **SIZES | dict(max_length=256)),
    "heads": dict(next=dict(name="token", tied=True)),
    "data": dict(length=24, source_length=256),
    "decode": dict(max_tokens=24, beams=3),
}

LOSSES = ("soft", "straight", "literal")


def loss_weights(weight: float) -> dict[str, Any]:
    """λ · CE + (1 − λ) · AUX (eq. 3)."""
    return {"objectives.next": dict(weight=weight), "objectives.aux": dict(weight=1 - weight)}


# Answers as in the files, with "Not commutable".
PUBLISHED_ANSWERS = {"as_published": {"task": dict(as_published=True)}}
FORMS = {form: form for form in ("mawps", "svamp", "asdiv", "addsub")} | {"together": "mawps+svamp+asdiv"}
TASKS: dict[str, dict[str, Any]] = {
    name: {
        "task": dict(name="word_problem", form=form, path="", encoder=True, as_published=False),
        "when": PUBLISHED_ANSWERS,
    }
    for name, form in FORMS.items()
}
# Text with gaps, sums and word problems, each record once. Gaps are longer than answers.
TASKS["pretraining"] = {
    "task": dict(name="span_corruption", path="", size=20_000),
    "data": dict(length=64),
    "decode": dict(beams=1),
    "when": {
        "smoke": {"task": dict(size=200)},
        "laptop": {
            "task": dict(size=100_000),
            "backbone": dict(dropout=0.0),
            "data": dict(train_size=0),
            "optim": dict(epochs=1, batch_size=64),
        },
        "overnight": {
            "task": dict(size=1_200_000, texts=10, sums=70),
            "optim": dict(batch_size=128),
            "eval": dict(every=1000),
        },
    },
}
TASKS["fermat"] = {
    "task": dict(name="word_problem", form="fermat", path="", encoder=True, as_published=False, views="paper"),
    "when": {
        # Generated from templates. 40,000 examples once: with 4,000, validation loss rises from the third epoch on.
        "laptop": {"data": dict(train_size=40_000), "optim": dict(epochs=1), "eval": dict(every=250)},
        "overnight": {"data": dict(train_size=40_000)},
        "paper": {"optim": dict(epochs=50, learning_rate=1e-5)},
        # Table 4; its T5 is FLAN base.
        **{f"aux={name}": loss_weights(0.65) for name in LOSSES},
        **PUBLISHED_ANSWERS,
    },
}


def published_model(preset: str) -> dict[str, Any]:
    """The stacks and the head that published weights need, with options for the sizes of their files."""
    model = presets.PRESETS[preset]
    files = dict(head_size=0, mlp_width=0, encoder_layers=0)
    return {
        "backbone": SIZES | model.backbone | files | dict(max_length=256),
        "positions": dict(sequence=model.positions),
        "heads": dict(next=model.head),
    }


BART = presets.PRESETS["bart"]
PARTS = {
    "backbone": {
        # From scratch: relative positions, pre-RMS-norm, a gated MLP.
        "t5": {},
        # Learned positions, post-layer-norm, biases. From scratch, its kernels start as t5's.
        "bart": {
            "backbone": SIZES | BART.backbone | dict(initial="fan_in", shrink=True, max_length=256),
            "positions": dict(sequence=BART.positions),
            "heads": dict(next=BART.head),
            "when": {
                # BART base has six layers a side.
                "paper": {"backbone": dict(layers=6), "optim": dict(batch_size=128)},
                **{f"aux={name} task=fermat": loss_weights(0.6) for name in LOSSES},
            },
        },
        "flan": published_model("flan") | {"when": {"paper": {"backbone": dict(mlp_width=2048)}}},  # FLAN base's
        "t5_1.0": published_model("t5"),
    },
    "system": {
        # Only a decoder: the question is its prompt.
        "gpt": {
            "backbone": dict(name="decoder", packed=False, **SIZES | dict(max_length=304)),
            "positions": dict(sequence=dict(name="learned")),
            "heads": dict(next=dict(name="token", tied=True)),
            "task": dict(encoder=False),
            "scheme": dict(until="[SEP]"),
            "data": dict(length=280, source_length=0),
        }
    },
}
OPTIONS = {
    # How numbers are laid out in questions.
    "layout": {name: {"scheme": dict(layout=name)} for name in ("plain", "digits", "agg", "agg_after", "pause")},
    # The form of the auxiliary loss. The paper's is "literal", in which digits have no gradient.
    "aux": {"off": {}}
    | {
        name: {
            "objectives.aux": dict(name="digit_aggregate", head="next", prediction=name, weight=0.4),
            "objectives.next": dict(weight=0.6),
            "when": {"as_published": {"objectives.aux": dict(prediction="literal")}},
        }
        for name in LOSSES
    },
}
SCALES = {
    # Seconds: for tests. One shape, one compilation.
    "smoke": {
        "backbone": dict(width=32, layers=1, heads=2),
        "data": dict(train_size=64, buckets=1),
        "scheme.vocab": dict(size=500),
        "optim": dict(batch_size=16, epochs=1, learning_rate=1e-3),
        "eval": dict(batch_size=32, examples=32),
        "decode": dict(batch_size=32),
    },
    # Minutes on one core: 2 layers × 128 on each side, at most 4,000 training problems, 20 epochs.
    "laptop": {
        "backbone": dict(width=128, layers=2, heads=4, dropout=0.1),
        "data": dict(train_size=4000),
        "optim": dict(
            batch_size=32, epochs=20, learning_rate=1e-3, schedule="cosine", warmup=100, weight_decay=0.005
        ),
        # The loss chooses the epoch, so nothing is generated before the end.
        "eval": dict(examples=500, generate=False),
    },
    # From a pre-training, hours on two cores.
    "overnight": {"from": "laptop", "data": dict(train_size=0)},
    # The paper's base sizes, batches and learning rates (Table 4), from scratch without init_from. One GPU.
    "paper": {
        "seed": 42,
        "backbone": dict(width=768, layers=12, heads=12, dropout=0.1, dtype="float32"),
        "data": dict(train_size=0),
        "scheme.vocab": dict(size=32_000),
        "optim": dict(
            batch_size=64, epochs=150, learning_rate=1e-4, weight_decay=0.005, warmup=100, betas=(0.9, 0.999)
        ),
    },
}
# PyTorch's betas; the paper's one seed; answers as in the files. An auxiliary loss is the literal one.
AS_PUBLISHED = {"seed": 42, "optim": dict(betas=(0.9, 0.999))}

get_config = Recipe(
    system=DIGITS,
    task="mawps",
    tasks=TASKS,
    parts=PARTS,
    scale="laptop",
    scales=SCALES,
    options=OPTIONS,
    as_published=AS_PUBLISHED,
)
