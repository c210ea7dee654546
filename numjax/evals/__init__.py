"""Evaluation over a split: scores of a model's losses and labels, and of what it writes."""
