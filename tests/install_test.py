"""The wheel: everything inside one package, run from another folder."""

from __future__ import annotations

import os
import pathlib
import shutil
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


@pytest.fixture
def folder(tmp_path):
    """A user's own, with packages that are named like ours."""
    for name in ("data", "configs", "experiments", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"MINE = {name!r}\n")
    return tmp_path


ORDERS = {
    "mine first": "import data, configs, experiments, tests; import numjax.api; from numjax.pipeline import source",
    "numjax first": "import numjax.api; from numjax.pipeline import source; import data, configs, experiments, tests",
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("where", ["checkout", "wheel"])
def test_a_users_packages_of_these_names_are_the_users(installed, folder, order, where):
    code = f"""
import sys
before = list(sys.path)
{ORDERS[order]}
found = source.load({{"name": "mme", "size": 40}}, "train", {str(folder / "built")!r})
from numjax.bundled.configs import numgpt
assert numgpt.get_config("smoke").task.name == "statement" and len(found) > 10
assert [one.MINE for one in (data, configs, experiments, tests)] == ["data", "configs", "experiments", "tests"]
assert sys.path == before
"""
    path = installed if where == "wheel" else checkout_alone(folder)
    environment = os.environ | {"PYTHONPATH": str(path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def checkout_alone(folder: pathlib.Path) -> pathlib.Path:
    """A folder on the path with the checkout's numjax and nothing that lies beside it."""
    (folder / "site").mkdir()
    (folder / "site" / "numjax").symlink_to(ROOT / "numjax")
    return folder / "site"


def test_an_editable_installation_finds_numjax_alone(tmp_path):
    code = """
import importlib.util
import numjax.bundled.data
print([name for name in ("configs", "data", "experiments", "tests") if importlib.util.find_spec(name)])
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_nothing_is_written_into_a_checkout(folder):
    """It may belong to somebody else, and be read-only."""
    checkout = folder / "checkout"
    for name in ("numjax", "configs", "data", "experiments"):
        shutil.copytree(ROOT / name, checkout / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    paths = [checkout, *checkout.rglob("*")]
    for path in paths:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    before = {path: path.lstat().st_mtime_ns for path in paths}
    environment = os.environ | {"PYTHONPATH": str(checkout), "NUMJAX_CACHE": str(folder / "cache")}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1"}  # root writes these all the same
    run = [sys.executable, "-m", "numjax.main", "--config=numgpt:smoke", f"--workdir={folder / 'run'}"]
    run += ["--config.task.size=400", "--config.optim.steps=2", "--config.eval.test=False"]
    done = subprocess.run(run, env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 and (folder / "run" / "metrics.jsonl").exists(), done.stderr
    assert {path: path.lstat().st_mtime_ns for path in [checkout, *checkout.rglob("*")]} == before


def test_it_trains_from_another_folder(installed, folder):
    environment = os.environ | {"PYTHONPATH": str(installed), "NUMJAX_CACHE": str(folder / "cache")}
    code = "import numjax, pathlib; print(pathlib.Path(numjax.__file__).parent)"
    where = subprocess.run([sys.executable, "-c", code], env=environment, cwd=folder, capture_output=True, text=True)
    assert where.stdout.strip() == str(installed / "numjax")
    run = [sys.executable, "-m", "numjax.main", "--config=numgpt:smoke", f"--workdir={folder / 'run'}"]
    run += ["--config.task.sise=400", "--config.eval.test=False"]
    # It must be refused by name, from the bundled config too.
    done = subprocess.run(run, env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 2 and "sise" in done.stderr
    done = subprocess.run(run[:-2] + run[-1:], env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (folder / "run" / "metrics.jsonl").exists()
    table = [sys.executable, "-m", "numjax.bundled.experiments.numgpt.table1", "--help"]
    assert subprocess.run(table, env=environment, cwd=folder, capture_output=True).returncode == 0
