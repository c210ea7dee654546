"""Answers that are one number: the grammar, the texts that random models write with it, and gold answers."""

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
from numjax.evals import requests
from numjax.numeral import format as formats
from numjax.numeral import names as list_rules
from numjax.pipeline import features, source
from numjax.pipeline.loader import Loader
from numjax.system import assemble
from numjax.tasks import generation
from numjax.text import vocab as vocabularies
from numjax.text.grammar import answers, tables
from numjax.text.grammar import automaton as host
from numjax.types import POP, PUSH, Batch, Number, Tokens

UNUSED_WORKDIR = pathlib.Path("unused")  # a workdir; no test reads it, since each gives a vocabulary
SYSTEMS = ("numgpt", "digits", *(pytest.param(name, marks=pytest.mark.whole) for name in ("gpt", "dice")))
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
def build_vocabulary():
    """Builds a vocabulary whose pieces hold several digits and the blank before them."""
    return vocabularies.build({"name": "sentencepiece", "model": "bpe", "size": 420}, TEXTS)


@functools.cache
def make_scheme(name: str, **options):
    return build("text", SCHEMES[name] | options, vocab=build_vocabulary()).answering("number")


def make_config(system: str, **changes):
    from numjax.bundled.configs import numgpt

    config = numgpt.get_config(f"smoke,task=generation,system={system}")
    with config.unlocked():
        config.backbone.layers = 1
        for name, value in changes.items():
            block, key = name.split("__")
            config[block][key] = value
    return config


@functools.cache
def make_system(name: str):
    return assemble(make_config(name), UNUSED_WORKDIR, vocabulary=build_vocabulary())


def draw_parameters(system, seed: int):
    """Draws parameters large enough that every seed writes another text."""
    tokens = requests.prompt_tokens([make_row(system.scheme, "3 cats")], 16, system.config.data.digits)
    params = jax.jit(lambda key: system.model.init(key, Batch(tokens))["params"])(jax.random.key(seed))
    return jax.tree.map(lambda x: 10 * x if x.ndim == 2 else x, params)


def make_row(scheme, text: str):
    document = generation.Task(answer="number").prompt_from_text(text, scheme.parse)
    return features.from_features(scheme.encode(document), 20)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_random_model_writes_exactly_one_number_and_the_end(name, monkeypatch):
    """For sampling at every temperature and for beams: the tokens are valid, and the text parses as one number."""
    system, id_lists, texts = make_system(name), [], set()
    grammar, decode = host.make_answer_grammar(system.scheme.grammar()), system.scheme.decode
    monkeypatch.setattr(system.scheme, "decode", lambda ids, numbers: id_lists.append(ids) or decode(ids, numbers))
    for seed in range(4):
        params = draw_parameters(system, seed)
        for options in (
            dict(),
            dict(temperature=0.7),
            dict(temperature=1.0, top_k=3),
            dict(temperature=9.0),
            dict(beams=3),
        ):
            for result in evals.generate(system, params, PROMPTS, max_tokens=9, seed=seed, **options):
                assert result.ended and len(id_lists[-1]) <= 9
                assert len(result.numbers) == 1, result
                (number,) = [s for s in system.scheme.parse(result.text) if isinstance(s, Number)]
                assert number.surface == result.text[1:] and PLAIN.fullmatch(number.surface)
                texts.add(result.text)
    assert len(id_lists) == 4 * 5 * len(PROMPTS) and all(host.validate(grammar, ids) is None for ids in id_lists)
    assert len(texts) > 20, "the models differ"


@pytest.mark.parametrize("name", SCHEMES)
def test_the_least_budget_holds_an_answer_and_one_less_is_refused(name):
    scheme = make_scheme(name)
    systems = {"replace": "numgpt", "subword": "gpt", "apart": "gpt", "digits": "digits", "fenced": "digits"}
    config = make_config(systems[name])
    with config.unlocked():
        config.scheme.update(SCHEMES[name])
    system = assemble(config, UNUSED_WORKDIR, vocabulary=build_vocabulary())
    params = draw_parameters(system, 0)
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
    """Host and device agree; prompts end in a number, in its middle, in "A:" and after an end."""
    scheme = make_scheme(name)
    grammar, automaton = scheme.grammar(), host.Automaton(host.make_answer_grammar(scheme.grammar()))
    rows = [make_row(scheme, text) for text in [*PROMPTS, "A: 5", "Q: 3. A: 4 A: 5."]]
    rows += [rows[0]._replace(ids=rows[0].ids[:n], numeral_index=rows[0].numeral_index[:n]) for n in (1, 4, 5, 6)]
    prompt = requests.prompt_tokens(rows, 64, 20)
    states = jax.jit(sample.read_prompt)(jax.tree.map(jnp.asarray, grammar), prompt)
    masks = device.token_mask(
        device.allowed_tokens(jax.tree.map(jnp.asarray, grammar), states, jnp.full(len(rows), 9))
    )
    np.testing.assert_array_equal(masks, np.tile(automaton.allowed(automaton.start(), 9), (len(rows), 1)))
    assert 0 < masks[0].sum() < 200


