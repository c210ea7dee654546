"""Figs. 2–7: embeddings of operators, variables and tree nodes, MathGPT against GPT, as pictures and as measures.

    python -m experiments.mathgpt.figures --mathgpt=WORKDIR,… --gpt=WORKDIR,… # of existing runs
    python -m experiments.mathgpt.figures --path=math23k.jsonl                # of Table 3's runs in --out

Without workdirs it takes Table 3's runs and trains missing ones; measures are then means over folds, and pictures are
of the first fold. A picture is t-SNE's result for one seed. The claims that the paper makes from its pictures are
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
from numjax import inspect
from numjax.api import Loaded
from numjax.bundled.experiments import command, plots, report, runs, stored, tables, trials
from numjax.bundled.experiments.mathgpt import settings, table3
from numjax.errors import UsageError
from numjax.expr.printer import signs
from numjax.geometry import neighbours, projections
from numjax.geometry.plots import make_label
from numjax.inspect import Nodes, Symbol
from numjax.pipeline import source
from numjax.system import trees
from numjax.text.vocab import symbols as names

FORMULA = "x = 280/(1-(2/5)-(1/3))"
OPERATORS, VARIABLES, NEAREST = 100, 50, 5
# The paper chose its seeds by eye; these were not chosen.
SEED, OTHER_SEEDS = 0, (1, 2)
# The paper calls these pairs near, near, apart, apart, apart (section 5.1).
PAIRS = (
    (("U", "eq"), ("O", "lt")),
    (("U", "plus"), ("O", "minus")),
    (("F", "min"), ("F", "max")),
    (("U", "union"), ("U", "intersect")),
    (("U", "eq"), ("U", "plus")),
)


class ModelVectors(NamedTuple):
    """The vectors of one model for the figures.

    Attributes:
      operators, variables: float32[n, D], in the order of the lists of symbols.
      nodes: the formula as the model reads it, with its positions. common: indices of the nodes that all models have.
    """

    operators: np.ndarray
    variables: np.ndarray
    nodes: Nodes
    common: list[int]


class SymbolVectors(NamedTuple):
    """The symbols, and each system's vectors of them and of the formula."""

    operators: list[Symbol]
    variables: list[Symbol]
    by_system: dict[str, ModelVectors]


def load_counts(model: Loaded, path: str = "") -> Mapping[str, Mapping[str, int]]:
    """Type → symbol → count, from a vocab.json, by default that of the model's vocabulary; without one, from the
    trees of its train split."""
    path = path or (model.system.config.scheme.get("symbols") or {}).get("path", "")
    if path:
        return names.load_counts(path)
    task, folder = model.system.task, model.system.config.data.dir
    return names.count_symbols(trees(task, lambda: source.load(task.dataset, "train", folder) or ()))


def select_frequent(symbols: Sequence[Symbol], counts: Mapping[str, Mapping[str, int]], limit: int) -> list[Symbol]:
    """Symbols that occur, most frequent first; of those with the same LaTeX (lists of two, of three) only one."""

    def count_uses(candidate: Symbol) -> int:
        type_counts = counts.get(candidate.type, {})
        if candidate.type == "M" and candidate.symbol.startswith(
            "matrix-"
        ):  # symbols of the released code: by first letter
            return sum(n for symbol, n in type_counts.items() if symbol[:1] == candidate.symbol[7:])
        return type_counts.get(candidate.symbol, 0)

    by_latex: dict[str, Symbol] = {}
    for candidate in sorted(symbols, key=count_uses, reverse=True):
        if count_uses(candidate) and candidate.latex:
            by_latex.setdefault(candidate.latex, candidate)
    return list(by_latex.values())[:limit]


