"""Parts that do not fit together are refused before anything is compiled; errors name them as the config does."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from types import SimpleNamespace

import pytest
from ml_collections import ConfigDict

from numjax import protocols
from numjax.build import build
from numjax.bundled.configs import numgpt, schemes
from numjax.config import blocks, fit
from numjax.errors import UsageError
from numjax.system import assemble
from numjax.text import vocab as vocabularies


@pytest.fixture(scope="module")
def vocabulary():
    return vocabularies.build({"name": "sentencepiece", "size": 300}, ["A text with 12 numbers."])


def get_error(tmp_path, vocabulary, change, argument: str = "smoke") -> str:
    """Returns the error message of `assemble` for a config after a change."""
    config = numgpt.get_config(argument)
    with config.unlocked():
        change(config)
    with pytest.raises(UsageError) as caught:
        assemble(config, tmp_path, vocabulary=vocabulary)
    return str(caught.value)


def test_parts_that_do_not_fit_are_refused_before_records_are_loaded(tmp_path):
    """There are neither records nor a vocabulary to load."""
    config = numgpt.get_config("smoke,task=generation")
    with config.unlocked():
        config.heads.other = ConfigDict(dict(name="token"))
        config.scheme.vocab.path = str(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"^head 'next' \(mixture\) and head 'other' \(token\) each predict the"):
        assemble(config, tmp_path, lambda: pytest.fail("records were loaded"))
    assert not any(tmp_path.iterdir())


def test_embeddings_that_add_to_or_replace_tokens_are_as_wide_as_the_model(tmp_path, vocabulary):
    for fusion, dim in (("add", 32), ("replace", 32), ("concat+linear", 64)):
        config = blocks.apply_changes(numgpt.get_config("smoke"), [f"embeds.numeral=char_lstm:fusion={fusion}"])
        assert assemble(config, tmp_path, vocabulary=vocabulary).model.embeds["numeral"].dim == dim
    config = blocks.apply_changes(numgpt.get_config("smoke"), ["embeds.numeral=char_lstm:fusion=add,dim=5"])
    assert assemble(config, tmp_path, vocabulary=vocabulary).model.embeds["numeral"].dim == 5, "an explicit dim stays"


def test_two_heads_that_predict_a_row_are_refused_by_name(tmp_path, vocabulary):
    def add(config):
        config.heads.other = ConfigDict(dict(name="span"))

    assemble(numgpt.get_config("smoke"), tmp_path, vocabulary=vocabulary)
    message = get_error(tmp_path, vocabulary, add)
    assert message == (
        "head 'label' (classify) and head 'other' (span) each predict a row, and a task reads one: keep one of them"
    )


# (config, its argument, --set word, a line of `fit.find_faults`). A user sees the first fault.
FAULTS = [
    (
        "numgpt",
        "smoke",
        "+heads.next=fone",
        "head 'next' (fone) has no objective, so nothing would train it: remove it with --set=~heads.next",
    ),
    (
        "numgpt",
        "smoke,task=generation",
        "+heads.aside=token",
        "head 'aside' (token) has no objective, so nothing would train it: add "
        "--set=+objectives.aside=nll:head=aside, or remove it with --set=~heads.aside",
    ),
    (
        "numgpt",
        "smoke",
        "task=transactions",
        "task transactions reads rows, and scheme replace text: choose scheme rows",
    ),
    ("numgpt", "smoke", "backbone=tabular", "backbone tabular reads rows of cells, and scheme replace text: choose"),
    (
        "numgpt",
        "smoke,task=generation",
        "backbone=encoder",
        "task generation writes, and backbone encoder sees whole",
    ),
    (
        "numgpt",
        "smoke",
        "backbone=encoder_decoder",
        "backbone encoder_decoder reads a source, which task statement has",
    ),
    (
        "digits",
        "smoke",
        "backbone=decoder",
        "task word_problem has a source for an encoder, and backbone decoder has",
    ),
    ("numgpt", "smoke", "heads.label=token", "task statement needs head classify in the config"),
    ("numgpt", "smoke", "~heads.label", "the config names no heads"),
    (
        "numgpt",
        "smoke",
        "heads.label=token",
        "task statement wants an answer that head 'label' (token) does not give",
    ),
    (
        "numgpt",
        "smoke",
        "~embeds.token",
        "a model reads tokens by one embedding: the config has none; keep or add one",
    ),
    (
        "numgpt",
        "smoke",
        "+embeds.more=linked",
        "embedding 'more' (linked) and embedding 'token' (token); keep or add one of kind",
    ),
    (
        "dice",
        "smoke",
        "positions.sequence=rope",
        "positions 'sequence' (rope) acts on attention, which backbone bilstm",
    ),
    (
        "numgpt",
        "smoke",
        "+positions.tree=tree",
        "positions 'tree' (tree) reads the channel 'tree_positions', which neither",
    ),
    (
        "numgpt",
        "smoke",
        "+embeds.type=token_type",
        "embedding 'type' (token_type) reads the channel 'types', which neither",
    ),
    (
        "numgpt",
        "smoke,task=generation,system=digits",
        "heads.next=xval",
        "head 'next' (xval) writes numbers as [NUM], and",
    ),
    (
        "numgpt",
        "smoke,task=generation",
        "heads.next=token",
        "scheme replace writes a number as [NUM], and head 'next'",
    ),
    (
        "numgpt",
        "smoke,task=generation",
        "heads.next=token",
        "embedding 'numeral' (prototype) reads the numbers of what is",
    ),
    (
        "numgpt",
        "smoke",
        "+objectives.more=distill:head=label",
        "objective 'more' (distill) is of tasks of kind masked, and",
    ),
    (
        "numgpt",
        "smoke",
        "+objectives.more=nll:head=lable",
        "objective 'more' (nll) reads head 'lable'; the config has label",
    ),
    (
        "dice",
        "smoke,task=squad",
        "scheme=digits",
        "(cosine_distance) reads the channel 'types', which",
    ),
    ("numgpt", "smoke", "~objectives.label", "the config names no objectives"),
    ("numgpt", "smoke,task=generation", "+objectives.more=digit_aggregate:head=next", "reads digits that are"),
    ("digits", "smoke", "heads.next=mixture", "task word_problem chooses its best step by perplexity, and"),
    ("tabbert", "smoke", "+positions.place=abacus", "reads a channel of each position, and backbone"),
    ("mathgpt", "smoke", "scheme=addback", "task equation_extraction wants answers of the form 'formula', which"),
]


@pytest.mark.parametrize(("name", "argument", "word", "line"), FAULTS)
def test_each_fault_is_a_line_that_names_both(name, argument, word, line):
    config = importlib.import_module(f"numjax.bundled.configs.{name}").get_config(argument)
    assert not list(fit.find_faults(config, build("tasks", config.task)))
    blocks.apply_changes(config, [word])
    faults = list(fit.find_faults(config, build("tasks", config.task)))
    assert any(line in fault for fault in faults), faults
    assert all("\n" not in fault for fault in faults)


def test_an_objective_trains_the_head_that_its_default_names(monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class Objective(protocols.Objective):
        head: str = "next"

    monkeypatch.setitem(sys.modules, "my_lab", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "my_lab.loss", SimpleNamespace(Objective=Objective))
    config = schemes.get_config("digits,smoke")
    with config.unlocked():
        config.objectives = ConfigDict(dict(nll=dict(name="my_lab.loss")))
    assert not list(fit.find_faults(config, build("tasks", config.task)))
    with config.unlocked():
        config.heads = ConfigDict(dict(other=dict(name="token")))
    faults = list(fit.find_faults(config, build("tasks", config.task)))
    assert "objective 'nll' (my_lab.loss) reads head 'next'; the config has other" in faults


@pytest.mark.parametrize(
    ("head", "objective", "method"),
    [
        ("classify", "nll", "total_log_prob"),
        ("masked", "digit_aggregate", "step_scores"),
        ("token", "number", "error"),
        ("mixture", "distill", "total_cross_entropy"),
        ("span", "tagop", "scored, right"),
        ("classify", "ntl", "token_logits"),
    ],
)
def test_an_objective_that_its_head_cannot_serve_is_refused_with_the_method(head, objective, method):
    config = numgpt.get_config("smoke")
    with config.unlocked():
        config.heads = ConfigDict(dict(mine=dict(name=head)))
        config.objectives = ConfigDict(dict(loss=dict(name=objective, head="mine")))
    message = f"objective 'loss' ({objective}) wants {method} of its head, and head 'mine' ({head}) has none"
    assert f"{message}: choose another" in list(fit.find_faults(config, build("tasks", config.task)))
