"""Experiment configs: one file a system, a recipe as data (`numjax/config/recipe.py`)."""
