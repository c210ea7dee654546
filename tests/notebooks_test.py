"""Runs every notebook from its first cell to its last, as a new user does."""

from __future__ import annotations

import pathlib

import pytest

from numjax.inspect import vectors
from tests.runs_test import cache  # noqa: F401  (the fixture builds datasets once)

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "experiments" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.fixture(autouse=True)
def users_folder(tmp_path, monkeypatch):
    """The notebooks run next to a user's package `data`; the path has the library and not the checkout."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "__init__.py").write_text("raise ImportError('not ours')\n")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "numjax").symlink_to(ROOT / "numjax")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))


def execute_notebook(path: pathlib.Path, folder: pathlib.Path, cells: int | None = None):
    """Runs a notebook, or its first cells, in a folder and returns it with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = notebook.cells[:cells]
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def count_pictures(notebook) -> int:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return sum("image/png" in output.get("data", ()) for output in outputs)


def collect_output(notebook) -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "".join(output.text for output in outputs if output.get("name") == "stdout")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_committed_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells and not any(cell.outputs or cell.execution_count for cell in cells)
    assert path.stem in (FOLDER / "README.md").read_text()


def test_the_embedding_notebook_covers_every_embedding(tmp_path, monkeypatch):
    """It covers every numeral embedding, and a user's table that lacks one number."""
    (tmp_path / "glove.txt").write_text("".join(f"{n} {n} 1\n" for n in range(299)))
    monkeypatch.setenv("NUMJAX_EMBED", "glove.txt")
    notebook = execute_notebook(FOLDER / "embedding_geometry.ipynb", tmp_path)
    assert count_pictures(notebook) == 5
    text = collect_output(notebook)
    assert "glove.txt: 1 of the numbers" in text and "DICE-2       100.0 100.0 100.0" in text
    assert all(f"\n{name}" in text for name in vectors.names() if name != "dice")


def test_the_mathgpt_notebook_trains_a_model_or_loads_a_run(tmp_path, monkeypatch):
    """First it trains a model itself; then NUMJAX_WORKDIR names that run and it loads it."""
    monkeypatch.delenv("NUMJAX_WORKDIR", raising=False)
    path = FOLDER / "mathgpt_geometry.ipynb"
    notebook = execute_notebook(path, tmp_path)
    assert count_pictures(notebook) == 3
    assert (
        "step 60, " in collect_output(notebook)
        and "by chance" in collect_output(notebook)
        and "ρ = " in collect_output(notebook)
    )
    monkeypatch.setenv("NUMJAX_WORKDIR", str(tmp_path / "runs" / "mathgpt-notebook"))
    (tmp_path / "elsewhere").mkdir()
    assert "step 60, " in collect_output(execute_notebook(path, tmp_path / "elsewhere", cells=2))
    assert not list((tmp_path / "elsewhere").iterdir()), "a run that is given by name is not trained again"


def test_the_luna_notebook_shows_the_attention_of_a_model(tmp_path, monkeypatch):
    """It trains the model itself, since NUMJAX_WORKDIR names no run."""
    monkeypatch.delenv("NUMJAX_WORKDIR", raising=False)
    path = FOLDER / "luna_attention.ipynb"
    notebook = execute_notebook(path, tmp_path)
    assert count_pictures(notebook) == 3
    text = collect_output(notebook)
    assert "step 40, task tabfact, scheme addback" in text and "% on numbers, evenly" in text
    assert "[CLS] " in text and " ⟨" in text and text.count("neighbours of the same kind") == 3
