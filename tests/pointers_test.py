"""Numbers of formulas that point to numbers of a text: nothing is lost, and every pointer has its number."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import FrozenDict

from numjax.build import build
from numjax.bundled.configs import mathgpt
from numjax.bundled.data.problems.generate import generate_records
from numjax.config import fit
from numjax.decode import beam, sample
from numjax.decode import grammar as device
from numjax.errors import UsageError
from numjax.evals import requests
from numjax.expr.tree import Tree
from numjax.model import Model
from numjax.nn import grammar as masks
from numjax.pipeline import features
from numjax.pipeline.features import from_features
from numjax.tasks.equation_extraction import Task
from numjax.text import trees, vocab
from numjax.text.grammar import automaton as grammars
from numjax.types import Allowed, Batch, Formula, Mark, Targets, Text
from tests import drawn

COUNT = 4
SIZES = dict(size=60, test=2, validation=2, invented=0.3, wordings=0)


@functools.cache
def draw_problems() -> list[dict]:
    return [row for split, row in generate_records(seed=5, **SIZES) if split == "train"]


@functools.cache
def build_scheme(pointers: int = COUNT) -> trees.Scheme:
    task = Task(dataset="problems")
    texts = list(task.texts(draw_problems()))
    formulas = [
        segment.tree for row in draw_problems() for segment in task.example(row, parse).document if _is_tree(segment)
    ]
    marks = trees.Scheme.marks_of({}, formulas)
    vocabulary = vocab.build({"name": "sentencepiece", "size": 500, "split_digits": True}, texts, marks)
    return trees.Scheme(vocabulary, rules="words", pointers=pointers)


def _is_tree(segment) -> bool:
    return isinstance(segment, Formula)


def parse(text):
    from numjax.text import document

    return document.parse(text, "words")


def make_equation(*numbers: str) -> Formula:
    return Formula("", Tree("U", "eq", [Tree("V", "x"), Tree("U", "plus", [Tree("N", n) for n in numbers])]))


def make_examples(encoder: bool):
    task = Task(dataset="problems", encoder=encoder)
    return [task.example(row, parse) for row in draw_problems()]


@pytest.mark.parametrize("encoder", [False, True])
def test_a_problem_and_its_equation_survive_encoding(encoder):
    n_pointers = 0
    for example in make_examples(encoder):
        source = None if example.source is None else build_scheme().encode(example.source)
        features = build_scheme().encode(example.document, source=source)
        numbers = features.numbers if source is None else source.numbers
        assert build_scheme().decode(features.ids, numbers) == example.document
        if source is not None:
            assert build_scheme().decode(source.ids, source.numbers) == example.source
        formula = features.ids[features.ids.tolist().index(build_scheme().symbols.start) :]
        n_pointers += int(np.isin(formula, build_scheme().symbols.pointers).sum())
    assert n_pointers > len(draw_problems())


def test_numbers_of_the_text_become_pointers_and_others_are_spelled():
    """Pointers: the first of equal numbers, a percentage with its sign, number words.

    Spelled: constants, numbers beyond the last pointer, a percentage without its sign.
    """
    text = "It took 2,340 of twelve and 15% of 2340, 7 and 8 times"
    numbers = [Tree("N", n) for n in ("2340", "12", "15", "7", "8", "60", "12.0")]
    percent = [Tree("O", "percent", [Tree("N", n)]) for n in ("15", "12")]
    tree = Tree("U", "eq", [Tree("V", "x"), Tree("U", "plus", [*numbers, *percent])])
    document = (*parse(text), Mark("[SEP]"), Formula("", tree))
    ids = build_scheme().encode(document).ids.tolist()
    formula_ids = ids[ids.index(build_scheme().symbols.start) :]
    first, second, third, fourth = build_scheme().symbols.pointers
    assert [i for i in formula_ids if i in build_scheme().symbols.pointers] == [first, second, third, second]
    percents = [i for i in formula_ids if build_scheme().symbols.names.get(i) == ("OP", "O", "percent")]
    assert len(percents) == 1  # of 12, which the text has without a sign
    assert [i for i in ids if i in build_scheme().symbols.pointers][:4] == [first, second, third, fourth]
    assert build_scheme().decode(ids, build_scheme().encode(document).numbers) == document


def test_pointers_of_the_text_have_the_rank_of_their_number_as_type():
    """Numbers in words, with groups or percent signs compare by value. Beyond the last pointer none has a rank."""
    scheme = trees.Scheme(build_scheme().vocab, rules="words", pointers=COUNT, ranks=True)
    document = (*parse("of 2,340 and twelve, 15% are 12.0, and 7 more"), Mark("[SEP]"), make_equation("12", "2340"))
    features, plain = scheme.encode(document), build_scheme().encode(document)
    np.testing.assert_array_equal(features.ids, plain.ids)
    is_pointer = np.isin(features.ids, scheme.symbols.pointers) & (features.numeral_index >= 0)
    first = scheme.token_types - COUNT  # the type of rank 1
    assert (features.channels["types"][is_pointer] - first + 1).tolist() == [4, 3, 1, 3]
    assert scheme.token_types == build_scheme().token_types + COUNT + 1
    np.testing.assert_array_equal(features.channels["types"][~is_pointer], plain.channels["types"][~is_pointer])
    assert (
        features.channels["types"].max() < scheme.token_types
        and (plain.channels["types"] < build_scheme().token_types).all()
    )
    with pytest.raises(UsageError, match=r"set scheme\.pointers"):
        trees.Scheme(build_scheme().vocab, ranks=True)


def test_the_fourth_pointer_is_the_last_and_without_pointers_all_is_spelled():
    document = (*parse("1 2 3 4 5 6"), make_equation("6"))
    ids = build_scheme().encode(document).ids.tolist()
    assert sum(i in build_scheme().symbols.pointers for i in ids) == COUNT
    plain = build_scheme(0)
    assert plain.symbols.pointers == () and not plain.points
    assert plain.decode(plain.encode(document).ids) == document


def test_signs_between_numbers_keep_their_meaning():
    """The text after a number is parsed with it, although a pointer stands between them."""
    for text in ("pages 3-4 of 5", "in 2019-2020, 5%-6%", "$5 or 7.5% (1,746)"):
        document = (*parse(text), Mark("[EOS]"))
        features = build_scheme().encode(document)
        assert build_scheme().decode(features.ids, features.numbers) == document


def test_a_pointer_to_nothing_gives_no_tree():
    """The tokens belong to another text; a decoder never writes them."""
    ids = build_scheme().encode((*parse("1 and 20 and 30"), make_equation("30"))).ids
    start = ids.tolist().index(build_scheme().symbols.start)
    (formula,) = build_scheme().decode(ids[start:], parse("20")[:1])
    assert isinstance(formula, Formula) and formula.tree is None


# ---------------------------------------------------------------------------------------------------
# One automaton: training, the decoder and the host allow the same tokens.


@pytest.mark.parametrize("encoder", [False, True])
def test_training_allows_what_the_decoder_and_the_host_allow(encoder):
    grammar = build_scheme().grammar()
    host = grammars.Automaton(grammar)
    tables = jax.tree.map(jnp.asarray, grammar)
    step = jax.jit(lambda g, token: device.step(tables, g, token))
    find_allowed = jax.jit(lambda g: device.allowed_tokens(tables, g).classes)
    counts = set()
    for example in make_examples(encoder)[:6]:
        source = None if example.source is None else build_scheme().encode(example.source)
        row = from_features(build_scheme().encode(example.document, source=source), 20)
        source_tokens = (
            None if source is None else requests.prompt_tokens([from_features(source, 20)], len(source.ids), 20)
        )
        tokens = requests.prompt_tokens([row], len(row.ids), 20)
        codes = jnp.asarray(build_scheme().encode(example.document, source=source).grammar_state[None, 1:])
        recall = masks.recall_mask(grammar, tokens, source_tokens)
        training_classes = np.asarray(masks.allowed_tokens(grammar, codes, False, recall).classes)[0]
        host_state, state = host.start(() if source is None else source.ids), device.init(tables, 1, source_tokens)
        for t, token in enumerate(row.ids.tolist()):
            host_state, state = host.step(host_state, token), step(state, jnp.asarray([token]))
            classes = host.classes(host_state)
            np.testing.assert_array_equal(classes, np.asarray(find_allowed(state))[0], err_msg=str(t))
            # Training knows no budget; here the closing costs forbid nothing.
            np.testing.assert_array_equal(classes, training_classes[t], err_msg=str(t))
            counts.add(int(classes[np.flatnonzero(grammar.recalled)].sum()))
    assert len(counts) > 2


def test_numbers_of_another_example_in_the_row_do_not_count():
    grammar = build_scheme().grammar()
    first = from_features(build_scheme().encode((*parse("12 and 13"), Mark("[EOS]"))), 20)
    second = from_features(build_scheme().encode((*parse("so 14"), make_equation("14"), Mark("[EOS]"))), 20)
    from numjax.pipeline.batch import assemble

    count = len(first.ids) + len(second.ids)
    packed_tokens = assemble([[first, second]], [[0, 1]], kind="classify", length=count, numerals=8, digits=20).inputs
    single_tokens = assemble([[second]], [[0]], kind="classify", length=len(second.ids), numerals=8, digits=20).inputs
    packed_mask, single_mask = (
        np.asarray(masks.recall_mask(grammar, tokens))[0] for tokens in (packed_tokens, single_tokens)
    )
    np.testing.assert_array_equal(packed_mask[len(first.ids) :], single_mask)
    assert not single_mask.all() and packed_mask[len(first.ids) - 1].sum() == single_mask[-1].sum() + 1


def test_grammars_without_pointers_recall_nothing():
    assert masks.recall_mask(build_scheme(0).grammar(), None) is None  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------------------------
# Generation.


@functools.cache
def build_random_model(encoder: bool, seed: int):
    width = 16
    known = {
        "vocab_size": build_scheme().vocab_size, "size": build_scheme().vocab.size,
        "num_id": build_scheme().vocab.mark("[NUM]"),
        "width": width, "dim": width, "digits": 20,
    }  # fmt: skip
    first, pieces = build_scheme().symbol_pieces()
    known |= {"symbols": (first, pieces), "symbol_range": (first, len(pieces))}
    shape = dict(width=width, layers=1, heads=2, max_length=200, init_std=0.4)
    if encoder:
        shape |= dict(name="encoder_decoder", norm="layer", biases=True, gated=False)
    else:
        shape |= dict(name="decoder")
    model = Model(
        FrozenDict(token=build("embed", {"name": "linked", "init_std": 0.4}, **known)),
        FrozenDict(),
        drawn.build_backbone(shape),
        FrozenDict(next=build("heads", {"name": "joint", "init_std": 0.4}, **known)),
    )
    tokens = requests.prompt_tokens([from_features(build_scheme().encode((Mark("[CLS]"),)), 20)], 8, 20)
    batch = Batch(tokens, source=tokens if encoder else None)
    params = jax.jit(lambda: model.init(jax.random.key(seed), batch)["params"])()
    # Pointers are likely everywhere, also those without a number.
    indices = np.asarray(build_scheme().symbols.pointers) - first
    params["heads_next"]["math_bias"] = params["heads_next"]["math_bias"].at[indices].set(6.0)
    return model, params


@pytest.mark.parametrize("beams", [0, 3])
@pytest.mark.parametrize("encoder", [False, True])
def test_no_random_model_points_to_a_number_that_is_not_there(encoder, beams):
    """It samples at a high temperature or searches beams; every text is complete within its budget."""
    texts = ["no number here", "12 pens", "7 of 12 and 30", "1 2 3 4 5 6 7 8"]
    tables = jax.tree.map(jnp.asarray, build_scheme().grammar())
    pairs = set()
    for seed in range(3):
        model, params = build_random_model(encoder, seed)
        questions = [build_scheme().encode((Mark("[CLS]"), *parse(text), Mark("[SEP]"))) for text in texts]
        rows = [from_features(question, 20) for question in questions]
        source = None
        if encoder:
            source = requests.prompt_tokens(rows, 48, 20)
            prefix = from_features(build_scheme().encode((Mark("[CLS]"), Mark("[SEP]"))), 20)
            rows = [prefix] * len(rows)
        # The prompt begins a formula, so that each text has one.
        formula = from_features(build_scheme().encode((make_equation("9"),)), 20)
        prompt = requests.prompt_tokens([_append_start(row, formula) for row in rows], 64, 20)
        budget = jnp.full(len(texts), 24, jnp.int32)
        eos = build_scheme().vocab.mark("[EOS]")
        known = dict(head="next", max_tokens=24, num_id=build_scheme().vocab.mark("[NUM]"))
        if beams:
            ends = jnp.full((len(texts), 1), eos, jnp.int32)
            beams_BW = beam.search(model, params, tables, prompt, budget, ends, source=source, width=3, **known)
            output = beam.take_rank(beams_BW, 0)
        else:
            scalars = dict(temperature=jnp.float32(2.0), top_k=jnp.int32(0), top_p=jnp.float32(1.0))
            keys = jax.random.split(jax.random.key(seed), len(texts))
            request = sample.Request(prompt, budget, keys, source=source, **scalars)
            output = sample.generate(model, params, tables, request, end_id=eos, greedy=False, **known)
        for b, question in enumerate(questions):
            ids = np.asarray(output.ids)[b, : int(output.length[b])]
            pointers = [
                build_scheme().symbols.pointers.index(i) for i in ids.tolist() if i in build_scheme().symbols.pointers
            ]
            assert all(rank < min(len(question.numbers), COUNT) for rank in pointers), texts[b]
            pairs |= {(b, rank) for rank in pointers}
            document = build_scheme().decode([build_scheme().symbols.start, *ids.tolist()], question.numbers)
            assert isinstance(document[0], Formula) and document[0].tree is not None
    assert len(pairs) > 1


def _append_start(row, formula):
    start = build_scheme().symbols.start
    index = formula.ids.tolist().index(start)

    def extend(array, values):
        return np.concatenate([array, values[index : index + 1]])

    return row._replace(
        ids=extend(row.ids, formula.ids),
        numeral_index=np.append(row.numeral_index, -1).astype(np.int32),
        grammar_state=extend(row.grammar_state, formula.grammar_state),
        channels={name: extend(values, formula.channels[name]) for name, values in row.channels.items()},
    )


def test_linked_rows_of_symbols_move_with_the_rows_of_their_tokens():
    """With `linked`, a symbol's output row moves with the rows of the tokens that spell it."""
    scheme = build_scheme(0)
    first, pieces = scheme.symbol_pieces()
    known = dict(vocab_size=scheme.vocab_size, size=scheme.vocab.size, width=8, symbols=(first, pieces))
    head = build("heads", {"name": "joint", "linked": True}, symbol_range=(first, len(pieces)), **known)
    plain = head.clone(linked=False)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(scheme.vocab_size, 8)).astype(np.float32)
    hidden = jnp.zeros((1, 1, 8))
    params = head.init(jax.random.key(0), hidden, None, table)
    linked_kernel, plain_kernel = (
        np.asarray(h.apply(params, hidden, None, table).weights["kernel"]) for h in (head, plain)
    )
    for index, token_ids in enumerate(pieces):
        expected = table[list(token_ids)].mean(axis=0) if token_ids else 0
        np.testing.assert_allclose(
            linked_kernel[first + index] - plain_kernel[first + index], expected, rtol=1e-5, atol=1e-6
        )
    np.testing.assert_array_equal(linked_kernel[:first], plain_kernel[:first])
    seven = scheme.symbols.find_token("N", "7")
    assert pieces[seven - first] == tuple(scheme.vocab.encode("7"))


