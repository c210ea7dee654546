"""Figs. 1–3: the neighbourhood of 55 in the plane, and F1 of natural and embedded neighbours by digit length.

    python -m experiments.digits.figures [--others SPEC …]

The paper looks at FLAN's embeddings; here the ten digits have random vectors, and no weights are needed: what is seen
is the aggregate's own doing. Fig. 1 shows one embedding beside the number line, Fig. 2 eq. 1 and the sum, Fig. 3 all
aggregates, to which --others adds embeddings of the library or files of vectors (`numjax.inspect.vectors`).
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from numjax.bundled.experiments import command, plots, runs, tables
from numjax.geometry import number_line, projections
from numjax.geometry import plots as pictures
from numjax.inspect import vectors
from numjax.nn.digits import AGGREGATES

OUT = "runs/digits-{scale}"
SEEDS = {"smoke": 2, "laptop": 3, "paper": 5}
DIM = 64
ABOUT, RADIUS = 55, 10  # Fig. 1: a number and how far its neighbours go
# Longest numbers, numbers asked of each length, and digits of the longest numbers of the pool.
SIZES = {"smoke": (2, 20, 3), "laptop": (5, 100, 5), "paper": (6, 1000, 6)}
LABELS = {"weighted": "eq. 1", "place": "place values"}
# Read off Figs. 2 and 3 where the text says so: all of them over six lengths.
PAPER = "the paper (FLAN large) prints no numbers; its text: eq. 1 about 69%, max, min, mean and median below 5%"


def spec(aggregate: str) -> str:
    """Of random digit vectors under an aggregate."""
    return f"digit_sum:aggregate={aggregate},dim={DIM},init_std=1.0"


def f1(embed: str, scale: str, seeds: Sequence[int]) -> list[dict[int, float]]:
    """Digits → F1, by seed."""
    longest, queries, widest = SIZES[scale]
    pool = np.arange(10**widest)
    found = []
    for seed in seeds:
        made = vectors.make(embed, seed, low=0.0, high=float(pool[-1]))
        there = pool[made.known(pool)]
        lengths = [n for n in range(1, longest + 1) if n <= len(str(there[-1]))]
        found.append(number_line.f1_by_length(there, made(there), lengths, queries=queries, seed=seed))
    return found


def lines(path: pathlib.Path, measured: Mapping[str, Sequence[Mapping[int, float]]]) -> None:
    """F1 over digit length, a line an embedding."""
    with plots.figure(path, width=6.5, height=4.2) as axes:
        for i, (label, by_seed) in enumerate(measured.items()):
            lengths = sorted(by_seed[0])
            means = [100 * statistics.fmean(one[n] for one in by_seed) for n in lengths]
            stds = [100 * statistics.stdev(one[n] for one in by_seed) if len(by_seed) > 1 else 0.0 for n in lengths]
            axes.errorbar(
                lengths, means, yerr=stds, label=label, capsize=3, color=plots.COLOURS[i % len(plots.COLOURS)],
                marker=plots.MARKS[i % len(plots.MARKS)], linestyle=plots.STYLES[i % len(plots.STYLES)],
            )  # fmt: skip
        axes.set_xlabel("digits of the number")
        axes.set_ylabel(f"F1 of the {number_line.K} nearest neighbours (%)")
        axes.set_xticks(lengths)
        axes.set_ylim(-3, 103)
        axes.legend(fontsize="small", ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)


def neighbourhood(path: pathlib.Path, embed: str, seed: int = 0) -> dict[str, Any]:
    """Fig. 1: the nearest neighbours of 55 among the vectors, and those on the number line, each by the first two
    principal components of its own vectors; returns who they are and how much the left picture keeps."""
    made = vectors.make(embed, seed, low=0.0, high=999.0)
    pool = np.arange(1000)
    x_ND = made(pool)
    near = number_line.embedded(x_ND, np.asarray([ABOUT]), RADIUS)[0]
    natural = number_line.natural(pool, np.asarray([ABOUT]), RADIUS)[0]
    ideal = np.stack([pool / 1.0, np.zeros(len(pool))], axis=1)
    with plots.figure(path, 10, 4.5, 2) as panels:
        for axes, kept, vectors_ND, title in (
            (panels[0], near, x_ND, f"nearest to {ABOUT}: {embed.partition(',dim')[0]}"),
            (panels[1], natural, ideal, "on the number line"),
        ):
            shown = np.concatenate([[ABOUT], kept])
            made_of = projections.pca(vectors_ND[shown])
            families = [f"{ABOUT}"] + ["a natural neighbour" if n in natural else "another number" for n in kept]
            points = made_of.points
            names = (f"axis 1 ({made_of.share[0]:.0%})", f"axis 2 ({made_of.share[1]:.0%})")
            pictures.scatter(axes, points, [str(n) for n in shown], families, title=title, names=names)
    return {"embed": embed, "embedded": near.tolist(), "natural": natural.tolist()}


def main(words: Sequence[str] | None = None) -> None:
    """Writes fig1.png, fig2.png, fig3.png and figures.{md,json}."""
    parser = command.parser(__doc__ or "", OUT, SEEDS)
    parser.add_argument("--others", nargs="*", default=[], help="more embeddings of Fig. 3: specifications, files")
    options = command.parse(parser, words)
    measured = {LABELS.get(name, name): f1(spec(name), options.scale, options.seeds) for name in AGGREGATES}
    for other in options.others:
        measured[other] = f1(other, options.scale, options.seeds)
    first = neighbourhood(options.out / "fig1.png", spec("weighted"))
    lines(options.out / "fig2.png", {label: measured[label] for label in ("eq. 1", "sum")})
    lines(options.out / "fig3.png", measured)
    text = written(options, measured, first)
    tables.write(options.out / "figures.md", text)
    found = {label: [{str(n): share for n, share in one.items()} for one in by] for label, by in measured.items()}
    more = {"fig1": first, "f1": found, "seeds": options.seeds, "machine": runs.machine()}
    runs.write_json(options.out / "figures.json", more)
    print(f"\n{text}\nIn {options.out}: figures.md, figures.json, fig1.png, fig2.png, fig3.png", flush=True)


def written(
    options: argparse.Namespace, measured: Mapping[str, Sequence[Mapping[int, float]]], first: Mapping[str, Any]
) -> str:
    """The numbers of the figures as Markdown."""
    longest, queries, widest = SIZES[options.scale]
    lengths = range(1, longest + 1)
    text = (
        "# Figs. 1–3: neighbours of aggregated digits\n\n"
        f"Random digit vectors, D = {DIM}, {len(options.seeds)} seeds; F1 in per cent (mean ± standard deviation) of "
        f"the {number_line.K} nearest numbers and the {number_line.K} nearest vectors, Euclidean, the number itself "
        f"left out, ties to the smaller; pool 0 … {10**widest - 1}, {queries} numbers of each length "
        f"(or all there are). For comparison, {PAPER}.\n\n"
        f"| aggregate | {' | '.join(f'{n} digits' for n in lengths)} |\n"
        f"|---|{'---:|' * longest}\n"
    )
    for label, by_seed in measured.items():
        cells = []
        for n in lengths:
            found = [100 * one[n] for one in by_seed if n in one]
            std = f" ± {statistics.stdev(found):.1f}" if len(found) > 1 else ""
            cells.append(f"{statistics.fmean(found):.1f}{std}" if found else "–")
        text += f"| {label} | {' | '.join(cells)} |\n"
    shared = sorted(set(first["embedded"]) & set(first["natural"]))
    text += (
        f"\nFig. 1: nearest to {ABOUT} under eq. 1, one seed: {', '.join(map(str, first['embedded']))}; "
        f"{len(shared)} of {RADIUS} are its neighbours on the number line.\n"
    )
    return text


if __name__ == "__main__":
    command.entry(main)
