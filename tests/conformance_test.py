"""Rules that every part must follow, tested for each file of its kind; a new file is included by itself.

Embeddings, backbones, heads, objectives, schemes and tasks of `numjax.build.names` are built with their
defaults and the context that a model gives its parts (widths, vocabulary), so a part must work without options.
"""

from __future__ import annotations

import functools
import inspect
import os
import pickle
from decimal import Decimal
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build, find, names
from numjax.build import options as list_options
from numjax.errors import DataError, UsageError
from numjax.model import Model
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.pipeline import source
from numjax.text import document as documents
from numjax.text import vocab as vocabularies
from numjax.text.grammar import automaton as grammars
from numjax.types import Batch, Formula, HeadOut, Mark, Number, Tokens
from tests import drawn

# Numbers at which embeddings fail easily: zero, both signs, far outside every range, more digits than are kept.
HARD = [
    Decimal(text) for text in ("0", "-0", "1", "-1", "1e30", "-1e30", "1e-30", "-1e-30", "1e300", "9.99999999999")
]
DIM = 16


def _list_parameters(kind: str, name: str) -> set[str]:
    return set(inspect.signature(find(kind, name)).parameters)


def make_embed_block(name: str) -> dict[str, Any]:
    """Makes an embedding's block. Numeral embeddings take any `dim`, unless its default is 0, where they choose it;
    other embeddings get theirs from the context."""
    dim = list_options("embed", name).get("dim")
    return {"name": name} | ({"dim": DIM} if dim is not None and dim.default else {})


def assert_close(actual, expected, tolerance=1e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=tolerance, rtol=tolerance), actual, expected)


def is_finite(tree) -> bool:
    return all(bool(np.isfinite(np.asarray(x, np.float32)).all()) for x in jax.tree.leaves(tree))


def add_tree_positions(tokens: Tokens, rng) -> Tokens:
    """Adds child indices of three levels to the tokens, −1 below a node and in text."""
    positions = rng.integers(-1, 3, (*tokens.ids.shape, 3)).astype(np.int32)
    return tokens._replace(
        channels={"tree_positions": positions, "types": rng.integers(0, 3, tokens.ids.shape).astype(np.int32)}
    )


class Embedding:
    """An embedding of any kind as one call: apply(params, rows) → x; rows have a leading axis."""

    def __init__(self, name: str, rng):
        context = (
            {} if find("embed", name).kind == "numeral" else {"dim": DIM}
        )  # a numeral's vector has a width of its own
        self.module = build("embed", make_embed_block(name), **context, **drawn.CONTEXT)
        self.kind = self.module.kind
        tokens, values = drawn.draw_tokens(rng, 2, drawn.DECODER["max_length"], slots=len(HARD) + 4)
        if self.kind == "numeral":
            # The last slot is empty, and so is one between the numbers.
            values = [[*row[:2], None, *HARD, None] for row in values]
            self.rows = drawn.make_numeral_table(values)
            self.shape = self.rows.valid.shape
            self.is_used = self.rows.valid
        else:
            ids = np.resize(rng.permutation(drawn.SIZE), tokens.ids.shape).astype(np.int32)  # all of them
            rows = add_tree_positions(tokens._replace(ids=ids), rng)
            produced = {p.channel.name: np.stack([p.compute(row) for row in ids]) for p in self.module.producers()}
            self.rows = rows._replace(channels={**rows.channels, **produced})
            self.shape = tokens.ids.shape
            self.is_used = tokens.segment_ids > 0
        # An embedding that reads surfaces is compared with its own spelling of the digits.
        uses_surfaces = self.module.reads_surfaces
        self.surfaces = [None if uses_surfaces else ["" if v is None else str(v) for v in row] for row in values]
        self.params = drawn.draw_params(self.module, rng, self.rows, {}) if self.is_numeral else self._draw(rng)

    @property
    def is_numeral(self) -> bool:
        return self.kind == "numeral"

    def _draw(self, rng):
        return drawn.draw_params(self.module, rng, self.rows)

    def __call__(self, params, rows, features=None):
        extra = ({} if features is None else features,) if self.is_numeral else ()
        return self.module.apply({"params": params}, rows, *extra)

    def host_features(self):
        """Computes the features that the pipeline sends, each [B, N, …]."""
        rows = [jax.tree.map(lambda x, b=b: np.asarray(x)[b], self.rows) for b in range(self.shape[0])]
        features = [self.module.host_features(r, s) for r, s in zip(rows, self.surfaces, strict=True)]
        return {key: np.stack([f[key] for f in features]) for key in features[0]}


