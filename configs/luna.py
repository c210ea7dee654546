"""LUNA (Han et al. 2022): encoders with number plugins (NumTok, NumBed) and number pre-training.

    numjax train --config=luna --workdir=runs/luna                               # from scratch on generated tables
    numjax train --config=luna --config.task.tatqa=FOLDER --config.task.tabfact=FOLDER --workdir=…
    numjax train --config=luna:paper,shape=roberta,size=9M,distill=on --config.task.tatqa=DIR \\
      --config.init_from=ROBERTA --config.scheme.vocab.path=ROBERTA --workdir=…  # from a checkpoint, one GPU
    numjax train --config=luna:task=tatqa --workdir=runs/tatqa                   # stand-in, 2 cores, minutes
    numjax predict --workdir=runs/tatqa --input=report.csv
    numjax train --config=luna:task=tabfact --workdir=runs/tabfact               # stand-in, 2 cores, minutes
    numjax train --config=luna:task=claims,bert=minilm3,numtok=replace,numbed=dice \\
      --workdir=runs/claims

Arguments: smoke | laptop | overnight | paper; task=pretrain|tatqa|tabfact|claims; numtok=addback|replace|none|anchor
(none: only pieces; anchor: our own, of configs/anchor.py, with limb=1|3 digits of a position);
numbed=char_lstm|char_former|dice|MODULE; size=0.1M|base|1M|9M (parameters of the character encoders);
shape=bert|roberta; bert=minilm|minilm3, to start from the weights of `make pretrained`, with all six layers or three;
tables=few|many, kinds of stand-in tables; for pre-training distill=on|off, regress=on|off; as_published.
"""

from __future__ import annotations

from typing import Any

from numjax.bundled.configs import anchor, presets
from numjax.config.recipe import SIZES, Recipe
from numjax.tasks.tatqa import traits

# BERT's shape, AddBack, and a CharLSTM whose vector is added to [NUM].
LUNA = {
    "scheme": dict(
        name="addback",
        rules="accounting",  # each cell of a table is parsed by itself
        types=True,
        vocab=dict(name="wordpiece", path="", size=8000, lower=True),
    ),
    "embeds": dict(
        token=dict(name="token"),
        # `hidden` and `layers` are for smaller scales, which set no `parameters`.
        numeral=dict(name="char_lstm", fusion="add", parameters="1M", hidden=128, layers=3),
    ),
    "positions": dict(sequence=presets.PRESETS["bert"].positions),
    "backbone": SIZES | presets.PRESETS["bert"].backbone | dict(types=(2,), max_length=512),
    # Numbers repeat in tables: each string is encoded once a batch.
    "data": dict(length=512, overflow="truncate", shared=True),
    "optim": dict(schedule="linear", weight_decay=0.01, betas=(0.9, 0.999)),
}
CHARACTERS = ("embeds.numeral:char_lstm", "embeds.numeral:char_former")


def character_options(**options: Any) -> dict[str, Any]:
    """Sets options of the character encoder, if there is one."""
    return dict.fromkeys(CHARACTERS, options)


