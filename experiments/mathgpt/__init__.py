"""MathGPT (Scarlatos and Lan 2023)."""
