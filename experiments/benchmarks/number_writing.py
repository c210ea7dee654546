"""Measures how long each row of configs/schemes.py takes to write a number of twelve digits, beside `digits`.

    python -m experiments.benchmarks.number_writing [--rows=digits,carry,…] [--scale=cpu] [--answer=number]
        [--batch=8] [--rounds=7] [--writes=5] [--out=FILE]

The weights are not trained: the answers of additions are forced on the decoder, which does all its usual work for
each token. "All" is the time of the whole call: prompt, cache, grammar, head. "Written" is what is left of it
without the time of a call that ends after the first token that is chosen, which is nearly that of the prompt. With
`--answer=number`, as wherever a task asks for one number, what every answer begins with is read with the prompt,
and an end that is no choice needs no step. In each round `digits` and the row take turns, and the ratios of their
times are taken within the round.
"""

from __future__ import annotations

import functools
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from numjax.bundled import data as datasets
from numjax.bundled.configs import schemes
from numjax.bundled.experiments import command
from numjax.bundled.experiments.benchmarks import options, pairs
from numjax.bundled.experiments.benchmarks.scheme_cost import BASE, make_system
from numjax.decode import sample
from numjax.decode.grammar import list_first_tokens
from numjax.errors import UsageError
from numjax.evals import requests
from numjax.evals.generate import make_prompt
from numjax.pipeline import features
from numjax.pipeline.features import EncodedRow
from numjax.runtime import shard
from numjax.system import System, make_loader
from numjax.train import checkpoint
from numjax.train.step import init_params

