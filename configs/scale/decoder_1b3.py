"""A GPT-2-shaped decoder of 1.3B parameters: 24 layers × 2048, 16 heads, 2048 positions.

    numjax train --config=scale/decoder_1b3 --config.task.path=FOLDER --workdir=DIR
    numjax compile --config=scale/decoder_1b3 --config.topology=v5e:16x16 --workdir=DIR   # a plan for chips you lack

Its plans are in experiments/scale/README.md. Argument: system=gpt|numgpt (numbers as text, or as numbers).
"""

from __future__ import annotations

from numjax.bundled.configs.scale import sizes
from numjax.config.recipe import Recipe

DECODER = sizes.make_decoder(width=2048, layers=24, heads=16, length=2048, rows=1024, fsdp=16, remat="full")

get_config = Recipe(system=DECODER, parts={"system": sizes.SYSTEMS})
