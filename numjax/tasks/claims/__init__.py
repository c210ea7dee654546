"""Statements about a table, judged by cells, an operation and a comparison."""

from numjax.tasks.claims.task import Task

__all__ = ["Task"]
