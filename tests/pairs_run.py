"""python -m tests.pairs_run FOLDER < SYSTEMS: trains systems of a covering set two steps each; a JSON line a system.

SYSTEMS: a JSON list [number, base, choices] a line.

A process of its own, since one holds only so many programs: those of a covering set are more.
"""

from __future__ import annotations

import json
import pathlib
import sys
import traceback
from typing import Any

from numjax.pipeline import source
from numjax.train import runs
from tests import pairs

MOST = {"validation": 6, "test": 1}  # records of a split: of more each system would write answers to all

_load = source.load


def load(dataset: Any, split: str, *args: Any, **more: Any) -> Any:
    """The first records of a split, see `MOST`."""
    records = _load(dataset, split, *args, **more)
    few = MOST.get(split)
    return records if records is None or few is None else [records[i] for i in range(min(few, len(records)))]


def train(config: Any, folder: pathlib.Path) -> dict[str, Any]:
    """What the last look at validation said, and every loss on the way."""
    with config.unlocked():
        config.optim.update(steps=2, epochs=1, batch_size=4, accumulate=1)
        config.data.update(train_size=8, buckets=1, threads=0, prefetch=0)
        config.eval.update(examples=4, batch_size=4, test=False, every=0, generate=True)
        most, beams = min(config.decode.max_tokens, 16), min(config.decode.beams, 2)
        config.decode.update(batch_size=4, max_tokens=most, beams=beams)
    runs.run(config, str(folder), "train")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    seen = [line for line in lines if line["split"] == "validation"][-1]
    return {"seen": seen, "losses": [line["loss"] for line in lines if "loss" in line]}


def main(folder: str) -> None:
    source.load = load
    for line in sys.stdin:
        number, base, choices = json.loads(line)
        try:
            found = train(pairs.config_of(pairs.System(base, choices)), pathlib.Path(folder) / str(number))
        except Exception:
            found = {"error": traceback.format_exc()[-1500:]}
        print(json.dumps({"number": number, **found}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
