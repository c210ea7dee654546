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

from ml_collections import ConfigDict

from configs import common

# Share of a row's positions that may be scored before a head reads all; 15% are masked.
ROOM = 0.25
# Steps in which the rate of pre-training and the teacher's share rise; LUNA's are from 167 to 1,334.
WARMUP = 1000


def get_config(argument: str | None = None) -> ConfigDict:
    """The config for an argument such as "laptop,task=pretrain,numbed=char_former,size=1M"."""
    return common.compose(
        argument,
        common.base(),
        tasks=TASKS,
        scales=SCALES,
        swaps={
            "bert": BERTS,
            "tables": {"few": few_tables, "many": many_tables},
            "shape": SHAPES,
            "numtok": NUMTOKS,
            "numbed": NUMBEDS,
            "size": SIZES,
            "regress": {"on": regress, "off": no_regress},
            "distill": {"on": distill, "off": no_distill},
        },
        as_published=as_published,
        default_task="pretrain",
        replacing=("shape", "numtok", "numbed", "regress", "distill"),
    )


# --- Tasks.


def plugged(config: Any) -> None:
    """What all tasks share: BERT's shape, AddBack, and a CharLSTM whose vector is added at [NUM]."""
    config.scheme = common.block(
        name="addback",
        rules="accounting",  # cells of tables are parsed one by one
        pad_multiple=128,
        types=True,
        vocab=dict(name="wordpiece", path="", size=8000, lower=True),
    )
    config.embeds = common.block(token=dict(name="token"))
    char_lstm(config)
    common.set_encoder(config, max_length=512)
    config.data.update(length=512, overflow="truncate")
    config.data.shared = True  # tables repeat their numbers: each string is encoded once a batch
    config.optim.update(schedule="linear", weight_decay=0.01, betas=(0.9, 0.999))


def pretrain(config: Any) -> None:
    """Masked tokens by their kind, masked numbers by sign and logarithm (section 3.2.1), over tables with texts."""
    plugged(config)
    config.task = common.block(
        name="table_text", tatqa="", tabfact="", text="", contexts=0, statements=0, size=0, data_seed=0
    )
    config.data.masking = common.block(rate=0.15, keep=0.1, random=0.1, literals=True, separators=False)
    config.heads = common.block(masked=dict(name="masked", epsilon=1e-12))
    config.objectives = common.block(masked=dict(name="masked", head="masked", numbers=None, room=ROOM, weight=1.0))
    regress(config)
    config.optim.update(learning_rate=4e-5, weight_decay=0.02, batch_size=96, epochs=4, warmup=WARMUP)


def tatqa(config: Any) -> None:
    """Questions about a table and the paragraphs beside it, by TagOp (appendix D.2)."""
    plugged(config)
    config.task = common.block(
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
    )
    config.heads = common.block(
        answer=dict(name="tagop", order="concat", operands="numbers", tagged="found", dropout=0.1)
    )
    config.objectives = common.block(
        **{
            f"{part}_loss": dict(name="tagop", head="answer", part=part, average="row", weight=1.0)
            for part in ("operator", "scale", "tags", "order")
        }
    )
    config.optim.update(learning_rate=1.5e-4, warmup=600, batch_size=32, epochs=25)
    # The encoder's rate is 5e-6.
    config.optim.rates = (("^(backbone|embeds_token)/", 1 / 30),)
    config.optim.weight_decays = (("^(?!backbone/|embeds_token/)", 5e-5),)


def tabfact(config: Any) -> None:
    """Whether a table entails a statement (section 4): read off [CLS], the table cut where the context ends.

    At laptop on the stand-in 56% of the validation split (seed 0), of which half is true: what the statements
    alone give away, as a linear model of their words has 57.6%. To look numbers up in a table is not learned in
    so few steps.
    """
    plugged(config)
    config.task = common.block(
        name="tabfact",
        path="",
        size=0,
        layout="rows",
        data_seed=0,
        tables="few",
        wordings="apart",
        traits=False,
    )
    common.set_classifier(config, 2)
    config.heads.label.update(pool="first", pooler=True, dropout=0.1)
    config.data.overflow = "shorten"
    config.data.reserve = 0
    config.optim.update(learning_rate=1e-5, batch_size=48, epochs=10)