@pytest.mark.parametrize("name", ["digits", "replace"])
def test_every_prompt_ends_at_the_last_position(name):
    scheme = make_scheme(name)
    rows = [make_row(scheme, text) for text in ("7", "3 cats and 40 birds", "no number")]
    prompt = requests.prompt_tokens(rows, 48, 20)
    for b, row in enumerate(rows):
        count = len(row.ids)
        assert prompt.ids[b, 48 - count :].tolist() == row.ids.tolist() and not prompt.ids[b, : 48 - count].any()
        assert prompt.numeral_index is not None
        assert prompt.numeral_index[b, 48 - count :].tolist() == row.numeral_index.tolist()
        assert prompt.positions[b, 48 - count :].tolist() == list(range(count))
        assert prompt.segment_ids[b].tolist() == [0] * (48 - count) + [1] * count


def test_without_a_form_the_answer_continues_the_prompt():
    scheme = make_scheme("digits").answering("text")
    grammar = scheme.grammar()
    assert grammar.answer == -1 and host.digest(grammar) == host.digest(
        build("text", {"name": "digits"}, vocab=build_vocabulary()).grammar()
    )
    tokens = requests.prompt_tokens([make_row(scheme, "7")], 16, 20)
    assert int(sample.read_prompt(jax.tree.map(jnp.asarray, grammar), tokens).state[0]) == int(grammar.start)
    with pytest.raises(ValueError, match="no state in which answers begin"):
        host.make_answer_grammar(grammar)


characters = st.text("0123456789.- ,e", max_size=6)
numbers = st.from_regex(PLAIN, fullmatch=True)


@settings(max_examples=400, deadline=None)
@given(st.one_of(characters, numbers), st.sampled_from(["subword", "apart", "digits", "fenced"]), st.randoms())
def test_the_grammar_is_a_regular_expression(text, name, random):
    """Whatever pieces spell a text, it is an answer if and only if it is one plain number after a blank."""
    scheme = make_scheme(name)
    text = " " * (random.random() < 0.9) + text
    ids, start = [], 0
    by_text = {}
    for i in scheme.text_ids:
        by_text.setdefault(scheme.vocab.bytes_of(i), i)
    while start < len(text):
        sizes = [n for n in range(1, len(text) - start + 1) if text[start : start + n].encode() in by_text]
        size = random.choice(sizes) if name in ("subword", "apart") else 1
        ids.append(by_text[text[start : start + size].encode()] if size > 1 else scheme.vocab.encode(text[start])[0])
        start += size
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
@given(numbers, st.sampled_from(list_rules()))
def test_every_set_of_rules_finds_one_number_in_a_plain_answer(text, rules):
    from numjax.text import document

    assert sum(isinstance(segment, Number) for segment in document.parse(f" {text}", rules)) == 1


ANSWERS = ["17499", "1,234", "0.05", ".5", "12%", "2e3", "1e-9", "007", "10.50"]


@pytest.mark.parametrize("name", SCHEMES)
def test_gold_answers_fit_the_grammar_and_training_uses_the_masks_of_decoding(name, tmp_path):
    task, scheme = generation.Task(size=400, answer="number"), make_scheme(name)
    records = [{"id": f"own-{i}", "question": "7 and 8?", "answer": text} for i, text in enumerate(ANSWERS)]
    records += list(source.load(task.dataset, "train", tmp_path))[:60]
    encoded = features.encode(
        task, scheme, records, make_config("digits", data__length=240).data, "train", strict=True
    )
    assert not encoded.skipped and len(encoded) == len(records)
    grammar = scheme.grammar()
    automaton = host.Automaton(host.make_answer_grammar(grammar))
    for i, record in enumerate(records):
        row = encoded.rows[i]
        answer_ids = row.ids[row.loss_from :]
        assert host.validate(host.make_answer_grammar(grammar), answer_ids) is None
        configuration = automaton.start()
        for token, state in zip(answer_ids, row.grammar_state[row.loss_from :], strict=True):
            # Before each token, training and decoding are in the same state.
            assert state == configuration.state and automaton.allowed(configuration)[token]
            configuration = automaton.step(configuration, token)
        (number,) = [s for s in task.example(record, scheme.parse).document[-2:] if isinstance(s, Number)]
        assert number.value == formats.parse_value(record["answer"]) and PLAIN.fullmatch(number.surface)


