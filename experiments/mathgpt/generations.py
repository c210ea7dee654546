"""Checks generations of random weights under the grammar: each tree is whole, canonical, in place, and round-trips.

    python -m experiments.mathgpt.generations --out=runs/mathgpt-generations
    python -m experiments.mathgpt.generations --count=10000 --symbols=vocab.json     # the original's symbols

The jitted decoder continues prompts of Math23K's stand-in that end with an opened formula. Each batch has new random
weights; there are several temperatures, tight budgets (2 to 10 tokens) and loose ones (20 to 40). A fifth as many are
generated without the mask: the same decoder and automaton, but any token may follow. Writes generations.{md,json}.
"""

from __future__ import annotations

import os
import pathlib
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax.core import FrozenDict

from numjax.bundled.experiments import command, report, stored
from numjax.decode import sample
from numjax.errors import UsageError
from numjax.evals import generate as evals
from numjax.evals import requests
from numjax.expr import canonical, latex, printer
from numjax.expr.tree import Tree
from numjax.heads import joint
from numjax.model import Model
from numjax.pipeline import features, source
from numjax.system import System, assemble
from numjax.text.grammar import automaton as grammars
from numjax.types import TREE_POSITIONS, TYPES, Batch, Formula, Mark

TEMPERATURES = (0.0, 0.5, 1.0, 2.0)
BUDGETS = {"tight": (2, 10), "loose": (20, 40)}
WIDTH, MAX_TOKENS, ROOM = 32, 40, 64
# "valid": the whole text obeys the grammar. "positions": the decoder was fed the positions and types of the
# automaton. Of the formulas: "trees", "canonical", and "reread", equal after printing and parsing. "same": the
# tokenizer encodes the text to the same tokens; "same_positions": and to the same positions.
COUNT_NAMES = (
    "generations",
    "valid",
    "positions",
    "formulas",
    "trees",
    "canonical",
    "reread",
    "same",
    "same_positions",
)

# The decoder's inputs, an entry for each step: (ids[B, 1], types[B, 1], tree positions[B, 1, D + 1]).
_feeds: list[tuple[np.ndarray, ...]] = []


def _note(*arrays: Any) -> None:
    _feeds.append(tuple(map(np.asarray, arrays)))


class WatchedModel(Model):
    """A model that notes the decoder's inputs."""

    def step(self, tokens, cache, tables=None):
        if tokens.ids.shape[1] == 1:
            jax.debug.callback(
                _note, tokens.ids, *(tokens.channel(c.name) for c in (TYPES, TREE_POSITIONS)), ordered=True
            )
        return super().step(tokens, cache, tables)


class UnmaskedHead(joint.Head):
    """A head that ignores the mask."""

    def step_scores(self, out, allowed_BV=None, key=None):
        del allowed_BV
        return super().step_scores(out, None, key)


class Setting(NamedTuple):
    """One line of the table."""

    masked: bool
    temperature: float
    budget: str


def main(words: Sequence[str] | None = None) -> dict[str, Any]:
    """Writes generations.{md,json}; returns the content of the JSON."""
    parser = command.Parser(
        prog="python -m experiments.mathgpt.generations", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--count", type=int, default=10_000, help="generations with the mask")
    parser.add_argument("--batch", type=int, default=250, help="of one draw of weights")
    parser.add_argument("--symbols", default="", help="MathGPT's vocab.json; without it the stand-in's symbols")
    parser.add_argument("--pieces", type=int, default=1000, help="size of the vocabulary of text")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="runs/mathgpt-generations")
    command.add_dirty(parser)
    options = parser.parse_args(words)
    command.check_code(options.dirty)
    if options.count < 1 or options.batch < 1:
        raise UsageError("--count and --batch are at least 1")
    start, load = time.monotonic(), [os.getloadavg()[0]]
    system, rows = set_up(options.symbols, options.pieces)
    settings = list(plan_settings(options.count, options.batch))
    counts_by_setting: dict[Setting, Counter[str]] = {}
    deepest, widest, failures = 0, 0, []
    for number, setting in enumerate(settings):
        for generation in generate_batch(system, rows, setting, options.batch, [options.seed, number]):
            counts, trees, problems = judge(system, *generation)
            counts_by_setting.setdefault(setting, Counter()).update(counts)
            if setting.masked:
                failures += problems
                deepest = max(deepest, *(tree.depth for tree in trees), 0)
                widest = max([widest, *(len(node.children or ()) for tree in trees for node in tree.walk())])
        print(f"batch {number + 1} of {len(settings)}, {time.monotonic() - start:.0f} s", flush=True)
    load.append(os.getloadavg()[0])
    result = {
        "count": options.count,
        "seed": options.seed,
        "batch": options.batch,
        "vocabulary": {"size": system.scheme.vocab.size, "symbols": count_symbols(system)},
        "original_symbols": bool(options.symbols),
        "settings": [
            s._asdict() | dict(counts_by_setting[s])
            for s in sorted(counts_by_setting, key=lambda s: (not s.masked, s))
        ],
        "all": {
            str(m): {
                name: sum(c[name] for s, c in counts_by_setting.items() if s.masked is m) for name in COUNT_NAMES
            }
            for m in (True, False)
        },
        "deepest": deepest,
        "widest": widest,
        "failures": failures[:50],
        "seconds": round(time.monotonic() - start, 1),
        "load_average": load,
        "machine": stored.describe_machine(),
    }
    out = pathlib.Path(options.out).expanduser()
    text = report.write("generations", out, "mathgpt.generations", result)
    print(f"\n{text}\nIn {out}: generations.md, generations.json", flush=True)
    return result


