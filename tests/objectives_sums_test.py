"""Objectives are sums over the right positions: a head whose figures are given, and loops over positions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.errors import UsageError
from numjax.nn import scored
from numjax.numeral.exact import to_decimals
from numjax.objectives.nll import AVERAGES
from numjax.types import HeadOut
from tests import drawn


class Figures:
    """A head whose figures at each position are its hidden state: two log-probabilities and an error."""

    densities = ("mantissa",)

    def total_log_prob(self, out, targets, weights, allowed=None):
        return {"token": (weights * out.hidden[..., 0]).sum(), "mantissa": (weights * out.hidden[..., 1]).sum()}

    def error(self, out, numerals):
        return out.hidden[..., 2]

    def total_cross_entropy(self, out, teacher_out, weights):
        return (weights * out.hidden[..., 0] * teacher_out.hidden[..., 1]).sum()

    def log_prob(self, out, labels, allowed=None):
        return {name: out.hidden[:, 0, at] for at, name in enumerate(("one", "two"))} | {"tags": out.hidden[:, 0, 0]}

    def scored(self, out, labels):
        return {"tags": labels["scored"]}

    def right(self, out, labels, part):
        assert part == "tags"
        return out.hidden[:, 0, 1] > 0

    def log_probs(self, out):
        return out.hidden[:, 1]


def given(rng):
    """(a batch of three rows, the figures of each position, {position: whether it is a number} of scored ones)."""
    batch = drawn.draw_batch(rng)
    hidden = rng.standard_normal((*batch.targets.ids.shape, 3)).astype(np.float32)
    scored = {tuple(at): bool(batch.targets.numeral_index[tuple(at)] >= 0) for at in np.argwhere(batch.targets.mask)}
    assert {True, False} == {*scored.values()} and len(scored) < batch.targets.mask.size
    return batch, hidden, scored


def run(block, batch, hidden, **more):
    objective = build("objectives", block, **drawn.CONTEXT)
    names = {block["head"], block.get("numbers") or block["head"]}
    outs = {name: HeadOut(jnp.asarray(hidden), {}) for name in names}
    return objective({name: Figures() for name in names}, outs, {}, batch, **more)


def close(pair, total, count):
    assert float(pair[0]) == pytest.approx(float(total), rel=1e-5, abs=1e-5) and float(pair[1]) == count


@pytest.mark.parametrize("numbers", [None, "number"])
def test_masked_adds_classified_text_and_regressed_numbers(rng, numbers):
    batch, hidden, scored = given(rng)
    loss = run({"name": "masked", "head": "masked", "numbers": numbers}, batch, hidden)
    text = -sum(hidden[at][0] + hidden[at][1] for at, is_number in scored.items() if not is_number)
    regressed = sum(hidden[at][2] for at, is_number in scored.items() if is_number) if numbers else 0.0
    n_numbers = sum(scored.values())
    close((loss.total, loss.count), text + regressed, len(scored))
    close(loss.parts["token"], text, len(scored) - n_numbers)
    close(loss.parts["number"], regressed, n_numbers)


def test_masked_takes_everything_for_text_without_an_index_of_numbers(rng):
    batch, hidden, scored = given(rng)
    batch = batch._replace(targets=batch.targets._replace(numeral_index=None))
    loss = run({"name": "masked", "head": "masked"}, batch, hidden)
    close((loss.total, loss.count), -sum(hidden[at][0] + hidden[at][1] for at in scored), len(scored))
    assert float(loss.parts["number"][1]) == 0


def test_number_adds_the_errors_of_scored_numbers(rng):
    batch, hidden, scored = given(rng)
    loss = run({"name": "number", "head": "number"}, batch, hidden)
    numbers = [at for at, is_number in scored.items() if is_number]
    close((loss.total, loss.count), sum(hidden[at][2] for at in numbers), len(numbers))


@pytest.mark.parametrize("columns", [1, 3, 4])
def test_by_columns_the_mean_of_each_column_counts_once(rng, columns):
    batch, hidden, scored = given(rng)
    for block, value, positions in (
        ({"name": "number", "head": "number"}, lambda at: hidden[at][2], [at for at in scored if scored[at]]),
        ({"name": "nll", "head": "next"}, lambda at: -hidden[at][0] - hidden[at][1], list(scored)),
    ):
        loss = run(block | {"average": "columns", "columns": columns}, batch, hidden)
        by_column = [[value(at) for at in positions if at[1] % columns == c] for c in range(columns)]
        wanted = sum(np.mean(values) for values in by_column if values)
        assert float(loss.total / loss.count) == pytest.approx(wanted, rel=1e-5)
        assert float(loss.count) == len(positions)
        blocks = (block, block | {"average": "columns"})
        assert [build("objectives", one, **drawn.CONTEXT).whole_batch for one in blocks] == [False, True]
    with pytest.raises(UsageError, match="are no whole rows of columns=5"):
        run({"name": "nll", "head": "next", "average": "columns", "columns": 5}, batch, hidden)


def test_numbers_may_weigh_other_than_tokens(rng):
    batch, hidden, scored = given(rng)
    loss = run({"name": "nll", "head": "next", "number_weight": 0.25}, batch, hidden)
    tokens, numbers = (-sum(hidden[at][i] for at in scored) for i in (0, 1))
    close((loss.total, loss.count), tokens + 0.25 * numbers, len(scored))
    close(loss.parts["token"], tokens, len(scored))
    close(loss.parts["mantissa"], 0.25 * numbers, len(scored))
    for weight in (1.0, 0.25):
        objective = build("objectives", {"name": "nll", "head": "next", "number_weight": weight}, **drawn.CONTEXT)
        assert objective.has_perplexity == (weight == 1), "a weighted sum is no likelihood"


@pytest.mark.parametrize("average", ["scored", "all"])
def test_nll_reports_each_part_and_the_mass_without_densities(rng, average):
    batch, hidden, scored = given(rng)
    loss = run({"name": "nll", "head": "next", "average": average}, batch, hidden)
    count = batch.targets.mask.size if average == "all" else len(scored)
    tokens, mantissas = (-sum(hidden[at][part] for at in scored) for part in (0, 1))
    close((loss.total, loss.count), tokens + mantissas, count)
    assert set(loss.parts) == {"token", "mantissa", "mass"}
    close(loss.parts["token"], tokens, count)
    close(loss.parts["mantissa"], mantissas, count)
    close(loss.parts["mass"], tokens, count)


def test_labels_are_scored_in_valid_rows_alone(rng):
    batch, hidden, _ = given(rng)
    hidden[:, 1] = np.eye(3)  # row r predicts class r
    batch = batch._replace(labels={"label": np.int32([0, 2, 2])}, valid=np.array([True, True, False]))
    loss = run({"name": "nll", "head": "next", "label": "label"}, batch, hidden)
    close((loss.total, loss.count), -hidden[:2, 0, :2].sum() - hidden[:2, 0, 0].sum(), 2)
    close(loss.parts["accuracy"], 1, 2)
    everything = run({"name": "nll", "head": "next", "label": "label"}, batch._replace(valid=None), hidden)
    close((everything.total, everything.count), -hidden[:, 0, :2].sum() - hidden[:, 0, 0].sum(), 3)
    close(everything.parts["accuracy"], 2, 3)


def test_distill_compares_with_the_teacher_at_masked_positions(rng):
    batch, hidden, scored = given(rng)
    teacher = rng.standard_normal(hidden.shape).astype(np.float32)
    loss = run(
        {"name": "distill", "head": "masked"}, batch, hidden, taught={"masked": HeadOut(jnp.asarray(teacher), {})}
    )
    close((loss.total, loss.count), sum(hidden[at][0] * teacher[at][1] for at in scored), len(scored))


def test_distill_keeps_the_teachers_share_between_nothing_and_all():
    for momentum in (0, 1, 0.995):
        assert build("objectives", {"name": "distill", "head": "m", "momentum": momentum}).momentum == momentum
    for momentum in (-0.01, 1.01):
        with pytest.raises(UsageError, match="must be from 0 to 1"):
            build("objectives", {"name": "distill", "head": "m", "momentum": momentum})
    # A step's teacher changes once, however the batch is cut.
    assert not build("objectives", {"name": "distill", "head": "m"}).each_microbatch


@pytest.mark.parametrize("block", [{"name": "masked", "head": "m"}, {"name": "number", "head": "m"}])
def test_batches_without_targets_are_refused(rng, block):
    batch, hidden, _ = given(rng)
    with pytest.raises(UsageError, match="targets"):
        run(block, batch._replace(targets=None), hidden)


@pytest.mark.parametrize("average", ["row", "sum"])
@pytest.mark.parametrize("valid", [None, [True, True, False, True]])
def test_tagop_is_over_the_valid_rows_that_have_the_part(rng, average, valid):
    batch = drawn.draw_batch(rng, rows=4)
    batch = batch._replace(labels={"scored": np.array([True, False, True, True])}, valid=valid and np.array(valid))
    hidden = rng.standard_normal((*batch.targets.ids.shape, 3)).astype(np.float32)
    hidden[:, 0, 1] = [1, 1, 1, -1]  # right in all rows but the last
    loss = run({"name": "tagop", "head": "tagop", "average": average}, batch, hidden)
    rows = [0, 3] if valid else [0, 2, 3]
    close(
        (loss.total, loss.count), -hidden[rows, 0, 0].sum(), len(rows) if average == "row" else 3 / 4 if valid else 1
    )
    close(loss.parts["accuracy"], len(rows) - 1, len(rows))
    close(loss.parts["share"], len(rows), 3 if valid else 4)


def test_a_mask_needs_the_grammar_and_its_states(rng):
    batch, hidden, _ = given(rng)
    for states in (None, np.zeros(batch.targets.ids.shape, np.int32)):
        with pytest.raises(ValueError, match="needs a grammar and its states"):
            run({"name": "nll", "head": "next", "constrain": True}, batch._replace(grammar_state=states), hidden)


@pytest.mark.parametrize("within", ["row", "batch"])
def test_sampled_pairs_are_of_two_different_numbers(rng, within):
    """Of two numbers there is one pair, whatever is drawn; see Sundararaman et al. 2020, eq. 7."""
    batch = drawn.draw_batch(rng, rows=1, slots=3)
    hidden = rng.standard_normal((*batch.targets.ids.shape, 5)).astype(np.float32)
    block = {"name": "cosine_distance", "within": within, "pairs": 40}
    loss = build("objectives", block, **drawn.CONTEXT)(
        {}, {}, {"final": jnp.asarray(hidden)}, batch, jax.random.key(3)
    )
    index, used = batch.inputs.numeral_index[0], batch.inputs.segment_ids[0] > 0
    vectors = [hidden[0, (index == n) & used].astype(np.float64).mean(axis=0) for n in (0, 1)]
    x, y = (float(value) for value in to_decimals(batch.inputs.numerals)[:2])
    relative = 2 * abs(x - y) / (abs(x) + abs(y))
    cosine = 1 - vectors[0] @ vectors[1] / np.prod(np.linalg.norm(vectors, axis=1))
    close((loss.total, loss.count), 40 * abs(relative - cosine), 40)
    close(loss.parts["relative"], 40 * relative, 40)
    close(loss.parts["cosine"], 40 * cosine, 40)


@pytest.mark.parametrize("most", [0, 1, 3, 4, 5, 8])
def test_sums_over_scored_positions_do_not_depend_on_the_room(most, rng):
    """Three slots of eight positions: rows with as many scored ones, fewer, and more."""
    mask = np.zeros((4, 8), bool)
    for row in mask:
        row[rng.permutation(8)[: rng.integers(0, most + 1)]] = True
    mask[0] = np.arange(8) < most
    values, vectors = rng.standard_normal((4, 8)), rng.standard_normal((4, 8, 3))

    def compute(take):
        m, x, v = take((jnp.asarray(mask), jnp.asarray(values), jnp.asarray(vectors)))
        return (jnp.where(m, x, 0).sum(), jnp.where(m[..., None], v, 0).sum((0, 1)), jnp.float32(m.shape[1]))

    total, sums, width = jax.jit(lambda: scored.apply_at_scored(jnp.asarray(mask), 0.3, compute))()
    assert float(total) == pytest.approx(values[mask].sum(), abs=1e-5)
    np.testing.assert_allclose(sums, vectors[mask].sum(0), atol=1e-5)
    assert int(width) == (3 if most <= 3 else 8)


@pytest.mark.parametrize(("at", "width"), [([], 3), ([3, 4, 10], 3), ([3, 4, 5, 10], 32), (range(32), 32)])
def test_few_positions_are_few_however_rows_share_them(at, width, rng):
    """Three slots for 32 positions, of which one row may have all; and the gradient is that of all positions."""
    mask = np.zeros(32, bool)
    mask[list(at)] = True
    mask = mask.reshape(4, 8)
    values, kernel = rng.standard_normal((4, 8, 3)), rng.standard_normal(3)
    widths = []

    def total(values, kernel):
        def compute(take):
            own, x = take((jnp.asarray(mask), values))
            widths.append(own.size)
            return {"a": jnp.where(own, jnp.sin(x @ kernel), 0).sum(), "width": jnp.float32(own.size)}

        found = scored.apply_at_few(jnp.asarray(mask), 3 / 32, compute)
        return found["a"], found["width"]

    def reference(values, kernel):
        return jnp.where(mask, jnp.sin(values @ kernel), 0).sum(), width

    found, expected = (
        jax.jit(jax.value_and_grad(f, (0, 1), has_aux=True))(values, kernel) for f in (total, reference)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), found, expected)
    assert set(widths) == {3, 32}


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ({"name": "nll", "average": "colums"}, "average must be one of scored, all, columns, not 'colums'"),
        ({"name": "nll", "average": "columns", "columns": 0}, "columns must be at least 1, not 0"),
        ({"name": "number", "average": "all"}, "average must be one of scored, columns, not 'all'"),
        ({"name": "tagop", "part": "tag"}, "part must be one of operator, scale, tags, order, not 'tag'"),
        ({"name": "tagop", "average": "rows"}, "average must be one of row, sum, not 'rows'"),
    ],
)
def test_a_mistyped_choice_is_refused_in_one_line(block, says):
    with pytest.raises(UsageError, match=says):
        build("objectives", {"head": "next"} | block)


def test_only_a_mean_over_scored_positions_is_a_perplexity():
    """That over all positions depends on the padding."""
    has = {name: build("objectives", dict(name="nll", head="next", average=name)).has_perplexity for name in AVERAGES}
    assert has == {"scored": True, "all": False, "columns": False}
