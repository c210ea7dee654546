"""Benchmarks of numjax's speed and memory, against bounds and against the libraries that people would use instead."""