# Steps over which the learning rate of pre-training and the teacher's weight rise; LUNA's are from 167 to 1,334.
WARMUP = 1000
TASKS = {
    # On tables with texts: classifies masked tokens by kind, and regresses sign and logarithm of masked numbers
    # (section 3.2.1).
    "pretrain": {
        "task": dict(name="table_text", tatqa="", tabfact="", text="", contexts=0, statements=0, size=0, data_seed=0),
        # L_R: masked numbers are regressed.
        "heads.number": dict(name="regression", dropout=0.1),
        "objectives.masked": dict(numbers="number"),
        "optim": dict(learning_rate=4e-5, weight_decay=0.02, batch_size=96, epochs=4, warmup=WARMUP),
        "when": {
            "smoke": {"task": dict(contexts=40, statements=300), "optim": dict(warmup=4)},
            "laptop": {"data": dict(train_size=4000), "optim": dict(epochs=2, warmup=50)},
            "overnight": {"data": dict(train_size=0)},
            "paper": {"data": dict(length=400), "optim": dict(learning_rate=3e-5, batch_size=24, epochs=18)},
            # A masked [NUM] keeps its literal as input, and separators are masked too.
            "as_published": {"data": dict(masking=dict(literals=False, separators=True))},
        },
    },
    # Questions about a table and the paragraphs beside it, by TagOp (appendix D.2).
    "tatqa": {
        "task": dict(
            name="tatqa",
            path="",
            size=0,
            data_seed=0,
            tables="few",
            wordings="apart",
            traits=False,
            question=46,
            context=463,
            units=512,
            as_published=False,
        ),
        "optim": dict(
            learning_rate=1.5e-4,
            warmup=600,
            batch_size=32,
            epochs=25,
            rates=(("^(backbone|embeds_token)/", 1 / 30),),  # the encoder's is 5e-6
            weight_decays=(("^(?!backbone/|embeds_token/)", 5e-5),),
        ),
        "when": {
            "smoke": {"task": dict(size=40, units=96), "optim": dict(rates=())},
            # A vocabulary of the words of these tables only.
            "laptop": {
                "task": dict(units=256),
                "scheme.vocab": dict(size=2000),
                "optim": dict(epochs=6, rates=()),
            },
            "overnight": {
                "task": dict(units=512),
                "data": dict(length=512),
                "optim": dict(epochs=10),
            },
            # Questions without labels are left out. Numbers are parsed as in the metric. All units can be operands.
            # Tags count in the loss even if the input has no unit of the answer. The losses of tags and order are
            # summed over the batch. (TagOp's own order="mean" is an option of its head: LUNA's code uses both units.)
            "as_published": {
                "task": dict(as_published=True),
                "heads.answer": dict(operands="all", tagged="all"),
                "objectives.tags_loss": dict(average="sum"),
                "objectives.order_loss": dict(average="sum"),
            },
        },
    },
    # Whether a table entails a statement (section 4), predicted from [CLS]; tables are cut to fit the context. At
    # laptop on stand-in data: 56% of the validation split (seed 0), half of which is true. That much is in the
    # statements alone: a linear model of their words has 57.6%. The model does not learn to look up numbers in so few
    # steps.
    "tabfact": {
        "task": dict(
            name="tabfact",
            path="",
            size=0,
            layout="rows",
            data_seed=0,
            tables="few",
            wordings="apart",
            traits=False,
        ),
        "heads.label": dict(pool="first", pooler=True, dropout=0.1),
        "data": dict(overflow="shorten", reserve=0),
        "optim": dict(learning_rate=1e-5, batch_size=48, epochs=10),
        "when": {
            "smoke": {"task": dict(size=300)},
            "laptop": {
                "data": dict(length=128),
                "optim": dict(learning_rate=4e-4, weight_decay=0.0, warmup=300, epochs=4, batch_size=32),
            },
            "overnight": {"data": dict(length=256), "optim": dict(weight_decay=0.01, epochs=3)},
        },
    },
    # Statements on generated tables of many layouts, whose evidence is known: the model predicts an operation and the
    # cells that it needs, and the host computes the rest.
    "claims": {
        "task": dict(name="claims", path="", size=0, data_seed=0, wordings="apart", units=512),
        "backbone": dict(types=(2, *traits.SIZES)),
        "data": dict(overflow="shorten", reserve=0),
        "optim": dict(learning_rate=1e-4, batch_size=32, epochs=10, warmup=600),
        "when": {
            "smoke": {"task": dict(size=300, units=96)},
            # Nearly all of these rows have fewer than 96 positions.
            "laptop": {"task": dict(units=128), "data": dict(length=128, buckets=4)},
        },
    },
}

# L_D: the target is the teacher's softmax; its weight α rises from 0.04 to 0.4.
DISTILL = dict(
    name="distill",
    head="masked",
    momentum=0.995,
    each_microbatch=False,
    room=0.25,
    weight=dict(start=0.04, end=0.4, steps=WARMUP),
)


def rising_weights(steps: int) -> dict[str, Any]:
    """Sets over how many steps α rises."""
    return {"objectives.masked": dict(weight=dict(steps=steps)), "objectives.distill": dict(weight=dict(steps=steps))}