# --- Number plugins.


def char_lstm(config: Any) -> None:
    """A number's characters through a bidirectional LSTM; "1M" is the paper's middle size."""
    # `hidden` and `layers` are for smaller scales, where no size is named.
    embed_numbers(config, "char_lstm", parameters="1M", hidden=128, layers=3)


def char_former(config: Any) -> None:
    """The same through a transformer, and then the LSTM."""
    embed_numbers(config, "char_former", parameters="1M", hidden=64, layers=3)


def dice(config: Any) -> None:
    """A point on a sphere at an angle by its value, projected."""
    embed_numbers(config, "dice_linear")


def other(name: str):
    """Any other numeral embedding, by the name of its file in numjax/embed/ or of your own module."""

    def change(config: Any) -> None:
        embed_numbers(config, name)

    return change


def embed_numbers(config: Any, name: str, **options: Any) -> None:
    """Puts a numeral embedding at [NUM].

    Raises:
      ValueError: numbers are pieces alone.
    """
    if config.scheme.name == "subword":
        raise ValueError("numbed= embeds numbers at [NUM]: leave it out with numtok=none")
    config.embeds.numeral = common.block(name=name, fusion="add", dim=768, **options)


def numtok(name: str):
    """[NUM] behind a number's own pieces ("addback") or instead of them ("replace")."""

    def change(config: Any) -> None:
        config.scheme.name = name

    return change


def no_plugin(config: Any) -> None:
    """The baseline: numbers are pieces like any text, and masked like any."""
    config.scheme.name = "subword"
    del config.embeds["numeral"]
    if config.task.name == "table_text":
        no_regress(config)
        config.objectives.masked = common.block(name="nll", head="masked", label=None, room=ROOM, weight=1.0)


def size(parameters: str):
    """Another size of a character encoder."""

    def change(config: Any) -> None:
        if "parameters" not in config.embeds.get("numeral", {}):
            raise ValueError("size= is of character encoders: use it with numbed=char_lstm or numbed=char_former")
        config.embeds.numeral.parameters = parameters

    return change


# --- Shapes.


def bert(config: Any) -> None:
    """Word pieces and two token types: what `plugged` has already set."""
    del config


def roberta(config: Any) -> None:
    """Pieces with their blanks, one token type, positions from 2 on."""
    config.scheme.types = False
    config.scheme.vocab = common.block(name="sentencepiece", size=8000, model="bpe", split_digits=False, path=None)
    common.set_encoder(config, config.backbone.max_length, preset="roberta")
    if config.task.name == "tabfact":
        config.task.layout = "columns"
    if "masked" in config.heads:
        config.heads.masked.epsilon = 1e-5


# --- Tables of the stand-ins.

# How many values each trait of a cell has (numjax/tasks/table_traits.py).
TRAITS = (32, 32, 8, 8, 8, 8, 8, 8, 4, 8, 8, 8, 2, 4, 2, 2, 2, 2, 2, 4, 8)


def few_tables(config: Any) -> None:
    """Those of the task's own form: what is already set."""
    of_tables(config)


def many_tables(config: Any) -> None:
    """Tables of many layouts and subjects (data/tables)."""
    of_tables(config)
    config.task.update(tables="many", traits=True)
    if "operator_loss" in config.objectives:
        # Else they are lost beside the tags' losses, which are sums over a row.
        config.objectives.operator_loss.weight, config.objectives.scale_loss.weight = 3.0, 2.0
    config.backbone.types = (config.backbone.types[0], *TRAITS)
    if config.task.name == "tabfact":
        # What decides may stand at any cell, and [CLS] of a pretrained encoder need not know of it.
        config.heads.label.update(pool="attention")
    else:
        config.heads.answer.update(cells="crossed", asked="both", operators=12)


def of_tables(config: Any) -> None:
    """Raises ValueError unless the task answers or judges over tables."""
    if config.task.name not in ("tatqa", "tabfact"):
        raise ValueError("tables= is of the stand-ins of task=tatqa and task=tabfact: use it with one of them")


# --- Weights to start from.


