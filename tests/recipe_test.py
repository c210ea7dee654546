"""Recipes: what each word of an argument changes, in which order, and what is refused."""

from __future__ import annotations

import importlib
import itertools
import re
from typing import Any

import pytest
from absl import flags
from ml_collections import config_flags

from numjax import build
from numjax.bundled.configs import digits, numgpt, presets
from numjax.config import blocks, command_line, fit, recipe
from numjax.config.recipe import Recipe
from tests.conftest import ROOT

SYSTEMS = sorted(path.stem for path in (ROOT / "configs").glob("*.py") if path.stem not in ("__init__", "presets"))


def make_recipe(**more: Any) -> Recipe:
    """Returns a recipe of two tasks, two scales and words of each kind."""
    known: dict[str, Any] = dict(
        system={"heads": dict(next=dict(name="mixture", keep=7)), "optim": dict(epochs=3)},
        task="label",
        tasks={
            "label": {"task": dict(name="statement", dataset="mme"), "heads.label": dict(pool="first")},
            "write": {
                "task": dict(name="generation", answer="number"),
                "words": ("plugin=on",),
                "when": {"little": {"optim": dict(warmup=5)}, "plugin": {"seed": 9}},
            },
        },
        parts={
            "plugin": {
                "on": {"embeds.numeral": dict(name="dice", dim=8)},
                "off": {},
                "*": {"embeds.numeral": dict(name="*", dim=4)},
            }
        },
        scale="large",
        scales={"little": {"optim": dict(epochs=1), "embeds.numeral?": dict(dim=2)}, "large": {}},
        options={
            "keep": {"few": {"needs": "heads.next:mixture", "heads.next": dict(keep=2)}},
            "bare": {"yes": {"embeds.numeral": None}},
        },
        as_published={"heads.next:mixture": dict(keep=9), "heads.label?": dict(pool="last_padded")},
    )
    return Recipe(**(known | more))


def test_a_task_adds_the_heads_that_it_needs_or_keeps_those_of_the_system():
    config = make_recipe()("")
    assert config.heads.to_dict() == {"label": {"name": "classify", "pool": "first"}}
    assert config.objectives.label.name == "nll" and config.optim.epochs == 3
    config = make_recipe()("task=write")
    assert config.heads.to_dict() == {"next": {"name": "mixture", "keep": 7}}
    assert config.objectives.next.to_dict() == recipe.NLL


def test_words_are_applied_in_the_order_of_the_recipe_whatever_the_arguments():
    words = ("task=write", "little", "as_published", "keep=few", "plugin=prototype")
    configs = {make_recipe()(",".join(order)).to_json(sort_keys=True) for order in itertools.permutations(words)}
    assert len(configs) == 1
    config = make_recipe()(",".join(words))
    assert config.heads.next.keep == 2, "options apply after as_published"
    assert config.embeds.numeral.to_dict() == {"name": "prototype", "dim": 2}, "and scales after parts"


def test_a_scale_may_start_from_another_one():
    scales = {
        "little": {"optim": dict(epochs=1, warmup=2)},
        "long": {"from": "little", "optim": dict(epochs=8)},
        "large": {},
    }
    get_config = make_recipe(scales=scales)
    little, long = (get_config(f"task=write,{scale}") for scale in ("little", "long"))
    assert (little.optim.epochs, little.optim.warmup) == (1, 5), 'the "when" of little'
    assert (long.optim.epochs, long.optim.warmup) == (8, 5)
    assert long.to_dict() == get_config("long,task=write").to_dict()
    longest = make_recipe(scales=scales | {"longest": {"from": "long", "seed": 5}})("task=write,longest")
    assert (longest.optim.epochs, longest.optim.warmup, longest.seed) == (8, 5, 5)
    with pytest.raises(ValueError, match=r"from.*litle"):
        make_recipe(scales=scales | {"long": {"from": "litle"}})("long")
    with long.unlocked():
        long.optim.epochs = 1
    assert long.to_dict() == little.to_dict()


