"""What the tables of magnitude classification share: whose numbers are masked, and what a table says of it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from numjax.errors import UsageError
from numjax.tools.command import Parser

NEWS = "news"
VARIANTS = ("titles", "comments", NEWS)
STAND_IN = "stand-in"


def add_options(parser: Parser, variant: str) -> None:
    """Adds --path and --variant, by default `variant`, to a parser."""
    parser.add_argument(
        "--path", default="", help="folder of the Numeracy-600K files, or with --variant=news of news"
    )
    parser.add_argument(
        "--variant", choices=VARIANTS, default=variant, help="of Numeracy-600K, or news (data/news/README.md)"
    )


def check_options(options: argparse.Namespace) -> None:
    """Raises UsageError if news are wanted and no folder is named."""
    if options.variant == NEWS and not options.path:
        raise UsageError("--variant=news needs --path, the folder of AG News or Financial PhraseBank")


def name_table(name: str, options: argparse.Namespace) -> str:
    """The name of a table's files: that of news does not replace the others'."""
    return f"{name}_news" if options.variant == NEWS else name


def describe_files(options: argparse.Namespace) -> dict[str, str]:
    """The entries of a table's JSON on its data."""
    return {"data": options.path or STAND_IN, "variant": options.variant}


def name_other(content: Mapping[str, Any]) -> str:
    """What the data of a table's JSON are, if they are not the paper's: then its numbers do not compare; else ""."""
    if content.get("variant") == NEWS:
        return "other news"
    return "stand-in data" if content["data"] == STAND_IN else ""


def make_title(title: str, content: Mapping[str, Any]) -> str:
    """A title with what its data are, if they are not the paper's."""
    other = name_other(content)
    return f"{title} ({other})" if other else title


def describe_data(options: argparse.Namespace) -> str:
    """A remark on the data."""
    if options.variant == NEWS:
        return (
            "Data: numbers of **real news**, AG News and Financial PhraseBank (data/news), split by article; not "
            "Numeracy-600K, which may not be passed on. The rows compare with one another, not with the paper's."
        )
    if options.path:
        return f"Data: {options.variant} of Numeracy-600K in {options.path}."
    return (
        f"Data: a generated **stand-in** for the {options.variant} of Numeracy-600K, not the dataset: made-up texts "
        "with the published shares of magnitudes. The numbers show that the pipeline works; they do not compare with "
        "the paper's."
    )