def minilm(config: Any) -> None:
    """all-MiniLM-L6-v2 with its vocabulary, 22.7 M weights, as `make pretrained` installs it. It was trained for
    vectors of sentences and has no masked-language head.

    Raises:
      ValueError: the shape is another.
    """
    if config.backbone.types[0] != 2:
        raise ValueError("bert=minilm is of BERT's shape: leave shape=roberta out")
    resize(config, 384, layers=6, heads=12, init_std=0.02, max_length=512)
    config.embeds.token = common.block(name="token")
    config.backbone.types_std = 0.0
    config.init_from = "pretrained:minilm"
    config.scheme.vocab = common.block(name="wordpiece", path="pretrained:minilm", lower=True)
    config.optim.update(learning_rate=1e-3, warmup=60, batch_size=16)
    # What is new learns faster than what is known; the pieces' vectors stay.
    config.optim.rates = (("^embeds_token/", 0.0), ("^backbone/types_[1-9]", 2.0), ("^backbone/", 0.15))


def minilm3(config: Any) -> None:
    """Its first three layers alone, in half the time. Raises as `minilm`."""
    minilm(config)
    config.backbone.layers = 3


# --- Objectives of pre-training.


def of_pretraining(config: Any, word: str) -> None:
    """Raises ValueError unless the task is pre-training."""
    if config.task.name != "table_text":
        raise ValueError(f"{word}= belongs to pre-training: use it with task=pretrain")


def regress(config: Any) -> None:
    """L_R: masked numbers are regressed."""
    of_pretraining(config, "regress")
    if config.scheme.name == "subword":
        raise ValueError("regress=on regresses masked numbers: with numtok=none they are pieces")
    config.heads.number = common.block(name="regression", dropout=0.1)
    config.objectives.masked.numbers = "number"


def no_regress(config: Any) -> None:
    """Masked numbers count and are not scored."""
    of_pretraining(config, "regress")
    if "number" in config.heads:
        del config.heads["number"]
    if config.objectives.masked.name == "masked":
        config.objectives.masked.numbers = None


def distill(config: Any) -> None:
    """L_D: the teacher's softmax is the target, its weight α rising from 0.04 to 0.4."""
    of_pretraining(config, "distill")
    config.objectives.distill = common.block(
        name="distill", head="masked", momentum=0.995, each_microbatch=False, room=ROOM, weight=ramp(0.04, 0.4)
    )
    weigh(config, ramp(0.96, 0.6))


def no_distill(config: Any) -> None:
    """L_MLM alone, as from scratch."""
    of_pretraining(config, "distill")
    weigh(config, 1.0)
    if "distill" in config.objectives:
        del config.objectives["distill"]


def weigh(config: Any, weight: Any) -> None:
    """Sets the weight of L_MLM, a number or a ramp."""
    config.objectives.masked = common.block(**(dict(config.objectives.masked) | {"weight": weight}))


def ramp(start: float, end: float, steps: int = WARMUP) -> dict[str, Any]:
    """A weight that goes from `start` to `end` in a straight line over so many steps, and stays there."""
    return dict(start=start, end=end, steps=steps)


# --- Scales.


def resize(config: Any, width: int, **backbone: Any) -> None:
    """Sets every width."""
    config.backbone.update(width=width, **backbone)
    if "numeral" in config.embeds:
        config.embeds.numeral.dim = width


def smoke(config: Any) -> None:
    """Seconds: for tests."""
    resize(config, 32, heads=2, max_length=96)
    config.data.update(length=96, train_size=64, buckets=1)
    config.scheme.vocab.size = 400
    if "parameters" in config.embeds.get("numeral", {}):
        config.embeds.numeral.update(parameters="", hidden=8, layers=1)
    config.optim.update(learning_rate=1e-3, batch_size=16, epochs=1)
    config.eval.update(batch_size=32, examples=64)
    if config.task.name == "table_text":
        config.task.update(contexts=40, statements=300)
        set_warmup(config, 4)
    if config.task.name == "tabfact":
        config.task.size = 300
    if config.task.name == "tatqa":
        set_units(config)
        config.task.size = 40
        config.optim.rates = ()


