"""Scores of a model that was trained on generated questions about measures, on questions that a person typed."""
