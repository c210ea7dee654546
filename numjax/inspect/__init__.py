"""Functions to inspect models, each for one kind of model, with a clear error for the others.

model = numjax.load(workdir)
inspect.embed_positions(model, 10)              learned positions
inspect.list_symbols(model)                     schemes with formulas
inspect.embed_nodes(model, "x = 280/(1-y)")     schemes with formulas
inspect.read_activations(model, record)         encoders
inspect.attention_weights(model, record)        encoders
"""

from numjax.inspect.encoders import Activations, attention_weights, read_activations
from numjax.inspect.formulas import Nodes, Symbol, embed_nodes, embed_symbols, list_symbols
from numjax.inspect.sequence import embed_positions

__all__ = [
    "Activations",
    "Nodes",
    "Symbol",
    "attention_weights",
    "embed_nodes",
    "embed_positions",
    "embed_symbols",
    "list_symbols",
    "read_activations",
]
