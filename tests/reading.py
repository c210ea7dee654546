"""A task for an encoder–decoder: the question is read, the answer is written."""

from __future__ import annotations

from numjax.tasks import generation
from numjax.types import Example, Mark, Text


class Task(generation.Task):
    """As `generation`, with the prompt as the source."""

    def example(self, record, parse):
        whole = super().example(record, parse)
        source = (*whole.document[1 : whole.loss_from], Mark("[EOS]"))
        written = (Mark("[CLS]"), Text(" "), *whole.document[whole.loss_from + 1 :])
        return Example(whole.id, written, source, loss_from=1, reference=whole.reference)

    def prompt_from_text(self, text, parse):
        return (*parse(f"Q: {text} A:"), Mark("[EOS]"))
