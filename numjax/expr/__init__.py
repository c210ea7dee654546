"""Formulas as operator trees: readers, the printer, values and distances. Host half: no jax."""
