"""Reports what a built dataset holds: sizes, balance, and the overlap of its splits."""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Iterator

from .builder import ArrayRecordBuilder
from .records import REMARKS, Records, read_notes
from .sampling import SPLITS

# Fields with few values: a report gives the share of each value.
_CLASSES = ("label", "kind", "operation", "grade")


def format_report(builder: ArrayRecordBuilder, splits: dict[str, Records], n_skipped: int) -> Iterator[str]:
    """Yields the lines of a report in Markdown. Reads every record.

    Args:
      builder: of the dataset, prepared.
      splits: name → records.
      n_skipped: how many records the builder skipped.
    """
    sums = {(field, split): 0 for field in builder.TOTALS for split in splits}
    counts = {(field, split): collections.Counter() for field in _CLASSES for split in splits}
    # Hashes, so that a large corpus fits in memory: among 10^7 records two collide by chance once in 10^5 reports.
    keys = {key: fields for key, fields in builder.KEYS.items() if set(fields) <= builder.fields.keys()}
    hashes: dict[str, dict[str, set[int]]] = {key: {split: set() for split in splits} for key in keys}
    for split, records in splits.items():
        for record in records:
            for field in _CLASSES:
                if field in record:
                    counts[field, split][record[field]] += 1
            for field in builder.TOTALS:
                sums[field, split] += record[field]
            for key, fields in keys.items():
                hashes[key][split].add(hash(tuple(record[field] for field in fields)))
    total = sum(map(len, splits.values()))
    yield f"{builder.name} ({builder.chosen_config.name}): {total:,} records, {n_skipped:,} left out"
    yield ""
    yield "| | " + " | ".join(splits) + " |"
    yield "|---" * (len(splits) + 1) + "|"
    yield "| records | " + " | ".join(f"{len(records):,}" for records in splits.values()) + " |"
    for field in _CLASSES:
        for value in sorted(set().union(*(counts[field, split] for split in splits))):
            cells = [counts[field, split][value] for split in splits]
            shares = [f"{n:,} ({n / len(splits[split]):.2%})" for n, split in zip(cells, splits, strict=True)]
            yield f"| {field} {value} | " + " | ".join(shares) + " |"
    for field in builder.TOTALS:
        yield f"| {field}, in all | " + " | ".join(f"{sums[field, split]:,}" for split in splits) + " |"
    yield ""
    for key, sets in hashes.items():
        n_different = len(set().union(*sets.values()))
        pairs = [(a, b) for a in SPLITS for b in SPLITS[SPLITS.index(a) + 1 :] if a in sets and b in sets]
        overlaps = ", ".join(f"{a} and {b} {len(sets[a] & sets[b]):,}" for a, b in pairs)
        yield f"- {key}: {n_different:,} different of {total:,}; shared by {overlaps or 'no two splits'}"
    for remark in read_notes(pathlib.Path(builder.data_dir), REMARKS):
        yield f"- {remark['reason']}"
