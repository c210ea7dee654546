"""Measures beam search under a grammar against Hugging Face's `generate` with a masking LogitsProcessor.

    python -m experiments.benchmarks.beam [--peer=.venv-compare/bin/python] [--rounds=5] [--rows=1,8]
        [--contenders=masked,transformers,bare,trees] [--beams=3] [--prompt=32 --new=128]
        [--layers=6 --width=384 --heads=6 --vocab=50257 --length=256] [--out=FILE]

    masked        numjax: decoder, tied token head; the class of the last token decides which tokens may follow
    transformers  GPT2LMHeadModel.generate, num_beams, the same mask (`transformers_gpt2.py`)
    trees         numjax with MathGPT's vocabulary: the grammar of trees, types and tree positions
    bare          the same vocabulary with neither mask nor positions

All write exactly --new tokens in float32. masked and transformers have the same parameters and prompts, and the share
of equal tokens in their texts is reported. trees over bare is the cost of the mask and the tree positions. Contenders
take turns (see `pairs.py`), so only ratios are meaningful.
"""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

from numjax.bundled.experiments import command
from numjax.bundled.experiments.benchmarks import generate, pairs, writing

SHAPE = generate.SHAPE | {"beams": 3}
NUMJAX_CONTENDERS = ("masked", "bare", "trees")
PEER = writing.PEER
CLASSES = 16
FLOORS = {1: 3.2, 8: 1.8}  # times the tokens/s of transformers, by rows
GOALS = {1: 3.7, 8: 2.5}
TREE_TIME_LIMIT = 1.05  # time of trees over that of bare


def main(words: list[str] | None = None) -> dict[str, Any]:
    """See `writing.run`."""
    return writing.run(make_benchmark(), words)


def short(peer: str) -> tuple[list[pairs.BenchmarkRow], list[str]]:
    """See `writing.short`."""
    return writing.short(make_benchmark(), peer)


def make_benchmark() -> writing.WritingBenchmark:
    """The benchmark as `writing` runs it."""
    return writing.WritingBenchmark(
        name="beam",
        doc=__doc__,
        shape=SHAPE,
        rounds=5,
        contenders=NUMJAX_CONTENDERS,
        peer_flags=(f"--classes={CLASSES}",),
        compared_pairs=[("masked", PEER), ("bare", "trees")],
        sizes=list(FLOORS),
        make_prompts=make_prompts,
        save=generate.save_parameters,
        work=work,
        make_rows=make_rows,
    )


