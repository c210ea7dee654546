"""Looking into models."""
