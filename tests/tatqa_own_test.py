"""TAT-QA's form in files of one's own: what is odd or damaged is read rightly or named, and long tables take no
longer than they must."""

from __future__ import annotations

from typing import Any

from numjax.tasks import tatqa_labels, tatqa_units

LABELLED: dict[str, Any] = {"derivation": "", "answer_type": "span", "answer_from": "table", "scale": ""}


class Counted(tuple):
    """Entries, and how often one of them is read."""

    read = 0

    def __iter__(self):
        for one in super().__iter__():
            Counted.read += 1
            yield one

    def __getitem__(self, at):
        Counted.read += 1
        return super().__getitem__(at)


def test_labels_take_as_many_looks_as_there_are_cells():
    def looks(rows: int) -> int:
        table = [[f"Item {i}", *(str(10 * i + j) for j in range(4))] for i in range(rows)]
        found = tatqa_units.context("What is named?", table, ["Some words here."])
        found = found._replace(units=Counted(found.units), pieces=Counted(found.pieces))
        before = Counted.read
        question = LABELLED | {"question": "What is named?", "answer": ["Item 3"], "rel_paragraphs": []}
        assert tatqa_labels.find(found, question) == tatqa_labels.Labels("SPAN-TABLE", (15,))
        return Counted.read - before

    assert looks(80) < 2.2 * looks(40)
