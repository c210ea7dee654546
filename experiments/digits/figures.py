"""Figs. 1–3: the neighbourhood of 55 in the plane, and F1 of natural and embedded neighbours by number of digits.

    python -m experiments.digits.figures [--others SPEC …]

The paper uses FLAN's embeddings. Here the ten digits have random vectors and no weights are needed, so the figures
show the effect of the aggregate alone. Fig. 1 shows one embedding and the number line, Fig. 2 eq. 1 and the sum, Fig.
3 all aggregates; --others adds embeddings of the library or files of vectors (`numjax.inspect.vectors`) to Fig. 3.
"""

from __future__ import annotations

import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from numjax.bundled.experiments import command, plots, report, stored
from numjax.geometry import number_line, projections
from numjax.geometry import plots as pictures
from numjax.inspect import vectors
from numjax.nn.digits import AGGREGATES

OUT = "runs/digits-{scale}"
SEEDS = {"smoke": 2, "laptop": 3, "paper": 5}
DIM = 64
ABOUT, RADIUS = 55, 10  # Fig. 1: a number and the number of its neighbours
# Digits of the longest queries, queries of each length, and digits of the longest numbers of the pool.
SIZES = {"smoke": (2, 20, 3), "laptop": (5, 100, 5), "paper": (6, 1000, 6)}
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


def draw_lines(path: pathlib.Path, scores: Mapping[str, Sequence[Mapping[int, float]]]) -> None:
    """Draws F1 over the number of digits, a line per embedding."""
    with plots.figure(path, width=6.5, height=4.2) as axes:
        for i, (label, by_seed) in enumerate(scores.items()):
            lengths = sorted(by_seed[0])
            means = [100 * statistics.fmean(by_length[n] for by_length in by_seed) for n in lengths]
            stds = [
                100 * statistics.stdev(by_length[n] for by_length in by_seed) if len(by_seed) > 1 else 0.0
                for n in lengths
            ]
            axes.errorbar(
                lengths, means, yerr=stds, label=label, capsize=3, color=plots.COLOURS[i % len(plots.COLOURS)],
                marker=plots.MARKS[i % len(plots.MARKS)], linestyle=plots.STYLES[i % len(plots.STYLES)],
            )  # fmt: skip
        axes.set_xlabel("digits of the number")
        axes.set_ylabel(f"F1 of the {number_line.K} nearest neighbours (%)")
        axes.set_xticks(lengths)
        axes.set_ylim(-3, 103)
        axes.legend(fontsize="small", ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)


def draw_neighbourhood(path: pathlib.Path, embed: str, seed: int = 0) -> dict[str, Any]:
    """Draws Fig. 1; returns {"embed", "embedded", "natural"}: the specification and both lists of neighbours.

    The panels show the nearest neighbours of 55 among the vectors and on the number line, each by the first two
    principal components of its own vectors.
    """
    embedding = vectors.make(embed, seed, low=0.0, high=999.0)
    pool = np.arange(1000)
    x_ND = embedding(pool)
    nearest = number_line.embedded_neighbours(x_ND, np.asarray([ABOUT]), RADIUS)[0]
    natural = number_line.natural_neighbours(pool, np.asarray([ABOUT]), RADIUS)[0]
    ideal = np.stack([pool / 1.0, np.zeros(len(pool))], axis=1)
    with plots.figure(path, 10, 4.5, 2) as panels:
        for axes, neighbours, vectors_ND, title in (
            (panels[0], nearest, x_ND, f"nearest to {ABOUT}: {embed.partition(',dim')[0]}"),
            (panels[1], natural, ideal, "on the number line"),
        ):
            numbers = np.concatenate([[ABOUT], neighbours])
            projection = projections.pca(vectors_ND[numbers])
            families = [f"{ABOUT}"] + [
                "a natural neighbour" if n in natural else "another number" for n in neighbours
            ]
            points = projection.points
            names = (f"axis 1 ({projection.share[0]:.0%})", f"axis 2 ({projection.share[1]:.0%})")
            pictures.scatter(axes, points, [str(n) for n in numbers], families, title=title, names=names)
    return {"embed": embed, "embedded": nearest.tolist(), "natural": natural.tolist()}


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
    fig1 = draw_neighbourhood(options.out / "fig1.png", make_spec("weighted"))
    draw_lines(options.out / "fig2.png", {label: scores[label] for label in ("eq. 1", "sum")})
    draw_lines(options.out / "fig3.png", scores)
    f1_by_label = {
        label: [{str(n): share for n, share in by_length.items()} for by_length in by_seed]
        for label, by_seed in scores.items()
    }
    content = {"fig1": fig1, "f1": f1_by_label, "scale": options.scale, "seeds": options.seeds}
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
