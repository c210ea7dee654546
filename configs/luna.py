"""LUNA (Han et al. 2022): encoders with number plugins (NumTok, NumBed) and number pre-training.

    python -m numjax.main --config=configs/luna.py --workdir=runs/luna     # from scratch on made-up tables
    python -m numjax.main --config=configs/luna.py --config.task.tatqa=FOLDER --config.task.tabfact=FOLDER --workdir=…
    python -m numjax.main --config=configs/luna.py:paper,shape=roberta,size=9M,distill=on --config.task.tatqa=DIR \\
      --config.init_from=ROBERTA --config.scheme.vocab.path=ROBERTA --workdir=…        # from a checkpoint, one GPU
    python -m numjax.main --config=configs/luna.py:task=tatqa --workdir=runs/tatqa  # stand-in, 2 cores, minutes
    python -m numjax.main --workdir=runs/tatqa --mode=predict --input=report.csv
    python -m numjax.main --config=configs/luna.py:task=tabfact --workdir=runs/tabfact  # stand-in, 2 cores, minutes

Arguments: smoke | laptop | paper; task=pretrain|tatqa|tabfact; numtok=addback|replace|none (none: pieces alone);
numbed=char_lstm|char_former|dice|MODULE; size=0.1M|base|1M|9M (parameters of the character encoders); shape=bert|
roberta; bert=minilm|minilm3, to start from the weights of `make pretrained`, all six layers or three;
tables=few|many, of the stand-ins; for pre-training distill=on|off, regress=on|off; as_published.
"""

from __future__ import annotations

from typing import Any

from numjax.bundled.configs import presets
from numjax.config.recipe import SIZES, Recipe
from numjax.tasks import table_traits

# BERT's shape, AddBack, and a CharLSTM whose vector is added at [NUM].
LUNA = {
    "scheme": dict(
        name="addback",
        rules="accounting",  # cells of tables are parsed one by one
        types=True,
        vocab=dict(name="wordpiece", path="", size=8000, lower=True),
    ),
    "embeds": dict(
        token=dict(name="token"),
        # `hidden` and `layers` are for smaller scales, where no size is named.
        numeral=dict(name="char_lstm", fusion="add", parameters="1M", hidden=128, layers=3),
    ),
    "positions": dict(sequence=presets.PRESETS["bert"].positions),
    "backbone": SIZES | presets.PRESETS["bert"].backbone | dict(types=(2,), max_length=512),
    # Tables repeat their numbers: each string is encoded once a batch.
    "data": dict(length=512, overflow="truncate", shared=True),
    "optim": dict(schedule="linear", weight_decay=0.01, betas=(0.9, 0.999)),
}
CHARACTERS = ("embeds.numeral:char_lstm", "embeds.numeral:char_former")


def characters(**options: Any) -> dict[str, Any]:
    """Of the character encoders, where one of them stands."""
    return dict.fromkeys(CHARACTERS, options)


# Steps in which the rate of pre-training and the teacher's share rise; LUNA's are from 167 to 1,334.
WARMUP = 1000
TASKS = {
    # Masked tokens by their kind, masked numbers by sign and logarithm (section 3.2.1), over tables with texts.
    "pretrain": {
        "task": dict(name="table_text", tatqa="", tabfact="", text="", contexts=0, statements=0, size=0, data_seed=0),
        # L_R: masked numbers are regressed.
        "heads.number": dict(name="regression", dropout=0.1),
        "objectives.masked": dict(numbers="number"),
        "optim": dict(learning_rate=4e-5, weight_decay=0.02, batch_size=96, epochs=4, warmup=WARMUP),
        "when": {
            "smoke": {"task": dict(contexts=40, statements=300), "optim": dict(warmup=4)},
            "laptop": {"data": dict(train_size=4000), "optim": dict(epochs=2, warmup=50)},
            "paper": {"data": dict(length=400), "optim": dict(learning_rate=3e-5, batch_size=24, epochs=18)},
            # A masked [NUM] leaves its literal to be read, and separators are masked too.
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
            # Of the words of these tables alone.
            "laptop": {
                "task": dict(units=256),
                "scheme.vocab": dict(size=2000),
                "optim": dict(epochs=6, rates=()),
            },
            # Questions without labels are left out, numbers are read as the metric does, all units can be operands,
            # tags are scored where no unit of the answer is read too, and the losses of tags and order are summed
            # over the batch. (TagOp's own order="mean" is its head's option: LUNA's code reads both units.)
            "as_published": {
                "task": dict(as_published=True),
                "heads.answer": dict(operands="all", tagged="all"),
                "objectives.tags_loss": dict(average="sum"),
                "objectives.order_loss": dict(average="sum"),
            },
        },
    },
    # Whether a table entails a statement (section 4): read off [CLS], the table cut where the context ends. At laptop
    # on the stand-in 56% of the validation split (seed 0), of which half is true: what the statements alone give
    # away, as a linear model of their words has 57.6%. To look numbers up in a table is not learned in so few steps.
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
        },
    },
}

# L_D: the teacher's softmax is the target, its weight α rising from 0.04 to 0.4.
DISTILL = dict(
    name="distill",
    head="masked",
    momentum=0.995,
    each_microbatch=False,
    room=0.25,
    weight=dict(start=0.04, end=0.4, steps=WARMUP),
)


