"""Ways to encode order in a stack, one per file, each a Linen module named `Positions`."""
