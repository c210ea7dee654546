"""Tables as CSV: TAT-QA's and TabFact's of a user, and tables with a header line of data sets."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile

from numjax.bundled.data import files
from numjax.errors import DataError
from numjax.tasks.tatqa import records

SEEDS = (b'year,revenue\n2019,"1,200"\n2018,900\n', b"a;b\n1,5;2\n", b"a\tb\n \t2\n", b'id,"x ""y"" z"\n1,"\n"\n')

FOLDER = tempfile.TemporaryDirectory()


def check(data: bytes) -> None:
    """A file gives rows, or one line that says what is wrong with it."""
    path = pathlib.Path(FOLDER.name, "table.csv")
    path.write_bytes(data)
    path.with_suffix(".txt").write_text("All in thousands.\n\nQ: What is the sum?\n")
    with contextlib.suppress(DataError):
        for _, record in records.from_file(str(path)) or ():
            assert isinstance(record, ValueError) or record["table"]
    with contextlib.suppress(DataError):
        for line, row in files.read_table(path, ()):
            assert line > 0
            assert isinstance(row, ValueError) or all(isinstance(cell, str) for cell in row.values())
