"""How fast a beam writes under a grammar, beside Hugging Face's `generate` with a masking LogitsProcessor.

    python -m experiments.benchmarks.beam [--peer=.venv-compare/bin/python] [--rounds=5] [--rows=1,8]
        [--contenders=masked,transformers,bare,trees] [--beams=3] [--prompt=32 --new=128]
        [--layers=6 --width=384 --heads=6 --vocab=50257 --length=256] [--out=FILE]

    masked        numjax: decoder, tied token head; what may follow is told by the class of the last token
    transformers  GPT2LMHeadModel.generate, num_beams, the same mask (`transformers_gpt2.py`)
    trees         numjax with MathGPT's vocabulary: the grammar of trees, types and tree positions
    bare          the same vocabulary with neither mask nor positions

All write exactly --new tokens in float32. masked and transformers have the same parameters and prompts; how much of
their texts agrees is reported. trees over bare is what the mask and the tree positions cost. Contenders take turns
(see `pairs.py`): only ratios mean anything.
"""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

from numjax.bundled.experiments import command
from numjax.bundled.experiments.benchmarks import generate, pairs, writing

SHAPE = generate.SHAPE | {"beams": 3}
OURS = ("masked", "bare", "trees")
PEER = writing.PEER
CLASSES = 16
FLOORS = {1: 3.2, 8: 1.8}  # times the tokens/s of transformers, by rows
GOALS = {1: 3.7, 8: 2.5}
ADDED = 1.05  # time of trees over that of bare


def main(words: list[str] | None = None) -> dict[str, Any]:
    """See `writing.run`."""
    return writing.run(study(), words)


def short(peer: str) -> tuple[list[pairs.Row], list[str]]:
    """See `writing.short`."""
    return writing.short(study(), peer)


def study() -> writing.Study:
    """What is measured."""
    return writing.Study(
        name="beam",
        doc=__doc__,
        shape=SHAPE,
        rounds=5,
        ours=OURS,
        peer_flags=(f"--classes={CLASSES}",),
        against=[("masked", PEER), ("bare", "trees")],
        sizes=list(FLOORS),
        prompts=obeying,
        save=generate.save_parameters,
        work=work,
        lines=lines,
    )