@pytest.mark.parametrize("name", SYSTEMS)
def test_masked_training_on_answers_has_a_finite_loss_below_the_free_one(name, tmp_path):
    config = make_config(name, data__threads=0)
    totals = {}
    for constrain in (False, True):
        with config.unlocked():
            config.objectives.next.constrain = constrain
        system = assemble(config, tmp_path, vocabulary=build_vocabulary())
        records = [{"id": f"r{i}", "question": f"{i} and 3?", "answer": str(i + 3)} for i in range(16)]
        encoded = features.encode(system.task, system.scheme, records, config.data, "train", strict=True)
        batch = Loader(encoded, config, seed=0, host_features=system.host_features).batch(0)[0]
        outs, acts = system.model.apply({"params": draw_parameters(system, 1)}, batch)
        loss = system.objectives["next"](system.model.heads, outs, acts, batch)
        totals[constrain] = float(loss.total)
    assert np.isfinite(totals[True]) and totals[True] < totals[False]


def test_an_answer_of_another_form_is_skipped_in_one_line():
    scheme, data = make_scheme("digits"), make_config("digits").data
    record = {"id": "far", "question": "7 and 8?", "answer": "1,200"}
    # This task does not spell its answers as the grammar does.
    with pytest.raises(
        DataError, match=r"^record far of train: the answer is not of the form that the task asks for"
    ):
        features.encode(generation.Task(), scheme, [record], data, "train", strict=True)
    task, record = generation.Task(answer="number"), record | {"answer": "1e90"}
    with pytest.raises(DataError, match=r"^record far of train: the answer '1e90' is too long to be written without"):
        features.encode(task, scheme, [record], data, "train", strict=True)
    # In a record that asks for an answer, the field 'answer' is ignored.
    encoded = features.encode(task, scheme, [record], data, "input")
    assert len(encoded) == 1 and encoded.unread(0)["shortened"].startswith("field 'answer', since the answer '1e90'")
    free = build("text", {"name": "digits"}, vocab=build_vocabulary())
    assert len(features.encode(generation.Task(), free, [record], data, "train", strict=True)) == 1


@pytest.mark.parametrize(
    ("scheme", "changes"),
    [
        ("addback", {}),
        ("trees", {}),
        ("digits", {"layout": "pause"}),
        ("digits", {"vocabulary": "wordpiece"}),
    ],
)
def test_a_scheme_that_cannot_hold_an_answer_is_refused(scheme, changes):
    vocab = build_vocabulary()
    if changes.pop("vocabulary", None):
        vocab = vocabularies.build({"name": "wordpiece", "size": 400}, TEXTS)
    vocab = vocab.with_marks(("[F]", "[/F]", "[PAUSE]"))
    if scheme == "trees":
        from numjax.text import trees

        vocab = vocab.with_marks(trees.Scheme.marks)
    text_scheme = build("text", {"name": scheme} | changes, vocab=vocab)
    with pytest.raises(
        UsageError, match=rf"^scheme {scheme} cannot hold an answer to one number: set task.answer=text"
    ):
        text_scheme.answering("number")
    assert text_scheme.answering("text").grammar().answer == -1
    with pytest.raises(UsageError, match=r"^task.answer='word': choose text or number"):
        text_scheme.answering("word")


def test_words_of_a_vocabulary_without_blanks_are_answers_too():
    vocab = vocabularies.build({"name": "wordpiece", "size": 400}, TEXTS)
    for name, ids in (("replace", [vocab.mark("[NUM]")]), ("subword", vocab.encode("7950"))):
        scheme = build("text", {"name": name}, vocab=vocab).answering("number")
        assert host.validate(host.make_answer_grammar(scheme.grammar()), [*ids, vocab.mark("[EOS]")]) is None
        assert (
            host.validate(host.make_answer_grammar(scheme.grammar()), [*ids, *ids, vocab.mark("[EOS]")]) is not None
        )


