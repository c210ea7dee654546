"""Formulas in running text: between dollars, in HTML, or unmarked."""
