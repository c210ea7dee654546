"""Decoders of known sizes for accelerators: planned, benchmarked, trained."""
