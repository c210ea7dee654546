"""A plain GPT on subwords: the baseline of every system.

    numjax train --config=gpt:task=mme --workdir=runs/gpt-mme  # MME, 2 cores, 2 min
    numjax train --config=gpt:task=text --config.task.path=FOLDER --workdir=…

Arguments: scales, tasks and as_published as in configs/numgpt.py; scheme=subword|digits (numbers digit by digit).
"""

from __future__ import annotations

from numjax.bundled.configs import numgpt
from numjax.config.recipe import Recipe

GPT = {
    "scheme": dict(
        name="subword",
        rules="default",
        vocab=dict(name="sentencepiece", model="bpe", size=2000, split_digits=False),
    ),
    "embeds": dict(token=dict(name="token")),
    "heads": dict(next=dict(name="token", tied=False)),
}

get_config = Recipe(
    system=GPT,
    task="mme",
    tasks=numgpt.TASKS,
    parts={"scheme": {name: {"scheme": dict(name=name)} for name in ("subword", "digits")}},
    scale="laptop",
    scales=numgpt.SCALES,
    as_published=numgpt.AS_PUBLISHED,
)
