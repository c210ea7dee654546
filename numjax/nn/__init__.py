"""Layers as pure functions of arrays."""
