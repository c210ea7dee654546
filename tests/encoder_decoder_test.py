"""The encoder–decoder: what it reads, what it writes, and the stream of sources that leads to it.

Its numbers are held against `transformers` in `pretrained_test.py`.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import FrozenDict

from numjax.build import build
from numjax.decode import beam, sample
from numjax.errors import DataError, UsageError
from numjax.model import Model
from numjax.numeral.exact import to_decimals
from numjax.pipeline import packing
from numjax.pipeline.loader import Loader
from numjax.positions import relative
from numjax.text.grammar import tables
from numjax.text.grammar.tables import Edge
from numjax.types import Batch, Example, Mark, Numeral, Tokens
from tests import drawn
from tests.encoded import Labelled, encode, make_config, make_records, make_scheme, same

T5 = dict(scaled=False, encoder_layers=1)
BART = dict(norm="layer", norm_place="post", embed_norm=True, biases=True, mlp="gelu", gated=False)
FORMS = {"t5": T5, "bart": BART}
POSITIONS = {
    "t5": {"sequence": {"name": "relative", "buckets": 8, "furthest": 16}},
    "bart": {"sequence": {"name": "learned", "offset": 2}},
}


def stack(form: str, **more):
    known = drawn.DECODER | FORMS[form] | {"name": "encoder_decoder", "max_length": 40}
    return drawn.stack(known | more, POSITIONS[form])


def model_of(form: str, numerals: bool = True, **more) -> Model:
    embeds, fusions = {"token": build("embed", {"name": "token"}, dim=16, **drawn.KNOWN)}, {}
    if numerals:
        embeds["numeral"] = build("embed", {"name": "prototype", "exponent_dim": 4, "dim": 12})
        fusions["numeral"] = "concat+linear"
    heads = {"next": build("heads", {"name": "token", "bias": True}, **drawn.KNOWN)}
    return Model(FrozenDict(embeds), FrozenDict(fusions), stack(form, **more), FrozenDict(heads))


def sources(rng, lengths=(9, 4, 1), room=10) -> Tokens:
    return drawn.tokens(rng, length=room, lengths=[[n] for n in lengths])[0]


@functools.cache
def drawn_model(form: str, numerals: bool = True):
    rng = np.random.default_rng(5)
    # What is cached is by layer: two where it is decoded.
    model = model_of(form, numerals, layers=1 if numerals else 2)
    found = drawn.batch(rng, lengths=[[6], [3], [8]], length=8)._replace(source=sources(rng))
    return model, drawn.draw(model, rng, found), found


@functools.partial(jax.jit, static_argnums=0)
def hidden(model, params, found):
    return model.apply({"params": params}, found)[0]["next"].hidden


@pytest.mark.parametrize("form", FORMS)
def test_the_padding_of_a_source_changes_nothing(form, rng):
    """Neither what lies in it nor how much of it there is: the bucket that a row falls into is free."""
    model, params, found = drawn_model(form)
    read = found.source
    blank = np.asarray(read.segment_ids) == 0
    noise = np.where(blank, rng.integers(0, drawn.NUM, read.ids.shape), read.ids).astype(np.int32)
    plain = hidden(model, params, found)
    np.testing.assert_array_equal(hidden(model, params, found._replace(source=read._replace(ids=noise))), plain)
    fill = {"numeral_index": -1}
    wide = read._replace(**{
        name: np.pad(getattr(read, name), ((0, 0), (0, 6)), constant_values=fill.get(name, 0))
        for name in ("ids", "positions", "segment_ids", "numeral_index")
    })  # fmt: skip
    seen = np.asarray(found.inputs.segment_ids) > 0
    np.testing.assert_allclose(hidden(model, params, found._replace(source=wide))[seen], plain[seen], atol=1e-5)
    eager = model.apply({"params": params}, found)[0]["next"].hidden
    np.testing.assert_allclose(eager[seen], plain[seen], atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_a_position_sees_the_whole_source_and_its_own_past(form, rng):
    found, net = drawn_model(form)[2], stack(form, layers=1)
    weights = rng.standard_normal(16).astype(np.float32)
    x, read = (rng.standard_normal((3, n, 16)).astype(np.float32) for n in (8, 10))

    params = drawn.draw(net, rng, x, found.inputs, source=(read, found.source))

    def total(x, read, at):
        h = net.apply({"params": params}, x, found.inputs, source=(read, found.source))[0]
        return (h[:, at] @ weights).sum()  # rows are independent: the conformance tests say so

    gradients = jax.jit(jax.vmap(jax.grad(total, (0, 1)), (None, None, 0), 1))(x, read, np.arange(8))
    of_text, of_source = ((np.asarray(g) != 0).any(-1) for g in gradients)
    np.testing.assert_array_equal(of_text, np.broadcast_to(np.tri(8, dtype=bool), of_text.shape))
    valid = np.asarray(found.source.segment_ids > 0)
    np.testing.assert_array_equal(of_source, np.broadcast_to(valid[:, None], of_source.shape))


def test_t5_sees_distances_and_bart_places(rng):
    """Moved by a few positions, behind as many that are not seen, a source is the same to T5 and not to BART."""
    at = np.broadcast_to(np.arange(10, dtype=np.int32), (3, 10))
    for form in FORMS:
        model, params, found = drawn_model(form)
        x = rng.standard_normal((3, 10, 16)).astype(np.float32)
        moved = jax.tree.map(lambda a: np.roll(a, 1, axis=1), (x, found.source.segment_ids))

        def encode_(net, params, ids, x, segments):
            return net.apply({"params": params}, x, Tokens(ids, at, segments), method="encode")[0]

        read = jax.jit(functools.partial(encode_, model.backbone, params["backbone"], found.source.ids))

        valid = np.asarray(found.source.segment_ids) > 0
        before = read(x, found.source.segment_ids)[valid]
        after = np.roll(read(*moved), -1, axis=1)[valid]
        assert np.allclose(before, after, atol=1e-5) == (form == "t5")


def test_buckets_are_those_of_a_loop():
    def bucket(distance, two_sided, buckets=32, furthest=128):
        first = 0
        if two_sided:
            buckets //= 2
            first, distance = (buckets if distance > 0 else 0), abs(distance)
        else:
            distance = max(-distance, 0)
        exact = buckets // 2
        if distance < exact:
            return first + distance
        steps = int(np.log(distance / exact) / np.log(furthest / exact) * (buckets - exact) + 1e-6)
        return first + min(exact + steps, buckets - 1)

    distances = np.arange(-300, 301)
    for two_sided in (False, True):
        found = relative.relative_buckets(jnp.asarray(distances), two_sided)
        assert found.tolist() == [bucket(int(d), two_sided) for d in distances]


def test_remat_and_dropout(rng):
    """Recomputed layers are the same function; dropout is drawn from its key on both sides."""
    found = drawn_model("t5")[2]
    params = drawn_model("t5")[1]
    weights = rng.standard_normal((3, 8, 16)).astype(np.float32)

    def gradient(model, dropping):
        def loss(params, key):
            rngs = {"dropout": key} if dropping else {}
            outs, _ = model.apply({"params": params}, found, deterministic=not dropping, rngs=rngs)
            return (weights * outs["next"].hidden).sum()

        return jax.jit(jax.value_and_grad(loss))

    one, other = jax.random.split(jax.random.key(0))
    plain = gradient(model_of("t5", layers=1), False)(params, one)
    run = gradient(model_of("t5", layers=1, remat="dots", dropout=0.3), True)
    assert run(params, one)[0] != run(params, other)[0] and run(params, one)[0] == run(params, one)[0]
    again = gradient(model_of("t5", layers=1, remat="dots", dropout=0.3), False)(params, one)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-4, rtol=2e-4), plain, again)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (dict(heads=3), "width=16 does not divide over backbone.heads=3"),
        (dict(heads=4, kv_heads=3), "heads=4 does not divide over backbone.kv_heads=3"),
        (dict(norm="batch"), "backbone.norm must be one of layer, rms, not 'batch'"),
        (dict(norm_place="last"), "backbone.norm_place must be one of pre, post, sandwich, not 'last'"),
        (dict(parallel=True), "backbone.parallel needs"),
        (dict(scan=True), "backbone.scan works only in decoders and encoders"),
    ],
)
def test_options_that_do_not_go_together_say_so(options, says):
    found = drawn_model("t5")[2]
    with pytest.raises(UsageError, match=says):
        jax.eval_shape(model_of("t5", **options).init, jax.random.key(0), found)


def test_a_source_needs_an_encoder_and_an_encoder_a_source():
    model, params, found = drawn_model("t5")
    with pytest.raises(UsageError, match=r"the task must fill Example\.source"):
        jax.eval_shape(lambda: model.apply({"params": params}, found._replace(source=None)))
    plain = drawn.model()
    with pytest.raises(UsageError, match=r"set backbone\.name=encoder_decoder"):
        jax.eval_shape(plain.init, jax.random.key(0), found)


# ---------------------------------------------------------------------------------------------------
# Decoding: the programs of the language models, with a memory in their cache.

EOS, MOST = 5, 5


def grammar():
    """Anything but padding and [NUM], until EOS."""
    letters = [i for i in range(1, drawn.SIZE) if i not in (EOS, drawn.NUM)]
    return tables.build(drawn.VOCAB, [Edge("text", letters, "text"), Edge("text", [EOS], "end")], "text", ("end",))


def masses(model, params, source, row, ids):
    """log p[V] of what follows `ids`, one pass over everything, in float64 on the host."""
    room = 12
    tokens = Tokens(
        np.asarray([ids + [0] * (room - len(ids))], np.int32), np.arange(room, dtype=np.int32)[None],
        (np.arange(room) < len(ids))[None].astype(np.int32), numeral_index=np.full((1, room), -1, np.int32),
        numerals=jax.tree.map(lambda x: x[row : row + 1], source.numerals),
    )  # fmt: skip
    one = jax.tree.map(lambda x: x[row : row + 1], source)
    weights = jax.device_get(params)
    last = np.asarray(hidden(model, params, Batch(tokens, source=one))[0, len(ids) - 1], np.float64)
    logits = last @ weights["embeds_token"]["table"].T.astype(np.float64) + weights["heads_next"]["bias"]
    legal = [i for i in range(1, drawn.SIZE) if i != drawn.NUM]
    out = np.full(drawn.VOCAB, -np.inf)
    out[legal] = logits[legal] - np.log(np.exp(logits[legal] - logits[legal].max()).sum()) - logits[legal].max()
    return out


def slow_beam(model, params, source, row, prompt, width):
    """The best `width` (score, ids) after every step; ended texts compete on."""
    beams = [(0.0, [])]
    for step in range(MOST):
        more = []
        for score, ids in beams:
            if ids and ids[-1] == EOS:
                more.append((score, ids))
                continue
            log_p = masses(model, params, source, row, prompt + ids)
            # A budget keeps every text closable: its last token ends it.
            tokens = [EOS] if step == MOST - 1 else np.flatnonzero(np.isfinite(log_p))
            log_p = log_p - (log_p[EOS] if step == MOST - 1 else 0.0)
            more += [(score + log_p[t], [*ids, int(t)]) for t in tokens]
        beams = sorted(more, key=lambda one: -one[0])[:width]
    return beams


@pytest.mark.parametrize("form", FORMS)
def test_cached_greedy_and_beams_are_those_of_slow_loops(form, rng):
    """Ragged prompts and sources in one batch; beams of a row share its memory."""
    model, params, found = drawn_model(form, numerals=False)
    # Sharper, so that the beams' choices differ from row to row.
    params = jax.tree_util.tree_map_with_path(lambda p, x: x * (3 if p[-1].key == "table" else 1), params)
    tables_, prompts = jax.tree.map(jnp.asarray, grammar()), [[1], [2, 3], [4, 6, 7]]
    room = 4
    at = [slice(room - len(p), room) for p in prompts]
    ids, positions, segments = (np.zeros((3, room), np.int32) for _ in range(3))
    for b, prompt in enumerate(prompts):
        ids[b, at[b]], positions[b, at[b]], segments[b, at[b]] = prompt, np.arange(len(prompt)), 1
    none = np.full((3, room), -1, np.int32)
    tokens = Tokens(ids, positions, segments, numeral_index=none, numerals=found.source.numerals)
    budget = jnp.full(3, MOST, jnp.int32)
    request = sample.Request(
        tokens, budget, jax.random.key(0), jnp.float32(0), jnp.int32(0), jnp.float32(1), found.source
    )
    known = dict(head="next", max_tokens=MOST, num_id=-1)
    greedy = jax.device_get(sample.generate(model, params, tables_, request, end_id=EOS, greedy=True, **known))
    ends = jnp.full((3, 1), EOS, jnp.int32)
    beams = jax.device_get(
        beam.search(model, params, tables_, tokens, budget, ends, source=found.source, width=3, **known)
    )
    for b, prompt in enumerate(prompts):
        for got, width in ((greedy, 1), (beams, 3)):
            wanted = slow_beam(model, params, found.source, b, prompt, width)
            for w, (score, text) in enumerate(wanted):
                mine = (got.ids[b], got.length[b], got.log_prob[b]) if width == 1 else (
                    got.ids[b, w], got.length[b, w], got.log_prob[b, w])  # fmt: skip
                assert mine[0][: mine[1]].tolist() == text
                assert mine[2].sum() == pytest.approx(score, abs=1e-3)
    assert len({tuple(row) for row in greedy.ids.tolist()}) > 1, "the test wants rows that differ"


# ---------------------------------------------------------------------------------------------------
# The stream of sources.


class Sourced(Labelled):
    """What a record's text says is read, its label is written."""

    kind = "language_model"

    def example(self, record, parse):
        whole = super().example(record, parse)
        written = (Mark("[CLS]"), *parse(f" {record['label'] * 1234}"), Mark("[EOS]"))
        return Example(whole.id, written, whole.document[1:], loss_from=1, reference=whole.reference)


