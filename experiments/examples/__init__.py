"""The README's examples, asked at laptop scale: whether what they answer is right. See `__main__.py`."""
