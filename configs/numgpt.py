"""NumGPT (Jin et al. 2021): prototype mantissas, learned exponents, a numeral-aware loss.

    numjax train --config=numgpt --workdir=runs/mme                                 # the paper's MME, 3 min, ~96%
    numjax train --config=numgpt:task=measures --workdir=runs/measures              # 2 cores, 6 min, ~98%
    numjax train --config=numgpt:task=mwpas --workdir=runs/mwpas
    numjax train --config=numgpt:task=generation --workdir=runs/generation          # estimates of sums
    numjax train --config=numgpt:task=generation,system=digits --workdir=runs/sums  # exact digits
    numjax train --config=numgpt:task=problems --workdir=runs/problems              # in many wordings
    numjax train --config=numgpt:paper,task=mme --workdir=…                         # the paper's sizes, one GPU

Arguments: smoke | laptop | overnight | paper; system=numgpt|gpt|digits|dice (the columns of Table 1);
task=mme|gnc|mwpas|mwpas_hard|generation|magnitude|text, and with many wordings measures|mwpas_many|problems;
embed=prototype|dice|dice_d|MODULE; density=printed|scaled|learned; as_published.
"""

from __future__ import annotations

from numjax.config.recipe import Recipe

# One position a numeral, with its prototype embedding fused in. A mixture head predicts numbers in generated text.
NUMGPT = {
    "scheme": dict(
        name="replace",
        rules="default",
        vocab=dict(name="sentencepiece", model="bpe", size=2000, split_digits=True),
    ),
    "embeds": dict(
        token=dict(name="token"),
        # Exponent vectors start as large as the mantissa's features. With the 0.02 of the other tables, a model
        # cannot tell 3 from 3,000 for the first hundreds of steps.
        numeral=dict(name="prototype", dim=64, sigma=0.5, low=-8, high=12, init_std=1.0, fusion="concat+linear"),
    ),
    "heads": dict(next=dict(name="mixture", density="printed", scale=2.5, keep=5, tied=False)),
}

# For tasks with many wordings.
MANY_WORDINGS = {
    "smoke": {"task": dict(size=400)},
    "laptop": {
        "task": dict(size=100_000),
        "data": dict(train_size=0),
        "eval": dict(examples=2000),
        "optim": dict(epochs=5, warmup=400),
    },
}
# For tasks with composed problems (data/problems): they are long and have many words. The small vocabulary of smoke
# splits words into letters, so its rows are longer.
COMPOSED_PROBLEMS = {
    "smoke": MANY_WORDINGS["smoke"] | {"backbone": dict(max_length=320), "data": dict(length=280)},
    "laptop": MANY_WORDINGS["laptop"]
    | {
        "optim": dict(epochs=2, warmup=400),
        "scheme.vocab": dict(size=4000),
        "backbone": dict(max_length=200),
        "data": dict(train_size=0, length=160),
    },
}
# A model may stay at chance for thousands of steps: NumGPT compares numbers (gnc) from step 8,000 on.
MORE_EPOCHS = {"laptop": {"optim": dict(epochs=10)}, "overnight": {"optim": dict(epochs=30)}}
TASKS = {
    # For statements that people type (experiments/measures), with counts in words too.
    "measures": {
        "task": dict(name="statement", dataset="mme", wordings="many"),
        "scheme": dict(rules="words"),
        "when": MANY_WORDINGS,
    },
    "mme": {"task": dict(name="statement", dataset="mme")},
    "gnc": {"task": dict(name="statement", dataset="gnc"), "when": MORE_EPOCHS},
    "mwpas": {"task": dict(name="statement", dataset="mwpas", negatives="plain"), "when": MORE_EPOCHS},
    "mwpas_hard": {"task": dict(name="statement", dataset="mwpas", negatives="hard"), "when": MORE_EPOCHS},
    "mwpas_many": {
        "task": dict(name="statement", dataset="mwpas", negatives="hard", wordings="many"),
        "scheme": dict(rules="words"),
        "when": COMPOSED_PROBLEMS,
    },
    # Generates the answer of a word problem: one number.
    "generation": {"task": dict(name="generation", answer="number")},
    "problems": {
        "task": dict(name="generation", answer="number", dataset="problems"),
        "scheme": dict(rules="words"),
        "when": COMPOSED_PROBLEMS | {"smoke": COMPOSED_PROBLEMS["smoke"] | {"task": dict(size=400, test=10)}},
    },
    # The number of digits of a masked numeral (Numeracy-600K, or its stand-in).
    "magnitude": {
        "task": dict(name="magnitude", variant="titles", path="", size=20_000, num_classes=8),
        "optim": dict(epochs=5),
        "when": {"paper": {"optim": dict(epochs=5)}},
    },
    # Pre-training on a folder of text.
    "text": {
        "task": dict(name="language_model", path=""),
        "data": dict(pack=True, overflow="split"),
        "backbone": dict(packed=True),
        "optim": dict(epochs=1),
        "when": {"paper": {"data": dict(length=480), "optim": dict(epochs=1)}},
    },
}