def make_prompts(rows: int, length: int, vocab: int) -> np.ndarray:
    """Prompts that the grammar of `make_class_grammar` allows, int32[rows, length]: both sides track its state."""
    random = np.random.default_rng(0)
    classes = np.cumsum(random.integers(0, CLASSES // 2 + 1, (rows, length)), axis=1) % CLASSES
    return (classes + CLASSES * random.integers(0, vocab // CLASSES, (rows, length))).astype(np.int32)


def make_rows(result: dict[str, Any]) -> list[pairs.BenchmarkRow]:
    """The rows of the table."""
    table_rows = []
    is_default_shape = all(result["shape"][name] == value for name, value in SHAPE.items())
    for rows, measurements in result["rows"].items():
        for name, x in measurements["contenders"].items():
            table_rows.append(
                pairs.BenchmarkRow(f"beam {name}, {rows} rows", x["tokens_per_second"], unit="tokens/s")
            )
        if x := measurements.get(f"masked to {PEER}"):
            bounds = (FLOORS.get(rows), GOALS.get(rows)) if is_default_shape else (None, None)
            middle, least, most = x["speed"].values()
            table_rows.append(pairs.BenchmarkRow(f"beam over {PEER}, {rows} rows", middle, least, most, *bounds))
        if x := measurements.get("bare to trees"):
            floor = TREE_TIME_LIMIT if is_default_shape else None
            title = f"beam: time with trees over without, {rows} rows"
            table_rows.append(pairs.BenchmarkRow(title, *x["speed"].values(), floor=floor, lower=True))
        if "agreement" in measurements:
            table_rows.append(
                pairs.BenchmarkRow(f"beam: same tokens, {rows} rows", 100 * measurements["agreement"], unit="%")
            )
    return table_rows


# ---------------------------------------------------------------------------------------------------
# numjax's side of the bench.


def make_class_grammar(vocab_size: int, text: int):
    """The automaton of `transformers_gpt2.Mask`: a token's class and the next half of the others may follow."""
    from numjax.text.grammar import tables

    groups = [range(c, text, CLASSES) for c in range(CLASSES)]
    edges = [
        tables.Edge(f"after {c}", groups[(c + offset) % CLASSES], f"after {(c + offset) % CLASSES}")
        for c in range(CLASSES)
        for offset in range(CLASSES // 2 + 1)
    ]
    start_edges = [tables.Edge("start", group, f"after {c}") for c, group in enumerate(groups)]
    return tables.build(vocab_size, start_edges + edges, "start", ["start", *(f"after {c}" for c in range(CLASSES))])


def make_math_vocabulary(text: int):
    """A vocabulary with as many and as varied symbols as the original's, after `text` visible pieces."""
    from numjax.expr.symbols import RELATIONS
    from numjax.text.vocab import symbols as names
    from numjax.text.vocab.base import BaseVocabulary

    groups = [f"{kind}-{n}" for kind in "LSV" for n in range(1, 9)]
    groups += [f"M-{rows}x{columns}" for rows in range(1, 5) for columns in range(1, 5)]
    signs = [*RELATIONS, *"SUP SUB divide root binomial int sum limit evaluated-at partialdiff".split()]
    counts = {
        "U": dict.fromkeys("plus times minus eq and or".split(), 1),
        "O": dict.fromkeys([*signs, *(f"o{i}" for i in range(100))], 1),
        "M": dict.fromkeys(["R!", *groups], 1),
        **{kind: {f"{kind}{i}": 1 for i in range(n)} for kind, n in (("V", 1000), ("T", 1000), ("F", 800))},
    }
    return BaseVocabulary([b"a"] * text, names.list_marks(counts))


def make_tree_model(shape: dict[str, int], positions: bool):
    """(model, grammar) over text and symbols; with `positions` types, tree positions and the grammar of trees."""
    from flax.core import FrozenDict

    from numjax.build import build
    from numjax.expr.symbols import arity
    from numjax.model import Model
    from numjax.system import make_backbone
    from numjax.text.grammar import tables
    from numjax.text.trees import grammar as tree_grammar
    from numjax.text.vocab.symbols import Symbols

    vocabulary = make_math_vocabulary(shape["vocab"])
    symbols, text = Symbols(vocabulary), list(range(vocabulary.base))
    context = dict(vocab_size=-(-vocabulary.size // 128) * 128, size=vocabulary.size, num_id=-1)
    context |= dict(width=shape["width"], dim=shape["width"])
    names = ("token", "token_type") if positions else ("token",)
    embeds = {name: build("embed", {"name": name}, **context) for name in names}
    head = build("heads", {"name": "token", "tied": True}, **context)
    sizes = {name: shape[name] for name in ("width", "layers", "heads")}
    backbone = make_backbone(
        {"name": "decoder", "max_length": shape["length"], **sizes},
        {"sequence": {"name": "learned"}} | ({"tree": {"name": "tree"}} if positions else {}),
    )
    model = Model(FrozenDict(embeds), FrozenDict(), backbone, FrozenDict(next=head))
    text_edges = [tables.Edge("text", text, "text")]
    if not positions:
        any_edges = [tables.Edge("text", range(vocabulary.size), "text")]
        return model, tables.build(context["vocab_size"], any_edges, "text", ["text"])
    grammar = tables.build(
        context["vocab_size"],
        [*text_edges, *tree_grammar.edges(symbols, text, arity)],
        "text",
        ["text"],
        arity=tree_grammar.arities(symbols, arity),
        placed=tree_grammar.PLACED,
        max_depth=tree_grammar.DEPTH,
        max_width=tree_grammar.WIDTH,
    )
    return model, grammar


def work(name: str, shape: dict[str, int], folder: pathlib.Path) -> None:
    """Serves a contender of numjax: a turn generates the whole batch."""
    import jax
    import jax.numpy as jnp

    from numjax.decode import beam
    from numjax.runtime.shard import path_name
    from numjax.types import Batch

    prompts = generate.load_prompts(folder / "prompts.npy")
    if name == "masked":
        model, *_ = generate.make_model(shape, numerals=False)
        grammar = make_class_grammar(model.heads["next"].vocab_size, shape["vocab"])
        arrays = np.load(folder / "parameters.npz")
        shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), Batch(prompts))["params"])
        params = jax.device_put(
            jax.tree_util.tree_map_with_path(lambda leaf_path, _: arrays[path_name(leaf_path)], shapes)
        )
    else:
        prompts = prompts._replace(numeral_index=None, numerals=None)
        if name == "trees":
            zeros = np.zeros_like(prompts.ids)
            prompts = prompts._replace(
                channels={"types": zeros, "tree_positions": np.full((*zeros.shape, 32), -1, np.int32)}
            )
        model, grammar = make_tree_model(shape, positions=name == "trees")
        params = jax.jit(lambda: model.init(jax.random.key(0), Batch(prompts))["params"])()
    rows = len(prompts.ids)
    prompts, grammar = jax.device_put((prompts, grammar))
    budget, ends = jnp.full(rows, shape["new"], jnp.int32), jnp.full((rows, 1), -1, jnp.int32)

    def turn(times: int) -> dict[str, Any]:
        for _ in range(times):
            output = beam.search(
                model,
                params,
                grammar,
                prompts,
                budget,
                ends,
                head="next",
                max_tokens=shape["new"],
                width=shape["beams"],
                num_id=-1,
            )
            ids = jax.device_get(output.ids)
        return {"written": ids[:, 0].tolist()}

    turn(1)
    pairs.serve(turn, version=f"jax {jax.__version__}")


if __name__ == "__main__":
    command.entry(main)
