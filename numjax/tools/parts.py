"""python -m numjax.tools.parts [KIND [NAME]]: lists the parts that a config can name, and their options.

Without arguments it prints a line for each part: its kind, its name, what it is. With a kind it prints those of this
kind, and with the name of a part alone those of this name. With a kind and a name it prints the options of that part:
name, type, default. Of a scheme, or a head that writes numbers, it also says which numbers it reads and writes with
these defaults. Kinds: scheme embedding positions backbone head objective task. NAME may be a module of your own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from numjax import build
from numjax.config import blocks
from numjax.errors import UsageError
from numjax.text import vocab as vocabularies
from numjax.tools.command import make_parser, report, stream

_VOCABULARY = {"name": "sentencepiece", "size": 400}
_WORDS = tuple(build.WORD_OF_KIND.values())


def _words(kind: str) -> set[str]:
    """What a user may call a kind: its word, the key of a config, its folder."""
    return {build.WORD_OF_KIND[kind], kind, *(key for key, (k, _) in blocks.BLOCK_KINDS.items() if k == kind)}


_KINDS = {word: kind for kind in build.BASE_OF_KIND for word in _words(kind)}


def list_parts(kind: str = "", name: str = "") -> list[str]:
    """Lists the parts, or the options of a part: the lines to print.

    Args:
      kind: the word of a kind ("head"), the key of a config ("heads") or a folder of numjax; else the name of a part.

    Raises:
      UsageError: there is no such kind or part.
    """
    folder = _KINDS.get(kind, "")
    if not name:
        listed = [(k, n) for k in build.BASE_OF_KIND for n in build.names(k) if not kind or kind in (n, *_words(k))]
        if not listed:
            raise UsageError(f"no kind and no part is called {kind!r}: kinds are {', '.join(_WORDS)}")
        return [f"{build.WORD_OF_KIND[k]:10}  {n:19}  {describe_part(k, n)}" for k, n in listed]
    if not folder:
        raise UsageError(f"no kind of part is called {kind!r}: choose {', '.join(_WORDS)}")
    kind = folder
    types, parameters = blocks.option_types(kind, name), build.options(kind, name)
    lines = [f"{name}: {describe_part(kind, name)}"]
    for key, type_name in types.items():
        default = parameters[key].default if key in parameters else blocks.EXTRA_OPTIONS[kind][key]
        is_required = key in parameters and default is parameters[key].empty
        has_width_default = key in build.context_options(kind, name)
        width_note = ", or the width of the model where fusion is add or replace" if has_width_default else ""
        lines.append(f"  {key}: {type_name}" + (", to be given" if is_required else f" = {default!r}{width_note}"))
    return [*lines, *_describe_numbers(kind, name)]


def _describe_numbers(kind: str, name: str) -> list[str]:
    """What a scheme of text or a head of numbers can do with numbers, with its defaults."""
    cls = build.find(kind, name)
    if kind == "heads" and cls.numbers and cls.written_as == "places":
        return ["writes numbers place by place; its scheme joins them"]
    if kind == "heads" and cls.numbers and cls.written_as == "prefix":
        return ["foresees the vector of a number, whose digits are tokens"]
    if kind == "heads" and cls.numbers:
        head = build.build(kind, {"name": name}, width=64, vocab_size=512, size=500, num_id=4, digits=20)
        numbers = head.number_range.describe() if head.number_range else "any number"
        return [f"writes {numbers}" + ("" if head.exact else "; a number near the one it means")]
    if kind != "text" or cls.reads != "text":
        return []
    scheme = build.build(kind, {"name": name}, vocab=vocabularies.build(_VOCABULARY, ["12 + 34 = 46"]))
    abilities = scheme.abilities()
    reads, writes = (x and x.describe() for x in (abilities.reads, abilities.writes))
    form = "kept" if abilities.keeps_format else "not kept"
    return [
        f"reads {reads}; writes {writes or 'what the head writes'}; the written form is {form}",
        f"has {scheme.positions_per_number(6)} positions for a number of 6 digits",
    ]


def describe_part(kind: str, name: str) -> str:
    """The first sentence of the docstring of a part's module."""
    module = sys.modules[build.find(kind, name).__module__]
    paragraph = " ".join((module.__doc__ or "(its module has no docstring)").strip().partition("\n\n")[0].split())
    return re.split(r"(?<=[^.][.)])(?<!\bal\.) (?=[A-Z])", paragraph, maxsplit=1)[0]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the lines. Returns 0, or 2 for bad usage."""
    parser = make_parser("parts", __doc__)
    parser.add_argument("kind", nargs="?", default="", help=f"one of {', '.join(_WORDS)}")
    parser.add_argument("name", nargs="?", default="", help="a part of that kind, or a module of your own")
    try:
        flags = parser.parse_args(argv)
        lines = list_parts(flags.kind, flags.name)
    except UsageError as error:
        return report("parts", error)
    return stream("parts", (f"{line}\n".encode() for line in lines))


if __name__ == "__main__":
    sys.exit(main())
