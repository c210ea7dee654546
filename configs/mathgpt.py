"""MathGPT (Scarlatos and Lan 2023): formulas as operator trees, from embeddings to constrained decoding.

    numjax train --config=mathgpt --workdir=runs/mathgpt             # word problems, 2 cores
    numjax train --config=mathgpt:reader=minilm --workdir=…          # with a pretrained encoder
    numjax train --config=mathgpt:system=gpt --workdir=…             # the GPT baseline
    numjax train --config=mathgpt:without=tpe --workdir=…            # Table 5's ablation
    numjax train --config=mathgpt:task=headline --workdir=…          # another task, see TASKS
    numjax train --config=mathgpt:task=articles --workdir=runs/wiki  # pre-training; then, from it:
    numjax train --config=mathgpt:task=equation --config.init_from=runs/wiki --workdir=…
    numjax train --config=mathgpt:paper,reader=none --workdir=… \\
        --config.scheme.vocab.path=GPT2 --config.init_from=GPT2      # one GPU; GPT2: a folder with GPT-2's files

Arguments: smoke | laptop | overnight | paper; system=mathgpt|gpt; numbers=pointed|linked|spelled;
reader=scratch|minilm|none (an encoder of the problem; scratch is the default of task=problems; none: only a decoder);
without=tpe|te|se|nt; vocab=gpt2; as_published;
task=problems|equation|headline|next_formula|next_text|student_action|answer_scoring|feedback|gsm8k|math|articles|text.
All tasks but problems read the files at `--config.task.path`. Without a path they use generated data; text needs one.
"""

from __future__ import annotations

from typing import Any

from numjax.bundled.configs import presets
from numjax.config.recipe import NLL, SIZES, Recipe

# Trees in the text, all embeddings, one softmax, and the grammar's mask in training and in decoding.
MATHGPT = {
    "scheme": dict(
        name="trees",
        rules="default",
        arity=True,
        symbols=dict(path="", numbers=0, least=1),
        vocab=dict(name="sentencepiece", model="bpe", size=2000, split_digits=True),
    ),
    "embeds": dict(token=dict(name="linked", special_std=0.02), type=dict(name="token_type")),
    # Three levels deep, a position sums eighteen rows of the tree's matrix. With this init_std the sum is as long as
    # a token's initial vector. PyTorch's 0.03, which suits GPT-2's weights (None), is seven times as much.
    "positions": dict(sequence=dict(name="learned"), tree=dict(name="tree", init_std=0.005)),
    "heads": dict(next=dict(name="joint", tied=True, bias=True)),
    "objectives": dict(next=NLL | dict(constrain=True, given=True)),
}


def row_sizes(length: int, max_tokens: int, context: int = 0) -> dict[str, Any]:
    """Settings for rows of `length` positions, with at most `max_tokens` generated tokens in `context` positions.

    Without a context, the context is the row, and prompts are shortened to leave `max_tokens` positions free.
    """
    data = dict(length=length) if context else dict(length=length, reserve=max_tokens)
    changes: dict[str, Any] = {"data": data, "backbone": dict(max_length=context or length)}
    return changes | ({"decode": dict(max_tokens=max_tokens)} if max_tokens else {})


def merge_changes(*changes: dict[str, Any]) -> dict[str, Any]:
    """Merges changes of the same config paths; later changes win."""
    paths = dict.fromkeys(path for change in changes for path in change)
    return {path: {k: v for change in changes for k, v in change.get(path, {}).items()} for path in paths}


# Sizes for word problems.
PROBLEMS = {"smoke": row_sizes(160, 32, 192), "laptop": row_sizes(160, 40, 224), "paper": row_sizes(960, 256, 1024)}
# Sizes for texts of any length, cut between formulas and packed: packed rows fill the context.
PACKED_TEXTS = {
    "smoke": row_sizes(192, 32, 192),
    "laptop": row_sizes(224, 40, 224),
    "paper": row_sizes(1024, 256, 1024),
}
SOLUTIONS = {"smoke": row_sizes(256, 64, 320), "laptop": row_sizes(448, 128, 576), "paper": row_sizes(640, 384, 1024)}
THREE_BEAMS = {"decode": dict(beams=3)}
# A formula that the grammar does not cover stays text, so that its article or solution is not lost.
UNFIT = {"scheme:trees": dict(unfit="text")}


