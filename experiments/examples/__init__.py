"""The documentation's examples, run at laptop scale: whether their answers are right. See `__main__.py`."""
