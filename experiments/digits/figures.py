"""Figs. 1–3: the neighbourhood of 55 in the plane, and F1 of natural and embedded neighbours by number of digits.

    python -m experiments.digits.figures [--others SPEC …]

The paper uses FLAN's embeddings. Here the ten digits have random vectors and no weights are needed, so the figures
show the effect of the aggregate alone. Fig. 1 shows one embedding and the number line, Fig. 2 eq. 1 and the sum, Fig.
3 all aggregates; --others adds embeddings of the library or files of vectors (`numjax.inspect.vectors`) to Fig. 3.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from numjax.bundled.experiments import command, plots, report, stored
from numjax.geometry import number_line, projections
from numjax.inspect import vectors
from numjax.nn.digits import AGGREGATES

OUT = "runs/digits-{scale}"
SEEDS = {"smoke": 2, "laptop": 3, "paper": 5}
DIM = 64
ABOUT, RADIUS = 55, 10  # Fig. 1: a number and the number of its neighbours
# Digits of the longest queries, queries of each length, and digits of the longest numbers of the pool.
SIZES = {"smoke": (2, 20, 3), "laptop": (5, 100, 5), "paper": (6, 1000, 6)}
LOW = 5.0  # percent: lines that are lower everywhere are drawn as one
LABELS = {"weighted": "eq. 1", "place": "place values"}
# Figures from the paper's text on Figs. 2 and 3, over six lengths.
PAPER = "the paper (FLAN large) prints no numbers; its text: eq. 1 about 69%, max, min, mean and median below 5%"


def make_spec(aggregate: str) -> str:
    """The specification of random digit vectors under an aggregate."""
    return f"digit_sum:aggregate={aggregate},dim={DIM},init_std=1.0"


def measure_f1(embed: str, scale: str, seeds: Sequence[int]) -> list[dict[int, float]]:
    """For each seed: number of digits → F1."""
    longest, queries, pool_digits = SIZES[scale]
    pool = np.arange(10**pool_digits)
    scores = []
    for seed in seeds:
        embedding = vectors.make(embed, seed, low=0.0, high=float(pool[-1]))
        known_numbers = pool[embedding.has_vector(pool)]
        lengths = [n for n in range(1, longest + 1) if n <= len(str(known_numbers[-1]))]
        scores.append(
            number_line.f1_by_length(known_numbers, embedding(known_numbers), lengths, queries=queries, seed=seed)
        )
    return scores


def draw(content: Mapping[str, Any]) -> dict[str, plots.Figure]:
    """The figures, as far as the JSON has their data: results of before points were kept have no Fig. 1."""
    scores = {label: average_f1(by_seed) for label, by_seed in content["f1"].items()}
    lengths = sorted({n for points in scores.values() for n, _, _ in points})
    figures = {
        "fig2.png": draw_lines({label: scores[label] for label in ("eq. 1", "sum") if label in scores}, lengths),
        "fig3.png": draw_lines(merge_low(scores), lengths),
    }
    fig1 = content["fig1"]
    if "points" in fig1:
        n_shared = len(set(fig1["embedded"]) & set(fig1["natural"]))
        families = [f"{ABOUT}"] + [
            "a neighbour on the number line" if n in fig1["natural"] else "another number" for n in fig1["embedded"]
        ]
        cloud = plots.Cloud(
            "", fig1["points"], [str(n) for n in (ABOUT, *fig1["embedded"])], families,
            axes=[f"{name} principal axis ({share:.0%} of the variance)"
                  for name, share in zip(("First", "Second"), fig1["share"], strict=True)],
        )  # fmt: skip
        title = f"Of the {RADIUS} vectors nearest to that of {ABOUT}, {n_shared} are of its neighbours (eq. 1)"
        figures = {"fig1.png": plots.draw_clouds(title, [cloud], 4.0)} | figures
    return figures


def average_f1(by_seed: Sequence[Mapping[str, float]]) -> list[tuple[int, float, float | None]]:
    """(number of digits, mean F1 over seeds in percent, its standard deviation)."""
    points = []
    for n in sorted({int(length) for by_length in by_seed for length in by_length}):
        values = [100 * by_length[str(n)] for by_length in by_seed if str(n) in by_length]
        points.append((n, statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None))
    return points


def merge_low(
    scores: Mapping[str, Sequence[tuple[int, float, float | None]]],
) -> dict[str, list[tuple[int, float, float | None]]]:
    """The lines of Fig. 3: those below LOW percent everywhere become one, the best of them at each length.

    So do the lowest ones of more than a chart can show.
    """
    order = sorted(scores, key=lambda label: -statistics.fmean(mean for _, mean, _ in scores[label]))
    high = [label for label in order if max(mean for _, mean, _ in scores[label]) >= LOW][: plots.MOST_LINES - 1]
    low = [label for label in scores if label not in high]
    lines = {label: list(scores[label]) for label in high}
    if low:
        points = [point for label in low for point in scores[label]]
        lengths = sorted({n for n, _, _ in points})
        name = ", ".join(low) if len(low) <= len(AGGREGATES) else f"{len(low)} others"
        best = [max((point for point in points if point[0] == n), key=lambda point: point[1]) for n in lengths]
        lines[name if len(low) == 1 else f"best of {name}"] = best
    return lines


def draw_lines(
    scores: Mapping[str, Sequence[tuple[int, float, float | None]]], lengths: Sequence[int]
) -> plots.Figure:
    """Draws F1 over the number of digits, a line per embedding."""
    ends = [f"{label} {points[-1][1]:.0f}%" for label, points in scores.items()]
    title = f"Nearest numbers of {lengths[-1]} digits that are nearest vectors too: {', '.join(ends)}"
    x = plots.Axis("Digits of the number", ticks=lengths)
    y = plots.Axis(f"F1 of the {number_line.K} nearest neighbours (%)", limits=(-3, 103))
    lines = [plots.Line(label, points) for label, points in scores.items()]
    return plots.draw_lines(title, {"": lines}, x, y)


def find_neighbourhood(embed: str, seed: int = 0) -> dict[str, Any]:
    """Fig. 1's data: the nearest neighbours of 55 among the vectors and on the number line.

    Returns:
      {"embed", "embedded", "natural"}: the specification and both lists of neighbours; "points": 55 and the embedded
      neighbours on the first two principal components of their vectors; "share": of the variance on each.
    """
    embedding = vectors.make(embed, seed, low=0.0, high=999.0)
    pool = np.arange(1000)
    x_ND = embedding(pool)
    nearest = number_line.embedded_neighbours(x_ND, np.asarray([ABOUT]), RADIUS)[0]
    natural = number_line.natural_neighbours(pool, np.asarray([ABOUT]), RADIUS)[0]
    projection = projections.pca(x_ND[np.concatenate([[ABOUT], nearest])])
    return {
        "embed": embed,
        "embedded": nearest.tolist(),
        "natural": natural.tolist(),
        "points": projection.points.tolist(),
        "share": list(map(float, projection.share)),
    }


def main(words: Sequence[str] | None = None) -> None:
    """Writes fig1.png, fig2.png, fig3.png and figures.{md,json}."""
    parser = command.make_parser(__doc__ or "", OUT, SEEDS)
    parser.add_argument("--others", nargs="*", default=[], help="more embeddings of Fig. 3: specifications, files")
    options = command.parse_options(parser, words)
    scores = {
        LABELS.get(name, name): measure_f1(make_spec(name), options.scale, options.seeds) for name in AGGREGATES
    }
    for embedding in options.others:
        scores[embedding] = measure_f1(embedding, options.scale, options.seeds)
    fig1 = find_neighbourhood(make_spec("weighted"))
    f1_by_label = {
        label: [{str(n): share for n, share in by_length.items()} for by_length in by_seed]
        for label, by_seed in scores.items()
    }
    content = {"fig1": fig1, "f1": f1_by_label, "scale": options.scale, "seeds": options.seeds}
    content["drawn_by"] = "digits.figures"
    text = report.write("figures", options.out, "digits.figures", content | {"machine": stored.describe_machine()})
    print(f"\n{text}\nIn {options.out}: figures.md, figures.json, fig1.png, fig2.png, fig3.png", flush=True)


def render(content: Mapping[str, Any]) -> str:
    """The Markdown of the JSON."""
    longest, queries, pool_digits = SIZES[content["scale"]]
    lengths = range(1, longest + 1)
    text = (
        "# Figs. 1–3: neighbours of aggregated digits\n\n"
        f"Random digit vectors, D = {DIM}, {len(content['seeds'])} seeds; F1 in per cent (mean ± standard deviation) "
        f"of the {number_line.K} nearest numbers and the {number_line.K} nearest vectors, Euclidean, the number "
        f"itself left out, ties to the smaller; pool 0 … {10**pool_digits - 1}, {queries} numbers of each length "
        f"(or all there are). For comparison, {PAPER}. {report.describe_commits([content])}\n\n"
        f"| aggregate | {' | '.join(f'{n} digits' for n in lengths)} |\n"
        f"|---|{'---:|' * longest}\n"
    )
    for label, by_seed in content["f1"].items():
        cells = []
        for n in lengths:
            values = [100 * by_length[str(n)] for by_length in by_seed if str(n) in by_length]
            std = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
            cells.append(f"{statistics.fmean(values):.1f}{std}" if values else "–")
        text += f"| {label} | {' | '.join(cells)} |\n"
    fig1 = content["fig1"]
    shared = sorted(set(fig1["embedded"]) & set(fig1["natural"]))
    text += (
        f"\nFig. 1: nearest to {ABOUT} under eq. 1, one seed: {', '.join(map(str, fig1['embedded']))}; "
        f"{len(shared)} of {RADIUS} are its neighbours on the number line.\n"
    )
    return text


if __name__ == "__main__":
    command.entry(main)
