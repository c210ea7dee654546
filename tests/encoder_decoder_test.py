"""The encoder–decoder: its attention, its decoding, and the stream of sources.

`pretrained_test.py` compares its numbers with those of `transformers`.
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
from tests.encoded import LabelledTextTask, are_equal, encode, make_config, make_records, make_scheme

T5 = dict(scaled=False, encoder_layers=1)
BART = dict(norm="layer", norm_place="post", embed_norm=True, biases=True, mlp="gelu", gated=False)
FORMS = {"t5": T5, "bart": BART}
POSITIONS = {
    "t5": {"sequence": {"name": "relative", "buckets": 8, "furthest": 16}},
    "bart": {"sequence": {"name": "learned", "offset": 2}},
}


def make_stack(form: str, **changes):
    options = drawn.DECODER | FORMS[form] | {"name": "encoder_decoder", "max_length": 40}
    return drawn.build_backbone(options | changes, POSITIONS[form])


def make_model(form: str, numerals: bool = True, **changes) -> Model:
    embeds, fusions = {"token": build("embed", {"name": "token"}, dim=16, **drawn.CONTEXT)}, {}
    if numerals:
        embeds["numeral"] = build("embed", {"name": "prototype", "exponent_dim": 4, "dim": 12})
        fusions["numeral"] = "concat+linear"
    heads = {"next": build("heads", {"name": "token", "bias": True}, **drawn.CONTEXT)}
    return Model(FrozenDict(embeds), FrozenDict(fusions), make_stack(form, **changes), FrozenDict(heads))


def draw_sources(rng, lengths=(9, 4, 1), room=10) -> Tokens:
    return drawn.draw_tokens(rng, length=room, lengths=[[n] for n in lengths])[0]


@functools.cache
def draw_model(form: str, numerals: bool = True):
    rng = np.random.default_rng(5)
    # The cache is by layer, so the model that decodes has two.
    model = make_model(form, numerals, layers=1 if numerals else 2)
    batch = drawn.draw_batch(rng, lengths=[[6], [3], [8]], length=8)._replace(source=draw_sources(rng))
    return model, drawn.draw_params(model, rng, batch), batch


@functools.partial(jax.jit, static_argnums=0)
def compute_hidden(model, params, batch):
    return model.apply({"params": params}, batch)[0]["next"].hidden


@pytest.mark.parametrize("form", FORMS)
def test_the_padding_of_a_source_changes_nothing(form, rng):
    """Neither its ids nor its length count, so a row may be in any bucket."""
    model, params, batch = draw_model(form)
    source = batch.source
    is_padding = np.asarray(source.segment_ids) == 0
    noise = np.where(is_padding, rng.integers(0, drawn.NUM, source.ids.shape), source.ids).astype(np.int32)
    plain = compute_hidden(model, params, batch)
    np.testing.assert_array_equal(
        compute_hidden(model, params, batch._replace(source=source._replace(ids=noise))), plain
    )
    fill = {"numeral_index": -1}
    wide = source._replace(**{
        name: np.pad(getattr(source, name), ((0, 0), (0, 6)), constant_values=fill.get(name, 0))
        for name in ("ids", "positions", "segment_ids", "numeral_index")
    })  # fmt: skip
    is_valid = np.asarray(batch.inputs.segment_ids) > 0
    np.testing.assert_allclose(
        compute_hidden(model, params, batch._replace(source=wide))[is_valid], plain[is_valid], atol=1e-5
    )
    eager = model.apply({"params": params}, batch)[0]["next"].hidden
    np.testing.assert_allclose(eager[is_valid], plain[is_valid], atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_a_position_sees_the_whole_source_and_its_own_past(form, rng):
    batch, net = draw_model(form)[2], make_stack(form, layers=1)
    weights = rng.standard_normal(16).astype(np.float32)
    x, source_x = (rng.standard_normal((3, n, 16)).astype(np.float32) for n in (8, 10))

    params = drawn.draw_params(net, rng, x, batch.inputs, source=(source_x, batch.source))

    def total(x, source_x, position):
        h = net.apply({"params": params}, x, batch.inputs, source=(source_x, batch.source))[0]
        return (h[:, position] @ weights).sum()  # rows are independent, as the conformance tests check

    gradients = jax.jit(jax.vmap(jax.grad(total, (0, 1)), (None, None, 0), 1))(x, source_x, np.arange(8))
    reaches_text, reaches_source = ((np.asarray(g) != 0).any(-1) for g in gradients)
    np.testing.assert_array_equal(reaches_text, np.broadcast_to(np.tri(8, dtype=bool), reaches_text.shape))
    valid = np.asarray(batch.source.segment_ids > 0)
    np.testing.assert_array_equal(reaches_source, np.broadcast_to(valid[:, None], reaches_source.shape))


def test_t5_depends_on_distances_and_bart_on_positions(rng):
    """Shifted by a masked position, a source gives the same states in T5 and others in BART."""
    positions = np.broadcast_to(np.arange(10, dtype=np.int32), (3, 10))
    for form in FORMS:
        model, params, batch = draw_model(form)
        x = rng.standard_normal((3, 10, 16)).astype(np.float32)
        shifted = jax.tree.map(lambda a: np.roll(a, 1, axis=1), (x, batch.source.segment_ids))

        def encode_source(net, params, ids, x, segments):
            return net.apply({"params": params}, x, Tokens(ids, positions, segments), method="encode")[0]

        run_encoder = jax.jit(functools.partial(encode_source, model.backbone, params["backbone"], batch.source.ids))

        valid = np.asarray(batch.source.segment_ids) > 0
        before = run_encoder(x, batch.source.segment_ids)[valid]
        after = np.roll(run_encoder(*shifted), -1, axis=1)[valid]
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
        bucket_ids = relative.relative_buckets(jnp.asarray(distances), two_sided)
        assert bucket_ids.tolist() == [bucket(int(d), two_sided) for d in distances]


def test_remat_changes_nothing_and_dropout_follows_its_key(rng):
    """Layers with remat are the same function; encoder and decoder draw dropout from its key."""
    batch = draw_model("t5")[2]
    params = draw_model("t5")[1]
    weights = rng.standard_normal((3, 8, 16)).astype(np.float32)

    def gradient(model, uses_dropout):
        def loss(params, key):
            rngs = {"dropout": key} if uses_dropout else {}
            outs, _ = model.apply({"params": params}, batch, deterministic=not uses_dropout, rngs=rngs)
            return (weights * outs["next"].hidden).sum()

        return jax.jit(jax.value_and_grad(loss))

    first_key, other_key = jax.random.split(jax.random.key(0))
    plain = gradient(make_model("t5", layers=1), False)(params, first_key)
    run = gradient(make_model("t5", layers=1, remat="dots", dropout=0.3), True)
    assert (
        run(params, first_key)[0] != run(params, other_key)[0]
        and run(params, first_key)[0] == run(params, first_key)[0]
    )
    recomputed = gradient(make_model("t5", layers=1, remat="dots", dropout=0.3), False)(params, first_key)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-4, rtol=2e-4), plain, recomputed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(heads=3), "width=16 does not divide over backbone.heads=3"),
        (dict(heads=4, kv_heads=3), "heads=4 does not divide over backbone.kv_heads=3"),
        (dict(norm="batch"), "backbone.norm must be one of layer, rms, not 'batch'"),
        (dict(norm_place="last"), "backbone.norm_place must be one of pre, post, sandwich, not 'last'"),
        (dict(parallel=True), "backbone.parallel needs"),
        (dict(scan=True), "backbone.scan works only in decoders and encoders"),
    ],
)
def test_options_that_conflict_are_refused(options, message):
    batch = draw_model("t5")[2]
    with pytest.raises(UsageError, match=message):
        jax.eval_shape(make_model("t5", **options).init, jax.random.key(0), batch)


def test_a_source_needs_an_encoder_and_an_encoder_a_source():
    model, params, batch = draw_model("t5")
    with pytest.raises(UsageError, match=r"the task must fill Example\.source"):
        jax.eval_shape(lambda: model.apply({"params": params}, batch._replace(source=None)))
    plain = drawn.build_model()
    with pytest.raises(UsageError, match=r"set backbone\.name=encoder_decoder"):
        jax.eval_shape(plain.init, jax.random.key(0), batch)


# ---------------------------------------------------------------------------------------------------
# Decoding: the programs of the language models, with the encoder's memory in their cache.

EOS, MOST = 5, 5


def make_grammar():
    """Builds a grammar that allows all tokens but padding and [NUM], until EOS."""
    letters = [i for i in range(1, drawn.SIZE) if i not in (EOS, drawn.NUM)]
    return tables.build(drawn.VOCAB, [Edge("text", letters, "text"), Edge("text", [EOS], "end")], "text", ("end",))


def compute_masses(model, params, source, row, ids):
    """Computes log p [V] of the token after `ids`: one pass over the whole text, in float64 on the host."""
    room = 12
    tokens = Tokens(
        np.asarray([ids + [0] * (room - len(ids))], np.int32), np.arange(room, dtype=np.int32)[None],
        (np.arange(room) < len(ids))[None].astype(np.int32), numeral_index=np.full((1, room), -1, np.int32),
        numerals=jax.tree.map(lambda x: x[row : row + 1], source.numerals),
    )  # fmt: skip
    source_row = jax.tree.map(lambda x: x[row : row + 1], source)
    weights = jax.device_get(params)
    last = np.asarray(compute_hidden(model, params, Batch(tokens, source=source_row))[0, len(ids) - 1], np.float64)
    logits = last @ weights["embeds_token"]["table"].T.astype(np.float64) + weights["heads_next"]["bias"]
    legal = [i for i in range(1, drawn.SIZE) if i != drawn.NUM]
    out = np.full(drawn.VOCAB, -np.inf)
    out[legal] = logits[legal] - np.log(np.exp(logits[legal] - logits[legal].max()).sum()) - logits[legal].max()
    return out


def search_slowly(model, params, source, row, prompt, width):
    """Returns the best `width` of (score, ids) after the last step; finished texts still compete."""
    beams = [(0.0, [])]
    for step in range(MOST):
        candidates = []
        for score, ids in beams:
            if ids and ids[-1] == EOS:
                candidates.append((score, ids))
                continue
            log_p = compute_masses(model, params, source, row, prompt + ids)
            # The budget lets every text end: its last token is EOS.
            tokens = [EOS] if step == MOST - 1 else np.flatnonzero(np.isfinite(log_p))
            log_p = log_p - (log_p[EOS] if step == MOST - 1 else 0.0)
            candidates += [(score + log_p[t], [*ids, int(t)]) for t in tokens]
        beams = sorted(candidates, key=lambda candidate: -candidate[0])[:width]
    return beams


@pytest.mark.parametrize("form", FORMS)
def test_cached_greedy_and_beams_are_those_of_slow_loops(form, rng):
    """Ragged prompts and sources in one batch; beams of a row share its memory."""
    model, params, batch = draw_model(form, numerals=False)
    # Sharper, so that the beams' choices differ from row to row.
    params = jax.tree_util.tree_map_with_path(lambda p, x: x * (3 if p[-1].key == "table" else 1), params)
    tables_, prompts = jax.tree.map(jnp.asarray, make_grammar()), [[1], [2, 3], [4, 6, 7]]
    room = 4
    columns = [slice(room - len(p), room) for p in prompts]
    ids, positions, segments = (np.zeros((3, room), np.int32) for _ in range(3))
    for b, prompt in enumerate(prompts):
        ids[b, columns[b]], positions[b, columns[b]], segments[b, columns[b]] = prompt, np.arange(len(prompt)), 1
    no_numbers = np.full((3, room), -1, np.int32)
    tokens = Tokens(ids, positions, segments, numeral_index=no_numbers, numerals=batch.source.numerals)
    budget = jnp.full(3, MOST, jnp.int32)
    request = sample.Request(
        tokens,
        budget,
        jax.random.split(jax.random.key(0), 3),
        jnp.float32(0),
        jnp.int32(0),
        jnp.float32(1),
        batch.source,
    )
    settings = dict(head="next", max_tokens=MOST, num_id=-1)
    greedy = jax.device_get(sample.generate(model, params, tables_, request, end_id=EOS, greedy=True, **settings))
    ends = jnp.full((3, 1), EOS, jnp.int32)
    beams = jax.device_get(
        beam.search(model, params, tables_, tokens, budget, ends, source=batch.source, width=3, **settings)
    )
    for b, prompt in enumerate(prompts):
        for result, width in ((greedy, 1), (beams, 3)):
            expected = search_slowly(model, params, batch.source, b, prompt, width)
            for w, (score, text) in enumerate(expected):
                candidate = (result.ids[b], result.length[b], result.log_prob[b]) if width == 1 else (
                    result.ids[b, w], result.length[b, w], result.log_prob[b, w])  # fmt: skip
                assert candidate[0][: candidate[1]].tolist() == text
                assert candidate[2].sum() == pytest.approx(score, abs=1e-3)
    assert len({tuple(row) for row in greedy.ids.tolist()}) > 1, "the test needs rows that differ"


# ---------------------------------------------------------------------------------------------------
# The stream of sources.


class SourceTask(LabelledTextTask):
    """A task with a record's text as source and its label as target."""

    kind = "language_model"

    def example(self, record, parse):
        labelled = super().example(record, parse)
        target = (Mark("[CLS]"), *parse(f" {record['label'] * 1234}"), Mark("[EOS]"))
        return Example(labelled.id, target, labelled.document[1:], loss_from=1, reference=labelled.reference)


