"""Blocks as words: how `--set` changes a config, what it refuses, and how a config and parts are printed."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from ml_collections import ConfigDict

import numjax
from numjax import build
from numjax.bundled.configs import numgpt
from numjax.config import blocks, fit
from numjax.errors import UsageError
from numjax.model import FUSION
from numjax.tools import parts
from tests.conftest import ROOT


def make_config() -> ConfigDict:
    return numgpt.get_config("smoke,task=generation")


def change_config(*words: str) -> ConfigDict:
    return blocks.apply_changes(make_config(), words)


def test_a_block_is_replaced_with_its_defaults_and_loses_its_old_options():
    config = change_config("embeds.numeral=dice:dim=32,low=-1e3", "scheme=digits:layout=marked")
    assert config.embeds.numeral.to_dict() == {
        "name": "dice", "dim": 32, "low": -1000.0, "high": 100000.0, "form": "2", "seed": 0, "as_printed": False,
        "out_of_range": "random", "fusion": "concat+linear",
    }  # fmt: skip
    assert config.scheme.layout == "marked" and config.scheme.vocab == make_config().scheme.vocab
    assert config.scheme.types is False and config.scheme.until == "[SEP]"
    assert config.heads == make_config().heads, "other blocks stay"
    config.embeds.numeral.high = 7.0
    assert config.is_locked


def test_extra_options_of_a_block_have_the_defaults_of_the_core():
    assert blocks.EXTRA_OPTIONS["embed"] == {"fusion": FUSION}
    assert blocks.EXTRA_OPTIONS["objectives"] == {"weight": 1.0}


def test_blocks_are_added_and_removed():
    config = change_config("+objectives.more=nll:head=next,weight=0.3", "~embeds.numeral", "+embeds.other=value")
    assert set(config.objectives) == {"next", "more"} and set(config.embeds) == {"token", "other"}
    assert config.objectives.more.weight == 0.3 and config.objectives.more.head == "next"


def test_commas_inside_brackets_belong_to_a_value():
    assert blocks.parse_block("embed", "char_cnn:sizes=(2,3),filters=4") == {
        "name": "char_cnn",
        "sizes": (2, 3),
        "filters": 4,
    }


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            "heads.nxt=token",
            "this config has no heads.nxt; its heads are: next. "
            "To add one, which also needs an objective, write --set=+heads.nxt=token",
        ),
        (
            "embeds.place=dice",
            "this config has no embeds.place; its embeds are: numeral, token. "
            "To add one, write --set=+embeds.place=dice",
        ),
        ("+heads.next=token", "heads.next is there already: leave the + out to replace it"),
        ("~heads.foo", "this config has no heads.foo; its heads are: next"),
        ("embedz.x=dice", "'embedz' is no block: did you mean embeds"),
        ("optim.steps=4", "for one value give --config.optim.steps=…"),
        ("~task", "a config has exactly one task: replace it with task=NAME"),
        ("heads=token", "the path of this block is heads.NAME, such as heads.next"),
        ("embeds.numeral.dim=3", "the path of this block is embeds.NAME"),
        ("+heads.x", "write PATH=NAME:option=value"),
        ("heads.next", "write PATH=NAME:option=value"),
        ("~heads.next=token", "write PATH=NAME:option=value"),
        ("embeds.numeral=dise", "no embedding is called 'dise': did you mean dice"),
        ("embeds.numeral=dice:dimm=3", "embedding 'dice' has no option 'dimm': did you mean dim?"),
        ("embeds.numeral=dice:dim=x", "dice: dim must be int, not 'x'"),
        ("embeds.numeral=dice:as_printed=ja", "dice: as_printed must be bool, not 'ja'"),
        ("embeds.numeral=dice:dim", "write name or name:option=value"),
        ("embeds.numeral=dice:dim=3,dim=4", "an option is given twice"),
        ("heads.next=mixture:width=3", "head 'mixture' has no option 'width'"),
    ],
)
def test_a_bad_change_is_refused_in_one_line(word, message):
    config = make_config()
    with pytest.raises(UsageError, match=re.escape(message)) as error:
        blocks.apply_changes(config, [word])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in build.BASE_OF_KIND for name in build.names(kind)]
)
def test_every_part_is_listed_with_its_options_and_can_be_written_as_a_block(kind, name):
    lines = parts.list_parts(kind, name)
    assert len(lines[0]) > len(name) + 10, "the first line of its file describes it"
    required = [line.split(":")[0].strip() for line in lines[1:] if line.endswith("to be given")]
    block = blocks._with_defaults(kind, {"name": name})
    option_names = {line.split(":")[0].strip() for line in lines[1:]}
    assert set(block) - {"name"} <= option_names and not set(required) & set(block)
    json.dumps(block)
    assert (
        any(f"  {name} " in line for line in parts.list_parts(kind))
        and parts.list_parts(kind)[0] in parts.list_parts()
    )


def test_the_changes_of_the_guide_fit_their_configs():
    """Each row of the table, with the config that is named above the table."""
    argument, n_rows = "", 0
    for line in (ROOT / "docs" / "guides" / "configs.md").read_text().splitlines():
        if match := re.search(r"beside `--config=numgpt:([^`]+)`", line):
            argument = match[1]
        elif line.startswith("|") and argument and (words := re.findall(r"--set=([^ `]+)", line)):
            config = blocks.apply_changes(numgpt.get_config(f"smoke,{argument}"), words)
            assert not list(fit.find_faults(config, build.build("tasks", config.task))), line
            n_rows += 1
    assert n_rows == 5


def test_unknown_kinds_and_names_are_refused_in_one_line(capsys):
    assert parts.main(["hed"]) == 2 and parts.main(["heads", "mixure"]) == 2
    err = capsys.readouterr().err
    assert err.splitlines() == [
        "parts: no kind and no part is called 'hed': kinds are scheme, embedding, positions, backbone, head, "
        "objective, task",
        "parts: no head is called 'mixure': did you mean mixture?",
    ]


@pytest.mark.parametrize("kind", build.BASE_OF_KIND)
def test_a_kind_has_a_word_a_key_of_the_config_and_a_folder(kind):
    """Each lists the parts of the kind, under its word."""
    keys = [key for key, (of_kind, _) in blocks.BLOCK_KINDS.items() if of_kind == kind]
    lines = parts.list_parts(kind)
    for word in (build.WORD_OF_KIND[kind], *keys):
        assert parts.list_parts(word) == lines
    assert {line.split()[0] for line in lines} == {build.WORD_OF_KIND[kind]}
    assert [line.split()[1] for line in lines] == build.names(kind)


def test_the_name_of_a_part_lists_its_kinds():
    assert [line.split()[:2] for line in parts.list_parts("fone")] == [["embedding", "fone"], ["head", "fone"]]


def test_a_part_is_described_by_whole_sentences():
    """Not by the first line of its file, which may end within a sentence."""
    for line in parts.list_parts():
        text = line[33:]
        assert text.endswith((".", "…", '."', ".)")), text
        assert text.count("(") == text.count(")") and text.count('"') % 2 == 0, text


def test_a_changed_config_is_printed_trained_and_loaded_again(tmp_path):
    """On the command line, `--set` comes before single values; the workdir keeps it and refuses another one."""

    def run(*words: str) -> subprocess.CompletedProcess:
        words = (sys.executable, "-m", "numjax.main", f"--workdir={tmp_path / 'run'}", *words)
        return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)

    words = ["--config=numgpt:smoke,task=generation", "--set=embeds.numeral=dice"]
    words += ["--set", "+objectives.more=nll:head=next"]
    words += ["--config.embeds.numeral.dim=24", "--config.optim.steps=2", "--config.eval.test=False"]
    listing = run(*words, "--mode=show")
    assert listing.returncode == 0, listing.stderr
    lines = listing.stdout.splitlines()
    assert "embeds.numeral.dim = 24" in lines and "objectives.more.weight = 1.0" in lines
    assert any(re.fullmatch(r"embeds\.numeral = dice  # .*embed/dice\.py", line) for line in lines)
    assert not (tmp_path / "run").exists(), "mode show writes nothing"
    training = run(*words)
    assert training.returncode == 0, training.stderr[-2000:]
    model = numjax.load(tmp_path / "run")
    assert model.system.model.embeds["numeral"].dim == 24 and set(model.system.objectives) == {"next", "more"}
    assert len(model.generate("Q: 3 and 4 are how many? A:", max_tokens=6).numbers) == 1
    refusal = run("--set=embeds.numeral=value", "--config.optim.steps=3")
    assert refusal.returncode == 2 and "embeds.numeral" in refusal.stderr and len(refusal.stderr.splitlines()) == 1
    assert run("--set=nothing=x").stderr.startswith("numjax: --set=nothing=x: 'nothing' is no block")
