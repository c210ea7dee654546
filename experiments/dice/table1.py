"""Table 1: the magnitude tests of Naik et al. (OVA, SC, BC), and what becomes of them when ties are allowed.

    python -m experiments.dice.table1 --path=FOLDER [--tables=glove.6B.300d.txt,…]

FOLDER has scmag.tsv, bcmag.tsv and orig_nums.txt; without it the test is made of generated numbers, in the same form.
Nothing is trained. A seed draws DICE's rotation, its angles out of range, and the parameters of learned embeddings.
"""

from __future__ import annotations

import datetime
import pathlib
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from numjax.bundled.experiments import command, runs, tables
from numjax.bundled.experiments.runs import Result, Results
from numjax.bundled.experiments.tables import Column, Published, Row
from numjax.errors import DataError
from numjax.geometry import naik
from numjax.inspect import vectors
from numjax.probes import geometry as probed
from numjax.tools import geometry

OUT = "runs/dice-{scale}"
SEEDS = {"smoke": 2, "laptop": 10, "paper": 10}
DIM = {"smoke": 8, "laptop": 300, "paper": 300}


class System(NamedTuple):
    """A row: its label, its specification without the width, and the range of embeddings that have one, which are
    those that can be had in float64: only they are measured in float32 too."""

    label: str
    spec: str
    range: str = ""


SYSTEMS = {
    "random": System("Random", "random"),
    "dice-d": System("DICE-D, as printed", "dice:form=d,as_printed=true", "p98"),
    "dice-d-fixed": System("DICE-D, unit norm", "dice:form=d", "p98"),
    "dice-d-full": System("DICE-D, unit norm, full range", "dice:form=d", "full"),
    "dice-2": System("DICE-2", "dice:form=2", "p98"),
    "dice-2-full": System("DICE-2, full range", "dice:form=2", "full"),
    "prototype": System("NumGPT prototypes, untrained", "prototype"),
    "digits-weighted": System("digits, eq. 1, random vectors", "digit_sum:aggregate=weighted"),
    "digits-place": System("digits, place values, random vectors", "digit_sum:aggregate=place"),
    "digits-sum": System("digits, sum, random vectors", "digit_sum:aggregate=sum"),
}
# DICE, Table 1. Rows without a system need the vectors that they are named after: see --tables.
PAPER = {
    "Random": (0.04, 48.92, 49.34),
    "GloVe 6B-200D": (15.88, 62.21, 83.94),
    "GloVe 6B-300D": (18.41, 62.92, 83.98),
    "GloVe 840B-300D": (5.18, 55.58, 91.86),
    "FastText-Wiki": (13.94, 59.96, 96.15),
    "FastText-CC": (7.83, 53.89, 85.40),
    "Skip-gram-5": (8.85, 55.40, 96.42),
    "Skip-gram-Dep": (3.32, 51.99, 94.60),
    "DICE-D, as printed": (95.63, 99.66, 99.64),
}
NAMES = ("ova", "sc", "bc")
COLUMNS = [Column(name.upper(), "naik", name, 1.0) for name in NAMES]
TIES = [Column(f"{name.upper()}, ties", "naik", f"{name}_ties", 1.0) for name in NAMES]
SINGLE = [Column(f"{name.upper()}, float32", "naik", f"{name}_float32", 1.0) for name in NAMES]


