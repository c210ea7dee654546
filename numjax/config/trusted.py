"""The config of a workdir whose code the user trusts: with `--trust`, `--config` names this file."""

from __future__ import annotations

from ml_collections import ConfigDict

from numjax.config import origin


def get_config(workdir: str) -> ConfigDict:
    """The config of the workdir, see `origin.get_config`."""
    return origin.get_config(workdir, trust=True)
