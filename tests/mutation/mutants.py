"""The mutants of a module: cosmic-ray's operators, and one of ours, which drops keyword arguments of calls.

cosmic-ray replaces an operator by each other one in turn, so that most of its mutants fail with a type error or
repeat each other. Here arithmetic stays arithmetic, comparisons of values stay comparisons of values, and each place
in the source has one mutant of a kind, drawn with the seed.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import pathlib
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Example, Operator

from tests.mutation.reach import IMPORT

ARITHMETIC = {"Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"}
BITS = {"BitOr", "BitAnd", "BitXor", "LShift", "RShift"}
VALUES = {"Eq", "NotEq", "Lt", "LtE", "Gt", "GtE"}
IDENTITY = {"Is", "IsNot"}
LONGEST_LINE = 118
# Guards that no correct call triggers: zip(strict=True), dataclass(frozen=True).
GUARDS = {"strict", "frozen"}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change of a module. Its name does not depend on line numbers."""

    module: str
    function: str
    kind: str
    change: str  # "source line → changed line"
    line: int
    source: str

    @property
    def name(self) -> str:
        return f"{self.module}:{self.function} [{self.kind}] {self.change}"


class DropKeyword(Operator):
    """Drops a keyword argument of a call, so that the default takes its place."""

    def mutation_positions(self, node: Any) -> Iterator[tuple]:
        for index in self._keywords(node):
            yield node.children[index].start_pos, node.children[index].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        at = self._keywords(node)[index]
        children = list(node.children)
        has_comma_after = at + 1 < len(children) and children[at + 1] == ","
        first = at - 1 if not has_comma_after and at and children[at - 1] == "," else at
        del children[first : first + (2 if has_comma_after or first < at else 1)]
        changed = copy.copy(node)  # the visitor goes on reading the positions of the node itself
        changed.children = children
        return changed

    @staticmethod
    def _keywords(node: Any) -> list[int]:
        is_call = node.type == "arglist" or (node.type == "trailer" and node.children[0] == "(")
        if not is_call or (node.parent is not None and node.parent.type in ("classdef", "decorator")):
            return []
        named = [i for i, c in enumerate(node.children) if c.type == "argument" and c.children[1] == "="]
        return [i for i in named if node.children[i].children[0] != "strict"]

    @classmethod
    def examples(cls):
        return Example("f(x, a=1)", "f(x)"), Example("f(a=1)", "f()"), Example("f(a=1, b=2)", "f( b=2)")


def kind_of(operator: str) -> str | None:
    """The kind of mutant that one of cosmic-ray's operators makes; None if it is not used here."""
    kind, *names = operator.partition("/")[2].split("_")
    if kind == "ReplaceBinaryOperator" and not any({*names} <= group for group in (ARITHMETIC, BITS)):
        return None
    if kind == "ReplaceComparisonOperator" and not any({*names} <= group for group in (VALUES, IDENTITY)):
        return None
    if kind == "ReplaceUnaryOperator" and "Delete" not in names:
        return None
    return None if kind in ("VariableReplacer", "VariableInserter", "RemoveDecorator") else kind


def operators() -> Iterator[tuple[str, Operator]]:
    for name in sorted(cosmic_ray.plugins.operator_names()):
        kind = kind_of(name)
        if kind is not None:
            yield kind, cosmic_ray.plugins.get_operator(name)()
    yield "DropKeyword", DropKeyword()


def idle_lines(tree: ast.Module) -> tuple[set[tuple[int, int]], set[int]]:
    """((line, column) of all annotations, lines under `if TYPE_CHECKING:`): mutants there change nothing."""
    places, lines = set(), set()
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            value = getattr(node, name, None)
            if isinstance(value, ast.expr):
                last, end = value.end_lineno or 0, value.end_col_offset or 0
                for line in range(value.lineno, last + 1):
                    first = value.col_offset if line == value.lineno else 0
                    places |= {(line, column) for column in range(first, end if line == last else LONGEST_LINE)}
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            lines |= {*range(node.lineno, (node.end_lineno or 0) + 1)}
    return places, lines


