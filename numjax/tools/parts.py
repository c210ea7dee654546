"""python -m numjax.tools.parts [KIND [NAME]]: lists the parts that a config can name, and their options.

Without arguments it prints a line for each part: its kind, its name, what it is. With a name it prints the options of
that part: name, type, default. Of a scheme, or a head that writes numbers, it also says which numbers it reads and
writes with these defaults. Kinds: tasks text embed positions backbone heads objectives. NAME may be a module of your
own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from numjax import build
from numjax.config import blocks
from numjax.errors import UsageError
from numjax.text import vocab as vocabularies
from numjax.tools.command import make_parser, report

_VOCABULARY = {"name": "sentencepiece", "size": 400}


def list_parts(kind: str = "", name: str = "") -> list[str]:
    """Lists the parts, or the options of a part: the lines to print.

    Raises:
      UsageError: there is no such kind or part.
    """
    if kind and kind not in build.BASE_OF_KIND:
        raise UsageError(f"no kind of part is called {kind!r}: choose {', '.join(build.BASE_OF_KIND)}")
    if not name:
        kinds = [kind] if kind else build.BASE_OF_KIND
        return [f"{k:10}  {n:19}  {_first_line(k, n)}" for k in kinds for n in build.names(k)]
    types, parameters = blocks.option_types(kind, name), build.options(kind, name)
    lines = [f"{name}: {_first_line(kind, name)}"]
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


def _first_line(kind: str, name: str) -> str:
    module = sys.modules[build.find(kind, name).__module__]
    return (module.__doc__ or "").strip().split("\n")[0]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the lines. Returns 0, or 2 for bad usage."""
    parser = make_parser("parts", __doc__)
    parser.add_argument("kind", nargs="?", default="", help=f"one of {', '.join(build.BASE_OF_KIND)}")
    parser.add_argument("name", nargs="?", default="", help="a part of that kind, or a module of your own")
    try:
        flags = parser.parse_args(argv)
        lines = list_parts(flags.kind, flags.name)
    except UsageError as error:
        return report("parts", error)
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
