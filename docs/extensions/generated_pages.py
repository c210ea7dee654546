"""Writes the pages of the reference that follow from the code, into docs/generated, before Sphinx reads its sources.

They are the modules (`api/`), the parts with their options (`parts/`), which positions go with which backbone, the
configs with their words, and the keys of a config. A new module, part or config appears by itself. A new key needs a
meaning in `reference/config_keys.toml`, or the build fails.
"""

from __future__ import annotations

import ast
import importlib
import pathlib
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from docstrings import escape, to_rst

from numjax import build, bundled
from numjax.bundled.configs import dice, digits, gpt, luna, tabbert
from numjax.config import blocks, fit, recipe
from numjax.errors import UsageError
from numjax.tools import parts

PACKAGE = pathlib.Path(build.__file__).resolve().parent
# What a part of each kind does, for a newcomer.
KINDS = {
    "text": "Schemes: how text, numbers and formulas become tokens",
    "embed": "Embeddings: how tokens and numbers become vectors",
    "positions": "Positions: how the model knows the order of tokens",
    "backbone": "Backbones: the stack of layers",
    "heads": "Heads: what the model predicts",
    "objectives": "Objectives: the losses",
    "tasks": "Tasks: records, answers and metrics",
}
# A config for each backbone, to ask which positions go with it.
BACKBONES = {
    "decoder (GPT-2)": gpt.get_config,
    "encoder (BERT)": luna.get_config,
    "encoder_decoder (T5)": digits.get_config,
    "bilstm": dice.get_config,
    "tabular": tabbert.get_config,
}


def write_all(folder: pathlib.Path) -> None:
    """Writes all pages, and removes pages of modules that no longer exist."""
    pages = {**make_api_pages(), **make_part_pages(), "positions.rst": make_positions_page()}
    keys = tomllib.loads((folder.parent / "reference" / "config_keys.toml").read_text(encoding="utf-8"))
    pages["config.rst"] = make_config_page(keys)
    pages["configs.rst"] = make_configs_page()
    for path in folder.rglob("*.rst"):
        if str(path.relative_to(folder)) not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Sphinx reads a page again if its file is newer.
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


# -- modules ---------------------------------------------------------------------------------------------------------


def list_modules() -> dict[str, str]:
    """Dotted name → first line of its docstring, for every public module of numjax."""
    modules = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        names = ("numjax", *path.relative_to(PACKAGE).with_suffix("").parts)
        names = names[:-1] if names[-1] == "__init__" else names
        # In a checkout the folders in bundled are links, which rglob does not follow; in a wheel they are folders.
        is_bundled = names[1:2] == ("bundled",) and len(names) > 2
        if not is_bundled and not any(name.startswith("_") for name in names):
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            modules[".".join(names)] = " ".join(docstring.partition("\n\n")[0].split())
    return modules


def make_api_pages() -> dict[str, str]:
    """A page for each folder or file of numjax, with all modules in it."""
    modules = list_modules()
    pages: dict[str, str] = {}
    for top in sorted({".".join(name.split(".")[:2]) for name in modules}):
        members = [name for name in modules if name == top or (top != "numjax" and name.startswith(f"{top}."))]
        pages[f"api/{top}.rst"] = _title(top, "=") + "".join(_format_module(name, top) for name in members)
    entries = "".join(f"   {page.removeprefix('api/').removesuffix('.rst')}\n" for page in pages)
    rows = [(f":doc:`{name}`", escape(modules.get(name, ""))) for name in (e.strip() for e in entries.splitlines())]
    index = _title("Modules, classes and functions", "=") + _table(("module", "what it holds"), rows)
    return {**pages, "api/index.rst": f"{index}.. toctree::\n   :hidden:\n\n{entries}"}


def _format_module(name: str, top: str) -> str:
    heading = "" if name == top else _title(name, "-")
    return f"{heading}.. automodule:: {name}\n\n"


# -- parts -----------------------------------------------------------------------------------------------------------


