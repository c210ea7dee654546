"""Answers that are one number: the grammar, what random models write under it, and gold answers inside it."""

from __future__ import annotations

import functools
import pathlib
import re
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numjax.build import build
from numjax.decode import grammar as device
from numjax.decode import sample
from numjax.errors import DataError, UsageError
from numjax.evals import generate as evals
from numjax.numeral import format as formats
from numjax.numeral import names as rules_of
from numjax.pipeline import features, source
from numjax.pipeline.loader import Loader
from numjax.system import assemble
from numjax.tasks import generation
from numjax.text import vocab as vocabularies
from numjax.text.grammar import answers, tables
from numjax.text.grammar import automaton as host
from numjax.types import POP, PUSH, Batch, Number

NOWHERE = pathlib.Path("unused")  # a workdir, where the vocabulary is at hand
SYSTEMS = ("numgpt", "gpt", "digits", "dice")
SCHEMES = {
    "replace": dict(name="replace"),
    "subword": dict(name="subword"),
    "apart": dict(name="subword", apart=True),
    "digits": dict(name="digits"),
    "fenced": dict(name="digits", layout="digits"),
}
PLAIN = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
TEXTS = [f"Q: A depot holds {7919 * i} crates and {31 * i} more come. How many? A: {7950 * i}" for i in range(300)]
PROMPTS = ["Q: 12 birds and 30 cats are how many? A:", "7", "no number", "Is A: 5, or -2.5? Q: 1,000 and"]


@functools.cache
def vocabulary():
    """Pieces that hold several digits, and the blank before them."""
    return vocabularies.build({"name": "sentencepiece", "model": "bpe", "size": 420}, TEXTS)


@functools.cache
def scheme_of(name: str, **more):
    return build("text", SCHEMES[name] | more, vocab=vocabulary()).answering("number")


def config_of(system: str, **changes):
    from numjax.bundled.configs import numgpt

    config = numgpt.get_config(f"smoke,task=generation,system={system}")
    with config.unlocked():
        config.backbone.layers = 1
        for name, value in changes.items():
            block, key = name.split("__")
            config[block][key] = value
    return config


@functools.cache
def system_of(name: str):
    return assemble(config_of(name), NOWHERE, vocabulary=vocabulary())


def random_parameters(system, seed: int):
    """Large enough that every seed writes something else."""
    tokens = evals.prompt_tokens([row_of(system.scheme, "3 cats")], 16, system.config.data.digits)
    params = jax.jit(lambda key: system.model.init(key, Batch(tokens))["params"])(jax.random.key(seed))
    return jax.tree.map(lambda x: 10 * x if x.ndim == 2 else x, params)


def row_of(scheme, text: str):
    document = generation.Task(answer="number").prompt_from_text(text, scheme.parse)
    return features.from_features(scheme.encode(document), 20)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_random_model_writes_exactly_one_number_and_the_end(name, monkeypatch):
    """Sampled at every temperature and in beams; what is decoded is valid, and is read as one number."""
    system, written, texts = system_of(name), [], set()
    grammar, decode = host.make_answer_grammar(system.scheme.grammar()), system.scheme.decode
    monkeypatch.setattr(system.scheme, "decode", lambda ids, numbers: written.append(ids) or decode(ids, numbers))
    for seed in range(4):
        params = random_parameters(system, seed)
        for how in (
            dict(),
            dict(temperature=0.7),
            dict(temperature=1.0, top_k=3),
            dict(temperature=9.0),
            dict(beams=3),
        ):
            for result in evals.generate(system, params, PROMPTS, max_tokens=9, seed=seed, **how):
                assert result.ended and len(written[-1]) <= 9
                assert len(result.numbers) == 1, result
                (number,) = [s for s in system.scheme.parse(result.text) if isinstance(s, Number)]
                assert number.surface == result.text[1:] and PLAIN.fullmatch(number.surface)
                texts.add(result.text)
    assert len(written) == 4 * 5 * len(PROMPTS) and all(host.validate(grammar, ids) is None for ids in written)
    assert len(texts) > 20, "the models differ"