def headline_task(region: str, smoke: int, laptop: int, paper: int) -> dict[str, Any]:
    """A task on headlines of questions: whole ("all"), or every formula or text in them.

    Args:
      region: "all", "formula" or "text". smoke, laptop, paper: how many tokens may be generated at each scale.
    """
    return {
        "task": dict(name="headline", path="", as_published=False, region=region, splits="files"),
        "data": dict(overflow="shorten"),
        "when": {
            # Real questions have more distinct characters than problems.
            "smoke": row_sizes(160, smoke) | {"scheme.vocab:sentencepiece": dict(size=800)},
            "laptop": row_sizes(192, laptop),
            "paper": row_sizes(1024, paper),
        },
    }


# Whole headlines take longer than the next formula or text of one.
HEADLINE = headline_task("all", 48, 96, 192)
HEADLINE["when"]["laptop"] = merge_changes(
    HEADLINE["when"]["laptop"], {"data": dict(train_size=2000), "optim": dict(batch_size=16, warmup=100)}
)


TASKS = {
    # Composed from plans; the test split has other wordings than training. A number of the formula points to the same
    # number in the text. Numbers in words are numbers too.
    "problems": {
        "words": ("reader=scratch",),
        "task": dict(name="equation_extraction", dataset="problems", path="", as_published=False, answer="formula"),
        "scheme": dict(rules="words", pointers=12, ranks=True),
        # Text is only input, never output, so it may be lowercased: people also type in capitals.
        "scheme.vocab": dict(name="wordpiece", size=6000, lower=True, split_digits=True),
        # Of so many equations, prefer one whose value can be an answer: see the task's `log_prior`.
        "decode": dict(beams=8),
        "when": {
            "smoke": merge_changes(
                PROBLEMS["smoke"], {"task": dict(size=64, test=10), "scheme.vocab:wordpiece": dict(size=400)}
            ),
            "laptop": merge_changes(
                PROBLEMS["laptop"],
                {
                    "task": dict(size=100_000),
                    "data": dict(train_size=0),
                    "optim": dict(epochs=2, warmup=400),
                    "scheme.vocab:sentencepiece": dict(size=6000),
                },
            ),
            "paper": PROBLEMS["paper"],
        },
    },
    "equation": {
        "task": dict(name="equation_extraction", path="", as_published=False, fold=0),
        "when": PROBLEMS,
    },
    "headline": HEADLINE,
    "next_formula": headline_task("formula", 32, 64, 128),
    "next_text": headline_task("text", 16, 32, 64),
    "student_action": {
        "task": dict(name="student_action", path="", as_published=False, fold=0, size=0),
        "data": dict(overflow="shorten"),
        "when": {
            "smoke": row_sizes(192, 32),
            "laptop": merge_changes(
                row_sizes(240, 32),
                {"data": dict(train_size=3000), "optim": dict(epochs=6, warmup=100), "eval": dict(examples=256)},
            ),
            "paper": merge_changes(row_sizes(1024, 64), THREE_BEAMS),
        },
    },
    "answer_scoring": {
        "task": dict(name="answer_scoring", path="", as_published=False, fold=0, size=0, examples=5),
        "data": dict(overflow="shorten"),
        "when": {
            "smoke": row_sizes(160, 0),
            "laptop": merge_changes(
                row_sizes(256, 0),
                {
                    "data": dict(train_size=2400),
                    "optim": dict(batch_size=16, epochs=3, warmup=50),
                    "eval": dict(batch_size=64),
                },
            ),
            "paper": row_sizes(1024, 0),
        },
    },
    "feedback": {
        "task": dict(name="feedback", path="", as_published=False, fold=0, size=0),
        "data": dict(overflow="shorten"),
        "when": {
            "smoke": row_sizes(192, 32),
            "laptop": merge_changes(
                row_sizes(200, 56),
                {"data": dict(train_size=3000), "optim": dict(epochs=6, warmup=100), "eval": dict(examples=256)},
            ),
            "paper": merge_changes(row_sizes(1024, 160), THREE_BEAMS),
        },
    },
    "gsm8k": {
        "task": dict(name="solving", path="", as_published=False, form="gsm8k"),
        **UNFIT,
        "when": SOLUTIONS,
    },
    "math": {
        "task": dict(name="solving", path="", as_published=False, form="math"),
        **UNFIT,
        "when": SOLUTIONS,
    },
    # Pre-training on articles with formulas, or on a folder of text.
    "articles": {
        "task": dict(name="articles", path="", as_published=False),
        **UNFIT,
        "data": dict(pack=True, overflow="split"),
        "backbone": dict(packed=True),
        "optim": dict(epochs=1),
        "when": PACKED_TEXTS | {"overnight": {"optim": dict(epochs=5)}},
    },
    "text": {
        "task": dict(name="language_model", path=""),
        "data": dict(pack=True, overflow="split"),
        "backbone": dict(packed=True),
        "optim": dict(epochs=1),
        "when": PACKED_TEXTS,
    },
}