def rising(steps: int) -> dict[str, Any]:
    """How many steps α takes."""
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
                # RoBERTa-large, which init_from and scheme.vocab.path name.
                "paper": {
                    "backbone": dict(width=1024, layers=24, heads=16),
                    "scheme.vocab": dict(name="gpt2", path=""),
                },
                # 96 of its rows at once would want more memory than a device has; the sums are the same.
                "paper task=pretrain": {
                    "data": dict(length=512),
                    "optim": dict(learning_rate=4e-5, batch_size=96, epochs=4, accumulate=4),
                },
            },
        },
    },
    "numtok": {
        # [NUM] behind a number's own pieces, or instead of them.
        "addback": {},
        "replace": {"scheme.name": "replace"},
        # The baseline: numbers are pieces like any text, and masked like any.
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
    },
    "numbed": {
        "char_lstm": {"needs": "embeds.numeral"},
        # The same through a transformer, and then the LSTM.
        "char_former": {
            "needs": "embeds.numeral",
            "embeds.numeral": dict(name="char_former", fusion="add", parameters="1M", hidden=64, layers=3),
        },
        # A point on a sphere at an angle by its value, projected.
        "dice": {"needs": "embeds.numeral", "embeds.numeral": dict(name="dice_linear", fusion="add")},
        # Any other, by the name of its file in numjax/embed/ or of your own module.
        "*": {"needs": "embeds.numeral", "embeds.numeral": dict(name="*", fusion="add")},
    },
    # Whether masked numbers are regressed; else they count and are not scored.
    "regress": {
        "on": {"needs": "objectives.masked:masked"},
        "off": {
            "needs": "objectives.masked",
            "heads.number?": None,
            "objectives.masked:masked": dict(numbers=None),
        },
    },
    # From a checkpoint: with a teacher. From scratch L_MLM alone.
    "distill": {
        "on": {
            "needs": "task:table_text",
            "objectives.masked": dict(weight=dict(start=0.96, end=0.6, steps=WARMUP)),
            "objectives.distill": DISTILL,
            "when": {
                "smoke": rising(4),
                "laptop": rising(50),
                # The teacher moves with every microbatch.
                "as_published": {"objectives.distill": dict(each_microbatch=True)},
            },
        },
        "off": {"needs": "task:table_text"},
    },
}
# all-MiniLM-L6-v2 with its vocabulary, 22.7 M weights, as `make pretrained` installs it. It was trained for vectors
# of sentences and has no masked-language head.
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
        # What is new learns faster than what is known; the pieces' vectors stay.
        rates=(("^embeds_token/", 0.0), ("^backbone/types_[1-9]", 2.0), ("^backbone/", 0.15)),
    ),
}
OPTIONS = {
    "bert": {"minilm": MINILM, "minilm3": MINILM | {"backbone": MINILM["backbone"] | {"layers": 3}}},
    # Of the stand-ins: those of the task's own form, or of many layouts and subjects (data/tables).
    "tables": {
        "few": {"needs": ("task:tatqa", "task:tabfact")},
        "many": {
            "needs": ("task:tatqa", "task:tabfact"),
            "task": dict(tables="many", traits=True),
            "backbone": dict(types=(2, *table_traits.SIZES)),
            "when": {
                "shape=roberta": {"backbone": dict(types=(1, *table_traits.SIZES))},
                "task=tatqa": {
                    # Else they are lost beside the tags' losses, which are sums over a row.
                    "objectives.operator_loss": dict(weight=3.0),
                    "objectives.scale_loss": dict(weight=2.0),
                    "heads.answer": dict(cells="crossed", asked="both", operators=12),
                },
                # What decides may stand at any cell, and [CLS] of a pretrained encoder need not know of it.
                "task=tabfact": {"heads.label": dict(pool="attention")},
            },
        },
    },
    # Parameters of the character encoders; "1M" is the paper's middle size.
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
        **characters(parameters="", hidden=8, layers=1),
        "optim": dict(learning_rate=1e-3, batch_size=16, epochs=1),
        "eval": dict(batch_size=32, examples=64),
    },
    # Minutes on two cores, from scratch: larger steps, and kernels that are no smaller than 1/√width.
    "laptop": {
        "backbone": dict(width=128, init_std=0.08, dropout=0.0, max_length=256),
        # Else a token's vector would be lost beside its position's, and pre-training stays at the words' frequencies.
        "embeds.token": dict(init_std=0.25),
        # Few lengths: a number's LSTM takes long to compile.
        "data": dict(length=256, buckets=2),
        # An LSTM takes as many steps as may be read; numbers of tables are shorter.
        **characters(parameters="0.1M", length=16),
        "optim": dict(learning_rate=1e-3, warmup=50, batch_size=16),
    },
    # BERT-base, which init_from and scheme.vocab.path name.
    "paper": {
        "backbone": dict(width=768, layers=12, heads=12),
        "scheme.vocab": dict(size=30_000),
        # Characters: of TAT-QA's distinct number strings 96 in 100 have no more, of TabFact's 99.
        **characters(short=8),
    },
}
# NumTok's own rules, and what the authors' code does with each part and task.
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
