"""A GPT-2-shaped decoder of 124M parameters: 12 layers × 768, 12 heads, 1024 positions.

    python -m numjax.main --config=configs/scale/decoder_124m.py --config.task.path=FOLDER --workdir=DIR
    … --mode=compile --config.topology=v5e:4x4        plans it for chips that are not there

Plans of it are in experiments/scale/README.md. Argument: numerals (numbers as numbers; off by default).
"""

from __future__ import annotations

from ml_collections import ConfigDict

from configs.scale import sizes


def get_config(argument: str | None = None) -> ConfigDict:
    """128 sequences a step."""
    return sizes.decoder(argument, width=768, layers=12, heads=12, length=1024, rows=128, fsdp=1, remat="none")