def set_up(symbols: str, pieces: int) -> tuple[System, list[features.EncodedRow]]:
    """MathGPT as its config makes it, small, and prompts that end with an opened formula."""
    from numjax.bundled.configs import mathgpt

    config: Any = mathgpt.get_config("smoke,task=equation")
    with config.unlocked():
        config.task.update(size=400)
        config.backbone.update(width=WIDTH, max_length=ROOM + MAX_TOKENS, init_std=0.2)
        config.scheme.vocab.size = pieces
        config.scheme.symbols.path = symbols
        # Weights large enough that generations prefer some tokens, and others with the next weights.
        config.embeds.token.update(init_std=0.5, special_std=0.5)
        config.heads.next.init_std = 0.5
    with tempfile.TemporaryDirectory() as folder:
        system = assemble(config, pathlib.Path(folder))
    watched_model = WatchedModel(system.model.embeds, system.model.fusions, system.model.backbone, system.model.heads)
    system = system._replace(model=watched_model)
    task, scheme, rows = system.task, system.scheme, []
    for number, record in enumerate(source.load(task.dataset, "train") or ()):
        document = task.prompt({"id": str(number), **record}, scheme.parse)  # type: ignore[attr-defined]
        encoded = scheme.encode((*document, Formula("", Tree("V", "x"))))
        # [FORMULA], x and [/FORMULA]: a generation begins after the first.
        prompt_length = len(encoded.ids) - 2
        row = features.from_features(encoded, config.data.digits)
        if prompt_length <= ROOM:
            rows.append(evals._cut_to_prompt(row._replace(loss_from=prompt_length)))
    return system, rows


def count_symbols(system: System) -> int:
    """The number of mathematical tokens."""
    scheme: Any = system.scheme
    return scheme.symbols.size