@pytest.mark.parametrize("name", names("embed"))
def test_embedding(name, rng):
    embedding = Embedding(name, rng)
    assert embedding.kind in ("numeral", "token", "type"), "an embedding names the kind of its input"
    params, rows, is_used = embedding.params, embedding.rows, embedding.is_used
    size = (
        DIM
        if make_embed_block(name).keys() > {"name"} or embedding.kind != "numeral"
        else embedding(params, rows).shape[-1]
    )
    weights = rng.standard_normal((*embedding.shape, size)).astype(np.float32)

    def loss(params, is_scored):
        x = embedding(params, rows)
        return jnp.where(is_scored[..., None], weights * x, 0).sum(), x

    value_and_grad = jax.jit(jax.value_and_grad(loss, has_aux=True))
    (_, x), grads = value_and_grad(params, is_used)
    assert x.shape == (*embedding.shape, size) and x.dtype == jnp.float32
    assert is_finite(x), "also at 0, ±1e±30 and in empty slots"
    assert is_finite(grads)
    assert all(np.any(g) for g in jax.tree.leaves(grads)), "a parameter that nothing reaches"
    _, masked = value_and_grad(params, ~is_used)
    assert is_finite(masked), "gradients at empty slots"
    assert_close(embedding(params, rows), x)  # eager
    row_vectors = [
        embedding(params, jax.tree.map(lambda a, b=b: a[b : b + 1], rows))[0] for b in range(embedding.shape[0])
    ]
    assert_close(
        jax.vmap(lambda r: embedding(params, jax.tree.map(lambda a: a[None], r))[0])(rows), np.stack(row_vectors)
    )
    assert_close(x, np.stack(row_vectors))
    assert np.unique(np.asarray(x)[is_used].round(5), axis=0).shape[0] > 1, "every input gives the same vector"


@pytest.mark.parametrize("name", names("embed"))
def test_embedding_from_host_features(name, rng):
    embedding = Embedding(name, rng)
    if not embedding.module.provides("host_features"):
        pytest.skip("computes everything on the device")
    features = embedding.host_features()
    for key, value in features.items():
        assert isinstance(value, np.ndarray) and value.shape[:2] == embedding.shape, key
        assert value.dtype in (np.float32, np.int32, np.int8, np.bool_), "the types in which features are sent"
        assert is_finite(value), key
    host_vectors = jax.jit(embedding)(embedding.params, embedding.rows, features)
    device_vectors = jax.jit(embedding)(embedding.params, embedding.rows)
    assert_close(np.asarray(host_vectors)[embedding.is_used], np.asarray(device_vectors)[embedding.is_used], 1e-4)
    empty = jax.tree.map(lambda x: x[:0], to_numeral([Decimal(1)], drawn.DIGITS))
    assert all(value.shape[0] == 0 for value in embedding.module.host_features(empty, []).values())


@pytest.mark.parametrize("name", names("embed"))
def test_embedding_in_a_bfloat16_model_is_float32(name, rng):
    kind = find("embed", name).kind
    embeds = {"token": build("embed", {"name": "token"}, dim=16, **drawn.CONTEXT)}
    fusions = {}
    if kind == "numeral":
        embeds["new"] = build("embed", make_embed_block(name), **drawn.CONTEXT)
        fusions = {"new": "concat+linear"}
    elif kind == "token":
        embeds = {"token": build("embed", {"name": name}, **(drawn.CONTEXT | {"dim": 16}))}
    else:
        pytest.skip("joined by its own task's tests")
    inputs, _ = drawn.draw_tokens(rng, 2, 12)
    heads = {"next": build("heads", {"name": "token", "tied": False}, **drawn.CONTEXT)}
    acts = {}
    for dtype in ("float32", "bfloat16"):
        model = Model(embeds, fusions, drawn.build_backbone(drawn.DECODER | {"dtype": dtype, "layers": 1}), heads)
        params = drawn.draw_params(model, np.random.default_rng(1), Batch(inputs))
        assert {x.dtype for x in jax.tree.leaves(params)} == {np.dtype("float32")}
        acts[dtype] = jax.jit(lambda p, m=model: m.apply({"params": p}, Batch(inputs))[1])(params)
    np.testing.assert_array_equal(acts["bfloat16"]["tokens"], acts["float32"]["tokens"])
    assert acts["bfloat16"]["final"].dtype == jnp.bfloat16
    assert is_finite(acts["bfloat16"])


# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names("backbone"))
def test_backbone(name, rng):
    options = {k: v for k, v in drawn.DECODER.items() if k != "name" and k in _list_parameters("backbone", name)}
    stack = drawn.build_backbone({"name": name} | options)
    tokens, _ = drawn.draw_tokens(rng, 3, 12)
    x = rng.standard_normal((3, 12, stack.width)).astype(np.float32)
    more = {}
    if stack.encodes:
        source_tokens, _ = drawn.draw_tokens(rng, 3, 8)
        more["source"] = (rng.standard_normal((3, 8, stack.width)).astype(np.float32), source_tokens)
    params = drawn.draw_params(stack, rng, x, tokens, **more)
    weights = rng.standard_normal(x.shape).astype(np.float32)

    def loss(params, x):
        h, acts, cache = stack.apply({"params": params}, x, tokens, **more)
        return (weights * h).sum(), (h, acts, cache)

    (_, (h, acts, cache)), grads = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))(params, x)
    assert h.shape == x.shape and cache is None and acts, (
        "hidden states, every layer by name, no cache unless asked for"
    )
    assert is_finite((h, acts, grads))
    assert all(np.any(g) for g in jax.tree.leaves(grads))
    run_row = jax.jit(lambda x, t, more: stack.apply({"params": params}, x, t, **more)[0])
    row_states = [run_row(*jax.tree.map(lambda a, b=b: a[b : b + 1], (x, tokens, more)))[0] for b in range(3)]
    assert_close(h, np.stack(row_states), 1e-4)
    low_stack = drawn.build_backbone({"name": name, "dtype": "bfloat16"} | options)
    low_hidden, _, _ = jax.jit(lambda x: low_stack.apply({"params": params}, x, tokens, **more))(x)
    assert low_hidden.dtype == jnp.bfloat16 and is_finite(low_hidden)
    is_valid = np.asarray(tokens.segment_ids > 0)
    assert np.abs(np.asarray(low_hidden, np.float32) - h)[is_valid].mean() < 0.1


@pytest.mark.parametrize("name", [n for n in names("backbone") if find("backbone", n).remat is not None])
def test_a_backbone_refuses_an_unknown_remat(name, rng):
    options = {k: v for k, v in drawn.DECODER.items() if k != "name" and k in _list_parameters("backbone", name)}
    stack = drawn.build_backbone({"name": name, "remat": "some"} | options)
    x, (tokens, _) = np.zeros((3, 12, 16), np.float32), drawn.draw_tokens(rng, 3, 12)
    more = {"source": (x, tokens)} if stack.encodes else {}
    with pytest.raises(UsageError, match=r"^backbone\.remat must be one of none, full, dots, not 'some'"):
        stack.init(jax.random.key(0), x, tokens, **more)


def find_label(head: str) -> str | None:
    """Names the label that a head predicts for a row: a class, a span, or None for its positions."""
    cls = find("heads", head)
    return "label" if cls.provides("log_probs") else "span" if cls.provides("best") else None


def has_unit_labels(head: str) -> bool:
    """Whether a head has several labels, those of units."""
    return bool(find("heads", head).labels)


def make_head_case(name, rng):
    head = build("heads", {"name": name}, **drawn.CONTEXT)
    batch = drawn.draw_batch(rng)
    batch = drawn.add_units(batch, rng) if has_unit_labels(name) else batch
    hidden = rng.standard_normal((*batch.inputs.ids.shape, drawn.CONTEXT["width"])).astype(np.float32)
    table = rng.standard_normal((drawn.VOCAB, drawn.CONTEXT["width"])).astype(np.float32)
    params = drawn.draw_params(head, rng, hidden, batch.inputs, table)
    label = find_label(name)
    targets = batch.labels[label] if label else drawn.add_numerals(batch)
    targets = batch.labels if has_unit_labels(name) else targets
    return head, params, batch, hidden, table, targets, label is not None


