"""TAT-QA (Zhu et al. 2021), answered by TagOp."""

from numjax.tasks.tatqa.task import Task

__all__ = ["Task"]