@pytest.mark.parametrize("name", ["subword", "replace"])
def test_sources_are_encoded_with_their_texts(name, rng):
    """Position by position, each with its own table of numerals; every row once an epoch, in few shapes."""
    scheme, records = make_scheme(name), make_records(rng, 23, longest=14)
    config = make_config(source_length=48, length=16, buckets=3)
    encoded = encode(SourceTask(), scheme, records, config)
    loader = Loader(encoded, config, seed=0, process=(0, 1))
    shapes, example_ids = loader.shapes(), []
    assert len(shapes) <= 3 and all(len(shape) == 3 for shape in shapes)
    assert loader.example_batch().source.ids.shape == (shapes[-1][0], shapes[-1][2])
    for index in range(loader.batches_of_epoch()):
        batch, examples, tokens = loader.batch(index)
        assert (*batch.inputs.ids.shape, batch.source.ids.shape[1]) in shapes
        assert examples == batch.valid.sum()
        assert tokens == (batch.inputs.segment_ids > 0).sum() + (batch.source.segment_ids > 0).sum()
        for b in np.flatnonzero(batch.valid):
            i = int(batch.example_id[b])
            example_ids.append(i)
            example = encoded.example(i)
            source_features = scheme.encode(example.source)
            source_row, count = jax.tree.map(lambda x, b=b: x[b], batch.source), len(source_features.ids)
            assert (
                source_row.ids[:count].tolist() == source_features.ids.tolist()
                and (source_row.segment_ids > 0).sum() == count
            )
            assert source_row.positions[:count].tolist() == list(range(count))
            values = to_decimals(Numeral(*source_row.numerals))
            numbers = [None if n < 0 else values[n] for n in source_row.numeral_index[:count]]
            assert numbers == [
                None if n < 0 else source_features.numbers[n].value for n in source_features.numeral_index
            ]
            target_features = scheme.encode(example.document)
            assert batch.inputs.ids[b][: len(target_features.ids) - 1].tolist() == target_features.ids[:-1].tolist()
    assert sorted(example_ids) == list(range(len(encoded)))
    epoch_ids = [int(i) for part in loader.epoch(4) for i in part.example_id[part.valid]]
    assert sorted(epoch_ids) == list(range(len(encoded)))