# GPT-2's vocabulary: give its folder as `--config.scheme.vocab.path`, and its weights as `--config.init_from`.
# Special symbols start as long as its vectors. Tree positions start as in PyTorch, which suits its weights.
GPT2 = {
    "scheme.vocab": dict(name="gpt2", path=""),
    "positions.tree?": dict(init_std=None),
    "embeds.token:linked": dict(special_std=0.14),
}
PARTS = {
    "system": {
        "mathgpt": {},
        # A plain GPT, with formulas as text, as they are written.
        "gpt": {
            "words": ("reader=none",),
            "scheme": dict(
                name="subword",
                rules="default",
                vocab=dict(name="sentencepiece", model="bpe", size=2000, split_digits=True),
            ),
            "embeds": dict(token=dict(name="token")),
            "positions.tree": None,
            # Half as long as tokens at first, as in GPT-2's code: the better of two on validation (`starts`).
            "positions.sequence:learned": dict(init_std=0.01),
            "heads.next?": dict(name="token", tied=True),
            "objectives.next?": NLL,
            "task:equation_extraction": dict(answer="text"),
        },
    },
    "vocab": {"gpt2": GPT2},
    "numbers": {
        # A number of a formula points to the same number in the text. Numbers in words are numbers too.
        "pointed": {
            "needs": "scheme:trees",
            "scheme": dict(rules="words", pointers=12, ranks=True),
            # A piece of a text would have formulas without the numbers that they point to.
            "when": {name: {"data": dict(overflow="skip")} for name in ("task=articles", "task=text")},
        },
        # A number of a formula is the sub-tree of its digits. Digits in formulas are linked with digits in text, at
        # the output as at the input.
        "linked": {
            "needs": "scheme:trees",
            "scheme": dict(pointers=0, ranks=False),
            "heads.next": dict(linked=True),
        },
        # As published: a number of a formula is the sub-tree of its digits.
        "spelled": {"needs": "scheme:trees", "scheme": dict(pointers=0, ranks=False)},
    },
}