@pytest.mark.parametrize("name", ["subword", "replace"])
def test_sources_are_encoded_beside_their_texts(name, rng):
    """Position by position, each with its own table of numerals; every row once an epoch, in few shapes."""
    scheme, records = make_scheme(name), make_records(rng, 23, longest=14)
    config = make_config(source_length=48, length=16, buckets=3)
    encoded = encode(Sourced(), scheme, records, config)
    loader = Loader(encoded, config, seed=0, process=(0, 1))
    shapes, seen = loader.shapes(), []
    assert len(shapes) <= 3 and all(len(shape) == 3 for shape in shapes)
    assert loader.example_batch().source.ids.shape == (shapes[-1][0], shapes[-1][2])
    for index in range(loader.batches_of_epoch()):
        batch, examples, tokens = loader.batch(index)
        assert (*batch.inputs.ids.shape, batch.source.ids.shape[1]) in shapes
        assert examples == batch.valid.sum()
        assert tokens == (batch.inputs.segment_ids > 0).sum() + (batch.source.segment_ids > 0).sum()
        for b in np.flatnonzero(batch.valid):
            i = int(batch.example_id[b])
            seen.append(i)
            example = encoded.example(i)
            want = scheme.encode(example.source)
            read, count = jax.tree.map(lambda x, b=b: x[b], batch.source), len(want.ids)
            assert read.ids[:count].tolist() == want.ids.tolist() and (read.segment_ids > 0).sum() == count
            assert read.positions[:count].tolist() == list(range(count))
            values = to_decimals(Numeral(*read.numerals))
            got = [None if n < 0 else values[n] for n in read.numeral_index[:count]]
            assert got == [None if n < 0 else want.numbers[n].value for n in want.numeral_index]
            written = scheme.encode(example.document)
            assert batch.inputs.ids[b][: len(written.ids) - 1].tolist() == written.ids[:-1].tolist()
    assert sorted(seen) == list(range(len(encoded)))
    whole = [int(i) for part in loader.epoch(4) for i in part.example_id[part.valid]]
    assert sorted(whole) == list(range(len(encoded)))


