"""MathGPT (Scarlatos and Lan 2023): formulas as operator trees, from embeddings to constrained decoding.

    python -m numjax.main --config=configs/mathgpt.py --workdir=runs/mathgpt            # equations, 2 cores
    python -m numjax.main --config=configs/mathgpt.py:system=gpt --workdir=…            # the GPT baseline
    python -m numjax.main --config=configs/mathgpt.py:without=tpe --workdir=…           # Table 5's ablation
    python -m numjax.main --config=configs/mathgpt.py:paper --workdir=…                 # the paper's sizes, one GPU

    python -m numjax.main --config=configs/mathgpt.py:task=student_action --workdir=…   # an algebra tutor's students
    python -m numjax.main --config=configs/mathgpt.py:task=answer_scoring --workdir=…   # grades of answers
    python -m numjax.main --config=configs/mathgpt.py:task=feedback --workdir=…         # what to say to wrong ones

Arguments: smoke | laptop | paper; task=equation|student_action|answer_scoring|feedback|text;
system=mathgpt|gpt; without=tpe|te|se|nt; vocab=gpt2; as_published.
"""

from __future__ import annotations

from collections.abc import Mapping
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
        symbols=dict(path="", numbers=0, least=1),
        vocab=dict(name="sentencepiece", model="bpe", size=2000, split_digits=True),
    )
    config.embeds = common.block(
        token=dict(name="linked", special_std=0.02),
        type=dict(name="token_type"),
        position=dict(name="tree_position"),
    )
    set_head(config, "joint", tied=True, bias=True)
    if "next" in config.objectives:
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
    set_head(config, "token", tied=True)


def set_head(config: Any, head: str, **options) -> None:
    """The next position, or the label of a task that has one."""
    if config.task.name == "answer_scoring":
        common.set_classifier(config, 5)
    else:
        common.set_language_model(config, head, **options)


def equation(config: Any) -> None:
    """The equation of a word problem: Math23K in English where `--config.task.path` says, else generated ones."""
    config.task = common.block(name="equation_extraction", path="", fold=0, as_published=False)
    mathgpt(config)


def student_action(config: Any) -> None:
    """What a student enters after feedback: the Cognitive Tutor's log where the path says, else simulated ones."""
    config.task = common.block(name="student_action", path="", fold=0, size=0, as_published=False)
    mathgpt(config)
    config.data.overflow = "spare"


def answer_scoring(config: Any) -> None:
    """The grade of an answer, from graded answers to the same question."""
    config.task = common.block(name="answer_scoring", path="", fold=0, size=0, examples=5, as_published=False)
    mathgpt(config)
    config.data.overflow = "spare"


def feedback(config: Any) -> None:
    """What a teacher says to a wrong answer."""
    config.task = common.block(name="feedback", path="", fold=0, size=0, as_published=False)
    mathgpt(config)
    config.data.overflow = "spare"


def text(config: Any) -> None:
    """Pre-training on a folder of text."""
    config.task = common.block(name="language_model", path="")
    mathgpt(config)
    config.data.pack = True
    config.data.overflow = "split"
    config.backbone.packed = True
    config.optim.epochs = 1


def smoke(config: Any) -> None:
    """Seconds: for tests."""
    config.backbone.update(width=32, layers=2, heads=2, max_length=192)
    config.data.update(length=160, train_size=64)
    config.decode.max_tokens = 32
    if "size" in config.scheme.vocab:
        config.scheme.vocab.size = 400
    config.optim.update(batch_size=16, epochs=1, learning_rate=1e-3)
    config.eval.update(batch_size=32, examples=64)


def laptop(config: Any) -> None:
    """Minutes on two cores: 2 layers × 128, 8,000 training examples."""
    config.backbone.update(width=128, layers=2, heads=4, max_length=224, init_std=0.08, dropout=0.0)
    config.data.update(length=160, train_size=8000)
    config.decode.max_tokens = 40
    config.optim.update(batch_size=32, epochs=10, learning_rate=1e-3, schedule="cosine", warmup=200)
    update(config, LAPTOP)


def paper(config: Any) -> None:
    """GPT-2's 12 layers × 768 and vocabulary (give `--config.scheme.vocab.path`), batch 16, 1e-5; one GPU."""
    config.backbone.update(width=768, layers=12, heads=12, max_length=1024, dtype="bfloat16", dropout=0.1)
    config.data.update(length=960, train_size=0)
    config.decode.max_tokens = 256
    gpt2_vocabulary(config)
    config.optim.update(batch_size=16, epochs=50, learning_rate=1e-5, weight_decay=0.01, clip=0.0)
    update(config, PAPER)


def update(config: Any, by_task: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Sets what a task has of its own: name of the task → block → values."""
    for block, changes in by_task.get(config.task.name, {}).items():
        config[block].update(changes)


def as_published(config: Any) -> None:
    """The released code: its tokens and constraints, which can be broken; special symbols that start out large."""
    if "as_published" in config.task:
        config.task.as_published = True
    if config.scheme.name == "trees":
        config.scheme.name = "trees_published"
        if "next" in config.objectives:
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


# Positions that a task's records take on the stand-in; examples and epochs for five minutes on two cores.
LAPTOP = {
    "student_action": dict(
        backbone=dict(max_length=240),
        data=dict(length=208, train_size=3000),
        decode=dict(max_tokens=32),
        optim=dict(epochs=6, warmup=100),
        eval=dict(examples=256),
    ),
    "answer_scoring": dict(
        backbone=dict(max_length=256),
        data=dict(length=256, train_size=2400),
        optim=dict(batch_size=16, epochs=3, warmup=50),
        eval=dict(batch_size=64),
    ),
    "feedback": dict(
        backbone=dict(max_length=208),
        data=dict(length=144, train_size=3000),
        decode=dict(max_tokens=56),
        optim=dict(epochs=6, warmup=100),
        eval=dict(examples=256),
    ),
}
# Prompts may be as long as the context leaves room for what is written.
PAPER = {
    "student_action": dict(decode=dict(max_tokens=64, beams=3)),
    "feedback": dict(data=dict(length=864), decode=dict(max_tokens=160, beams=3)),
    "answer_scoring": dict(data=dict(length=1024)),
}
TASKS = {
    "equation": equation,
    "student_action": student_action,
    "answer_scoring": answer_scoring,
    "feedback": feedback,
    "text": text,
}
SCALES = {"smoke": smoke, "laptop": laptop, "paper": paper}
SYSTEMS = {"mathgpt": mathgpt, "gpt": gpt}
VOCABULARIES = {"gpt2": gpt2_vocabulary}
ABLATIONS = {"tpe": no_positions, "te": no_types, "se": no_links, "nt": whole_numbers}
