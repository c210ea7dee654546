"""Options of parts that are out of range: one line instead of a stack trace, a NaN or another model."""

from __future__ import annotations

from decimal import Decimal

import jax
import numpy as np
import pytest

from numjax.build import build
from numjax.bundled.configs import gpt, mathgpt, numgpt
from numjax.config import fit
from numjax.errors import UsageError
from numjax.numeral.exact import to_numeral
from numjax.tasks import equation_extraction, generation
from tests import drawn


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ({"name": "prototype", "low": 20}, "prototype: low must not be above high, not 20 and 12"),
        ({"name": "prototype", "sigma": 0.0}, "prototype: sigma must be above 0"),
        ({"name": "fone", "integer": 0, "fraction": 0}, "fone: places must be at least 1, not 0"),
        ({"name": "fone", "integer": -1}, "fone: integer must be at least 0"),
        ({"name": "value", "dim": 0}, "value: dim must be at least 1"),
        *(
            ({"name": name, "dim": -1}, f"{name}: dim must be at least 1, not -1")
            for name in ("char_cnn", "char_lstm", "char_former", "dice_linear", "digit_sum")
        ),
        ({"name": "char_lstm", "char_dim": 0}, "char_lstm: char_dim must be at least 1"),
        ({"name": "digit_sum", "longest": 0}, "digit_sum: longest must be at least 1"),
        ({"name": "value_mlp", "dim": 0}, "value_mlp: dim must be at least 1"),
        ({"name": "value_mlp", "hidden": -1}, "value_mlp: hidden must be at least 0, not -1"),
        ({"name": "intseq", "hidden": -1}, "intseq: hidden must be at least 0"),
        ({"name": "dice_linear", "sphere": 0}, "dice_linear: sphere must be at least 1"),
        ({"name": "dice_linear", "seed": -1}, "dice_linear: seed must be at least 0"),
        ({"name": "char_cnn", "sizes": ()}, r"char_cnn: sizes must be different numbers from 1, not \(\)"),
        ({"name": "char_cnn", "sizes": (0,)}, "char_cnn: sizes must be"),
        ({"name": "char_cnn", "sizes": (2, 2)}, "char_cnn: sizes must be"),
        ({"name": "char_cnn", "filters": 0}, "char_cnn: filters must be at least 1"),
        ({"name": "char_cnn", "length": 0}, "char_cnn: length must be at least 1"),
        ({"name": "char_lstm", "layers": 0}, "char_lstm: layers must be at least 1"),
        ({"name": "char_lstm", "hidden": 0}, "char_lstm: hidden must be at least 1"),
        ({"name": "char_former", "layers": 0}, "char_former: layers must be at least 1"),
        ({"name": "char_former", "heads": 0}, "char_former: heads must be at least 1"),
        ({"name": "char_former", "length": 0}, "char_former: length must be at least 1"),
        ({"name": "ple", "edges": ("a", "b")}, "ple: edges must be numbers"),
    ],
)
def test_embeddings(block, says):
    numbers = to_numeral([Decimal(7), Decimal("0.5")], drawn.DIGITS)
    with pytest.raises(UsageError, match=says):
        build("embed", block, **drawn.CONTEXT | {"dim": 16}).init(jax.random.key(0), numbers)


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ({"name": "xval", "share": 1.5}, "xval: share must lie between 0 and 1, not 1.5"),
        ({"name": "xval", "hidden": -1}, "xval: hidden must be at least 0"),
        ({"name": "mixture", "low": 5, "high": 1}, "mixture: low must not be above high, and scale above 0"),
        ({"name": "mixture", "scale": 0.0}, "mixture: low must not be above high, and scale above 0"),
        *(({"name": n, "integer": 0, "fraction": 0}, f"{n}: places must be at least 1") for n in ("carry", "fone")),
        *(({"name": n, "fraction": -1}, f"{n}: fraction must be at least 0") for n in ("carry", "fone")),
    ],
)
def test_heads(block, says, rng):
    batch = drawn.draw_batch(rng)
    hidden = np.zeros((*batch.inputs.ids.shape, 16), np.float32)
    with pytest.raises(UsageError, match=says):
        build("heads", block, **drawn.CONTEXT).init(
            jax.random.key(0), hidden, batch.inputs, np.zeros((drawn.VOCAB, 16), np.float32)
        )


@pytest.mark.parametrize("option", ["kv_heads", "head_size", "mlp_ratio", "mlp_width", "window"])
def test_backbones(option):
    backbone = drawn.build_backbone(drawn.DECODER | {option: -1})
    with pytest.raises(UsageError, match=rf"backbone\.{option}=-1 must be at least 0"):
        backbone.layer_options(causal=True)


@pytest.mark.parametrize(("option", "value"), [("trained", 0), ("trained", -5), ("fast", 0.0)])
def test_longer_texts_of_rope(option, value, rng):
    block = {"name": "rope", "scaling": "yarn", "factor": 2.0, option: value}
    backbone = drawn.build_backbone(drawn.DECODER, {"sequence": block})
    tokens, _ = drawn.draw_tokens(rng)
    with pytest.raises(UsageError, match=f"positions rope: {option} must be at least"):
        backbone.init(jax.random.key(0), np.zeros((*tokens.ids.shape, 16), np.float32), tokens)


def change(config, **paths):
    for path, value in paths.items():
        config.update_from_flattened_dict({path.replace("__", "."): value})
    return config


@pytest.mark.parametrize("rate", [1.0, 1.5, -1.0])
def test_dropout_of_any_part(rate):
    config = numgpt.get_config("smoke")
    config.embeds.numeral = {"name": "char_former", "dropout": rate}
    with pytest.raises(
        UsageError, match=rf"config\.embeds\.numeral\.dropout={rate:g} must be a number from 0, below 1"
    ):
        fit.check(config, generation.Task())


@pytest.mark.parametrize("dtype", ["int8", "float64", "foo"])
def test_precisions(dtype):
    config = change(gpt.get_config("smoke"), backbone__dtype=dtype)
    with pytest.raises(
        UsageError, match=rf"config\.backbone\.dtype='{dtype}' must be one of auto, float32, bfloat16"
    ):
        fit.check(config, generation.Task())


def test_packed_rows_need_attention_that_knows_of_them():
    """Otherwise a text sees the texts before it in its row."""
    config = mathgpt.get_config("smoke,task=equation")
    task = equation_extraction.Task()
    assert not list(fit.find_faults(config, task))
    config.data.pack = True
    (line,) = fit.find_faults(config, task)
    assert line.startswith("data.pack puts several texts into a row") and line.endswith("set backbone.packed=True")
    config.backbone.packed = True
    assert not list(fit.find_faults(config, task))
