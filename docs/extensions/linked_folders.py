"""Makes pages of experiments/ and data/, which are links in docs/, as if they were folders of the documentation.

Sphinx follows a link to where it points to, so that a page's links to other pages leave the documentation. This
module leads them back. A table also gets the name of its experiment into its title.
"""

from __future__ import annotations

import pathlib
import re
from typing import Any

from sphinx import addnodes

LINKED = ("experiments", "data")
DOCS = pathlib.Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
_TABLE = re.compile(r"experiments/(\w+)/results/([\w-]+)/(\w+)")


def name_table(app: Any, docname: str, content: list[str]) -> None:
    """Puts the experiment and the scale before the title of a table's page; a table without a title gets one."""
    if not (match := _TABLE.fullmatch(docname)):
        return
    experiment, scale, table = match.groups()
    lines = content[0].split("\n")
    title = lines.pop(0).removeprefix("# ") if lines[0].startswith("# ") else table
    content[0] = "\n".join([f"# {experiment}, {scale}: {title}", *([""] if lines[0] else []), *lines])


def redirect_links(app: Any, doctree: Any) -> None:
    """Turns the links that point to a page's real folder into links to the page."""
    for node in doctree.findall(addnodes.pending_xref):
        if node.get("refdomain") == "doc" and (target := find_page(node["reftarget"])):
            node["reftarget"] = target


def find_page(target: str) -> str:
    """The page of an absolute path without its ending; "" for a path that is not of the checkout."""
    path = pathlib.Path("/" + target.lstrip("/"))
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in LINKED:
        return path.relative_to(ROOT).as_posix()
    return ""


def setup(app: Any) -> dict[str, Any]:
    """Registers both steps."""
    app.connect("source-read", name_table)
    app.connect("doctree-read", redirect_links)
    return {"parallel_read_safe": True}
