"""Grammars as automata: the tables, their host side, and the form of answers."""
