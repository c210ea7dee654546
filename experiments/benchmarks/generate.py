"""Measures text generation against Hugging Face's `generate`.

    python -m experiments.benchmarks.generate [--peer=.venv-compare/bin/python] [--rounds=7] [--rows=1,8]
        [--contenders=gpt,numgpt,transformers] [--prompt=32 --new=128]
        [--layers=6 --width=384 --heads=6 --vocab=50257 --length=256] [--out=FILE]

    gpt           numjax: decoder, tied token head, the grammar of running text
    numgpt        the same with every numeral part: prototype embedding, mixture head, numbers fed back
    transformers  GPT2LMHeadModel.generate with its cache (`transformers_gpt2.py`)

All have the same parameters and prompts, are greedy in float32 and write exactly --new tokens. The share of equal
tokens in the texts of gpt and transformers is reported, to show that both do the same work. Contenders take turns
(see `pairs.py`), so only ratios are meaningful.
"""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

from numjax.bundled.experiments import command
from numjax.bundled.experiments.benchmarks import pairs, writing

SHAPE = dict(layers=6, width=384, heads=6, vocab=50_257, length=256, prompt=32, new=128)
NUMJAX_CONTENDERS = ("gpt", "numgpt")
PEER = writing.PEER
FLOORS = {1: 2.5, 8: 2.3}  # times the tokens/s of transformers, by rows


def main(words: list[str] | None = None) -> dict[str, Any]:
    """See `writing.run`."""
    return writing.run(make_benchmark(), words)


def short(peer: str) -> tuple[list[pairs.BenchmarkRow], list[str]]:
    """See `writing.short`."""
    return writing.short(make_benchmark(), peer)


def make_benchmark() -> writing.WritingBenchmark:
    """The benchmark as `writing` runs it."""
    return writing.WritingBenchmark(
        name="generate",
        doc=__doc__,
        shape=SHAPE,
        rounds=7,
        contenders=NUMJAX_CONTENDERS,
        peer_flags=(),
        compared_pairs=[
            (contender, rival) for contender in NUMJAX_CONTENDERS for rival in (PEER, "gpt") if contender != rival
        ],
        sizes=list(FLOORS),
        make_prompts=lambda rows, length, vocab: (
            np.random.default_rng(0).integers(0, vocab, (rows, length)).astype(np.int32)
        ),
        save=save_parameters,
        work=work,
        make_rows=make_rows,
    )


def make_rows(result: dict[str, Any]) -> list[pairs.BenchmarkRow]:
    """The rows of the table."""
    table_rows = []
    is_default_shape = all(result["shape"][name] == value for name, value in SHAPE.items())
    for rows, measurements in result["rows"].items():
        for name, x in measurements["contenders"].items():
            table_rows.append(pairs.BenchmarkRow(f"{name}, {rows} rows", x["tokens_per_second"], unit="tokens/s"))
        for name, x in measurements.items():
            if " to " in name:
                floor = FLOORS.get(rows) if is_default_shape and name == f"gpt to {PEER}" else None
                table_rows.append(pairs.BenchmarkRow(f"{name}, {rows} rows", *x["speed"].values(), floor=floor))
        if "agreement" in measurements:
            table_rows.append(
                pairs.BenchmarkRow(f"same tokens, {rows} rows", 100 * measurements["agreement"], unit="%")
            )
    return table_rows


# ---------------------------------------------------------------------------------------------------
# numjax's side of the bench.


