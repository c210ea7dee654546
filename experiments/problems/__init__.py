"""Scores of models that were trained on generated word problems, on typed and public problems."""