def test_the_source_is_part_of_the_data(rng):
    scheme, records, config = make_scheme("replace"), make_records(rng, 8), make_config()
    found = encode(Sourced(), scheme, records, config)
    other = [record | {"text": record["text"] + " 7"} if i == 3 else record for i, record in enumerate(records)]
    assert encode(Sourced(), scheme, other, config).fingerprint != found.fingerprint
    half = found.subset([5, 2])
    assert half.rows[0].source.ids.tolist() == found.rows[5].source.ids.tolist()
    batches = [Loader(e, config, seed=0, process=(0, 1)) for e in (found, encode(Sourced(), scheme, records, config))]
    assert same(*(loader.batch(0)[0] for loader in batches))
    parts = [Loader(found, config, seed=0, process=(p, 2)).batch(1)[0].source.ids for p in (0, 1)]
    np.testing.assert_array_equal(np.concatenate(parts), batches[0].batch(1)[0].source.ids)
    plain = encode(Labelled(), scheme, records, config)
    assert plain.source is None and Loader(plain, config, seed=0, process=(0, 1)).batch(0)[0].source is None


def test_features_of_the_host_are_made_for_a_source_too(rng):
    def features(numerals, surfaces):
        return {"n/size": np.asarray([len(s) for s in surfaces], np.int32).reshape(numerals.valid.shape)}

    config = make_config(batch_size=8)
    encoded = encode(Sourced(), make_scheme("replace"), make_records(rng, 8), config)
    batch = Loader(encoded, config, seed=0, host_features=features, process=(0, 1)).batch(0)[0]
    for b in range(8):
        row = encoded.rows[int(batch.example_id[b])]
        for tokens, surfaces in ((batch.source, row.source.surfaces), (batch.inputs, row.surfaces)):
            assert tokens.features["n/size"][b].tolist()[: len(surfaces)] == [len(s) for s in surfaces]


