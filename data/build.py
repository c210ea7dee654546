"""Builds a dataset and prints what it holds.

    python -m data.build mme --data_dir=built --size=8000 --seed=1
    python -m data.build numeracy600k --path=/data/numeracy600k --variant=comments --strict
    python -m data.build gnc --report        counts, balance, different keys, overlap between the splits
    python -m data.build gnc --sample=2      the first records of each split as JSON lines
    python -m data.build articles --path=/data/articles --beam      read by Apache Beam, on any of its runners

The `tfds` command of tensorflow-datasets needs TensorFlow; this command does not.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shlex
import sys
from collections.abc import Sequence

from numjax.errors import DataError, UsageError

from . import list_names, prepare
from .beam import Pipeline
from .records import MENDED, SKIPPED, Records, read_notes, read_skipped


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns its exit code: 0, 2 (bad usage) or 3 (bad data)."""
    parser = argparse.ArgumentParser(prog="python -m data.build", description="Build a dataset, print what it holds.")
    parser.add_argument("name", help=", ".join(list_names()))
    parser.add_argument("--data_dir", help="root of built datasets (see data.find_root)")
    parser.add_argument("--strict", action="store_true", help="stop at a bad record instead of skipping it")
    parser.add_argument("--report", action="store_true", help="read everything: balance, different keys, overlap")
    parser.add_argument("--sample", type=int, metavar="N", help="print the first N records of each split, no more")
    parser.add_argument("--beam", action="store_true", help="read the source with Apache Beam (see data/beam.py)")
    parser.add_argument("--beam_runner", default="DirectRunner", help="its runner")
    parser.add_argument("--beam_options", default="", help='its options: "--direct_num_workers=8 …"')
    arguments, rest = parser.parse_known_args(argv)
    try:
        _run(arguments, _parse_options(rest))
    except (UsageError, DataError) as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _parse_options(arguments: Sequence[str]) -> dict[str, str]:
    options = {}
    for argument in arguments:
        name, equals, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or not equals:
            raise UsageError(f"unknown argument {argument}; a dataset's options are written --option=value")
        options[name] = value
    return options


def _run(arguments: argparse.Namespace, options: dict[str, str]) -> None:
    pipeline = Pipeline(arguments.beam_runner, shlex.split(arguments.beam_options)) if arguments.beam else None
    builder = prepare(arguments.name, arguments.data_dir, strict=arguments.strict, pipeline=pipeline, **options)
    folder = pathlib.Path(builder.data_dir)
    splits = {
        name: Records(info.file_instructions, builder.fields, folder) for name, info in builder.info.splits.items()
    }
    if arguments.sample is not None:
        for records in splits.values():
            for record in records[: arguments.sample]:
                print(json.dumps(record, ensure_ascii=False))
        return
    skipped, mended = read_skipped(folder), read_notes(folder, MENDED)
    print(f"{folder}: " + ", ".join(f"{len(records):,} {name}" for name, records in splits.items()))
    if skipped:
        first = skipped[0]
        print(f"{len(skipped):,} left out ({folder / SKIPPED}); first {first['id']}: {first['reason']}")
    if mended:
        first = mended[0]
        print(f"{len(mended):,} mended ({folder / MENDED}); first {first['id']}: {first['reason']}")
    if arguments.report:
        from .report import format_report

        print("\n".join(format_report(builder, splits, len(skipped))))


if __name__ == "__main__":
    sys.exit(main())
