"""The settings of Sphinx. `build.py` starts it, and `extensions/` writes the pages of the reference."""

from __future__ import annotations

import os
import pathlib
import sys

import numjax

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "extensions"))
os.environ.setdefault("JAX_PLATFORMS", "cpu")

project, author, copyright = "numjax", "The numjax authors", "The numjax authors"
release = version = numjax.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "myst_nb",
    "docstrings",
    "generated_pages",
    "linked_folders",
]

# experiments/ and data/ are links to the folders of the checkout: their READMEs and tables are pages as they are.
exclude_patterns = ["_build", "extensions", "static", "**/.*"]
# The page of the grid's results is there as soon as they are.
GRID_PAGE = "explanation/number"
if not (has_grid := (HERE / "experiments/grid/results/cpu/grid.md").is_file()):
    exclude_patterns.append(f"{GRID_PAGE}.md")
include_patterns = [
    *("index.md", "architecture.md", "generated/**"),
    *(f"{folder}/**.md" for folder in ("tutorials", "guides", "explanation", "reference", "results")),
    *("experiments/README.md", "experiments/*/README.md", "experiments/*/results/**.md", "data/*/README.md"),
    "experiments/notebooks/*.ipynb",
]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = False
# `nb_execution_mode` is a flag of build.py. A tutorial runs in a folder of its own. It takes less than two
# minutes; the limit of a cell is higher, since the machine may be busy.
# The notebooks of experiments/ train for minutes; tests/notebooks_test.py runs them.
nb_execution_excludepatterns = ["experiments/notebooks/*"]
nb_execution_in_temp = True
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    "show-inheritance": True,
    "ignore-module-all": True,
}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
autoclass_content = "both"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Source"]
add_module_names = False
# Functions in the table of contents would make each page's sidebar, and so the build, twice as slow.
toc_object_entries = False
# Every kind of part has a class of the same name in each of its files, so a bare name in a signature is ambiguous.
# The page of the claims has titles of the third level under its first: a program writes it.
suppress_warnings = ["ref.python", "myst.header"]

html_theme = "sphinx_book_theme"
html_title = "numjax"
html_theme_options = {
    "show_toc_level": 2,
    "show_navbar_depth": 1,
    "use_download_button": False,
    "use_fullscreen_button": False,
}
html_show_sourcelink = False
html_static_path = ["static"]
html_search_scorer = str(HERE / "static" / "scorer.js")
html_css_files = ["numjax.css"]


def list_grid_page(app, docname, content):
    """Puts the page of the grid's results first on the page of all results."""
    del app
    if has_grid and docname == "results/index":
        first = "../experiments/*/README"
        content[0] = content[0].replace(first, f"../{GRID_PAGE}\n{first}")


def setup(app):
    """Registers the step."""
    app.connect("source-read", list_grid_page)