def collect_vectors(models: Mapping[str, Loaded], path: str = "") -> SymbolVectors:
    """The vectors of MathGPT and, if it is there, of GPT.

    GPT reads the formula as it is written: its nodes are in infix order, a number is one node, and there is no END.
    """
    model = models["mathgpt"]
    counts, symbols = load_counts(model, path), inspect.list_symbols(model)
    operators = select_frequent([symbol for symbol in symbols if symbol.kind == "OP"], counts, OPERATORS)
    operators = [symbol for symbol in operators if symbol.type != "T" and has_sign(symbol)]
    variables = select_frequent([symbol for symbol in symbols if symbol.kind == "VAR"], counts, VARIABLES)
    nodes = inspect.embed_nodes(model, FORMULA)
    order = order_infix(nodes)
    by_system = {}
    for name, loaded in models.items():
        model_nodes, common = nodes, order
        if name != "mathgpt":
            common = list(range(len(order)))
            node_names = [_number_text(nodes, i) if nodes.names[i] == "number" else nodes.names[i] for i in order]
            model_nodes = Nodes(node_names, nodes.tree_positions[order], inspect.embed_positions(loaded, len(order)))
        by_system[name] = ModelVectors(
            _embed_symbols(loaded, operators), _embed_symbols(loaded, variables), model_nodes, common
        )
    return SymbolVectors(operators, variables, by_system)


def has_sign(symbol: Symbol) -> bool:
    """Whether an operator has a written sign besides its name in trees; the authors show only such operators."""
    return symbol.latex != symbol.symbol or len(symbol.symbol) == 1


def order_infix(nodes: Nodes) -> list[int]:
    """Indices of the nodes as written, an operator after its first operand; no END, none below numbers."""
    children: dict[int, list[int]] = {i: [] for i in range(-1, len(nodes.names))}
    for child, parent in enumerate(neighbours.find_parents(nodes.tree_positions).tolist()):
        if nodes.names[child] != "end":
            children[parent].append(child)

    def visit(node: int) -> list[int]:
        operands = [] if nodes.names[node] == "number" else children[node]
        first_operand = visit(operands[0]) if operands else []
        return [*first_operand, node, *(inner for operand in operands[1:] for inner in visit(operand))]

    return visit(0)


def _number_text(nodes: Nodes, head: int) -> str:
    parents = neighbours.find_parents(nodes.tree_positions)
    return "".join(nodes.names[i] for i in np.flatnonzero(parents == head) if nodes.names[i] != "end")


def _embed_symbols(model: Loaded, symbols: Sequence[Symbol]) -> np.ndarray:
    return inspect.embed_symbols(model, symbols) if symbols else np.zeros((0, 1), np.float32)


# -- numbers ---------------------------------------------------------------------------------------------------------


def measure_vectors(symbol_vectors: SymbolVectors) -> dict[str, dict[str, Any]]:
    """System → measure → {"value", "chance", "p"} (neighbours: "count" and "k" too), or None.

    The measure "pairs" is "first second" → rank of the second among the neighbours of the first.
    """
    families = {
        "operators: family": [signs.family(symbol.type, symbol.symbol) for symbol in symbol_vectors.operators],
        "variables: alphabet": [alphabet(symbol.symbol) for symbol in symbol_vectors.variables],
        "variables: letter": [symbol.symbol.casefold() for symbol in symbol_vectors.variables],
    }
    measures_by_system = {}
    for name, vectors in symbol_vectors.by_system.items():
        measures: dict[str, Any] = {}
        for measure, labels in families.items():
            measures[measure] = _measure_families(
                vectors.operators if measure.startswith("operators") else vectors.variables, labels
            )
        measures |= measure_positions(vectors.nodes, vectors.common)
        measures["pairs"] = _rank_pairs(vectors.operators, symbol_vectors.operators)
        measures_by_system[name] = measures
    return measures_by_system


