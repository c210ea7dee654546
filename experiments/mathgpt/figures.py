"""Figs. 2–7: where operators, variables and the nodes of a tree lie, MathGPT beside GPT, with numbers for it.

    python -m experiments.mathgpt.figures --mathgpt=WORKDIR,… --gpt=WORKDIR,… # of runs that there are
    python -m experiments.mathgpt.figures --path=math23k.jsonl                # of Table 3's runs in --out

Without workdirs it takes Table 3's runs, and trains them where they are missing; measures are then means over folds,
pictures of the first. A picture shows what t-SNE makes of it with one seed; what the paper reads off its pictures is
measured on the vectors themselves, against chance.
"""

from __future__ import annotations

import argparse
import pathlib
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import numjax
from numjax.api import Loaded, Nodes, Symbol
from numjax.bundled.experiments import command, plots, report, runs, tables
from numjax.bundled.experiments.mathgpt import settings, table3
from numjax.errors import UsageError
from numjax.expr import signs
from numjax.geometry import neighbours, projections
from numjax.geometry import plots as pictures
from numjax.pipeline import source
from numjax.system import trees
from numjax.text import symbols as names

FORMULA = "x = 280/(1-(2/5)-(1/3))"
OPERATORS, VARIABLES, NEAREST = 100, 50, 5
# The paper chose its seeds by eye; these are chosen by nobody.
SEED, OTHER_SEEDS = 0, (1, 2)
# What the paper says of pairs: near, near, apart, apart, apart (section 5.1).
PAIRS = (
    (("U", "eq"), ("O", "lt")),
    (("U", "plus"), ("O", "minus")),
    (("F", "min"), ("F", "max")),
    (("U", "union"), ("U", "intersect")),
    (("U", "eq"), ("U", "plus")),
)


class Vectors(NamedTuple):
    """What the figures of one model show.

    Attributes:
      operators, variables: float32[n, D], in the order of the lists of symbols.
      nodes: the formula as the model reads it, with its positions. common: the nodes that all models have.
    """

    operators: np.ndarray
    variables: np.ndarray
    nodes: Nodes
    common: list[int]


class Shown(NamedTuple):
    """The symbols, and what the systems make of them and of the formula."""

    operators: list[Symbol]
    variables: list[Symbol]
    of: dict[str, Vectors]


def counts(model: Loaded, path: str = "") -> Mapping[str, Mapping[str, int]]:
    """Type → symbol → how often: from a vocab.json, by default the one that the model's vocabulary was made from,
    else the trees of its train split."""
    path = path or (model.system.config.scheme.get("symbols") or {}).get("path", "")
    if path:
        return names.read_counts(path)
    task, folder = model.system.task, model.system.config.data.dir
    return names.count(trees(task, lambda: source.load(task.dataset, "train", folder) or ()))


def most_frequent(symbols: Sequence[Symbol], counted: Mapping[str, Mapping[str, int]], most: int) -> list[Symbol]:
    """Symbols that occur, most frequent first; of those that are written alike (lists of two and of three) one."""

    def times(one: Symbol) -> int:
        of = counted.get(one.type, {})
        if one.type == "M" and one.symbol.startswith("matrix-"):  # the released code's: by first letter
            return sum(n for symbol, n in of.items() if symbol[:1] == one.symbol[7:])
        return of.get(one.symbol, 0)

    first: dict[str, Symbol] = {}
    for one in sorted(symbols, key=times, reverse=True):
        if times(one) and one.latex:
            first.setdefault(one.latex, one)
    return list(first.values())[:most]


def look(models: Mapping[str, Loaded], path: str = "") -> Shown:
    """The vectors of MathGPT and, where it is there, of GPT, which reads the formula as one writes it: its nodes are
    in infix order, a number is one, and there is no END."""
    model = models["mathgpt"]
    counted, known = counts(model, path), model.symbols()
    operators = most_frequent([one for one in known if one.kind == "OP"], counted, OPERATORS)
    operators = [one for one in operators if one.type != "T" and has_sign(one)]
    variables = most_frequent([one for one in known if one.kind == "VAR"], counted, VARIABLES)
    nodes = model.nodes(FORMULA)
    order = infix(nodes)
    of = {}
    for name, one in models.items():
        mine, common = nodes, order
        if name != "mathgpt":
            common = list(range(len(order)))
            written = [_number(nodes, i) if nodes.names[i] == "number" else nodes.names[i] for i in order]
            mine = Nodes(written, nodes.tree_positions[order], one.positions(len(order)))
        of[name] = Vectors(_embedded(one, operators), _embedded(one, variables), mine, common)
    return Shown(operators, variables, of)