def stand_in(count: int, seed: int = 0) -> list[str]:
    """Numbers as a corpus has them: half small and dense, half spread evenly in logarithm up to 100,000."""
    rng = np.random.default_rng(seed)
    far = np.exp(rng.uniform(np.log(count), np.log(1e5), count // 2)).astype(int)
    return [str(value) for value in sorted({*range(count - len(far)), *far.tolist()})]


def measure(spec: str, triples: naik.Triples, seeds: int, range: str) -> tuple[list[dict[str, float]], list[str]]:
    """Test scores by seed, in float64 and, where there is a range, in float32 on the default backend with "_float32"
    behind their names; and numbers without a vector."""
    numbers = [triples.numbers[i] for i in triples.others]
    options: dict[str, Any] = geometry.limits(range, spec, numbers) if range else {}
    frozen = vectors.read_spec(spec)[0] == vectors.TABLE
    found = probed.magnitude(spec, triples, 1 if frozen else seeds, bool(options), **options)
    single = found["float32"] or [{} for _ in found["float64"]]
    both = zip(found["float64"], single, strict=True)
    return [one | {f"{name}_float32": two[name] for name in two} for one, two in both], found["missing"]


def main(words: Sequence[str] | None = None) -> None:
    """Measures, then writes table1.{md,json}."""
    parser = command.parser(__doc__ or "", OUT, SEEDS)
    parser.add_argument("--path", default="", help="folder of the triples")
    parser.add_argument("--tables", default="", help="GloVe or word2vec text files, separated by commas")
    options = command.parse(parser, words)
    triples = naik.read(options.path) if options.path else naik.magnitude(stand_in(60))
    known, dim = vectors.names(), DIM[options.scale]
    rows, results, remarks = [], {}, []
    made = {name: one for name, one in SYSTEMS.items() if one.spec.partition(":")[0] in known}
    specs = {n: f"{one.spec}{',' if ':' in one.spec else ':'}dim={dim}" for n, one in made.items()}
    for path in filter(None, options.tables.split(",")):
        made[path], specs[path] = System(pathlib.Path(path).stem, path), path
    for name, one in made.items():
        begun = time.monotonic()
        try:
            scores, missing = measure(specs[name], triples, len(options.seeds), one.range)
        except DataError as error:
            if name in SYSTEMS:
                raise
            remarks.append(f"{one.label} is left out: {error}.")
            continue
        seconds = (time.monotonic() - begun) / len(scores)
        if missing:
            remarks.append(f"{one.label} has no vectors for {vectors.named(missing)}: their triples are left out.")
        results["naik", name] = {
            seed: Result("naik", name, seed, specs[name], {"test": score}, None, seconds, runs.machine(), _now())
            for seed, score in enumerate(scores)
        }
        rows.append(Row(one.label, name, published(one.label)))
        print(f"{one.label}: OVA {np.mean([s['ova'] for s in scores]):.2f}", flush=True)
    labels = {row.label for row in rows}
    rows += [Row(label, None, published(label)) for label in PAPER if label not in labels]
    write(options, triples, rows, results, remarks)


def published(label: str) -> dict[str, Published]:
    """Column → the paper's number."""
    return {name.upper(): Published(value) for name, value in zip(NAMES, PAPER.get(label, ()), strict=False)}


def write(options: Any, triples: naik.Triples, rows: Sequence[Row], results: Results, remarks: Sequence[str]) -> None:
    """Writes and prints the table."""
    reference = "dice-d"
    low, high = naik.limits([triples.numbers[i] for i in triples.others])
    where = "the triples of --path" if options.path else "generated numbers: in form alone"
    text = (
        "# Table 1: magnitude tests\n\n"
        f"{len(triples.strict)} triples over {len(triples.others)} numbers ({where}); {len(options.seeds)} seeds, "
        f"D = {DIM[options.scale]}, per cent, mean ± standard deviation. Range of DICE: [{low:g}, {high:g}], the "
        "98th percentile, or full; outside it a random angle. Distances by chord in float64. p: paired over seeds "
        "against DICE-D as printed.\n"
    )
    text += "".join(f"\n{remark}\n" for remark in remarks)
    entries = {}
    for heading, columns, note in (
        ("Strict", COLUMNS, ""),
        ("With ties", TIES, f"d(x, x⁺) may be larger by {naik.TOLERANCE:g} of itself.\n\n"),
        ("In float32", SINGLE, f"Strict; on {results['naik', reference][0].machine['device']}, from vectors of two "
         "float32 words.\n\n"),
    ):  # fmt: skip
        of = [row for row in rows if heading != "In float32" or (row.system in SYSTEMS and SYSTEMS[row.system].range)]
        entries[heading] = tables.compare(results, of, columns, reference)
        text += f"\n## {heading}\n\n{note}" + tables.markdown(entries[heading], columns, SYSTEMS[reference].label)
    text += f"\n{tables.machines(results)}.\n"
    tables.write(options.out / "table1.md", text)
    seeds = [result._asdict() for of in results.values() for result in of.values()]
    runs.write_json(options.out / "table1.json", {"tables": entries, "runs": seeds})
    print(f"\n{text}\nIn {options.out}: table1.md, table1.json", flush=True)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


if __name__ == "__main__":
    command.entry(main)