def test_the_source_is_part_of_the_data(rng):
    scheme, records, config = make_scheme("replace"), make_records(rng, 8), make_config()
    encoded = encode(SourceTask(), scheme, records, config)
    other_records = [
        record | {"text": record["text"] + " 7"} if i == 3 else record for i, record in enumerate(records)
    ]
    assert encode(SourceTask(), scheme, other_records, config).fingerprint != encoded.fingerprint
    half = encoded.subset([5, 2])
    assert half.rows[0].source.ids.tolist() == encoded.rows[5].source.ids.tolist()
    batches = [
        Loader(e, config, seed=0, process=(0, 1)) for e in (encoded, encode(SourceTask(), scheme, records, config))
    ]
    assert are_equal(*(loader.batch(0)[0] for loader in batches))
    parts = [Loader(encoded, config, seed=0, process=(p, 2)).batch(1)[0].source.ids for p in (0, 1)]
    np.testing.assert_array_equal(np.concatenate(parts), batches[0].batch(1)[0].source.ids)
    plain = encode(LabelledTextTask(), scheme, records, config)
    assert plain.source is None and Loader(plain, config, seed=0, process=(0, 1)).batch(0)[0].source is None


def test_host_features_are_computed_for_a_source_too(rng):
    def compute_features(numerals, surfaces):
        return {"n/size": np.asarray([len(s) for s in surfaces], np.int32).reshape(numerals.valid.shape)}

    config = make_config(batch_size=8)
    encoded = encode(SourceTask(), make_scheme("replace"), make_records(rng, 8), config)
    batch = Loader(encoded, config, seed=0, host_features=compute_features, process=(0, 1)).batch(0)[0]
    for b in range(8):
        row = encoded.rows[int(batch.example_id[b])]
        for tokens, surfaces in ((batch.source, row.source.surfaces), (batch.inputs, row.surfaces)):
            assert tokens.features["n/size"][b].tolist()[: len(surfaces)] == [len(s) for s in surfaces]


