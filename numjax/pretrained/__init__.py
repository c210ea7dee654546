"""Converts weights of other libraries to numjax parameters and back."""
