"""Table 1: the magnitude tests of Naik et al. (OVA, SC, BC), strict and with ties allowed.

    python -m experiments.dice.table1 --path=FOLDER [--tables=glove.6B.300d.txt,…]

FOLDER has scmag.tsv, bcmag.tsv and orig_nums.txt; without it the test has generated numbers in the same form. Nothing
is trained. A seed draws DICE's rotation, its angles out of range, and the parameters of learned embeddings.
"""

from __future__ import annotations

import datetime
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from numjax.bundled.experiments import command, identity, report, stored, tables
from numjax.bundled.experiments.runs import Results
from numjax.bundled.experiments.stored import RunResult
from numjax.bundled.experiments.tables import Published, TableColumn, TableRow
from numjax.errors import DataError
from numjax.geometry import naik
from numjax.inspect import vectors
from numjax.probes import geometry as probed
from numjax.tools import geometry

OUT = "runs/dice-{scale}"
SEEDS = {"smoke": 2, "laptop": 10, "paper": 10}
DIM = {"smoke": 8, "laptop": 300, "paper": 300}


class MagnitudeSystem(NamedTuple):
    """A row of the table: its label, its specification without the width, and the embedding's range or None.

    Embeddings with a range can be computed in float64; only they are measured in float32 too.
    """

    label: str
    spec: str
    range: str = ""


SYSTEMS = {
    "random": MagnitudeSystem("Random", "random"),
    "dice-d": MagnitudeSystem("DICE-D, as printed", "dice:form=d,as_printed=true", "p98"),
    "dice-d-fixed": MagnitudeSystem("DICE-D, unit norm", "dice:form=d", "p98"),
    "dice-d-full": MagnitudeSystem("DICE-D, unit norm, full range", "dice:form=d", "full"),
    "dice-2": MagnitudeSystem("DICE-2", "dice:form=2", "p98"),
    "dice-2-full": MagnitudeSystem("DICE-2, full range", "dice:form=2", "full"),
    "prototype": MagnitudeSystem("NumGPT prototypes, untrained", "prototype"),
    "digits-weighted": MagnitudeSystem("digits, eq. 1, random vectors", "digit_sum:aggregate=weighted"),
    "digits-place": MagnitudeSystem("digits, place values, random vectors", "digit_sum:aggregate=place"),
    "digits-sum": MagnitudeSystem("digits, sum, random vectors", "digit_sum:aggregate=sum"),
}
# DICE, Table 1. Rows without a system need the vectors of their name: see --tables.
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
COLUMNS = [TableColumn(name.upper(), "naik", name, 1.0) for name in NAMES]
TIES = [TableColumn(f"{name.upper()}, ties", "naik", f"{name}_ties", 1.0) for name in NAMES]
SINGLE = [TableColumn(f"{name.upper()}, float32", "naik", f"{name}_float32", 1.0) for name in NAMES]
# Heading → (columns, a note below the heading).
PARTS = {
    "Strict": (COLUMNS, ""),
    "With ties": (TIES, f"d(x, x⁺) may be larger by {naik.TOLERANCE:g} of itself.\n\n"),
    "In float32": (SINGLE, "Strict; on {device}, from vectors of two float32 words.\n\n"),
}
REFERENCE = "dice-d"


