"""Scores of models that were trained on generated word problems, on problems that a person typed and on public
ones."""