@pytest.mark.parametrize("linked", [False, True])
def test_without_text_the_softmax_is_over_marks_and_symbols_only(linked):
    scheme, rng = build_scheme(0), np.random.default_rng(1)
    first, pieces = scheme.symbol_pieces()
    base, rows = scheme.vocab.base, scheme.vocab_size - scheme.vocab.base
    known = dict(vocab_size=scheme.vocab_size, size=scheme.vocab.size, width=8, symbols=(first, pieces), base=base)
    full_head = build("heads", {"name": "joint", "linked": linked}, symbol_range=(first, len(pieces)), **known)
    symbol_head = full_head.clone(text=False)
    table = rng.normal(size=(scheme.vocab_size, 8)).astype(np.float32)
    hidden = jnp.asarray(rng.normal(size=(2, 3, 8)), jnp.float32)
    kernel, bias = (rng.normal(size=shape).astype(np.float32) for shape in ((rows, 8), (rows,)))
    # The marks before the symbols are rows of the table where there is text.
    kernel[: first - base], bias[: first - base] = table[base:first], 0
    symbols = slice(first - base, first - base + len(pieces))
    full_params = {"params": {"math_kernel": kernel[symbols], "math_bias": bias[symbols]}}
    outs = (
        full_head.apply(full_params, hidden, None, table),
        symbol_head.apply({"params": {"math_kernel": kernel, "math_bias": bias}}, hidden, None, table),
    )
    assert outs[1].weights["kernel"].shape == (rows, 8)
    ids = rng.integers(base, scheme.vocab.size, size=(2, 3))
    marks = Allowed(jnp.broadcast_to(jnp.asarray([False, True]), (2, 3, 2)), jnp.arange(scheme.vocab_size) >= base)
    targets, weights = Targets(jnp.asarray(ids), jnp.ones((2, 3), bool), None, None), jnp.ones((2, 3))
    expected, result = (
        h.log_prob(out, targets, marks)["token"] for h, out in zip((full_head, symbol_head), outs, strict=True)
    )
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    total = symbol_head.total_log_prob(outs[1], targets, weights, None)["token"]
    np.testing.assert_allclose(total, np.sum(expected), rtol=1e-5)
    is_allowed = jnp.broadcast_to(jnp.arange(scheme.vocab_size) >= base, (2, scheme.vocab_size))
    last = [out._replace(hidden=out.hidden[:, 0]) for out in outs]
    steps = [h.step_scores(out, is_allowed)[0] for h, out in zip((full_head, symbol_head), last, strict=True)]
    np.testing.assert_allclose(*(np.exp(np.asarray(x)) for x in steps), rtol=1e-5, atol=1e-7)
    # A target of text is no symbol, so its loss is not finite.
    text = targets._replace(ids=targets.ids.at[0, 0].set(1))
    assert not np.isfinite(symbol_head.log_prob(outs[1], text)["token"][0, 0])


