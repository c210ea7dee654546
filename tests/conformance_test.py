"""What every part must keep, asked of each file of its kind: a new one is found here by itself.

Embeddings, backbones, heads, objectives, schemes and tasks of `numjax.build.names` are built with their
defaults and what a model tells its parts (widths, vocabulary), so a part must work without options.
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
from numjax.build import options as options_of
from numjax.errors import DataError, UsageError
from numjax.model import Model
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.pipeline import source
from numjax.text import document as documents
from numjax.text import vocab as vocabularies
from numjax.text.grammar import automaton as grammars
from numjax.types import Batch, Formula, HeadOut, Mark, Number, Tokens
from tests import drawn

# Numbers at which embeddings break: zero, both signs, far outside every range, more digits than are kept.
HARD = [
    Decimal(text) for text in ("0", "-0", "1", "-1", "1e30", "-1e30", "1e-30", "-1e-30", "1e300", "9.99999999999")
]
DIM = 16


def _parameters(kind: str, name: str) -> set[str]:
    return set(inspect.signature(find(kind, name)).parameters)


def embed_block(name: str) -> dict[str, Any]:
    """A numeral embedding has as many dimensions as one likes, unless it says 0: as many as it needs; others are
    told."""
    dim = options_of("embed", name).get("dim")
    return {"name": name} | ({"dim": DIM} if dim is not None and dim.default else {})


def close(found, want, tolerance=1e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=tolerance, rtol=tolerance), found, want)


def finite(tree) -> bool:
    return all(bool(np.isfinite(np.asarray(x, np.float32)).all()) for x in jax.tree.leaves(tree))


def tree_positions(tokens: Tokens, rng) -> Tokens:
    """With child indices of three levels, −1 below a node and in text."""
    places = rng.integers(-1, 3, (*tokens.ids.shape, 3)).astype(np.int32)
    return tokens._replace(
        channels={"tree_positions": places, "types": rng.integers(0, 3, tokens.ids.shape).astype(np.int32)}
    )


class Embedding:
    """An embedding of any kind behind one call: apply(params, rows) → x, rows having a leading axis."""

    def __init__(self, name: str, rng):
        told = (
            {} if find("embed", name).kind == "numeral" else {"dim": DIM}
        )  # a numeral's vector has a width of its own
        self.module = build("embed", embed_block(name), **told, **drawn.KNOWN)
        self.kind = self.module.kind
        tokens, values = drawn.tokens(rng, 2, drawn.DECODER["max_length"], slots=len(HARD) + 4)
        if self.kind == "numeral":
            # The last slot is empty, and so must be one amid the numbers.
            values = [[*row[:2], None, *HARD, None] for row in values]
            self.rows = drawn.numeral_table(values)
            self.shape = self.rows.valid.shape
            self.used = self.rows.valid
        else:
            self.rows = tree_positions(tokens, rng)
            self.shape = tokens.ids.shape
            self.used = tokens.segment_ids > 0
        # An embedding that reads what is written is compared with what it spells from the digits itself.
        spells = self.module.reads_surfaces
        self.surfaces = [None if spells else ["" if v is None else str(v) for v in row] for row in values]
        self.params = drawn.draw(self.module, rng, self.rows, {}) if self.numeral else self._draw(rng)

    @property
    def numeral(self) -> bool:
        return self.kind == "numeral"

    def _draw(self, rng):
        return drawn.draw(self.module, rng, self.rows)

    def __call__(self, params, rows, features=None):
        extra = ({} if features is None else features,) if self.numeral else ()
        return self.module.apply({"params": params}, rows, *extra)

    def host_features(self):
        """What the pipeline would ship, each [B, N, …]."""
        rows = [jax.tree.map(lambda x, b=b: np.asarray(x)[b], self.rows) for b in range(self.shape[0])]
        found = [self.module.host_features(r, s) for r, s in zip(rows, self.surfaces, strict=True)]
        return {key: np.stack([f[key] for f in found]) for key in found[0]}


@pytest.mark.parametrize("name", names("embed"))
def test_embedding(name, rng):
    embedding = Embedding(name, rng)
    assert embedding.kind in ("numeral", "token", "type"), "an embedding says what it reads"
    params, rows, used = embedding.params, embedding.rows, embedding.used
    size = (
        DIM
        if embed_block(name).keys() > {"name"} or embedding.kind != "numeral"
        else embedding(params, rows).shape[-1]
    )
    weights = rng.standard_normal((*embedding.shape, size)).astype(np.float32)

    def loss(params, scored):
        x = embedding(params, rows)
        return jnp.where(scored[..., None], weights * x, 0).sum(), x

    value_and_grad = jax.jit(jax.value_and_grad(loss, has_aux=True))
    (_, x), grads = value_and_grad(params, used)
    assert x.shape == (*embedding.shape, size) and x.dtype == jnp.float32
    assert finite(x), "also at 0, ±1e±30 and in empty slots"
    assert finite(grads)
    assert all(np.any(g) for g in jax.tree.leaves(grads)), "a parameter that nothing reaches"
    _, masked = value_and_grad(params, ~used)
    assert finite(masked), "gradients at empty slots"
    close(embedding(params, rows), x)  # eager
    loop = [embedding(params, jax.tree.map(lambda a, b=b: a[b : b + 1], rows))[0] for b in range(embedding.shape[0])]
    close(jax.vmap(lambda r: embedding(params, jax.tree.map(lambda a: a[None], r))[0])(rows), np.stack(loop))
    close(x, np.stack(loop))
    assert np.unique(np.asarray(x)[used].round(5), axis=0).shape[0] > 1, "every input gives the same vector"


@pytest.mark.parametrize("name", names("embed"))
def test_embedding_from_host_features(name, rng):
    embedding = Embedding(name, rng)
    if not embedding.module.provides("host_features"):
        pytest.skip("computes everything on the device")
    features = embedding.host_features()
    for key, value in features.items():
        assert isinstance(value, np.ndarray) and value.shape[:2] == embedding.shape, key
        assert value.dtype in (np.float32, np.int32, np.int8, np.bool_), "as it travels"
        assert finite(value), key
    shipped = jax.jit(embedding)(embedding.params, embedding.rows, features)
    made = jax.jit(embedding)(embedding.params, embedding.rows)
    close(np.asarray(shipped)[embedding.used], np.asarray(made)[embedding.used], 1e-4)
    empty = jax.tree.map(lambda x: x[:0], to_numeral([Decimal(1)], drawn.DIGITS))
    assert all(value.shape[0] == 0 for value in embedding.module.host_features(empty, []).values())


@pytest.mark.parametrize("name", names("embed"))
def test_embedding_in_a_bfloat16_model_is_float32(name, rng):
    kind = find("embed", name).kind
    embeds = {"token": build("embed", {"name": "token"}, dim=16, **drawn.KNOWN)}
    fusions = {}
    if kind == "numeral":
        embeds["new"] = build("embed", embed_block(name), **drawn.KNOWN)
        fusions = {"new": "concat+linear"}
    elif kind == "token":
        embeds = {"token": build("embed", {"name": name}, **(drawn.KNOWN | {"dim": 16}))}
    else:
        pytest.skip("joined by its own task's tests")
    inputs, _ = drawn.tokens(rng, 2, 12)
    heads = {"next": build("heads", {"name": "token", "tied": False}, **drawn.KNOWN)}
    acts = {}
    for dtype in ("float32", "bfloat16"):
        model = Model(embeds, fusions, drawn.stack(drawn.DECODER | {"dtype": dtype, "layers": 1}), heads)
        params = drawn.draw(model, np.random.default_rng(1), Batch(inputs))
        assert {x.dtype for x in jax.tree.leaves(params)} == {np.dtype("float32")}
        acts[dtype] = jax.jit(lambda p, m=model: m.apply({"params": p}, Batch(inputs))[1])(params)
    np.testing.assert_array_equal(acts["bfloat16"]["tokens"], acts["float32"]["tokens"])
    assert acts["bfloat16"]["final"].dtype == jnp.bfloat16
    assert finite(acts["bfloat16"])


# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names("backbone"))
def test_backbone(name, rng):
    options = {k: v for k, v in drawn.DECODER.items() if k != "name" and k in _parameters("backbone", name)}
    stack = drawn.stack({"name": name} | options)
    tokens, _ = drawn.tokens(rng, 3, 12)
    x = rng.standard_normal((3, 12, stack.width)).astype(np.float32)
    more = {}
    if stack.encodes:
        read, _ = drawn.tokens(rng, 3, 8)
        more["source"] = (rng.standard_normal((3, 8, stack.width)).astype(np.float32), read)
    params = drawn.draw(stack, rng, x, tokens, **more)
    weights = rng.standard_normal(x.shape).astype(np.float32)

    def loss(params, x):
        h, acts, cache = stack.apply({"params": params}, x, tokens, **more)
        return (weights * h).sum(), (h, acts, cache)

    (_, (h, acts, cache)), grads = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))(params, x)
    assert h.shape == x.shape and cache is None and acts, "hidden states, every layer by name, no cache unasked"
    assert finite((h, acts, grads))
    assert all(np.any(g) for g in jax.tree.leaves(grads))
    alone = jax.jit(lambda x, t, more: stack.apply({"params": params}, x, t, **more)[0])
    loop = [alone(*jax.tree.map(lambda a, b=b: a[b : b + 1], (x, tokens, more)))[0] for b in range(3)]
    close(h, np.stack(loop), 1e-4)
    low = drawn.stack({"name": name, "dtype": "bfloat16"} | options)
    rough, _, _ = jax.jit(lambda x: low.apply({"params": params}, x, tokens, **more))(x)
    assert rough.dtype == jnp.bfloat16 and finite(rough)
    seen = np.asarray(tokens.segment_ids > 0)
    assert np.abs(np.asarray(rough, np.float32) - h)[seen].mean() < 0.1


@pytest.mark.parametrize("name", [n for n in names("backbone") if find("backbone", n).remat is not None])
def test_a_backbone_names_what_may_be_kept_for_the_backward_pass(name, rng):
    options = {k: v for k, v in drawn.DECODER.items() if k != "name" and k in _parameters("backbone", name)}
    stack = drawn.stack({"name": name, "remat": "some"} | options)
    x, (tokens, _) = np.zeros((3, 12, 16), np.float32), drawn.tokens(rng, 3, 12)
    more = {"source": (x, tokens)} if stack.encodes else {}
    with pytest.raises(UsageError, match=r"^backbone\.remat must be one of none, full, dots, not 'some'"):
        stack.init(jax.random.key(0), x, tokens, **more)


def label_of(head: str) -> str | None:
    """What a head predicts of a row: a class, a span, or None for its positions."""
    cls = find("heads", head)
    return "label" if cls.provides("log_probs") else "span" if cls.provides("best") else None


def reads_units(head: str) -> bool:
    """Whether a head's labels are several, of units."""
    return bool(find("heads", head).labels)


