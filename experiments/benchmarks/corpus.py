"""A small run on running text: what the benchmarks of the input pipeline and of the start share."""

from __future__ import annotations

import gzip
import importlib
import os
import pathlib
from typing import Any

from numjax.bundled.experiments.benchmarks import numerals, pairs
from numjax.config import recipe

# A model's shape, as the training benchmark has it; the vocabulary is GPT-2's where its files are.
SHAPE = dict(layers=6, width=384, heads=6, length=256, rows=8)


def home() -> pathlib.Path:
    """The folder of shared data files: NUMJAX_DATA, else ../shared/data beside the checkout."""
    return pathlib.Path(os.environ.get("NUMJAX_DATA", pairs.ROOT.parent / "shared" / "data"))


def write(folder: pathlib.Path, megabytes: float) -> str:
    """Writes about so much text into `folder`, a document every few lines; returns where it comes from."""
    real = home() / "wikitext2" / "valid.txt.gz"
    source, text = "made up", numerals.made_up()
    if real.exists():
        source, text = "WikiText-2", gzip.decompress(real.read_bytes())
    lines = [line for line in numerals.enlarged(text, megabytes).splitlines() if line.strip()]
    lines = lines[: max(100, int(len(lines) * megabytes * 1e6 / max(1, sum(map(len, lines)))))]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "text.txt").write_bytes(b"\n\n".join(lines) + b"\n")
    return source


CONFIG = """from numjax.bundled.configs import {system}
from numjax.config import recipe


def get_config(argument=None):
    return recipe.changed({system}.get_config(argument), {{"scheme.vocab": dict(name="gpt2", path={path!r})}})
"""


def values(folder: pathlib.Path, shape: dict[str, int]) -> dict[str, Any]:
    """What a config changes for a run of this shape on packed rows of FOLDER/text; what is built of it goes to
    FOLDER/built."""
    return {
        "task.path": str(folder / "text"),
        "data.dir": str(folder / "built"),
        "data.pack": True,
        "data.length": shape["length"],
        "data.overflow": "split",
        "optim.batch_size": shape["rows"],
        "backbone.layers": shape["layers"],
        "backbone.width": shape["width"],
        "backbone.heads": shape["heads"],
        "backbone.max_length": shape["length"],
        "backbone.packed": True,
    }


def config(folder: pathlib.Path, shape: dict[str, int], system: str = "gpt") -> Any:
    """The config of such a run."""
    made = importlib.import_module(f"numjax.bundled.configs.{system}").get_config("task=text")
    if files := _vocabulary():
        made = recipe.changed(made, {"scheme.vocab": dict(name="gpt2", path=files)})
    made.update_from_flattened_dict(values(folder, shape))
    return made


def flags(folder: pathlib.Path, shape: dict[str, int], system: str = "gpt") -> list[str]:
    """The flags of numjax.main that make the same."""
    named = system
    if files := _vocabulary():
        # A vocabulary of another kind has other options: that takes a config file.
        named = str(folder / f"{system}_gpt2.py")
        pathlib.Path(named).write_text(CONFIG.format(system=system, path=files))
    changes = values(folder, shape)
    return [f"--config={named}:task=text", *(f"--config.{name}={value}" for name, value in changes.items())]


def _vocabulary() -> str:
    files = home() / "tokenizers" / "gpt2"
    return str(files) if (files / "encoder.json").exists() else ""
