"""What random weights write under the grammar: every tree whole, canonical, printed and read back, in its place.

    python -m experiments.mathgpt.generations --out=runs/mathgpt-generations
    python -m experiments.mathgpt.generations --count=10000 --symbols=vocab.json     # the original's symbols

The jitted decoder continues prompts of Math23K's stand-in that end with an opened formula, from weights drawn anew
for each batch, at several temperatures, with tight budgets (2 to 10 tokens) and loose ones (20 to 40). A fifth as
many are written without the mask: the same decoder and automaton, but any token may come. Writes
generations.{md,json}.
"""

from __future__ import annotations

import os
import pathlib
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax.core import FrozenDict

from numjax.bundled.experiments import command, runs, tables
from numjax.decode import sample
from numjax.errors import UsageError
from numjax.evals import generate as evals
from numjax.expr import canonical, latex, printer
from numjax.expr.tree import Tree
from numjax.heads import joint
from numjax.model import Model
from numjax.pipeline import features, source
from numjax.system import System, assemble
from numjax.text import grammar as grammars
from numjax.types import TREE_POSITIONS, TYPES, Batch, Formula, Mark

TEMPERATURES = (0.0, 0.5, 1.0, 2.0)
BUDGETS = {"tight": (2, 10), "loose": (20, 40)}
WIDTH, MOST, ROOM = 32, 40, 64
# Of the generations: whole texts; with the positions and types that the tokenizer gives to the same tokens. Of their
# formulas: that are trees; canonical; equal when printed and read. Texts that the tokenizer encodes to the same
# tokens.
COUNTED = ("generations", "valid", "positions", "formulas", "trees", "canonical", "reread", "same", "same_positions")

# What the decoder fed, a step an entry: (ids[B, 1], types[B, 1], tree positions[B, 1, D + 1]).
_fed: list[tuple[np.ndarray, ...]] = []


def _note(*arrays: Any) -> None:
    _fed.append(tuple(map(np.asarray, arrays)))


class Watched(Model):
    """Notes what the decoder feeds it."""

    def step(self, tokens, cache, tables=None):
        if tokens.ids.shape[1] == 1:
            jax.debug.callback(
                _note, tokens.ids, *(tokens.channel(c.name) for c in (TYPES, TREE_POSITIONS)), ordered=True
            )
        return super().step(tokens, cache, tables)


class Unmasked(joint.Head):
    """Writes whatever it likes."""

    def step_scores(self, out, allowed_BV=None, key=None):
        del allowed_BV
        return super().step_scores(out, None, key)


class Setting(NamedTuple):
    """One line of the table."""

    masked: bool
    temperature: float
    budget: str


def main(words: Sequence[str] | None = None) -> dict[str, Any]:
    """Writes generations.{md,json}; returns what is in the latter."""
    parser = command.Parser(
        prog="python -m experiments.mathgpt.generations", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--count", type=int, default=10_000, help="generations with the mask")
    parser.add_argument("--batch", type=int, default=250, help="of one draw of weights")
    parser.add_argument("--symbols", default="", help="MathGPT's vocab.json; without it the stand-in's symbols")
    parser.add_argument("--pieces", type=int, default=1000, help="size of the vocabulary of text")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="runs/mathgpt-generations")
    options = parser.parse_args(words)
    if options.count < 1 or options.batch < 1:
        raise UsageError("--count and --batch are at least 1")
    begin, load = time.monotonic(), [os.getloadavg()[0]]
    system, rows = set_up(options.symbols, options.pieces)
    plan = list(plan_of(options.count, options.batch))
    found: dict[Setting, Counter[str]] = {}
    deepest, widest, failures = 0, 0, []
    for number, setting in enumerate(plan):
        for one in written(system, rows, setting, options.batch, [options.seed, number]):
            counts, trees, wrong = judge(system, *one)
            found.setdefault(setting, Counter()).update(counts)
            if setting.masked:
                failures += wrong
                deepest = max(deepest, *(tree.depth for tree in trees), 0)
                widest = max([widest, *(len(node.children or ()) for tree in trees for node in tree.walk())])
        print(f"batch {number + 1} of {len(plan)}, {time.monotonic() - begin:.0f} s", flush=True)
    load.append(os.getloadavg()[0])
    result = {
        "count": options.count,
        "seed": options.seed,
        "batch": options.batch,
        "vocabulary": {"size": system.scheme.vocab.size, "symbols": symbols_of(system)},
        "original_symbols": bool(options.symbols),
        "settings": [s._asdict() | dict(found[s]) for s in sorted(found, key=lambda s: (not s.masked, s))],
        "all": {
            str(m): {name: sum(c[name] for s, c in found.items() if s.masked is m) for name in COUNTED}
            for m in (True, False)
        },
        "deepest": deepest,
        "widest": widest,
        "failures": failures[:50],
        "seconds": round(time.monotonic() - begin, 1),
        "load_average": load,
        "machine": runs.machine(),
    }
    out = pathlib.Path(options.out).expanduser()
    runs.write_json(out / "generations.json", result)
    text = markdown(result)
    tables.write(out / "generations.md", text)
    print(f"\n{text}\nIn {out}: generations.md, generations.json", flush=True)
    return result


