"""The jitted functions of a run, made once and shared by its seeds, and the shardings of their arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from numjax.model import Model
from numjax.nn import parallel
from numjax.runtime import shard
from numjax.system import System
from numjax.train import optim
from numjax.train.step import compiler_options, eval_step, find_teacher_objective, init_state, train_step
from numjax.types import Batch, TrainState


class Compiled(NamedTuple):
    """Functions over global arrays on one mesh.

    Attributes:
      mesh: the devices.
      abstract_state: shapes, types and layouts of the state.
      init: seed → TrainState.
      step: (seed, learning rate, TrainState, Batch) → (TrainState, metrics); the state is donated.
      evaluate: (params, Batch) → (metrics, head name → predictions, the batch's example_id and valid), all
        replicated; donates nothing.
    """

    mesh: Mesh
    abstract_state: TrainState
    init: Callable[[Any], TrainState]
    step: Callable[[Any, Any, TrainState, Batch], tuple[TrainState, Any]]
    evaluate: Callable[[Any, Batch], tuple[Any, Any, Any, Any]]


def make_compiled(system: System, mesh: Mesh, batch: Batch) -> Compiled:
    """Chooses the sharding of the state and jits the steps; nothing is compiled before the first call. They depend on
    no learning rate, schedule or number of steps.

    Args:
      system: the parts.
      mesh: the devices.
      batch: a batch of the run, or its shapes.

    Raises:
      UsageError: there is no such schedule. A run would say so only after its model is made.
    """
    config = system.config
    optim.check_schedule(config.optim.schedule)
    options: dict[str, Any] = {k: config.optim[k] for k in ("weight_decay", "betas", "clip")}
    rates, weight_decays = (tuple(config.optim.get(name, ())) for name in ("rates", "weight_decays"))
    options |= {"rates": rates, "weight_decays": weight_decays}

    def step(seed, rate, state, batch):
        optimizer = optim.adamw(lambda count: rate, **options)
        parts = system.model, system.objectives, system.weights, optimizer, lambda count: rate
        return train_step(*parts, config.optim.accumulate, seed, state, batch, rates=rates)

    def init(seed):
        optimizer = optim.adamw(lambda count: 0.0, **options)
        # Parameters depend only on the shapes of the batch, so zeros replace it and are no argument of the call. With
        # NumPy zeros, JAX would compute arrays such as a mask of rows × positions × positions while it traces.
        blank = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), batch)
        return init_state(system.model, optimizer, blank, seed, find_teacher_objective(system.objectives) is not None)

    # Jitted and called with a Python number as later: so the model is traced once for both shapes and parameters.
    shapes = jax.eval_shape(jax.jit(init), 0)
    layout = shard.shardings(shapes, mesh, config.mesh.rules)
    abstract = jax.tree.map(
        lambda s, sharding: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=sharding), shapes, layout
    )
    rows, everywhere = shard.batch_sharding(mesh), shard.replicated(mesh)
    platform = with_mesh(mesh, parallel.platform)()
    score = with_mesh(mesh, eval_step, system.model, system.objectives, system.weights)

    def evaluate(params, batch):
        return (*score(params, batch), batch.example_id, batch.valid)

    return Compiled(
        mesh=mesh,
        abstract_state=abstract,
        init=jax.jit(init, out_shardings=layout),
        step=jax.jit(
            with_mesh(mesh, step),
            in_shardings=(everywhere, everywhere, layout, rows),
            out_shardings=(layout, everywhere),
            donate_argnums=(2,),
            compiler_options=compiler_options(platform),
        ),
        evaluate=jax.jit(evaluate, in_shardings=(layout.params, rows), out_shardings=everywhere),
    )


def with_mesh(mesh: Mesh, function: Callable, *first_args: Any) -> Callable:
    """`function` with its first arguments bound, traced under the mesh: see `nn.parallel`."""

    def traced(*other_args):
        with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
            return function(*first_args, *other_args)

    return traced


def count_parameters(abstract_state: TrainState) -> int:
    """Number of parameters of the model."""
    return sum(x.size for x in jax.tree.leaves(abstract_state.params))


def flops_per_token(model: Model, abstract_state: TrainState, length: int, source: int = 0) -> float:
    """Model FLOPs of a training step per token: 6 · parameters that multiply + 12 · layers · D · T.

    Embedding tables do not count unless a head is tied to them; attention counts as if it
    were not causal (the usual convention). With an encoder it is the mean over the tokens of both sides, `source`
    tokens of the encoder for every `length` of the decoder: each token passes its own stack, and those of the decoder
    also attend to the source.
    """
    multiply = ("kernel", "table") if any(head.tied for head in model.heads.values()) else "kernel"
    leaves = jax.tree_util.tree_leaves_with_path(abstract_state.params)
    sizes = [(shard.path_name(path), x.size) for path, x in leaves if shard.path_name(path).endswith(multiply)]
    width, layers = model.backbone.width, model.backbone.layers
    if not source:
        return 6.0 * sum(size for _, size in sizes) + 12.0 * layers * width * length
    encoder_size = sum(size for name, size in sizes if "/encoder/" in name or name.endswith("cross_kv_kernel"))
    decoder_size = sum(size for _, size in sizes) - encoder_size
    encoder = model.backbone.encoder_layers or layers
    total = source * (6.0 * encoder_size + 12.0 * encoder * width * source)
    total += length * (6.0 * decoder_size + 12.0 * layers * width * (length + source))
    return total / (length + source)