def test_words_add_words_and_change_more_with_other_words():
    config = make_recipe()("task=write")
    assert config.embeds.numeral.to_dict() == {"name": "dice", "dim": 8} and config.seed == 9
    assert "numeral" not in make_recipe()("task=write,plugin=off").embeds
    assert "numeral" not in make_recipe()("plugin=off").embeds and make_recipe()("plugin=off").seed == 0
    assert (make_recipe()("task=write,little").optim.warmup, make_recipe()("task=write").optim.warmup) == (5, 0)
    options = {"scale": "", "scales": {"little": {"when": {"task=write plugin=on": {"seed": 4}}}}}
    assert [make_recipe(**options)(word).seed for word in ("little", "task=write", "task=write,little")] == [0, 9, 4]
    assert make_recipe(**options)("task=write,little,plugin=off").seed == 9


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("litle", "this config has no word 'litle': did you mean little?"),
        ("task=writ", "no task is called 'writ': did you mean write?"),
        ("keep=some", "no keep is called 'some': did you mean few?"),
        ("keep=few", "keep=few needs heads.next=mixture, and here is none: use it with task=write"),
        ("plugin=on,plugin=off", "plugin=on and off: choose one"),
        ("bare=yes", "bare=yes: there is no embeds.numeral to remove"),
        ("plugin", "this config has no word 'plugin': did you mean plugin=…?"),
        ("write", "this config has no word 'write': did you mean task=write?"),
        ("plug=few", "this config has no word 'plug=few': did you mean keep=few?"),
        ("little:task=write", "'little:task=write' has a colon: write commas between the words, little,task=write"),
        ("zzz=1", "this config has no word 'zzz=1': its words are "),
    ],
)
def test_bad_arguments_are_refused_in_one_line(argument, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        make_recipe()(argument)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optm": dict(epochs=1)}, "a config has no 'optm': did you mean optim?"),
        ({"embeds.numeral": dict(dim=3)}, "there is no embeds.numeral to change options of"),
        ({"embeds.numeral": None}, "there is no embeds.numeral to remove"),
    ],
)
def test_a_mistyped_literal_is_refused(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_recipe(system=change)("")


def test_a_change_goes_into_blocks_inside_a_block_and_may_have_another_type():
    config = make_recipe(system={"scheme": dict(vocab=dict(size=7)), "optim": dict(clip=dict(name="other"))})("")
    assert config.scheme.vocab.to_dict() == {"name": "sentencepiece", "size": 7}
    assert config.optim.clip.name == "other" and config.optim.epochs == 20
    scheme_recipe = make_recipe(
        system={"scheme": dict(rules="words")}, options={"scheme": {"digits": {"scheme": dict(name="digits")}}}
    )
    assert scheme_recipe("scheme=digits").scheme.rules == "words", "another scheme keeps its rules"
    first = numgpt.get_config("task=generation")
    first.heads.next.keep, first.scheme.vocab.size = 77, 7
    second = numgpt.get_config("task=generation")
    assert (second.heads.next.keep, second.scheme.vocab.size) == (5, 2000), "no config shares blocks with another"


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_task_at_every_scale_has_parts_that_fit(name):
    get_config: Recipe = importlib.import_module(f"numjax.bundled.configs.{name}").get_config
    published = () if get_config.as_published is None else (",as_published",)
    words = get_config.list_words()
    required = "".join(f",{key}={words[key][0]}" for key in get_config.required)
    for task, scale, more in itertools.product(get_config.tasks, get_config.scales, ("", *published)):
        config = get_config(f"{scale},task={task}{more}{required}")
        if "path" in config.task and config.task.name == "language_model":
            config.task.path = "."
        assert not list(fit.find_faults(config, build.build("tasks", config.task))), (task, scale, more)
    for key, words in {**get_config.parts, **get_config.options}.items():
        for word in words:
            if word != "*":
                try:
                    get_config(f"smoke,{key}={word}")
                except ValueError as error:
                    assert " needs " in str(error), error


def test_encoder_decoders_from_scratch_have_the_positions_of_their_preset():
    for config, preset in ((digits.get_config(), "flan"), (digits.get_config("backbone=bart"), "bart")):
        assert config.positions.sequence.to_dict() == presets.PRESETS[preset].positions
    assert digits.get_config("system=gpt").positions.sequence.name == "learned"


def test_another_task_by_set_brings_its_heads_too():
    """Every task that reads texts and needs no own source replaces that of numgpt."""
    for name in build.names("tasks"):
        config = numgpt.get_config("smoke,system=gpt")
        blocks.apply_changes(config, [f"task={name}"])
        if name == "language_model":
            config.task.path = "."
        task = build.build("tasks", config.task)
        faults = [line for line in fit.find_faults(config, task) if "head" in line]
        assert not faults or task.reads == "rows", (name, faults)
        assert ("label" in config.heads) == (task.kind == "classify")
    assert numgpt.get_config("smoke,task=generation").heads.next.name == "mixture"
    config = blocks.apply_changes(numgpt.get_config("smoke,task=generation"), ["task=word_problem:encoder=False"])
    assert config.heads.next.name == "mixture", "a head that writes numbers stays"


def test_another_backbone_by_set_keeps_its_sizes():
    config = blocks.apply_changes(numgpt.get_config("smoke"), ["backbone=encoder"])
    assert (config.backbone.width, config.backbone.layers, config.backbone.heads) == (32, 2, 2)
    config = blocks.apply_changes(numgpt.get_config("smoke"), ["backbone=encoder:width=48"])
    assert (config.backbone.width, config.backbone.layers) == (48, 2)


def parse_flags(*words: str) -> Any:
    line, values = ["main", *words], flags.FlagValues()
    config_flags.DEFINE_config_file("config", flag_values=values, sys_argv=line)
    flags.DEFINE_string("workdir", None, "", flag_values=values)
    values(command_line.resolve_configs(line))
    return values.config


def test_every_option_of_a_part_can_be_set_although_its_config_omits_it():
    config = parse_flags("--config=numgpt:smoke", "--config.backbone.norm=rms", "--config.task.size", "300")
    assert (config.backbone.norm, config.task.size, config.backbone.width) == ("rms", 300, 32)
    config = parse_flags("--config=numgpt:smoke", "--set=embeds.numeral=dice", "--config.embeds.numeral.dim=8")
    assert (config.embeds.numeral.name, config.embeds.numeral.dim) == ("dice", 8)
    for word, message in (
        ("backbone.nrom=rms", "backbone 'decoder' has no option 'nrom': did you mean norm"),
        ("task.size=many", "statement: size must be int or None, not 'many'"),
    ):
        with pytest.raises((flags.Error, AttributeError, KeyError, ValueError)) as error:
            parse_flags("--config=numgpt:smoke", f"--config.{word}")
        assert message in command_line.error_line(error.value), word
