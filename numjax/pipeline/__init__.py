"""From records to batches: encode, plan, assemble, load. NumPy only; grain is imported when reading starts."""