def set_up(symbols: str, pieces: int) -> tuple[System, list[features.Row]]:
    """MathGPT as its config makes it, small, and prompts that end with an opened formula."""
    from numjax.bundled.configs import mathgpt

    config: Any = mathgpt.get_config("smoke,task=equation")
    with config.unlocked():
        config.task.update(size=400)
        config.backbone.update(width=WIDTH, max_length=ROOM + MOST, init_std=0.2)
        config.scheme.vocab.size = pieces
        config.scheme.symbols.path = symbols
        # Weights large enough that what is written leans to some tokens, and to others with the next draw.
        config.embeds.token.update(init_std=0.5, special_std=0.5)
        config.heads.next.init_std = 0.5
    with tempfile.TemporaryDirectory() as folder:
        system = assemble(config, pathlib.Path(folder))
    watched = Watched(system.model.embeds, system.model.fusions, system.model.backbone, system.model.heads)
    system = system._replace(model=watched)
    task, scheme, rows = system.task, system.scheme, []
    for number, record in enumerate(source.load(task.dataset, "train") or ()):
        document = task.prompt({"id": str(number), **record}, scheme.parse)  # type: ignore[attr-defined]
        encoded = scheme.encode((*document, Formula("", Tree("V", "x"))))
        # [FORMULA], x and [/FORMULA]: the first is what a generation begins after.
        cut = len(encoded.ids) - 2
        row = features.from_features(encoded, config.data.digits)
        if cut <= ROOM:
            rows.append(evals._prompt_of(row._replace(loss_from=cut)))
    return system, rows


def symbols_of(system: System) -> int:
    """How many tokens are mathematical."""
    scheme: Any = system.scheme
    return scheme.symbols.size


