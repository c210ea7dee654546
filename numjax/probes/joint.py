"""Trains a number encoder together with its probes: LUNA's probes (Table 2).

Decoding, addition and subtraction each have one perceptron for the significand (squared error) and one for the
exponent (cross entropy). The largest of three numbers is predicted from the final states of a bidirectional LSTM. The
loss is the sum of all parts.

Each number string of a batch is encoded once. The strings of a batch are the rows of one table of fixed size, the
longest first. The table is encoded in a few groups, each as long as its longest string. Padding does not change the
result, so short strings need not be padded to the longest.

Legend: B examples, k numbers an example, M rows of a batch's table, V number strings in all, D width of a vector.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from numjax.nn import lstm
from numjax.probes import networks
from numjax.probes.numbers import HIGH, KIND_OF, LOW, ExamplesByKind
from numjax.types import Numeral

CLASSES = HIGH - LOW + 1
TASKS = ("decode", "add", "subtract")
CHUNK = 512  # examples scored at once


class AdamOptions(NamedTuple):
    """Options of the training with Adam: `batch_size` examples of each kind a step, for `epochs` epochs.

    Attributes:
      learning_rate: the initial rate; it falls to 0 along a cosine. In LUNA's code it is constant.
      hidden: H, the hidden width of the probes; probes of pairs have 2 · H.
    """

    learning_rate: float = 1e-3
    batch_size: int = 256
    epochs: int = 30
    hidden: int = 128


class Strings(NamedTuple):
    """All number strings: Numeral[V], their features by the encoder's `host_features`, and their lengths, int[V]."""

    numerals: Numeral
    features: Mapping[str, np.ndarray]
    lengths: np.ndarray


class Step(NamedTuple):
    """The input of a training step.

    Attributes:
      groups: (Numeral[m], features) of consecutive rows of the table; their sizes add up to M.
      indices: examples as row indices of the table. targets: see `numbers.make_targets`.
    """

    groups: tuple[tuple[Numeral, Mapping[str, Any]], ...]
    indices: ExamplesByKind
    targets: Mapping[str, Any]


class JointState(NamedTuple):
    """The parameters and Adam's state."""

    params: Any
    opt_state: Any


class Group(NamedTuple):
    """`rows` of the table for strings of at most `length` characters."""

    rows: int
    length: int


def init_probes(key: jax.Array, dim: int, hidden: int) -> dict[str, Any]:
    """Initialises the parameters of the probes, by task and part."""
    eye, params = jnp.eye(dim), {}
    for task in TASKS:
        numbers = 1 if task == "decode" else 2
        for part, outputs in (("significand", 1), ("exponent", CLASSES)):
            key, part_key = jax.random.split(key)
            params[f"{task}_{part}"] = networks.init_mlp(part_key, eye, numbers, numbers * hidden, 1, outputs)
    for direction in ("forward", "backward"):
        for part, shape in lstm.shapes(dim, hidden).items():
            key, part_key = jax.random.split(key)
            params[f"max_{direction}_{part}"] = lstm.uniform(hidden)(part_key, shape)
    return params | {"max": networks.init_mlp(key, jnp.eye(hidden), 1, hidden, 1, 3)}


def apply_probes(params: Mapping[str, Any], x: ExamplesByKind) -> dict[str, jax.Array]:
    """Applies the probes to vectors [B, k, D].

    Returns:
      Significands [B], logits of exponents [B, 10], and logits of which number is the largest [B, 3], by name.
    """
    outputs = {}
    for task in TASKS:
        vectors: Any = x.single if task == "decode" else x.pair
        outputs[f"{task}_significand"] = networks.mlp(params[f"{task}_significand"], vectors)
        outputs[f"{task}_exponent"] = networks.perceptron(params[f"{task}_exponent"], vectors)
    parts = lstm.shapes(1, 1)
    forward, backward = (
        lstm.LstmWeights(*(params[f"max_{direction}_{p}"] for p in parts)) for direction in ("forward", "backward")
    )
    triple: Any = x.triple
    finals = jnp.stack(lstm.final_states(triple, [(forward, backward)])).mean(axis=0)
    return outputs | {"max": networks.perceptron(params["max"], finals[:, None])}


def losses(outputs: Mapping[str, jax.Array], targets: Mapping[str, Any]) -> dict[str, jax.Array]:
    """The loss of every part, [B], by name."""
    loss_parts = {}
    for task in TASKS:
        target: Any = targets[task]
        loss_parts[f"{task}_significand"] = networks.squared_error(outputs[f"{task}_significand"], target.significand)
        loss_parts[f"{task}_exponent"] = networks.cross_entropy(outputs[f"{task}_exponent"], target.exponent)
    return loss_parts | {"max": networks.cross_entropy(outputs["max"], targets["max"])}


