"""Transformer and recurrent stacks, one a file, each with a Linen module named `Backbone`."""
