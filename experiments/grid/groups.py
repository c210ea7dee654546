"""The group of each row of the grid: what of a system the row is about."""

from __future__ import annotations

from numjax.bundled.configs import schemes
from numjax.bundled.experiments.grid import rows

ADDED, BASELINES = "added", "baselines"
_ROWS = {
    "layout": (
        *("bpe", "digits", "digits_rev", "digits_rev_answer", "chunk3", "chunk3_l2r", "hints", "scratchpad"),
        *("numerologic", "p10", "p1000", "b1999", "fp15", "regresslm", "ieee10", "agg", "chronos", "llmtime"),
        "mathgpt",
    ),
    "embedding and head": (
        *("rt", "xval", "xval_linear5", "xval_log1p", "xval_bittokens", "ple", "periodic", "intseq", "fone"),
        *("fone_2x5", "fone_slots", "bittokens", "bittokens_base10", "numgpt", "luna"),
        *("value_prefix", "value_prefix_rnn", "value_prefix_projected", "dice"),
    ),
    "objective": ("ntl", "ntl_number", "ntl_mse", "dist2", "smmd", "del"),
    "positions": ("coupled", "abacus", "nope", "nope_rev", "rope", "alibi"),
    "ours": (
        *("coupled_bias", "carry", "carry_save", "parallel", "limbs", "anchor", "anchor_unsized"),
        *("anchor_unaligned", "anchor_counted", "anchor_ngram", "anchor_ngram5", "anchor_ngram_unaligned"),
        *("anchor_named", "anchor_named_free", "anchor_known", "anchor_known_decimals", "residues"),
    ),
    ADDED: (),  # a stranger's own rows
    BASELINES: rows.BASELINES,
}
GROUPS = tuple(_ROWS)
_GROUP_OF = {row: group for group, members in _ROWS.items() for row in members}


def find_group(row: str) -> str:
    """The group of a row; of one that is not listed, `ADDED`."""
    return _GROUP_OF.get(row, ADDED)


def sort_rows(names: set[str]) -> list[str]:
    """Rows by group, in a group as configs/schemes.py has them, others by name."""
    order = [*schemes.ROWS, *_ROWS[BASELINES]]
    ranks = {row: rank for rank, row in enumerate(order)}
    return sorted(names, key=lambda row: (GROUPS.index(find_group(row)), ranks.get(row, len(order)), row))