def _measure_families(x_ND: np.ndarray, families: Sequence[str]) -> dict[str, Any] | None:
    if len(x_ND) < 3:
        return None
    k = max(1, min(NEAREST, (len(x_ND) - 1) // 4))
    share = neighbours.kin_share(neighbours.find_nearest(neighbours.distances(x_ND), k), families)
    if share is None:
        return None
    return {"value": share.share, "chance": share.chance, "p": share.p, "count": share.count, "k": k}


def measure_positions(nodes: Nodes, common: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Correlation of the nodes' position vectors with the tree, the sequence, and the tree beyond the sequence."""
    node_index = np.asarray(common)
    vector_distances = neighbours.distances(nodes.vectors[node_index], "euclid")
    tree_distances = neighbours.tree_distances(nodes.tree_positions[node_index])
    sequence_distances = np.abs(node_index[:, None] - node_index)
    results = {
        "positions: tree": neighbours.mantel(tree_distances, vector_distances),
        "positions: sequence": neighbours.mantel(sequence_distances, vector_distances),
        "positions: tree beyond sequence": neighbours.mantel(tree_distances, vector_distances, sequence_distances),
    }
    return {name: {"value": result.rho, "chance": 0.0, "p": result.p} for name, result in results.items()}


def _rank_pairs(x_ND: np.ndarray, operators: Sequence[Symbol]) -> dict[str, int]:
    indices = {(operator.type, operator.symbol): i for i, operator in enumerate(operators)}
    known_pairs = [pair for pair in PAIRS if pair[0] in indices and pair[1] in indices]
    distances = neighbours.distances(x_ND) if known_pairs else np.zeros((0, 0))
    return {
        f"{first[1]} {second[1]}": neighbours.find_rank(distances, indices[first], indices[second])
        for first, second in known_pairs
    }


def alphabet(symbol: str) -> str:
    """The alphabet of a single letter (Latin, Greek, …), else "other"."""
    name = unicodedata.name(symbol, "") if len(symbol) == 1 and symbol.isalpha() else ""
    return name.split()[0].capitalize() if name else "other"


# -- pictures --------------------------------------------------------------------------------------------------------


def make_panels(symbol_vectors: SymbolVectors) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    """(picture → its panels, reasons for pictures that are left out).

    A panel has all that is drawn of t-SNE's result; "kept" is the share of nearest neighbours that t-SNE keeps.
    """
    panels_by_file: dict[str, list[dict[str, Any]]] = {}
    left_out = []
    jobs: list[tuple[str, str, list[tuple[str, int]]]] = [
        ("fig2", "operators", [("mathgpt", SEED)]),
        ("fig3", "operators", [("gpt", SEED)]),
        ("fig4", "nodes", [("mathgpt", SEED), ("gpt", SEED)]),
        ("fig5", "operators", [("mathgpt", seed) for seed in OTHER_SEEDS]),
        ("fig6", "operators", [("gpt", seed) for seed in OTHER_SEEDS]),
        ("fig7", "variables", [("mathgpt", SEED), ("gpt", SEED)]),
    ]
    for name, kind, panels in jobs:
        panels = [panel for panel in panels if panel[0] in symbol_vectors.by_system]
        if not panels:
            continue
        count = len(getattr(symbol_vectors, kind, FORMULA))
        if count < 3:
            left_out.append(f"{name}: {count} {kind} occur, too few for a picture.")
            continue
        panels_by_file[f"{name}.png"] = [
            _make_panel(symbol_vectors, kind, symbol_vectors.by_system[system], seed)
            | {"title": f"{table3.LABELS[system]}, t-SNE with seed {seed}"}
            for system, seed in panels
        ]
    return panels_by_file, left_out


def _make_panel(symbol_vectors: SymbolVectors, kind: str, vectors: ModelVectors, seed: int) -> dict[str, Any]:
    edges: list[tuple[int, int]] = []
    if kind == "nodes":
        x_ND = vectors.nodes.vectors
        labels = [make_label(name) for name in vectors.nodes.names]
        depth = (vectors.nodes.tree_positions >= 0).sum(axis=1) - 1
        families = [f"level {level}" for level in depth]
        parents = neighbours.find_parents(vectors.nodes.tree_positions)
        edges = [(int(parent), child) for child, parent in enumerate(parents) if parent >= 0]
    else:
        x_ND = getattr(vectors, kind)
        symbols: list[Symbol] = getattr(symbol_vectors, kind)
        labels = [make_label(symbol.latex, symbol.symbol) for symbol in symbols]
        if kind == "operators":
            families = [signs.family(symbol.type, symbol.symbol) for symbol in symbols]
        else:
            families = [alphabet(symbol.symbol) for symbol in symbols]
    points = projections.tsne(x_ND, seed=seed)
    distances = [neighbours.distances(coordinates, "euclid") for coordinates in (x_ND, points)]
    kept = neighbours.shared_neighbours(distances[0], distances[1], NEAREST)
    return {"kept": kept, "points": points.tolist(), "labels": labels, "families": families, "edges": edges}


_CAPTIONS = {
    "fig2.png": "Operators of MathGPT by family",
    "fig3.png": "Operators of GPT by family",
    "fig4.png": f"Position vectors of the nodes of {FORMULA}, joined as in the tree",
    "fig5.png": "Operators of MathGPT by family, with other seeds of t-SNE",
    "fig6.png": "Operators of GPT by family, with other seeds of t-SNE",
    "fig7.png": "Variables by alphabet",
}


def draw(content: Mapping[str, Any]) -> dict[str, plots.Figure]:
    """The figures: the measures, and the pictures by t-SNE, which results of before points were kept do not have."""
    measures = content["measures"]
    rows = list_rows(measures)
    figures = {"neighbours.png": _draw_neighbours(measures, rows)} if rows else {}
    figures["positions.png"] = _draw_positions(measures)
    for name, panels in content.get("panels", {}).items():
        keys = ("title", "points", "labels", "families", "edges")
        clouds = [plots.Cloud(**{key: panel[key] for key in keys}) for panel in panels]
        shares = ", ".join(f"{panel['kept']:.0%}" for panel in panels)
        title = f"{_CAPTIONS[name]} (t-SNE keeps {shares} of the {NEAREST} nearest neighbours)"
        figures[name] = plots.draw_clouds(title, clouds)
    return figures


def list_rows(measures: Sequence[Mapping[str, Any]]) -> list[str]:
    """The measures of neighbours for which there are symbols enough."""
    return [row for row in NEIGHBOURS if any(list_values(measures, name, row) for name in measures[0])]


ENOUGH = 20  # symbols with a neighbour of their family, for a row of a picture
# Measure → row of a picture.
NEIGHBOURS = {
    "operators: family": "Operators of the same family",
    "variables: alphabet": "Variables of the same alphabet",
    "variables: letter": "The same letter in the other case",
}
POSITIONS = {
    "positions: tree": "Distance in the tree",
    "positions: sequence": "Distance in the sequence",
    "positions: tree beyond sequence": "The tree, without the sequence",
}


def list_values(
    measures: Sequence[Mapping[str, Any]], system: str, measure: str, field: str = "value"
) -> list[float]:
    """A field of a measure, of each model that has the measure and symbols enough to show anything."""
    entries = [by_system[system][measure] for by_system in measures]
    return [entry[field] for entry in entries if entry is not None and entry.get("count", ENOUGH) >= ENOUGH]


def _draw_neighbours(measures: Sequence[Mapping[str, Any]], rows: Sequence[str]) -> plots.Figure:
    axis = plots.Axis("share of the nearest neighbours (%)", limits=(-4, 104), ticks=(0, 50, 100))
    all_dots = _list_dots(measures, rows, 100)
    parts = [f"{dots.name} {dots.numbers[0][0]:.0f}%" for dots in all_dots if dots.numbers[0]]
    title = f"Neighbours that are {NEIGHBOURS[rows[0]].lower()}: {', '.join(parts)}"
    return plots.draw_dots(title, [NEIGHBOURS[row] for row in rows], {"": (axis, all_dots)})


def _draw_positions(measures: Sequence[Mapping[str, Any]]) -> plots.Figure:
    rows = list(POSITIONS)
    axis = plots.Axis("rank correlation ρ (none: 0, perfect: 1)", limits=(-0.5, 1.04), ticks=(-0.5, 0, 0.5, 1))
    all_dots = _list_dots(measures, rows)
    parts = [f"{dots.name} ρ = {dots.numbers[0][0]:.2f}" for dots in all_dots[:-1] if dots.numbers[0]]
    title = f"Do distances between position vectors follow the tree? {', '.join(parts)}".replace("-", "−")
    return plots.draw_dots(title, list(POSITIONS.values()), {"": (axis, all_dots)})


def _list_dots(measures: Sequence[Mapping[str, Any]], rows: Sequence[str], scale: float = 1.0) -> list[plots.Dots]:
    # Of each system the mean and deviation over models; of chance, which is measured too, only the mean.
    def list_numbers(name: str, field: str) -> list[tuple[float, float | None] | None]:
        return [tables.mean_and_std([scale * v for v in list_values(measures, name, row, field)]) for row in rows]

    systems = list(measures[0])
    chances = [number and (number[0], None) for number in list_numbers(systems[0], "chance")]
    all_dots = [plots.Dots(table3.LABELS[name], list_numbers(name, "value")) for name in systems]
    return [*all_dots, plots.Dots("by chance", chances, beside="")]


# -- the report ------------------------------------------------------------------------------------------------------

_ROWS = {
    "operators: family": "operators: neighbours of the same family (%)",
    "variables: alphabet": "variables: neighbours of the same alphabet (%)",
    "variables: letter": "variables: neighbours that are the same letter in the other case (%)",
    "positions: tree": "positions: distance against distance in the tree (ρ)",
    "positions: sequence": "positions: distance against distance in the sequence (ρ)",
    "positions: tree beyond sequence": "positions: against the tree, the sequence taken out (ρ)",
}


def format_table(measures: Sequence[Mapping[str, Mapping[str, Any]]]) -> str:
    """Markdown: each measure's mean over models, its value by chance, and the largest p of the models."""
    systems = list(measures[0])
    header = ["measure", "chance", *(word for name in systems for word in (table3.LABELS[name], "p"))]
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    for measure, label in _ROWS.items():
        percent = "%" in label
        cells, chances = [], []
        for name in systems:
            entries = [
                model_measures[name][measure]
                for model_measures in measures
                if model_measures[name][measure] is not None
            ]
            chances += [entry["chance"] for entry in entries]
            cells += [_format_mean([entry["value"] for entry in entries], percent)]
            cells += [_format_p(max(entry["p"] for entry in entries)) if entries else "–"]
        lines.append("| " + " | ".join([label, _format_mean(chances[:1], percent), *cells]) + " |")
    return "\n".join(lines) + "\n"


def _format_mean(values: Sequence[float], percent: bool) -> str:
    mean_std = tables.mean_and_std([100 * value for value in values] if percent else values)
    if mean_std is None:
        return "–"
    digits = 1 if percent else 2
    return f"{mean_std[0]:.{digits}f}" + ("" if mean_std[1] is None else f" ± {mean_std[1]:.{digits}f}")


def _format_p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def write(
    options: argparse.Namespace,
    symbol_vectors: Sequence[SymbolVectors],
    facts: str,
    workdirs: Mapping[str, Sequence[str]],
) -> tuple[str, list[str]]:
    """Writes figures.{md,json} and the pictures; returns (the Markdown, the file names)."""
    first_vectors = symbol_vectors[0]
    measures = [measure_vectors(vectors) for vectors in symbol_vectors]
    panels, left_out = make_panels(first_vectors)
    nodes = first_vectors.by_system["mathgpt"].nodes.names
    content = {
        "scale": options.scale,
        "facts": facts,
        "formula": FORMULA,
        "workdirs": {
            name: [folder.removeprefix(f"{options.out}/") for folder in folders] for name, folders in workdirs.items()
        },
        "machine": stored.describe_machine(),
        "operators": [symbol.symbol for symbol in first_vectors.operators],
        "variables": [symbol.symbol for symbol in first_vectors.variables],
        "nodes": {name: vectors.nodes.names for name, vectors in first_vectors.by_system.items()},
        "perplexity": {
            kind: projections.limit_perplexity(len(members))
            for kind, members in (
                ("operators", first_vectors.operators),
                ("variables", first_vectors.variables),
                ("nodes", nodes),
            )
            if len(members) > 2
        },
        "kept": {name: [panel["kept"] for panel in file_panels] for name, file_panels in panels.items()},
        "panels": panels,
        "seeds": {"fig2 fig3 fig4 fig7": SEED, "fig5 fig6": OTHER_SEEDS},
        "measures": measures,
        "left_out": left_out,
        **settings.make_trials([table3.LABELS[name] for name in workdirs], options),
        "drawn_by": "mathgpt.figures",
    }
    text = report.write("figures", options.out, "mathgpt.figures", content)
    return text, [*list_pictures(content), "figures.md", "figures.json"]


def list_pictures(content: Mapping[str, Any]) -> list[str]:
    """The names of the pictures that `draw` draws."""
    return ["neighbours.png"] * bool(list_rows(content["measures"])) + ["positions.png", *content.get("panels", {})]


def render(content: Mapping[str, Any]) -> str:
    """The Markdown of the JSON."""
    size_note = (
        f"{len(content['operators'])} operators, {len(content['variables'])} variables, "
        f"{len(content['nodes']['mathgpt'])} nodes of "
    )
    text = (
        f"# Figs. 2–7: where symbols and positions lie\n\n{content['facts']} {size_note}`{content['formula']}`.\n\n"
        f"{report.describe_commits([content]).replace('the runs', 'the measures')}\n\n"
        f"A neighbour is one of the {NEAREST} nearest by cosine (fewer among few symbols). Chance deals the families "
        "anew, or shuffles the nodes (2,000 times); p is one-sided, the largest of the models. GPT has an operator's "
        "mean text token and the places in the formula as it is written; positions are compared over the nodes that "
        "both have.\n\n" + format_table(content["measures"])
    )
    shares = [f"{100 * share:.0f}%" for file_shares in content["kept"].values() for share in file_shares]
    text += f"\nOf the {NEAREST} nearest neighbours (Euclid) the panels keep, in order, {', '.join(shares)}.\n"
    if "panels" not in content:
        text += "\nThe panels are not shown: this result was written before their points were kept.\n"
    remarks = [*content["left_out"], *filter(None, [trials.describe_ranking(content.get("trials", {}))])]
    text += "".join(f"\n{remark}\n" for remark in remarks)
    return text + "".join(f"\n![{name}]({name})\n" for name in list_pictures(content))


def find_workdirs(options: argparse.Namespace) -> tuple[dict[str, list[str]], str]:
    """(system → its workdirs, a line that describes the models).

    Raises:
      UsageError: MathGPT is not among them.
    """
    workdirs = {name: getattr(options, name).split(",") for name in ("mathgpt", "gpt") if getattr(options, name)}
    if "gpt" in workdirs and "mathgpt" not in workdirs:
        raise UsageError("--gpt alone: the symbols are MathGPT's, so give --mathgpt=WORKDIR too")
    if len({len(folders) for folders in workdirs.values()}) > 1:
        raise UsageError("--mathgpt and --gpt have different numbers of runs: give each seed or fold of both")
    if workdirs:
        # Only the last names of the path: the rest depends on the machine.
        names = [
            "/".join(pathlib.Path(find_folder).parts[-3:]) for folders in workdirs.values() for find_folder in folders
        ]
        return workdirs, f"Models: {', '.join(f'`{name}`' for name in names)}."
    results = settings.run(options, table3.SYSTEMS)
    folds_by_system = {
        name: {fold for fold, result in by_fold.items() if not result.diverged}
        for (task, name), by_fold in results.items()
        if task == settings.EQUATION.task  # the others are pre-trainings
    }
    if not folds_by_system.get("mathgpt"):
        raise UsageError("there is no run of MathGPT to look at: leave --only out, or give --mathgpt=WORKDIR")
    folds = sorted(set.intersection(*folds_by_system.values()))
    if not folds:
        raise UsageError("no fold was learnt by both systems: give --mathgpt=WORKDIR and --gpt=WORKDIR")

    def find_folder(name: str, fold: int) -> str:
        cell = settings.make_cell(options, name, table3.SYSTEMS[name], fold)
        return str(runs.workdir(cell, fold, options.out))

    facts = f"Models of Table 3, scale `{options.scale}`, folds {', '.join(map(str, folds))}"
    facts += f"{', as published' * options.as_published}; {tables.describe_machines(stored.list_entries(results))}."
    return {
        name: [find_folder(name, fold) for fold in folds] for name in sorted(folds_by_system, reverse=True)
    }, facts


def main(words: Sequence[str] | None = None) -> None:
    """Finds or trains the models, then writes everything."""
    parser = settings.make_parser(__doc__ or "")
    parser.add_argument("--mathgpt", default="", help="finished runs of configs/mathgpt.py: a seed or fold each")
    parser.add_argument("--gpt", default="", help="as many of a model of text alone")
    parser.add_argument("--symbols", default="", help="counts of symbols (MathGPT's vocab.json)")
    options = command.parse_options(parser, words)
    workdirs, facts = find_workdirs(options)
    count = len(workdirs["mathgpt"])
    symbol_vectors = [
        collect_vectors({name: numjax.load(folders[i]) for name, folders in workdirs.items()}, options.symbols)
        for i in range(count)
    ]
    text, files = write(options, symbol_vectors, facts, workdirs)
    report.print_report(text, options, *files)


if __name__ == "__main__":
    command.entry(main)
