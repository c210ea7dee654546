"""How often our trees of LaTeX are those of MathMLben's content MathML, which was corrected by hand.

    python -m experiments.mathgpt.mathmlben --path=FOLDER      # with gold.jsonl.gz

Three comparisons: the trees as they are; with one symbol for each sign and one type for each leaf; and normalised to
what is written (`notation.py`), which flattens structure. For the formulas that only the last makes equal, the rules
without which they would differ are counted. Writes mathmlben.{md,json}.
"""

from __future__ import annotations

import gzip
import json
import pathlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import command, report, stored
from numjax.bundled.experiments.mathgpt.notation import RULES, normalize_notation, normalize_symbols
from numjax.errors import DataError
from numjax.expr import latex, mathml
from numjax.expr.tree import Tree
from numjax.tools.command import Parser

OUT = "runs/mathgpt-mathmlben"
FILE = "gold.jsonl.gz"
LABELS = {
    "raw": "the trees as they are",
    "symbols": "one symbol for each sign, one type for each leaf",
    "notation": "normalised to what is written",
    "parsed": "both can be parsed",
    "formulas": "formulas",
}


def main(words: Sequence[str] | None = None) -> None:
    """Measures, then writes mathmlben.{md,json}."""
    parser = Parser(prog="python -m experiments.mathgpt.mathmlben", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--path", required=True, help=f"folder of {FILE}")
    parser.add_argument("--out", default=OUT, help=f"folder of the table; by default {OUT}")
    command.add_dirty(parser)
    options = parser.parse_args(words)
    command.check_code(options.dirty)
    path = pathlib.Path(options.path).expanduser() / FILE
    if not path.is_file():
        raise DataError(f"{path}: no such file; give --path=FOLDER of MathMLben's {FILE}")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        counts, rule_counts = count_equal(map(json.loads, file))
    content = {"counts": dict(counts), "rule_counts": dict(rule_counts), "machine": stored.describe_machine()}
    out = pathlib.Path(options.out).expanduser()
    text = report.write("mathmlben", out, "mathgpt.mathmlben", content)
    print(f"\n{text}\nIn {out}: mathmlben.md, mathmlben.json", flush=True)


def count_equal(rows: Iterable[Mapping[str, str]]) -> tuple[Counter[str], Counter[str]]:
    """(key of `LABELS` → formulas, name of `RULES` → formulas that would differ without it).

    Args:
      rows: with `correct_mml`, content MathML, and `correct_tex`, LaTeX.
    """
    counts: Counter[str] = Counter(dict.fromkeys(LABELS, 0))
    rule_counts: Counter[str] = Counter(dict.fromkeys(RULES, 0))
    for row in rows:
        counts["formulas"] += 1
        gold, ours = mathml.parse(row["correct_mml"]), latex.parse(row["correct_tex"])
        if not (isinstance(gold, Tree) and isinstance(ours, Tree)):
            continue
        counts["parsed"] += 1
        has_same_symbols = normalize_symbols(gold) == normalize_symbols(ours)
        is_same = normalize_notation(gold) == normalize_notation(ours)
        counts["raw"] += gold == ours
        counts["symbols"] += has_same_symbols
        counts["notation"] += is_same
        if is_same and not has_same_symbols:
            rule_counts.update(
                rule for rule in RULES if normalize_notation(gold, [rule]) != normalize_notation(ours, [rule])
            )
    return counts, rule_counts


def render(content: Mapping[str, Any]) -> str:
    """The Markdown of the JSON."""
    counts, rule_counts = content["counts"], content["rule_counts"]
    total = counts["formulas"]
    lines = [
        "# MathMLben: our trees of LaTeX and content MathML corrected by hand\n",
        f"{report.describe_commits([content])}\n",
        "| equal | formulas | % |",
        "|---|---:|---:|",
        *(f"| {label} | {counts[name]} | {100 * counts[name] / total:.1f} |" for name, label in LABELS.items()),
        f"\nOf the {counts['notation'] - counts['symbols']} formulas that only the last comparison makes equal, "
        "those that would differ without a rule; some need several:\n",
        "| rule | formulas |",
        "|---|---:|",
        *(f"| {text} | {rule_counts[name]} |" for name, text in RULES.items()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    command.entry(main)