@pytest.mark.parametrize("name", names("heads"))
def test_head(name, rng):
    head, params, batch, hidden, table, targets, classifies = make_head_case(name, rng)

    def compute_parts(params, hidden, inputs, targets):
        out = head.apply({"params": params}, hidden, inputs, table)
        assert isinstance(out, HeadOut)
        return head.log_prob(out, targets)

    shape = (3,) if classifies else batch.inputs.ids.shape
    is_scored = np.ones(3, bool) if classifies else batch.targets.mask
    weights = np.where(is_scored, rng.random(shape), 0).astype(np.float32)

    def loss(params, hidden, weights):
        parts = compute_parts(params, hidden, batch.inputs, targets)
        return sum((weights * part).sum() for part in parts.values()), parts

    differentiate = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))
    (_, parts), grads = differentiate(params, hidden, weights)
    for part, value in parts.items():
        assert value.shape == shape and value.dtype == jnp.float32, part
        assert is_finite(np.asarray(value)[is_scored]), part
    if head.provides("project"):  # `trained_by` an objective
        extra = jax.grad(
            lambda params: head.project(head.apply({"params": params}, hidden, batch.inputs, table)).sum()
        )
        grads = jax.tree.map(np.add, grads[0], extra(params)), grads[1]
    assert is_finite(grads) and all(np.any(g) for g in jax.tree.leaves(grads))
    gradient = np.asarray(grads[1])
    np.testing.assert_array_equal(gradient[~is_scored], 0, err_msg="a position without a weight has a gradient")
    assert set(head.densities) <= set(parts), "densities are parts"
    assert_close(compute_parts(params, hidden, batch.inputs, targets), parts, 1e-4)  # eager
    run = jax.jit(compute_parts)
    for b in range(3):
        row = functools.partial(jax.tree.map, lambda a, b=b: a[b : b + 1])
        assert_close(run(params, row(hidden), row(batch.inputs), row(targets)), row(parts), 1e-4)
    low_parts = jax.jit(compute_parts)(params, jnp.asarray(hidden, jnp.bfloat16), batch.inputs, targets)
    assert {value.dtype for value in low_parts.values()} == {jnp.dtype("float32")}, "losses stay float32"
    if head.provides("total_log_prob"):

        def total(params, hidden, weights):
            totals = head.total_log_prob(
                head.apply({"params": params}, hidden, batch.inputs, table), targets, weights
            )
            return sum(totals.values()), totals

        differentiate_total = jax.jit(jax.value_and_grad(total, (0, 1), has_aux=True))
        is_number = (weights > 0) if classifies else (weights > 0) & (targets.numeral_index >= 0)
        few = weights * (is_number & (np.cumsum(is_number, axis=-1) == 1))  # one of each row
        for own in (weights, few):
            (value, totals), own_grads = differentiate_total(params, hidden, own)
            expected, expected_grads = differentiate(params, hidden, own)
            assert set(totals) == set(parts)
            for part, sum_of_part in totals.items():
                expected_part = (own * parts[part]).sum()
                np.testing.assert_allclose(sum_of_part, expected_part, rtol=1e-4, atol=1e-4, err_msg=part)
            np.testing.assert_allclose(value, expected[0], rtol=1e-4)
            jax.tree.map(
                lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), own_grads, expected_grads
            )


@pytest.mark.parametrize("name", [n for n in names("heads") if find("heads", n).provides("step_scores")])
def test_head_that_generates(name, rng):
    head, params, batch, hidden, table, _, _ = make_head_case(name, rng)
    out = head.apply({"params": params}, hidden, batch.inputs, table)
    out = HeadOut(out.hidden[:, -1], out.weights)
    allowed = (np.arange(drawn.VOCAB) < drawn.SIZE) & (rng.random((3, drawn.VOCAB)) < 0.5)
    allowed[:, 1] = True
    for mask in (None, allowed):
        mass, numeral, *_ = jax.jit(head.step_scores)(out, mask)
        assert mass.shape == (3, drawn.VOCAB) and mass.dtype == jnp.float32
        np.testing.assert_allclose(np.exp(mass).sum(-1), 1, atol=1e-5)
        is_forbidden = np.arange(drawn.VOCAB) >= drawn.SIZE if mask is None else ~mask
        np.testing.assert_array_equal(np.exp(mass)[np.broadcast_to(is_forbidden, mass.shape)], 0)
        if numeral is not None:
            assert numeral.exponent.shape == (3,) and is_finite(numeral.mantissa)
            canonical = to_numeral(to_decimals(numeral), numeral.digits.shape[-1])
            jax.tree.map(np.testing.assert_array_equal, numeral, canonical)  # the head's numerals are canonical
            assert [x.dtype for x in numeral] == [x.dtype for x in canonical]


