"""Blocks as words: what `--set` does with a config, what it refuses, and how a config and parts are shown."""

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


def config() -> ConfigDict:
    return numgpt.get_config("smoke,task=generation")


def changed(*words: str) -> ConfigDict:
    return blocks.apply_changes(config(), words)


def test_a_block_is_replaced_with_its_defaults_and_loses_its_old_options():
    found = changed("embeds.numeral=dice:dim=32,low=-1e3", "scheme=digits:layout=marked")
    assert found.embeds.numeral.to_dict() == {
        "name": "dice", "dim": 32, "low": -1000.0, "high": 100000.0, "form": "2", "seed": 0, "as_printed": False,
        "out_of_range": "random", "fusion": "concat+linear",
    }  # fmt: skip
    assert found.scheme.layout == "marked" and found.scheme.vocab == config().scheme.vocab
    assert "types" not in found.scheme
    assert found.heads == config().heads, "others stay"
    found.embeds.numeral.high = 7.0
    assert found.is_locked


def test_what_a_block_says_beside_is_what_the_core_takes_where_nothing_is_said():
    assert blocks.EXTRA_OPTIONS["embed"] == {"fusion": FUSION}
    assert blocks.EXTRA_OPTIONS["objectives"] == {"weight": 1.0}


def test_blocks_are_added_and_taken_out():
    found = changed("+objectives.more=nll:head=next,weight=0.3", "~embeds.numeral", "+embeds.other=value")
    assert set(found.objectives) == {"next", "more"} and set(found.embeds) == {"token", "other"}
    assert found.objectives.more.weight == 0.3 and found.objectives.more.head == "next"


def test_commas_inside_brackets_belong_to_a_value():
    assert blocks.parse_block("embed", "char_cnn:sizes=(2,3),filters=4") == {
        "name": "char_cnn",
        "sizes": (2, 3),
        "filters": 4,
    }


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("heads.nxt=token", "heads.nxt is not there (next): write + to add it"),
        ("+heads.next=token", "heads.next is there already: leave the + out to replace it"),
        ("~heads.foo", "heads.foo is not there (next)"),
        ("embedz.x=dice", "'embedz' is no block: did you mean embeds"),
        ("optim.steps=4", "for one value give --config.optim.steps=…"),
        ("~task", "a config has exactly one task: replace it with task=NAME"),
        ("heads=token", "the path of this block is heads.NAME, such as heads.next"),
        ("embeds.numeral.dim=3", "the path of this block is embeds.NAME"),
        ("+heads.x", "write PATH=NAME:option=value"),
        ("heads.next", "write PATH=NAME:option=value"),
        ("~heads.next=token", "write PATH=NAME:option=value"),
        ("embeds.numeral=dise", "no embed is called 'dise': did you mean dice"),
        ("embeds.numeral=dice:dimm=3", "embed 'dice' has no option 'dimm': did you mean dim?"),
        ("embeds.numeral=dice:dim=x", "dice: dim must be int, not 'x'"),
        ("embeds.numeral=dice:as_printed=ja", "dice: as_printed must be bool, not 'ja'"),
        ("embeds.numeral=dice:dim", "write name or name:option=value"),
        ("embeds.numeral=dice:dim=3,dim=4", "an option is given twice"),
        ("heads.next=mixture:width=3", "heads 'mixture' has no option 'width'"),
    ],
)
def test_what_cannot_be_set_is_one_line(word, says):
    before = config()
    with pytest.raises(UsageError, match=re.escape(says)) as caught:
        blocks.apply_changes(before, [word])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in build.BASE_OF_KIND for name in build.names(kind)]
)
def test_every_part_is_shown_with_its_options_and_can_be_written_as_a_block(kind, name):
    lines = parts.list_parts(kind, name)
    assert len(lines[0]) > len(name) + 10, "its file says what it is"
    needed = [line.split(":")[0].strip() for line in lines[1:] if line.endswith("to be given")]
    block = blocks._with_defaults(kind, {"name": name})
    listed = {line.split(":")[0].strip() for line in lines[1:]}
    assert set(block) - {"name"} <= listed and not set(needed) & set(block)
    json.dumps(block)
    assert (
        any(f"  {name} " in line for line in parts.list_parts(kind))
        and parts.list_parts(kind)[0] in parts.list_parts()
    )


def test_the_ideas_of_the_readme_go_together():
    """Each row of its table, beside the config that stands above it."""
    argument, seen = "", 0
    for line in (ROOT / "README.md").read_text().splitlines():
        if found := re.search(r"beside `--config=numgpt:([^`]+)`", line):
            argument = found[1]
        elif line.startswith("|") and argument and (words := re.findall(r"--set=([^ `]+)", line)):
            config = blocks.apply_changes(numgpt.get_config(f"smoke,{argument}"), words)
            assert not list(fit.find_faults(config, build.build("tasks", config.task))), line
            seen += 1
    assert seen == 5


def test_unknown_kinds_and_names_are_one_line(capsys):
    assert parts.main(["hed"]) == 2 and parts.main(["heads", "mixtur"]) == 2
    err = capsys.readouterr().err
    assert err.splitlines() == [
        "parts: no kind of part is called 'hed': choose text, embed, positions, backbone, heads, objectives, tasks",
        "parts: no heads is called 'mixtur': did you mean mixture?",
    ]


def test_a_changed_config_is_trained_shown_and_found_again(tmp_path):
    """On the command line: `--set` before single values, kept by the workdir, refused there where it matters."""

    def run(*words: str) -> subprocess.CompletedProcess:
        words = (sys.executable, "-m", "numjax.main", f"--workdir={tmp_path / 'run'}", *words)
        return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)

    words = ["--config=numgpt:smoke,task=generation", "--set=embeds.numeral=dice"]
    words += ["--set", "+objectives.more=nll:head=next"]
    words += ["--config.embeds.numeral.dim=24", "--config.optim.steps=2", "--config.eval.test=False"]
    shown = run(*words, "--mode=show")
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert "embeds.numeral.dim = 24" in lines and "objectives.more.weight = 1.0" in lines
    assert any(re.fullmatch(r"embeds\.numeral = dice  # .*embed/dice\.py", line) for line in lines)
    assert not (tmp_path / "run").exists(), "it only shows"
    done = run(*words)
    assert done.returncode == 0, done.stderr[-2000:]
    model = numjax.load(tmp_path / "run")
    assert model.system.model.embeds["numeral"].dim == 24 and set(model.system.objectives) == {"next", "more"}
    assert len(model.generate("Q: 3 and 4 are how many? A:", max_tokens=6).numbers) == 1
    other = run("--set=embeds.numeral=value", "--config.optim.steps=3")
    assert other.returncode == 2 and "embeds.numeral" in other.stderr and len(other.stderr.splitlines()) == 1
    assert run("--set=nothing=x").stderr.startswith("numjax: --set=nothing=x: 'nothing' is no block")
