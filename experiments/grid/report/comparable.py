"""Which cells may stand in one map: those that answer the same problems, and of a row those of the same settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from numjax.bundled.experiments import identity
from numjax.bundled.experiments.grid.report.folder import Cell

REMEDY = (
    "to have them there, run the command of all rows of the map again, which keeps what has the present settings and "
    "runs the rest; to see them alone, copy their files of cells and settings to another folder"
)


def select(cells: Iterable[Cell], label: str) -> tuple[list[Cell], list[str]]:
    """(the cells that may be compared, a line for each group of those that are left out).

    Cells of other problems than most cells of their columns are left out, and then cells of other settings than most
    cells of their row. Where each column has problems of its own (one model a cell), it is judged by itself.

    Args:
      label: of the map, for the lines.
    """
    kept, others = _keep_largest(cells, lambda cell: cell.problems)
    lines = [_describe_problems(group, kept, label) for group in others]
    by_row: dict[str, list[Cell]] = {}
    for cell in kept:
        by_row.setdefault(cell.row, []).append(cell)
    kept = []
    for row_cells in by_row.values():
        united = _unite_keys(row_cells)
        same, others = _keep_largest(row_cells, lambda cell, united=united: united[cell.key])
        kept += same
        lines += [_describe_settings(group, same, label) for group in others]
    return kept, lines


def _unite_keys(cells: Sequence[Cell]) -> dict[str, str]:
    """Key → the key that stands for it. Keys of one column whose settings name one result have one, since an option
    that was added between two seeds changes a key and no result."""
    options = {cell.key: cell.options for cell in cells}
    columns: dict[str, set[str]] = {}
    for cell in cells:
        columns.setdefault(cell.key, set()).add(cell.column)
    united: dict[str, str] = {}
    for key in sorted(options):
        rivals = (other for other in set(united.values()) if columns[other] & columns[key])
        united[key] = next(
            (other for other in sorted(rivals) if identity.are_same(options[other], options[key])), key
        )
        columns[united[key]] |= columns[key]
    return united


def _keep_largest(cells: Iterable[Cell], name_of: Callable[[Cell], str]) -> tuple[list[Cell], list[list[Cell]]]:
    """(cells of the largest groups that have no column in common, the other groups). A group has one name."""
    by_name: dict[str, list[Cell]] = {}
    for cell in cells:
        by_name.setdefault(name_of(cell), []).append(cell)
    # Trained cells first: what needs no training is quickly made again. Then by name, so that the order is fixed.
    order = sorted(
        by_name, key=lambda name: (-sum(bool(c.settings) for c in by_name[name]), -len(by_name[name]), not name, name)
    )
    kept: list[Cell] = []
    others: list[list[Cell]] = []
    columns: set[str] = set()
    for name in order:
        own_columns = {cell.column for cell in by_name[name]}
        if columns.isdisjoint(own_columns):
            columns |= own_columns
            kept += by_name[name]
        else:
            others.append(by_name[name])
    return kept, others


def _describe_problems(group: Sequence[Cell], kept: Sequence[Cell], label: str) -> str:
    rows = list(dict.fromkeys(cell.row for cell in group))
    columns = {cell.column for cell in group}
    rivals = {cell.row for cell in kept if cell.column in columns}
    what = "answer other problems than" if group[0].problems else "do not say which problems they answer, unlike"
    return f"{_count(group)} of {', '.join(rows)} not in the map ({label}): they {what} {len(rivals)} rows; {REMEDY}"


def _describe_settings(group: Sequence[Cell], kept: Sequence[Cell], label: str) -> str:
    first, other = group[0], next(cell for cell in kept if cell.column in {cell.column for cell in group})
    seeds = ", ".join(str(seed) for seed in sorted({cell.seed for cell in group}))
    differences = identity.list_differences(first.options, other.options, {}) if first.options else []
    more = f" and {len(differences) - 2} more" * (len(differences) > 2)
    why = f" ({'; '.join(differences[:2])}{more})" * bool(differences)
    return (
        f"{_count(group)} of {first.row} (seed {seeds}) not in the map ({label}): they have other settings than "
        f"{len(kept)} cells of this row{why}; {REMEDY}"
    )


def _count(group: Sequence[Cell]) -> str:
    return f"{len(group)} cells" if len(group) > 1 else "1 cell"