DIGITS = 12
NOISE = 0.05  # of a whole call: so small a rest is not told from 0
ROWS = (BASE, "digits_rev", "chunk3", "limbs", "carry_save", "carry", "fone", "bittokens")
SHORT = ("carry", "carry_save")


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Prints a table, and the results as JSON on the last line."""
    parser = options.make_parser("number_writing", __doc__, {}, rounds=7)
    parser.add_argument("--rows", default=",".join(ROWS), help="comma-separated")
    parser.add_argument("--scale", default="cpu", choices=["smoke", "cpu"])
    answers = "number: the grammar lets a row write one number and nothing else; text: anything"
    parser.add_argument("--answer", default="number", choices=["number", "text"], help=answers)
    parser.add_argument("--batch", type=int, default=8, help="numbers that are written at once")
    parser.add_argument("--writes", type=int, default=5, help="in a turn")
    arguments = parser.parse_args(words)
    rows = arguments.rows.split(",")
    if unknown_rows := [row for row in rows if row not in schemes.ROWS]:
        raise UsageError(f"--rows: {unknown_rows[0]!r} is no row of configs/schemes.py")
    if set(rows) <= {BASE}:
        raise UsageError(f"--rows={arguments.rows}: name a row to compare with {BASE}")
    if min(arguments.rounds, arguments.writes, arguments.batch) < 1:
        raise UsageError("--rounds, --writes and --batch must be positive")
    turns = Turns(arguments.rounds, arguments.writes)
    result = measure(rows, arguments.scale, arguments.batch, turns, arguments.answer)
    print(format_times(result))
    pairs.write_result(result, arguments.out)
    return result


def short(peer: str) -> tuple[list[pairs.BenchmarkRow], list[str]]:
    """The short form for `make bench`: a few rows and rounds."""
    del peer
    result = measure(list(SHORT), "smoke", 8, Turns(rounds=3, writes=3))
    times = {row: entry for row, entry in result["rows"].items() if row != BASE}
    return [
        pairs.BenchmarkRow(f"writing {DIGITS} digits: {row} / {BASE}", *entry["all"]["ratio"].values())
        for row, entry in times.items()
    ], []


class Turns(NamedTuple):
    """How often rows take turns, and how many batches are written in one."""

    rounds: int
    writes: int


def measure(rows: list[str], scale: str, batch: int, turns: Turns, answer: str = "number") -> dict[str, Any]:
    """{"machine", "rows": row → {"tokens" of an answer with its end, part → {"ms", "ratio" to `digits`}}}."""
    records = list_records(batch)
    base = Contender(BASE, scale, records, answer)
    times: dict[str, Any] = {BASE: {"tokens": base.tokens}}
    for row in (row for row in rows if row != BASE):
        contender = Contender(row, scale, records, answer)
        taken = [(base.take_turn(turns.writes), contender.take_turn(turns.writes)) for _ in range(turns.rounds)]
        times[row] = {"tokens": contender.tokens}
        for part in PARTS:
            seconds = [(getattr(other, part), getattr(own, part)) for other, own in taken]
            ratios = sorted(own / other for other, own in seconds)
            times[BASE].setdefault(part, {"ms": 1000 * statistics.median(other for other, _ in seconds)})
            times[row][part] = {
                "ms": 1000 * statistics.median(own for _, own in seconds),
                "ratio": {"median": statistics.median(ratios), "least": ratios[0], "most": ratios[-1]},
            }
        print(f"{row}: {times[row]['all']['ratio']['median']:.2f} times the writing of {BASE}", flush=True)
    machine = pairs.describe_machine() | {"load_after": round(os.getloadavg()[0], 2)}
    settings = {"scale": scale, "answer": answer, "batch": batch}
    return {"benchmark": "number_writing", "machine": machine, **settings, "rows": times}


def list_records(count: int) -> list[dict[str, Any]]:
    """Additions of whole numbers, with sums of twelve digits."""
    problems = datasets.load("arithmetic", "test", operations="add", size=64, longer=str(DIGITS), test=4 * count)
    records = [dict(problem) for problem in problems if len(problem["answer"]) == DIGITS]
    return records[:count]


class Turn(NamedTuple):
    """Seconds of a call, and of what is written behind the first token."""

    all: float
    written: float


PARTS = Turn._fields


class Contender:
    """A row that writes the answers of records.

    Attributes:
      tokens: of the longest answer, its end included.
    """

    def __init__(self, row: str, scale: str, records: list[dict[str, Any]], answer: str):
        system = make_system(row, scale, records, answer)
        encoded = system.encode_split(records, "train")
        batch, _, _ = make_loader(system, encoded, shard.make_mesh()).batch(0)
        params = checkpoint.split_layers(jax.jit(functools.partial(init_params, system.model))(batch, 0))
        model, grammar = requests.decoding_model(system)
        forced = force(encoded.rows)
        self.tokens = int(forced.count.max())
        request = requests.make_request(
            system,
            [make_prompt_row(system, record["question"]) for record in records],
            self.tokens,
            requests.make_keys(jax.random.key(0), range(len(records))),
            requests.Sampling(),
            forced,
        )
        marks = {"num_id": system.scheme.vocab.mark("[NUM]"), "end_id": system.scheme.vocab.mark("[EOS]")}
        first = list_first_tokens(grammar, **marks)
        self._requests = {
            "all": request,
            "first": request._replace(budget=jnp.full_like(request.budget, len(first) + 1)),
        }
        self._write: Callable[[sample.Request], sample.Generated] = functools.partial(
            sample.generate, model, params, grammar, head=model.writer, max_tokens=self.tokens, greedy=True,
            first=first, **marks,
        )  # fmt: skip
        written = self._write(request)  # compiles
        if not (written.ended.all() and (written.ids == forced.ids).all()):
            raise UsageError(f"{row} does not write the answers as it encodes them")

    def take_turn(self, writes: int) -> Turn:
        """Seconds to write the answers of a batch."""
        seconds = {}
        for name, request in self._requests.items():
            start = time.perf_counter()
            for _ in range(writes):
                jax.block_until_ready(self._write(request))
            seconds[name] = (time.perf_counter() - start) / writes
        return Turn(seconds["all"], seconds["all"] - seconds["first"])


def make_prompt_row(system: System, question: str) -> EncodedRow:
    """The row of a question without its answer."""
    return features.from_features(system.encode(make_prompt(system, question)), system.config.data.digits)


def force(rows: Sequence[EncodedRow]) -> sample.Forced:
    """What is written after the prompts of rows."""
    most = max(len(row.ids) - row.loss_from for row in rows)
    ids = np.zeros((len(rows), most), np.int32)
    numerals = []
    for row, own_ids in zip(rows, ids, strict=True):
        answer = row.ids[row.loss_from :]
        own_ids[: len(answer)] = answer
        index = np.full(most, -1)
        index[: len(answer)] = row.numeral_index[row.loss_from :]
        blank = [np.concatenate([x, np.zeros_like(x[:1])]) for x in row.numerals]  # index -1: no number
        numerals.append([x[index] for x in blank])
    counts = jnp.asarray([len(row.ids) - row.loss_from for row in rows], jnp.int32)
    columns = [np.stack(column) for column in zip(*numerals, strict=True)]
    return sample.Forced(jnp.asarray(ids), counts, type(rows[0].numerals)(*columns))


def format_times(result: dict[str, Any]) -> str:
    """The times as a table in Markdown."""
    head = f"| row | tokens of an answer | ms for {result['batch']} numbers | times `{BASE}` |"
    lines = [f"{head} ms without the prompt | times `{BASE}` |", "|---|---|---|---|---|---|"]
    for row, entry in result["rows"].items():
        cells = [f"`{row}`", str(entry["tokens"])]
        for part in (entry[part] for part in PARTS if part in entry):
            if part["ms"] < NOISE * entry["all"]["ms"]:
                cells += ["–", "–"]
                continue
            ratio = part.get("ratio")
            times = f"{ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['most']:.2f})" if ratio else "1"
            cells += [f"{part['ms']:.1f}", times]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    command.entry(main)
