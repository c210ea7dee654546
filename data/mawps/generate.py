"""A stand-in: problems of our own with small numbers, in the files' four forms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..fermat.generate import own_templates, problems


def raw_problems(form: str, size: int, seed: int) -> Iterator[dict[str, Any]]:
    """Raw objects in a form, no two with the same text; numbers are integers below 1,000 and short decimals."""
    rng = np.random.default_rng([seed, 3])
    templates = own_templates()
    for place, made in enumerate(problems(templates, size, rng, longest=10)):
        question, answer, equation = made["question"], float(made["answer"]), made["equation"]
        body, _, asked = question.rpartition(" . ")
        shown = f"{answer:g}" if answer == int(answer) and answer < 1e6 else str(answer)
        yield {
            "mawps": {"id": place, "original_text": question, "equation": f"X={equation}", "ans": answer},
            "addsub": {
                "iIndex": place,
                "sQuestion": question,
                "lEquations": [f"X = {equation}"],
                "lSolutions": [shown],
            },
            "svamp": {
                "ID": f"stand-in-{place}",
                "Body": body or "Read this",
                "Question": asked,
                "Equation": equation,
                "Answer": answer,
            },
            "asdiv": {
                "ID": f"stand-in-{place}",
                "Body": body or "Read this.",
                "Question": asked,
                "Answer": f"{shown} (things)",
                "Formula": f"{equation}={shown}",
            },
        }[form]
