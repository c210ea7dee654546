"""The experiments of digit aggregation ("How to leverage digit embeddings to represent numbers?", 2024)."""