def laptop(config: Any) -> None:
    """Minutes on two cores, from scratch: larger steps, and kernels that are no smaller than 1/√width."""
    resize(config, 128, init_std=0.08, dropout=0.0, max_length=256)
    # Else a token's vector would be lost beside its position's, and pre-training stays at the words' frequencies.
    config.embeds.token.init_std = 0.25
    # Few lengths: a number's LSTM takes long to compile.
    config.data.update(length=256, buckets=2)
    # TabFact's tables are of many subjects: of TAT-QA's words 2,000 pieces of both would make half as many again.
    config.scheme.vocab.size = 2000 if config.task.name == "tatqa" else 8000
    if "parameters" in config.embeds.get("numeral", {}):
        # An LSTM takes as many steps as may be read; numbers of tables are shorter.
        config.embeds.numeral.update(parameters="0.1M", length=16)
    config.optim.update(learning_rate=1e-3, warmup=50, batch_size=16)
    if config.task.name == "table_text":
        config.data.train_size = 4000
        config.optim.epochs = 2
        set_warmup(config, 50)
    if config.task.name == "tabfact":
        config.data.update(length=128, buckets=2)
        config.optim.update(learning_rate=4e-4, weight_decay=0.0, warmup=300, epochs=4, batch_size=32)
    if config.task.name == "tatqa":
        set_units(config)
        config.optim.epochs = 6
        config.optim.rates = ()


def paper(config: Any) -> None:
    """BERT-base or RoBERTa-large, which init_from and scheme.vocab.path name."""
    if config.backbone.types[0] == 2:
        resize(config, 768, layers=12, heads=12)
        config.scheme.vocab.size = 30_000
    else:
        resize(config, 1024, layers=24, heads=16)
        config.scheme.vocab = common.block(name="gpt2", path="")
    if "parameters" in config.embeds.get("numeral", {}):
        # Characters: of TAT-QA's distinct number strings 96 in 100 have no more, of TabFact's 99.
        config.embeds.numeral.short = 8
    if config.task.name == "table_text" and config.backbone.types[0] == 2:
        config.data.length = 400
        config.optim.update(learning_rate=3e-5, batch_size=24, epochs=18)
    elif config.task.name == "table_text":
        # 96 rows of RoBERTa-large at once would want more memory than a device has; the sums are the same.
        config.optim.accumulate = 4


def set_units(config: Any) -> None:
    """As many units as positions."""
    config.task.units = config.data.length


def set_warmup(config: Any, steps: int) -> None:
    """How many steps the rate and α take to their ends."""
    config.optim.warmup = steps
    for objective in config.objectives.values():
        if isinstance(objective.get("weight"), ConfigDict):
            objective.weight.steps = steps


def as_published(config: Any) -> None:
    """NumTok's own rules. In pre-training a masked [NUM] leaves its literal to be read, separators are masked too,
    and the teacher moves with every microbatch. In TAT-QA questions without labels are left out, numbers are read
    as the metric does, all units can be operands, tags are scored where no unit of the answer is read too, and the
    losses of tags and order are summed over the batch (TagOp's own order="mean" is its head's option: LUNA's code
    reads both units)."""
    config.scheme.rules = "numtok"
    if config.task.name == "table_text":
        config.data.masking.update(literals=False, separators=True)
        if "distill" in config.objectives:
            config.objectives.distill.each_microbatch = True
    if config.task.name == "tatqa":
        config.task.as_published = True
        config.heads.answer.update(operands="all", tagged="all")
        for part in ("tags", "order"):
            config.objectives[f"{part}_loss"].average = "sum"
    if config.embeds.get("numeral", {}).get("name") == "char_former":
        config.embeds.numeral.padded = True
    if config.embeds.get("numeral", {}).get("name") == "dice_linear":
        config.embeds.numeral.as_published = True


TASKS = {"pretrain": pretrain, "tatqa": tatqa, "tabfact": tabfact}
SCALES = {"smoke": smoke, "laptop": laptop, "paper": paper}
BERTS = {"minilm": minilm, "minilm3": minilm3}
SHAPES = {"bert": bert, "roberta": roberta}
NUMTOKS = {"addback": numtok("addback"), "replace": numtok("replace"), "none": no_plugin}
NUMBEDS = {"char_lstm": char_lstm, "char_former": char_former, "dice": dice, "*": other}
SIZES = {parameters: size(parameters) for parameters in ("0.1M", "base", "1M", "9M")}