def make_model(shape: dict[str, int], numerals: bool):
    """(model, id of [NUM], id of [EOS]): a plain GPT, or with `numerals` the same with every numeral part."""
    from flax.core import FrozenDict

    from numjax.build import build
    from numjax.model import Model
    from numjax.system import make_backbone

    # Two reserved tokens after the text's; the size is padded as the schemes pad it.
    num_id, end_id = shape["vocab"], shape["vocab"] + 1
    context = dict(vocab_size=-(-(end_id + 1) // 128) * 128, size=end_id + 1, num_id=num_id)
    context |= dict(width=shape["width"], digits=20)
    embeds = {"token": build("embed", {"name": "token"}, dim=shape["width"], **context)}
    if numerals:
        embeds["numeral"] = build("embed", {"name": "prototype"}, **context)
    head = build("heads", {"name": "mixture" if numerals else "token", "tied": True}, **context)
    sizes = {name: shape[name] for name in ("width", "layers", "heads")}
    backbone = make_backbone(
        {"name": "decoder", "max_length": shape["length"], **sizes}, {"sequence": {"name": "learned"}}
    )
    fusions = FrozenDict({"numeral": "concat+linear"} if numerals else {})
    return Model(FrozenDict(embeds), fusions, backbone, FrozenDict(next=head)), num_id, end_id


def load_prompts(path: pathlib.Path):
    """The prompts of a file, Tokens[B, P], without padding and without numbers."""
    from numjax.types import Numeral, Tokens

    ids = np.load(path)
    rows, slots = len(ids), 4
    table = Numeral(
        sign=np.ones((rows, slots), np.int8),
        digits=np.zeros((rows, slots, 20), np.int8),
        n_digits=np.zeros((rows, slots), np.int32),
        exponent=np.zeros((rows, slots), np.int32),
        valid=np.zeros((rows, slots), bool),
    )
    positions = np.broadcast_to(np.arange(ids.shape[1], dtype=np.int32), ids.shape)
    no_slots = np.full_like(ids, -1)
    return Tokens(ids, positions, np.ones_like(ids), numeral_index=no_slots, numerals=table)


def save_parameters(path: pathlib.Path, shape: dict[str, int]) -> None:
    """Saves the parameters of numgpt; those of gpt and transformers are a part of them."""
    import jax

    from numjax.runtime.shard import path_name
    from numjax.types import Batch

    model, *_ = make_model(shape, numerals=True)
    prompts = load_prompts(path.with_name("prompts.npy"))
    params = jax.jit(lambda: model.init(jax.random.key(0), Batch(prompts))["params"])()
    leaves = jax.tree_util.tree_leaves_with_path(params)
    np.savez(path, **{path_name(leaf_path): np.asarray(leaf) for leaf_path, leaf in leaves})  # type: ignore


def work(name: str, shape: dict[str, int], folder: pathlib.Path) -> None:
    """Serves a contender of numjax: a turn generates the whole batch."""
    import jax
    import jax.numpy as jnp

    from numjax.decode import sample
    from numjax.runtime.shard import path_name
    from numjax.text.grammar import tables
    from numjax.types import Batch

    model, num_id, end_id = make_model(shape, name == "numgpt")
    prompts = load_prompts(folder / "prompts.npy")
    arrays = np.load(folder / "parameters.npz")
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), Batch(prompts))["params"])
    params = jax.device_put(
        jax.tree_util.tree_map_with_path(lambda leaf_path, _: arrays[path_name(leaf_path)], shapes)
    )
    text = [*range(shape["vocab"]), *([num_id] if name == "numgpt" else [])]
    # A text may end anywhere, but there is no end token: all contenders write --new tokens.
    grammar = tables.build(model.heads["next"].vocab_size, [tables.Edge("text", text, "text")], "text", ["text"])
    request = sample.Request(
        prompt=prompts,
        budget=jnp.full(len(prompts.ids), shape["new"], jnp.int32),
        keys=jax.random.split(jax.random.key(0), len(prompts.ids)),
        temperature=jnp.float32(0),
        top_k=jnp.int32(0),
        top_p=jnp.float32(1),
    )
    grammar, request = jax.device_put((grammar, request))
    options = dict(head="next", max_tokens=shape["new"], num_id=num_id, end_id=end_id, greedy=True)

    def turn(times: int) -> dict[str, Any]:
        for _ in range(times):
            output = jax.device_get(sample.generate(model, params, grammar, request, **options))
        return {"written": output.ids.tolist(), "numbers": int((output.ids == num_id).sum())}

    turn(1)
    pairs.serve(turn, version=f"jax {jax.__version__}")


if __name__ == "__main__":
    command.entry(main)
