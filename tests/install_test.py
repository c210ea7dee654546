"""The wheel holds everything in one package and runs from another folder."""

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
def wheel_folder(tmp_path_factory):
    """A folder with the unpacked wheel, as an installer lays it out."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_no_generic_name_reaches_site_packages(wheel_folder):
    assert {p.name for p in wheel_folder.iterdir() if not p.name.endswith(".dist-info")} == {"numjax"}


@pytest.fixture
def user_folder(tmp_path):
    """A folder of a user with packages that have names of ours."""
    for name in ("data", "configs", "experiments", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"MINE = {name!r}\n")
    return tmp_path


ORDERS = {
    "mine first": "import data, configs, experiments, tests; import numjax.api; from numjax.pipeline import source",
    "numjax first": "import numjax.api; from numjax.pipeline import source; import data, configs, experiments, tests",
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("installation", ["checkout", "wheel"])
def test_user_packages_with_these_names_are_imported(wheel_folder, user_folder, order, installation):
    code = f"""
import sys
path_before = list(sys.path)
{ORDERS[order]}
records = source.load({{"name": "mme", "size": 40}}, "train", {str(user_folder / "built")!r})
from numjax.bundled.configs import numgpt
assert numgpt.get_config("smoke").task.name == "statement" and len(records) > 10
assert [module.MINE for module in (data, configs, experiments, tests)] == ["data", "configs", "experiments", "tests"]
assert sys.path == path_before
"""
    path = wheel_folder if installation == "wheel" else link_checkout(user_folder)
    environment = os.environ | {"PYTHONPATH": str(path)}
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=user_folder, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr


def link_checkout(user_folder: pathlib.Path) -> pathlib.Path:
    """Returns a folder for the path with only the numjax of the checkout."""
    (user_folder / "site").mkdir()
    (user_folder / "site" / "numjax").symlink_to(ROOT / "numjax")
    return user_folder / "site"


def test_an_editable_installation_adds_only_numjax(tmp_path):
    code = """
import importlib.util
import numjax.bundled.data
print([name for name in ("configs", "data", "experiments", "tests") if importlib.util.find_spec(name)])
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert process.stdout.strip() == "[]", process.stdout + process.stderr


def test_nothing_is_written_into_a_checkout(user_folder):
    """It may belong to somebody else, and be read-only."""
    checkout = user_folder / "checkout"
    for name in ("numjax", "configs", "data", "experiments"):
        shutil.copytree(ROOT / name, checkout / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    paths = [checkout, *checkout.rglob("*")]
    for path in paths:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    times_before = {path: path.lstat().st_mtime_ns for path in paths}
    environment = os.environ | {"PYTHONPATH": str(checkout), "NUMJAX_CACHE": str(user_folder / "cache")}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1"}  # root can write these in any case
    command = [sys.executable, "-m", "numjax.main", "--config=numgpt:smoke", f"--workdir={user_folder / 'run'}"]
    command += ["--config.task.size=400", "--config.optim.steps=2", "--config.eval.test=False"]
    process = subprocess.run(command, env=environment, cwd=user_folder, capture_output=True, text=True)
    assert process.returncode == 0 and (user_folder / "run" / "metrics.jsonl").exists(), process.stderr
    assert {path: path.lstat().st_mtime_ns for path in [checkout, *checkout.rglob("*")]} == times_before


def test_the_wheel_trains_from_another_folder(wheel_folder, user_folder):
    environment = os.environ | {"PYTHONPATH": str(wheel_folder), "NUMJAX_CACHE": str(user_folder / "cache")}
    code = "import numjax, pathlib; print(pathlib.Path(numjax.__file__).parent)"
    location = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=user_folder, capture_output=True, text=True
    )
    assert location.stdout.strip() == str(wheel_folder / "numjax")
    command = [sys.executable, "-m", "numjax.main", "--config=numgpt:smoke", f"--workdir={user_folder / 'run'}"]
    command += ["--config.task.sise=400", "--config.eval.test=False"]
    # A misspelt option is refused by name, also with a bundled config.
    process = subprocess.run(command, env=environment, cwd=user_folder, capture_output=True, text=True)
    assert process.returncode == 2 and "sise" in process.stderr
    process = subprocess.run(
        command[:-2] + command[-1:], env=environment, cwd=user_folder, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    assert (user_folder / "run" / "metrics.jsonl").exists()
    table = [sys.executable, "-m", "numjax.bundled.experiments.numgpt.table1", "--help"]
    assert subprocess.run(table, env=environment, cwd=user_folder, capture_output=True).returncode == 0
