"""Weights of other libraries ↔ numjax parameters, both ways."""
