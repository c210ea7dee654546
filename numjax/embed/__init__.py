"""Embeddings, one a file: a pure function and a thin Linen shell named `Embed`."""
