"""The code that a result depends on: the modules that its run can import, and a digest of each.

A digest is of a module's syntax tree without docstrings, so that comments, layout and documentation do not count, and
of the files beside the module that it opens by `__file__`. Other libraries are not followed: results record the
versions of Python and JAX.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import pathlib
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder

from numjax import bundled

PACKAGE = "numjax"
# Folders and kinds of files that results depend on; the others are texts and results.
CODE = ("numjax", "configs", "data", "experiments")
CODE_KINDS = (".py", ".toml")


def list_digests(roots: Iterable[str]) -> dict[str, str]:
    """Module → digest, of the root modules and of all modules of the same packages that they import, directly or not.

    The `__init__.py` of a package counts if a module imports something from it.

    Args:
      roots: dotted names, such as "numjax.train.loop".
    """
    digests: dict[str, str] = {}
    waiting = list(roots)
    packages = {PACKAGE, *(root.partition(".")[0] for root in waiting)}
    while waiting:
        name = waiting.pop()
        if name in digests or name.partition(".")[0] not in packages or (module := _load(name)) is None:
            continue
        digests[name], imports = module
        waiting += imports
    return dict(sorted(digests.items()))


def list_changed(digests: Mapping[str, str]) -> list[str]:
    """The modules of a result whose digests differ now, or that are gone."""
    return [name for name, digest in digests.items() if (module := _load(name)) is None or module[0] != digest]


def describe_changed(digests: Mapping[str, str], most: int = 6) -> str:
    """How the code of a result differs from the present code, in words; empty if it does not."""
    if not digests:
        return "unknown code"
    names = [name.removeprefix("numjax.").removeprefix("bundled.") for name in list_changed(digests)]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"other code: {', '.join(names[:most])}{more}" if names else ""


def digest_source(source: str, folder: pathlib.Path | None = None) -> str:
    """Eight hexadecimal digits of a module's syntax tree, and of the files in `folder` that it opens."""
    tree = ast.parse(source)
    content = repr(_strip(tree)).encode()
    for name in sorted(_list_resources(tree)):
        for path in _list_files(folder / name) if folder else ():
            content += path.name.encode() + path.read_bytes()
    return hashlib.sha256(content).hexdigest()[:8]


def list_changes() -> list[str]:
    """The files of code in this checkout that are not committed as they are; none where there is no git."""
    command = ["git", "-C", str(bundled.HOME), "status", "--porcelain", "--untracked-files=all", "--", *CODE]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [line[3:] for line in output.splitlines() if line.endswith(CODE_KINDS)]


@functools.cache
def _load(name: str) -> tuple[str, tuple[str, ...]] | None:
    """(digest, dotted names that it imports) of a module, or None if there is no such module."""
    try:
        spec = _find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    path = pathlib.Path(spec.origin)
    source = path.read_text(encoding="utf-8")
    parent = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return digest_source(source, path.parent), tuple(_list_imports(ast.parse(source), parent))


def _find_spec(name: str) -> ModuleSpec | None:
    """The spec of a module; None if its parent is no package, or `name` is an attribute of a module. The packages
    above it are not imported: that may take seconds."""
    top, *parts = name.split(".")
    spec = importlib.util.find_spec(top)
    for part in parts:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = PathFinder.find_spec(f"{spec.name}.{part}", list(spec.submodule_search_locations))
    return spec


def _list_imports(tree: ast.AST, parent: str) -> Iterator[str]:
    """Yields the dotted names that a module imports anywhere but under `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = parent.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, [base, node.module]))
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        yield from _list_imports(node, parent)


def _strip(node: ast.AST) -> tuple:
    """A syntax tree as tuples, the same in all versions of Python: without docstrings and empty fields."""
    fields = []
    for field, value in ast.iter_fields(node):
        values = value if isinstance(value, list) else [value]
        if field == "body" and values and _is_docstring(values[0]):
            values = values[1:]
        stripped = [_strip(v) if isinstance(v, ast.AST) else repr(v) for v in values if v is not None]
        if stripped:
            fields.append((field, *stripped))
    return type(node).__name__, *fields


def _is_docstring(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _list_resources(tree: ast.AST) -> set[str]:
    """The names of files and folders beside the module that it opens as `Path(__file__).parent / "name"`."""
    return {
        node.right.value
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp)
        and isinstance(node.right, ast.Constant)
        and isinstance(node.right.value, str)
        and any(isinstance(part, ast.Name) and part.id == "__file__" for part in ast.walk(node.left))
    }


def _list_files(path: pathlib.Path) -> Sequence[pathlib.Path]:
    return [path] if path.is_file() else sorted(child for child in path.rglob("*") if child.is_file())