def has_sign(one: Symbol) -> bool:
    """Whether GPT would know it by more than the name that trees give it; the authors show only such operators."""
    return one.latex != one.symbol or len(one.symbol) == 1


def infix(nodes: Nodes) -> list[int]:
    """Indices of the nodes as the formula is written, without END and below numbers: an operator after its first
    operand."""
    below: dict[int, list[int]] = {i: [] for i in range(-1, len(nodes.names))}
    for child, parent in enumerate(neighbours.parents(nodes.tree_positions).tolist()):
        if nodes.names[child] != "end":
            below[parent].append(child)

    def read(node: int) -> list[int]:
        operands = [] if nodes.names[node] == "number" else below[node]
        first = read(operands[0]) if operands else []
        return [*first, node, *(inner for other in operands[1:] for inner in read(other))]

    return read(0)


def _number(nodes: Nodes, head: int) -> str:
    parents = neighbours.parents(nodes.tree_positions)
    return "".join(nodes.names[i] for i in np.flatnonzero(parents == head) if nodes.names[i] != "end")


def _embedded(model: Loaded, symbols: Sequence[Symbol]) -> np.ndarray:
    return model.embed_symbols(symbols) if symbols else np.zeros((0, 1), np.float32)


# -- numbers ---------------------------------------------------------------------------------------------------------


def measures(shown: Shown) -> dict[str, dict[str, Any]]:
    """System → measure → {"value", "chance", "p"} (with "count" and "k" of neighbours), None where there is nothing
    to measure; "pairs" → "first second" → place of the second among the neighbours of the first."""
    families = {
        "operators: family": [signs.family(one.type, one.symbol) for one in shown.operators],
        "variables: alphabet": [alphabet(one.symbol) for one in shown.variables],
        "variables: letter": [one.symbol.casefold() for one in shown.variables],
    }
    found = {}
    for name, vectors in shown.of.items():
        mine: dict[str, Any] = {}
        for measure, of in families.items():
            mine[measure] = _kin(vectors.operators if measure.startswith("operators") else vectors.variables, of)
        mine |= follows(vectors.nodes, vectors.common)
        mine["pairs"] = _pairs(vectors.operators, shown.operators)
        found[name] = mine
    return found


