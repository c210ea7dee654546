"""Transformer and recurrent stacks, one per file, each a Linen module named `Backbone`."""
