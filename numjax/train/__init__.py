"""Trains the parameters of a config: the loop and the modules that it calls."""
