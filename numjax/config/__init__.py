"""The config of a run: blocks, recipes, command lines, checks that parts fit together."""
