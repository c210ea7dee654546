"""What a row can represent: how many positions its numbers take, and the share of answers that it could write.

The ceiling of a cell is the exact accuracy of decode(encode(answer)), through the scheme and the head: an answer that
a row has no way to write is wrong, and the ceiling says how often that is.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from numjax.bundled.experiments.grid.problems import Record
from numjax.errors import DataError
from numjax.numeral import format as formats
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.system import System
from numjax.tasks.arithmetic import score_answer
from numjax.types import PART, Example, Features, Number


class Ability(NamedTuple):
    """What a row can do with one problem.

    Attributes:
      prompt, answer: positions of both; 0 if it cannot be encoded.
      numbers: how many the question and the answer have.
      slots: the positions of numbers, with their marks, also in the steps that a row writes before its answer.
      is_exact: whether the answer comes back from its own encoding.
    """

    prompt: int = 0
    answer: int = 0
    numbers: int = 0
    slots: int = 0
    is_exact: bool = False


def measure(system: System, record: Mapping[str, Any]) -> Ability:
    """What the row of a system can do with a problem."""
    task, scheme = system.task, system.scheme
    if (encoded := _encode(system, record)) is None:
        return Ability()
    example, row, start = encoded
    given = [segment for segment in example.document[: example.loss_from] if isinstance(segment, Number)]
    scheme_after = scheme.after(given, row.ids[:start].tolist())
    document = scheme_after.decode(row.ids[start:].tolist(), _list_written(system, row, start))
    answer = task.predicted(document)
    is_exact = _can_write(system, row, start) and bool(score_answer(answer or "", record)["exact"])
    bounds = zip(example.document, row.starts[:-1], row.starts[1:], strict=True)
    n_slots = sum(end - begin for segment, begin, end in bounds if isinstance(segment, Number))
    segments = [*scheme.parse(record["question"]), *scheme.parse(record["answer"])]
    n_numbers = sum(isinstance(segment, Number) for segment in segments)
    return Ability(start, len(row.ids) - start, n_numbers, n_slots, is_exact)


def measure_lengths(system: System, record: Mapping[str, Any]) -> tuple[int, int]:
    """(positions of the prompt, positions of the answer) of a problem; zeros if it cannot be encoded."""
    encoded = _encode(system, record)
    return (0, 0) if encoded is None else (encoded[2], len(encoded[1].ids) - encoded[2])


def _encode(system: System, record: Mapping[str, Any]) -> tuple[Example, Features, int] | None:
    """(the example of a problem, its row, where the answer starts); None if it cannot be encoded."""
    try:
        example = system.task.example(record, system.scheme.parse)
        row = system.encode(example.document)
    except (DataError, ValueError):
        return None
    return example, row, row.starts[example.loss_from]


def writer_of(system: System) -> Any:
    """The head that writes."""
    return system.model.heads[system.model.writer]


def _can_write(system: System, row: Features, start: int) -> bool:
    """Whether the head can write each number that it would have to predict as a number."""
    head = writer_of(system)
    return not head.numbers or all(head.represents(number.value) for number in _list_answer_numbers(row, start))


def _list_written(system: System, row: Features, start: int) -> list[Number]:
    """The numbers that `Scheme.decode` gets after generation: a head's, in the form in which it writes them."""
    if writer_of(system).numbers:
        numbers = _list_answer_numbers(row, start)
        numerals = to_numeral([number.value for number in numbers], system.config.data.digits)
        values = [value for value in to_decimals(numerals) if value is not None]
        if any(number.surface.startswith(PART) for number in numbers):
            return system.scheme.join_numbers(row.ids[start:].tolist(), values)
        return [Number(formats.format(value), value) for value in values]
    return list(row.numbers) if system.scheme.points else []


def _list_answer_numbers(row: Features, start: int) -> list[Number]:
    indices = dict.fromkeys(index for index in row.numeral_index[start:].tolist() if index >= 0)
    return [row.numbers[index] for index in indices]


def slots_per_number(abilities: Sequence[Ability]) -> float | None:
    """The mean number of positions of the numbers of questions and answers; None without numbers."""
    count = sum(ability.numbers for ability in abilities)
    return sum(ability.slots for ability in abilities) / count if count else None


def list_ceilings(records: Sequence[Record], abilities: Sequence[Ability]) -> dict[str, float]:
    """Share of the answers that can be written, of "all" problems and by stream."""
    by_stream: dict[str, list[bool]] = {"all": []}
    for record, ability in zip(records, abilities, strict=True):
        by_stream["all"].append(ability.is_exact)
        by_stream.setdefault(record["stream"], []).append(ability.is_exact)
    return {stream: statistics.fmean(flags) for stream, flags in by_stream.items()}
