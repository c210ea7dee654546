"""Generation: the cached, batched program against a slow loop that reads everything anew at each token."""

from __future__ import annotations

import functools

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
from numjax.model import Model
from numjax.nn import cross_entropy
from numjax.system import System
from numjax.text import replace, subword, vocab
from numjax.train import checkpoint
from numjax.types import Batch, Mark, Numeral, Tokens
from tests import drawn

TEXTS = ["Q: 12 birds and 30 cats. A: 42", "Q: 7 of 1,000 fell. A: 993", "no numbers here at all"] * 20
WIDTH, MOST = 32, 10


@functools.cache
def parts(kind: str, scan: bool = False, keep: int = 5, dtype: str = "float32"):
    """(scheme, model, random parameters, tables)."""
    cls = {"replace": replace.Scheme, "subword": subword.Scheme}[kind]
    scheme = cls(vocab.build({"name": "sentencepiece", "size": 300}, TEXTS, cls.marks))
    known = {
        "vocab_size": scheme.vocab_size, "size": scheme.vocab.size, "num_id": scheme.vocab.mark("[NUM]"),
        "width": WIDTH, "dim": WIDTH, "digits": 20,
    }  # fmt: skip
    embeds = {"token": build("embed", {"name": "token", "init_std": 0.3}, **known)}
    fusions, head = {}, {"name": "token", "tied": False, "init_std": 0.5}
    if kind == "replace":
        embeds["numeral"] = build("embed", {"name": "prototype", "dim": 16})
        fusions["numeral"] = "concat+linear"
        head = {"name": "mixture", "keep": keep, "init_std": 0.5}
    backbone = drawn.stack(
        dict(name="decoder", width=WIDTH, layers=2, heads=2, max_length=64, scan=scan, dtype=dtype, init_std=0.2)
    )
    from flax.core import FrozenDict

    model = Model(FrozenDict(embeds), FrozenDict(fusions), backbone, FrozenDict(next=build("heads", head, **known)))
    tokens = evals.prompt_tokens([row(scheme, "3 cats")], 16, 20)
    params = jax.jit(lambda: model.init(jax.random.key(1), Batch(tokens))["params"])()
    return scheme, model, params, jax.tree.map(jnp.asarray, scheme.grammar())


def row(scheme, text):
    from numjax.pipeline.features import from_features

    return from_features(scheme.encode((Mark("[CLS]"), *scheme.parse(text))), 20)


def run(kind, prompts, *, most=MOST, temperature=0.0, top_k=0, top_p=1.0, seed=0, room=48, budget=None, **which):
    scheme, model, params, tables = parts(kind, **which)
    tokens = evals.prompt_tokens([row(scheme, p) for p in prompts], room, 20)
    request = sample.Request(
        tokens,
        jnp.asarray([most] * len(prompts) if budget is None else budget, jnp.int32),
        jax.random.key(seed),
        jnp.float32(temperature),
        jnp.int32(top_k),
        jnp.float32(top_p),
    )
    ids = {"num_id": scheme.vocab.mark("[NUM]"), "end_id": scheme.vocab.mark("[EOS]")}
    if model.backbone.scan:
        model = model.clone(backbone=model.backbone.clone(scan=False))
        params = checkpoint.split_layers(params)
    done = sample.generate(
        model, params, tables, request, head="next", max_tokens=most, greedy=temperature == 0, **ids
    )
    return jax.device_get(done)


@functools.partial(jax.jit, static_argnums=0)
def _whole(model, params, tokens):
    return model.apply({"params": params}, Batch(tokens))[0]["next"]


def slow(kind, prompt, most=MOST, keep=5):
    """Greedy, one row, no cache, no padding: the whole sequence is read anew for every token."""
    scheme, model, params, tables = parts(kind, keep=keep)
    first = row(scheme, prompt)
    ids, index = first.ids.tolist(), first.numeral_index.tolist()
    numerals = [Numeral(*(np.asarray(x[i]) for x in first.numerals)) for i in range(len(first.surfaces))]
    place = automaton.read_prompt(
        tables, automaton.init(tables, 1), jnp.asarray([ids]), jnp.ones((1, len(ids)), bool)
    )
    head, written, masses = model.heads["next"], [], []
    for step in range(most):
        count, room = len(ids), 64
        table = jax.tree.map(lambda x: np.zeros((1, 24, *x.shape[1:]), np.float32), first.numerals)
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
        out = _whole(model, params, tokens)
        out = out._replace(hidden=out.hidden[:, count - 1])
        may = automaton.token_mask(automaton.allowed_tokens(tables, place, jnp.asarray([most - step])))
        mass, numeral, _ = head.step_scores(out, may)
        token = int(mass.argmax())
        written.append(token)
        masses.append(float(mass[0, token]))
        if token == scheme.vocab.mark("[EOS]"):
            break
        place = automaton.step(tables, place, jnp.asarray([token]))
        ids.append(token)
        if kind == "replace" and token == scheme.vocab.mark("[NUM]"):
            index.append(len(numerals))
            numerals.append(jax.tree.map(lambda x: np.asarray(x[0]), numeral))
        else:
            index.append(-1)
    return written, masses