def _kin(x_ND: np.ndarray, families: Sequence[str]) -> dict[str, Any] | None:
    if len(x_ND) < 3:
        return None
    k = max(1, min(NEAREST, (len(x_ND) - 1) // 4))
    share = neighbours.kin(neighbours.nearest(neighbours.distances(x_ND), k), families)
    if share is None:
        return None
    return {"value": share.share, "chance": share.chance, "p": share.p, "count": share.count, "k": k}


def follows(nodes: Nodes, common: Sequence[int]) -> dict[str, dict[str, Any]]:
    """How far distances of these nodes' positions follow the tree, the sequence, and the tree beyond the sequence."""
    place = np.asarray(common)
    apart = neighbours.distances(nodes.vectors[place], "euclid")
    tree = neighbours.tree_distances(nodes.tree_positions[place])
    order = np.abs(place[:, None] - place)
    found = {
        "positions: tree": neighbours.mantel(tree, apart),
        "positions: sequence": neighbours.mantel(order, apart),
        "positions: tree beyond sequence": neighbours.mantel(tree, apart, order),
    }
    return {name: {"value": one.rho, "chance": 0.0, "p": one.p} for name, one in found.items()}


def _pairs(x_ND: np.ndarray, operators: Sequence[Symbol]) -> dict[str, int]:
    at = {(one.type, one.symbol): i for i, one in enumerate(operators)}
    there = [pair for pair in PAIRS if pair[0] in at and pair[1] in at]
    apart = neighbours.distances(x_ND) if there else np.zeros((0, 0))
    return {f"{one[1]} {other[1]}": neighbours.rank(apart, at[one], at[other]) for one, other in there}


def alphabet(symbol: str) -> str:
    """Latin, Greek, … of a single letter, else "other"."""
    name = unicodedata.name(symbol, "") if len(symbol) == 1 and symbol.isalpha() else ""
    return name.split()[0].capitalize() if name else "other"


# -- pictures --------------------------------------------------------------------------------------------------------


def draw(out: pathlib.Path, shown: Shown) -> tuple[dict[str, list[float]], list[str]]:
    """Writes the figures: (file → the share of nearest neighbours that t-SNE keeps in each panel, why others are
    left out)."""
    files: dict[str, list[float]] = {}
    left_out = []
    titles = {name: f"{table3.LABELS[name]}: {{}}" for name in shown.of}
    jobs: list[tuple[str, str, list[tuple[str, int]]]] = [
        ("fig2", "operators", [("mathgpt", SEED)]),
        ("fig3", "operators", [("gpt", SEED)]),
        ("fig4", "nodes", [("mathgpt", SEED), ("gpt", SEED)]),
        ("fig5", "operators", [("mathgpt", seed) for seed in OTHER_SEEDS]),
        ("fig6", "operators", [("gpt", seed) for seed in OTHER_SEEDS]),
        ("fig7", "variables", [("mathgpt", SEED), ("gpt", SEED)]),
    ]
    for name, what, panels in jobs:
        panels = [panel for panel in panels if panel[0] in shown.of]
        if not panels:
            continue
        count = len(getattr(shown, what, FORMULA))
        if count < 3:
            left_out.append(f"{name}: {count} {what} occur, too few for a picture.")
            continue
        wide = 9.0 if len(panels) == 1 else 7.5 * len(panels)
        kept = files.setdefault(f"{name}.png", [])
        with plots.figure(out / f"{name}.png", wide, 9.0 if len(panels) == 1 else 7.5, len(panels)) as found:
            for axes, (system, seed) in zip(found if len(panels) > 1 else [found], panels, strict=True):
                title = titles[system].format(f"{_CAPTIONS[what]} (t-SNE, seed {seed})")
                kept.append(_panel(axes, shown, what, shown.of[system], seed, title))
    return files, left_out


_CAPTIONS = {"operators": "operators", "variables": "variables", "nodes": f"positions in ${FORMULA}$"}


def _panel(axes: Any, shown: Shown, what: str, vectors: Vectors, seed: int, title: str) -> float:
    edges: list[tuple[int, int]] = []
    if what == "nodes":
        x_ND = vectors.nodes.vectors
        labels = [pictures.label(name) for name in vectors.nodes.names]
        depth = (vectors.nodes.tree_positions >= 0).sum(axis=1) - 1
        families = [f"level {level}" for level in depth]
        above = neighbours.parents(vectors.nodes.tree_positions)
        edges = [(int(parent), child) for child, parent in enumerate(above) if parent >= 0]
    else:
        x_ND = getattr(vectors, what)
        symbols: list[Symbol] = getattr(shown, what)
        labels = [pictures.label(one.latex, one.symbol) for one in symbols]
        if what == "operators":
            families = [signs.family(one.type, one.symbol) for one in symbols]
        else:
            families = [alphabet(one.symbol) for one in symbols]
    points = projections.tsne(x_ND, seed=seed)
    pictures.scatter(axes, points, labels, families, edges, title)
    there, pictured = (neighbours.distances(of, "euclid") for of in (x_ND, points))
    return neighbours.kept(there, pictured, NEAREST)


# -- the report ------------------------------------------------------------------------------------------------------

_ROWS = {
    "operators: family": "operators: neighbours of the same family (%)",
    "variables: alphabet": "variables: neighbours of the same alphabet (%)",
    "variables: letter": "variables: neighbours that are the same letter in the other case (%)",
    "positions: tree": "positions: distance against distance in the tree (ρ)",
    "positions: sequence": "positions: distance against distance in the sequence (ρ)",
    "positions: tree beyond sequence": "positions: against the tree, the sequence taken out (ρ)",
}


def table(found: Sequence[Mapping[str, Mapping[str, Any]]]) -> str:
    """Markdown: each measure's mean over models, what chance gives, and the largest p of the models."""
    systems = list(found[0])
    head = ["measure", "chance", *(word for name in systems for word in (table3.LABELS[name], "p"))]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    for measure, label in _ROWS.items():
        percent = "%" in label
        cells, chances = [], []
        for name in systems:
            entries = [one[name][measure] for one in found if one[name][measure] is not None]
            chances += [entry["chance"] for entry in entries]
            cells += [_spread([entry["value"] for entry in entries], percent)]
            cells += [_p(max(entry["p"] for entry in entries)) if entries else "–"]
        lines.append("| " + " | ".join([label, _spread(chances[:1], percent), *cells]) + " |")
    return "\n".join(lines) + "\n"


def _spread(values: Sequence[float], percent: bool) -> str:
    found = tables.spread([100 * value for value in values] if percent else values)
    if found is None:
        return "–"
    digits = 1 if percent else 2
    return f"{found[0]:.{digits}f}" + ("" if found[1] is None else f" ± {found[1]:.{digits}f}")


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def write(
    options: argparse.Namespace, every: Sequence[Shown], facts: str, workdirs: Mapping[str, Sequence[str]]
) -> tuple[str, list[str]]:
    """Writes fig2.png … fig7.png and figures.{md,json}: (the Markdown, the files)."""
    first = every[0]
    found = [measures(shown) for shown in every]
    files, left_out = draw(options.out, first)
    nodes = first.of["mathgpt"].nodes.names
    places = f"{len(first.operators)} operators, {len(first.variables)} variables, {len(nodes)} nodes of "
    text = (
        f"# Figs. 2–7: where symbols and positions lie\n\n{facts} {places}`{FORMULA}`.\n\n"
        f"A neighbour is one of the {NEAREST} nearest by cosine (fewer among few symbols). Chance deals the families "
        "anew, or shuffles the nodes (2,000 times); p is one-sided, the largest of the models. GPT has an operator's "
        "mean text token and the places in the formula as it is written; positions are compared over the nodes that "
        "both have.\n\n" + table(found)
    )
    shares = [f"{100 * share:.0f}%" for of in files.values() for share in of]
    text += f"\nOf the {NEAREST} nearest neighbours (Euclid) the panels keep, in order, {', '.join(shares)}.\n"
    text += "".join(f"\n{remark}\n" for remark in left_out)
    text += "".join(f"\n![{name}]({name})\n" for name in files)
    tables.write(options.out / "figures.md", text)
    written = {
        "formula": FORMULA,
        "workdirs": {name: [of.removeprefix(f"{options.out}/") for of in every] for name, every in workdirs.items()},
        "machine": runs.machine(),
        "operators": [one.symbol for one in first.operators],
        "variables": [one.symbol for one in first.variables],
        "nodes": {name: vectors.nodes.names for name, vectors in first.of.items()},
        "perplexity": {
            what: projections.perplexity_of(len(of))
            for what, of in (("operators", first.operators), ("variables", first.variables), ("nodes", nodes))
            if len(of) > 2
        },
        "kept": files,
        "seeds": {"fig2 fig3 fig4 fig7": SEED, "fig5 fig6": OTHER_SEEDS},
        "measures": found,
        "left_out": left_out,
    }
    runs.write_json(options.out / "figures.json", written)
    return text, [*files, "figures.md", "figures.json"]


def workdirs(options: argparse.Namespace) -> tuple[dict[str, list[str]], str]:
    """(system → a workdir a model, a line that says what they are).

    Raises:
      UsageError: MathGPT is not among them.
    """
    given = {name: getattr(options, name).split(",") for name in ("mathgpt", "gpt") if getattr(options, name)}
    if "gpt" in given and "mathgpt" not in given:
        raise UsageError("--gpt alone: the symbols are MathGPT's, so give --mathgpt=WORKDIR too")
    if len({len(folders) for folders in given.values()}) > 1:
        raise UsageError("--mathgpt and --gpt name other numbers of runs: give each seed or fold of both")
    if given:
        # Of a run only its own names: where it lies is the machine's affair.
        names = ["/".join(pathlib.Path(folder).parts[-3:]) for folders in given.values() for folder in folders]
        return given, f"Models: {', '.join(f'`{name}`' for name in names)}."
    results = settings.run(options, table3.SYSTEMS)
    done = {name: {fold for fold, result in of.items() if not result.diverged} for (_, name), of in results.items()}
    if not done.get("mathgpt"):
        raise UsageError("there is no run of MathGPT to look at: leave --only out, or give --mathgpt=WORKDIR")
    folds = sorted(set.intersection(*done.values()))
    if not folds:
        raise UsageError("no fold was learnt by both systems: give --mathgpt=WORKDIR and --gpt=WORKDIR")

    def folder(name: str, fold: int) -> str:
        cell = settings.cell(options, name, table3.SYSTEMS[name], fold)
        return str(runs.workdir(cell, fold, options.out))

    said = f"Models of Table 3, scale `{options.scale}`, folds {', '.join(map(str, folds))}"
    said += f"{', as published' * options.as_published}; {tables.machines(results)}."
    return {name: [folder(name, fold) for fold in folds] for name in sorted(done, reverse=True)}, said


def main(words: Sequence[str] | None = None) -> None:
    """Finds or trains the models, then writes everything."""
    parser = settings.parser(__doc__ or "")
    parser.add_argument("--mathgpt", default="", help="finished runs of configs/mathgpt.py: a seed or fold each")
    parser.add_argument("--gpt", default="", help="as many of a model of text alone")
    parser.add_argument("--symbols", default="", help="counts of symbols (MathGPT's vocab.json)")
    options = command.parse(parser, words)
    found, facts = workdirs(options)
    count = len(found["mathgpt"])
    every = [
        look({name: numjax.load(folders[i]) for name, folders in found.items()}, options.symbols)
        for i in range(count)
    ]
    text, files = write(options, every, facts, found)
    report.say_where(text, options, *files)


if __name__ == "__main__":
    command.entry(main)
