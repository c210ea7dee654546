"""Generation: the cached, batched program against a slow loop that computes the whole text again for each token."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax import protocols
from numjax.build import build
from numjax.decode import beam, sample
from numjax.decode import grammar as automaton
from numjax.errors import UsageError
from numjax.evals import generate as evals
from numjax.evals import requests
from numjax.model import Model
from numjax.nn import cross_entropy
from numjax.pipeline import packing
from numjax.system import System
from numjax.text import replace, subword, vocab
from numjax.train import checkpoint
from numjax.types import Batch, Mark, Numeral, Tokens
from tests import drawn, writing
from tests.grammar_test import make_ending_grammar

TEXTS = ["Q: 12 birds and 30 cats. A: 42", "Q: 7 of 1,000 fell. A: 993", "no numbers here at all"] * 20
WIDTH, MOST = 32, 10


@functools.cache
def build_parts(kind: str, scan: bool = False, keep: int = 5, dtype: str = "float32"):
    """Builds (scheme, model, random parameters, tables)."""
    cls = {"replace": replace.Scheme, "subword": subword.Scheme}[kind]
    scheme = cls(vocab.build({"name": "sentencepiece", "size": 300}, TEXTS, cls.marks))
    context = {
        "vocab_size": scheme.vocab_size, "size": scheme.vocab.size, "num_id": scheme.vocab.mark("[NUM]"),
        "width": WIDTH, "dim": WIDTH, "digits": 20,
    }  # fmt: skip
    embeds = {"token": build("embed", {"name": "token", "init_std": 0.3}, **context)}
    fusions, head = {}, {"name": "token", "tied": False, "init_std": 0.5}
    if kind == "replace":
        embeds["numeral"] = build("embed", {"name": "prototype", "dim": 16})
        fusions["numeral"] = "concat+linear"
        head = {"name": "mixture", "keep": keep, "init_std": 0.5}
    backbone = drawn.build_backbone(
        dict(name="decoder", width=WIDTH, layers=2, heads=2, max_length=64, scan=scan, dtype=dtype, init_std=0.2)
    )
    from flax.core import FrozenDict

    model = Model(FrozenDict(embeds), FrozenDict(fusions), backbone, FrozenDict(next=build("heads", head, **context)))
    tokens = requests.prompt_tokens([make_row(scheme, "3 cats")], 16, 20)
    params = jax.jit(lambda: model.init(jax.random.key(1), Batch(tokens))["params"])()
    return scheme, model, params, jax.tree.map(jnp.asarray, scheme.grammar())


def make_row(scheme, text):
    from numjax.pipeline.features import from_features

    return from_features(scheme.encode((Mark("[CLS]"), *scheme.parse(text))), 20)


def run(kind, prompts, *, most=MOST, temperature=0.0, top_k=0, top_p=1.0, seed=0, room=48, quorum=0, budget=None,
        **options):  # fmt: skip
    scheme, model, params, tables = build_parts(kind, **options)
    tokens = requests.prompt_tokens([make_row(scheme, p) for p in prompts], room, 20)
    request = sample.Request(
        tokens,
        jnp.asarray([most] * len(prompts) if budget is None else budget, jnp.int32),
        requests.make_keys(jax.random.key(seed), range(len(prompts))),
        jnp.float32(temperature),
        jnp.int32(top_k),
        jnp.float32(top_p),
        quorum=jnp.int32(quorum),
    )
    ids = {"num_id": scheme.vocab.mark("[NUM]"), "end_id": scheme.vocab.mark("[EOS]")}
    if model.backbone.scan:
        model = model.clone(backbone=model.backbone.clone(scan=False))
        params = checkpoint.split_layers(params)
    result = sample.generate(
        model, params, tables, request, head="next", max_tokens=most, greedy=temperature == 0, **ids
    )
    return jax.device_get(result)


@functools.partial(jax.jit, static_argnums=0)
def _apply_model(model, params, tokens):
    return model.apply({"params": params}, Batch(tokens))[0]["next"]


def generate_slowly(kind, prompt, most=MOST, keep=5):
    """Returns (tokens, log masses) of one row, greedily, without cache: each token needs the whole sequence again."""
    scheme, model, params, tables = build_parts(kind, keep=keep)
    prompt_row = make_row(scheme, prompt)
    ids, index = prompt_row.ids.tolist(), prompt_row.numeral_index.tolist()
    numerals = [Numeral(*(np.asarray(x[i]) for x in prompt_row.numerals)) for i in range(len(prompt_row.surfaces))]
    state = automaton.read_prompt(
        tables, automaton.init(tables, 1), jnp.asarray([ids]), jnp.ones((1, len(ids)), bool)
    )
    head, token_ids, masses = model.heads["next"], [], []
    for step in range(most):
        count, room = len(ids), 64
        table = jax.tree.map(lambda x: np.zeros((1, 24, *x.shape[1:]), np.float32), prompt_row.numerals)
        table = Numeral(
            *(x.astype(np.int32) if n in ("n_digits", "exponent") else x for n, x in table._asdict().items())
        )
        for i, numeral in enumerate(numerals):
            for column, value in zip(table, numeral, strict=True):
                column[0, i] = value
        tokens = Tokens(
            np.asarray([ids + [0] * (room - count)]), np.arange(room)[None], (np.arange(room) < count)[None] * 1,
            numeral_index=np.asarray([index + [-1] * (room - count)]), numerals=table._replace(valid=table.valid > 0),
        )  # fmt: skip
        out = _apply_model(model, params, tokens)
        out = out._replace(hidden=out.hidden[:, count - 1])
        mask = automaton.token_mask(automaton.allowed_tokens(tables, state, jnp.asarray([most - step])))
        mass, numeral, *_ = head.step_scores(out, mask)
        token = int(mass.argmax())
        token_ids.append(token)
        masses.append(float(mass[0, token]))
        if token == scheme.vocab.mark("[EOS]"):
            break
        state = automaton.step(tables, state, jnp.asarray([token]))
        ids.append(token)
        if kind == "replace" and token == scheme.vocab.mark("[NUM]"):
            index.append(len(numerals))
            numerals.append(jax.tree.map(lambda x: np.asarray(x[0]), numeral))
        else:
            index.append(-1)
    return token_ids, masses


PROMPTS = ["Q: 12 birds A:", "7", "Q: 1,000 and 30 and -2.5 cats of 9 A:"]


@pytest.mark.parametrize(("kind", "keep"), [("replace", 9), ("replace", 3), ("subword", 5)])
def test_the_cached_ragged_batch_equals_a_slow_loop(kind, keep):
    result = run(kind, PROMPTS, keep=keep)
    for b, prompt in enumerate(PROMPTS):
        ids, masses = generate_slowly(kind, prompt, keep=keep)
        assert result.ids[b, : result.length[b]].tolist() == ids
        # A mantissa next to a half rounds either way, and one next to zero has few certain digits.
        tolerance = 1e-4 if kind == "subword" else 1e-2 if keep == 3 else 0.05
        np.testing.assert_allclose(result.log_prob[b, : result.length[b]], masses, rtol=1e-3, atol=tolerance)
        assert not result.ids[b, result.length[b] :].any()
    if kind == "replace":
        assert result.numerals.valid.any(), "the test needs numerals that are fed back"


def test_a_row_depends_neither_on_its_padding_nor_on_its_neighbours():
    batch_result = run("replace", PROMPTS, room=52)
    for b, prompt in enumerate(PROMPTS):
        row_result = run("replace", [prompt])
        np.testing.assert_array_equal(batch_result.ids[b], row_result.ids[0])
        np.testing.assert_allclose(batch_result.log_prob[b], row_result.log_prob[0], rtol=1e-4, atol=1e-5)


def test_stacked_layers_decode_like_split_ones():
    scheme, model, params, _ = build_parts("subword", scan=True)
    assert "layers" in params["backbone"]
    result = run("subword", PROMPTS, scan=True)
    batch = Batch(requests.prompt_tokens([make_row(scheme, p) for p in PROMPTS], 48, 20))
    split_model = model.clone(backbone=model.backbone.clone(scan=False))
    hidden = [m.apply({"params": p}, batch)[0]["next"].hidden[:, -1] for m, p in
         ((model, params), (split_model, checkpoint.split_layers(params)))]  # fmt: skip
    np.testing.assert_allclose(*hidden, rtol=1e-5, atol=1e-5)
    assert result.length.min() >= 1


@pytest.mark.whole
def test_bfloat16_decodes():
    result = run("replace", PROMPTS, dtype="bfloat16")
    assert np.isfinite(result.log_prob).all() and (result.length > 0).all()


def test_budgets_hold_row_by_row():
    result = run("subword", PROMPTS, budget=[1, 3, 5])
    full_result = run("subword", PROMPTS)
    for b, most in enumerate((1, 3, 5)):
        assert result.length[b] == min(most, full_result.length[b])
        np.testing.assert_array_equal(
            result.ids[b, :most], full_result.ids[b, :most] * (np.arange(most) < result.length[b])
        )


def test_the_loop_stops_when_a_quorum_of_rows_is_left():
    prompts, budget = [*PROMPTS, *PROMPTS], [2, 4, 9, 3, 6, 10]
    whole, stopped = (run("subword", prompts, budget=budget, temperature=1.0, quorum=q) for q in (0, 2))
    n_steps = sorted(whole.length)[-3]
    assert n_steps < max(whole.length)
    is_written = np.arange(MOST) < n_steps
    np.testing.assert_array_equal(stopped.ids, whole.ids * is_written)
    np.testing.assert_array_equal(stopped.log_prob, whole.log_prob * is_written)
    np.testing.assert_array_equal(stopped.length, np.minimum(whole.length, n_steps))
    np.testing.assert_array_equal(stopped.ended, whole.ended & (whole.length <= n_steps))


@pytest.mark.parametrize("temperature", [0.0, 3.0])
def test_endings_without_a_choice_are_those_that_the_model_writes(temperature):
    """The model runs for every token if its hidden states are asked for; else not for such an ending."""
    text_model = writing.make_text_model({})
    n_rows = 48
    request = sample.Request(
        text_model.make_tokens([[2, 3, 3]] * n_rows),
        jnp.arange(n_rows) % 10 + 5,  # the longest ending has five tokens
        jax.random.split(jax.random.key(5), n_rows),
        *(jnp.float32(temperature), jnp.int32(0), jnp.float32(1)),
    )
    tables = jax.tree.map(jnp.asarray, make_ending_grammar())
    options: dict[str, Any] = dict(head="next", max_tokens=14, num_id=9, end_id=1, greedy=temperature == 0)
    whole, quick = (
        sample.generate(text_model.model, text_model.params, tables, request, keep_hidden=keep, **options)
        for keep in (True, False)
    )
    for name in ("ids", "length", "ended"):
        np.testing.assert_array_equal(getattr(quick, name), getattr(whole, name))
    np.testing.assert_allclose(quick.log_prob, whole.log_prob, atol=1e-5)
    if temperature:
        assert {4, 6, 9, 10} <= set(np.unique(whole.ids)) and len(set(whole.length.tolist())) > 4


def test_a_budget_beyond_the_most_tokens_is_these():
    text_model, tables = writing.make_text_model({}), jax.tree.map(jnp.asarray, make_ending_grammar())
    options: dict[str, Any] = dict(head="next", max_tokens=3, num_id=9, end_id=1, greedy=True)
    prompt, keys = text_model.make_tokens([[2, 3, 6]]), jax.random.split(jax.random.key(5), 1)
    request = sample.Request(prompt, jnp.asarray([3]), keys, jnp.float32(0), jnp.int32(0), jnp.float32(1))
    texts = [
        sample.generate(
            text_model.model, text_model.params, tables, request._replace(budget=jnp.asarray([budget])), **options
        )
        for budget in (3, 10)
    ]
    assert texts[0].ids.tolist() == texts[1].ids.tolist() and texts[0].length == texts[1].length


def test_only_legal_tokens_are_generated():
    scheme, *_ = build_parts("replace")
    result = run("replace", PROMPTS * 20, temperature=5.0, seed=3)
    from numjax.text.grammar import automaton as grammar

    for b, prompt in enumerate(PROMPTS * 20):
        ids = [*make_row(scheme, prompt).ids.tolist(), *result.ids[b, : result.length[b]].tolist()]
        error = grammar.validate(scheme.grammar(), ids)
        assert error is None or "end" in str(error), error


def test_sampling_follows_the_distribution_and_its_seed():
    samples = [run("subword", ["7"] * 400, most=1, temperature=1.0, seed=s) for s in (0, 0, 1)]
    np.testing.assert_array_equal(samples[0].ids, samples[1].ids)
    assert (samples[0].ids != samples[2].ids).any()
    greedy = run("subword", ["7"], most=1)
    mass = float(np.exp(greedy.log_prob[0, 0]))
    share = np.mean([(x.ids == greedy.ids[0, 0]).mean() for x in (samples[0], samples[2])])
    assert abs(share - mass) < 5 * np.sqrt(mass * (1 - mass) / 800) + 1e-3
    cold_sample = run("subword", PROMPTS, temperature=1e-4)
    np.testing.assert_array_equal(cold_sample.ids, run("subword", PROMPTS).ids)


@pytest.mark.parametrize(
    ("top_k", "top_p"), [(0, 1.0), (1, 1.0), (5, 1.0), (0, 0.5), (7, 0.8), (0, 1e-6), (100, 0.99)]
)
def test_filters_against_numpy(top_k, top_p):
    logits = np.random.default_rng(0).normal(size=(6, 40)).astype(np.float32) * 3
    is_kept = np.asarray(sample.filter_logits(jnp.asarray(logits), top_k, top_p)) > cross_entropy.FORBIDDEN / 2
    for values, is_kept_row in zip(logits.astype(np.float64), is_kept, strict=True):
        order = np.argsort(-values)[: top_k or None]
        mass = np.exp(values[order] - values.max())
        mass /= mass.sum()
        count = 1 + int(np.sum(np.cumsum(mass)[:-1] < top_p))
        assert set(np.flatnonzero(is_kept_row)) == set(order[:count])


def test_other_prompts_of_a_length_compile_nothing_new():
    run("subword", ["1 cat", "2 cats of 3"])
    n_programs = sample.generate._cache_size()
    run("subword", ["no number", "Q: 5 A:"], seed=9)
    run("subword", ["9", "8 8 8"], budget=[2, 4])
    assert sample.generate._cache_size() == n_programs


class _Config:
    class data:
        digits = 20


def _make_system(kind):
    scheme, model, params, _ = build_parts(kind)

    task = protocols.Task()  # prompts stay as they are
    return System(_Config, task, scheme, model, {}, {}, None), params


def test_numbers_are_returned_as_numbers_and_as_text():
    system, params = _make_system("replace")
    results = evals.generate(system, params, PROMPTS, max_tokens=8, batch_size=2)
    assert [r.prompt for r in results] == PROMPTS
    assert any(r.numbers for r in results)
    assert evals.generate(system, params, [], max_tokens=8, intervals=(0.5,)) == []
    for result in results:
        for number in result.numbers:
            assert number["value"] in result.text
            raw, value = float(number["raw"]), float(number["value"])
            assert abs(raw - value) <= 0.5e-4 * abs(raw) * 1.01
    single = evals.generate(system, params, PROMPTS[:1], max_tokens=8)
    # The last digit may differ: products of one row and of two are not summed in the same order.
    values = [[float(number["value"]) for number in result.numbers] for result in (single[0], results[0])]
    np.testing.assert_allclose(*values, rtol=2e-4)
    assert single[0].log_prob == pytest.approx(results[0].log_prob, rel=1e-4)


def test_long_texts_of_all_batches_go_on_together(monkeypatch):
    """A batch may stop before its longest texts; what they are does not change, nor their order."""
    system, params = _make_system("subword")
    prompts, generate, outputs = [f"{i} birds fly" for i in range(64)], sample.generate, []
    settings: dict[str, Any] = dict(max_tokens=24, temperature=0.4)

    def record(*args, **options):
        outputs.append(generate(*args, **(options | {"end_id": end_id})))
        return outputs[-1]

    monkeypatch.setattr(evals.sample, "generate", record)
    end_id = system.scheme.vocab.mark("[EOS]")
    evals.generate(system, params, prompts, batch_size=64, **settings)
    end_id = int(np.bincount(np.ravel(outputs[0].ids)).argmax())  # texts of many lengths end with it
    whole = evals.generate(system, params, prompts, batch_size=64, **settings)
    lengths = np.asarray(outputs[1].length)
    parts = evals.generate(system, params, prompts, batch_size=16, **settings)
    assert [(r.prompt, r.text, r.ended) for r in parts] == [(r.prompt, r.text, r.ended) for r in whole]
    np.testing.assert_allclose([r.log_prob for r in parts], [r.log_prob for r in whole], rtol=1e-4)
    # Two of 16 rows may be left of each batch, and the longest text is one of them.
    order = sorted(range(64), key=lambda i: len(make_row(system.scheme, prompts[i]).ids))
    expected = np.sort(lengths[order].reshape(4, 16))[:, -3]
    assert [int(output.length.max()) for output in outputs[2:6]] == expected.tolist()
    assert max(lengths) > max(expected)
    assert {len(output.ids) for output in outputs[2:]} == {16}, "all batches share their programs"
    # Long prompts are not read again for short texts.
    monkeypatch.setattr(evals, "LEFT", 1 / 2)
    for repeats in (1, 2):
        outputs.clear()
        prompts = [f"{i} birds fly" * repeats for i in range(64)]
        evals.generate(system, params, prompts, batch_size=16, **settings | {"max_tokens": 8})
        assert (len(outputs) == 4) == (repeats == 2)


@pytest.mark.whole
def test_each_number_has_its_own_interval_in_samples_and_beams():
    """The density as printed has the same width everywhere, so another number's interval has another centre."""
    scheme, model, params, tables = build_parts("replace")
    settings = dict(head="next", max_tokens=MOST, num_id=scheme.vocab.mark("[NUM]"))
    tokens = requests.prompt_tokens([make_row(scheme, p) for p in PROMPTS], 48, 20)
    ends = jnp.full((len(PROMPTS), 1), scheme.vocab.mark("[EOS]"), jnp.int32)
    beams = beam.search(model, params, tables, tokens, jnp.full(len(PROMPTS), MOST), ends, width=3, **settings)
    width = 2 * 1.6449 * np.sqrt(0.5)
    for result in (run("replace", PROMPTS), run("replace", PROMPTS, temperature=1.0), jax.device_get(beams)):
        estimates = result.estimates
        is_number = result.numerals.valid & (estimates.exponent >= -8)  # others are zeros
        assert len(np.unique(estimates.mantissa[is_number])) > 3
        power = np.power(10.0, estimates.exponent[is_number])
        low, high = (np.asarray(end.value, np.float64)[is_number] / power for end in (estimates.low, estimates.high))
        np.testing.assert_allclose((low + high) / 2, estimates.mantissa[is_number], atol=2e-4)
        np.testing.assert_allclose(high - low, width, rtol=3e-4)
        np.testing.assert_allclose(
            result.numerals.value[is_number] / power, estimates.mantissa[is_number], rtol=1e-4, atol=1e-8
        )
    assert run("subword", PROMPTS).estimates is None


