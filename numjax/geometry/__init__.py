"""Neighbours, distances and pictures of vectors. Everything takes arrays (NumPy; no JAX, no text)."""
