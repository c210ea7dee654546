"""A number encoder and what is read off its vectors, trained together: LUNA's probes (Table 2).

Decoding, addition and subtraction have a perceptron each for the significand (squared error) and the exponent (cross
entropy); the largest of three numbers is read off the final states of a bidirectional LSTM. The loss is their sum.

Each number string of a batch is encoded once. The strings of a batch lie in one table of fixed size, the longest
first, whose rows are read in a few groups as long as their longest string: padding changes nothing, so that short
ones need not be read to the length of the longest.

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
from numjax.probes.numbers import HIGH, KIND_OF, LOW, Asked
from numjax.types import Numeral

CLASSES = HIGH - LOW + 1
TASKS = ("decode", "add", "subtract")
SCORED = 512  # examples scored at once


class Rule(NamedTuple):
    """How it is trained: Adam, `batch_size` examples of each kind a step, `epochs` in all.

    Attributes:
      learning_rate: at the start; it falls to 0 along a cosine. LUNA's code keeps it.
      hidden: H of the probes; those of pairs have 2 · H.
    """

    learning_rate: float = 1e-3
    batch_size: int = 256
    epochs: int = 30
    hidden: int = 128


class Strings(NamedTuple):
    """All number strings: Numeral[V], what the encoder's `host_features` made of them, and their lengths, int[V]."""

    numerals: Numeral
    features: Mapping[str, np.ndarray]
    lengths: np.ndarray


class Step(NamedTuple):
    """What a step reads.

    Attributes:
      groups: (Numeral[m], features) of consecutive rows of the table, whose sizes add up to M.
      places: Asked of places in the table. targets: see `numbers.targets`.
    """

    groups: tuple[tuple[Numeral, Mapping[str, Any]], ...]
    places: Asked
    targets: Mapping[str, Any]


class State(NamedTuple):
    """Parameters now, and Adam's."""

    params: Any
    opt_state: Any


class Group(NamedTuple):
    """`rows` of the table for strings of at most `length` characters."""

    rows: int
    length: int


def init_probes(key: jax.Array, dim: int, hidden: int) -> dict[str, Any]:
    """The probes' parameters, by task and what they predict."""
    eye, params = jnp.eye(dim), {}
    for task in TASKS:
        numbers = 1 if task == "decode" else 2
        for part, outputs in (("significand", 1), ("exponent", CLASSES)):
            key, mine = jax.random.split(key)
            params[f"{task}_{part}"] = networks.init_mlp(mine, eye, numbers, numbers * hidden, 1, outputs)
    for way in ("forward", "backward"):
        for part, shape in lstm.shapes(dim, hidden).items():
            key, mine = jax.random.split(key)
            params[f"max_{way}_{part}"] = lstm.uniform(hidden)(mine, shape)
    return params | {"max": networks.init_mlp(key, jnp.eye(hidden), 1, hidden, 1, 3)}


def read(params: Mapping[str, Any], x: Asked) -> dict[str, jax.Array]:
    """What the probes say of vectors [B, k, D]: significands [B], exponents' scores [B, 10], places' [B, 3]."""
    found = {}
    for task in TASKS:
        vectors: Any = x.single if task == "decode" else x.pair
        found[f"{task}_significand"] = networks.mlp(params[f"{task}_significand"], vectors)
        found[f"{task}_exponent"] = networks.perceptron(params[f"{task}_exponent"], vectors)
    parts = lstm.shapes(1, 1)
    there, back = (lstm.Weights(*(params[f"max_{way}_{p}"] for p in parts)) for way in ("forward", "backward"))
    triple: Any = x.triple
    finals = jnp.stack(lstm.stack(triple, [(there, back)])).mean(axis=0)
    return found | {"max": networks.perceptron(params["max"], finals[:, None])}


def losses(found: Mapping[str, jax.Array], targets: Mapping[str, Any]) -> dict[str, jax.Array]:
    """[B] of every part."""
    out = {}
    for task in TASKS:
        of: Any = targets[task]
        out[f"{task}_significand"] = networks.squared_error(found[f"{task}_significand"], of.significand)
        out[f"{task}_exponent"] = networks.cross_entropy(found[f"{task}_exponent"], of.exponent)
    return out | {"max": networks.cross_entropy(found["max"], targets["max"])}


def scores(found: Mapping[str, jax.Array], targets: Mapping[str, Any]) -> dict[str, jax.Array]:
    """[B] of what is reported: squared errors of significands, else whether it is right."""
    out = losses(found, targets)
    for task in TASKS:
        out[f"{task}_exponent"] = networks.right(found[f"{task}_exponent"], targets[task].exponent)
    return out | {"max": networks.right(found["max"], targets["max"])}


