"""Evaluates a split: a model's losses, its labels, and the texts that it generates."""