@pytest.mark.parametrize("name", SCHEMES)
def test_the_least_budget_holds_an_answer_and_one_less_is_refused(name):
    scheme = scheme_of(name)
    systems = {"replace": "numgpt", "subword": "gpt", "apart": "gpt", "digits": "digits", "fenced": "digits"}
    config = config_of(systems[name])
    with config.unlocked():
        config.scheme.update(SCHEMES[name])
    system = assemble(config, NOWHERE, vocabulary=vocabulary())
    params = random_parameters(system, 0)
    grammar = scheme.grammar()
    least = int(grammar.end_cost[grammar.answer])
    assert least == {"replace": 3, "subword": 2, "apart": 2, "digits": 3, "fenced": 5}[name]
    for result in evals.generate(system, params, PROMPTS * 4, max_tokens=least, temperature=5.0):
        assert result.ended and len(result.numbers) == 1
    with pytest.raises(UsageError, match=f"max_tokens={least - 1} has no room for an answer, which takes {least}"):
        evals.generate(system, params, PROMPTS, max_tokens=least - 1)
    assert system.scheme.grammar().answer == grammar.answer


@pytest.mark.parametrize("name", SCHEMES)
def test_the_answer_begins_where_the_prompt_ends_whatever_the_prompt(name):
    """Host and device agree; prompts end in a number, in its middle, in "A:" and behind an end."""
    scheme = scheme_of(name)
    grammar, automaton = scheme.grammar(), host.Automaton(host.make_answer_grammar(scheme.grammar()))
    rows = [row_of(scheme, text) for text in [*PROMPTS, "A: 5", "Q: 3. A: 4 A: 5."]]
    rows += [rows[0]._replace(ids=rows[0].ids[:n], numeral_index=rows[0].numeral_index[:n]) for n in (1, 4, 5, 6)]
    prompt = evals.prompt_tokens(rows, 64, 20)
    begun = jax.jit(sample.read_prompt)(jax.tree.map(jnp.asarray, grammar), prompt)
    masks = device.token_mask(
        device.allowed_tokens(jax.tree.map(jnp.asarray, grammar), begun, jnp.full(len(rows), 9))
    )
    np.testing.assert_array_equal(masks, np.tile(automaton.allowed(automaton.start(), 9), (len(rows), 1)))
    assert 0 < masks[0].sum() < 200


def test_without_a_form_what_is_written_goes_on_from_the_prompt():
    scheme = scheme_of("digits").answering("text")
    grammar = scheme.grammar()
    assert grammar.answer == -1 and host.digest(grammar) == host.digest(
        build("text", {"name": "digits"}, vocab=vocabulary()).grammar()
    )
    tokens = evals.prompt_tokens([row_of(scheme, "7")], 16, 20)
    assert int(sample.read_prompt(jax.tree.map(jnp.asarray, grammar), tokens).state[0]) == int(grammar.start)
    with pytest.raises(ValueError, match="no state in which answers begin"):
        host.make_answer_grammar(grammar)


characters = st.text("0123456789.- ,e", max_size=6)
numbers = st.from_regex(PLAIN, fullmatch=True)


@settings(max_examples=400, deadline=None)
@given(st.one_of(characters, numbers), st.sampled_from(["subword", "apart", "digits", "fenced"]), st.randoms())
def test_the_grammar_is_a_regular_expression(text, name, random):
    """Whatever pieces spell a text, it is an answer exactly where it is one plain number behind a blank."""
    scheme = scheme_of(name)
    text = " " * (random.random() < 0.9) + text
    ids, at = [], 0
    by_text = {}
    for i in scheme.text_ids:
        by_text.setdefault(scheme.vocab.bytes_of(i), i)
    while at < len(text):
        sizes = [n for n in range(1, len(text) - at + 1) if text[at : at + n].encode() in by_text]
        size = random.choice(sizes) if name in ("subword", "apart") else 1
        ids.append(by_text[text[at : at + size].encode()] if size > 1 else scheme.vocab.encode(text[at])[0])
        at += size
    marks = {name: [scheme.vocab.mark(name)] for name in ("[EOS]", *scheme.marks)}
    if name == "fenced":
        ids = [*ids[:1], *marks["[F]"], *ids[1:], *marks["[/F]"]]
    valid = host.validate(host.make_answer_grammar(scheme.grammar()), ids + marks["[EOS]"]) is None
    assert valid == (text[:1] == " " and PLAIN.fullmatch(text[1:]) is not None)
    assert (
        host.validate(host.make_answer_grammar(scheme.grammar()), [*ids, *marks["[EOS]"], *ids, *marks["[EOS]"]])
        is not None
    )


@settings(max_examples=200, deadline=None)
@given(numbers, st.sampled_from(rules_of()))
def test_every_set_of_rules_reads_one_number_in_what_may_be_written(text, rules):
    from numjax.text import document

    assert sum(isinstance(segment, Number) for segment in document.parse(f" {text}", rules)) == 1


ANSWERS = ["17499", "1,234", "0.05", ".5", "12%", "2e3", "1e-9", "007", "10.50"]