def make_numbers(count: int, seed: int = 0) -> list[str]:
    """Numbers like those of a corpus: half small and dense, half spread evenly in their logarithm up to 100,000."""
    rng = np.random.default_rng(seed)
    large_numbers = np.exp(rng.uniform(np.log(count), np.log(1e5), count // 2)).astype(int)
    return [str(value) for value in sorted({*range(count - len(large_numbers)), *large_numbers.tolist()})]


def measure(spec: str, triples: naik.Triples, seeds: int, range: str) -> tuple[list[dict[str, float]], list[str]]:
    """(test scores by seed, numbers without a vector).

    Scores are in float64. With a range there are also scores in float32 on the default backend, whose names end in
    "_float32".
    """
    numbers = [triples.numbers[i] for i in triples.others]
    options: dict[str, Any] = geometry.parse_range(range, spec, numbers) if range else {}
    is_table = vectors.parse_spec(spec)[0] == vectors.TABLE
    scores = probed.score_magnitude(spec, triples, 1 if is_table else seeds, bool(options), **options)
    single_precision = scores["float32"] or [{} for _ in scores["float64"]]
    score_pairs = zip(scores["float64"], single_precision, strict=True)
    return [
        double_scores | {f"{name}_float32": single_scores[name] for name in single_scores}
        for double_scores, single_scores in score_pairs
    ], scores["missing"]


def main(words: Sequence[str] | None = None) -> None:
    """Measures, then writes table1.{md,json}."""
    parser = command.make_parser(__doc__ or "", OUT, SEEDS)
    parser.add_argument("--path", default="", help="folder of the triples")
    parser.add_argument("--tables", default="", help="GloVe or word2vec text files, separated by commas")
    options = command.parse_options(parser, words)
    triples = naik.read_triples(options.path) if options.path else naik.make_magnitude_triples(make_numbers(60))
    digest = identity.digest_folder(options.path) if options.path else "generated"
    embedding_names, dim = vectors.names(), DIM[options.scale]
    rows, results, remarks = [], {}, []
    systems = {name: system for name, system in SYSTEMS.items() if system.spec.partition(":")[0] in embedding_names}
    specs = {n: f"{system.spec}{',' if ':' in system.spec else ':'}dim={dim}" for n, system in systems.items()}
    for path in filter(None, options.tables.split(",")):
        systems[path], specs[path] = MagnitudeSystem(pathlib.Path(path).stem, path), path
    for name, system in systems.items():
        start = time.monotonic()
        try:
            scores, missing_numbers = measure(specs[name], triples, len(options.seeds), system.range)
        except DataError as error:
            if name in SYSTEMS:
                raise
            remarks.append(f"{system.label} is left out: {error}.")
            continue
        seconds = (time.monotonic() - start) / len(scores)
        if missing_numbers:
            remarks.append(
                f"{system.label} has no vectors for {vectors.summarise_numbers(missing_numbers)}: "
                "their triples are left out."
            )
        settings = {"spec": specs[name], "range": system.range, "triples": digest}
        if pathlib.Path(specs[name]).is_file():
            settings["spec"] = identity.digest_folder(specs[name])
        code = identity.list_code(("numjax.probes.geometry", *identity.list_vector_roots(specs[name])))
        results["naik", name] = {
            seed: RunResult(
                *("naik", name, seed, identity.make_key(settings), {"test": score}, None, seconds),
                *(stored.describe_machine(), _timestamp(), settings, code),
            )
            for seed, score in enumerate(scores)
        }
        rows.append(TableRow(system.label, name, make_published(system.label)))
        print(f"{system.label}: OVA {np.mean([s['ova'] for s in scores]):.2f}", flush=True)
    labels = {row.label for row in rows}
    rows += [TableRow(label, None, make_published(label)) for label in PAPER if label not in labels]
    write(options, triples, rows, results, remarks)


def make_published(label: str) -> dict[str, Published]:
    """Column → the paper's number."""
    return {name.upper(): Published(value) for name, value in zip(NAMES, PAPER.get(label, ()), strict=False)}


def write(
    options: Any, triples: naik.Triples, rows: Sequence[TableRow], results: Results, remarks: Sequence[str]
) -> None:
    """Writes table1.{md,json} and prints the table."""
    low, high = naik.find_limits([triples.numbers[i] for i in triples.others])
    source_note = "the triples of --path" if options.path else "generated numbers: in form alone"
    facts = (
        f"{len(triples.strict)} triples over {len(triples.others)} numbers ({source_note}); "
        f"{len(options.seeds)} seeds, "
        f"D = {DIM[options.scale]}, per cent, mean ± standard deviation. Range of DICE: [{low:g}, {high:g}], the "
        "98th percentile, or full; outside it a random angle. Distances by chord in float64. p: paired over seeds "
        "against DICE-D as printed."
    )
    entries = {}
    for heading, (columns, _) in PARTS.items():
        table_rows = [
            row for row in rows if heading != "In float32" or (row.system in SYSTEMS and SYSTEMS[row.system].range)
        ]
        entries[heading] = tables.compare(results, table_rows, columns, REFERENCE)
    run_results = [result for by_seed in results.values() for result in by_seed.values()]
    content = {
        "scale": options.scale,
        "facts": facts,
        "remarks": list(remarks),
        "columns": {heading: [column._asdict() for column in columns] for heading, (columns, _) in PARTS.items()},
        "reference": SYSTEMS[REFERENCE].label,
        "tables": entries,
    }
    text = report.write("table1", options.out, "dice.table1", content | stored.pack(run_results))
    print(f"\n{text}\nIn {options.out}: table1.md, table1.json", flush=True)


def render(content: Mapping[str, Any]) -> str:
    """The Markdown of the JSON."""
    machines, device = tables.describe_machines(content["runs"]), content["runs"][0]["machine"]["device"]
    remarks = [content["facts"], report.describe_commits(content["runs"]), *content["remarks"]]
    text = "# Table 1: magnitude tests\n" + "".join(f"\n{remark}\n" for remark in remarks)
    for heading, entries in content["tables"].items():
        columns = [TableColumn(**column) for column in content["columns"][heading]]
        text += f"\n## {heading}\n\n{PARTS[heading][1].format(device=device)}"
        text += tables.format_markdown(entries, columns, content["reference"])
    return text + f"\n{machines}.\n"


def _timestamp() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


if __name__ == "__main__":
    command.entry(main)