def obeying(rows: int, length: int, vocab: int) -> np.ndarray:
    """Prompts that the mask of `by_class` allows, int32[rows, length]: both sides then know where they stand."""
    random = np.random.default_rng(0)
    classes = np.cumsum(random.integers(0, CLASSES // 2 + 1, (rows, length)), axis=1) % CLASSES
    return (classes + CLASSES * random.integers(0, vocab // CLASSES, (rows, length))).astype(np.int32)


def lines(result: dict[str, Any]) -> list[pairs.Row]:
    """The rows of the table."""
    out = []
    usual = all(result["shape"][name] == value for name, value in SHAPE.items())
    for rows, found in result["rows"].items():
        for name, x in found["contenders"].items():
            out.append(pairs.Row(f"beam {name}, {rows} rows", x["tokens_per_second"], unit="tokens/s"))
        if x := found.get(f"masked to {PEER}"):
            bounds = (FLOORS.get(rows), GOALS.get(rows)) if usual else (None, None)
            middle, least, most = x["speed"].values()
            out.append(pairs.Row(f"beam over {PEER}, {rows} rows", middle, least, most, *bounds))
        if x := found.get("bare to trees"):
            floor = ADDED if usual else None
            what = f"beam: time with trees over without, {rows} rows"
            out.append(pairs.Row(what, *x["speed"].values(), floor=floor, lower=True))
        if "agreement" in found:
            out.append(pairs.Row(f"beam: same tokens, {rows} rows", 100 * found["agreement"], unit="%"))
    return out


# ---------------------------------------------------------------------------------------------------
# numjax's side of the bench.


def by_class(vocab_size: int, text: int):
    """The automaton of `transformers_gpt2.Mask`: a token's class and the half of the others behind it may follow."""
    from numjax.text import tables

    groups = [range(c, text, CLASSES) for c in range(CLASSES)]
    edges = [
        tables.Edge(f"after {c}", groups[(c + ahead) % CLASSES], f"after {(c + ahead) % CLASSES}")
        for c in range(CLASSES)
        for ahead in range(CLASSES // 2 + 1)
    ]
    begin = [tables.Edge("start", group, f"after {c}") for c, group in enumerate(groups)]
    return tables.build(vocab_size, begin + edges, "start", ["start", *(f"after {c}" for c in range(CLASSES))])


def math_vocabulary(text: int):
    """Symbols as many and as various as the original's, behind `text` pieces that all show."""
    from numjax.expr.symbols import RELATIONS
    from numjax.text import symbols as names
    from numjax.text.base_vocabulary import BaseVocabulary

    groups = [f"{kind}-{n}" for kind in "LSV" for n in range(1, 9)]
    groups += [f"M-{rows}x{columns}" for rows in range(1, 5) for columns in range(1, 5)]
    signs = [*RELATIONS, *"SUP SUB divide root binomial int sum limit evaluated-at partialdiff".split()]
    counts = {
        "U": dict.fromkeys("plus times minus eq and or".split(), 1),
        "O": dict.fromkeys([*signs, *(f"o{i}" for i in range(100))], 1),
        "M": dict.fromkeys(["R!", *groups], 1),
        **{kind: {f"{kind}{i}": 1 for i in range(n)} for kind, n in (("V", 1000), ("T", 1000), ("F", 800))},
    }
    return BaseVocabulary([b"a"] * text, names.marks(counts))


def tree_parts(shape: dict[str, int], positions: bool):
    """(model, grammar) over text and symbols, with types, positions and the grammar of trees or without."""
    from flax.core import FrozenDict

    from numjax.build import build
    from numjax.expr.symbols import arity
    from numjax.model import Model
    from numjax.system import make_backbone
    from numjax.text import tables, tree_grammar
    from numjax.text.symbols import Symbols

    vocabulary = math_vocabulary(shape["vocab"])
    symbols, text = Symbols(vocabulary), list(range(vocabulary.base))
    known = dict(vocab_size=-(-vocabulary.size // 128) * 128, size=vocabulary.size, num_id=-1)
    known |= dict(width=shape["width"], dim=shape["width"])
    names = ("token", "token_type") if positions else ("token",)
    embeds = {name: build("embed", {"name": name}, **known) for name in names}
    head = build("heads", {"name": "token", "tied": True}, **known)
    sizes = {name: shape[name] for name in ("width", "layers", "heads")}
    backbone = make_backbone(
        {"name": "decoder", "max_length": shape["length"], **sizes},
        {"sequence": {"name": "learned"}} | ({"tree": {"name": "tree"}} if positions else {}),
    )
    model = Model(FrozenDict(embeds), FrozenDict(), backbone, FrozenDict(next=head))
    running = [tables.Edge("text", text, "text")]
    if not positions:
        every = [tables.Edge("text", range(vocabulary.size), "text")]
        return model, tables.build(known["vocab_size"], every, "text", ["text"])
    grammar = tables.build(
        known["vocab_size"],
        [*running, *tree_grammar.edges(symbols, text, arity)],
        "text",
        ["text"],
        arity=tree_grammar.arities(symbols, arity),
        placed=tree_grammar.PLACED,
        max_depth=tree_grammar.DEPTH,
        max_width=tree_grammar.WIDTH,
    )
    return model, grammar


def work(name: str, shape: dict[str, int], folder: pathlib.Path) -> None:
    """A contender of numjax: a turn writes all of the batch."""
    import jax
    import jax.numpy as jnp

    from numjax.decode import beam
    from numjax.runtime.shard import path_name
    from numjax.types import Batch

    prompts = generate.read_prompts(folder / "prompts.npy")
    if name == "masked":
        model, *_ = generate.make_model(shape, numerals=False)
        grammar = by_class(model.heads["next"].vocab_size, shape["vocab"])
        saved = np.load(folder / "parameters.npz")
        shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), Batch(prompts))["params"])
        params = jax.device_put(jax.tree_util.tree_map_with_path(lambda at, _: saved[path_name(at)], shapes))
    else:
        prompts = prompts._replace(numeral_index=None, numerals=None)
        if name == "trees":
            none = np.zeros_like(prompts.ids)
            prompts = prompts._replace(
                channels={"types": none, "tree_positions": np.full((*none.shape, 32), -1, np.int32)}
            )
        model, grammar = tree_parts(shape, positions=name == "trees")
        params = jax.jit(lambda: model.init(jax.random.key(0), Batch(prompts))["params"])()
    rows = len(prompts.ids)
    prompts, grammar = jax.device_put((prompts, grammar))
    budget, ends = jnp.full(rows, shape["new"], jnp.int32), jnp.full((rows, 1), -1, jnp.int32)

    def turn(times: int) -> dict[str, Any]:
        for _ in range(times):
            done = beam.search(
                model,
                params,
                grammar,
                prompts,
                budget,
                ends,
                head="next",
                most=shape["new"],
                width=shape["beams"],
                num_id=-1,
            )
            ids = jax.device_get(done.ids)
        return {"written": ids[:, 0].tolist()}

    turn(1)
    pairs.serve(turn, version=f"jax {jax.__version__}")


if __name__ == "__main__":
    command.entry(main)
