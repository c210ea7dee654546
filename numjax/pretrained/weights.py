"""Weight files as Hugging Face writes them: a .safetensors file, or a folder with one or with shards and an index."""

from __future__ import annotations

import math
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from numjax.errors import UsageError
from numjax.runtime import files

FILE = "model.safetensors"
INDEX = "model.safetensors.index.json"

# Heads that published files hold beside the stack; output tables that are tied to the tokens' vectors are among them.
_HEADS = re.compile(
    r"(lm_head|cls|pooler|qa_outputs|classifier|classification_head|multiple_choice_head|score|v_head|linear|loss_fct)\."
)
# Hugging Face's name of an activation → that of `backbone.mlp`.
ACTIVATIONS = dict(relu="relu", silu="silu", swish="silu", gelu="gelu", gelu_python="gelu") | dict.fromkeys(
    ("gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh"), "gelu_tanh"
)
# Settings of config.json of which numjax has only this value.
FIXED = {"position_embedding_type": "absolute", "scale_embedding": False, "scale_attn_by_inverse_layer_idx": False,
         "scale_attn_weights": True}  # fmt: skip


def has_weights(path: pathlib.Path) -> bool:
    """Whether a path is a .safetensors file, or a folder with one, whole or in shards."""
    return path.suffix == ".safetensors" or (path / FILE).is_file() or (path / INDEX).is_file()


def load_params(
    path: pathlib.Path, to_params: Callable[[Mapping[str, np.ndarray], int], dict[str, Any]], heads: int
) -> dict[str, Any]:
    """Loads the tensors and converts them to parameters.

    Raises:
      UsageError: the file cannot be read, or its tensors are not the model's.
    """
    tensors = load_tensors(path)
    try:
        return to_params(tensors, heads)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    except (ValueError, IndexError) as error:
        raise UsageError(f"{path}: a tensor has not the shape of the model's: {error}") from None


