"""A stand-in: problems of our own with small numbers, in the files' four forms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..fermat.generate import generate_problems, make_own_templates


def generate_raw_problems(form: str, size: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yields raw objects in a form, no two with the same text; numbers as in `generate_problems`."""
    rng = np.random.default_rng([seed, 3])
    templates = make_own_templates()
    for number, problem in enumerate(generate_problems(templates, size, rng, longest=10)):
        question, answer, equation = problem["question"], float(problem["answer"]), problem["equation"]
        body, _, last_sentence = question.rpartition(" . ")
        answer_text = f"{answer:g}" if answer == int(answer) and answer < 1e6 else str(answer)
        yield {
            "mawps": {"id": number, "original_text": question, "equation": f"X={equation}", "ans": answer},
            "addsub": {
                "iIndex": number,
                "sQuestion": question,
                "lEquations": [f"X = {equation}"],
                "lSolutions": [answer_text],
            },
            "svamp": {
                "ID": f"stand-in-{number}",
                "Body": body or "Read this",
                "Question": last_sentence,
                "Equation": equation,
                "Answer": answer,
            },
            "asdiv": {
                "ID": f"stand-in-{number}",
                "Body": body or "Read this.",
                "Question": last_sentence,
                "Answer": f"{answer_text} (things)",
                "Formula": f"{equation}={answer_text}",
            },
        }[form]
