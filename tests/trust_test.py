"""A workdir from a stranger runs no code: modules outside numjax that its config names need `--trust`."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import numjax
from numjax.build import BASE_OF_KIND, is_own_module, names
from numjax.config import blocks, command_line, origin, trusted
from numjax.config.recipe import BASE
from numjax.errors import UsageError
from numjax.train import inherit
from tests.conftest import ROOT

TRAP = """import pathlib

import flax.linen as nn

from numjax import protocols

pathlib.Path({mark!r}).touch()


class Embed(protocols.Embed, nn.Module):
    dim: int = 16
    kind = "numeral"
"""


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """Modules of a stranger on the path, `stranger.waves` and `waves_alone`; the file that importing one writes."""
    mark = tmp_path / "has_run"
    code = TRAP.format(mark=str(mark))
    package = tmp_path / "modules" / "stranger"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"import pathlib\npathlib.Path({str(mark)!r}).touch()")
    (package / "waves.py").write_text(code)
    (tmp_path / "modules" / "waves_alone.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    before = set(sys.modules)
    yield mark
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ("stranger", "waves_alone"):
            del sys.modules[name]


def store(folder: pathlib.Path, changes: dict[str, Any] | None = None) -> pathlib.Path:
    """A workdir with only a config: that of `numgpt:smoke` with changes, path → value."""
    from numjax.bundled.configs import numgpt

    config = json.loads(json.dumps(numgpt.get_config("smoke").to_dict()))
    for path, value in (changes or {}).items():
        *parents, last = path.split(".")
        node = config
        for key in parents:
            node = node[key]
        node[last] = value
    origin.save_config(folder, config)
    return folder


def call(*words: str, **environment: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of `python -m numjax.main`."""
    path = os.pathsep.join([str(ROOT), environment.pop("modules", "")])
    done = subprocess.run(
        [sys.executable, "-m", "numjax.main", *words],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


PATHS = {
    "task": "task.name", "scheme": "scheme.name", "positions": "positions.sequence.name",
    "backbone": "backbone.name", "embeds": "embeds.numeral.name", "heads": "heads.label.name",
    "objectives": "objectives.label.name",
}  # fmt: skip


@pytest.mark.parametrize("module", ["stranger.waves", "waves_alone"])
@pytest.mark.parametrize("key", blocks.BLOCK_KINDS)
def test_a_stored_config_runs_no_module_of_a_stranger(key, module, trap, tmp_path):
    workdir = store(tmp_path / "run", {PATHS[key]: module})
    path = PATHS[key].removesuffix(".name")
    says = rf"config\.json: {re.escape(path)} is the module '{re.escape(module)}', .*--trust .*trust=True"
    for load in (origin.get_config, numjax.load):
        with pytest.raises(UsageError, match=says):
            load(workdir)
    with pytest.raises(UsageError, match=says):
        origin.get_config(workdir / "seed_3")  # a seed's config is that of the folder around it
    assert not trap.exists(), "the module has run"
    assert origin.get_config(workdir, trust=True) == trusted.get_config(str(workdir))


def test_every_part_of_numjax_is_its_own_and_nothing_else_is(trap):
    for kind in BASE_OF_KIND:
        assert all(is_own_module(kind, name) for name in names(kind))
        assert is_own_module(kind, f"numjax.{kind}.{names(kind)[0]}")
        assert not is_own_module(kind, "stranger.waves") and not is_own_module(kind, "numjax_.waves")
        assert not is_own_module(kind, "waves_alone") and not is_own_module(kind, "json")
    assert not trap.exists()


@pytest.mark.parametrize("mode", ["show", "train", "eval", "generate"])
def test_the_command_line_refuses_it_in_one_line(mode, trap, tmp_path):
    workdir = store(tmp_path / "run", {"embeds.numeral": {"name": "stranger.waves"}})
    for more in ((), ("--config.embeds.numeral.dim=3",), ("--set=positions.sequence=rope",)):
        code, _, err = call(f"--workdir={workdir}", f"--mode={mode}", *more, modules=str(tmp_path / "modules"))
        assert code == 2 and err.count("\n") == 1 and "'stranger.waves'" in err and "--trust" in err, err
        assert not trap.exists()


def test_the_command_line_runs_what_is_trusted_and_what_is_the_users_own(trap, tmp_path):
    modules = str(tmp_path / "modules")
    alien = store(tmp_path / "alien", {"embeds.numeral": {"name": "stranger.waves"}})
    plain = store(tmp_path / "plain")
    for words in ((f"--workdir={alien}", "--trust"), (f"--workdir={plain}", "--set=embeds.numeral=stranger.waves")):
        code, out, err = call(*words, "--mode=show", modules=modules)
        assert code == 0 and "embeds.numeral = stranger.waves" in out and trap.exists(), err
        trap.unlink()
    assert "--[no]trust" in call("--help")[1]


@pytest.mark.parametrize(
    ("words", "module"),
    [
        ([], origin),
        (["--trust"], trusted),
        (["-trust"], trusted),
        (["--trust=true"], trusted),
        (["--trust=false"], origin),
        (["--trust", "--notrust"], origin),
        (["--strict", "--prompt=--trust"], origin),
    ],
)
def test_only_the_flag_trusts(words, module, tmp_path):
    workdir = store(tmp_path / "run")
    resolved = command_line.resolve_configs(["main", f"--workdir={workdir}", *words])
    assert f"--config={module.__file__}:{workdir}" in resolved


def test_a_stored_cache_of_compiled_programs_is_used_only_with_trust(tmp_path, capsys):
    for cache, is_dangerous in (("cache", True), ("", False), (BASE["compile_cache"], False)):
        workdir = store(tmp_path / "run", {"compile_cache": cache})
        config = origin.get_config(workdir)
        assert config.compile_cache == (BASE["compile_cache"] if is_dangerous else cache)
        assert ("compile_cache" in capsys.readouterr().err) == is_dangerous
        assert origin.get_config(workdir, trust=True).compile_cache == cache


def test_a_start_from_a_strangers_run_runs_no_module_of_it(trap, tmp_path):
    source = store(tmp_path / "source", {"task": {"name": "stranger.waves"}})
    system: Any = SimpleNamespace(
        config=origin.get_config(store(tmp_path / "own")), task=SimpleNamespace(dataset={"name": "mme"})
    )
    inherit._report_splits(system, source)
    assert not trap.exists()
    with system.config.unlocked():
        system.config.task.name = "stranger.waves"  # the user's own config names it
    inherit._report_splits(system, source)
    assert trap.exists()
