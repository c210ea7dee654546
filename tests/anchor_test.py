"""configs/anchor.py, our scheme for numbers in running text, on text, NumGPT's tasks and LUNA's."""

from __future__ import annotations

import itertools
import math

import pytest

from numjax.build import build
from numjax.bundled.configs import anchor, luna, numgpt
from numjax.config import fit
from numjax.pipeline import source
from numjax.text import vocab as vocabularies
from numjax.types import Number
from tests import pairs_run
from tests.pairs import TEXT

FOLDER = TEXT.partition("path=")[2]
OPTIONS = ((), ("limb=3",), ("align=off",), ("size=off",), ("count=on",), ("ngram=off",), ("known={known}",))


def make_config(argument: str):
    config = anchor.get_config(argument)
    if config.task.name == "language_model":
        with config.unlocked():
            config.task.path = FOLDER
    return config


@pytest.mark.parametrize("scale", ["smoke", "laptop", "overnight", "paper"])
def test_every_word_makes_another_config_whose_parts_fit(scale):
    configs = set()
    for task in numgpt.TASKS:
        for words in OPTIONS:
            # What the task has not by default.
            words = tuple(word.format(known="off" if task in anchor.WRITTEN else "on") for word in words)
            argument = ",".join([scale, f"task={task}", *words])
            if task in anchor.WRITTEN and words == ("size=off",):
                with pytest.raises(ValueError, match="size=off needs embeds"):
                    anchor.get_config(argument)
                continue
            config = make_config(argument)
            fit.check(config, build("tasks", config.task))
            configs.add(config.to_json(sort_keys=True))
    assert len(configs) == len(OPTIONS) * len(numgpt.TASKS) - len(anchor.WRITTEN)
    for task, limb in itertools.product(("tatqa", "tabfact"), (1, 3)):
        config = luna.get_config(f"{scale},task={task},numtok=anchor,limb={limb}")
        fit.check(config, build("tasks", config.task))
        assert config.scheme.name == "limbs" and config.scheme.size == limb and "place" in config.positions


@pytest.mark.parametrize("scale", ["laptop", "overnight"])
def test_tasks_are_trained_as_numgpt_is(scale):
    for task in ("gnc", "problems", "measures"):
        own, theirs = (file.get_config(f"{scale},task={task}") for file in (anchor, numgpt))
        for name in ("optim", "task", "data", "backbone"):
            assert own[name].to_dict() == theirs[name].to_dict(), (task, name)
        assert own.scheme.rules == theirs.scheme.rules


@pytest.mark.parametrize("words", [(), ("known=off",), ("limb=3",)])
def test_a_number_in_text_has_a_header_and_its_digits_and_comes_back(words):
    config = make_config(",".join(["smoke", "task=text", *words]))
    task, size = build("tasks", config.task), config.scheme.get("size", 3)
    texts = [record["text"] for record in source.load(task.dataset, "train", None)][:20]
    vocabulary = vocabularies.build({"name": "sentencepiece", "size": 500, "split_digits": True}, texts)
    block = config.scheme.to_dict()
    del block["vocab"]
    scheme, n_numbers = build("text", block, vocab=vocabulary), 0
    for text in texts:
        document = scheme.parse(text)
        assert scheme.decode(scheme.encode(document).ids) == document
        for number in (segment for segment in document if isinstance(segment, Number)):
            row = scheme.encode((number,))
            names = [scheme.vocab.mark_name(token) or "" for token in row.ids.tolist()]
            assert names[0][:2] in ("[F", "[#" if words else "[^")
            if names[0][:2] != "[F":
                whole, point, part = number.surface.replace(",", "").lstrip("+-").partition(".")
                n_limbs = math.ceil(len(whole) / size) + math.ceil(len(part) / size)
                assert len(row.ids) == 1 + n_limbs + (len(point) if not words else 0), number
                n_numbers += 1
    assert n_numbers > 50


SLOW_TASKS = [pytest.param(task, marks=pytest.mark.whole) for task in ("generation", "tatqa")]


@pytest.mark.parametrize("task", ["mme", "mme,known=on", "text", *SLOW_TASKS])
def test_each_kind_of_task_learns_and_scores(task, tmp_path):
    is_table = task == "tatqa"
    config = luna.get_config("smoke,task=tatqa,numtok=anchor") if is_table else make_config(f"smoke,task={task}")
    result = pairs_run.train(config, tmp_path)
    assert len(result["losses"]) > 0 and all(map(math.isfinite, result["losses"]))
    assert math.isfinite(result["seen"]["loss"])
