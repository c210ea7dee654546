"""Probes: small networks that predict properties of numbers from their vectors (Wallace et al. 2019)."""
