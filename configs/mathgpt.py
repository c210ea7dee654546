"""MathGPT (Scarlatos and Lan 2023): formulas as operator trees, from embeddings to constrained decoding.

    python -m numjax.main --config=configs/mathgpt.py --workdir=runs/mathgpt            # word problems, 2 cores
    python -m numjax.main --config=configs/mathgpt.py:reader=minilm --workdir=…         # with a pretrained encoder
    python -m numjax.main --config=configs/mathgpt.py:system=gpt --workdir=…            # the GPT baseline
    python -m numjax.main --config=configs/mathgpt.py:without=tpe --workdir=…           # Table 5's ablation
    python -m numjax.main --config=configs/mathgpt.py:task=headline --workdir=…         # another task, see TASKS
    python -m numjax.main --config=configs/mathgpt.py:task=articles --workdir=runs/wiki # pre-training; then, from it:
    python -m numjax.main --config=configs/mathgpt.py --config.init_from=runs/wiki --workdir=…
    python -m numjax.main --config=configs/mathgpt.py:paper --workdir=…                 # the paper's sizes, one GPU

Arguments: smoke | laptop | paper; system=mathgpt|gpt; numbers=pointed|linked|spelled;
reader=scratch|minilm|none (an encoder of the problem, by default of task=problems scratch; none: a decoder alone);
without=tpe|te|se|nt; vocab=gpt2; as_published;
task=problems|equation|headline|next_formula|next_text|student_action|answer_scoring|feedback|gsm8k|math|articles|text.
All but problems read the files where `--config.task.path` says, else made ones.
"""

from __future__ import annotations

from typing import Any

from numjax.bundled.configs import presets
from numjax.config.recipe import NLL, SIZES, Recipe

# Trees in the text, every embedding, one softmax, the grammar's mask in training and in decoding.
MATHGPT = {
    "scheme": dict(
        name="trees",
        rules="default",
        arity=True,
        symbols=dict(path="", numbers=0, least=1),
        vocab=dict(name="sentencepiece", model="bpe", size=2000, split_digits=True),
    ),
    "embeds": dict(token=dict(name="linked", special_std=0.02), type=dict(name="token_type")),
    # Three levels deep a position adds eighteen rows of the tree's matrix: so they come to the length of a token's
    # vector as it starts out. PyTorch's 0.03, which suits GPT-2's weights (None), is seven times as much.
    "positions": dict(sequence=dict(name="learned"), tree=dict(name="tree", init_std=0.005)),
    "heads": dict(next=dict(name="joint", tied=True, bias=True)),
    "objectives": dict(next=NLL | dict(constrain=True, given=True)),
}


def room(length: int, written: int, context: int = 0) -> dict[str, Any]:
    """Positions of a row, how many of them may be written, and the context. Without a context prompts are shortened
    to leave `written` positions, and the row is the context."""
    data = dict(length=length) if context else dict(length=length, reserve=written)
    found: dict[str, Any] = {"data": data, "backbone": dict(max_length=context or length)}
    return found | ({"decode": dict(max_tokens=written)} if written else {})


def joined(*changes: dict[str, Any]) -> dict[str, Any]:
    """Changes of one scale: what several say of a place."""
    places = dict.fromkeys(place for change in changes for place in change)
    return {place: {k: v for change in changes for k, v in change.get(place, {}).items()} for place in places}


# Of word problems.
ROWS = {"smoke": room(160, 32, 192), "laptop": room(160, 40, 224), "paper": room(960, 256, 1024)}
# Texts of any length, cut between formulas and packed: what is packed fills the context.
PACKED = {"smoke": room(192, 32, 192), "laptop": room(224, 40, 224), "paper": room(1024, 256, 1024)}
SOLUTIONS = {"smoke": room(256, 64, 320), "laptop": room(448, 128, 576), "paper": room(640, 384, 1024)}
THREE_BEAMS = {"decode": dict(beams=3)}
# Where one formula of many that the grammar does not have does not cost an article or a solution.
UNFIT = {"scheme:trees": dict(unfit="text")}