def head_case(name, rng):
    head = build("heads", {"name": name}, **drawn.KNOWN)
    found = drawn.batch(rng)
    found = drawn.with_units(found, rng) if reads_units(name) else found
    hidden = rng.standard_normal((*found.inputs.ids.shape, drawn.KNOWN["width"])).astype(np.float32)
    table = rng.standard_normal((drawn.VOCAB, drawn.KNOWN["width"])).astype(np.float32)
    params = drawn.draw(head, rng, hidden, found.inputs, table)
    label = label_of(name)
    targets = found.labels[label] if label else drawn.with_numerals(found)
    targets = found.labels if reads_units(name) else targets
    return head, params, found, hidden, table, targets, label is not None


@pytest.mark.parametrize("name", names("heads"))
def test_head(name, rng):
    head, params, found, hidden, table, targets, classifies = head_case(name, rng)

    def parts_of(params, hidden, inputs, targets):
        out = head.apply({"params": params}, hidden, inputs, table)
        assert isinstance(out, HeadOut)
        return head.log_prob(out, targets)

    shape = (3,) if classifies else found.inputs.ids.shape
    scored = np.ones(3, bool) if classifies else found.targets.mask
    weights = np.where(scored, rng.random(shape), 0).astype(np.float32)

    def loss(params, hidden):
        parts = parts_of(params, hidden, found.inputs, targets)
        return sum((weights * part).sum() for part in parts.values()), parts

    (total, parts), grads = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))(params, hidden)
    for part, value in parts.items():
        assert value.shape == shape and value.dtype == jnp.float32, part
        assert finite(np.asarray(value)[scored]), part
    assert finite(grads) and all(np.any(g) for g in jax.tree.leaves(grads))
    at = np.asarray(grads[1])
    np.testing.assert_array_equal(at[~scored], 0, err_msg="a position without a weight has a gradient")
    assert set(head.densities) <= set(parts), "densities are parts"
    close(parts_of(params, hidden, found.inputs, targets), parts, 1e-4)  # eager
    one = jax.jit(parts_of)
    for b in range(3):
        row = functools.partial(jax.tree.map, lambda a, b=b: a[b : b + 1])
        close(one(params, row(hidden), row(found.inputs), row(targets)), row(parts), 1e-4)
    low = jax.jit(parts_of)(params, jnp.asarray(hidden, jnp.bfloat16), found.inputs, targets)
    assert {value.dtype for value in low.values()} == {jnp.dtype("float32")}, "losses stay float32"
    if head.provides("total_log_prob"):
        out = head.apply({"params": params}, hidden, found.inputs, table)
        totals = jax.jit(lambda out: head.total_log_prob(out, targets, weights))(out)
        assert set(totals) == set(parts)
        for part, value in totals.items():
            np.testing.assert_allclose(value, (weights * parts[part]).sum(), rtol=1e-4, atol=1e-4, err_msg=part)
        np.testing.assert_allclose(sum(totals.values()), total, rtol=1e-4)


