"""The wheel holds everything in one package and runs from another folder, and the sdist makes the same wheel."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]


def build_files(folder: pathlib.Path, *options: str) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", str(folder), str(ROOT)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build_files(folder, "--wheel")
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel_folder(wheel):
    """A folder with the unpacked wheel, as an installer lays it out."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(wheel.parent / "site")
    return wheel.parent / "site"


@pytest.fixture(scope="module")
def sdist_folder(tmp_path_factory):
    """A folder with the sdist and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("sdist")
    build_files(folder)
    return folder


def test_the_sdist_makes_the_wheel_of_the_checkout(wheel, sdist_folder):
    contents = []
    for path in (wheel, *sdist_folder.glob("*.whl")):
        with zipfile.ZipFile(path) as archive:
            contents.append({name: archive.read(name) for name in archive.namelist()})
    from_checkout, from_sdist = contents
    assert from_checkout == from_sdist
    for name in ("configs/numgpt.py", "data/mme/wordings.toml", "experiments/numgpt/quickstart.py"):
        assert f"numjax/bundled/{name}" in from_checkout


def test_the_files_are_small_and_hold_no_caches_and_no_results(wheel, sdist_folder):
    (sdist,) = sdist_folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive, tarfile.open(sdist) as source_archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
        source_names = source_archive.getnames()
    for name in (*sizes, *source_names):
        assert not {"__pycache__", "results", "runs", ".pytest_cache", ".venv"} & {*pathlib.PurePath(name).parts}, (
            name
        )
        assert not name.endswith((".pyc", ".png", ".arrayrecord"))
    assert max(sizes.values()) < 200_000 and sum(sizes.values()) < 6_000_000
    top = {pathlib.PurePath(name).parts[1] for name in source_names if "/" in name}
    assert {"CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "numjax", "pyproject.toml"} <= top


def test_an_index_would_take_the_files(wheel, sdist_folder):
    pytest.importorskip("twine", reason="twine is not installed: make env")
    paths = [str(path) for path in (wheel, *sdist_folder.glob("*.tar.gz"))]
    process = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *paths], capture_output=True, text=True
    )
    assert process.returncode == 0 and process.stdout.count("PASSED") == 2, process.stdout + process.stderr


def read_version() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_the_version_is_in_one_place_and_the_changelog_tells_of_it():
    version = read_version()
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert headings[0] == version and len({*headings}) == len(headings)
    for path in (*(ROOT / "numjax").glob("*.py"), ROOT / "CITATION.cff"):
        assert version not in path.read_text(), path


@pytest.fixture(scope="module")
def installed_command(wheel):
    """`numjax`, as pip installs it from the wheel."""
    folder = wheel.parent / "installed"
    words = ["--no-deps", "--no-index", "--no-compile", "--target", str(folder), str(wheel)]
    # The script of `make env`, which runs pip.
    command = [sys.executable, str(ROOT / "constraints" / "install.py"), *words]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    return folder / "bin" / "numjax"


def test_the_command_of_the_wheel_runs_in_another_folder(installed_command, user_folder):
    environment = os.environ | {
        "PYTHONPATH": str(installed_command.parents[1]), "NUMJAX_CACHE": str(user_folder / "cache"),
    }  # fmt: skip

    def run(*words, text=""):
        process = subprocess.run(
            [str(installed_command), *words],
            env=environment,
            cwd=user_folder,
            input=text,
            capture_output=True,
            text=True,
        )
        return process.returncode, process.stdout, process.stderr

    assert run("--version") == (0, f"numjax {read_version()}\n", "")
    code, out, _ = run("--help")
    assert code == 0 and all(f"  {name} " in out for name in ("train", "predict", "numerals", "parts"))
    assert run("numerals", text="7\n")[1] == '[{"start": 0, "end": 1, "text": "7", "value": "7"}]\n'
    assert run("trian")[0] == 2
    small = ("--config.task.size=400", "--config.optim.steps=2", "--config.eval.test=False")
    code, _, errors = run("train", "--config=numgpt:smoke", "--workdir=run", *small)
    assert code == 0 and (user_folder / "run" / "metrics.jsonl").exists(), errors


def test_pip_that_fails_is_reported(tmp_path):
    command = [sys.executable, str(ROOT / "constraints" / "install.py"), "--no-index", "no-such-package-of-numjax"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 1 and "no-such-package-of-numjax" in process.stderr
    assert process.stdout.startswith("  0:00  choosing packages\n")


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
