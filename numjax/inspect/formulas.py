"""The vectors of a model's mathematical symbols, and of the nodes of one formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from numjax.errors import DataError, UsageError
from numjax.expr import latex
from numjax.expr.printer import signs
from numjax.expr.tree import Tree
from numjax.text.trees.grammar import TYPE_OF
from numjax.types import TREE_POSITIONS, TYPES, Features, Formula

if TYPE_CHECKING:
    from numjax.api import Loaded


class Symbol(NamedTuple):
    """A symbol of the mathematical vocabulary.

    Attributes:
      kind: "OP", "VAR" or "NUM".
      type, symbol: the type and symbol of its nodes (`numjax.expr.tree`).
      latex: its sign (`numjax.expr.printer.signs.sign`).
    """

    kind: str
    type: str
    symbol: str
    latex: str


class Nodes(NamedTuple):
    """A formula's tokens in preorder, with END tokens, without those that open and close the formula.

    Attributes:
      names: each token as LaTeX; special tokens by name: "end", "number", "text", …
      tree_positions: int32[N, L], child index at each level from the root on, −1 below the node.
      vectors: float32[N, D], the sum that positions add to the embedding: the learned vector of the position in the
        sequence, and that of the tree position where the model has one (MathGPT's emb_sp + emb_tp).
    """

    names: list[str]
    tree_positions: np.ndarray
    vectors: np.ndarray


def list_symbols(model: Loaded) -> list[Symbol]:
    """The symbols that have tokens of their own, without special tokens.

    Raises:
      UsageError: the scheme has no formulas.
    """
    names = _tree_scheme(model).symbols.names
    return [
        Symbol(kind, type, symbol, signs.sign(type, symbol))
        for _, (kind, type, symbol) in sorted(names.items())
        if type != "!"
    ]


def embed_symbols(model: Loaded, symbols: Sequence[Symbol]) -> np.ndarray:
    """Token and type embeddings of symbols, float32[n, D]: MathGPT's emb_tok + emb_type.

    In a model without formulas, such as the GPT baseline, a symbol gets the mean of the text tokens that spell its
    LaTeX (MathGPT, section 5.1).

    Raises:
      DataError: a symbol has no token; in a model without formulas, its LaTeX is empty.
    """
    rows, scheme = [], model.system.scheme
    for symbol in symbols:
        if scheme.symbols is not None:
            token = scheme.symbols.find_token(symbol.type, symbol.symbol)
            if token is None:
                raise DataError(
                    f"{symbol.type} {symbol.symbol!r} has no token of its own: list_symbols(model) names those that "
                    "do"
                )
            rows.append(_features([token], TYPE_OF[symbol.kind]))
        elif not (ids := scheme.vocab.encode(symbol.latex)):
            raise DataError(f"{symbol.type} {symbol.symbol!r} has no LaTeX: a text model has no vector for it")
        else:
            rows.append(_features(ids))
    tokens = model.make_inputs(rows)
    x_BTD, is_token = model.apply("embed", tokens), (np.asarray(tokens.segment_ids) > 0)[..., None]
    return np.asarray(np.where(is_token, x_BTD, 0).sum(1) / is_token.sum(1), np.float32)


def embed_nodes(model: Loaded, formula: str) -> Nodes:
    """The tokens of a LaTeX formula at the start of a sequence, with their position vectors.

    Raises:
      DataError: the formula cannot be parsed, or the scheme cannot encode it.
      UsageError: the scheme has no formulas.
    """
    scheme = _tree_scheme(model)
    tree = latex.parse(formula)
    if not isinstance(tree, Tree):
        raise DataError(f"the formula {formula[:60]!r} cannot be parsed: {tree.error} at {tree.at}")
    row = model.system.encode((Formula(formula, tree),))
    inside = slice(1, len(row.ids) - 1)
    vectors = model.apply("added_positions", model.make_inputs([row]))[0, inside]
    names = [_token_name(scheme, int(token)) for token in row.ids[inside]]
    return Nodes(names, row.channels[TREE_POSITIONS.name][inside], np.asarray(vectors, np.float32))


def _tree_scheme(model: Loaded) -> Any:
    if model.system.scheme.symbols is None:
        raise UsageError(
            f"scheme {model.system.config.scheme.name} has no formulas: load a run of configs/mathgpt.py"
        )
    return model.system.scheme


def _token_name(scheme: Any, token: int) -> str:
    _, type, symbol = scheme.symbols.names.get(token, ("", "", ""))
    if not type:
        return scheme.vocab.decode([token])
    return symbol.rpartition(" ")[2].lower() if type == "!" else signs.sign(type, symbol)


def _features(ids: Sequence[int], type: int = 0) -> Features:
    """Features of tokens of one type outside trees."""
    count = len(ids)
    no_number = np.full(count, -1, np.int32)
    channels = {TYPES.name: np.full(count, type, np.int32), TREE_POSITIONS.name: np.full((count, 1), -1, np.int32)}
    return Features(np.asarray(ids, np.int32), no_number, (), (0, count), np.zeros(count + 1, np.int32), channels)