def test_long_sources_are_skipped_or_cut_and_named(rng):
    scheme = make_scheme("subword")
    records = [{"id": "long", "text": "the eggs " * 5, "label": 1}, {"id": "short", "text": "eggs", "label": 0}]
    encoded = encode(SourceTask(), scheme, records, make_config(source_length=12))
    assert len(encoded) == 1 and encoded.skipped[0]["id"] == "long"
    assert "positions of the source are more than data.source_length=12" in encoded.skipped[0]["reason"]
    cut = encode(SourceTask(), scheme, records, make_config(source_length=12, overflow="truncate"))
    ids = cut.rows[0].source.ids
    assert len(cut) == 2 and len(ids) == 12 and ids[-1] == scheme.vocab.mark("[EOS]")
    with pytest.raises(UsageError, match=r"data\.overflow must be skip or truncate, not split"):
        encode(SourceTask(), scheme, records, make_config(overflow="split"))
    with pytest.raises(UsageError, match=r"set data\.pack to False"):
        encode(SourceTask(), scheme, records, make_config(pack=True))

    class MixedSourceTask(SourceTask):
        def example(self, record, parse):
            example = super().example(record, parse)
            return example._replace(source=None if record["id"] == "short" else example.source)

    mixed = encode(MixedSourceTask(), scheme, records, make_config())
    assert [row["reason"] for row in mixed.skipped] == [
        "some records have a source for an encoder and others have none"
    ]
    with pytest.raises(DataError, match="record long of train: the source is empty"):

        class EmptySourceTask(SourceTask):
            def example(self, record, parse):
                return super().example(record, parse)._replace(source=())

        encode(EmptySourceTask(), scheme, records, make_config(), strict=True)


def test_buckets_of_two_lengths_hold_every_row(rng):
    for _ in range(20):
        lengths, source_lengths = rng.integers(1, 30, 50), rng.integers(1, 90, 50)
        key, shapes = packing.pair_buckets(lengths, source_lengths, 4, 32, 90)
        assert len(shapes) <= 4 and all(t <= 32 and s <= 90 for t, s in shapes.values())
        plan = packing.plan_buckets(key, list(shapes), 8, 0, 0)
        for batch in range(len(plan.lengths)):
            members, _ = plan.rows(batch)
            room, source_room = shapes[int(plan.lengths[batch])]
            assert lengths[members].max() <= room and source_lengths[members].max() <= source_room