def test_approximate_numbers_are_marked_and_exact_ones_are_not():
    system, params = _make_system("replace")
    numbers = [n for r in evals.generate(system, params, PROMPTS, max_tokens=8) for n in r.numbers]
    assert numbers
    for number in numbers:
        assert number.keys() == {"value", "raw", "approximate", "intervals", "method"}
        assert number["approximate"] is True and number["method"] == "mantissa"
        (interval,) = number["intervals"]
        low, high = float(interval["low"]), float(interval["high"])
        assert interval["share"] == 0.9 and low <= float(number["value"]) <= high and low < high
        if float(number["raw"]):
            # The interval is the density's width times 10^exponent, a whole power of ten.
            power = np.log10((high - low) / (2 * 1.6449 * np.sqrt(0.5)))
            assert abs(power - round(power)) < 1e-3
    system, params = _make_system("subword")
    results = evals.generate(system, params, ["7 7 7"] * 8, max_tokens=8, temperature=3.0)
    assert all(number.keys() == {"value", "raw"} for r in results for number in r.numbers)


def test_impossible_requests_are_refused():
    system, params = _make_system("replace")
    with pytest.raises(UsageError, match=r"^the prompt 'word word.*do not fit the context of 64"):
        evals.generate(system, params, ["7", "word " * 200])
    with pytest.raises(UsageError, match="max_tokens"):
        evals.generate(system, params, ["7"], max_tokens=0)
    with pytest.raises(UsageError, match="top_p"):
        evals.generate(system, params, ["7"], top_p=0.0)
    for name, bad in (
        ("max_tokens", 2.5),
        ("batch_size", 0),
        ("batch_size", -1),
        ("seed", 2**70),
        ("temperature", math.nan),
        ("top_p", math.nan),
        ("length_penalty", math.nan),
    ):
        with pytest.raises(UsageError, match=name):
            evals.generate(system, params, ["7"], **{name: bad})


@pytest.mark.parametrize("least", [4, 16])
def test_prompts_of_all_lengths_have_few_shapes(least):
    sizes = {count: packing.round_up(count, least) for count in range(1, 3000)}
    for count, size in sizes.items():
        assert size >= count and (size - count < least or 3 * (size - count) <= size), count
    assert len({*sizes.values()}) <= 2 * math.log2(512 / least) + 1 + 10