@pytest.mark.parametrize("name", [n for n in names("heads") if find("heads", n).provides("step_scores")])
def test_head_that_writes(name, rng):
    head, params, found, hidden, table, _, _ = head_case(name, rng)
    out = head.apply({"params": params}, hidden, found.inputs, table)
    out = HeadOut(out.hidden[:, -1], out.weights)
    allowed = (np.arange(drawn.VOCAB) < drawn.SIZE) & (rng.random((3, drawn.VOCAB)) < 0.5)
    allowed[:, 1] = True
    for mask in (None, allowed):
        mass, numeral, _ = jax.jit(head.step_scores)(out, mask)
        assert mass.shape == (3, drawn.VOCAB) and mass.dtype == jnp.float32
        np.testing.assert_allclose(np.exp(mass).sum(-1), 1, atol=1e-5)
        closed = np.arange(drawn.VOCAB) >= drawn.SIZE if mask is None else ~mask
        np.testing.assert_array_equal(np.exp(mass)[np.broadcast_to(closed, mass.shape)], 0)
        if numeral is not None:
            assert numeral.exponent.shape == (3,) and finite(numeral.mantissa)
            again = to_numeral(to_decimals(numeral), numeral.digits.shape[-1])
            jax.tree.map(np.testing.assert_array_equal, numeral, again)  # canonical
            assert [x.dtype for x in numeral] == [x.dtype for x in again]


