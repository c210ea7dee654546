"""Experiment configs: one file a system, composed from `configs.common`."""