def test_a_users_scheme_without_forms_is_refused_and_as_published_has_no_answer_grammar(tmp_path, monkeypatch):
    from numjax.bundled.configs import numgpt
    from numjax.text import replace

    monkeypatch.delattr(replace.BaseScheme, "answering")
    message = "scheme replace cannot hold an answer to one number: set task.answer=text"
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        assemble(make_config("numgpt"), tmp_path, vocabulary=build_vocabulary())
    published = numgpt.get_config("smoke,task=generation,as_published")
    assert assemble(published, tmp_path, vocabulary=build_vocabulary()).scheme.grammar().answer == -1


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
    device_grammar = jax.tree.map(jnp.asarray, grammar)
    prompt_state = device.step(device_grammar, device.init(device_grammar, 1), jnp.asarray([1]))
    assert int(prompt_state.depth[0]) == 1
    answer_state = device.begin_answer(device_grammar, prompt_state)
    for token, budget in ((3, 2), (4, 1)):
        mask = device.token_mask(device.allowed_tokens(device_grammar, answer_state, jnp.asarray([budget])))
        assert np.flatnonzero(mask[0]).tolist() == [token]
        answer_state = device.step(device_grammar, answer_state, jnp.asarray([token]))
    assert bool(device.accepts(device_grammar, answer_state)[0])


def test_an_answer_may_point_to_all_that_its_prompt_or_source_contains():
    edges = [tables.Edge("text", range(1, 7), "text"), tables.Edge("answer", [2, 4, 5, 6], "end")]
    grammar = tables.build(8, edges, "text", ["text", "end"], answer="answer", recalled=[4, 5, 6])
    device_grammar = jax.tree.map(jnp.asarray, grammar)
    ids = np.asarray([[0, 1, 4], [0, 5, 2], [3, 6, 5], [0, 1, 2]])
    prompt = Tokens(ids, np.maximum(np.cumsum(ids > 0, axis=1) - 1, 0), (ids > 0).astype(np.int32))
    six = prompt._replace(ids=np.asarray([[6, 0, 0]] * 4), segment_ids=np.asarray([[1, 0, 0]] * 4))
    for extra, own_source in (((), None), ((6,), six)):
        state = jax.jit(sample.read_prompt)(device_grammar, prompt, own_source)
        masks = device.token_mask(device.allowed_tokens(device_grammar, state))
        for row, mask in zip(ids, masks, strict=True):
            assert set(np.flatnonzero(mask)) == {2, *row[row > 3].tolist(), *extra}


def test_paths_and_several_ids_of_a_character():
    edges = answers.path_edges("answer", [3, 3, 2], "end")
    grammar = tables.build(5, [*edges, tables.Edge("text", [1], "text")], "text", ["end", "text"], answer="answer")
    assert host.validate(host.make_answer_grammar(grammar), [3, 3, 2]) is None
    assert host.validate(host.make_answer_grammar(grammar), [3, 2]) is not None
    spelling = answers.spelling_edges({"s": {"ab": "t"}}, lambda c: {"a": [1, 2], "b": [1, 3]}[c])
    grammar = tables.build(5, spelling, "s", ["t"])
    assert [host.validate(grammar, ids) is None for ids in ([1, 2], [1, 3], [1, 1], [2])] == [
        True,
        True,
        False,
        False,
    ]


def test_predictions_come_with_their_intervals():
    """Predictions of records and of prompts have the head's interval; numbers written in digits have none."""
    for name in ("numgpt", "digits"):
        system = make_system(name)
        params, config = draw_parameters(system, 2), system.config
        records = [{"id": f"r{i}", "question": text} for i, text in enumerate(PROMPTS)]
        encoded = features.encode(system.task, system.scheme, records, config.data, "input", strict=True)
        predictions, extra = evals.predict(system, params, encoded)
        results = evals.generate(system, params, PROMPTS, max_tokens=config.decode.max_tokens)
        for i, result in enumerate(results):
            (number,) = result.numbers
            assert extra[i]["text"] == result.text
            assert float(predictions[i]) == pytest.approx(float(number["value"]), rel=1e-5)
            names = {"approximate", "intervals", "method"}
            uncertainty = {name: extra[i][name] for name in names & extra[i].keys()}
            assert uncertainty == {name: number[name] for name in names & number.keys()}
            assert bool(uncertainty) == (name == "numgpt")
            if name == "digits":
                assert Decimal(predictions[i]) == Decimal(result.text.strip())


@pytest.mark.parametrize("name", ["slots", "scientific", "places", "bins", "rescaled", "replace"])
def test_a_vocabulary_without_a_blank_writes_numbers_too(name):
    """The pieces of words say no blank, so that a number is the answer's first symbol."""
    vocab = vocabularies.build({"name": "wordpiece", "size": 400}, TEXTS)
    scheme = build("text", {"name": name}, vocab=vocab).answering("number")
    grammar = scheme.generation_grammar()
    number = scheme.encode(scheme.parse("12")).ids.tolist()
    state = int(grammar.answer)
    for token in [*vocab.encode(" "), *number, scheme.vocab.mark("[EOS]")]:
        state = int(grammar.next_state[state, grammar.class_of[token]])
        assert state >= 0, scheme.vocab.mark_name(token)
    assert grammar.accept[state]
