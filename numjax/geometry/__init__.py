"""Where vectors lie: neighbours, distances and pictures of them, from arrays alone (NumPy, no JAX, no text)."""