def guards(tree: ast.Module) -> set[tuple[int, int]]:
    """(line, column) of values that no test can see: of `GUARDS` and of defaults that a function deletes."""
    values: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            values += unread_defaults(node)
        if isinstance(node, ast.keyword) and node.arg in GUARDS:
            values.append(node.value)
    keywords = {(node.lineno, node.col_offset) for node in ast.walk(tree)
                if isinstance(node, ast.keyword) and node.arg in GUARDS}  # fmt: skip
    return {(value.lineno, value.col_offset) for value in values} | keywords


def unread_defaults(function: ast.FunctionDef) -> list[ast.expr]:
    """The defaults of the arguments that a function deletes because it does not need them."""
    deleted = {name.id for node in function.body if isinstance(node, ast.Delete) for name in node.targets
               if isinstance(name, ast.Name)}  # fmt: skip
    positional = [*function.args.posonlyargs, *function.args.args]
    defaults = zip(positional[len(positional) - len(function.args.defaults) :], function.args.defaults, strict=True)
    named = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    return [value for arg, value in (*defaults, *named) if value is not None and arg.arg in deleted]


def functions(tree: ast.Module) -> dict[int, str]:
    """The outermost function or method around each line, its signature and decorators with it."""
    names: dict[int, str] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                visit(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                names.update(dict.fromkeys(range(first, (child.end_lineno or 0) + 1), prefix + child.name))
            else:
                visit(child, prefix)

    visit(tree, "")
    return names


def describe(old: str, new: str) -> tuple[int, str]:
    """(number of the first line that differs, "its text → its new text")."""
    before, after = old.splitlines(), new.splitlines()
    first = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before) - 1)
    pairs = [(a.strip(), " ".join(b.split())) for a, b in zip(before[first:], after[first:], strict=False) if a != b]
    if len(before) != len(after):
        pairs = pairs[:1]
    return first + 1, f"{pairs[0][0]} → {pairs[0][1]}" if pairs else f"{before[first].strip()} → (dropped)"


def all_mutants(root: pathlib.Path, module: str, seed: int) -> list[Mutant]:
    """Every place of the module once for each kind of change, in the order of the source."""
    source = (root / module).read_text(encoding="utf-8")
    tree = ast.parse(source)
    idle, unread = idle_lines(tree)
    function_of = functions(tree)
    nodes = list(ast_nodes(get_ast(source)))
    choices: dict[tuple, list[tuple[Operator, int]]] = defaultdict(list)
    for kind, operator in operators():
        occurrence = 0
        for node in nodes:
            for start, stop in operator.mutation_positions(node):  # type: ignore[union-attr]
                if start not in idle and start[0] not in unread:
                    choices[start, stop, kind].append((operator, occurrence))
                occurrence += 1
    rng, unseen = random.Random(f"{seed} {module}"), guards(tree)
    mutants, unchanged = [], ast.dump(tree)
    for start, stop, kind in sorted(choices):
        operator, occurrence = rng.choice(choices[start, stop, kind])
        if start in unseen:
            continue
        changed = mutate_code(source, operator, occurrence) or source
        try:
            is_new = ast.dump(ast.parse(changed)) != unchanged
        except SyntaxError:
            continue
        if is_new:
            line, change = describe(source, changed)
            mutants.append(Mutant(module, function_of.get(start[0], IMPORT), kind, change, line, changed))
    return unique(mutants)


def unique(mutants: Iterable[Mutant]) -> list[Mutant]:
    """Mutants of one name, such as two on one line that read the same, get a number."""
    seen: dict[str, int] = defaultdict(int)
    result = []
    for mutant in mutants:
        seen[mutant.name] += 1
        n = seen[mutant.name]
        result.append(mutant if n == 1 else dataclasses.replace(mutant, change=f"{mutant.change} (no. {n})"))
    return result


def sample(mutants: list[Mutant], size: int, seed: int) -> list[Mutant]:
    """A random sample in the order of the source; all mutants where there are no more."""
    if len(mutants) <= size:
        return mutants
    chosen = random.Random(f"{seed} {mutants[0].module} sample").sample(range(len(mutants)), size)
    return [mutants[i] for i in sorted(chosen)]