def make_part_pages() -> dict[str, str]:
    """A page for each kind of part: each part with what it is, and its options as `numjax.tools.parts` lists them."""
    pages = {}
    for kind in build.BASE_OF_KIND:
        names, word = build.names(kind), build.WORD_OF_KIND[kind]
        text = _title(KINDS[kind], "=")
        text += f"These are the parts in ``numjax/{kind}``. ``numjax parts {word}`` lists them.\n\n"
        pages[f"parts/{kind}.rst"] = text + "".join(_format_part(kind, name) for name in names)
    rows = [(f":doc:`{kind}`", KINDS[kind], str(len(build.names(kind)))) for kind in build.BASE_OF_KIND]
    index = _title("Parts and their options", "=") + (
        "A config names its parts. Any part goes with any other that it can work with; ``numjax check`` refuses the "
        "rest in one line. A part of your own is a file: see :doc:`/tutorials/embedding`.\n\n"
    )
    entries = "".join(f"   {kind}\n" for kind in build.BASE_OF_KIND)
    index += _table(("folder", "kind", "parts"), rows) + f".. toctree::\n   :hidden:\n\n{entries}   ../positions\n"
    return {**pages, "parts/index.rst": index}


def _format_part(kind: str, name: str) -> str:
    module = build.find(kind, name).__module__
    text = _title(name, "-") + f".. part:: {kind}.{name}\n\n"
    text += _indent(to_rst(sys.modules[module].__doc__ or "")) + "\n\n"
    text += f"   The module is :mod:`{module}`.\n\n"
    lines = parts.list_parts(kind, name)[1:]
    options = [_split_option(line) for line in lines if line.startswith("  ")]
    abilities = "".join(f"   It {escape(line)}.\n\n" for line in lines if not line.startswith("  "))
    if not options:
        return text + abilities + "   It has no options.\n\n"
    return text + abilities + _indent(_table(("option", "type", "default"), options)) + "\n\n"


def _split_option(line: str) -> tuple[str, str, str]:
    """(name, type, default) of a line that `parts.list_parts` prints: "  dim: int = 64"."""
    name, _, rest = line.strip().partition(": ")
    type_name, equals, default = rest.partition(" = ")
    value, comma, note = default.partition(", or the width")
    if not equals:
        type_name, _, value = rest.partition(", ")
        return f"``{name}``", f"``{type_name}``", value
    return f"``{name}``", f"``{type_name}``", f"``{value}``{escape(comma + note)}"


def make_positions_page() -> str:
    """The page that says which positions go with which backbone, from the rules that a run checks."""
    rows, reasons = [], []
    for name in build.names("positions"):
        cells = []
        for backbone, get_config in BACKBONES.items():
            fault = find_position_fault(get_config("smoke"), name)
            # A fault that does not name the backbone goes away with another scheme.
            cells.append(
                "yes" if not fault else "no" if "backbone" in fault else f"with {fault.split('choose ')[-1]}"
            )
            reasons += [f"* {name} with {backbone}: {escape(fault)}\n"] if fault else []
        rows.append((f":part:`positions.{name}`", *cells))
    text = _title("Which positions fit which backbone", "=")
    text += (
        "Positions are added to the input, rotate queries and keys, or bias the scores of attention. A backbone "
        "without attention takes only the first kind. The table asks the rules that every run checks "
        "(:mod:`numjax.config.fit`), with ``--set=positions.sequence=NAME``.\n\n"
    )
    text += _title("Which positions fit BERT?", "-")
    text += (
        "Those with a *yes* in the column *encoder (BERT)*: BERT, RoBERTa and LUNA are encoders. BERT itself has "
        "learned positions.\n\n"
    )
    text += _table(("positions", *BACKBONES), rows) + _title("Why do some positions not fit?", "-")
    return text + "".join(reasons)


def _answer(fault: str) -> str:
    # A fault that does not name the backbone goes away with another scheme.
    return "yes" if not fault else "no" if "backbone" in fault else f"with {fault.rpartition('choose ')[2]}"


