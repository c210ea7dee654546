"""A GPT-2-shaped decoder of 6.7B parameters: 32 layers × 4096, 32 heads, 2048 positions.

    numjax train --config=scale/decoder_7b --config.task.path=FOLDER --workdir=DIR
    numjax compile --config=scale/decoder_7b --config.topology=v5p:8x8x4 --workdir=DIR   # a plan for chips you lack

Its plans are in experiments/scale/README.md. Argument: system=gpt|numgpt (numbers as text, or as numbers).
"""

from __future__ import annotations

from numjax.bundled.configs.scale import sizes
from numjax.config.recipe import Recipe

DECODER = sizes.make_decoder(width=4096, layers=32, heads=32, length=2048, rows=1024, fsdp=64, remat="full")

get_config = Recipe(system=DECODER, parts={"system": sizes.SYSTEMS})
