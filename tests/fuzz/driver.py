"""Fuzzes one parser with atheris, from its seeds and its corpus.

    make fuzz TARGET=latex MINUTES=60

It stops at the first input that breaks the parser's promise and writes it to tests/fuzz/corpus/TARGET/, where
`tests/fuzz_test.py` replays it.
"""

from __future__ import annotations

import argparse
import importlib
import pathlib
import sys
import tempfile

CORPUS = pathlib.Path(__file__).parent / "corpus"
TARGETS = tuple(sorted(p.stem for p in CORPUS.parent.glob("[a-z]*.py") if p.stem != "driver"))
LIMITS = ("-timeout=120", "-report_slow_units=120", "-rss_limit_mb=2048", "-max_len=4096", "-len_control=0")


def main() -> None:
    """Fuzzes until the time is over or a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--minutes", type=float, default=60)
    options = parser.parse_args()
    import atheris  # beside the environment, see the Makefile

    with atheris.instrument_imports(include=["numjax"]):
        target = importlib.import_module(f"tests.fuzz.{options.target}")
    folder = CORPUS / options.target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as new_inputs:
        for number, seed in enumerate(target.SEEDS):
            pathlib.Path(new_inputs, f"seed-{number}").write_bytes(seed)
        times = (f"-max_total_time={int(60 * options.minutes)}", f"-artifact_prefix={folder}/")
        atheris.Setup([sys.argv[0], *LIMITS, *times, new_inputs, str(folder)], target.check)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
