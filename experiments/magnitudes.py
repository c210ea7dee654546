"""What the tables of magnitude classification share: whose numbers are masked, and what a table says of it."""

from __future__ import annotations

import argparse

from numjax.errors import UsageError
from numjax.tools.command import Parser

NEWS = "news"
VARIANTS = ("titles", "comments", NEWS)


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


def name_data(options: argparse.Namespace) -> str:
    """For a table's JSON: "news", "stand-in", or the folder of Numeracy-600K."""
    return NEWS if options.variant == NEWS else options.path or "stand-in"


def describe_title(options: argparse.Namespace) -> str:
    """What follows the title of a table whose data are not the paper's; "" if they are."""
    return {NEWS: " (other news)", "stand-in": " (stand-in data)"}.get(name_data(options), "")


def is_papers(data: str) -> bool:
    """Whether a table of this data may be compared with the paper's numbers."""
    return data not in (NEWS, "stand-in")


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