PROMPTS = ["Q: 12 birds A:", "7", "Q: 1,000 and 30 and -2.5 cats of 9 A:"]


@pytest.mark.parametrize(("kind", "keep"), [("replace", 9), ("replace", 3), ("subword", 5)])
def test_cached_ragged_batch_equals_reading_everything_anew(kind, keep):
    done = run(kind, PROMPTS, keep=keep)
    for b, prompt in enumerate(PROMPTS):
        ids, masses = slow(kind, prompt, keep=keep)
        assert done.ids[b, : done.length[b]].tolist() == ids
        # A mantissa next to a half rounds either way, and one next to zero has few digits that are sure.
        near = 1e-4 if kind == "subword" else 1e-2 if keep == 3 else 0.05
        np.testing.assert_allclose(done.log_prob[b, : done.length[b]], masses, rtol=1e-3, atol=near)
        assert not done.ids[b, done.length[b] :].any()
    if kind == "replace":
        assert done.numerals.valid.any(), "the test wants numerals that are fed back"


def test_a_row_depends_neither_on_its_padding_nor_on_its_neighbours():
    together = run("replace", PROMPTS, room=52)
    for b, prompt in enumerate(PROMPTS):
        alone = run("replace", [prompt])
        np.testing.assert_array_equal(together.ids[b], alone.ids[0])
        np.testing.assert_allclose(together.log_prob[b], alone.log_prob[0], rtol=1e-4, atol=1e-5)


def test_stacked_layers_decode_as_split_ones():
    scheme, model, params, _ = parts("subword", scan=True)
    assert "layers" in params["backbone"]
    stacked = run("subword", PROMPTS, scan=True)
    batch = Batch(evals.prompt_tokens([row(scheme, p) for p in PROMPTS], 48, 20))
    flat = model.clone(backbone=model.backbone.clone(scan=False))
    h = [m.apply({"params": p}, batch)[0]["next"].hidden[:, -1] for m, p in
         ((model, params), (flat, checkpoint.split_layers(params)))]  # fmt: skip
    np.testing.assert_allclose(*h, rtol=1e-5, atol=1e-5)
    assert stacked.length.min() >= 1


def test_bfloat16_decodes():
    done = run("replace", PROMPTS, dtype="bfloat16")
    assert np.isfinite(done.log_prob).all() and (done.length > 0).all()


def test_budgets_hold_row_by_row():
    done = run("subword", PROMPTS, budget=[1, 3, 5])
    free = run("subword", PROMPTS)
    for b, most in enumerate((1, 3, 5)):
        assert done.length[b] == min(most, free.length[b])
        np.testing.assert_array_equal(done.ids[b, :most], free.ids[b, :most] * (np.arange(most) < done.length[b]))


def test_only_legal_tokens_are_written():
    scheme, *_ = parts("replace")
    done = run("replace", PROMPTS * 20, temperature=5.0, seed=3)
    from numjax.text.grammar import automaton as grammar

    for b, prompt in enumerate(PROMPTS * 20):
        written = [*row(scheme, prompt).ids.tolist(), *done.ids[b, : done.length[b]].tolist()]
        error = grammar.validate(scheme.grammar(), written)
        assert error is None or "end" in str(error), error


def test_sampling_follows_the_distribution_and_its_seed():
    same = [run("subword", ["7"] * 400, most=1, temperature=1.0, seed=s) for s in (0, 0, 1)]
    np.testing.assert_array_equal(same[0].ids, same[1].ids)
    assert (same[0].ids != same[2].ids).any()
    greedy = run("subword", ["7"], most=1)
    mass = float(np.exp(greedy.log_prob[0, 0]))
    share = np.mean([(x.ids == greedy.ids[0, 0]).mean() for x in (same[0], same[2])])
    assert abs(share - mass) < 5 * np.sqrt(mass * (1 - mass) / 800) + 1e-3
    cold = run("subword", PROMPTS, temperature=1e-4)
    np.testing.assert_array_equal(cold.ids, run("subword", PROMPTS).ids)


@pytest.mark.parametrize(
    ("top_k", "top_p"), [(0, 1.0), (1, 1.0), (5, 1.0), (0, 0.5), (7, 0.8), (0, 1e-6), (100, 0.99)]
)
def test_filters_against_numpy(top_k, top_p):
    logits = np.random.default_rng(0).normal(size=(6, 40)).astype(np.float32) * 3
    kept = np.asarray(sample.filter_logits(jnp.asarray(logits), top_k, top_p)) > cross_entropy.FORBIDDEN / 2
    for values, mine in zip(logits.astype(np.float64), kept, strict=True):
        order = np.argsort(-values)[: top_k or None]
        mass = np.exp(values[order] - values.max())
        mass /= mass.sum()
        count = 1 + int(np.sum(np.cumsum(mass)[:-1] < top_p))
        assert set(np.flatnonzero(mine)) == set(order[:count])


