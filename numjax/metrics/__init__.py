"""Metrics that several tasks share. Host half."""
