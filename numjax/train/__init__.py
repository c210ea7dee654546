"""From a config to parameters: the loop and what it calls."""
