"""The tool that makes mutants: which changes it makes and leaves out, and that names outlive a move of lines."""

from __future__ import annotations

import pytest

pytest.importorskip("cosmic_ray", reason="cosmic_ray is not installed: make env")

from cosmic_ray.mutating import mutate_code

from tests.mutation.mutants import DropKeyword, all_mutants, sample

SOURCE = """
from __future__ import annotations

LIMIT = 3


def total(xs: list[int] | None, base: int = 2, unread: bool = True) -> int:
    del unread
    if xs is None:
        return 0
    return sum([x * base for x, _ in zip(xs, xs, strict=True)], start=LIMIT)
"""


def names(tmp_path, source):
    (tmp_path / "m.py").write_text(source)
    return [mutant.name for mutant in all_mutants(tmp_path, "m.py", seed=0)]


def test_each_expression_has_one_change_of_a_kind_and_guards_have_none(tmp_path):
    changes = names(tmp_path, SOURCE)
    assert len(changes) == len({*changes})
    kinds = [name.partition("[")[2].partition("]")[0] for name in changes]
    # LIMIT, base and 0 are numbers; `is None` is a comparison and a condition; x * base; start=LIMIT.
    assert sorted(kinds) == sorted(
        ["NumberReplacer"] * 3 + ["ReplaceComparisonOperator", "AddNot", "ReplaceBinaryOperator", "DropKeyword"]
    )
    assert not any(
        "strict=False" in name or "list[int] &" in name or "unread: bool = False" in name for name in changes
    )
    assert [name.partition(" ")[0] for name in changes][:2] == ["m.py:<module>", "m.py:total"]


def test_names_and_samples_do_not_depend_on_line_numbers(tmp_path):
    kinds = {name.partition("→")[0] for name in names(tmp_path, SOURCE)}
    assert {name.partition("→")[0] for name in names(tmp_path, "# moved\n\n" + SOURCE)} == kinds
    mutants = all_mutants(tmp_path, "m.py", seed=0)
    chosen = sample(mutants, 4, seed=0)
    assert chosen == sample(mutants, 4, seed=0) and len(chosen) == 4
    assert [mutants.index(mutant) for mutant in chosen] == sorted(mutants.index(mutant) for mutant in chosen)
    assert sample(mutants, 99, seed=0) == mutants


@pytest.mark.parametrize("example", DropKeyword.examples())
def test_a_dropped_keyword_leaves_a_call(example):
    assert mutate_code(example.pre_mutation_code, DropKeyword(), 0) == example.post_mutation_code
