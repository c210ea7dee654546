"""A plain GPT on subwords: the baseline of every system.

    python -m numjax.main --config=configs/gpt.py:task=mme --workdir=runs/gpt-mme      # MME, 2 cores, 2 min
    python -m numjax.main --config=configs/gpt.py:task=text --config.task.path=FOLDER --workdir=…

Takes the arguments of configs/numgpt.py; `scheme=digits` spells numbers digit by digit.
"""

from __future__ import annotations

from ml_collections import ConfigDict

from configs import common, numgpt


def get_config(argument: str | None = None) -> ConfigDict:
    """The config for an argument such as "laptop,task=gnc"."""
    words = [word for word in (argument or "").split(",") if word]
    scheme = "gpt"
    for word in list(words):
        if word.startswith("scheme="):
            words.remove(word)
            scheme = {"subword": "gpt", "digits": "digits"}.get(word[7:], word[7:])
    common.known(scheme, {"gpt": 0, "digits": 0}, "scheme")
    return numgpt.get_config(",".join([*words, f"system={scheme}"]))
