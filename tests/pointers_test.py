"""Numbers of formulas that point to those of a text: nothing is lost, and nothing points to what is not there."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import FrozenDict

from numjax.build import build
from numjax.bundled.data.problems.generate import generate_records
from numjax.config import fit
from numjax.decode import beam, sample
from numjax.decode import grammar as device
from numjax.errors import UsageError
from numjax.evals import generate as evals
from numjax.expr.tree import Tree
from numjax.model import Model
from numjax.nn import grammar as masks
from numjax.pipeline.features import from_features
from numjax.tasks.equation_extraction import Task
from numjax.text import trees, vocab
from numjax.text.grammar import automaton as grammars
from numjax.types import Allowed, Batch, Formula, Mark, Targets, Text
from tests import drawn

COUNT = 4
SIZES = dict(size=60, test=2, validation=2, invented=0.3, wordings=0)


@functools.cache
def problems() -> list[dict]:
    return [row for split, row in generate_records(seed=5, **SIZES) if split == "train"]


@functools.cache
def scheme(pointers: int = COUNT) -> trees.Scheme:
    task = Task(dataset="problems")
    texts = list(task.texts(problems()))
    found = [segment.tree for row in problems() for segment in task.example(row, parse).document if _is_tree(segment)]
    marks = trees.Scheme.marks_of({}, found)
    built = vocab.build({"name": "sentencepiece", "size": 500, "split_digits": True}, texts, marks)
    return trees.Scheme(built, rules="words", pointers=pointers)


def _is_tree(segment) -> bool:
    return isinstance(segment, Formula)


def parse(text):
    from numjax.text import document

    return document.parse(text, "words")


def equation(*numbers: str) -> Formula:
    return Formula("", Tree("U", "eq", [Tree("V", "x"), Tree("U", "plus", [Tree("N", n) for n in numbers])]))


def documents(encoder: bool):
    task = Task(dataset="problems", encoder=encoder)
    return [task.example(row, parse) for row in problems()]


@pytest.mark.parametrize("encoder", [False, True])
def test_a_problem_and_its_equation_come_back_whole(encoder):
    pointing = 0
    for example in documents(encoder):
        source = None if example.source is None else scheme().encode(example.source)
        found = scheme().encode(example.document, source=source)
        numbers = found.numbers if source is None else source.numbers
        assert scheme().decode(found.ids, numbers) == example.document
        if source is not None:
            assert scheme().decode(source.ids, source.numbers) == example.source
        formula = found.ids[found.ids.tolist().index(scheme().symbols.start) :]
        pointing += int(np.isin(formula, scheme().symbols.pointers).sum())
    assert pointing > len(problems())


def test_what_is_pointed_to_and_what_is_spelled():
    """The first of equal numbers; a percentage with its sign; words. Constants, what stands behind, and a percentage
    without its sign: spelled."""
    text = "It took 2,340 of twelve and 15% of 2340, 7 and 8 times"
    numbers = [Tree("N", n) for n in ("2340", "12", "15", "7", "8", "60", "12.0")]
    percent = [Tree("O", "percent", [Tree("N", n)]) for n in ("15", "12")]
    tree = Tree("U", "eq", [Tree("V", "x"), Tree("U", "plus", [*numbers, *percent])])
    document = (*parse(text), Mark("[SEP]"), Formula("", tree))
    ids = scheme().encode(document).ids.tolist()
    inside = ids[ids.index(scheme().symbols.start) :]
    first, second, third, fourth = scheme().symbols.pointers
    assert [i for i in inside if i in scheme().symbols.pointers] == [first, second, third, second]
    percents = [i for i in inside if scheme().symbols.names.get(i) == ("OP", "O", "percent")]
    assert len(percents) == 1  # of 12, which the text has without a sign
    assert [i for i in ids if i in scheme().symbols.pointers][:4] == [first, second, third, fourth]
    assert scheme().decode(ids, scheme().encode(document).numbers) == document


def test_a_pointer_of_the_text_has_the_rank_of_its_number_for_a_type():
    """Numbers in words, with groups and percent signs are compared by value; behind the last pointer none has one."""
    built = trees.Scheme(scheme().vocab, rules="words", pointers=COUNT, ranks=True)
    document = (*parse("of 2,340 and twelve, 15% are 12.0, and 7 more"), Mark("[SEP]"), equation("12", "2340"))
    found, plain = built.encode(document), scheme().encode(document)
    np.testing.assert_array_equal(found.ids, plain.ids)
    at = np.isin(found.ids, built.symbols.pointers) & (found.numeral_index >= 0)
    first = built.token_types - COUNT  # the type of rank 1
    assert (found.channels["types"][at] - first + 1).tolist() == [4, 3, 1, 3]
    assert built.token_types == scheme().token_types + COUNT + 1
    np.testing.assert_array_equal(found.channels["types"][~at], plain.channels["types"][~at])
    assert (
        found.channels["types"].max() < built.token_types and (plain.channels["types"] < scheme().token_types).all()
    )
    with pytest.raises(UsageError, match=r"set scheme\.pointers"):
        trees.Scheme(scheme().vocab, ranks=True)


def test_the_fourth_pointer_is_the_last_and_without_pointers_all_is_spelled():
    document = (*parse("1 2 3 4 5 6"), equation("6"))
    ids = scheme().encode(document).ids.tolist()
    assert sum(i in scheme().symbols.pointers for i in ids) == COUNT
    plain = scheme(0)
    assert plain.symbols.pointers == () and not plain.points
    assert plain.decode(plain.encode(document).ids) == document


def test_signs_between_numbers_keep_their_meaning():
    """What follows a number is parsed with it, although a pointer stands between them."""
    for text in ("pages 3-4 of 5", "in 2019-2020, 5%-6%", "$5 or 7.5% (1,746)"):
        document = (*parse(text), Mark("[EOS]"))
        found = scheme().encode(document)
        assert scheme().decode(found.ids, found.numbers) == document


def test_a_pointer_to_nothing_gives_no_tree():
    """Tokens of another text; a decoder never writes them."""
    ids = scheme().encode((*parse("1 and 20 and 30"), equation("30"))).ids
    start = ids.tolist().index(scheme().symbols.start)
    (formula,) = scheme().decode(ids[start:], parse("20")[:1])
    assert isinstance(formula, Formula) and formula.tree is None


# ---------------------------------------------------------------------------------------------------
# One automaton: what training, the decoder and the host allow.


@pytest.mark.parametrize("encoder", [False, True])
def test_training_allows_what_the_decoder_and_the_host_allow(encoder):
    grammar = scheme().grammar()
    host = grammars.Automaton(grammar)
    tables = jax.tree.map(jnp.asarray, grammar)
    step = jax.jit(lambda g, token: device.step(tables, g, token))
    allowed_now = jax.jit(lambda g: device.allowed_tokens(tables, g).classes)
    seen = set()
    for example in documents(encoder)[:6]:
        source = None if example.source is None else scheme().encode(example.source)
        row = from_features(scheme().encode(example.document, source=source), 20)
        read = None if source is None else evals.prompt_tokens([from_features(source, 20)], len(source.ids), 20)
        tokens = evals.prompt_tokens([row], len(row.ids), 20)
        codes = jnp.asarray(scheme().encode(example.document, source=source).grammar_state[None, 1:])
        shown = masks.recall_mask(grammar, tokens, read)
        trained = np.asarray(masks.allowed_tokens(grammar, codes, False, shown).classes)[0]
        place, state = host.start(() if source is None else source.ids), device.init(tables, 1, read)
        for t, token in enumerate(row.ids.tolist()):
            place, state = host.step(place, token), step(state, jnp.asarray([token]))
            classes = host.classes(place)
            np.testing.assert_array_equal(classes, np.asarray(allowed_now(state))[0], err_msg=str(t))
            # Training leaves what no budget forbids; closing costs forbid nothing here.
            np.testing.assert_array_equal(classes, trained[t], err_msg=str(t))
            seen.add(int(classes[np.flatnonzero(grammar.recalled)].sum()))
    assert len(seen) > 2


def test_what_another_example_of_a_row_has_shown_does_not_count():
    grammar = scheme().grammar()
    first = from_features(scheme().encode((*parse("12 and 13"), Mark("[EOS]"))), 20)
    second = from_features(scheme().encode((*parse("so 14"), equation("14"), Mark("[EOS]"))), 20)
    from numjax.pipeline.batch import assemble

    count = len(first.ids) + len(second.ids)
    packed = assemble([[first, second]], [[0, 1]], kind="classify", length=count, numerals=8, digits=20).inputs
    alone = assemble([[second]], [[0]], kind="classify", length=len(second.ids), numerals=8, digits=20).inputs
    in_row, by_itself = (np.asarray(masks.recall_mask(grammar, tokens))[0] for tokens in (packed, alone))
    np.testing.assert_array_equal(in_row[len(first.ids) :], by_itself)
    assert not by_itself.all() and in_row[len(first.ids) - 1].sum() == by_itself[-1].sum() + 1


def test_grammars_without_pointers_recall_nothing():
    assert masks.recall_mask(scheme(0).grammar(), None) is None  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------------------------
# Generation.


@functools.cache
def model(encoder: bool, seed: int):
    width = 16
    known = {
        "vocab_size": scheme().vocab_size, "size": scheme().vocab.size, "num_id": scheme().vocab.mark("[NUM]"),
        "width": width, "dim": width, "digits": 20,
    }  # fmt: skip
    first, pieces = scheme().symbol_pieces()
    known |= {"symbols": (first, pieces), "symbol_range": (first, len(pieces))}
    shape = dict(width=width, layers=1, heads=2, max_length=200, init_std=0.4)
    if encoder:
        shape |= dict(name="encoder_decoder", norm="layer", biases=True, gated=False)
    else:
        shape |= dict(name="decoder")
    built = Model(
        FrozenDict(token=build("embed", {"name": "linked", "init_std": 0.4}, **known)),
        FrozenDict(),
        drawn.stack(shape),
        FrozenDict(next=build("heads", {"name": "joint", "init_std": 0.4}, **known)),
    )
    tokens = evals.prompt_tokens([from_features(scheme().encode((Mark("[CLS]"),)), 20)], 8, 20)
    batch = Batch(tokens, source=tokens if encoder else None)
    params = jax.jit(lambda: built.init(jax.random.key(seed), batch)["params"])()
    # Pointers are likely everywhere, also those to nothing.
    at = np.asarray(scheme().symbols.pointers) - first
    params["heads_next"]["math_bias"] = params["heads_next"]["math_bias"].at[at].set(6.0)
    return built, params


@pytest.mark.parametrize("beams", [0, 3])
@pytest.mark.parametrize("encoder", [False, True])
def test_no_random_model_points_to_a_number_that_is_not_there(encoder, beams):
    """At any temperature, greedily and with beams; every text is whole within its budget."""
    texts = ["no number here", "12 pens", "7 of 12 and 30", "1 2 3 4 5 6 7 8"]
    tables = jax.tree.map(jnp.asarray, scheme().grammar())
    pointed = set()
    for seed in range(3):
        built, params = model(encoder, seed)
        asked = [scheme().encode((Mark("[CLS]"), *parse(text), Mark("[SEP]"))) for text in texts]
        rows = [from_features(found, 20) for found in asked]
        source = None
        if encoder:
            source = evals.prompt_tokens(rows, 48, 20)
            begin = from_features(scheme().encode((Mark("[CLS]"), Mark("[SEP]"))), 20)
            rows = [begin] * len(rows)
        # A formula is begun, so that each text has one.
        start = from_features(scheme().encode((equation("9"),)), 20)
        prompt = evals.prompt_tokens([_begun(row, start) for row in rows], 64, 20)
        budget = jnp.full(len(texts), 24, jnp.int32)
        eos = scheme().vocab.mark("[EOS]")
        known = dict(head="next", max_tokens=24, num_id=scheme().vocab.mark("[NUM]"))
        if beams:
            ends = jnp.full((len(texts), 1), eos, jnp.int32)
            found_BW = beam.search(built, params, tables, prompt, budget, ends, source=source, width=3, **known)
            done = beam.take_rank(found_BW, 0)
        else:
            scalars = dict(temperature=jnp.float32(2.0), top_k=jnp.int32(0), top_p=jnp.float32(1.0))
            request = sample.Request(prompt, budget, jax.random.key(seed), source=source, **scalars)
            done = sample.generate(built, params, tables, request, end_id=eos, greedy=False, **known)
        for b, found in enumerate(asked):
            ids = np.asarray(done.ids)[b, : int(done.length[b])]
            pointers = [scheme().symbols.pointers.index(i) for i in ids.tolist() if i in scheme().symbols.pointers]
            assert all(place < min(len(found.numbers), COUNT) for place in pointers), texts[b]
            pointed |= {(b, place) for place in pointers}
            document = scheme().decode([scheme().symbols.start, *ids.tolist()], found.numbers)
            assert isinstance(document[0], Formula) and document[0].tree is not None
    assert len(pointed) > 1


def _begun(row, formula):
    start = scheme().symbols.start
    place = formula.ids.tolist().index(start)

    def more(before, values):
        return np.concatenate([before, values[place : place + 1]])

    return row._replace(
        ids=more(row.ids, formula.ids),
        numeral_index=np.append(row.numeral_index, -1).astype(np.int32),
        grammar_state=more(row.grammar_state, formula.grammar_state),
        channels={name: more(values, formula.channels[name]) for name, values in row.channels.items()},
    )


def test_a_digit_of_a_formula_is_likely_where_that_digit_of_the_text_is():
    """`linked`: a symbol's output row moves with the rows of the tokens that spell it."""
    built = scheme(0)
    first, pieces = built.symbol_pieces()
    known = dict(vocab_size=built.vocab_size, size=built.vocab.size, width=8, symbols=(first, pieces))
    head = build("heads", {"name": "joint", "linked": True}, symbol_range=(first, len(pieces)), **known)
    plain = head.clone(linked=False)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(built.vocab_size, 8)).astype(np.float32)
    hidden = jnp.zeros((1, 1, 8))
    params = head.init(jax.random.key(0), hidden, None, table)
    linked, unlinked = (np.asarray(h.apply(params, hidden, None, table).weights["kernel"]) for h in (head, plain))
    for place, spelled in enumerate(pieces):
        wanted = table[list(spelled)].mean(axis=0) if spelled else 0
        np.testing.assert_allclose(linked[first + place] - unlinked[first + place], wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(linked[:first], unlinked[:first])
    seven = built.symbols.find_token("N", "7")
    assert pieces[seven - first] == tuple(built.vocab.encode("7"))


@pytest.mark.parametrize("linked", [False, True])
def test_without_text_it_is_the_same_softmax_over_marks_and_symbols_alone(linked):
    built, rng = scheme(0), np.random.default_rng(1)
    first, pieces = built.symbol_pieces()
    base, rows = built.vocab.base, built.vocab_size - built.vocab.base
    known = dict(vocab_size=built.vocab_size, size=built.vocab.size, width=8, symbols=(first, pieces), base=base)
    whole = build("heads", {"name": "joint", "linked": linked}, symbol_range=(first, len(pieces)), **known)
    alone = whole.clone(text=False)
    table = rng.normal(size=(built.vocab_size, 8)).astype(np.float32)
    hidden = jnp.asarray(rng.normal(size=(2, 3, 8)), jnp.float32)
    kernel, bias = (rng.normal(size=shape).astype(np.float32) for shape in ((rows, 8), (rows,)))
    # The marks before the symbols are rows of the table where there is text.
    kernel[: first - base], bias[: first - base] = table[base:first], 0
    symbols = slice(first - base, first - base + len(pieces))
    of_whole = {"params": {"math_kernel": kernel[symbols], "math_bias": bias[symbols]}}
    outs = (
        whole.apply(of_whole, hidden, None, table),
        alone.apply({"params": {"math_kernel": kernel, "math_bias": bias}}, hidden, None, table),
    )
    assert outs[1].weights["kernel"].shape == (rows, 8)
    ids = rng.integers(base, built.vocab.size, size=(2, 3))
    marks = Allowed(jnp.broadcast_to(jnp.asarray([False, True]), (2, 3, 2)), jnp.arange(built.vocab_size) >= base)
    targets, weights = Targets(jnp.asarray(ids), jnp.ones((2, 3), bool), None, None), jnp.ones((2, 3))
    wanted, got = (h.log_prob(out, targets, marks)["token"] for h, out in zip((whole, alone), outs, strict=True))
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    total = alone.total_log_prob(outs[1], targets, weights, None)["token"]
    np.testing.assert_allclose(total, np.sum(wanted), rtol=1e-5)
    may = jnp.broadcast_to(jnp.arange(built.vocab_size) >= base, (2, built.vocab_size))
    last = [out._replace(hidden=out.hidden[:, 0]) for out in outs]
    steps = [h.step_scores(out, may)[0] for h, out in zip((whole, alone), last, strict=True)]
    np.testing.assert_allclose(*(np.exp(np.asarray(x)) for x in steps), rtol=1e-5, atol=1e-7)
    # A target of text is no other symbol: it has no finite loss.
    text = targets._replace(ids=targets.ids.at[0, 0].set(1))
    assert not np.isfinite(alone.log_prob(outs[1], text)["token"][0, 0])


def test_a_head_without_text_wants_a_task_that_writes_formulas_alone():
    from numjax.bundled.configs import mathgpt

    for change in ({"answer": "text"}, {"encoder": False}):
        config = mathgpt.get_config("smoke")
        assert not list(fit.find_faults(config, build("tasks", config.task)))
        config.task.update(change)
        found = list(fit.find_faults(config, build("tasks", config.task)))
        said = "head 'next' (joint) writes a formula alone, and task equation_extraction has more to write"
        assert any(line.startswith(said) for line in found), found


def test_text_may_stand_beside_formulas_that_point():
    document = (*parse("of 12"), equation("12"), Text(" and "), equation("12", "5"), Mark("[EOS]"))
    found = scheme().encode(document)
    assert scheme().decode(found.ids, found.numbers) == document