# Table 5.
ABLATIONS = {
    # No tree positions.
    "tpe": {"needs": "positions.tree", "positions.tree": None},
    # No token types.
    "te": {"needs": "embeds.type", "embeds.type": None},
    # Symbols with vectors of their own.
    "se": {"embeds.token": dict(name="token")},
    # A token for each frequent number.
    "nt": {"needs": ("scheme:trees", "scheme:trees_published"), "scheme": dict(symbols=dict(numbers=2000))},
}
# An encoder reads the problem, and the decoder writes the formula.
ENCODER = {
    "needs": "task:equation_extraction",
    "task": dict(encoder=True),
    "positions.sequence": presets.PRESETS["flan"].positions,
    "when": {
        "task=problems": {"heads.next:joint": dict(text=False)},
        "smoke": {"data": dict(length=40, source_length=160)},
        "laptop": {"data": dict(length=48, source_length=160)},
        "paper": {"data": dict(length=264, source_length=960)},
    },
}
READERS = {
    # Without pretrained weights, as small as the decoder. 1.5 times as fast as with a gated MLP.
    "scratch": ENCODER
    | {
        "backbone.name": "encoder_decoder",
        "backbone": dict(gated=False, mlp="relu", scaled=True, shrink=True),
        # Its initialisation follows the kernels' widths, and it has no packed rows.
        "backbone.init_std": None,
        "backbone.packed": None,
    },
    # all-MiniLM-L6-v2 with its vocabulary, 22.7 M weights, as `make pretrained` installs it.
    "minilm": ENCODER
    | {
        "when": ENCODER["when"] | {"paper": ENCODER["when"]["paper"] | {"backbone": dict(dtype="bfloat16")}},
        "init_from": "pretrained:minilm",
        "scheme.vocab": dict(name="wordpiece", path="pretrained:minilm", lower=True, split_digits=True),
        "embeds.token": dict(special_std=0.05, word_dropout=0.1),
        "positions.sequence": presets.PRESETS["bert_reader"].positions,
        "backbone": SIZES
        | presets.PRESETS["bert_reader"].backbone
        | dict(width=384, heads=12, layers=2, encoder_layers=6, mlp_ratio=4, max_length=512, dropout=0.0),
        "optim": dict(
            learning_rate=1e-3,
            schedule="cosine",
            warmup=200,
            batch_size=32,
            epochs=1,
            # New weights learn faster than pretrained ones. Word vectors are frozen.
            rates=(("backbone/encoder/", 0.2), ("embeds_token/table", 0.0)),
        ),
    },
    # Only a decoder: it reads the problem and then writes the formula, as published.
    "none": {},
}
SCALES = {
    # Seconds: for tests.
    "smoke": {
        "backbone": dict(width=32, layers=2, heads=2),
        "data": dict(train_size=64),
        "scheme.vocab:sentencepiece": dict(size=400),
        "optim": dict(batch_size=16, epochs=1, learning_rate=1e-3),
        "eval": dict(batch_size=32, examples=64),
    },
    # Minutes on two cores: 2 layers × 128, 8,000 training examples unless the task sets another size.
    "laptop": {
        "backbone": dict(width=128, layers=2, heads=4, init_std=0.08, dropout=0.0),
        "data": dict(train_size=8000),
        "optim": dict(batch_size=32, epochs=10, learning_rate=1e-3, schedule="cosine", warmup=200),
    },
    # From a pre-training on mathematical text (task=articles), hours on two cores: all training examples.
    "overnight": {"from": "laptop", "data": dict(train_size=0)},
    # GPT-2's 12 layers × 768 and vocabulary (give `--config.scheme.vocab.path`), batch 16, 1e-5; one GPU.
    "paper": {
        "backbone": dict(width=768, layers=12, heads=12, dtype="bfloat16", dropout=0.1),
        "data": dict(train_size=0),
        **GPT2,
        "optim": dict(batch_size=16, epochs=50, learning_rate=1e-5, weight_decay=0.01, clip=0.0),
    },
}
# As in the released code: its tokens, its constraints (which can be broken), special symbols with large initial
# vectors, PyTorch's betas, three beams, and only a decoder.
AS_PUBLISHED = {
    "words": ("reader=none",),
    "scheme:trees": dict(name="trees_published", rules="default", arity=True),
    "embeds.token:linked": dict(special_std=1.0),
    "positions.tree?": dict(init_std=None),
    "positions.sequence:learned": dict(init_std=0.02),
    "objectives.next?": dict(given=False),
    "optim": dict(betas=(0.9, 0.999)),
    "decode": dict(beams=3),
    "task:equation_extraction": dict(as_published=True, answer="text"),
    **{
        f"task:{name}": dict(as_published=True)
        for name in ("headline", "student_action", "answer_scoring", "feedback", "solving", "articles")
    },
}

get_config = Recipe(
    system=MATHGPT,
    task="problems",
    tasks=TASKS,
    parts=PARTS,
    scale="laptop",
    scales=SCALES,
    options={"without": ABLATIONS, "reader": READERS},
    as_published=AS_PUBLISHED,
)