def test_other_prompts_of_a_length_compile_nothing_new():
    run("subword", ["1 cat", "2 cats of 3"])
    before = sample.generate._cache_size()
    run("subword", ["no number", "Q: 5 A:"], seed=9)
    run("subword", ["9", "8 8 8"], budget=[2, 4])
    assert sample.generate._cache_size() == before


class _Config:
    class data:
        digits = 20


def _system(kind):
    scheme, model, params, _ = parts(kind)

    task = protocols.Task()  # prompts stay as they are typed
    return System(_Config, task, scheme, model, {}, {}, None), params


def test_numbers_come_out_as_numbers_and_as_text():
    system, params = _system("replace")
    found = evals.generate(system, params, PROMPTS, max_tokens=8, batch_size=2)
    assert [r.prompt for r in found] == PROMPTS
    assert any(r.numbers for r in found)
    for result in found:
        for number in result.numbers:
            assert number["value"] in result.text
            raw, value = float(number["raw"]), float(number["value"])
            assert abs(raw - value) <= 0.5e-4 * abs(raw) * 1.01
    again = evals.generate(system, params, PROMPTS[:1], max_tokens=8)
    # The same but for a last digit: products of one row and of two are not summed in the same order.
    values = [[float(number["value"]) for number in result.numbers] for result in (again[0], found[0])]
    np.testing.assert_allclose(*values, rtol=2e-4)
    assert again[0].log_prob == pytest.approx(found[0].log_prob, rel=1e-4)


def test_each_number_comes_with_its_own_interval_sampled_or_in_beams():
    """The printed density is as wide everywhere: an interval that is another number's has another centre."""
    scheme, model, params, tables = parts("replace")
    known = dict(head="next", max_tokens=MOST, num_id=scheme.vocab.mark("[NUM]"))
    tokens = evals.prompt_tokens([row(scheme, p) for p in PROMPTS], 48, 20)
    ends = jnp.full((len(PROMPTS), 1), scheme.vocab.mark("[EOS]"), jnp.int32)
    beams = beam.search(model, params, tables, tokens, jnp.full(len(PROMPTS), MOST), ends, width=3, **known)
    width = 2 * 1.6449 * np.sqrt(0.5)
    for done in (run("replace", PROMPTS), run("replace", PROMPTS, temperature=1.0), jax.device_get(beams)):
        found = done.estimates
        at = done.numerals.valid & (found.exponent >= -8)  # others are zeros
        assert len(np.unique(found.mantissa[at])) > 3
        power = np.power(10.0, found.exponent[at])
        low, high = (np.asarray(end.value, np.float64)[at] / power for end in (found.low, found.high))
        np.testing.assert_allclose((low + high) / 2, found.mantissa[at], atol=2e-4)
        np.testing.assert_allclose(high - low, width, rtol=3e-4)
        np.testing.assert_allclose(done.numerals.value[at] / power, found.mantissa[at], rtol=1e-4, atol=1e-8)
    assert run("subword", PROMPTS).estimates is None


def test_approximate_numbers_say_so_and_exact_ones_do_not():
    system, params = _system("replace")
    numbers = [n for r in evals.generate(system, params, PROMPTS, max_tokens=8) for n in r.numbers]
    assert numbers
    for number in numbers:
        assert number.keys() == {"value", "raw", "approximate", "interval"} and number["approximate"] is True
        low, high = float(number["interval"]["low"]), float(number["interval"]["high"])
        assert number["interval"]["share"] == 0.9 and low <= float(number["value"]) <= high and low < high
        if float(number["raw"]):
            # 10^exponent is the only power of ten by which the density's width becomes the interval's.
            power = np.log10((high - low) / (2 * 1.6449 * np.sqrt(0.5)))
            assert abs(power - round(power)) < 1e-3
    system, params = _system("subword")
    found = evals.generate(system, params, ["7 7 7"] * 8, max_tokens=8, temperature=3.0)
    assert all(number.keys() == {"value", "raw"} for r in found for number in r.numbers)


def test_requests_that_cannot_be_met_say_so():
    system, params = _system("replace")
    with pytest.raises(UsageError, match=r"^the prompt 'word word.*do not fit the context of 64"):
        evals.generate(system, params, ["7", "word " * 200])
    with pytest.raises(UsageError, match="max_tokens"):
        evals.generate(system, params, ["7"], max_tokens=0)
    with pytest.raises(UsageError, match="top_p"):
        evals.generate(system, params, ["7"], top_p=0.0)
