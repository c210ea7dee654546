"""Own parts: a new file in the package, or a module by its dotted name."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from numjax import protocols
from numjax.build import BASE_OF_KIND, build, context_options, find, names
from numjax.config import blocks
from numjax.errors import UsageError
from numjax.evals import score
from numjax.heads import token
from numjax.model import Model
from numjax.runtime import shard
from numjax.train import sums
from numjax.train.checkpoint import Checkpoints
from numjax.train.step import eval_step, init_state, train_step
from tests import drawn
from tests.conftest import ROOT

FOURIER = '''"""The number's logarithm as waves, each with a learned strength."""

import flax.linen as nn
import jax.numpy as jnp

from numjax import protocols


def fourier(numerals, strength):
    size = jnp.where(numerals.n_digits > 0, numerals.log10, 0.0)
    angle = size[..., None] * jnp.arange(1, strength.shape[0] // 2 + 1) / 8
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1) * strength


class Embed(protocols.Embed, nn.Module):
    dim: int = 16
    kind = "numeral"

    @nn.compact
    def __call__(self, numerals, features=None):
        return fourier(numerals, self.param("strength", nn.initializers.ones, (self.dim,)))
'''


def test_a_file_in_the_package_conforms_and_trains(tmp_path):
    """It takes one new file and one word of config."""
    copy = tmp_path / "copy"
    for folder in ("numjax", "configs", "data", "tests"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    (copy / "numjax/embed/fourier.py").write_text(FOURIER)
    environment = {"NUMJAX_CACHE": str(tmp_path / "cache")} | os.environ | {"PYTHONPATH": str(copy)}
    run = functools.partial(
        subprocess.run, cwd=copy, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    words = ["--config=numgpt:smoke,embed=fourier", f"--workdir={tmp_path / 'run'}", "--config.optim.steps=4"]
    training = run(
        [sys.executable, "-m", "numjax.main", *words, "--config.eval.test=False", "--config.eval.examples=16"]
    )
    assert training.returncode == 0, training.stderr[-2000:]
    metrics = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert '"split": "validation"' in metrics
    params, step = Checkpoints(tmp_path / "run" / "checkpoints").restore_params()
    assert step == 4 and (np.asarray(params["embeds_numeral"]["strength"]) != 1).all(), "it has learned"
    conformance = run(
        [sys.executable, "-m", "pytest", "tests/conformance_test.py", "-k", "test_embedding and fourier]"]
    )
    assert re.search(r"^2 passed, 1 skipped", conformance.stdout, re.MULTILINE), conformance.stdout[-2000:]


@pytest.fixture
def laboratory(tmp_path, monkeypatch):
    """Writes a researcher's own package, which is on the path for this test."""
    package = tmp_path / "mylab"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "waves.py").write_text(FOURIER)
    (package / "empty.py").write_text("")
    (package / "alien.py").write_text("class Embed:\n    kind = 'numeral'\n")
    (package / "broken.py").write_text("import a_library_that_is_not_there\n")
    source = FOURIER.replace("dim: int = 16", "dim: int = 16\n    vocab_sise: protocols.FromContext[int] = 0")
    (package / "misspelt.py").write_text(source)
    (package / "bare.py").write_text(FOURIER.replace("dim: int = 16", "dim: int"))
    (tmp_path / "mywaves.py").write_text(FOURIER)
    monkeypatch.syspath_prepend(tmp_path)
    modules = set(sys.modules)
    yield package
    for name in set(sys.modules) - modules:
        if name.split(".")[0] in ("mylab", "mywaves"):
            del sys.modules[name]


@pytest.mark.parametrize("name", ["mylab.waves", "mywaves"])
def test_an_own_module_trains_by_its_name(laboratory, name, rng):
    batch = drawn.draw_batch(rng)
    plain, model = drawn.build_model({"name": "prototype"}, layers=1), drawn.build_model({"name": name}, layers=1)
    assert type(model.embeds["numeral"]).__module__ == name
    assert type(plain.embeds["numeral"]).__module__ == "numjax.embed.prototype"
    objectives = {"next": build("objectives", {"name": "nll", "head": "next"})}
    optimizer = optax.sgd(0.1)
    step = jax.jit(functools.partial(train_step, model, objectives, {"next": 1.0}, optimizer, lambda step: 0.1, 1))
    state = jax.jit(functools.partial(init_state, model, optimizer))(batch, 0)
    new_state, metrics = step(0, state, batch)
    change = np.asarray(new_state.params["embeds_numeral"]["strength"] - state.params["embeds_numeral"]["strength"])
    assert (change != 0).all() and all(
        bool(jnp.isfinite(x).all()) for x in jax.tree.leaves((new_state.params, metrics))
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("prototipe", "no embedding is called 'prototipe': did you mean prototype"),
        ("mylab.wavs", "no embedding is called 'mylab.wavs'"),
        ("nolab.waves", "no embedding is called 'nolab.waves'"),
        ("mylab.empty", "embedding 'mylab.empty': mylab.empty defines no class called Embed"),
        ("mylab.alien", "embedding 'mylab.alien': mylab.alien.Embed must be derived from numjax.protocols.Embed"),
        ("json", "embedding 'json': json defines no class called Embed"),
        (".waves", "embedding '.waves': give the whole dotted name of your own module"),
        ("", "no embedding is called ''"),
    ],
)
def test_unknown_modules_are_refused(laboratory, name, message):
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        build("embed", {"name": name})


def test_errors_of_an_own_module_are_not_hidden(laboratory):
    with pytest.raises(ModuleNotFoundError, match="a_library_that_is_not_there"):
        build("embed", {"name": "mylab.broken"})
    with pytest.raises(UsageError, match=r"embedding 'mylab.waves' has no option 'dimm': did you mean dim\?"):
        build("embed", {"name": "mylab.waves", "dimm": 3})


def test_a_part_receives_the_context_that_it_marks_and_a_misspelt_mark_is_refused(laboratory):
    (laboratory / "needy.py").write_text(
        FOURIER.replace(
            "dim: int = 16", "dim: int = 16\n    vocab_size: protocols.FromContext[int] = 0\n    size: int = 5"
        )
    )
    part = build("embed", {"name": "mylab.needy"}, vocab_size=128, size=100, width=8)
    assert (part.vocab_size, part.size) == (128, 5), "it receives only what it marks"
    assert build("embed", {"name": "mylab.needy"}).vocab_size == 0
    with pytest.raises(UsageError, match=r"mylab.misspelt': parameter 'vocab_sise' .* did you mean vocab_size"):
        build("embed", {"name": "mylab.misspelt"}, vocab_size=128)
    with pytest.raises(UsageError, match=r"embedding 'mylab\.bare' needs dim: give it as an option"):
        build("embed", {"name": "mylab.bare"}, dim=8)


class Tall(token.Head):
    """A head with one new part of its loss, the height, which is a density."""

    densities = ("height",)

    def log_prob(self, out, targets, allowed=None):
        height = -jnp.square(out.hidden[..., 0].astype(jnp.float32) - 3)
        return {**super().log_prob(out, targets, allowed), "height": height}

    def total_log_prob(self, out, targets, weights_BT, allowed=None):
        return {name: (part * weights_BT).sum() for name, part in self.log_prob(out, targets, allowed).items()}


def test_the_densities_of_an_own_head_stay_out_of_the_perplexity(rng):
    batch = drawn.draw_batch(rng)
    parts = {"embeds": {"token": build("embed", {"name": "token"}, dim=16, **drawn.CONTEXT)}, "fusions": {}}
    backbone = drawn.build_backbone(drawn.DECODER)
    known = {name: drawn.CONTEXT[name] for name in ("width", "vocab_size", "size")}
    model = Model(**parts, backbone=backbone, heads={"next": Tall(**known)})
    params = drawn.draw_params(model, rng, batch)
    objectives = {"next": build("objectives", {"name": "nll", "head": "next"})}
    results = jax.jit(functools.partial(eval_step, model, objectives, {"next": 1.0}))(params, batch)
    compiled: Any = SimpleNamespace(mesh=shard.make_mesh(), evaluate=lambda params, batch: (*results, None, None))
    system: Any = SimpleNamespace(objectives=objectives, weights={"next": 1.0})
    means, _ = score.evaluate(system, compiled, params, [batch])
    assert abs(means["next/height"]) > 0.1, "otherwise the test proves nothing"
    np.testing.assert_allclose(means["next/mass"] + means["next/height"], means["loss"], rtol=1e-5)
    np.testing.assert_allclose(means["mass_perplexity"], np.exp(means["next/token"]), rtol=1e-5)
    assert "perplexity" not in means


def test_a_perplexity_is_that_of_the_whole_text_with_its_numbers():
    means = {"loss": 9.0, "next/token": 1.0, "next/digits": 1.75, "next/sign": 0.25}
    assert sums.perplexity(means, "next", has_density=False) == {"perplexity": pytest.approx(np.exp(3))}


def test_names_finds_every_file_of_a_kind_and_nothing_else():
    for kind, base in BASE_OF_KIND.items():
        folder = ROOT / "numjax" / kind
        files = {
            str(path.relative_to(folder)).removesuffix(".py").partition("/")[0]
            for path in [*folder.glob("*.py"), *folder.glob("*/*.py")]
            if re.search(rf"^class {base.__name__}\b", path.read_text(), re.MULTILINE)
        }
        assert set(names(kind)) == files and files, kind
        assert {find(kind, name).part_name() for name in files} == files, kind


def test_provides_names_the_methods_beyond_the_kind():
    class Mine(protocols.Task):
        def prompt_from_text(self, text, parse):
            return None

        def special(self):
            return 1

    class Younger(Mine):
        pass

    for cls in (Mine, Younger):
        assert cls.provides("prompt_from_text") and cls.provides("special") and cls().provides("prompt_from_text")
        assert not cls.provides("make_prediction") and not cls.provides("from_file") and not cls.provides("nothing")
    assert token.Head.provides("step_scores") and not token.Head.provides("log_probs")
    assert str(Mine.lacks("has no text")) == f"task {__name__} has no text"


@pytest.mark.parametrize("postponed", [True, False])
def test_options_are_typed_as_written_whether_annotations_are_postponed_or_not(laboratory, postponed):
    header = "from __future__ import annotations\n" if postponed else ""
    (laboratory / f"typed_{postponed}.py").write_text(
        header
        + """
import dataclasses

from numjax import protocols
from numjax.protocols import FromContext, OptionOrContext


@dataclasses.dataclass
class Embed(protocols.Embed):
    width: FromContext[int] = 3
    dim: OptionOrContext[int] = 4
    digit_ids: protocols.OptionOrContext[tuple[int, ...]] = ()
    form: str = "d"
    sizes: tuple[int, ...] = (1,)
    kind = "numeral"
"""
    )
    name = f"mylab.typed_{postponed}"
    known = {"dim": "int", "digit_ids": "tuple[int, ...]", "form": "str", "sizes": "tuple[int, ...]", "fusion": "str"}
    assert blocks.option_types("embed", name) == known and context_options("embed", name) == {"dim", "digit_ids"}
    block = blocks.parse_block("embed", f"{name}:form=7,dim=5,sizes=(1,2)")
    assert block == {"name": name, "form": "7", "dim": 5, "sizes": (1, 2)}