def find_position_fault(config: Any, name: str) -> str:
    """The line that refuses these positions in place of all positions of the config; "" where they fit."""
    with config.unlocked():
        config.positions = {}
    try:
        config = blocks.apply_changes(config, [f"+positions.sequence={name}"])
        return next(iter(fit.find_faults(config, build.build("tasks", config.task))), "")
    except UsageError as error:
        return str(error)


# -- configs ---------------------------------------------------------------------------------------------------------


def list_configs() -> dict[str, Any]:
    """Name → module of each config that `--config` can name."""
    folder = bundled.HOME / "configs"
    names = sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.py"))
    modules = {name: importlib.import_module(f"numjax.bundled.configs.{name.replace('/', '.')}") for name in names}
    return {name: module for name, module in modules.items() if hasattr(module, "get_config")}


def make_configs_page() -> str:
    """Each config: its docstring, and the words that `--config=NAME:WORD,WORD` takes."""
    text = _title("Configs and their words", "=")
    text += (
        "``--config=NAME:WORD,WORD`` takes a config and changes it by words. Each config has words of its own: a "
        "scale, which may stand alone, and ``KEY=WORD``. ``numjax show --config=NAME:WORD`` prints what they come "
        "to. :doc:`/guides/configs` shows how to write a config of your own.\n\n"
    )
    for name, module in list_configs().items():
        text += _title(name, "-") + to_rst(module.__doc__ or "") + "\n\n"
        if isinstance(module.get_config, recipe.Recipe):
            words = module.get_config.list_words()
            rows = [(f"``{key}``", ", ".join(f"``{_show_word(w)}``" for w in words[key])) for key in words]
            text += _table(("key", "words"), rows)
    return text


def _show_word(word: str) -> str:
    return "NAME" if word == "*" else word


# -- config ----------------------------------------------------------------------------------------------------------


def make_config_page(keys: Mapping[str, Any]) -> str:
    """The keys of a config with their defaults (`recipe.BASE`) and their meanings.

    Raises:
      ValueError: a key has no meaning, or a meaning has no key.
    """
    defaults = dict(_flatten(recipe.BASE))
    meanings = dict(_flatten(keys))
    if difference := defaults.keys() ^ meanings.keys():
        raise ValueError(f"reference/config_keys.toml and recipe.BASE differ in {', '.join(sorted(difference))}")
    text = _title("Keys of a config", "=")
    text += (
        "``--config.KEY=VALUE`` changes one of them. The defaults are those of ``numjax/config/recipe.py``; a config "
        "changes some of them, and ``numjax show`` prints what they come to. Options of a part are in "
        ":doc:`parts/index`.\n\n"
    )
    for group in dict.fromkeys(key.partition(".")[0] if "." in key else "" for key in defaults):
        group_keys = [key for key in defaults if (key.partition(".")[0] if "." in key else "") == group]
        rows = [(f"``{key}``", f"``{defaults[key]!r}``", escape(meanings[key])) for key in group_keys]
        text += _title(group or "The run", "-") + _table(("key", "default", "meaning"), rows)
    return text


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


# -- reStructuredText ------------------------------------------------------------------------------------------------


def _title(text: str, underline: str) -> str:
    return f"{text}\n{underline * len(text)}\n\n"


def _indent(text: str) -> str:
    return re.sub(r"^(?=.)", "   ", text, flags=re.MULTILINE)


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in (header, *rows):
        lines += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(row)]
    return "\n".join(lines) + "\n\n"


def setup(app: Any) -> dict[str, Any]:
    """Registers the objects of kind "part", and writes the pages once Sphinx is set up."""
    app.add_object_type("part", "part", "pair: %s; part", objname="part")
    app.connect("builder-inited", lambda app: write_all(pathlib.Path(app.srcdir) / "generated"))
    return {"parallel_read_safe": True}
