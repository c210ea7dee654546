"""Writing a question's headline (MathGPT)."""

from numjax.tasks.headline.task import Task

__all__ = ["Task"]