def plan_of(count: int, batch: int) -> Iterator[Setting]:
    """A setting a batch, in turn, with the mask, then a fifth as many without."""
    kinds = [(t, b) for t in TEMPERATURES for b in BUDGETS]
    for masked, batches in ((True, -(-count // batch)), (False, max(len(kinds), -(-count // batch // 5)))):
        yield from (Setting(masked, *kinds[i % len(kinds)]) for i in range(batches))


def written(
    system: System, rows: Sequence[features.Row], setting: Setting, batch: int, seed: list[int]
) -> Iterator[tuple[list[int], list[int], np.ndarray, np.ndarray]]:
    """(prompt, ids written, types and tree positions fed for all of them but the last) of each row."""
    rng = np.random.default_rng(seed)
    chosen = [rows[i] for i in rng.integers(len(rows), size=batch)]
    model, scheme = system.model, system.scheme
    if not setting.masked:
        head = model.heads["next"]
        of = {name: getattr(head, name) for name in ("width", "vocab_size", "size", "symbol_range", "tied", "bias")}
        model = model.clone(heads=FrozenDict(next=Unmasked(**of, init_std=head.init_std)))
    least, most = BUDGETS[setting.budget]
    key = jax.random.fold_in(jax.random.key(seed[0]), seed[1])
    request = sample.Request(
        prompt=evals.prompt_tokens(chosen, ROOM, system.config.data.digits, declared=system.channels),
        budget=jnp.asarray(rng.integers(least, most + 1, batch), jnp.int32),
        key=key,
        temperature=jnp.float32(setting.temperature),
        top_k=jnp.int32(0),
        top_p=jnp.float32(1),
    )
    params = _params(system.model, key, request.prompt)
    ends = {name: scheme.vocab.mark(mark) for name, mark in (("num_id", "[NUM]"), ("end_id", "[EOS]"))}
    _fed.clear()
    greedy = setting.temperature == 0
    grammar = jax.tree.map(jnp.asarray, scheme.grammar())
    done = sample.generate(model, params, grammar, request, head="next", most=MOST, greedy=greedy, **ends)
    done = jax.device_get(done)
    jax.effects_barrier()
    fed = [np.concatenate(part, axis=1) for part in zip(*_fed, strict=True)] if _fed else None
    for b, row in enumerate(chosen):
        ids = done.ids[b, : done.length[b]].tolist()
        n = max(len(ids) - 1, 0)
        places = np.zeros((0, 32), np.int32) if fed is None else fed[2][b, :n]
        assert fed is None or fed[0][b, :n].tolist() == ids[:n], "what was noted is not what was written"
        yield row.ids.tolist(), ids, np.zeros(0) if fed is None else fed[1][b, :n], places


def judge(
    system: System, prompt: list[int], ids: list[int], types: np.ndarray, places: np.ndarray
) -> tuple[dict[str, int], list[Tree], list[dict[str, Any]]]:
    """(what is counted, the trees, what is wrong) of one generation."""
    scheme = system.scheme
    trace = grammars.run(scheme.grammar(), [*prompt, *ids])
    assert trace.types is not None and trace.tree_positions is not None
    fed = slice(len(prompt), len(prompt) + len(places))
    at_place = bool((trace.tree_positions[fed] == places).all() and (trace.types[fed] == types).all())
    counts = dict.fromkeys(COUNTED, 0) | {"generations": 1, "valid": trace.error is None, "positions": at_place}
    wrong: list[dict[str, Any]] = [{"what": trace.error}] if trace.error else []
    wrong += [] if at_place else [{"what": "positions"}]
    document = scheme.decode([prompt[-1], *ids])
    formulas = [segment for segment in document if isinstance(segment, Formula)]
    counts["formulas"], trees = len(formulas), []
    for formula in formulas:
        if formula.tree is None:
            wrong.append({"what": "no whole formula"})
            continue
        tree, why = formula.tree, canonical.problem(formula.tree)
        trees.append(tree)
        again = latex.parse(printer.latex(tree))
        counts["trees"] += 1
        counts["canonical"] += why is None
        counts["reread"] += again == tree
        if why is not None or again != tree:
            wrong.append({"what": why or "not read back", "tree": tree.to_json(), "latex": formula.surface})
    if trace.error is None:
        # A symbol can be spelled in several ways: only where the tokenizer's is the same can positions be compared.
        encoded = scheme.encode(tuple(s for s in document if not isinstance(s, Mark)))
        n = min(len(encoded.ids) - 1, len(places))
        if encoded.ids[1 : n + 1].tolist() == ids[:n]:
            counts["same"] += 1
            counts["same_positions"] += bool((encoded.channels[TREE_POSITIONS.name][1 : n + 1] == places[:n]).all())
            if counts["same"] != counts["same_positions"]:
                wrong.append({"what": "positions of the encoding"})
    wrong = [entry | {"ids": ids} for entry in wrong]
    return {name: int(n) for name, n in counts.items()}, trees, wrong


_SHARES = (
    ("valid", "generations"),
    ("positions", "generations"),
    ("trees", "formulas"),
    ("canonical", "formulas"),
    ("reread", "formulas"),
    ("same_positions", "same"),
)


def markdown(result: dict[str, Any]) -> str:
    """The table."""
    machine, vocabulary = result["machine"], result["vocabulary"]
    lines = [
        "# What random weights write\n",
        f"{result['count']} generations with the mask, seed {result['seed']}, {vocabulary['size']} tokens of which "
        f"{vocabulary['symbols']} are mathematical; deepest tree {result['deepest']} levels, widest node "
        f"{result['widest']}. {machine['device']}, jax {machine['jax']}, {result['seconds']} s at a load average of "
        f"{max(result['load_average']):.0f}.\n",
        "| mask | temperature | budget | generations | valid | fed positions | formulas | whole | canonical | "
        "read back | encoded alike: positions |",
        "|---|---:|---|" + "---:|" * 8,
    ]
    whole = [{"masked": m, "temperature": "all", "budget": "all"} | result["all"][str(m)] for m in (True, False)]
    for of in [*result["settings"], *whole]:
        cells = ["yes" if of["masked"] else "no", str(of["temperature"]), of["budget"], str(of["generations"])]
        for part, base in _SHARES:
            cells += [str(of["formulas"])] if part == "trees" else []
            cells.append(_share(of[part], of[base]) + (f" of {of[base]}" if base == "same" else ""))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _share(part: int, whole: int) -> str:
    if not whole:
        return "–"
    return "100%" if part == whole else f"{100 * part / whole:.2f}%"


def _params(model: Model, key: jax.Array, prompt: Any) -> Any:
    return _init(model, key, jax.tree.map(lambda x: x[:1], prompt))


_init = jax.jit(lambda model, key, prompt: model.init(key, Batch(prompt))["params"], static_argnums=0)


if __name__ == "__main__":
    command.entry(main)