PARTS = {
    "shape": {
        # Word pieces and two token types.
        "bert": {},
        # Pieces with their blanks, one token type, positions from 2 on.
        "roberta": {
            "scheme": dict(types=False),
            "scheme.vocab": dict(name="sentencepiece", size=8000, model="bpe", split_digits=False, path=None),
            "positions": dict(sequence=presets.PRESETS["roberta"].positions),
            "backbone": dict(types=(1,), norm_epsilon=1e-5),
            "when": {
                "task=pretrain": {"heads.masked": dict(epsilon=1e-5)},
                "task=tabfact": {"task": dict(layout="columns")},
                "task=claims": {"backbone": dict(types=(1, *traits.SIZES))},
                # RoBERTa-large: set init_from and scheme.vocab.path to its folder.
                "paper": {
                    "backbone": dict(width=1024, layers=24, heads=16),
                    "scheme.vocab": dict(name="gpt2", path=""),
                },
                # 96 of its rows need more memory than a device has. With accumulate the gradient is the same.
                "paper task=pretrain": {
                    "data": dict(length=512),
                    "optim": dict(learning_rate=4e-5, batch_size=96, epochs=4, accumulate=4),
                },
            },
        },
    },
    "numtok": {
        # [NUM] after a number's pieces, or instead of them.
        "addback": {},
        "replace": {"scheme.name": "replace"},
        # The baseline: numbers are pieces like other text, and are masked like it.
        "none": {
            "scheme.name": "subword",
            "embeds.numeral": None,
            "when": {
                "task=pretrain": {
                    "heads.number": None,
                    "objectives.masked": dict(name="nll", head="masked", label=None, room=0.25, weight=1.0),
                },
            },
        },
        # Our own: digits that are aligned at the point, behind a header (configs/anchor.py).
        "anchor": {
            "needs": ("task:tatqa", "task:tabfact"),
            "scheme": anchor.LIMBS | dict(values=True, until="", types=True),
            "embeds": dict(token=dict(name="limbs"), numeral=anchor.LEADING),
            "positions.place": anchor.ALIGNED,
            "when": {"shape=roberta": {"scheme": dict(types=False)}},
        },
    },
    # Digits of a position, with numtok=anchor: a number of n digits has n + 1 positions, or n / 3 + 1.
    "limb": {
        "1": {"needs": "scheme:limbs"},
        "3": {"needs": "scheme:limbs", "scheme": dict(size=3, parts=4)},
    },
    "numbed": {
        "char_lstm": {"needs": "embeds.numeral"},
        # Characters go through a transformer, then through the LSTM.
        "char_former": {
            "needs": "embeds.numeral",
            "embeds.numeral": dict(name="char_former", fusion="add", parameters="1M", hidden=64, layers=3),
        },
        # A point on a sphere at an angle that depends on the value, projected.
        "dice": {"needs": "embeds.numeral", "embeds.numeral": dict(name="dice_linear", fusion="add")},
        # Any other, by the name of its file in numjax/embed/ or of your own module.
        "*": {"needs": "embeds.numeral", "embeds.numeral": dict(name="*", fusion="add")},
    },
    # Whether masked numbers are regressed. If not, they count in the mean but have no loss.
    "regress": {
        "on": {"needs": "objectives.masked:masked"},
        "off": {
            "needs": "objectives.masked",
            "heads.number?": None,
            "objectives.masked:masked": dict(numbers=None),
        },
    },
    # With a teacher, from a checkpoint. From scratch, only L_MLM.
    "distill": {
        "on": {
            "needs": "task:table_text",
            "objectives.masked": dict(weight=dict(start=0.96, end=0.6, steps=WARMUP)),
            "objectives.distill": DISTILL,
            "when": {
                "smoke": rising_weights(4),
                "laptop": rising_weights(50),
                "overnight": rising_weights(60),
                # The teacher is updated with every microbatch.
                "as_published": {"objectives.distill": dict(each_microbatch=True)},
            },
        },
        "off": {"needs": "task:table_text"},
    },
}
# New weights learn faster than pretrained ones. Vectors of pieces are frozen.
MINILM_RATES = (("^embeds_token/", 0.0), ("^backbone/types_[1-9]", 2.0), ("^backbone/", 0.15))
# all-MiniLM-L6-v2 with its vocabulary, 22.7 M weights, as `make pretrained` installs it. It was trained to embed
# sentences and has no masked-language head.
MINILM = {
    "needs": "scheme.vocab:wordpiece",
    "init_from": "pretrained:minilm",
    "scheme.vocab": dict(name="wordpiece", path="pretrained:minilm", lower=True),
    "embeds.token": dict(name="token"),
    "backbone": dict(width=384, layers=6, heads=12, init_std=0.02, max_length=512, types_std=0.0),
    "optim": dict(
        learning_rate=1e-3,
        warmup=60,
        batch_size=16,
        rates=MINILM_RATES,
    ),
    "when": {
        "laptop task=claims": {"optim": dict(steps=2000)},
        "overnight": {"backbone": dict(dropout=0.1)},
        # Only words are pretrained. What else a number has is added to them, and learned like other new weights.
        "numtok=anchor": {
            "embeds.token": dict(name="limbs", header_parts=True),
            "embeds.numeral": anchor.LEADING | dict(fusion="add"),
            "positions.place": anchor.ALIGNED | dict(init_std=0.0),  # the pretrained attention at first
            "optim": dict(rates=(("^embeds_token/(?!table)|^backbone/order_place/", 1.0), *MINILM_RATES)),
        },
    },
}
OPTIONS = {
    "bert": {"minilm": MINILM, "minilm3": MINILM | {"backbone": MINILM["backbone"] | {"layers": 3}}},
    # Stand-in tables: in the task's own form, or with many layouts and subjects (data/tables).
    "tables": {
        "few": {"needs": ("task:tatqa", "task:tabfact")},
        "many": {
            "needs": ("task:tatqa", "task:tabfact"),
            "task": dict(tables="many", traits=True),
            "backbone": dict(types=(2, *traits.SIZES)),
            "when": {
                "shape=roberta": {"backbone": dict(types=(1, *traits.SIZES))},
                "task=tatqa": {
                    # Otherwise these losses are too small next to those of tags, which are sums over a row.
                    "objectives.operator_loss": dict(weight=3.0),
                    "objectives.scale_loss": dict(weight=2.0),
                    "heads.answer": dict(cells="crossed", asked="both", operators=12),
                },
                # The evidence may be in any cell, and [CLS] of a pretrained encoder may not represent it.
                "task=tabfact": {"heads.label": dict(pool="attention")},
            },
        },
    },
    # Number of parameters of the character encoders; "1M" is the paper's middle size.
    "size": {
        size: {"needs": CHARACTERS, "embeds.numeral": dict(parameters=size)} for size in ("0.1M", "base", "1M", "9M")
    },
}
SCALES = {
    # Seconds: for tests.
    "smoke": {
        "backbone": dict(width=32, heads=2, max_length=96),
        "data": dict(length=96, train_size=64, buckets=1),
        "scheme.vocab": dict(size=400),
        **character_options(parameters="", hidden=8, layers=1),
        "optim": dict(learning_rate=1e-3, batch_size=16, epochs=1),
        "eval": dict(batch_size=32, examples=64),
    },
    # Minutes on two cores, from scratch: a larger learning rate, and kernels not smaller than 1/√width.
    "laptop": {
        "backbone": dict(width=128, init_std=0.08, dropout=0.0, max_length=256),
        # Otherwise token vectors are too small next to position vectors: pre-training learns only word frequencies.
        "embeds.token": dict(init_std=0.25),
        # Few lengths: the LSTM of numbers takes long to compile.
        "data": dict(length=256, buckets=2),
        # The LSTM runs for the full `length`; numbers of tables are shorter than the default.
        **character_options(parameters="0.1M", length=16),
        "optim": dict(learning_rate=1e-3, warmup=50, batch_size=16),
    },
    # Hours on two cores, minutes on a GPU: all training records, and questions with their context; for bert=minilm.
    "overnight": {"from": "laptop"},
    # BERT-base: set init_from and scheme.vocab.path to its folder.
    "paper": {
        "backbone": dict(width=768, layers=12, heads=12),
        "scheme.vocab": dict(size=30_000),
        # In characters: 96% of TAT-QA's distinct number strings are not longer, and 99% of TabFact's.
        **character_options(short=8),
    },
}
# NumTok's own rules, and number encoders as in the authors' code. (The tasks above have their own `as_published`.)
AS_PUBLISHED = {
    "scheme": dict(rules="numtok"),
    "embeds.numeral:char_former": dict(padded=True),
    "embeds.numeral:dice_linear": dict(as_published=True),
}

get_config = Recipe(
    system=LUNA,
    task="pretrain",
    tasks=TASKS,
    parts=PARTS,
    scale="laptop",
    scales=SCALES,
    options=OPTIONS,
    as_published=AS_PUBLISHED,
)