def _encode(encoder: nn.Module, params: Any, groups: Sequence[tuple[Numeral, Any]], key: jax.Array | None):
    rngs = {} if key is None else {"dropout": key}
    of = {"params": params} if params else {}  # an encoder may have none
    return jnp.concatenate([jnp.asarray(encoder.apply(of, *group, rngs=rngs)) for group in groups])


def total_loss(encoder: nn.Module, params: Any, step: Step, key: jax.Array | None) -> jax.Array:
    """The sum of the parts' means."""
    x_MD = _encode(encoder, params["encoder"], step.groups, key)
    taken: Any = [jnp.take(x_MD, places, axis=0) for places in step.places]
    vectors = Asked(*taken)
    return sum((part.mean() for part in losses(read(params["probes"], vectors), step.targets).values()), start=0.0)  # type: ignore[return-value]


class Trainer:
    """Trains an encoder and its probes on examples at hand, an epoch a call.

    Args:
      encoder: a numeral embedding. dim: D.
      strings: all number strings. train: examples of them, with `targets`.
      bounds: the largest lengths of the groups but the last, ascending; none where padding counts.
    """

    def __init__(
        self,
        encoder: nn.Module,
        dim: int,
        strings: Strings,
        train: Asked,
        targets: Mapping[str, Any],
        rule: Rule,
        seed: int,
        bounds: Sequence[int] = (),
    ):
        self.encoder, self.strings, self.rule, self.seed = encoder, strings, rule, seed
        self._dim, self._train, self._targets = dim, train, targets
        # Of a kind that is scarcer than another, examples come again within the epoch.
        self.steps = max(1, max(map(len, train)) // rule.batch_size)
        self.groups = self._plan(sorted(bounds))
        self._optimizer = optax.adam(optax.cosine_decay_schedule(rule.learning_rate, self.steps * rule.epochs))

        @functools.partial(jax.jit, donate_argnums=0)
        def step(state: State, batch: Step, key: jax.Array) -> tuple[State, jax.Array]:
            loss, grads = jax.value_and_grad(functools.partial(total_loss, encoder))(state.params, batch, key)
            updates, opt_state = self._optimizer.update(grads, state.opt_state, state.params)
            return State(optax.apply_updates(state.params, updates), opt_state), loss

        self._step = step
        self._embed = jax.jit(functools.partial(_encode, encoder, key=None))

        @jax.jit
        def measured(params: Any, x: Asked, targets: Mapping[str, Any]) -> dict[str, jax.Array]:
            found = read(params, x)
            lost = {f"loss_{name}": part for name, part in losses(found, targets).items()}
            return scores(found, targets) | lost

        self._measured = measured

    def start(self) -> State:
        """Before the first epoch."""
        key = jax.random.key(self.seed)
        one = [self._rows(np.zeros(1, np.int64), int(self.strings.lengths.max()))]
        drawn = jax.jit(self.encoder.init)(jax.random.fold_in(key, 0), *one[0]).get("params", {})
        params = {"encoder": drawn, "probes": init_probes(jax.random.fold_in(key, 1), self._dim, self.rule.hidden)}
        return State(params, self._optimizer.init(params))

    def epoch(self, state: State, number: int) -> tuple[State, float]:
        """The state after an epoch, numbered from 0, and its mean loss."""
        key = jax.random.fold_in(jax.random.key(self.seed), 2 + number)
        total: Any = 0.0
        for at, places in enumerate(self._batches(number)):
            state, loss = self._step(state, self._lay(places), jax.random.fold_in(key, at))
            total = total + loss
        return state, float(total) / self.steps

    def evaluate(self, params: Any, asked: Asked, targets: Mapping[str, Any]) -> dict[str, float]:
        """Root mean squared errors of significands, accuracies of the rest, and "loss"."""
        used, flat = np.unique(np.concatenate([items.ravel() for items in asked]), return_inverse=True)
        order = np.argsort(self.strings.lengths[used], kind="stable")
        vectors = np.zeros((len(used), self._dim), np.float32)
        longest = int(self.strings.lengths.max())
        bounds = [*(group.length for group in reversed(self.groups)), longest]
        for start in range(0, len(order), SCORED):
            chunk = order[start : start + SCORED]
            most = int(self.strings.lengths[used[chunk]].max())
            length = next(bound for bound in bounds if bound >= most)
            # The last chunk is filled up.
            rows = self._rows(np.resize(used[chunk], SCORED), length)
            vectors[chunk] = np.asarray(self._embed(params["encoder"], (rows,)))[: len(chunk)]
        places, begin = [], 0
        for items in asked:
            places.append(flat[begin : begin + items.size].reshape(items.shape))
            begin += items.size
        return self._scores(params["probes"], Asked(*places), vectors, targets)

    def _scores(self, params: Any, places: Asked, vectors: np.ndarray, targets: Mapping[str, Any]):
        totals: dict[str, float] = {}
        counts = [len(items) for items in places]
        for start in range(0, max(counts), SCORED):
            at = [np.minimum(np.arange(start, start + SCORED), count - 1) for count in counts]
            x = Asked(*(vectors[items[i]] for items, i in zip(places, at, strict=True)))
            chosen = _taken(targets, at)
            for name, values in self._measured(params, x, chosen).items():
                left = max(0, min(SCORED, counts[_kind(name)] - start))
                totals[name] = totals.get(name, 0.0) + float(np.asarray(values)[:left].sum())
        means = {name: total / counts[_kind(name)] for name, total in totals.items()}
        loss = sum(value for name, value in means.items() if name.startswith("loss_"))
        shown = {name: value for name, value in means.items() if not name.startswith("loss_")}
        roots = {name: value**0.5 for name, value in shown.items() if name.endswith("significand")}
        return shown | roots | {"loss": loss}

    def _batches(self, number: int):
        """Which examples of each kind go together, step by step."""
        rng, size = np.random.default_rng([self.seed, number]), self.rule.batch_size
        orders = [np.resize(rng.permutation(len(items)), self.steps * size) for items in self._train]
        for at in range(self.steps):
            yield [order[at * size : (at + 1) * size] for order in orders]

    def _used(self, places: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """(the strings of a batch, longest first; where each of its numbers stands among them)."""
        flat = np.concatenate([items[at].ravel() for items, at in zip(self._train, places, strict=True)])
        used, inverse = np.unique(flat, return_inverse=True)
        order = np.argsort(-self.strings.lengths[used], kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return used[order], rank[inverse]

    def _plan(self, bounds: Sequence[int]) -> tuple[Group, ...]:
        """Groups that hold the strings of every batch of the training, so that one program serves all."""
        longest = int(self.strings.lengths.max())
        lengths = [longest, *(bound for bound in reversed(bounds) if bound < longest)]
        # need[g]: the most strings that a batch has beyond the length of group g + 1, or in all.
        need = np.zeros(len(lengths), np.int64)
        for number in range(self.rule.epochs):
            for places in self._batches(number):
                sizes = self.strings.lengths[self._used(places)[0]]
                many = [int((sizes > bound).sum()) for bound in lengths[1:]] + [len(sizes)]
                need = np.maximum(need, many)
        upto = np.maximum.accumulate(-(-need // 8) * 8)
        rows = np.diff(upto, prepend=0)
        return tuple(Group(int(r), length) for r, length in zip(rows, lengths, strict=True) if r)

    def _rows(self, at: np.ndarray, length: int) -> tuple[Numeral, dict[str, np.ndarray]]:
        numerals, features, _ = self.strings
        found = {name: values[at] for name, values in features.items()}
        if "characters" in found:
            found["characters"] = found["characters"][:, :length]
        return Numeral(*(x[at] for x in numerals)), found

    def _lay(self, places: Sequence[np.ndarray]) -> Step:
        used, rank = self._used(places)
        groups, begin = [], 0
        padded = np.resize(used, max(len(used), sum(group.rows for group in self.groups)))
        padded[len(used) :] = used[-1]  # the shortest fills up
        for group in self.groups:
            groups.append(self._rows(padded[begin : begin + group.rows], group.length))
            begin += group.rows
        shown, begin = [], 0
        for items, at in zip(self._train, places, strict=True):
            count = items[at].size
            shown.append(rank[begin : begin + count].reshape(items[at].shape).astype(np.int32))
            begin += count
        return Step(tuple(groups), Asked(*shown), _taken(self._targets, places))


def _taken(targets: Mapping[str, Any], places: Sequence[np.ndarray]) -> dict[str, Any]:
    """The targets of examples at `places` of each kind."""
    return {task: jax.tree.map(lambda y, i=places[kind]: y[i], targets[task]) for task, kind in KIND_OF.items()}


def _kind(name: str) -> int:
    """Of a score or loss: the place in `KINDS` of what it is asked of."""
    return KIND_OF[name.removeprefix("loss_").partition("_")[0]]