def plan_settings(count: int, batch: int) -> Iterator[Setting]:
    """Yields a setting for each batch: all in turn with the mask, then a fifth as many without."""
    kinds = [(t, b) for t in TEMPERATURES for b in BUDGETS]
    for masked, batches in ((True, -(-count // batch)), (False, max(len(kinds), -(-count // batch // 5)))):
        yield from (Setting(masked, *kinds[i % len(kinds)]) for i in range(batches))


def generate_batch(
    system: System, rows: Sequence[features.EncodedRow], setting: Setting, batch: int, seed: list[int]
) -> Iterator[tuple[list[int], list[int], np.ndarray, np.ndarray]]:
    """Yields (prompt, generated ids, types and tree positions fed for all of these but the last) of each row."""
    rng = np.random.default_rng(seed)
    prompts = [rows[i] for i in rng.integers(len(rows), size=batch)]
    model, scheme = system.model, system.scheme
    if not setting.masked:
        head = model.heads["next"]
        head_options = {
            name: getattr(head, name) for name in ("width", "vocab_size", "size", "symbol_range", "tied", "bias")
        }
        model = model.clone(heads=FrozenDict(next=UnmaskedHead(**head_options, init_std=head.init_std)))
    least, most = BUDGETS[setting.budget]
    key = jax.random.fold_in(jax.random.key(seed[0]), seed[1])
    request = sample.Request(
        prompt=requests.prompt_tokens(prompts, ROOM, system.config.data.digits, declared=system.channels),
        budget=jnp.asarray(rng.integers(least, most + 1, batch), jnp.int32),
        keys=requests.make_keys(key, range(batch)),
        temperature=jnp.float32(setting.temperature),
        top_k=jnp.int32(0),
        top_p=jnp.float32(1),
    )
    params = _init_params(system.model, key, request.prompt)
    ends = {name: scheme.vocab.mark(mark) for name, mark in (("num_id", "[NUM]"), ("end_id", "[EOS]"))}
    _feeds.clear()
    greedy = setting.temperature == 0
    grammar = jax.tree.map(jnp.asarray, scheme.grammar())
    output = sample.generate(
        model, params, grammar, request, head="next", max_tokens=MAX_TOKENS, greedy=greedy, **ends
    )
    output = jax.device_get(output)
    jax.effects_barrier()
    feeds = [np.concatenate(part, axis=1) for part in zip(*_feeds, strict=True)] if _feeds else None
    for b, row in enumerate(prompts):
        ids = output.ids[b, : output.length[b]].tolist()
        n = max(len(ids) - 1, 0)
        tree_positions = np.zeros((0, 32), np.int32) if feeds is None else feeds[2][b, :n]
        assert feeds is None or feeds[0][b, :n].tolist() == ids[:n], "the noted ids are not the generated ids"
        yield row.ids.tolist(), ids, np.zeros(0) if feeds is None else feeds[1][b, :n], tree_positions


def judge(
    system: System, prompt: list[int], ids: list[int], types: np.ndarray, tree_positions: np.ndarray
) -> tuple[dict[str, int], list[Tree], list[dict[str, Any]]]:
    """(counts, trees, problems) of one generation."""
    scheme = system.scheme
    trace = grammars.run(scheme.grammar(), [*prompt, *ids])
    assert trace.types is not None and trace.tree_positions is not None
    window = slice(len(prompt), len(prompt) + len(tree_positions))
    is_in_position = bool(
        (trace.tree_positions[window] == tree_positions).all() and (trace.types[window] == types).all()
    )
    counts = dict.fromkeys(COUNT_NAMES, 0) | {
        "generations": 1,
        "valid": trace.error is None,
        "positions": is_in_position,
    }
    problems: list[dict[str, Any]] = [{"what": trace.error}] if trace.error else []
    problems += [] if is_in_position else [{"what": "positions"}]
    document = scheme.decode([prompt[-1], *ids])
    formulas = [segment for segment in document if isinstance(segment, Formula)]
    counts["formulas"], trees = len(formulas), []
    for formula in formulas:
        if formula.tree is None:
            problems.append({"what": "no whole formula"})
            continue
        tree, problem = formula.tree, canonical.find_problem(formula.tree)
        trees.append(tree)
        reparsed = latex.parse(printer.latex(tree))
        counts["trees"] += 1
        counts["canonical"] += problem is None
        counts["reread"] += reparsed == tree
        if problem is not None or reparsed != tree:
            problems.append({"what": problem or "not read back", "tree": tree.to_json(), "latex": formula.surface})
    if trace.error is None:
        # A symbol has several spellings: positions compare only if the tokenizer's spelling is the same.
        encoded = scheme.encode(tuple(s for s in document if not isinstance(s, Mark)))
        n = min(len(encoded.ids) - 1, len(tree_positions))
        if encoded.ids[1 : n + 1].tolist() == ids[:n]:
            counts["same"] += 1
            counts["same_positions"] += bool(
                (encoded.channels[TREE_POSITIONS.name][1 : n + 1] == tree_positions[:n]).all()
            )
            if counts["same"] != counts["same_positions"]:
                problems.append({"what": "positions of the encoding"})
    problems = [entry | {"ids": ids} for entry in problems]
    return {name: int(n) for name, n in counts.items()}, trees, problems


_SHARES = (
    ("valid", "generations"),
    ("positions", "generations"),
    ("trees", "formulas"),
    ("canonical", "formulas"),
    ("reread", "formulas"),
    ("same_positions", "same"),
)


def render(result: Mapping[str, Any]) -> str:
    """The Markdown of the JSON."""
    machine, vocabulary = result["machine"], result["vocabulary"]
    lines = [
        "# What random weights write\n",
        f"{result['count']} generations with the mask, seed {result['seed']}, {vocabulary['size']} tokens of which "
        f"{vocabulary['symbols']} are mathematical; deepest tree {result['deepest']} levels, widest node "
        f"{result['widest']}. {machine['device']}, jax {machine['jax']}, {result['seconds']} s at a load average of "
        f"{max(result['load_average']):.0f}. {report.describe_commits([result])}\n",
        "| mask | temperature | budget | generations | valid | fed positions | formulas | whole | canonical | "
        "read back | encoded alike: positions |",
        "|---|---:|---|" + "---:|" * 8,
    ]
    totals = [{"masked": m, "temperature": "all", "budget": "all"} | result["all"][str(m)] for m in (True, False)]
    for entry in [*result["settings"], *totals]:
        cells = [
            "yes" if entry["masked"] else "no",
            str(entry["temperature"]),
            entry["budget"],
            str(entry["generations"]),
        ]
        for part, base in _SHARES:
            cells += [str(entry["formulas"])] if part == "trees" else []
            cells.append(_format_share(entry[part], entry[base]) + (f" of {entry[base]}" if base == "same" else ""))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _format_share(part: int, total: int) -> str:
    if not total:
        return "–"
    return "100%" if part == total else f"{100 * part / total:.2f}%"


def _init_params(model: Model, key: jax.Array, prompt: Any) -> Any:
    return _init(model, key, jax.tree.map(lambda x: x[:1], prompt))


_init = jax.jit(lambda model, key, prompt: model.init(key, Batch(prompt))["params"], static_argnums=0)


if __name__ == "__main__":
    command.entry(main)