def load_tensors(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Loads the tensors by name.

    Raises:
      UsageError: the file cannot be read, or the index of the shards is wrong.
    """
    if path.suffix == ".safetensors" or not (path / INDEX).is_file():
        return _load_file(path if path.suffix == ".safetensors" else path / FILE)
    tensors: dict[str, np.ndarray] = {}
    for shard, names in read_index(path).items():
        shard_tensors = _load_file(path / shard)
        if missing := [name for name in names if name not in shard_tensors]:
            raise UsageError(f"{path / INDEX}: {shard} has no tensor {missing[0]!r}: fetch the folder again")
        tensors |= {name: shard_tensors[name] for name in names}
    return tensors


def read_index(folder: pathlib.Path) -> dict[str, list[str]]:
    """The names of the tensors of each shard, from the index of a folder: {"weight_map": {tensor: file}}.

    Raises:
      UsageError: it has another form, or names a file outside the folder.
    """
    path = folder / INDEX
    try:
        index = files.parse_json(path.read_bytes())
        shards: dict[str, list[str]] = {}
        for name, shard in index["weight_map"].items():
            shards.setdefault(files.check_name(shard), []).append(name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise UsageError(f"{path} is no index of safetensors: {reason}") from None
    return shards


def take_tensor(tensors: Mapping[str, np.ndarray], name: str, model_name: str) -> np.ndarray:
    """The tensor of a name, float32.

    Raises:
      UsageError: there is none, or its numbers are no floats.
    """
    if name not in tensors:
        raise UsageError(f"not {model_name}'s weights: there is no tensor {name!r}")
    if not jnp.issubdtype(tensors[name].dtype, jnp.floating):
        raise UsageError(f"not {model_name}'s weights: the tensor {name!r} is {tensors[name].dtype}, not float")
    return np.asarray(tensors[name], np.float32)


def refuse_unused(names: Iterable[str], ignored: str, model_name: str) -> None:
    """Checks the tensors that no parameter is made from: unless they are known not to matter, it is another model.

    Args:
      names: of these tensors. ignored: pattern of the names that may be left out beside heads.

    Raises:
      UsageError: a tensor is neither a head's nor ignored.
    """
    if unused := sorted(name for name in names if not (_HEADS.match(name) or re.fullmatch(ignored, name))):
        raise UsageError(
            f"not {model_name}'s weights: {len(unused)} tensors have no place there, the first is {unused[0]!r}"
        )


def _load_file(path: pathlib.Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    if not path.is_file():
        raise UsageError(f"{path} is not there, or is no file")
    try:
        return load_file(path)
    except Exception as error:  # safetensors' error type is private
        raise UsageError(f"{path} cannot be read as safetensors: {type(error).__name__}: {error}") from None


def check_config(path: pathlib.Path, heads: int, *names: str) -> None:
    """Checks config.json beside the tensors, if there is one: the number of heads, which no tensor says, and `FIXED`.

    Args:
      names: the keys of config.json for the number of heads; missing keys are ignored.

    Raises:
      UsageError: config.json has another number of heads, or a setting that numjax lacks.
    """
    folder, config = _read_config(path)
    for name in names:
        if config.get(name, heads) != heads:
            config_heads = config[name]
            raise UsageError(
                f"{folder}: its model has {config_heads} heads and this config {heads}: set config.backbone.heads"
            )
    for name, value in FIXED.items():
        if config.get(name) not in (None, value):
            raise UsageError(f"{folder}: its model has {name}={config[name]!r}, and numjax reads only {value!r}")


def check_layers(path: pathlib.Path, backbone: Any) -> None:
    """Checks a backbone's activation and the norms' ε against config.json beside the tensors, if there is one.

    Raises:
      UsageError: config.json has others, which give other numbers.
    """
    folder, config = _read_config(path)
    for name in ("hidden_act", "activation_function", "feed_forward_proj"):
        if (value := config.get(name)) is None:
            continue
        is_gated = str(value).startswith("gated-")
        # T5's gated gelu is the tanh form.
        act = ACTIVATIONS.get("gelu_new" if value == "gated-gelu" else str(value).removeprefix("gated-"))
        mlp = backbone.layer_options(causal=False).mlp
        if (act, is_gated) != (mlp.act, mlp.gated):
            advice = f"set config.backbone.mlp={act!r} and gated={is_gated}" if act else "numjax lacks it"
            raise UsageError(
                f"{folder}: its model has {name}={value!r} and this config mlp={mlp.act!r} and gated={mlp.gated}: "
                f"{advice}"
            )
    for name in ("layer_norm_eps", "layer_norm_epsilon"):
        if (value := config.get(name)) is None:
            continue
        epsilon = backbone.layer_options(causal=False).norm.epsilon
        if not isinstance(value, int | float) or not math.isclose(value, epsilon):
            raise UsageError(
                f"{folder}: its model has {name}={value!r} and this config norm_epsilon={epsilon}: set "
                "config.backbone.norm_epsilon"
            )


def check_function(path: pathlib.Path, backbone: Any, scaled: bool, offsets: Mapping[str, int]) -> None:
    """Checks what the tensors' shapes do not say about attention and positions, and what gives other numbers.

    Args:
      scaled: whether the model's attention divides its scores by √E. offsets: config.json's "model_type" → the rows
        of a learned position table before the first position's; "" is for any other, and for a folder without one.

    Raises:
      UsageError: the backbone differs.
    """
    folder, config = _read_config(path)
    if backbone.scaled != scaled:
        raise UsageError(
            f"{folder}: its model has attention whose scores are {'' if scaled else 'not '}divided by the root of "
            f"the head's size: set config.backbone.scaled={scaled}"
        )
    offset = offsets.get(str(config.get("model_type", "")), offsets.get(""))
    furthest = config.get("relative_attention_max_distance")
    for name, part in backbone.positions.items():
        if furthest is not None and part.part_name() == "relative" and part.furthest != furthest:
            raise UsageError(
                f"{folder}: its model has relative_attention_max_distance={furthest!r} and this config "
                f"furthest={part.furthest}: set config.positions.{name}.furthest"
            )
        if offset is not None and part.part_name() == "learned" and part.offset != offset:
            raise UsageError(
                f"{folder}: its model's first position is row {offset} of its table, and here row {part.offset}: set "
                f"config.positions.{name}.offset={offset}"
            )


def _read_config(path: pathlib.Path) -> tuple[pathlib.Path, Mapping[str, Any]]:
    """(the folder of the tensors, its config.json; empty if there is none)."""
    folder = path.parent if path.suffix == ".safetensors" else path
    try:
        config = files.parse_json((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return folder, {}
    return folder, config if isinstance(config, dict) else {}


def save_tensors(path: pathlib.Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes a .safetensors file that `transformers` can read."""
    from safetensors.numpy import save_file

    save_file(dict(tensors), path, metadata={"format": "pt"})
