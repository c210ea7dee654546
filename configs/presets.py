"""Published models as options of the backbone, its positions and the head that predicts tokens.

|            | GPT-2     | BERT, RoBERTa | T5 1.0       | T5 1.1, FLAN     | BART              |
|------------|-----------|---------------|--------------|------------------|-------------------|
| positions  | learned   | learned       | relative     | relative         | learned           |
| norm       | layer     | layer         | rms          | rms              | layer             |
| norm_place | pre       | post          | pre          | pre              | post              |
| embed_norm | no        | yes           | no           | no               | yes               |
| biases     | yes       | yes           | no           | no               | yes               |
| scaled     | yes       | yes           | no           | no               | yes               |
| mlp        | gelu_tanh | gelu          | relu         | gelu_tanh, gated | gelu              |
| its head   | tied      | masked        | tied, scaled | untied           | tied, with a bias |
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Preset(NamedTuple):
    """Blocks of a config, without sizes: the config that uses them sets these."""

    backbone: dict[str, Any]
    positions: dict[str, Any]
    head: dict[str, Any]


_T5: dict[str, Any] = dict(name="encoder_decoder", scaled=False, shrink=False)
_BART: dict[str, Any] = dict(
    name="encoder_decoder",
    norm="layer",
    norm_place="post",
    embed_norm=True,
    biases=True,
    mlp="gelu",
    gated=False,
    initial="normal",
    shrink=False,
)

PRESETS = {
    "gpt2": Preset(dict(name="decoder"), dict(name="learned"), dict(name="token", tied=True)),
    "bert": Preset(dict(name="encoder"), dict(name="learned"), dict(name="masked")),
    "roberta": Preset(
        dict(name="encoder", types=(1,), norm_epsilon=1e-5), dict(name="learned", offset=2), dict(name="masked")
    ),
    "t5": Preset(
        _T5 | dict(mlp="relu", gated=False), dict(name="relative"), dict(name="token", tied=True, scaled=True)
    ),
    "flan": Preset(_T5 | dict(mlp="gelu_tanh", gated=True), dict(name="relative"), dict(name="token", tied=False)),
    "bart": Preset(_BART, dict(name="learned", offset=2), dict(name="token", tied=True, bias=True)),
    # BERT's encoder with a decoder of the same form; the decoder starts from random weights.
    "bert_reader": Preset(
        _BART | dict(norm_epsilon=1e-12), dict(name="learned"), dict(name="token", tied=True, bias=True)
    ),
}
