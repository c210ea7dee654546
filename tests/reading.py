"""A task for an encoder–decoder: the question is the source, the model writes the answer."""

from __future__ import annotations

from numjax.tasks import generation
from numjax.types import Example, Mark, Text


class Task(generation.Task):
    """The task `generation` with the prompt as the source."""

    def example(self, record, parse):
        full_example = super().example(record, parse)
        source = (*full_example.document[1 : full_example.loss_from], Mark("[EOS]"))
        target_document = (Mark("[CLS]"), Text(" "), *full_example.document[full_example.loss_from + 1 :])
        return Example(full_example.id, target_document, source, loss_from=1, reference=full_example.reference)

    def prompt_from_text(self, text, parse):
        return (*parse(f"Q: {text} A:"), Mark("[EOS]"))
