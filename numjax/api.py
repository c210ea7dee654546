"""What notebooks use: `model = numjax.load(workdir)`, then embed, score, generate, predict."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from ml_collections import ConfigDict

from numjax.config import origin
from numjax.errors import DataError, UsageError
from numjax.evals import report, tuned
from numjax.evals.score import evaluate, log_likelihoods
from numjax.pipeline import batch as batches
from numjax.pipeline import features, packing
from numjax.pipeline.loader import Encoded, Loader
from numjax.runtime import log, processes, shard
from numjax.runtime.waiting import Wait
from numjax.system import System, assemble, make_loader
from numjax.train import checkpoint, inherit
from numjax.train.compile import Compiled, make_compiled
from numjax.types import Features


def load(workdir: str | pathlib.Path, config: Any = None, trust: bool = False) -> Loaded:
    """The model of a finished (or running) workdir: its best checkpoint, else its newest.

    Args:
      workdir: the folder that `numjax train --workdir=…` wrote; with several seeds, one of its seed_N.
      config: the config, if it is loaded already.
      trust: run modules outside numjax that the workdir's config names.

    Raises:
      UsageError: the folder holds no run, or its config names modules outside numjax and `trust` is not set.
    """
    folder = pathlib.Path(workdir).expanduser()
    config = origin.get_config(folder, trust) if config is None else config
    mesh = _mesh(config)
    with Wait(f"loading {folder}"):
        params, step = inherit.read_params(folder, lambda shapes: shard.shardings(shapes, mesh, config.mesh.rules))
    if config.backbone.get("scan", False):
        # Decoding goes layer by layer, and one device gains nothing from stacked layers.
        config = ConfigDict(config.to_dict())
        config.backbone.scan = False
    system = assemble(config, origin.home(folder))
    return Loaded(system, params, step, mesh, tuned.load(folder, system.task), str(folder))


# Methods of 0.1 that are functions now; remove the messages in 0.3.
MOVED = {
    "symbols": "numjax.inspect.list_symbols(model)",
    "embed_symbols": "numjax.inspect.embed_symbols(model, symbols)",
    "positions": "numjax.inspect.embed_positions(model, count, first)",
    "nodes": "numjax.inspect.embed_nodes(model, formula)",
    "read": "numjax.inspect.read_activations(model, record)",
    "attention": "numjax.inspect.attention_weights(model, record, layer)",
}


def _refuse_other_config(method: Callable) -> Callable:
    """`method` of a Loaded, which refuses parameters that are not of its config."""

    @functools.wraps(method)
    def call(self: Loaded, *args: Any, **options: Any) -> Any:
        with inherit.refuse_other_config(self.name):
            return method(self, *args, **options)

    return call


class Loaded:
    """A model with its parameters, and the methods that every model has. `numjax.inspect` has functions for one kind
    of model.

    Attributes:
      system: its parts. params: parameters with one entry per layer. step: step of the checkpoint. mesh: the devices
        that hold the parameters. tuned: values that the task chose on validation. name: its workdir.
    """

    def __init__(
        self,
        system: System,
        params: Any,
        step: int,
        mesh: Mesh,
        tuned: Mapping[str, float] | None = None,
        name: str = "the model",
    ):
        self.system, self.step, self.mesh, self.tuned, self.name = system, step, mesh, dict(tuned or {}), name
        self.params, self._compiled = checkpoint.split_layers(params), None

    def __getattr__(self, name: str) -> Any:
        moved = f" is a function now: {MOVED[name]}" if name in MOVED else ""
        raise AttributeError(f"a loaded model has no {name!r}" if not moved else f"{name!r}{moved}")

    @_refuse_other_config
    def embed(self, numbers: str | Sequence[str], name: str | None = None) -> np.ndarray:
        """The vector of a number at the input of the stack, before positions: float32[D], or [n, D] for a list.

        A number of several positions (sub-words, digits) gets their mean. With `name`, it is the vector of that
        numeral embedding before fusion.

        Raises:
          DataError: an entry is not one number.
        """
        rows = []
        for text in [numbers] if isinstance(numbers, str) else numbers:
            row = self.system.encode(self.system.scheme.parse(text))
            if len(row.numbers) != 1 or row.numbers[0].surface != text.strip():
                raise DataError(f"{text!r} is not one number: write it alone, such as 3.14 or -1,200")
            rows.append(row)
        tokens = self.make_inputs(rows)
        if name is not None:
            vectors = self.apply("embed_numerals", tokens.numerals, _features_of(tokens.features, name), name=name)[
                :, 0
            ]
        else:
            x_BTD = self.apply("embed", tokens)
            # Where no position has the value, all of the row spell it.
            at_value, is_read = np.asarray(tokens.numeral_index) == 0, np.asarray(tokens.segment_ids) > 0
            weights = np.where(at_value.any(-1, keepdims=True), at_value, is_read)[..., None]
            vectors = np.where(weights, x_BTD, 0).sum(1) / weights.sum(1)
        return np.asarray(vectors[0] if isinstance(numbers, str) else vectors, np.float32)

    @_refuse_other_config
    def score(self, records: Mapping[str, Any] | str | Sequence[Mapping[str, Any] | str]) -> Any:
        """Probabilities of a classifier's labels, float32[classes], a language model's log-likelihood, or the
        probability of the predicted span.

        Args:
          records: one record or a list of them. A record has the task's fields, such as
            {"question": "How many grams are 2 eggs?", "answer": "80"}; a text means {"text": …}.

        Returns:
          The value of one record; for a list, an array of values.
        """
        is_single = isinstance(records, str | Mapping)
        if not (record_list := [records] if is_single else list(records)):  # type: ignore[list-item]
            return np.zeros(0, np.float32)
        self._check_can_predict("score")
        encoded = self.encode([{"text": r} if isinstance(r, str) else dict(r) for r in record_list], writes=False)
        if self.system.task.kind == "classify":
            _, log_probs = self._evaluate(encoded)
            out = np.exp(np.stack([log_probs[i] for i in range(len(record_list))]))
        elif self.system.task.kind in ("span", "units"):
            predictions, extra = self._predict_rows(encoded)
            out = np.asarray([extra[i]["confidence"] for i in sorted(predictions)], np.float32)
        else:
            values = log_likelihoods(self.system, self.params, self.mesh, self.batches(encoded), len(encoded))
            # A long text may be several rows.
            out = np.bincount(encoded.origin, values, len(record_list)).astype(np.float32)
        return out[0] if is_single else out

    @_refuse_other_config
    def generate(self, prompts: str | Sequence[str], **options: Any) -> Any:
        """A `Generation` for one prompt, a list of them for several; options as in `evals.generate.generate`."""
        from numjax.evals.generate import generate

        settings = self.system.config.decode.to_dict() | options
        results = generate(self.system, self.params, [prompts] if isinstance(prompts, str) else prompts, **settings)
        return results[0] if isinstance(prompts, str) else results

    @_refuse_other_config
    def predict(
        self, records: Sequence[Mapping[str, Any]], strict: bool = False, skipped: list | None = None
    ) -> list[dict[str, Any]]:
        """The predictions for records: {"id", "prediction", …} each, in order. "shortened" says which part of a
        record was not used; bad records are added to `skipped`.

        Raises:
          UsageError: the run only pre-trains, or only continues texts.
        """
        self._check_can_predict("predict")
        return self.predict_encoded(self.encode(records, strict, skipped))

    def predict_encoded(self, encoded: Encoded) -> list[dict[str, Any]]:
        """`predict` for the rows of `encode`.

        Raises:
          UsageError: as `predict`.
        """
        self._check_can_predict("predict")
        if not len(encoded):
            return []
        if self.system.task.generates:
            from numjax.evals.generate import predict

            predictions, extra = predict(self.system, self.params, encoded)
        else:
            predictions, extra = self._predict_rows(encoded)
        rows = ((i, {"id": encoded.example(i).id, "prediction": predictions[i]}) for i in sorted(predictions))
        return [row | extra.get(i, {}) | encoded.unread(i) for i, row in rows]

    def _check_can_predict(self, action: str) -> None:
        # The masked positions are drawn by the example's index: a likelihood would be that of one random draw.
        if self.system.task.kind == "masked":
            raise UsageError(
                f"there is nothing to {action}: the run only pre-trains; train a task from it (config.init_from), "
                "or, of an encoder, see numjax.inspect.read_activations"
            )
        if action == "predict" and self.system.task.kind == "language_model" and not self.system.task.generates:
            raise UsageError("there is nothing to predict: the run continues texts: use generate, or score")

    def _predict_rows(self, encoded: Encoded) -> tuple[dict[int, Any], dict[int, dict[str, Any]]]:
        task = self.system.task
        make_prediction = (
            functools.partial(task.make_prediction, **self.tuned) if task.provides("make_prediction") else None
        )
        return report.make_predictions(encoded, self._evaluate(encoded)[1], make_prediction)

    def compiled(self, encoded: Encoded) -> Compiled:
        """The jitted functions, made once: only `init` depends on `encoded`, and nothing here calls `init`."""
        if self._compiled is None:
            self._compiled = make_compiled(self.system, self.mesh, self._loader(encoded).example_batch())
        return self._compiled

    def make_inputs(self, rows: Sequence[Features]) -> Any:
        """The model's inputs for encoded rows."""
        arguments = self.system.config.data.digits, self.system.host_features, self.system.channels
        return batches.from_features(rows, *arguments).inputs

    def encode(
        self,
        records: Sequence[Mapping[str, Any]],
        strict: bool = False,
        skipped: list[Any] | None = None,
        writes: bool = True,
    ) -> Encoded:
        """The records as rows, without their labels.

        Args:
          strict: stop at a bad record. skipped: bad records are added to this list; without it they raise an error.
          writes: answers will be generated, so a prompt that leaves no room for one is bad.

        Raises:
          DataError: a record cannot be used.
        """
        named_records = [{"id": f"record-{i}"} | dict(record) for i, record in enumerate(records)]
        is_strict = strict or skipped is None
        encoded = self.system.encode_split(named_records, features.INPUT, is_strict)
        if writes:
            encoded = self.system.leave_room(encoded, features.INPUT, is_strict)
        if skipped is not None:
            skipped += encoded.skipped
        elif encoded.shortened:  # the caller gets values alone, so say it here
            name, reason = next(iter(encoded.shortened.values()))
            log.say(
                f"{len(encoded.shortened)} of {len(named_records)} records not read whole, "
                f"the first is {name}: {reason}"
            )
        return encoded

    def _loader(self, encoded: Encoded) -> Loader:
        # Texts come in any number and length: each shape is compiled once.
        return make_loader(self.system, encoded, self.mesh, few_shapes=True)

    def _evaluate(self, encoded: Encoded):
        size = self.system.config.eval.batch_size
        with Wait("compiling and predicting", len(encoded), "rows") as wait:
            batches = wait.count(self.batches(encoded), size)
            return evaluate(self.system, self.compiled(encoded), self.params, batches)

    def batches(self, encoded: Encoded) -> Iterator[Any]:
        """All rows once, in batches little larger than their number; the loader rounds them up to fit the mesh."""
        batch_size = min(packing.round_up(len(encoded), 1), self.system.config.eval.batch_size)
        return iter(self._loader(encoded).epoch(batch_size))

    def apply(self, method: str, *args: Any, name: str | None = None) -> np.ndarray:
        """The result of a method of the model (`numjax/model.py`), jitted, on the host."""
        device_args = shard.distribute(args, shard.replicated(self.mesh))
        return processes.fetch(_jitted(self.system.model, method, self.params, *device_args, name=name))


@functools.partial(jax.jit, static_argnames=("model", "method", "name"))
def _jitted(model, method, params, *args, name=None):
    return model.apply({"params": params}, *args, *([] if name is None else [name]), method=method)


def _mesh(config: Any) -> Mesh:
    """The config's mesh if it fits these devices, else a mesh of all of them along the axis `data`."""
    try:
        return shard.mesh_from_config(config)
    except UsageError:
        return shard.make_mesh()


def _features_of(features: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {k.split("/", 1)[1]: v for k, v in features.items() if k.startswith(f"{name}/")}
