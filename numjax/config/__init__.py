"""What a run is: blocks, recipes, command lines, what goes together."""