# DICE instead of the prototype embedding. About 2% of the numbers are outside its range.
DICE = dict(
    name="dice",
    dim=64,
    form="2",
    low=0.0,
    high=100_000.0,
    out_of_range="random",
    as_printed=False,
    fusion="concat+linear",
)
# For a GPT with numbers as text.
TEXT_NUMBERS = {
    "scheme.vocab": dict(split_digits=False),
    "embeds": dict(token=dict(name="token")),
    "heads.next?": dict(name="token", tied=False),
}
PARTS = {
    "system": {
        "numgpt": {},
        "gpt": {"scheme": dict(name="subword")} | TEXT_NUMBERS,
        "digits": {"scheme": dict(name="digits")} | TEXT_NUMBERS,
        "dice": {"embeds.numeral": DICE},
    },
    "embed": {
        "prototype": {"needs": "embeds.numeral", "embeds.numeral": NUMGPT["embeds"]["numeral"]},
        "dice": {"needs": "embeds.numeral", "embeds.numeral": DICE},
        "dice_d": {"needs": "embeds.numeral", "embeds.numeral": DICE | {"form": "d"}},
        # Any other, by the name of its file in numjax/embed/ or of your own module.
        "*": {"needs": "embeds.numeral", "embeds.numeral": dict(name="*", dim=64, fusion="concat+linear")},
    },
}
OPTIONS = {
    # How the mantissa's density is scaled.
    "density": {
        name: {"needs": "heads.next:mixture", "heads.next": dict(density=name)}
        for name in ("printed", "scaled", "learned")
    }
}

SCALES = {
    # Seconds: for tests.
    "smoke": {
        "backbone": dict(width=32, layers=2, heads=2, max_length=128),
        "data": dict(length=112, train_size=64),
        "decode": dict(max_tokens=16),
        "scheme.vocab": dict(size=400),
        "optim": dict(batch_size=16, epochs=1, learning_rate=1e-3),
        "eval": dict(batch_size=32, examples=64),
    },
    # Minutes on two cores: 2 layers × 128, 8,000 training examples.
    "laptop": {
        # At 12 × 768, a kernel's 0.02 is about half of 1/√width. At width 128, 0.02 delays learning by epochs.
        "backbone": dict(width=128, layers=2, heads=4, max_length=160, init_std=0.08, dropout=0.0),
        "data": dict(train_size=8000),
        "optim": dict(batch_size=32, learning_rate=1e-3, schedule="cosine", warmup=200),
    },
    # All training records: of MME, GNC and MWPAS a quarter of an hour a run on two cores.
    "overnight": {"from": "laptop", "data": dict(train_size=0)},
    # 12 layers × 768, batch 96, 6.25e-5, 50 epochs; one GPU.
    "paper": {
        "backbone": dict(width=768, layers=12, heads=12, max_length=512, dtype="bfloat16"),
        "data": dict(length=128, train_size=0),
        "optim": dict(batch_size=96, learning_rate=6.25e-5, epochs=50),
        "scheme.vocab": dict(size=8000),
    },
}

# As in the authors' code: its numeral rules and initial exponents, numbers rounded to nine digits, losses averaged
# over padding too, pooling of the last position even if it is padding, and answers as free text.
AS_PUBLISHED = {
    "scheme": dict(rules="numgpt"),
    "embeds.numeral:prototype": dict(init_std=0.02),
    "task:generation": dict(answer="text"),
    "heads.label?": dict(pool="last_padded"),
    "objectives.next?": dict(average="all"),
    "heads.next:mixture": dict(keep=9, density="printed", tied=False),
}

get_config = Recipe(
    system=NUMGPT,
    task="mme",
    tasks=TASKS,
    parts=PARTS,
    scale="laptop",
    scales=SCALES,
    options=OPTIONS,
    as_published=AS_PUBLISHED,
)