def objective_of(name: str, head: str):
    known = _parameters("objectives", name)
    options = {key: value for key, value in {"head": "next", "label": label_of(head)}.items() if key in known}
    return build("objectives", {"name": name} | options, **drawn.KNOWN)


@pytest.mark.parametrize("name", [n for n in names("heads") if find("heads", n).provides("token_logits")])
def test_logits_of_single_tokens_are_those_of_the_softmax(name, rng):
    """They differ as the log masses of the same tokens do, mask and normalisation aside."""
    head, _, found, hidden, table, targets, _ = head_case(name, rng)
    params = drawn.draw(head, rng, hidden, found.inputs, table)
    out = head.apply({"params": params}, hidden, found.inputs, table)
    ids = np.asarray([3, 11, 20], np.int32)
    logits = jax.jit(lambda: head.token_logits(out, ids))()
    masses = []
    for token in ids:
        one = targets._replace(ids=np.full_like(found.inputs.ids, token), numeral_index=None, numerals=None)
        masses.append(head.log_prob(out, one)["token"])
    close(np.diff(logits, axis=-1), np.diff(np.stack(masses, axis=-1), axis=-1), 1e-4)
    assert np.abs(np.diff(logits, axis=-1)).max() > 0.1


def methods_of(objective: Any) -> tuple[str, ...]:
    return objective.methods_of(vars(objective))


OBJECTIVES = [
    (o, h)
    for o in names("objectives")
    for h in names("heads")
    if all(map(find("heads", h).provides, ("log_prob", *methods_of(objective_of(o, h)))))
    # The labels of a head of units are read by objectives made for it.
    if not reads_units(h) or methods_of(objective_of(o, h))
]


