"""The grid: every way of writing a number on every kind of problem, trained alike."""
