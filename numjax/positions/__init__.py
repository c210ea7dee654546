"""How order enters a stack, one way a file, each with a Linen module named `Positions`."""