@pytest.mark.parametrize("name", SCHEMES)
def test_gold_answers_are_inside_the_grammar_and_training_masks_are_those_of_decoding(name, tmp_path):
    task, scheme = generation.Task(size=400, answer="number"), scheme_of(name)
    records = [{"id": f"own-{i}", "question": "7 and 8?", "answer": text} for i, text in enumerate(ANSWERS)]
    records += list(source.load(task.dataset, "train", tmp_path))[:60]
    encoded = features.encode(task, scheme, records, config_of("digits", data__length=240).data, "train", strict=True)
    assert not encoded.skipped and len(encoded) == len(records)
    grammar = scheme.grammar()
    automaton = host.Automaton(host.make_answer_grammar(grammar))
    for i, record in enumerate(records):
        row = encoded.rows[i]
        written = row.ids[row.loss_from :]
        assert host.validate(host.make_answer_grammar(grammar), written) is None
        place_ = automaton.start()
        for token, state in zip(written, row.grammar_state[row.loss_from :], strict=True):
            # Where training stands before a token is where decoding does.
            assert state == place_.state and automaton.allowed(place_)[token]
            place_ = automaton.step(place_, token)
        (number,) = [s for s in task.example(record, scheme.parse).document[-2:] if isinstance(s, Number)]
        assert number.value == formats.parse_value(record["answer"]) and PLAIN.fullmatch(number.surface)


@pytest.mark.parametrize("name", SYSTEMS)
def test_masked_training_on_answers_has_a_finite_loss_below_the_free_one(name, tmp_path):
    config = config_of(name, data__threads=0)
    totals = {}
    for constrain in (False, True):
        with config.unlocked():
            config.objectives.next.constrain = constrain
        system = assemble(config, tmp_path, vocabulary=vocabulary())
        records = [{"id": f"r{i}", "question": f"{i} and 3?", "answer": str(i + 3)} for i in range(16)]
        encoded = features.encode(system.task, system.scheme, records, config.data, "train", strict=True)
        batch = Loader(encoded, config, seed=0, host_features=system.host_features).batch(0)[0]
        outs, acts = system.model.apply({"params": random_parameters(system, 1)}, batch)
        loss = system.objectives["next"](system.model.heads, outs, acts, batch)
        totals[constrain] = float(loss.total)
    assert np.isfinite(totals[True]) and totals[True] < totals[False]


def test_an_answer_of_another_form_is_left_out_in_one_line():
    scheme, data = scheme_of("digits"), config_of("digits").data
    record = {"id": "far", "question": "7 and 8?", "answer": "1,200"}
    # A task that does not spell its answers as the grammar does.
    with pytest.raises(
        DataError, match=r"^record far of train: the answer is not of the form that the task asks for"
    ):
        features.encode(generation.Task(), scheme, [record], data, "train", strict=True)
    task, record = generation.Task(answer="number"), record | {"answer": "1e90"}
    with pytest.raises(DataError, match=r"^record far of train: the answer '1e90' is too long to be written without"):
        features.encode(task, scheme, [record], data, "train", strict=True)
    # The answer of a record that asks for one is not read.
    found = features.encode(task, scheme, [record], data, "input")
    assert len(found) == 1 and found.unread(0)["shortened"].startswith("field 'answer', since the answer '1e90'")
    free = build("text", {"name": "digits"}, vocab=vocabulary())
    assert len(features.encode(generation.Task(), free, [record], data, "train", strict=True)) == 1


@pytest.mark.parametrize(
    ("scheme", "changes"),
    [("addback", {}), ("trees", {}), ("digits", {"layout": "pause"}), ("digits", {"vocabulary": "wordpiece"})],
)
def test_a_scheme_that_cannot_hold_an_answer_says_so(scheme, changes):
    vocab = vocabulary()
    if changes.pop("vocabulary", None):
        vocab = vocabularies.build({"name": "wordpiece", "size": 400}, TEXTS)
    vocab = vocab.with_marks(("[F]", "[/F]", "[PAUSE]"))
    if scheme == "trees":
        from numjax.text import trees

        vocab = vocab.with_marks(trees.Scheme.marks)
    made = build("text", {"name": scheme} | changes, vocab=vocab)
    with pytest.raises(
        UsageError, match=rf"^scheme {scheme} cannot hold an answer to one number: set task.answer=text"
    ):
        made.answering("number")
    assert made.answering("text").grammar().answer == -1
    with pytest.raises(UsageError, match=r"^task.answer='word': choose text or number"):
        made.answering("word")


