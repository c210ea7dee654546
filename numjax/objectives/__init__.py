"""Losses as sums and counts, one a file, each with a class named `Objective`."""
