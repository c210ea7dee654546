"""Runs that are killed many times: see README.md."""