def test_words_of_a_vocabulary_that_loses_blanks_are_answers_too():
    vocab = vocabularies.build({"name": "wordpiece", "size": 400}, TEXTS)
    for name, ids in (("replace", [vocab.mark("[NUM]")]), ("subword", vocab.encode("7950"))):
        scheme = build("text", {"name": name}, vocab=vocab).answering("number")
        assert host.validate(host.make_answer_grammar(scheme.grammar()), [*ids, vocab.mark("[EOS]")]) is None
        assert (
            host.validate(host.make_answer_grammar(scheme.grammar()), [*ids, *ids, vocab.mark("[EOS]")]) is not None
        )


def test_a_scheme_of_ones_own_without_forms_is_refused_and_as_published_writes_freely(tmp_path, monkeypatch):
    from numjax.bundled.configs import numgpt
    from numjax.text import replace

    monkeypatch.delattr(replace.BaseScheme, "answering")
    says = "scheme replace cannot hold an answer to one number: set task.answer=text"
    with pytest.raises(UsageError, match=f"^{re.escape(says)}"):
        assemble(config_of("numgpt"), tmp_path, vocabulary=vocabulary())
    published = numgpt.get_config("smoke,task=generation,as_published")
    assert assemble(published, tmp_path, vocabulary=vocabulary()).scheme.grammar().answer == -1


def test_tables_refuse_an_answer_that_cannot_end():
    edges = [tables.Edge("text", [1], "text"), tables.Edge("answer", [1], "answer")]
    with pytest.raises(ValueError, match="no text from state 'answer' can ever end"):
        tables.build(4, edges, "text", ["text"], answer="answer")


def test_an_answer_begins_outside_of_nodes_that_the_prompt_has_left_open():
    edges = [
        tables.Edge("text", [1], "node", PUSH, "text"),
        tables.Edge("node", [2], op=POP),
        *answers.path_edges("answer", [3, 4], "end"),
    ]
    grammar = tables.build(5, edges, "text", ["text", "end"], answer="answer", max_depth=2, max_width=2)
    on_device = jax.tree.map(jnp.asarray, grammar)
    opened = device.step(on_device, device.init(on_device, 1), jnp.asarray([1]))
    assert int(opened.depth[0]) == 1
    g = device.begin_answer(on_device, opened)
    for token, left in ((3, 2), (4, 1)):
        mask = device.token_mask(device.allowed_tokens(on_device, g, jnp.asarray([left])))
        assert np.flatnonzero(mask[0]).tolist() == [token]
        g = device.step(on_device, g, jnp.asarray([token]))
    assert bool(device.accepts(on_device, g)[0])


def test_paths_and_several_ids_of_a_character():
    edges = answers.path_edges("answer", [3, 3, 2], "end")
    grammar = tables.build(5, [*edges, tables.Edge("text", [1], "text")], "text", ["end", "text"], answer="answer")
    assert host.validate(host.make_answer_grammar(grammar), [3, 3, 2]) is None
    assert host.validate(host.make_answer_grammar(grammar), [3, 2]) is not None
    spelled = answers.spelling_edges({"s": {"ab": "t"}}, lambda c: {"a": [1, 2], "b": [1, 3]}[c])
    grammar = tables.build(5, spelled, "s", ["t"])
    assert [host.validate(grammar, ids) is None for ids in ([1, 2], [1, 3], [1, 1], [2])] == [
        True,
        True,
        False,
        False,
    ]


def test_predictions_tell_how_far_they_are_to_be_trusted():
    """As a record's prediction and as a prompt's: the head's interval, and nothing of digits that are written."""
    for name in ("numgpt", "digits"):
        system = system_of(name)
        params, config = random_parameters(system, 2), system.config
        records = [{"id": f"r{i}", "question": text} for i, text in enumerate(PROMPTS)]
        encoded = features.encode(system.task, system.scheme, records, config.data, "input", strict=True)
        predictions, extra = evals.predict(system, params, encoded)
        results = evals.generate(system, params, PROMPTS, max_tokens=config.decode.max_tokens)
        for i, result in enumerate(results):
            (number,) = result.numbers
            assert extra[i]["text"] == result.text
            assert float(predictions[i]) == pytest.approx(float(number["value"]), rel=1e-5)
            trust = {key: extra[i][key] for key in ("approximate", "interval") if key in extra[i]}
            assert trust == {key: number[key] for key in ("approximate", "interval") if key in number}
            assert bool(trust) == (name == "numgpt")
            if name == "digits":
                assert Decimal(predictions[i]) == Decimal(result.text.strip())
