"""Shared by the benchmarks that generate text: their command line, their rounds and their comparisons."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from numjax.bundled.experiments.benchmarks import options, pairs

PEER = "transformers"
NEEDS = ["torch", "transformers"]


class WritingBenchmark(NamedTuple):
    """A benchmark that generates text.

    Attributes:
      name: of its module. doc: its docstring. shape: sizes by name. rounds: of turns, by default.
      contenders: of numjax; the first writes the same text as the peer. peer_flags: more flags for the peer.
      compared_pairs: pairs of contenders whose ratios are taken.
      sizes: of the batch in the short form.
      make_prompts: (rows, length, vocabulary) → int32[rows, length]. save: (file, shape) writes the parameters.
      work: (contender, shape, folder) serves a contender. make_rows: result → rows of the table.
    """

    name: str
    doc: str | None
    shape: dict[str, int]
    rounds: int
    contenders: Sequence[str]
    peer_flags: Sequence[str]
    compared_pairs: Sequence[tuple[str, str]]
    sizes: Sequence[int]
    make_prompts: Callable[[int, int, int], np.ndarray]
    save: Callable[[pathlib.Path, dict[str, int]], None]
    work: Callable[[str, dict[str, int], pathlib.Path], None]
    make_rows: Callable[[dict[str, Any]], list[pairs.BenchmarkRow]]


def run(benchmark: WritingBenchmark, words: list[str] | None) -> dict[str, Any]:
    """Prints a line a round, a table, and the results as JSON on the last line."""
    contenders = (*benchmark.contenders, PEER)
    parser = options.make_parser(benchmark.name, benchmark.doc, benchmark.shape, benchmark.rounds)
    options.add_contenders(parser, contenders, contenders, benchmark.contenders)
    parser.add_argument("--rows", default="1,8", help="sizes of the batch, comma-separated")
    arguments = parser.parse_args(words)
    shape = options.parse_shape(arguments, benchmark.shape)
    if arguments.worker:
        benchmark.work(arguments.worker, shape, pathlib.Path(arguments.files))
        return {}
    names = options.parse_contenders(arguments, contenders, (PEER,), NEEDS)
    result: dict[str, Any] = {"shape": shape, "machine": pairs.describe_machine(), "rows": {}}
    for rows in options.parse_batches(arguments, shape):
        result["rows"][rows] = measure(benchmark, names, shape, rows, arguments.rounds, arguments.peer)
    print(pairs.format_table(benchmark.make_rows(result)))
    pairs.write_result(result, arguments.out)
    return result


def short(benchmark: WritingBenchmark, peer: str) -> tuple[list[pairs.BenchmarkRow], list[str]]:
    """The short form for `make bench`: (rows of the table, peers that were left out and why)."""
    reason = pairs.explain_missing(peer, NEEDS)
    names = [*benchmark.contenders] if reason else [*benchmark.contenders, PEER]
    measurements = {rows: measure(benchmark, names, benchmark.shape, rows, 3, peer) for rows in benchmark.sizes}
    return benchmark.make_rows({"shape": benchmark.shape, "rows": measurements}), [
        f"{PEER}: {reason}"
    ] if reason else []


def measure(
    benchmark: WritingBenchmark, names: list[str], shape: dict[str, int], rows: int, rounds: int, peer: str
) -> dict[str, Any]:
    """Results of the rounds at one batch size, with tokens/s and the share of tokens that agree with the peer's."""
    with tempfile.TemporaryDirectory() as folder:
        files = pathlib.Path(folder)
        np.save(files / "prompts.npy", benchmark.make_prompts(rows, shape["prompt"], shape["vocab"]))
        benchmark.save(files / "parameters.npz", shape)
        sizes = [f"--{name}={value}" for name, value in shape.items()]
        peer_flags = [
            f"--parameters={files / 'parameters.npz'}",
            f"--prompts={files / 'prompts.npy'}",
            *benchmark.peer_flags,
        ]
        contenders = []
        for name in names:
            if name == PEER:
                peer_sizes = [size for size in sizes if not size.startswith("--prompt=")]
                line = pairs.make_command("transformers_gpt2", *peer_sizes, *peer_flags, python=peer)
            else:
                line = pairs.make_command(benchmark.name, f"--worker={name}", f"--files={folder}", *sizes)
            contenders.append(pairs.Contender(name, line, {"JAX_PLATFORMS": "cpu"}))
        result = pairs.drive(contenders, rounds, say=lambda text: print(f"{rows} rows, {text}", flush=True))
    outputs = {name: np.asarray(x.pop("written")) for name, x in result["contenders"].items()}
    for x in result["contenders"].values():
        x["tokens_per_second"] = rows * shape["new"] / x["median"]
    first_contender = benchmark.contenders[0]
    if {first_contender, PEER} <= set(names):
        result["agreement"] = float((outputs[first_contender] == outputs[PEER]).mean())
    for contender_name, rival in benchmark.compared_pairs:
        if {contender_name, rival} <= set(names):
            result[f"{contender_name} to {rival}"] = {
                "speed": pairs.ratio(result, rival, contender_name),
                "speed_by_cpu_time": pairs.ratio(result, rival, contender_name, "cpu_seconds"),
                "memory": pairs.memory_ratio(result, contender_name, rival),
            }
    return result
