"""python -m numjax.tools.geometry naik|neighbours|monotone|… --embed=dice:form=d,dim=300 …: what an embedding knows
of numbers. One JSON object, on the last line of standard output.

    naik        --triples=FOLDER | --numbers=LIST  [--range=p98] [--seeds=10]     the tests of Naik et al.
    neighbours  [--lengths=1:4] [--pool=0:99999] [--k=10]     F1 of natural against embedded neighbours, by digits
    monotone    [--numbers=0:9999] [--anchors=200]                 whether distance grows with |x − y|
    carries     [--high=9999]           mean distance of n to n + 1: last digit only, with a carry, one digit more
    sweep       [--numbers=LIST]        distance from the least, by default of 39 numbers, 1 to 1,000,000
    projector   --out=FOLDER [--numbers=0:999]                     vectors.tsv, metadata.tsv for TensorBoard

--embed is `name:key=value,…` of any numeral embedding (learned ones with random parameters of the seed), or a GloVe
or word2vec text file. LIST is 0:999, 1,2,5 or a file with a number a line. --range sets low and high of an embedding
that has them: p98 (least number to 98th percentile, as DICE has it), full, own (the embedding's), or LOW:HIGH. `naik`
measures twice: in float64 on the host, and in float32 on the default backend from vectors of two float32 words.
Bad flags and bad files are one line and exit code 2.
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
    carries,
    export,
    magnitude,
    monotone,
    neighbours,
    numeration,
    sweep,
)
from numjax.tools.command import Parser

MOST = 10_000_000  # numbers of a LIST
SWEEP = sorted({round(10 ** (6 * place / 39)) for place in range(40)})
_WHOLE = re.compile(r"-?[0-9]{1,18}")


# -- flags -----------------------------------------------------------------------------------------------------------


def listed(text: str, flag: str = "--numbers") -> list[str]:
    """The numbers of a LIST as decimal strings: LOW:HIGH with both ends, commas, or a file with a number a line.

    Raises:
      UsageError: no numbers, or what is none.
    """
    low, colon, high = text.partition(":")
    if colon and _WHOLE.fullmatch(low) and _WHOLE.fullmatch(high):
        if (count := 1 + int(high) - int(low)) > MOST:
            raise UsageError(f"{flag}={text}: {count:,} numbers are more than {MOST:,}; give fewer")
        parts = [str(value) for value in range(int(low), int(high) + 1)]
    else:
        path = pathlib.Path(text).expanduser()
        if os.path.isfile(path):  # unlike `Path.is_file` also of lists longer than a name may be
            parts = path.read_text(encoding="utf-8", errors="replace").split()
        else:
            parts = text.split(",")
    parts = [part.strip() for part in parts if part.strip()]
    if not parts:
        raise UsageError(f"{flag}={text}: an empty list of numbers; give 0:999, 1,2,5 or a file with a number a line")
    try:
        found = [f"{value:f}" for value in vectors.values(parts)]
        if beyond := [part for part, value in zip(parts, found, strict=True) if not math.isfinite(float(value))]:
            raise DataError(f"{beyond[0][:40]} is beyond every float; leave it out")
        return found
    except DataError as error:
        raise UsageError(f"{flag}: {error}") from None


def limits(flag: str, embed: str, numbers: Sequence[str]) -> dict[str, float]:
    """{"low", "high"} of --range for an embedding that has them; empty where it has none, or keeps its own.

    Raises:
      UsageError: a range that is none, or that the specification gives too.
    """
    low, colon, high = flag.partition(":")
    if flag not in ("p98", "full", "own", "") and not colon:
        raise UsageError(f"--range={flag}: p98, full, own or LOW:HIGH")
    if not vectors.has(embed, "low", "high", "out_of_range") or flag == "own":
        return {}
    given = vectors.read_spec(embed)[1].keys() & {"low", "high"}
    if given:
        if flag:
            raise UsageError(f"--range={flag}: {embed} has {' and '.join(sorted(given))} of its own; leave one out")
        return {}
    if not colon:
        found = naik.limits(numbers, 98.0 if flag == "p98" else 100.0)
    else:
        try:
            found = float(low), float(high)
        except ValueError:
            raise UsageError(f"--range={flag}: LOW and HIGH are numbers, such as 0:9999") from None
        if not (found[0] < found[1] and math.isfinite(found[1] - found[0])):
            raise UsageError(f"--range={flag}: a range without width; LOW must be below HIGH")
    return {"low": found[0], "high": found[1]}


def _options(flags: argparse.Namespace, numbers: Sequence[str], default: str = "full") -> dict[str, Any]:
    options: dict[str, Any] = {}
    if flags.as_published:
        defect = next((name for name in ("as_printed", "as_published") if vectors.has(flags.embed, name)), "")
        if not defect or (defect == "as_printed" and vectors.read_spec(flags.embed)[1].get("form", "2") == "2"):
            raise UsageError(f"--as_published: {flags.embed} has no defect to turn back; leave it out")
        if defect in vectors.read_spec(flags.embed)[1]:
            raise UsageError(f"--as_published: {flags.embed} says {defect} of its own; leave one out")
        options[defect] = True
    flag = flags.range
    if not flag and not vectors.read_spec(flags.embed)[1].keys() & {"low", "high"}:
        flag = default
    return options | limits(flag, flags.embed, numbers)


def _seeds(flags: argparse.Namespace) -> int:
    # A table is the same with every seed.
    return 1 if vectors.read_spec(flags.embed)[0] == vectors.TABLE else flags.seeds


def means(scores: Sequence[Mapping[str, float]]) -> Measures:
    """Name → mean over seeds, to four decimals."""
    return {name: round(statistics.fmean(one[name] for one in scores), 4) for name in scores[0]}


def _std(scores: Sequence[Mapping[str, float]]) -> Measures:
    several = len(scores) > 1
    return {name: round(statistics.stdev(s[name] for s in scores), 4) if several else 0.0 for name in scores[0]}


def _spread(found: Sequence[Measures]) -> dict[str, Any]:
    return {**means(found), "std": _std(found), "seeds": len(found)}


# -- commands --------------------------------------------------------------------------------------------------------


def _naik(flags: argparse.Namespace) -> dict[str, Any]:
    if bool(flags.triples) == (flags.numbers is not None):
        raise UsageError("naik: give --triples=FOLDER or --numbers=LIST, one of them")
    if not 0 <= flags.tolerance < math.inf:
        raise UsageError(f"--tolerance={flags.tolerance}: 0 or more")
    triples = naik.read(flags.triples) if flags.triples else naik.magnitude(listed(flags.numbers))
    numbers = [triples.numbers[i] for i in triples.others]
    options = _options(flags, numbers, "p98")
    seeds = _seeds(flags)
    found = magnitude(flags.embed, triples, seeds, flags.precision != "float64", flags.tolerance, **options)
    outside = (
        np.mean([not options["low"] <= float(n) <= options["high"] for n in numbers]) if "low" in options else 0.0
    )
    main = found["float64" if flags.precision != "float32" else "float32"]
    out = {
        **means(main), "std": _std(main), "embed": flags.embed, "seeds": seeds, "options": options,
        "outside": round(float(outside), 4), "numbers": len(numbers), "triples": found["triples"],
        "skipped": triples.skipped, "missing": len(found["missing"]), "missing_first": found["missing"][:10],
        "precision": "float32" if flags.precision == "float32" else "float64",
    }  # fmt: skip
    if flags.precision == "both":
        out["float32"] = means(found["float32"]) | {"device": jax.default_backend()}
    try:
        words = numeration(flags.embed, seeds, **options)
        out["num"] = means(words["float64"]) | {"triples": words["triples"], "missing": len(words["missing"])}
    except DataError:
        out["num"] = None  # a table without number words, or a range that is enforced without small numbers
    return out


def _neighbours(flags: argparse.Namespace) -> dict[str, Any]:
    lengths = [int(text) for text in listed(flags.lengths, "--lengths")]
    if not all(1 <= length <= 9 for length in lengths):
        raise UsageError(f"--lengths={flags.lengths}: digits from 1 to 9, such as 1:4")
    # One digit more than is asked, so that no number has its neighbours cut off.
    pool = listed(flags.pool or f"0:{10 ** (max(lengths) + 1) - 1}", "--pool")
    if flags.k < 1 or flags.queries < 1:
        raise UsageError("--k and --queries must be at least 1")
    options = _options(flags, pool)
    found = [
        neighbours(flags.embed, lengths, pool, flags.k, flags.queries, seed, **options)
        for seed in range(_seeds(flags))
    ]
    return {
        "f1": means(found), "std": _std(found), "embed": flags.embed, "seeds": len(found), "k": flags.k,
        "pool": [len(pool), min(map(float, pool)), max(map(float, pool))], "queries": flags.queries,
        "options": options, "metric": "euclid, self left out, ties to the smaller number",
    }  # fmt: skip


def _monotone(flags: argparse.Namespace) -> dict[str, Any]:
    numbers = listed(flags.numbers or "0:9999")
    if flags.anchors < 1:
        raise UsageError(f"--anchors={flags.anchors}: at least 1")
    options = _options(flags, numbers)
    measure = functools.partial(monotone, flags.embed, numbers, flags.anchors, chords=flags.metric == "chord")
    found = [measure(seed=seed, **options) for seed in range(_seeds(flags))]
    return _spread(found) | {
        "embed": flags.embed, "numbers": len(numbers),
        "anchors": min(flags.anchors, len(numbers)), "metric": flags.metric, "options": options,
    }  # fmt: skip


def _projector(flags: argparse.Namespace) -> dict[str, Any]:
    if not flags.out:
        raise UsageError("projector: --out=FOLDER says where to write vectors.tsv and metadata.tsv")
    numbers = listed(flags.numbers or "0:999")
    options = _options(flags, numbers)
    made = vectors.make(flags.embed, **options)
    there = made.known(numbers)
    kept = [text for text, known in zip(numbers, there, strict=True) if known]
    if not kept:
        raise DataError(f"{flags.embed}: none of the numbers has a vector")
    out = pathlib.Path(flags.out).expanduser()
    try:
        written = export(out, kept, made(kept))
    except OSError as error:
        raise UsageError(f"cannot write {out} ({error.strerror}): choose another --out") from None
    return {
        "embed": flags.embed, "options": options, "numbers": len(kept), "dim": made.dim,
        "missing": len(numbers) - len(kept), "files": [str(out / name) for name in written],
    }  # fmt: skip


def _carries(flags: argparse.Namespace) -> dict[str, Any]:
    if not 10 <= flags.high < MOST:
        raise UsageError(f"--high={flags.high}: 10 or more, below {MOST:,}")
    options = _options(flags, ["0", str(flags.high)])
    measure = functools.partial(carries, flags.embed, flags.high, chords=flags.metric == "chord")
    return _spread([measure(seed=seed, **options) for seed in range(_seeds(flags))]) | {
        "embed": flags.embed, "high": flags.high, "metric": flags.metric, "options": options,
    }  # fmt: skip


def _sweep(flags: argparse.Namespace) -> dict[str, Any]:
    numbers = listed(flags.numbers or ",".join(map(str, SWEEP)))
    options = _options(flags, numbers)
    measure = functools.partial(sweep, flags.embed, numbers, chords=flags.metric == "chord")
    found = [measure(seed=seed, **options) for seed in range(_seeds(flags))]
    return {
        "distance": {name: float(f"{statistics.fmean(one[name] for one in found):.6g}") for name in found[0]},
        "embed": flags.embed, "seeds": len(found), "missing": len(numbers) - len(found[0]),
        "metric": flags.metric, "options": options,
    }  # fmt: skip


COMMANDS = {
    "naik": _naik, "neighbours": _neighbours, "monotone": _monotone, "carries": _carries, "sweep": _sweep,
    "projector": _projector,
}  # fmt: skip


def _parser() -> Parser:
    made = Parser(
        prog="python -m numjax.tools.geometry", description=(__doc__ or "").partition(": ")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    commands = made.add_subparsers(dest="command", required=True)
    for name in COMMANDS:
        one = commands.add_parser(name, allow_abbrev=False)
        one.add_argument("--embed", required=True, help="name:key=value,… or a file of vectors")
        one.add_argument("--as_published", action="store_true", help="with the paper's defects (DICE-D as printed)")
        one.add_argument("--range", default="", help="p98, full, own or LOW:HIGH")
        if name not in ("neighbours", "carries"):
            one.add_argument("--numbers", default=None, help="LOW:HIGH, commas, or a file")
        if name != "projector":
            one.add_argument("--seeds", type=int, default=SEEDS if name == "naik" else 1)
        if name == "naik":
            one.add_argument("--triples", default="", help="folder with scmag.tsv, bcmag.tsv, orig_nums.txt")
            one.add_argument(
                "--tolerance", type=float, default=naik.TOLERANCE, help="relative, of the tests with ties"
            )
            one.add_argument("--precision", choices=("both", "float64", "float32"), default="both")
        elif name == "neighbours":
            one.add_argument("--lengths", default="1:4", help="how many digits")
            one.add_argument(
                "--pool", default="", help="numbers that may be neighbours; up to one digit more by default"
            )
            one.add_argument("--k", type=int, default=number_line.K)
            one.add_argument("--queries", type=int, default=200, help="numbers of each length")
        elif name == "projector":
            one.add_argument("--out", default="", help="folder")
        else:
            one.add_argument("--metric", choices=("chord", "euclid"), default="chord")
        if name == "monotone":
            one.add_argument("--anchors", type=int, default=200, help="numbers that distances are taken from")
        if name == "carries":
            one.add_argument("--high", type=int, default=9999, help="of 0 … HIGH")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """0 and one JSON object; 2 and one line for bad flags and bad data."""
    try:
        flags = _parser().parse_args(argv)
        if getattr(flags, "seeds", 1) < 1:
            raise UsageError(f"--seeds={flags.seeds}: at least 1")
        found = COMMANDS[flags.command](flags)
    except (UsageError, DataError) as error:
        print(f"geometry: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    print(json.dumps({"test": flags.command, **found}, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
