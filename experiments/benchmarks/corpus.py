"""A small run on running text, shared by the benchmarks of the input pipeline and of the start."""

from __future__ import annotations

import gzip
import importlib
import os
import pathlib
from typing import Any

from numjax.bundled.experiments.benchmarks import numerals, pairs
from numjax.config import recipe

# The model's shape is the training benchmark's; the vocabulary is GPT-2's if its files are there.
SHAPE = dict(layers=6, width=384, heads=6, length=256, rows=8)


def data_folder() -> pathlib.Path:
    """The folder of shared data files: NUMJAX_DATA, else ../shared/data beside the checkout."""
    return pathlib.Path(os.environ.get("NUMJAX_DATA", pairs.ROOT.parent / "shared" / "data"))


def write_text(folder: pathlib.Path, megabytes: float) -> str:
    """Writes about `megabytes` of text into `folder`, a document every few lines; returns the name of its source."""
    wikitext_path = data_folder() / "wikitext2" / "valid.txt.gz"
    source, text = "made up", numerals.make_text()
    if wikitext_path.exists():
        source, text = "WikiText-2", gzip.decompress(wikitext_path.read_bytes())
    lines = [line for line in numerals.repeat_text(text, megabytes).splitlines() if line.strip()]
    lines = lines[: max(100, int(len(lines) * megabytes * 1e6 / max(1, sum(map(len, lines)))))]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "text.txt").write_bytes(b"\n\n".join(lines) + b"\n")
    return source


CONFIG = """from numjax.bundled.configs import {system}
from numjax.config import recipe


def get_config(argument=None):
    return recipe.apply_change({system}.get_config(argument), {{"scheme.vocab": dict(name="gpt2", path={path!r})}})
"""


def config_changes(folder: pathlib.Path, shape: dict[str, int]) -> dict[str, Any]:
    """The config's changes for a run of this shape on packed rows of FOLDER/text, built in FOLDER/built."""
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


def make_config(folder: pathlib.Path, shape: dict[str, int], system: str = "gpt") -> Any:
    """The config of a run with `config_changes`."""
    config = importlib.import_module(f"numjax.bundled.configs.{system}").get_config("task=text")
    if files := _find_vocabulary():
        config = recipe.apply_change(config, {"scheme.vocab": dict(name="gpt2", path=files)})
    config.update_from_flattened_dict(config_changes(folder, shape))
    return config


def make_flags(folder: pathlib.Path, shape: dict[str, int], system: str = "gpt") -> list[str]:
    """The flags of numjax.main that give the config of `make_config`."""
    config_name = system
    if files := _find_vocabulary():
        # A vocabulary of another kind has other options, which flags cannot set: write a config file.
        config_name = str(folder / f"{system}_gpt2.py")
        pathlib.Path(config_name).write_text(CONFIG.format(system=system, path=files))
    changes = config_changes(folder, shape)
    return [f"--config={config_name}:task=text", *(f"--config.{name}={value}" for name, value in changes.items())]


def _find_vocabulary() -> str:
    files = data_folder() / "tokenizers" / "gpt2"
    return str(files) if (files / "encoder.json").exists() else ""