def test_long_sources_are_skipped_or_cut_and_named(rng):
    scheme = make_scheme("subword")
    records = [{"id": "long", "text": "the eggs " * 5, "label": 1}, {"id": "short", "text": "eggs", "label": 0}]
    found = encode(Sourced(), scheme, records, make_config(source_length=12))
    assert len(found) == 1 and found.skipped[0]["id"] == "long"
    assert "positions of the source are more than data.source_length=12" in found.skipped[0]["reason"]
    cut = encode(Sourced(), scheme, records, make_config(source_length=12, overflow="truncate"))
    ids = cut.rows[0].source.ids
    assert len(cut) == 2 and len(ids) == 12 and ids[-1] == scheme.vocab.mark("[EOS]")
    with pytest.raises(UsageError, match=r"data\.overflow must be skip or truncate, not split"):
        encode(Sourced(), scheme, records, make_config(overflow="split"))
    with pytest.raises(UsageError, match=r"set data\.pack to False"):
        encode(Sourced(), scheme, records, make_config(pack=True))

    class Some(Sourced):
        def example(self, record, parse):
            found = super().example(record, parse)
            return found._replace(source=None if record["id"] == "short" else found.source)

    mixed = encode(Some(), scheme, records, make_config())
    assert [row["reason"] for row in mixed.skipped] == [
        "some records have a source for an encoder and others have none"
    ]
    with pytest.raises(DataError, match="record long of train: the source is empty"):

        class Empty(Sourced):
            def example(self, record, parse):
                return super().example(record, parse)._replace(source=())

        encode(Empty(), scheme, records, make_config(), strict=True)


def test_buckets_of_two_lengths_hold_every_row(rng):
    for _ in range(20):
        lengths, others = rng.integers(1, 30, 50), rng.integers(1, 90, 50)
        key, shapes = packing.pair_buckets(lengths, others, 4, 32, 90)
        assert len(shapes) <= 4 and all(t <= 32 and s <= 90 for t, s in shapes.values())
        plan = packing.plan_buckets(key, list(shapes), 8, 0, 0)
        for batch in range(len(plan.lengths)):
            members, _ = plan.rows(batch)
            room, other = shapes[int(plan.lengths[batch])]
            assert lengths[members].max() <= room and others[members].max() <= other
