"""python -m tests.pairs_run FOLDER < SYSTEMS: trains combinations of a covering set for two steps.

SYSTEMS has a JSON list [number, base, choices] a line. The output is a JSON line for each combination.

It runs in its own process, because one process cannot hold the compiled programs of a whole covering set.
"""

from __future__ import annotations

import json
import pathlib
import sys
import traceback
from typing import Any

from numjax import modes
from numjax.pipeline import source
from tests import pairs

MAX_RECORDS = {"validation": 6, "test": 1}  # of a split; each combination writes an answer to each record

_load_split = source.load


def load(dataset: Any, split: str, *args: Any, **more: Any) -> Any:
    """Loads the first records of a split, at most `MAX_RECORDS`."""
    records = _load_split(dataset, split, *args, **more)
    limit = MAX_RECORDS.get(split)
    return records if records is None or limit is None else [records[i] for i in range(min(limit, len(records)))]


def train(config: Any, folder: pathlib.Path) -> dict[str, Any]:
    """Trains a config. Returns the metrics of the last evaluation on validation, and every loss."""
    with config.unlocked():
        config.optim.update(steps=2, epochs=1, batch_size=4, accumulate=1)
        config.data.update(train_size=8, buckets=1, threads=0, prefetch=0)
        config.eval.update(examples=4, batch_size=4, test=False, every=0, generate=True)
        max_tokens, beams = min(config.decode.max_tokens, 16), min(config.decode.beams, 2)
        config.decode.update(batch_size=4, max_tokens=max_tokens, beams=beams)
    modes.run(config, str(folder), "train")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    validation_metrics = [line for line in lines if line["split"] == "validation"][-1]
    return {"seen": validation_metrics, "losses": [line["loss"] for line in lines if "loss" in line]}


def main(folder: str) -> None:
    source.load = load
    for line in sys.stdin:
        number, base, choices = json.loads(line)
        try:
            result = train(pairs.make_config(pairs.Combination(base, choices)), pathlib.Path(folder) / str(number))
        except Exception:
            result = {"error": traceback.format_exc()[-1500:]}
        print(json.dumps({"number": number, **result}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
