"""MathGPT (Scarlatos and Lan 2023): formulas as operator trees, from embeddings to constrained decoding.

    python -m numjax.main --config=configs/mathgpt.py --workdir=runs/mathgpt            # equations, 2 cores
    python -m numjax.main --config=configs/mathgpt.py:system=gpt --workdir=…            # the GPT baseline
    python -m numjax.main --config=configs/mathgpt.py:without=tpe --workdir=…           # Table 5's ablation
    python -m numjax.main --config=configs/mathgpt.py:task=articles --workdir=runs/wiki # pre-training; then, from it:
    python -m numjax.main --config=configs/mathgpt.py --config.init_from=runs/wiki --workdir=…
    python -m numjax.main --config=configs/mathgpt.py:paper --workdir=…                 # the paper's sizes, one GPU

Arguments: smoke | laptop | paper; task=equation|articles|gsm8k|math|text; system=mathgpt|gpt; without=tpe|te|se|nt;
vocab=gpt2; as_published.
"""

from __future__ import annotations

from typing import Any

from ml_collections import ConfigDict

from configs import common


def get_config(argument: str | None = None) -> ConfigDict:
    """The config for an argument such as "laptop,without=tpe"."""
    config = common.base()
    return common.compose(
        argument,
        config,
        tasks=TASKS,
        scales=SCALES,
        swaps={"system": SYSTEMS, "without": ABLATIONS, "vocab": VOCABULARIES},
        as_published=as_published,
        default_task="equation",
        replacing=("system", "vocab"),
    )


def mathgpt(config: Any) -> None:
    """Trees in the text, every embedding, one softmax, the grammar's mask in training and in decoding."""
    config.scheme = common.block(
        name="trees",
        rules="default",
        pad_multiple=128,
        arity=True,
        # One formula of many that is too deep does not cost an article or a solution.
        unfit="text" if config.task.name in ("articles", "solving") else "error",
        symbols=dict(path="", numbers=0, least=1),
        vocab=dict(name="sentencepiece", model="bpe", size=2000, split_digits=True),
    )
    config.embeds = common.block(
        token=dict(name="linked", special_std=0.02),
        type=dict(name="token_type"),
        position=dict(name="tree_position"),
    )
    common.set_language_model(config, "joint", tied=True, bias=True)
    config.objectives.next.constrain = True
    with config.unlocked():
        config.objectives.next.given = True


def gpt(config: Any) -> None:
    """Formulas as the text that one writes, read by a plain GPT."""
    config.scheme = common.block(
        name="subword",
        rules="default",
        pad_multiple=128,
        vocab=dict(name="sentencepiece", model="bpe", size=2000, split_digits=True),
    )
    config.embeds = common.block(token=dict(name="token"))
    common.set_language_model(config, "token", tied=True)


def equation(config: Any) -> None:
    """The equation of a word problem: Math23K in English where `--config.task.path` says, else generated ones."""
    config.task = common.block(name="equation_extraction", path="", fold=0, as_published=False)
    mathgpt(config)


def gsm8k(config: Any) -> None:
    """Grade-school problems, step by step: GSM8K where `--config.task.path` says, else generated ones."""
    config.task = common.block(name="solving", form="gsm8k", path="", as_published=False)
    mathgpt(config)


def math(config: Any) -> None:
    """As `gsm8k`, for the competition problems of MATH."""
    gsm8k(config)
    config.task.form = "math"


def articles(config: Any) -> None:
    """Pre-training on articles with formulas: NTCIR-12's where `--config.task.path` says, else generated ones."""
    config.task = common.block(name="articles", path="", as_published=False)
    pretraining(config)


def text(config: Any) -> None:
    """Pre-training on a folder of text."""
    config.task = common.block(name="language_model", path="")
    pretraining(config)


def pretraining(config: Any) -> None:
    """Texts of any length, cut between formulas and packed."""
    mathgpt(config)
    config.data.pack = True
    config.data.overflow = "split"
    config.backbone.packed = True
    config.optim.epochs = 1


def smoke(config: Any) -> None:
    """Seconds: for tests."""
    config.backbone.update(width=32, layers=2, heads=2)
    config.data.train_size = 64
    room(config, "smoke", positions=160, written=32)
    if "size" in config.scheme.vocab:
        config.scheme.vocab.size = 400
    config.optim.update(batch_size=16, epochs=1, learning_rate=1e-3)
    config.eval.update(batch_size=32, examples=64)


def laptop(config: Any) -> None:
    """Minutes on two cores: 2 layers × 128, 8,000 training examples."""
    config.backbone.update(width=128, layers=2, heads=4, init_std=0.08, dropout=0.0)
    config.data.train_size = 8000
    room(config, "laptop", positions=160, written=40, context=224)
    config.optim.update(batch_size=32, epochs=10, learning_rate=1e-3, schedule="cosine", warmup=200)


def paper(config: Any) -> None:
    """GPT-2's 12 layers × 768 and vocabulary (give `--config.scheme.vocab.path`), batch 16, 1e-5; one GPU."""
    config.backbone.update(width=768, layers=12, heads=12, dtype="bfloat16", dropout=0.1)
    config.data.train_size = 0
    room(config, "paper", positions=960, written=256, context=1024)
    gpt2_vocabulary(config)
    config.optim.update(batch_size=16, epochs=50, learning_rate=1e-5, weight_decay=0.01, clip=0.0)


def room(config: Any, scale: str, positions: int, written: int, context: int = 0) -> None:
    """Positions of a row and of the context, and how many may be written: an equation's, or the task's own."""
    positions, written, context = ROOM.get(config.task.name, {}).get(scale, (positions, written, context))
    context = context or positions + written
    # What is packed fills the context.
    config.data.length = context if config.data.pack else positions
    config.backbone.max_length = context
    config.decode.max_tokens = written


def as_published(config: Any) -> None:
    """The released code: its tokens and constraints, which can be broken; special symbols that start out large."""
    if "as_published" in config.task:
        config.task.as_published = True
    if config.scheme.name == "trees":
        config.scheme.name = "trees_published"
        config.objectives.next.given = False
        if "special_std" in config.embeds.token:
            config.embeds.token.special_std = 1.0


def no_positions(config: Any) -> None:
    """No tree positions (TPE)."""
    del config.embeds.position


def no_types(config: Any) -> None:
    """No token types (TE)."""
    del config.embeds.type


def no_links(config: Any) -> None:
    """Symbols with vectors of their own (SE)."""
    config.embeds.token = common.block(name="token")


def whole_numbers(config: Any) -> None:
    """Frequent numbers as tokens of their own (NT)."""
    config.scheme.symbols.numbers = 2000


def gpt2_vocabulary(config: Any) -> None:
    """GPT-2's own: give its folder as `--config.scheme.vocab.path`, and its weights as `--config.init_from`."""
    config.scheme.vocab = common.block(name="gpt2", path="")


TASKS = {"equation": equation, "articles": articles, "gsm8k": gsm8k, "math": math, "text": text}
# Solutions are longer than equations.
ROOM = {"solving": {"smoke": (256, 64, 0), "laptop": (448, 128, 0), "paper": (640, 384, 0)}}
SCALES = {"smoke": smoke, "laptop": laptop, "paper": paper}
SYSTEMS = {"mathgpt": mathgpt, "gpt": gpt}
VOCABULARIES = {"gpt2": gpt2_vocabulary}
ABLATIONS = {"tpe": no_positions, "te": no_types, "se": no_links, "nt": whole_numbers}