def make_objective(name: str, head: str):
    parameters = _list_parameters("objectives", name)
    options = {key: value for key, value in {"head": "next", "label": find_label(head)}.items() if key in parameters}
    return build("objectives", {"name": name} | options, **drawn.CONTEXT)


@pytest.mark.parametrize("name", [n for n in names("heads") if find("heads", n).provides("token_logits")])
def test_logits_of_single_tokens_are_those_of_the_softmax(name, rng):
    """Their differences are those of the tokens' log masses, which also have mask and normalisation."""
    head, _, batch, hidden, table, targets, _ = make_head_case(name, rng)
    params = drawn.draw_params(head, rng, hidden, batch.inputs, table)
    out = head.apply({"params": params}, hidden, batch.inputs, table)
    ids = np.asarray([3, 11, 20], np.int32)
    logits = jax.jit(lambda: head.token_logits(out, ids))()
    masses = []
    for token in ids:
        target = targets._replace(ids=np.full_like(batch.inputs.ids, token), numeral_index=None, numerals=None)
        masses.append(head.log_prob(out, target)["token"])
    assert_close(np.diff(logits, axis=-1), np.diff(np.stack(masses, axis=-1), axis=-1), 1e-4)
    assert np.abs(np.diff(logits, axis=-1)).max() > 0.1


def list_methods(objective: Any) -> tuple[str, ...]:
    return objective.methods_of(vars(objective))


OBJECTIVES = [
    (o, h)
    for o in names("objectives")
    for h in names("heads")
    if all(map(find("heads", h).provides, ("log_prob", *list_methods(make_objective(o, h)))))
    # Only objectives for a head of units use its labels.
    if not has_unit_labels(h) or list_methods(make_objective(o, h))
]


def choose_marks(objective: str, head: str) -> tuple[pytest.MarkDecorator, ...]:
    """Marks a pair as slow and the like of others. Unmarked are `nll` with each head, and each other objective with
    two heads, `token` if it fits."""
    first = sorted((h for o, h in OBJECTIVES if o == objective), key=lambda h: h != "token")[:2]
    return () if objective == "nll" or head in first else (pytest.mark.whole,)


@pytest.mark.parametrize(("name", "head"), [pytest.param(*pair, marks=choose_marks(*pair)) for pair in OBJECTIVES])
def test_objective(name, head, rng):
    """Sums and counts over rows add up to those of the batch: exact under any sharding or accumulation."""
    objective = make_objective(name, head)
    model = drawn.build_model({"name": "prototype", "exponent_dim": 4}, {"name": head}, layers=1)
    batch = drawn.draw_batch(rng, lengths=[[5, 3], [9], [2, 2], [4]])
    batch = drawn.add_units(batch, rng) if has_unit_labels(head) else batch
    ids = np.array(batch.targets.ids)
    ids[tuple(np.argwhere(batch.targets.mask)[0])] = 3  # a digit, for losses on digits
    batch = batch._replace(targets=batch.targets._replace(ids=ids))
    params, other_params = drawn.draw_params(model, rng, batch), drawn.draw_params(model, rng, batch)

    def compute_loss(params, batch):
        outs, acts = model.apply({"params": params}, batch)
        extra = {"taught": model.apply({"params": other_params}, batch)[0]} if objective.reads_teacher else {}
        loss = objective(model.heads, outs, acts, batch, **extra)
        return loss.total, loss

    run = jax.jit(jax.value_and_grad(compute_loss, has_aux=True))
    (_, whole), grads = run(params, batch)
    assert whole.total.dtype == whole.count.dtype == jnp.float32 and whole.total.shape == ()
    assert is_finite((whole, grads)) and whole.count > 0

    def run_rows(rows):
        mask = batch.targets.mask & rows[:, None]
        return run(params, batch._replace(valid=rows, targets=batch.targets._replace(mask=mask)))

    (_, upper), upper_grads = run_rows(np.arange(4) < 2)
    (_, lower), lower_grads = run_rows(np.arange(4) >= 2)
    assert_close(jax.tree.map(jnp.add, upper, lower), whole, 1e-4)
    assert_close(jax.tree.map(np.add, upper_grads, lower_grads), grads, 1e-3)
    (_, empty), zero_grads = run_rows(np.zeros(4, bool))
    assert empty.total == 0 and empty.count == 0 and not any(np.any(g) for g in jax.tree.leaves(zero_grads))


# ---------------------------------------------------------------------------------------------------

CORPUS = ["How many grams are 2 eggs? About 1,200 to 1.5e3 grams, not 50%.", "It cost $12.50 in 2019, or -3.2%."] * 3