def test_a_head_without_text_needs_a_task_that_writes_only_formulas():
    from numjax.bundled.configs import mathgpt

    for change in ({"answer": "text"}, {"encoder": False}):
        config = mathgpt.get_config("smoke")
        assert not list(fit.find_faults(config, build("tasks", config.task)))
        config.task.update(change)
        faults = list(fit.find_faults(config, build("tasks", config.task)))
        message = "head 'next' (joint) writes a formula alone, and task equation_extraction has more to write"
        assert any(line.startswith(message) for line in faults), faults


def test_text_may_stand_beside_formulas_that_point():
    document = (*parse("of 12"), make_equation("12"), Text(" and "), make_equation("12", "5"), Mark("[EOS]"))
    features = build_scheme().encode(document)
    assert build_scheme().decode(features.ids, features.numbers) == document


def test_a_text_with_pointers_is_not_cut_into_pieces():
    """A piece would have formulas whose pointers find no number."""
    task, records = Task(dataset="problems"), draw_problems()[:3]
    options: Any = SimpleNamespace(length=40, overflow="split", get=lambda name, default=None: default)
    with pytest.raises(UsageError, match=r"set data\.overflow=skip, or scheme\.pointers=0"):
        features.encode(task, build_scheme(), records, options, "train")
    for name in ("articles", "text"):
        assert mathgpt.get_config(f"task={name},numbers=pointed").data.overflow == "skip"
        assert mathgpt.get_config(f"task={name}").data.overflow == "split"