@pytest.mark.parametrize(("name", "head"), OBJECTIVES)
def test_objective(name, head, rng):
    """Sums and counts over rows add up to those of the batch: exact under any sharding or accumulation."""
    objective = objective_of(name, head)
    model = drawn.model({"name": "prototype", "exponent_dim": 4}, {"name": head}, layers=1)
    found = drawn.batch(rng, lengths=[[5, 3], [9], [2, 2], [4]])
    found = drawn.with_units(found, rng) if reads_units(head) else found
    params, other = drawn.draw(model, rng, found), drawn.draw(model, rng, found)

    def of(params, found):
        outs, acts = model.apply({"params": params}, found)
        more = {"taught": model.apply({"params": other}, found)[0]} if objective.reads_teacher else {}
        loss = objective(model.heads, outs, acts, found, **more)
        return loss.total, loss

    run = jax.jit(jax.value_and_grad(of, has_aux=True))
    (_, whole), grads = run(params, found)
    assert whole.total.dtype == whole.count.dtype == jnp.float32 and whole.total.shape == ()
    assert finite((whole, grads)) and whole.count > 0

    def only(rows):
        mask = found.targets.mask & rows[:, None]
        return run(params, found._replace(valid=rows, targets=found.targets._replace(mask=mask)))

    (_, upper), of_upper = only(np.arange(4) < 2)
    (_, lower), of_lower = only(np.arange(4) >= 2)
    close(jax.tree.map(jnp.add, upper, lower), whole, 1e-4)
    close(jax.tree.map(np.add, of_upper, of_lower), grads, 1e-3)
    (_, nothing), zero = only(np.zeros(4, bool))
    assert nothing.total == 0 and nothing.count == 0 and not any(np.any(g) for g in jax.tree.leaves(zero))


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
    written = [str(v) for v in drawn.decimals(rng, 12, -3, 6)]
    texts = [*CORPUS[:2], "no number", "7", f"from {written[0]} to {written[1]}", " ".join(written)]
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
    """A record becomes an example that a scheme can write, and true predictions score as well as can be."""
    cls = find("tasks", name)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("\n\n".join(CORPUS))
    options = {"size": 200, "path": str(tmp_path / "texts") if name == "language_model" else ""}
    known = _parameters("tasks", name)
    task = build("tasks", {"name": name} | {key: value for key, value in options.items() if key in known})
    kinds = ("language_model", "masked", "classify", "span", "units")
    assert task.kind in kinds and task.metric and isinstance(task.dataset, dict)
    assert set(cls.needs) <= {"heads", "objectives"}
    for kind, wanted in task.needs.items():
        assert set(wanted) <= set(names(kind)), "a task needs what there is"
    records = source.load(task.dataset, "train", os.environ.get("NUMJAX_CACHE", str(tmp_path / "data")))
    assert records is not None
    records = [records[i] for i in range(min(20, len(records)))]
    assert all(isinstance(text, str) for text in task.texts(records))
    scheme = find("text", "replace")(vocabulary)
    examples = [task.example(record, scheme.parse) for record in records]
    if any(isinstance(segment, Formula) for e in examples for segment in e.document):
        scheme = find("text", "trees")(vocabulary)
    assert len({e.id for e in examples}) == len(examples), "an example has a name of its own"
    for example in examples:
        features = scheme.encode(example.document)
        assert scheme.decode(features.ids, features.numbers) == documents.merge(example.document)
        assert 0 <= example.loss_from < len(example.document)
    if task.kind == "classify":
        truth = [e.labels["label"] for e in examples]
        scores = task.score(truth, [e.reference for e in examples])
        wrong = task.score([1 - min(t, 1) for t in truth], [e.reference for e in examples])
        # The loss, by which a task may select, is not the task's to compute.
        metric = "accuracy" if task.metric == "-loss" else task.metric
        assert scores[metric] > wrong[metric]
    if task.kind == "span":
        ((name, _),) = examples[0].spans.items()
        truth = [documents.surface(e.document)[slice(*e.spans[name])] for e in examples]
        references = [e.reference for e in examples]
        assert (
            task.score(truth, references)[task.metric] == 1 > task.score([""] * len(truth), references)[task.metric]
        )
        assert all(e.slide is not None for e in examples), "what may be read in windows"
    with pytest.raises(DataError):
        task.example({"id": "x"}, scheme.parse)  # a bad record is one line, not a traceback
