"""What notebooks use: `model = numjax.load(workdir)`, then embed, score, generate, predict."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from ml_collections import ConfigDict

from numjax.config import origin
from numjax.errors import DataError, UsageError
from numjax.evals import report, tuned
from numjax.evals.score import evaluate, log_likelihoods
from numjax.expr import latex, signs
from numjax.expr.tree import Tree
from numjax.geometry import attention
from numjax.pipeline import batch as batches
from numjax.pipeline import features
from numjax.pipeline.loader import Encoded, Loader
from numjax.runtime import log, processes, shard
from numjax.system import System, assemble, reader
from numjax.text.tree_grammar import TYPE_OF
from numjax.train import checkpoint, inherit
from numjax.train.compile import Compiled, make_compiled
from numjax.types import TREE_POSITIONS, TYPES, Features, Formula


class Symbol(NamedTuple):
    """A symbol of the mathematical vocabulary.

    Attributes:
      kind: "OP", "VAR" or "NUM". type, symbol: of its nodes (`expr.tree`). latex: its sign, see `expr.signs.sign`.
    """

    kind: str
    type: str
    symbol: str
    latex: str


class Nodes(NamedTuple):
    """A formula's tokens in preorder, END tokens included, without those that open and close the formula.

    Attributes:
      names: what each is, as LaTeX; special tokens by name: "end", "number", "text", …
      tree_positions: int32[N, L], child index at each level from the root on, −1 below the node.
      vectors: float32[N, D], what their positions add to the embedding: the learned vector of the place in the
        sequence, and the tree position's where the model has one (MathGPT's emb_sp + emb_tp).
    """

    names: list[str]
    tree_positions: np.ndarray
    vectors: np.ndarray


class Reading(NamedTuple):
    """A text as an encoder reads it, T positions of one row.

    Attributes:
      tokens: marks by name, pieces as they are written, [NUM] as its number: "⟨2,082⟩".
      types: int32[T], 0 up to the first [SEP] where the scheme has types (without the units of TagOp).
      numbers: int32[T] into `surfaces`, −1 for what is no number.
      surfaces: the numbers as written.
      layers: float32[L + 1, T, D], the embedding and what each layer makes of it.
    """

    tokens: list[str]
    types: np.ndarray
    numbers: np.ndarray
    surfaces: tuple[str, ...]
    layers: np.ndarray


def load(workdir: str | pathlib.Path, config: Any = None) -> Loaded:
    """The model of a finished (or running) workdir: its best checkpoint, else its newest.

    Args:
      workdir: what `python -m numjax.main --workdir=…` wrote; with several seeds, one of its seed_N.
      config: the config, where it is known already.

    Raises:
      UsageError: no run there.
    """
    folder = pathlib.Path(workdir).expanduser()
    config = origin.get_config(folder) if config is None else config
    mesh = _mesh(config)
    params, step = inherit.read_params(folder, lambda shapes: shard.shardings(shapes, mesh, config.mesh.rules))
    if config.backbone.get("scan", False):
        # Decoding walks layer by layer, and one device has no use for a stack.
        config = ConfigDict(config.to_dict())
        config.backbone.scan = False
    system = assemble(config, origin.home(folder))
    return Loaded(system, params, step, mesh, tuned.recall(folder, system.task))


class Loaded:
    """A model with its parameters.

    Attributes:
      system: its parts. params: an entry a layer. step: of the checkpoint. mesh: where it lies. tuned: on validation.
    """

    def __init__(self, system: System, params: Any, step: int, mesh: Mesh, tuned: Mapping[str, float] | None = None):
        self.system, self.step, self.mesh, self.tuned = system, step, mesh, dict(tuned or {})
        self.params, self._compiled = checkpoint.split_layers(params), None

    def embed(self, numbers: str | Sequence[str], name: str | None = None) -> np.ndarray:
        """The vector with which a number enters the stack, before positions: float32[D], or [n, D] for a list.

        A number of several positions (sub-words, digits) gets their mean. With `name`, the vectors of that
        numeral embedding before fusion.

        Raises:
          DataError: an entry is not one number.
        """
        found = []
        for text in [numbers] if isinstance(numbers, str) else numbers:
            row = self.system.encode(self.system.scheme.parse(text))
            if len(row.numbers) != 1 or row.numbers[0].surface != text.strip():
                raise DataError(f"{text!r} is not one number: write it alone, such as 3.14 or -1,200")
            found.append(row)
        tokens = self._tokens(found)
        if name is not None:
            vectors = self._apply("embed_numerals", tokens.numerals, _of(tokens.features, name), name=name)[:, 0]
        else:
            x_BTD = self._apply("embed", tokens)
            mine = (np.asarray(tokens.numeral_index) == 0)[..., None]
            vectors = np.where(mine, x_BTD, 0).sum(1) / mine.sum(1)
        return np.asarray(vectors[0] if isinstance(numbers, str) else vectors, np.float32)

    def symbols(self) -> list[Symbol]:
        """The symbols that have tokens of their own, special ones left out.

        Raises:
          UsageError: the scheme has no formulas.
        """
        names = self._trees().symbols.names
        return [
            Symbol(kind, type, symbol, signs.sign(type, symbol))
            for _, (kind, type, symbol) in sorted(names.items())
            if type != "!"
        ]

    def embed_symbols(self, symbols: Sequence[Symbol]) -> np.ndarray:
        """Token and type embeddings of symbols, float32[n, D]: MathGPT's emb_tok + emb_type.

        A model without formulas, such as the GPT baseline, has the mean of the text tokens that spell their LaTeX
        (MathGPT, section 5.1).

        Raises:
          DataError: a symbol without a token; without formulas, one that is not written.
        """
        rows, scheme = [], self.system.scheme
        for one in symbols:
            if scheme.symbols is not None:
                token = self._trees().symbols.of(one.type, one.symbol)
                if token is None:
                    raise DataError(
                        f"{one.type} {one.symbol!r} has no token of its own: see symbols() for those that do"
                    )
                rows.append(_row([token], TYPE_OF[one.kind]))
            elif not (ids := scheme.vocab.encode(one.latex)):
                raise DataError(f"{one.type} {one.symbol!r} is not written: a text model has no vector for it")
            else:
                rows.append(_row(ids))
        tokens = self._tokens(rows)
        x_BTD, mine = self._apply("embed", tokens), (np.asarray(tokens.segment_ids) > 0)[..., None]
        return np.asarray(np.where(mine, x_BTD, 0).sum(1) / mine.sum(1), np.float32)

    def positions(self, count: int, first: int = 0) -> np.ndarray:
        """The learned vectors of places in the sequence, float32[count, D] from place `first` on.

        Raises:
          UsageError: the context is shorter, or the backbone learns none.
        """
        found = [name for name, block in self.system.config.positions.items() if block.name == "learned"]
        if not found:
            raise UsageError("this backbone has no learned positions")
        place = first + self.system.config.positions[found[0]].get("offset", 0)
        table = self.params["backbone"][f"order_{found[0]}"]["places"]
        if place + count > len(table):
            raise UsageError(f"{first + count} positions are more than the context of {len(table)}")
        return processes.fetch(table)[place : place + count].astype(np.float32)

    def nodes(self, formula: str) -> Nodes:
        """A LaTeX formula as the model's tokens stand in its tree; in the sequence it stands at the beginning.

        Raises:
          DataError: it cannot be read as a tree, or the scheme cannot write it. UsageError: as `symbols`.
        """
        self._trees()
        tree = latex.parse(formula)
        if not isinstance(tree, Tree):
            raise DataError(f"the formula {formula[:60]!r} cannot be read: {tree.error} at {tree.at}")
        row = self.system.encode((Formula(formula, tree),))
        inside = slice(1, len(row.ids) - 1)
        vectors = self._apply("added_positions", self._tokens([row]))[0, inside]
        names = [self._name_of(int(i)) for i in row.ids[inside]]
        return Nodes(names, row.channels[TREE_POSITIONS.name][inside], np.asarray(vectors, np.float32))

    def read(self, record: Mapping[str, Any] | str) -> Reading:
        """What each layer of an encoder makes of a record (of a text that is read in windows, its first).

        Raises:
          DataError: a record that cannot be used. UsageError: the model is no encoder.
        """
        self._check_encoder()
        encoded = self._encode([{"text": record} if isinstance(record, str) else record])
        encoded.masking = None  # in pre-training something would be hidden from it
        row, vocab = encoded.rows[0], self.system.scheme.vocab
        batch = shard.put(next(iter(self._loader(encoded).epoch(self._rows(encoded)))), self.mesh)
        with jax.sharding.use_abstract_mesh(self.mesh.abstract_mesh):
            layers = processes.fetch(_layers(self.system.model, self.params, batch))[:, 0, : len(row.ids)]
        tokens = []
        for token, number in zip(row.ids.tolist(), row.numeral_index.tolist(), strict=True):
            mark = vocab.mark_name(token)  # type: ignore[attr-defined]
            name = vocab.decode([token]).strip() if mark is None else mark
            tokens.append(f"⟨{row.surfaces[number]}⟩" if mark == "[NUM]" and number >= 0 else name)
        types = row.channels.get(TYPES.name, np.zeros(len(row.ids), np.int32)).reshape(len(row.ids), -1)[:, 0]
        return Reading(tokens, types, row.numeral_index, row.surfaces, layers.astype(np.float32))

    def attention(self, record: Mapping[str, Any] | str | Reading, layer: int = -2) -> np.ndarray:
        """Attention weights of an encoder's layer, float64[H, T, T]: how much position t looks at each other.

        Args:
          record: what the task reads, or what `read` made of it. layer: from 0, or from the end: the last but one, as
            in LUNA's Fig. 3.

        Raises:
          UsageError: the model is no encoder, has no such layer, or attends otherwise than BERT.
        """
        self._check_encoder()
        stack: Any = self.system.model.backbone
        turned = [name for name, part in stack.positions.items() if part.provides("angles") or part.provides("bias")]
        own = [name for name in ("qk_norm", "window", "kv_heads") if getattr(stack, name)]
        own += ["norm_place"] if stack.norm_place != "post" else [] if stack.scaled else ["scaled"]
        if turned or own:
            what = f"positions {turned[0]!r}" if turned else f"backbone.{own[0]}"
            raise UsageError(f"weights are shown of attention as in BERT, which {what} changes")
        reading = record if isinstance(record, Reading) else self.read(record)
        count = len(reading.layers) - 1
        if not -count <= layer < count:
            raise UsageError(f"layer={layer}: there are {count}, from 0 on or from −1 backwards")
        params = self.params["backbone"][f"layer_{layer % count}"]
        return attention.weights(reading.layers[layer % count], jax.tree.map(processes.fetch, dict(params)))

    def score(self, records: Mapping[str, Any] | str | Sequence[Mapping[str, Any] | str]) -> Any:
        """Probabilities of a classifier's labels, float32[classes], a language model's log-likelihood, or the
        probability of the span that is predicted.

        Args:
          records: what the task reads, such as {"question": "How many grams are 2 eggs?", "answer": "80"}; a
            text stands for {"text": …}. One, or a list of them.

        Returns:
          For one record, its value; for a list, an array or a list.
        """
        alone = isinstance(records, str | Mapping)
        if not (many := [records] if alone else list(records)):  # type: ignore[list-item]
            return np.zeros(0, np.float32)
        self._check_said("score")
        encoded = self._encode([{"text": r} if isinstance(r, str) else dict(r) for r in many])
        if self.system.task.kind == "classify":
            _, log_probs = self._evaluate(encoded)
            out = np.exp(np.stack([log_probs[i] for i in range(len(many))]))
        elif self.system.task.kind in ("span", "units"):
            found, extra = self._said(encoded)
            out = np.asarray([extra[i]["confidence"] for i in sorted(found)], np.float32)
        else:
            batches_ = self._loader(encoded).epoch(self._rows(encoded))
            out = log_likelihoods(self.system, self.params, self.mesh, batches_, len(encoded))
        return out[0] if alone else out

    def generate(self, prompts: str | Sequence[str], **options: Any) -> Any:
        """Continuations of one prompt or several; see `evals.generate.generate` for options and results."""
        from numjax.evals.generate import generate

        settings = self.system.config.decode.to_dict() | options
        results = generate(self.system, self.params, [prompts] if isinstance(prompts, str) else prompts, **settings)
        return results[0] if isinstance(prompts, str) else results

    def predict(
        self, records: Sequence[Mapping[str, Any]], strict: bool = False, skipped: list | None = None
    ) -> list[dict[str, Any]]:
        """What the task makes of records: {"id", "prediction", …} each, in order, with "shortened" where one is not
        read whole; bad ones go to `skipped`.

        Raises:
          UsageError: the run is a pre-training, which predicts nothing.
        """
        self._check_said("predict")
        if not len(encoded := self._encode(records, strict, skipped)):
            return []
        if self.system.task.generates:
            from numjax.evals.generate import predict

            found, extra = predict(self.system, self.params, encoded)
        else:
            found, extra = self._said(encoded)
        rows = ((i, {"id": encoded.example(i).id, "prediction": found[i]}) for i in sorted(found))
        return [row | extra.get(i, {}) | encoded.unread(i) for i, row in rows]

    def _check_said(self, what: str) -> None:
        # What is masked is drawn by an example's place: a likelihood of it would be of that draw.
        if self.system.task.kind == "masked":
            raise UsageError(
                f"there is nothing to {what}: the run only pre-trains; train a task from it (config.init_from), or, "
                "of an encoder, see `read` and `attention`"
            )

    def _said(self, encoded: Encoded) -> tuple[dict[int, Any], dict[int, dict[str, Any]]]:
        task = self.system.task
        read = functools.partial(task.read, **self.tuned) if task.provides("read") else None
        return report.predicted(encoded, self._evaluate(encoded)[1], read)

    def compiled(self, encoded: Encoded) -> Compiled:
        """The jitted functions, made once: what `encoded` is changes `init` alone, which is not called here."""
        if self._compiled is None:
            self._compiled = make_compiled(self.system, self.mesh, self._loader(encoded).example_batch(), steps=1)
        return self._compiled

    def _check_encoder(self) -> None:
        if (name := self.system.config.backbone.name) != "encoder":
            raise UsageError(f"backbone {name} is no encoder: load a run of configs/luna.py or dice.py:task=squad")

    def _trees(self) -> Any:
        """The scheme, which must be one with trees."""
        if self.system.scheme.symbols is None:
            raise UsageError(f"scheme {self.system.config.scheme.name} has no formulas: load a run of MathGPT")
        return self.system.scheme

    def _name_of(self, token: int) -> str:
        scheme = self._trees()
        _, type, symbol = scheme.symbols.names.get(token, ("", "", ""))
        if not type:
            return scheme.vocab.decode([token])
        return symbol.rpartition(" ")[2].lower() if type == "!" else signs.sign(type, symbol)

    def _tokens(self, rows: Sequence[Features]) -> Any:
        """Whole rows as the model reads them."""
        known = self.system.config.data.digits, self.system.host_features, self.system.channels
        return batches.from_features(rows, *known).inputs

    def _encode(self, records, strict=False, skipped=None) -> Encoded:
        kept = [{"id": f"record-{i}"} | dict(record) for i, record in enumerate(records)]
        encoded = self.system.encode_split(kept, features.INPUT, strict or skipped is None)
        if skipped is not None:
            skipped += encoded.skipped
        elif encoded.shortened:  # whoever asks for values alone is told on the way
            name, lost = next(iter(encoded.shortened.values()))
            log.say(f"{len(encoded.shortened)} of {len(kept)} records not read whole, the first is {name}: {lost}")
        return encoded

    def _loader(self, encoded: Encoded) -> Loader:
        return reader(self.system, encoded, self.mesh)

    def _evaluate(self, encoded: Encoded):
        batches_ = self._loader(encoded).epoch(self._rows(encoded))
        return evaluate(self.system, self.compiled(encoded), self.params, batches_)

    def _rows(self, encoded: Encoded) -> int:
        """Rows of a batch: no more than there are; the loader rounds them up to what the mesh splits evenly."""
        return min(len(encoded), self.system.config.eval.batch_size)

    def _apply(self, method: str, *args: Any, name: str | None = None) -> np.ndarray:
        placed = shard.place(args, shard.replicated(self.mesh))
        return processes.fetch(_jitted(self.system.model, method, self.params, *placed, name=name))


def _row(ids: Sequence[int], type: int = 0) -> Features:
    """Tokens of one type that stand in no tree."""
    count = len(ids)
    none = np.full(count, -1, np.int32)
    types, places = np.full(count, type, np.int32), np.full((count, 1), -1, np.int32)
    channels = {TYPES.name: types, TREE_POSITIONS.name: places}
    return Features(np.asarray(ids, np.int32), none, (), (0, count), np.zeros(count + 1, np.int32), channels)


@functools.partial(jax.jit, static_argnames=("model", "method", "name"))
def _jitted(model, method, params, *args, name=None):
    return model.apply({"params": params}, *args, *([] if name is None else [name]), method=method)


@functools.partial(jax.jit, static_argnames="model")
def _layers(model, params, batch):
    """The embedding and every layer's output, [L + 1, B, T, D]."""
    _, acts = model.apply({"params": params}, batch)
    return jnp.stack([acts["embedded"], *(acts[f"layer_{i}"] for i in range(model.backbone.layers))])


def _mesh(config: Any) -> Mesh:
    """The config's mesh where these devices make it up, else all of them side by side."""
    try:
        return shard.mesh_of(config)
    except UsageError:
        return shard.make_mesh()


def _of(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {k.split("/", 1)[1]: v for k, v in found.items() if k.startswith(f"{name}/")}
