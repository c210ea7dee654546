"""Predictions from hidden states, one kind per file, each a Linen module named `Head`."""
