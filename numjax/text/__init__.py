"""Text ↔ positions: vocabularies, and one file a scheme. Host half."""