def scores(outputs: Mapping[str, jax.Array], targets: Mapping[str, Any]) -> dict[str, jax.Array]:
    """The score of every part, [B], by name: squared errors of significands, else 1 where the prediction is right."""
    score_parts = losses(outputs, targets)
    for task in TASKS:
        score_parts[f"{task}_exponent"] = networks.is_correct(outputs[f"{task}_exponent"], targets[task].exponent)
    return score_parts | {"max": networks.is_correct(outputs["max"], targets["max"])}


def _encode(encoder: nn.Module, params: Any, groups: Sequence[tuple[Numeral, Any]], key: jax.Array | None):
    rngs = {} if key is None else {"dropout": key}
    variables = {"params": params} if params else {}  # an encoder may have none
    return jnp.concatenate([jnp.asarray(encoder.apply(variables, *group, rngs=rngs)) for group in groups])


def total_loss(encoder: nn.Module, params: Any, step: Step, key: jax.Array | None) -> jax.Array:
    """The sum of the mean losses of all parts."""
    x_MD = _encode(encoder, params["encoder"], step.groups, key)
    arrays: Any = [jnp.take(x_MD, indices, axis=0) for indices in step.indices]
    vectors = ExamplesByKind(*arrays)
    return sum(
        (part.mean() for part in losses(apply_probes(params["probes"], vectors), step.targets).values()), start=0.0
    )  # type: ignore[return-value]


