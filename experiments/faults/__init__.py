"""Runs that are killed again and again: see README.md."""
