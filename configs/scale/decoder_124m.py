"""A GPT-2-shaped decoder of 124M parameters: 12 layers × 768, 12 heads, 1024 positions.

    numjax train --config=scale/decoder_124m --config.task.path=FOLDER --workdir=DIR
    numjax compile --config=scale/decoder_124m --config.topology=v5e:4x4 --workdir=DIR   # a plan for chips you lack

Its plans are in experiments/scale/README.md. Argument: system=gpt|numgpt (numbers as text, or as numbers).
"""

from __future__ import annotations

from numjax.bundled.configs.scale import sizes
from numjax.config.recipe import Recipe

DECODER = sizes.make_decoder(width=768, layers=12, heads=12, length=1024, rows=128, fsdp=1, remat="none")

get_config = Recipe(system=DECODER, parts={"system": sizes.SYSTEMS})