@pytest.fixture(scope="module")
def vocabulary():
    return vocabularies.build({"name": "sentencepiece", "size": 320}, CORPUS)


@pytest.mark.parametrize("name", names("text"))
def test_scheme(name, vocabulary, rng):
    if find("text", name).reads != "text":
        pytest.skip("reads no text: see its own tests")
    scheme = find("text", name)(vocabulary)
    assert scheme.vocab_size % 128 == 0 and scheme.vocab_size >= scheme.vocab.size
    assert set(type(scheme).marks) <= set(scheme.vocab.marks)
    numerals = [str(v) for v in drawn.draw_decimals(rng, 12, -3, 6)]
    texts = [*CORPUS[:2], "no number", "7", f"from {numerals[0]} to {numerals[1]}", " ".join(numerals)]
    for text in texts:
        parsed = scheme.parse(text)
        document = (Mark("[CLS]"), *parsed, Mark("[EOS]"))
        features = scheme.encode(document)
        assert scheme.decode(features.ids, features.numbers) == document
        assert pickle.loads(pickle.dumps(scheme)).decode(features.ids, features.numbers) == document
        assert features.ids.dtype == np.int32 and features.ids.max() < scheme.vocab.size
        assert features.numeral_index.shape == features.ids.shape
        assert features.numeral_index.max() < len(features.numbers)
        assert features.starts[-1] == len(features.ids) and len(features.starts) == len(document) + 1
        grammar = scheme.grammar()
        assert grammars.validate(grammar, features.ids) is None
        np.testing.assert_array_equal(grammars.run(grammar, features.ids).states, features.grammar_state)
        assert "".join(s.surface if isinstance(s, Number) else s.text for s in parsed) == text
    padding = range(scheme.vocab.size, scheme.vocab_size)
    assert all(grammars.validate(scheme.grammar(), [i]) is not None for i in padding)


@pytest.mark.parametrize("name", names("tasks"))
def test_task(name, tmp_path, vocabulary):
    """A record becomes an example that a scheme can encode and decode; true predictions get the best score."""
    cls = find("tasks", name)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("\n\n".join(CORPUS))
    options = {"size": 200, "path": str(tmp_path / "texts") if name == "language_model" else ""}
    parameters = _list_parameters("tasks", name)
    task = build("tasks", {"name": name} | {key: value for key, value in options.items() if key in parameters})
    kinds = ("language_model", "masked", "classify", "span", "units")
    assert task.kind in kinds and task.metric and isinstance(task.dataset, dict)
    assert set(cls.needs) <= {"heads", "objectives"}
    for kind, needed in task.needs.items():
        assert set(needed) <= set(names(kind)), "a task needs parts that exist"
    records = source.load(task.dataset, "train", os.environ.get("NUMJAX_CACHE", str(tmp_path / "data")))
    assert records is not None
    records = [records[i] for i in range(min(20, len(records)))]
    assert all(isinstance(text, str) for text in task.texts(records))
    scheme = find("text", "replace")(vocabulary)
    examples = [task.example(record, scheme.parse) for record in records]
    if any(isinstance(segment, Formula) for e in examples for segment in e.document):
        scheme = find("text", "trees")(vocabulary)
    assert len({e.id for e in examples}) == len(examples), "every example has an id of its own"
    for example in examples:
        features = scheme.encode(example.document)
        assert scheme.decode(features.ids, features.numbers) == documents.merge(example.document)
        assert 0 <= example.loss_from < len(example.document)
    if task.kind == "classify":
        truth = [e.labels["label"] for e in examples]
        scores = task.score(truth, [e.reference for e in examples])
        wrong = task.score([1 - min(t, 1) for t in truth], [e.reference for e in examples])
        # A task may select by the loss, but does not compute it.
        metric = "accuracy" if task.metric == "-loss" else task.metric
        assert scores[metric] > wrong[metric]
    if task.kind == "span":
        ((name, _),) = examples[0].spans.items()
        truth = [documents.surface(e.document)[slice(*e.spans[name])] for e in examples]
        references = [e.reference for e in examples]
        assert (
            task.score(truth, references)[task.metric] == 1 > task.score([""] * len(truth), references)[task.metric]
        )
        assert all(e.slide is not None for e in examples), "a long example may be split into windows"
    with pytest.raises(DataError):
        task.example({"id": "x"}, scheme.parse)  # a bad record gives one line, not a traceback
