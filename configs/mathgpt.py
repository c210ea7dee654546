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

from collections.abc import Callable
from typing import Any

from ml_collections import ConfigDict

from configs import common


def get_config(argument: str | None = None) -> ConfigDict:
    """The config for an argument such as "laptop,without=tpe"."""
    config = common.base()
    words = [word for word in (argument or "").split(",") if word]
    if not any(word.startswith(("system=", "reader=")) or word == "as_published" for word in words):
        if "task=problems" in words or not any(word.startswith("task=") for word in words):
            words.append("reader=scratch")
    argument = ",".join(words)
    return common.compose(
        argument,
        config,
        tasks=TASKS,
        scales=SCALES,
        swaps={"system": SYSTEMS, "without": ABLATIONS, "vocab": VOCABULARIES, "numbers": NUMBERS, "reader": READERS},
        as_published=as_published,
        default_task="problems",
        replacing=("system", "vocab", "numbers"),
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
    if config.task.name in WHOLE:
        with config.unlocked():
            config.scheme.unfit = "text"
    config.embeds = common.block(
        token=dict(name="linked", special_std=0.02),
        type=dict(name="token_type"),
    )
    with config.unlocked():
        config.positions.tree = common.block(name="tree", init_std=SMALL)
    if config.task.get("dataset") == "problems":
        # Only read, never written: what people type in capitals is the same words.
        config.scheme.vocab = common.block(name="wordpiece", size=6000, lower=True, split_digits=True)
        with config.unlocked():
            config.task.answer = "formula"
        pointed(config)
        # Among so many equations the one whose value an answer may have, see the task's `log_prior`.
        config.decode.beams = 8
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
    if "tree" in config.positions:
        del config.positions.tree
    if "answer" in config.task:
        config.task.answer = "text"
    set_head(config, "token", tied=True)


def set_head(config: Any, head: str, **options) -> None:
    """The next position, or the label of a task that has one."""
    if config.task.name in LABELS:
        common.set_classifier(config, LABELS[config.task.name])
    else:
        common.set_language_model(config, head, **options)


def task(name: str, system: Callable[[Any], None] = mathgpt, long: str = "", **options: Any):
    """What sets up a task of numjax/tasks/.

    Args:
      system: what reads it. options: the task's own.
      long: what is done with rows that are too long, where they are not left out (`data.overflow`).
    """

    def chosen(config: Any) -> None:
        config.task = common.block(name=name, path="", as_published=False, **options)
        system(config)
        if long:
            config.data.overflow = long

    return chosen


def pretraining(config: Any) -> None:
    """Texts of any length, cut between formulas and packed."""
    mathgpt(config)
    config.data.pack = True
    config.backbone.packed = True
    config.optim.epochs = 1


def text(config: Any) -> None:
    """Pre-training on a folder of text."""
    config.task = common.block(name="language_model", path="")
    pretraining(config)
    config.data.overflow = "split"


def problems(config: Any) -> None:
    """Word problems composed from plans; test has other wordings than training."""
    config.task = common.block(name="equation_extraction", dataset="problems", path="", as_published=False)
    mathgpt(config)


def spelled(config: Any) -> None:
    """A number of a formula is the sub-tree of its digits, as published."""
    with config.unlocked():
        config.scheme.update(pointers=0, ranks=False)


def linked(config: Any) -> None:
    """Its digits are linked with those of the text at the output as at the input."""
    spelled(config)
    config.heads.next.linked = True


def pointed(config: Any) -> None:
    """A number of a formula points to the number of the text that it is; numbers in words are numbers too."""
    with config.unlocked():
        config.scheme.update(rules="words", pointers=12, ranks=True)


def smoke(config: Any) -> None:
    """Seconds: for tests."""
    config.backbone.update(width=32, layers=2, heads=2)
    config.data.train_size = 64
    if "size" in config.scheme.vocab:
        # Real questions have more characters than problems.
        config.scheme.vocab.size = 800 if config.task.name == "headline" else 400
    config.optim.update(batch_size=16, epochs=1, learning_rate=1e-3)
    config.eval.update(batch_size=32, examples=64)
    room(config, "smoke")
    change(config, SMOKE)


def laptop(config: Any) -> None:
    """Minutes on two cores: 2 layers × 128, 8,000 training examples or what LAPTOP says."""
    config.backbone.update(width=128, layers=2, heads=4, init_std=0.08, dropout=0.0)
    config.data.train_size = 8000
    config.optim.update(batch_size=32, epochs=10, learning_rate=1e-3, schedule="cosine", warmup=200)
    room(config, "laptop")
    change(config, LAPTOP)


def paper(config: Any) -> None:
    """GPT-2's 12 layers × 768 and vocabulary (give `--config.scheme.vocab.path`), batch 16, 1e-5; one GPU."""
    config.backbone.update(width=768, layers=12, heads=12, dtype="bfloat16", dropout=0.1)
    config.data.train_size = 0
    gpt2_vocabulary(config)
    config.optim.update(batch_size=16, epochs=50, learning_rate=1e-5, weight_decay=0.01, clip=0.0)
    room(config, "paper")
    change(config, PAPER)


def change(config: Any, tasks: dict[str, dict[str, dict[str, Any]]]) -> None:
    """What a task has of its own at a scale: its name → block → values."""
    for block, values in tasks.get(named(config), {}).items():
        with config[block].unlocked():
            config[block].update(values)


def named(config: Any) -> str:
    """The task, or the part of it that has settings of its own."""
    if (region := config.task.get("region", "all")) != "all":
        return f"next_{region}"
    return "problems" if config.task.get("dataset") == "problems" else config.task.name


def room(config: Any, scale: str) -> None:
    """Sets how long rows, what is written and the context are, see ROOM."""
    positions, written, context = ROOM.get(named(config), {}).get(scale, ROOM["equation_extraction"][scale])
    if config.data.overflow == "shorten":
        context, config.data.reserve = positions, written
    # What is packed fills the context.
    config.data.length = context if config.data.pack else positions
    config.backbone.max_length = context
    config.decode.max_tokens = written or config.decode.max_tokens


def as_published(config: Any) -> None:
    """The released code: its tokens and constraints, which can be broken; special symbols that start out large;
    PyTorch's betas and three beams."""
    config.optim.betas = (0.9, 0.999)
    config.decode.beams = 3
    if "as_published" in config.task:
        config.task.as_published = True
    if "answer" in config.task:
        config.task.answer = "text"
    if config.scheme.name == "trees":
        config.scheme.name, config.scheme.rules = "trees_published", "default"
        with config.unlocked():
            for name in {"pointers", "ranks"} & set(config.scheme):
                del config.scheme[name]
        if "next" in config.objectives:
            config.objectives.next.given = False
        if "special_std" in config.embeds.token:
            config.embeds.token.special_std = 1.0
        config.positions.tree.init_std = None


def no_positions(config: Any) -> None:
    """No tree positions (TPE)."""
    del config.positions.tree


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
    # As long as GPT-2's vectors, and PyTorch's start of the positions, which suits them.
    if "tree" in config.positions:
        config.positions.tree.init_std = None
    if "special_std" in config.embeds.token:
        config.embeds.token.special_std = 0.14


def with_encoder(config: Any, form: str, **sizes: Any) -> None:
    """An encoder reads the problem, and the decoder writes the formula."""
    if config.task.name != "equation_extraction":
        raise ValueError("reader= is of word problems: use it with task=problems or task=equation")
    with config.unlocked():
        config.task.encoder = True
        config.data.source_length = config.data.length
        config.data.length = config.decode.max_tokens + 8
    heads, objectives = config.heads, config.objectives
    common.set_encoder_decoder(config, form, **sizes)
    config.heads, config.objectives = heads, objectives
    if config.task.answer == "formula":
        with config.unlocked():
            config.heads.next.text = False


def scratch(config: Any) -> None:
    """An encoder without pretrained weights, as small as the decoder."""
    # Half again as fast as a gated MLP.
    with_encoder(
        config, "flan", encoder_layers=config.backbone.layers, gated=False, mlp="relu", scaled=True, shrink=True
    )


def no_reader(config: Any) -> None:
    """A decoder that reads the problem and writes the formula behind it, as published: what the task sets already."""


def minilm(config: Any) -> None:
    """all-MiniLM-L6-v2 with its vocabulary, 22.7 M weights, as `make pretrained` installs it."""
    sizes = dict(width=384, heads=12, layers=2, encoder_layers=6, mlp_ratio=4, max_length=512, dropout=0.0)
    with_encoder(config, "bert_reader", **sizes)
    config.init_from = "pretrained:minilm"
    config.scheme.vocab = common.block(name="wordpiece", path="pretrained:minilm", lower=True, split_digits=True)
    # What is new learns faster than what is known; the word vectors stay as they are.
    with config.unlocked():
        config.optim.rates = (("backbone/encoder/", 0.2), ("embeds_token/table", 0.0))
    config.optim.update(learning_rate=1e-3, schedule="cosine", warmup=200, batch_size=32, epochs=1)
    config.embeds.token.special_std = 0.05
    with config.unlocked():
        config.embeds.token.word_dropout = 0.1


# Of the matrix of tree positions. Three levels deep a position adds eighteen of its rows: so they come to the length
# of a token's vector as it starts out. PyTorch's 0.03, which suits GPT-2's weights (None), is seven times as much.
SMALL = 0.005
TASKS = {
    "problems": problems,
    "equation": task("equation_extraction", fold=0),
    "headline": task("headline", long="shorten", region="all", splits="files"),
    "next_formula": task("headline", long="shorten", region="formula", splits="files"),
    "next_text": task("headline", long="shorten", region="text", splits="files"),
    "student_action": task("student_action", long="shorten", fold=0, size=0),
    "answer_scoring": task("answer_scoring", long="shorten", fold=0, size=0, examples=5),
    "feedback": task("feedback", long="shorten", fold=0, size=0),
    "gsm8k": task("solving", form="gsm8k"),
    "math": task("solving", form="math"),
    "articles": task("articles", pretraining, long="split"),
    "text": text,
}
# Scale → positions of a row, how many may be written, and the context; where prompts are shortened the row holds
# what is written too and is the context.
ROOM = {
    "equation_extraction": {"smoke": (160, 32, 192), "laptop": (160, 40, 224), "paper": (960, 256, 1024)},
    "headline": {"smoke": (160, 48, 0), "laptop": (192, 96, 0), "paper": (1024, 192, 0)},
    "next_formula": {"smoke": (160, 32, 0), "laptop": (192, 64, 0), "paper": (1024, 128, 0)},
    "next_text": {"smoke": (160, 16, 0), "laptop": (192, 32, 0), "paper": (1024, 64, 0)},
    "student_action": {"smoke": (192, 32, 0), "laptop": (240, 32, 0), "paper": (1024, 64, 0)},
    "answer_scoring": {"smoke": (160, 0, 0), "laptop": (256, 0, 0), "paper": (1024, 0, 0)},
    "feedback": {"smoke": (192, 32, 0), "laptop": (200, 56, 0), "paper": (1024, 160, 0)},
    "solving": {"smoke": (256, 64, 320), "laptop": (448, 128, 576), "paper": (640, 384, 1024)},
}
SMOKE: dict[str, dict[str, dict[str, Any]]] = {"problems": dict(task=dict(size=64, test=10))}
# Of problems, whose words are many.
WORDS = dict(size=6000)
# Examples and epochs for five minutes on two cores.
LAPTOP: dict[str, dict[str, dict[str, Any]]] = {
    "problems": dict(
        task=dict(size=100_000), data=dict(train_size=0), optim=dict(epochs=2, warmup=400), scheme=dict(vocab=WORDS)
    ),
    "headline": dict(data=dict(train_size=2000), optim=dict(batch_size=16, warmup=100)),
    "student_action": dict(data=dict(train_size=3000), optim=dict(epochs=6, warmup=100), eval=dict(examples=256)),
    "answer_scoring": dict(
        data=dict(train_size=2400), optim=dict(batch_size=16, epochs=3, warmup=50), eval=dict(batch_size=64)
    ),
    "feedback": dict(data=dict(train_size=3000), optim=dict(epochs=6, warmup=100), eval=dict(examples=256)),
}
PAPER: dict[str, dict[str, dict[str, Any]]] = {
    "student_action": dict(decode=dict(beams=3)),
    "feedback": dict(decode=dict(beams=3)),
}
# Tasks of numjax/tasks/ that have labels, and how many.
LABELS = {"answer_scoring": 5}
# Where one formula of many that the grammar does not have does not cost an article or a solution.
WHOLE = ("articles", "solving")
READERS = {"scratch": scratch, "minilm": minilm, "none": no_reader}
NUMBERS = {"pointed": pointed, "linked": linked, "spelled": spelled}
SCALES = {"smoke": smoke, "laptop": laptop, "paper": paper}
SYSTEMS = {"mathgpt": mathgpt, "gpt": gpt}
VOCABULARIES = {"gpt2": gpt2_vocabulary}
ABLATIONS = {"tpe": no_positions, "te": no_types, "se": no_links, "nt": whole_numbers}
