"""python -m numjax.tools.geometry naik|neighbours|monotone|… --embed=dice:form=d,dim=300 …:
tests how well an embedding represents numbers. It prints one JSON object, on the last line of standard output.

    naik        --triples=FOLDER | --numbers=LIST  [--range=p98] [--seeds=10]     the tests of Naik et al.
    neighbours  [--lengths=1:4] [--pool=0:99999] [--k=10]     F1 of natural against embedded neighbours, by digits
    monotone    [--numbers=0:9999] [--anchors=200]                 whether distance grows with |x − y|
    carries     [--high=9999]           mean distance of n to n + 1: last digit only, with a carry, one more digit
    sweep       [--numbers=LIST]        distance from the smallest, by default of 39 numbers, 1 to 1,000,000
    projector   --out=FOLDER [--numbers=0:999]                     vectors.tsv, metadata.tsv for TensorBoard

--embed is `name:key=value,…` of any numeral embedding (a learned one has random parameters by seed), or a GloVe or
word2vec text file. LIST is 0:999, 1,2,5 or a file with a number a line. --range sets low and high of an embedding
that has them: p98 (smallest number to 98th percentile, as in DICE), full, own (the embedding's), or LOW:HIGH. `naik`
measures twice: in float64 on the host, and in float32 on the default backend from vectors split into two float32.
Bad flags and bad files give one line on stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import pathlib
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from numjax.errors import DataError, UsageError
from numjax.geometry import naik, number_line
from numjax.inspect import vectors
from numjax.probes.geometry import (
    SEEDS,
    Measures,
    export_vectors,
    list_known,
    measure_carries,
    measure_monotonicity,
    measure_sweep,
    score_magnitude,
    score_neighbours,
    score_numeration,
    sort_numbers,
)
from numjax.runtime.waiting import Wait
from numjax.tools.command import Parser, make_parser, report

MAX_NUMBERS = 10_000_000  # numbers of a LIST
_FURTHEST = 400  # places from the point that a number of a LIST is written with
SWEEP = sorted({round(10 ** (6 * step / 39)) for step in range(40)})
_INTEGER = re.compile(r"-?[0-9]{1,18}")


# -- flags -----------------------------------------------------------------------------------------------------------


def parse_numbers(text: str, flag: str = "--numbers") -> list[str]:
    """Parses a LIST into decimal strings: LOW:HIGH with both ends, commas, or a file with a number a line.

    Raises:
      UsageError: no numbers, too many, or something that is not a number.
    """
    low, colon, high = text.partition(":")
    if colon and _INTEGER.fullmatch(low) and _INTEGER.fullmatch(high):
        if (count := 1 + int(high) - int(low)) > MAX_NUMBERS:
            raise UsageError(f"{flag}={text}: {count:,} numbers are more than {MAX_NUMBERS:,}; give fewer")
        parts = [str(value) for value in range(int(low), int(high) + 1)]
    else:
        path = pathlib.Path(text).expanduser()
        if os.path.isfile(path):  # unlike `Path.is_file`, it accepts lists that are too long for a file name
            try:
                parts = path.read_text(encoding="utf-8", errors="replace").split()
            except OSError as error:
                raise UsageError(f"{flag}: {text} cannot be read: {error.strerror}") from None
        else:
            parts = text.split(",")
    parts = [part.strip() for part in parts if part.strip()]
    if not parts:
        raise UsageError(f"{flag}={text}: an empty list of numbers; give 0:999, 1,2,5 or a file with a number a line")
    try:
        numbers = vectors.values(parts)
        for part, value in zip(parts, numbers, strict=True):
            if not math.isfinite(float(value)) or abs(value.adjusted()) > _FURTHEST:
                raise DataError(f"{part[:40]} is beyond every float; leave it out")
        return [f"{value:f}" for value in numbers]
    except DataError as error:
        raise UsageError(f"{flag}: {error}") from None


def parse_range(flag: str, embed: str, numbers: Sequence[str]) -> dict[str, float]:
    """Parses --range into {"low", "high"}; empty if the embedding has no range or keeps its own.

    Raises:
      UsageError: a bad range, or the specification gives a range too.
    """
    low, colon, high = flag.partition(":")
    if flag not in ("p98", "full", "own", "") and not colon:
        raise UsageError(f"--range={flag}: p98, full, own or LOW:HIGH")
    if not vectors.has_options(embed, "low", "high", "out_of_range") or flag == "own":
        return {}
    spec_limits = vectors.parse_spec(embed)[1].keys() & {"low", "high"}
    if spec_limits:
        if flag:
            raise UsageError(
                f"--range={flag}: {embed} sets {' and '.join(sorted(spec_limits))} itself; leave one out"
            )
        return {}
    if not colon:
        limits = naik.find_limits(numbers, 98.0 if flag == "p98" else 100.0)
    else:
        try:
            limits = float(low), float(high)
        except ValueError:
            raise UsageError(f"--range={flag}: LOW and HIGH are numbers, such as 0:9999") from None
        if not (limits[0] < limits[1] and math.isfinite(limits[1] - limits[0])):
            raise UsageError(f"--range={flag}: an empty range; LOW must be below HIGH")
    return {"low": limits[0], "high": limits[1]}


def _parse_options(flags: argparse.Namespace, numbers: Sequence[str], default: str = "full") -> dict[str, Any]:
    options: dict[str, Any] = {}
    if flags.as_published:
        defect = next((name for name in ("as_printed", "as_published") if vectors.has_options(flags.embed, name)), "")
        if not defect or (defect == "as_printed" and vectors.parse_spec(flags.embed)[1].get("form", "2") == "2"):
            raise UsageError(f"--as_published: {flags.embed} has no defect to restore; leave it out")
        if defect in vectors.parse_spec(flags.embed)[1]:
            raise UsageError(f"--as_published: {flags.embed} sets {defect} itself; leave one out")
        options[defect] = True
    flag = flags.range
    if not flag and not vectors.parse_spec(flags.embed)[1].keys() & {"low", "high"}:
        flag = default
    return options | parse_range(flag, flags.embed, numbers)


def _count_seeds(flags: argparse.Namespace) -> int:
    # A table of vectors is the same for every seed.
    return 1 if vectors.parse_spec(flags.embed)[0] == vectors.TABLE else flags.seeds


def average_scores(scores: Sequence[Mapping[str, float]]) -> Measures:
    """Averages each score over seeds, to four decimals."""
    return {name: round(statistics.fmean(seed_scores[name] for seed_scores in scores), 4) for name in scores[0]}


def _std(scores: Sequence[Mapping[str, float]]) -> Measures:
    has_several = len(scores) > 1
    return {name: round(statistics.stdev(s[name] for s in scores), 4) if has_several else 0.0 for name in scores[0]}


def _summarise(scores: Sequence[Measures]) -> dict[str, Any]:
    return {**average_scores(scores), "std": _std(scores), "seeds": len(scores)}


# -- commands --------------------------------------------------------------------------------------------------------


def _run_naik(flags: argparse.Namespace) -> dict[str, Any]:
    if bool(flags.triples) == (flags.numbers is not None):
        raise UsageError("naik: give --triples=FOLDER or --numbers=LIST, one of them")
    if not 0 <= flags.tolerance < math.inf:
        raise UsageError(f"--tolerance={flags.tolerance}: 0 or more")
    triples = (
        naik.read_triples(flags.triples)
        if flags.triples
        else naik.make_magnitude_triples(parse_numbers(flags.numbers))
    )
    numbers = [triples.numbers[i] for i in triples.others]
    options = _parse_options(flags, numbers, "p98")
    seeds = _count_seeds(flags)
    results = score_magnitude(flags.embed, triples, seeds, flags.precision != "float64", flags.tolerance, **options)
    share_outside = (
        np.mean([not options["low"] <= float(n) <= options["high"] for n in numbers]) if "low" in options else 0.0
    )
    scores = results["float64" if flags.precision != "float32" else "float32"]
    out = {
        **average_scores(scores), "std": _std(scores), "embed": flags.embed, "seeds": seeds, "options": options,
        "outside": round(float(share_outside), 4), "numbers": len(numbers), "triples": results["triples"],
        "skipped": triples.n_skipped, "missing": len(results["missing"]), "missing_first": results["missing"][:10],
        "precision": "float32" if flags.precision == "float32" else "float64",
    }  # fmt: skip
    if flags.precision == "both":
        out["float32"] = average_scores(results["float32"]) | {"device": jax.default_backend()}
    try:
        words = score_numeration(flags.embed, seeds, **options)
        out["num"] = average_scores(words["float64"]) | {
            "triples": words["triples"],
            "missing": len(words["missing"]),
        }
    except DataError:
        out["num"] = None  # a table without number words, or a strict range without small numbers
    return out


def _run_neighbours(flags: argparse.Namespace) -> dict[str, Any]:
    texts = parse_numbers(flags.lengths, "--lengths")
    if not {*texts} <= {*"123456789"}:
        raise UsageError(f"--lengths={flags.lengths}: digits from 1 to 9, such as 1:4")
    lengths = [int(text) for text in texts]
    # One digit more than the longest, so that the pool has the neighbours of every number.
    pool = parse_numbers(flags.pool or f"0:{10 ** (max(lengths) + 1) - 1}", "--pool")
    if flags.k < 1 or flags.queries < 1:
        raise UsageError("--k and --queries must be at least 1")
    options = _parse_options(flags, pool)
    scores = [
        score_neighbours(flags.embed, lengths, pool, flags.k, flags.queries, seed, **options)
        for seed in range(_count_seeds(flags))
    ]
    known = list_known(flags.embed, pool, **options)
    return {
        "f1": average_scores(scores), "std": _std(scores), "embed": flags.embed, "seeds": len(scores), "k": flags.k,
        "pool": [len(known), float(known[0]), float(known[-1])], "missing": len(sort_numbers(pool)) - len(known),
        "queries": flags.queries,
        "options": options, "metric": "euclid, self left out, ties to the smaller number",
    }  # fmt: skip


def _run_monotone(flags: argparse.Namespace) -> dict[str, Any]:
    numbers = parse_numbers(flags.numbers or "0:9999")
    if flags.anchors < 1:
        raise UsageError(f"--anchors={flags.anchors}: at least 1")
    options = _parse_options(flags, numbers)
    measure = functools.partial(
        measure_monotonicity, flags.embed, numbers, flags.anchors, chords=flags.metric == "chord"
    )
    scores = [measure(seed=seed, **options) for seed in range(_count_seeds(flags))]
    count = len(list_known(flags.embed, numbers, **options))
    return _summarise(scores) | {
        "embed": flags.embed, "numbers": count, "missing": len(sort_numbers(numbers)) - count,
        "anchors": min(flags.anchors, count), "metric": flags.metric, "options": options,
    }  # fmt: skip


def _run_projector(flags: argparse.Namespace) -> dict[str, Any]:
    if not flags.out:
        raise UsageError("projector: --out=FOLDER says where to write vectors.tsv and metadata.tsv")
    numbers = parse_numbers(flags.numbers or "0:999")
    options = _parse_options(flags, numbers)
    embedding = vectors.make(flags.embed, **options)
    is_known = embedding.has_vector(numbers)
    known_numbers = [text for text, has_vector in zip(numbers, is_known, strict=True) if has_vector]
    if not known_numbers:
        raise DataError(f"{flags.embed}: none of the numbers has a vector")
    out = pathlib.Path(flags.out).expanduser()
    try:
        names = export_vectors(out, known_numbers, embedding(known_numbers))
    except OSError as error:
        raise UsageError(f"cannot write {out} ({error.strerror}): choose another --out") from None
    return {
        "embed": flags.embed, "options": options, "numbers": len(known_numbers), "dim": embedding.dim,
        "missing": len(numbers) - len(known_numbers), "files": [str(out / name) for name in names],
    }  # fmt: skip


def _run_carries(flags: argparse.Namespace) -> dict[str, Any]:
    if not 20 <= flags.high < MAX_NUMBERS:
        raise UsageError(f"--high={flags.high}: 20 or more, for the first carry (19 to 20), below {MAX_NUMBERS:,}")
    options = _parse_options(flags, ["0", str(flags.high)])
    measure = functools.partial(measure_carries, flags.embed, flags.high, chords=flags.metric == "chord")
    return _summarise([measure(seed=seed, **options) for seed in range(_count_seeds(flags))]) | {
        "embed": flags.embed, "high": flags.high, "metric": flags.metric, "options": options,
    }  # fmt: skip


def _run_sweep(flags: argparse.Namespace) -> dict[str, Any]:
    numbers = parse_numbers(flags.numbers or ",".join(map(str, SWEEP)))
    options = _parse_options(flags, numbers)
    measure = functools.partial(measure_sweep, flags.embed, numbers, chords=flags.metric == "chord")
    sweeps = [measure(seed=seed, **options) for seed in range(_count_seeds(flags))]
    return {
        "distance": {name: float(f"{statistics.fmean(sweep[name] for sweep in sweeps):.6g}") for name in sweeps[0]},
        "embed": flags.embed, "seeds": len(sweeps), "missing": len(sort_numbers(numbers)) - len(sweeps[0]),
        "metric": flags.metric, "options": options,
    }  # fmt: skip


COMMANDS = {
    "naik": _run_naik, "neighbours": _run_neighbours, "monotone": _run_monotone, "carries": _run_carries,
    "sweep": _run_sweep, "projector": _run_projector,
}  # fmt: skip


def _make_parser() -> Parser:
    parser = make_parser(
        "geometry", __doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in COMMANDS:
        command = commands.add_parser(name, allow_abbrev=False)
        command.add_argument("--embed", required=True, help="name:key=value,… or a file of vectors")
        command.add_argument(
            "--as_published", action="store_true", help="with the paper's defects (DICE-D as printed)"
        )
        command.add_argument("--range", default="", help="p98, full, own or LOW:HIGH")
        if name not in ("neighbours", "carries"):
            command.add_argument("--numbers", default=None, help="LOW:HIGH, commas, or a file")
        if name != "projector":
            command.add_argument("--seeds", type=int, default=SEEDS if name == "naik" else 1)
        if name == "naik":
            command.add_argument("--triples", default="", help="folder with scmag.tsv, bcmag.tsv, orig_nums.txt")
            command.add_argument(
                "--tolerance", type=float, default=naik.TOLERANCE, help="relative tolerance of the tests with ties"
            )
            command.add_argument("--precision", choices=("both", "float64", "float32"), default="both")
        elif name == "neighbours":
            command.add_argument("--lengths", default="1:4", help="how many digits")
            command.add_argument(
                "--pool", default="", help="numbers that may be neighbours; up to one digit more by default"
            )
            command.add_argument("--k", type=int, default=number_line.K)
            command.add_argument("--queries", type=int, default=200, help="numbers of each length")
        elif name == "projector":
            command.add_argument("--out", default="", help="folder")
        else:
            command.add_argument("--metric", choices=("chord", "euclid"), default="chord")
        if name == "monotone":
            command.add_argument(
                "--anchors", type=int, default=200, help="how many numbers to measure distances from"
            )
        if name == "carries":
            command.add_argument("--high", type=int, default=9999, help="of 0 … HIGH")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Prints one JSON object and returns 0. For bad flags or data, prints one line and returns 2."""
    try:
        flags = _make_parser().parse_args(argv)
        if getattr(flags, "seeds", 1) < 1:
            raise UsageError(f"--seeds={flags.seeds}: at least 1")
        with Wait(f"measuring {flags.embed}"):
            results = COMMANDS[flags.command](flags)
    except (UsageError, DataError) as error:
        return report("geometry", error)
    except KeyboardInterrupt:
        return 130
    print(json.dumps({"test": flags.command, **results}, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
