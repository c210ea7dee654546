"""The rows of the grid: those of configs/schemes.py, those that a user adds, and baselines that need no model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from numjax.build import build, suggest
from numjax.bundled.configs import schemes
from numjax.bundled.data.arithmetic.operations import OPERATIONS
from numjax.bundled.experiments.grid.scales import Scale
from numjax.config import blocks, fit
from numjax.errors import UsageError

BASELINES = ("oracle", "constant", "copy")  # see `baselines.answer_all`
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


class Row(NamedTuple):
    """A row.

    Attributes:
      name: in cells. kind: "scheme", "added" or "baseline".
      base: the row of configs/schemes.py that it starts from; changes: what is different, as in --set.
    """

    name: str
    kind: str = "scheme"
    base: str = ""
    changes: tuple[str, ...] = ()


def list_rows(additions: Sequence[str] = ()) -> dict[str, Row]:
    """All rows by name: schemes, additions, baselines.

    Args:
      additions: words "NAME=ROW CHANGE CHANGE …", see `parse_addition`.

    Raises:
      UsageError: an addition is wrong.
    """
    rows = {name: Row(name, base=name) for name in schemes.ROWS}
    # Of its config a baseline needs the task alone.
    rows |= {name: Row(name, "baseline", next(iter(schemes.ROWS))) for name in BASELINES}
    for word in additions:
        row = parse_addition(word)
        if row.name in rows:
            raise UsageError(f"--add={word}: there is a row {row.name} already: choose another name")
        rows[row.name] = row
    return rows


def parse_addition(word: str) -> Row:
    """A row of the user's own from "NAME=ROW CHANGE CHANGE …": a row of configs/schemes.py, and what replaces its
    parts, each as `--set` takes it, such as "waves=xval embeds.numeral=waves:dim=64", or one option of a part, such
    as "bare=fone heads.next.projected=False".

    Raises:
      UsageError: the form is wrong, there is no such row, part or option, or the parts do not go together.
    """
    name, _, words = word.partition("=")
    base, *changes = words.split() or [""]
    if not _NAME.fullmatch(name) or not base:
        raise UsageError(f'--add={word}: give NAME=ROW and changes, such as "mine=xval embeds.numeral=mine:dim=64"')
    if base not in schemes.ROWS:
        raise UsageError(f"--add={word}: no row {base!r} to start from: did you mean {suggest(base, schemes.ROWS)}?")
    row = Row(name, "added", base, tuple(re.sub(r"^--(set=|config\.)", "", change) for change in changes))
    try:
        _refuse_decided(row)
        config = make_config(row, Scale("check"), ("add",))
        fit.check(config, build("tasks", config.task))
    except UsageError as error:
        raise UsageError(f"--add={name}: {error}") from None
    return row


def _refuse_decided(row: Row) -> None:
    """Raises UsageError for a change that the scale or the columns would undo, or that gives other problems."""
    decided = {"optim.learning_rate", *Scale("check").list_options()}
    for change in row.changes:
        path, _, block = change.partition("=")
        names = [pair.partition("=")[0] for pair in block.partition(":")[2].split(",") if pair]
        for option in [path, *(f"{path}.{name}" for name in names)]:
            if option in decided:
                raise UsageError(f"{change}: the scale decides {option}: choose --scale, or --size at full scale")
            if option.split(".")[0] == "task" and option.split(".")[-1] not in ("answer", "steps", "task"):
                raise UsageError(f"{change}: all rows have the same problems: of the task change answer or steps")


def choose_rows(rows: Mapping[str, Row], words: Iterable[str]) -> list[Row]:
    """The rows that are asked for, in their order; all without words.

    Raises:
      UsageError: an unknown row.
    """
    words = list(words)
    for word in words:
        if word not in rows:
            raise UsageError(f"--rows={word}: no such row: did you mean {suggest(word, rows)}?")
    return [row for name, row in rows.items() if not words or name in words]


def make_config(row: Row, scale: Scale, columns: Sequence[str]) -> Any:
    """The config of a row on columns, before its learning rate and its lengths are chosen.

    Raises:
      UsageError: a change of an added row is wrong.
    """
    config: Any = schemes.get_config(f"{row.base},{scale.config},task=all")
    for change in row.changes:
        _apply(config, change)
    is_all = set(columns) == set(OPERATIONS)
    problems = {"size": scale.problems * len(columns), "test": scale.test, "data_seed": 0}
    problems |= {"operations": "all" if is_all else "+".join(columns)}
    options = {f"task.{name}": value for name, value in problems.items()} | scale.list_options()
    with config.unlocked():
        for path, value in {**options, "optim.learning_rate": scale.rates[0]}.items():
            block, _, key = path.rpartition(".")
            (config[block] if block else config)[key] = value
    return config


def _apply(config: Any, change: str) -> None:
    """Applies a change of a block, or of one option of it, to the config in place."""
    path, equals, text = change.partition("=")
    if not equals or not blocks.is_block_option(path):
        blocks.apply_changes(config, [change])
        return
    *parents, option = path.split(".")
    block = config
    for name in parents:
        if name not in block:
            raise UsageError(f"{change}: this row has no {'.'.join(parents)}")
        block = block[name]
    value = blocks.parse_block(blocks.BLOCK_KINDS[parents[0]][0], f"{block.name}:{option}={text}")[option]
    with config.unlocked(), config.ignore_type():
        block[option] = value
