"""Experiments: one folder a paper, a module a table or figure; `runs` does the training that they share."""
