"""What the benchmarks that write texts share: their command line, their rounds and what is compared."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from numjax.bundled.experiments.benchmarks import options, pairs

PEER = "transformers"
NEEDS = ["torch", "transformers"]


class Study(NamedTuple):
    """A benchmark that writes texts.

    Attributes:
      name: of its module. doc: its docstring. shape: sizes by name. rounds: of turns, by default.
      ours: numjax's contenders; the first writes what the peer writes. peer_flags: more words for the peer.
      against: (contender, other) pairs whose ratios are taken.
      sizes: of the batch in the short form.
      prompts: (rows, length, vocabulary) → int32[rows, length]. save: (file, shape) writes the parameters.
      lines: the rows of the table.
    """

    name: str
    doc: str | None
    shape: dict[str, int]
    rounds: int
    ours: Sequence[str]
    peer_flags: Sequence[str]
    against: Sequence[tuple[str, str]]
    sizes: Sequence[int]
    prompts: Callable[[int, int, int], np.ndarray]
    save: Callable[[pathlib.Path, dict[str, int]], None]
    work: Callable[[str, dict[str, int], pathlib.Path], None]
    lines: Callable[[dict[str, Any]], list[pairs.Row]]


def run(study: Study, words: list[str] | None) -> dict[str, Any]:
    """Prints a line a round, a table, and the results as JSON on the last line."""
    every = (*study.ours, PEER)
    made = options.parser(study.name, study.doc, study.shape, study.rounds)
    options.add_contenders(made, every, every, study.ours)
    made.add_argument("--rows", default="1,8", help="sizes of the batch, comma-separated")
    given = made.parse_args(words)
    shape = options.shape_of(given, study.shape)
    if given.worker:
        study.work(given.worker, shape, pathlib.Path(given.files))
        return {}
    names = options.contenders(given, every, (PEER,), NEEDS)
    result: dict[str, Any] = {"shape": shape, "machine": pairs.machine(), "rows": {}}
    for rows in options.batches(given, shape):
        result["rows"][rows] = measure(study, names, shape, rows, given.rounds, given.peer)
    print(pairs.table(study.lines(result)))
    pairs.write(result, given.out)
    return result


def short(study: Study, peer: str) -> tuple[list[pairs.Row], list[str]]:
    """The short form for `make bench`: (rows of the table, what was left out and why)."""
    why = pairs.lacking(peer, NEEDS)
    names = [*study.ours] if why else [*study.ours, PEER]
    found = {rows: measure(study, names, study.shape, rows, 3, peer) for rows in study.sizes}
    return study.lines({"shape": study.shape, "rows": found}), [f"{PEER}: {why}"] if why else []


def measure(
    study: Study, names: list[str], shape: dict[str, int], rows: int, rounds: int, peer: str
) -> dict[str, Any]:
    """Rounds of turns at one size of the batch, with tokens/s and how much of the texts agrees."""
    with tempfile.TemporaryDirectory() as folder:
        files = pathlib.Path(folder)
        np.save(files / "prompts.npy", study.prompts(rows, shape["prompt"], shape["vocab"]))
        study.save(files / "parameters.npz", shape)
        sizes = [f"--{name}={value}" for name, value in shape.items()]
        given = [f"--parameters={files / 'parameters.npz'}", f"--prompts={files / 'prompts.npy'}", *study.peer_flags]
        contenders = []
        for name in names:
            if name == PEER:
                own = [size for size in sizes if not size.startswith("--prompt=")]
                line = pairs.command("transformers_gpt2", *own, *given, python=peer)
            else:
                line = pairs.command(study.name, f"--worker={name}", f"--files={folder}", *sizes)
            contenders.append(pairs.Contender(name, line, {"JAX_PLATFORMS": "cpu"}))
        found = pairs.drive(contenders, rounds, say=lambda text: print(f"{rows} rows, {text}", flush=True))
    written = {name: np.asarray(x.pop("written")) for name, x in found["contenders"].items()}
    for x in found["contenders"].values():
        x["tokens_per_second"] = rows * shape["new"] / x["median"]
    first = study.ours[0]
    if {first, PEER} <= set(names):
        found["agreement"] = float((written[first] == written[PEER]).mean())
    for mine, other in study.against:
        if {mine, other} <= set(names):
            found[f"{mine} to {other}"] = {
                "speed": pairs.ratio(found, other, mine),
                "speed_by_cpu_time": pairs.ratio(found, other, mine, "cpu_seconds"),
                "memory": pairs.memory(found, mine, other),
            }
    return found