class Trainer:
    """Trains an encoder and its probes on examples in memory, one epoch a call.

    Args:
      encoder: a numeral embedding. dim: D.
      strings: all number strings. train: training examples, as indices of strings. targets: their targets.
      bounds: the largest length in each group but that of the longest strings, ascending; none if padding changes
        the result.
    """

    def __init__(
        self,
        encoder: nn.Module,
        dim: int,
        strings: Strings,
        train: ExamplesByKind,
        targets: Mapping[str, Any],
        options: AdamOptions,
        seed: int,
        bounds: Sequence[int] = (),
    ):
        self.encoder, self.strings, self.options, self.seed = encoder, strings, options, seed
        self._dim, self._train, self._targets = dim, train, targets
        # A kind with fewer examples than another repeats them within the epoch.
        self.steps = max(1, max(map(len, train)) // options.batch_size)
        self.groups = self._plan_groups(sorted(bounds))
        self._optimizer = optax.adam(optax.cosine_decay_schedule(options.learning_rate, self.steps * options.epochs))

        @functools.partial(jax.jit, donate_argnums=0)
        def step(state: JointState, batch: Step, key: jax.Array) -> tuple[JointState, jax.Array]:
            loss, grads = jax.value_and_grad(functools.partial(total_loss, encoder))(state.params, batch, key)
            updates, opt_state = self._optimizer.update(grads, state.opt_state, state.params)
            return JointState(optax.apply_updates(state.params, updates), opt_state), loss

        self._step = step
        self._embed = jax.jit(functools.partial(_encode, encoder, key=None))

        @jax.jit
        def measure(params: Any, x: ExamplesByKind, targets: Mapping[str, Any]) -> dict[str, jax.Array]:
            outputs = apply_probes(params, x)
            loss_parts = {f"loss_{name}": part for name, part in losses(outputs, targets).items()}
            return scores(outputs, targets) | loss_parts

        self._measure = measure

    def start(self) -> JointState:
        """Returns the state before the first epoch."""
        key = jax.random.key(self.seed)
        rows = [self._make_rows(np.zeros(1, np.int64), int(self.strings.lengths.max()))]
        encoder_params = jax.jit(self.encoder.init)(jax.random.fold_in(key, 0), *rows[0]).get("params", {})
        params = {
            "encoder": encoder_params,
            "probes": init_probes(jax.random.fold_in(key, 1), self._dim, self.options.hidden),
        }
        return JointState(params, self._optimizer.init(params))

    def run_epoch(self, state: JointState, number: int) -> tuple[JointState, float]:
        """Trains for an epoch, numbered from 0; returns the new state and the mean loss."""
        key = jax.random.fold_in(jax.random.key(self.seed), 2 + number)
        total: Any = 0.0
        for index, batch in enumerate(self._make_batches(number)):
            state, loss = self._step(state, self._make_step(batch), jax.random.fold_in(key, index))
            total = total + loss
        return state, float(total) / self.steps

    def evaluate(self, params: Any, examples: ExamplesByKind, targets: Mapping[str, Any]) -> dict[str, float]:
        """Computes root mean squared errors of significands, accuracies of the other parts, and "loss"."""
        strings, flat = np.unique(np.concatenate([items.ravel() for items in examples]), return_inverse=True)
        order = np.argsort(self.strings.lengths[strings], kind="stable")
        vectors = np.zeros((len(strings), self._dim), np.float32)
        longest = int(self.strings.lengths.max())
        bounds = [*(group.length for group in reversed(self.groups)), longest]
        for start in range(0, len(order), CHUNK):
            chunk = order[start : start + CHUNK]
            longest_in_chunk = int(self.strings.lengths[strings[chunk]].max())
            length = next(bound for bound in bounds if bound >= longest_in_chunk)
            # The last chunk is filled up.
            rows = self._make_rows(np.resize(strings[chunk], CHUNK), length)
            vectors[chunk] = np.asarray(self._embed(params["encoder"], (rows,)))[: len(chunk)]
        indices, begin = [], 0
        for items in examples:
            indices.append(flat[begin : begin + items.size].reshape(items.shape))
            begin += items.size
        return self._compute_scores(params["probes"], ExamplesByKind(*indices), vectors, targets)

    def _compute_scores(self, params: Any, indices: ExamplesByKind, vectors: np.ndarray, targets: Mapping[str, Any]):
        totals: dict[str, float] = {}
        counts = [len(items) for items in indices]
        for start in range(0, max(counts), CHUNK):
            chunk = [np.minimum(np.arange(start, start + CHUNK), count - 1) for count in counts]
            x = ExamplesByKind(*(vectors[items[i]] for items, i in zip(indices, chunk, strict=True)))
            chunk_targets = _take_targets(targets, chunk)
            for name, values in self._measure(params, x, chunk_targets).items():
                n_left = max(0, min(CHUNK, counts[_kind_index(name)] - start))
                totals[name] = totals.get(name, 0.0) + float(np.asarray(values)[:n_left].sum())
        means = {name: total / counts[_kind_index(name)] for name, total in totals.items()}
        loss = sum(value for name, value in means.items() if name.startswith("loss_"))
        figures = {name: value for name, value in means.items() if not name.startswith("loss_")}
        roots = {name: value**0.5 for name, value in figures.items() if name.endswith("significand")}
        return figures | roots | {"loss": loss}

    def _make_batches(self, number: int):
        """Yields the indices of the examples of each kind, step by step."""
        rng, size = np.random.default_rng([self.seed, number]), self.options.batch_size
        orders = [np.resize(rng.permutation(len(items)), self.steps * size) for items in self._train]
        for step in range(self.steps):
            yield [order[step * size : (step + 1) * size] for order in orders]

    def _unique_strings(self, batch: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """(the strings of a batch, longest first; the index among them of each number of the batch)."""
        flat = np.concatenate(
            [items[example_ids].ravel() for items, example_ids in zip(self._train, batch, strict=True)]
        )
        strings, inverse = np.unique(flat, return_inverse=True)
        order = np.argsort(-self.strings.lengths[strings], kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return strings[order], rank[inverse]

    def _plan_groups(self, bounds: Sequence[int]) -> tuple[Group, ...]:
        """Plans groups that have room for the strings of every batch, so that one compiled program serves all."""
        longest = int(self.strings.lengths.max())
        lengths = [longest, *(bound for bound in reversed(bounds) if bound < longest)]
        # sizes[g]: the largest number of strings in a batch that are longer than group g + 1 allows; last, of all.
        sizes = np.zeros(len(lengths), np.int64)
        for number in range(self.options.epochs):
            for batch in self._make_batches(number):
                string_lengths = self.strings.lengths[self._unique_strings(batch)[0]]
                counts = [int((string_lengths > bound).sum()) for bound in lengths[1:]] + [len(string_lengths)]
                sizes = np.maximum(sizes, counts)
        totals = np.maximum.accumulate(-(-sizes // 8) * 8)
        rows = np.diff(totals, prepend=0)
        return tuple(Group(int(r), length) for r, length in zip(rows, lengths, strict=True) if r)

    def _make_rows(self, indices: np.ndarray, length: int) -> tuple[Numeral, dict[str, np.ndarray]]:
        numerals, features, _ = self.strings
        row_features = {name: values[indices] for name, values in features.items()}
        if "characters" in row_features:
            row_features["characters"] = row_features["characters"][:, :length]
        return Numeral(*(x[indices] for x in numerals)), row_features

    def _make_step(self, batch: Sequence[np.ndarray]) -> Step:
        strings, rank = self._unique_strings(batch)
        groups, begin = [], 0
        row_strings = np.resize(strings, max(len(strings), sum(group.rows for group in self.groups)))
        row_strings[len(strings) :] = strings[-1]  # fill up with the shortest
        for group in self.groups:
            groups.append(self._make_rows(row_strings[begin : begin + group.rows], group.length))
            begin += group.rows
        indices, begin = [], 0
        for items, example_ids in zip(self._train, batch, strict=True):
            count = items[example_ids].size
            indices.append(rank[begin : begin + count].reshape(items[example_ids].shape).astype(np.int32))
            begin += count
        return Step(tuple(groups), ExamplesByKind(*indices), _take_targets(self._targets, batch))


def _take_targets(targets: Mapping[str, Any], example_ids: Sequence[np.ndarray]) -> dict[str, Any]:
    """Takes the targets of the examples of each kind with the ids `example_ids`."""
    return {task: jax.tree.map(lambda y, i=example_ids[kind]: y[i], targets[task]) for task, kind in KIND_OF.items()}


def _kind_index(name: str) -> int:
    """The index in `KINDS` of the kind of examples that a score or loss is computed from."""
    return KIND_OF[name.removeprefix("loss_").partition("_")[0]]