def headline(region: str, smoke: int, laptop: int, paper: int) -> dict[str, Any]:
    """A question's headline, or every formula or text in it; how much of it may be written at each scale."""
    return {
        "task": dict(name="headline", path="", as_published=False, region=region, splits="files"),
        "data": dict(overflow="shorten"),
        "when": {
            # Real questions have more characters than problems.
            "smoke": room(160, smoke) | {"scheme.vocab:sentencepiece": dict(size=800)},
            "laptop": room(192, laptop),
            "paper": room(1024, paper),
        },
    }


# Whole headlines take longer than what comes next in one.
HEADLINE = headline("all", 48, 96, 192)
HEADLINE["when"]["laptop"] = joined(
    HEADLINE["when"]["laptop"], {"data": dict(train_size=2000), "optim": dict(batch_size=16, warmup=100)}
)


TASKS = {
    # Composed from plans; test has other wordings than training. A number of the formula points to the number of the
    # text that it is; numbers in words are numbers too.
    "problems": {
        "words": ("reader=scratch",),
        "task": dict(name="equation_extraction", dataset="problems", path="", as_published=False, answer="formula"),
        "scheme": dict(rules="words", pointers=12, ranks=True),
        # Only read, never written: what people type in capitals is the same words.
        "scheme.vocab": dict(name="wordpiece", size=6000, lower=True, split_digits=True),
        # Among so many equations the one whose value an answer may have, see the task's `log_prior`.
        "decode": dict(beams=8),
        "when": {
            "smoke": joined(
                ROWS["smoke"], {"task": dict(size=64, test=10), "scheme.vocab:wordpiece": dict(size=400)}
            ),
            "laptop": joined(
                ROWS["laptop"],
                {
                    "task": dict(size=100_000),
                    "data": dict(train_size=0),
                    "optim": dict(epochs=2, warmup=400),
                    "scheme.vocab:sentencepiece": dict(size=6000),
                },
            ),
            "paper": ROWS["paper"],
        },
    },
    "equation": {
        "task": dict(name="equation_extraction", path="", as_published=False, fold=0),
        "when": ROWS,
    },
    "headline": HEADLINE,
    "next_formula": headline("formula", 32, 64, 128),
    "next_text": headline("text", 16, 32, 64),
    "student_action": {
        "task": dict(name="student_action", path="", as_published=False, fold=0, size=0),
        "data": dict(overflow="shorten"),
        "when": {
            "smoke": room(192, 32),
            "laptop": joined(
                room(240, 32),
                {"data": dict(train_size=3000), "optim": dict(epochs=6, warmup=100), "eval": dict(examples=256)},
            ),
            "paper": joined(room(1024, 64), THREE_BEAMS),
        },
    },
    "answer_scoring": {
        "task": dict(name="answer_scoring", path="", as_published=False, fold=0, size=0, examples=5),
        "data": dict(overflow="shorten"),
        "when": {
            "smoke": room(160, 0),
            "laptop": joined(
                room(256, 0),
                {
                    "data": dict(train_size=2400),
                    "optim": dict(batch_size=16, epochs=3, warmup=50),
                    "eval": dict(batch_size=64),
                },
            ),
            "paper": room(1024, 0),
        },
    },
    "feedback": {
        "task": dict(name="feedback", path="", as_published=False, fold=0, size=0),
        "data": dict(overflow="shorten"),
        "when": {
            "smoke": room(192, 32),
            "laptop": joined(
                room(200, 56),
                {"data": dict(train_size=3000), "optim": dict(epochs=6, warmup=100), "eval": dict(examples=256)},
            ),
            "paper": joined(room(1024, 160), THREE_BEAMS),
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
        "when": PACKED,
    },
    "text": {
        "task": dict(name="language_model", path=""),
        "data": dict(pack=True, overflow="split"),
        "backbone": dict(packed=True),
        "optim": dict(epochs=1),
        "when": PACKED,
    },
}

# GPT-2's own: give its folder as `--config.scheme.vocab.path`, and its weights as `--config.init_from`. As long as
# its vectors, and PyTorch's start of the positions, which suits them.
GPT2 = {
    "scheme.vocab": dict(name="gpt2", path=""),
    "positions.tree?": dict(init_std=None),
    "embeds.token:linked": dict(special_std=0.14),
}
PARTS = {
    "system": {
        "mathgpt": {},
        # Formulas as the text that one writes, read by a plain GPT.
        "gpt": {
            "words": ("reader=none",),
            "scheme": dict(
                name="subword",
                rules="default",
                vocab=dict(name="sentencepiece", model="bpe", size=2000, split_digits=True),
            ),
            "embeds": dict(token=dict(name="token")),
            "positions.tree": None,
            "heads.next?": dict(name="token", tied=True),
            "objectives.next?": NLL,
            "task:equation_extraction": dict(answer="text"),
        },
    },
    "vocab": {"gpt2": GPT2},
    "numbers": {
        # A number of a formula points to the number of the text that it is; numbers in words are numbers too.
        "pointed": {"needs": "scheme:trees", "scheme": dict(rules="words", pointers=12, ranks=True)},
        # It is the sub-tree of its digits, which are linked with those of the text at the output as at the input.
        "linked": {
            "needs": "scheme:trees",
            "scheme": dict(pointers=0, ranks=False),
            "heads.next": dict(linked=True),
        },
        # As published: the sub-tree of its digits.
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
    # Frequent numbers as tokens of their own.
    "nt": {"needs": ("scheme:trees", "scheme:trees_published"), "scheme": dict(symbols=dict(numbers=2000))},
}
# An encoder reads the problem, and the decoder writes the formula.
READ = {
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
    # Without pretrained weights, as small as the decoder. Half again as fast as a gated MLP.
    "scratch": READ
    | {
        "backbone.name": "encoder_decoder",
        "backbone": dict(gated=False, mlp="relu", scaled=True, shrink=True),
        # It starts by the widths of its kernels, and reads no packed rows.
        "backbone.init_std": None,
        "backbone.packed": None,
    },
    # all-MiniLM-L6-v2 with its vocabulary, 22.7 M weights, as `make pretrained` installs it.
    "minilm": READ
    | {
        "when": READ["when"] | {"paper": READ["when"]["paper"] | {"backbone": dict(dtype="bfloat16")}},
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
            # What is new learns faster than what is known; the word vectors stay as they are.
            rates=(("backbone/encoder/", 0.2), ("embeds_token/table", 0.0)),
        ),
    },
    # A decoder alone reads the problem and writes the formula behind it, as published.
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
    # Minutes on two cores: 2 layers × 128, 8,000 training examples or what the task says.
    "laptop": {
        "backbone": dict(width=128, layers=2, heads=4, init_std=0.08, dropout=0.0),
        "data": dict(train_size=8000),
        "optim": dict(batch_size=32, epochs=10, learning_rate=1e-3, schedule="cosine", warmup=200),
    },
    # GPT-2's 12 layers × 768 and vocabulary (give `--config.scheme.vocab.path`), batch 16, 1e-5; one GPU.
    "paper": {
        "backbone": dict(width=768, layers=12, heads=12, dtype="bfloat16", dropout=0.1),
        "data": dict(train_size=0),
        **GPT2,
        "optim": dict(batch_size=16, epochs=50, learning_rate=1e-5, weight_decay=0.01, clip=0.0),
    },
}
# The released code: its tokens and constraints, which can be broken; special symbols that start out large; PyTorch's
# betas and three beams; a decoder alone.
AS_PUBLISHED = {
    "words": ("reader=none",),
    "scheme:trees": dict(name="trees_published", rules="default", arity=True),
    "embeds.token:linked": dict(special_std=1.0),
    "positions.tree?": dict(init_std=None),
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
