"""The wheel: everything inside one package, run from another folder."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the unpacked wheel, as an installer lays it out."""
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(out / "site")
    return out / "site"


def test_no_generic_name_reaches_site_packages(installed):
    assert {p.name for p in installed.iterdir() if not p.name.endswith(".dist-info")} == {"numjax"}


def test_it_trains_from_another_folder(installed, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(installed), "NUMJAX_CACHE": str(tmp_path / "cache")}
    code = "import numjax, pathlib; print(pathlib.Path(numjax.__file__).parent)"
    where = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert where.stdout.strip() == str(installed / "numjax")
    run = [sys.executable, "-m", "numjax.main", "--config=numgpt:smoke", f"--workdir={tmp_path / 'run'}"]
    run += ["--config.task.sise=400", "--config.eval.test=False"]
    # `size` is no key of the smoke config: it must be refused by name, from the bundled config too.
    done = subprocess.run(run, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "sise" in done.stderr
    done = subprocess.run(run[:-2] + run[-1:], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "metrics.jsonl").exists()
    build = [sys.executable, "-m", "experiments.numgpt.table1", "--help"]
    environment["PYTHONPATH"] += os.pathsep + str(installed / "numjax" / "bundled")
    assert subprocess.run(build, env=environment, cwd=tmp_path, capture_output=True).returncode == 0
