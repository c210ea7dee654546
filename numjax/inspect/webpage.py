"""Pages for a browser: one HTML file with its style, its scripts and its data, which needs no network.

The script and the style are allowed by their digests alone, so that no text in the data can run.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import pathlib
import re
from typing import Any

from numjax.runtime import files

_SHARED = pathlib.Path(__file__).parent / "page"


def make_page(folder: pathlib.Path, title: str, data: Any) -> str:
    """A page of a folder's page.html, page.css and scripts; `base.css` and `base.js` of all pages come first, page.js
    comes last.

    Args:
      title: what the browser's tab shows. data: JSON, which the script reads as `data`.

    Raises:
      ValueError: the data have a number that is not finite.
    """
    style = "".join((path / name).read_text("utf-8") for path, name in ((_SHARED, "base.css"), (folder, "page.css")))
    first, last = _SHARED / "base.js", folder / "page.js"
    others = sorted({*folder.glob("*.js")} - {first, last})
    script = "".join(path.read_text("utf-8") for path in (first, *others, last))
    policy = f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}"
    contents = {
        "title": html.escape(title), "policy": html.escape(policy), "style": style, "script": script,
        "data": write_json(data),
    }  # fmt: skip
    # In one pass, so that no text of the data counts as a place to fill in.
    template = (folder / "page.html").read_text("utf-8")
    page = re.sub(r"\{\{([a-z]+)\}\}", lambda match: contents[match[1]], template)
    return files.replace_surrogates(page)  # a file's name may hold some


def write_json(data: Any) -> str:
    """JSON that is safe inside a script element: no text of it can end the element or begin a comment."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
