"""Formulas in a row: separators, lists, relations and their chains."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Collection, Sequence

from numjax.expr.latex.lexer import WIDE
from numjax.expr.latex.operands import Operands
from numjax.expr.latex.state import (
    ANNOTATIONS,
    BARS,
    CLOSERS,
    FRACTIONS,
    LARGEST,
    MISSING,
    SEPARATORS,
    STOPS,
    Parts,
    Stop,
    hint,
    make_sign,
)
from numjax.expr.operators import (
    ARROWS,
    CONDITIONAL,
    CONNECTIVE,
    EQUALITIES,
    INFIX,
    LOGIC,
    META,
    META_RELATIONS,
    PRODUCT,
    RELATION,
    SUM,
)
from numjax.expr.tree import Tree

_COLON = frozenset(":")  # what stands between formulas by default


def _split_chain(chain: list, indices: Collection[int]) -> tuple[list[tuple], list[list]]:
    """(the operators of a chain at these indices, the parts between them)."""
    ops: list[tuple] = []
    sides: list[list] = [[chain[0]]]
    for index in range(1, len(chain), 2):
        if index in indices:
            ops.append(chain[index])
            sides.append([chain[index + 1]])
        else:
            sides[-1] += chain[index : index + 2]
    return ops, sides


def _find_operators(chain: list, matches: Callable[[tuple], bool]) -> list[int]:
    """The indices of the operators of a chain that match."""
    return [index for index in range(1, len(chain), 2) if matches(chain[index])]


def _interleave(trees: Sequence[Tree], ops: Sequence[tuple]) -> list:
    """The chain of these operands and operators."""
    return [trees[0], *itertools.chain.from_iterable(zip(ops, trees[1:], strict=True))]


def _make_operation(op: tuple, operands: list[Tree]) -> Tree:
    kind, symbol, head, _ = op
    return Tree(kind, symbol, operands) if head is None else Tree("+", hint(head), [head, *operands])


class Sequences(Operands):
    """Reads formulas up to what closes their group."""

    __slots__ = ()

    def parse_statement(self) -> Tree | None:
        """Formulas up to what closes the group, as one tree: alone, a list, or a sequence."""
        return self.join(self.parse_formulas())

    def parse_formulas(self) -> Parts:
        """`parse_sequence`; if it is the upper half of a fraction a \\over b, the fraction."""
        parts = self.parse_sequence()
        token = self.tokens[self.i]
        while token in FRACTIONS:
            upper = self.join(parts)
            self.i += 1
            if token == r"\above":
                self.parse_argument()
            lower = self.join(self.parse_sequence())
            pair = [upper or MISSING, lower or MISSING]
            parts = Parts([[Tree("O", "binomial" if token == r"\choose" else "divide", pair)]], [False], False)
            token = self.tokens[self.i]
        return parts

    def parse_sequence(self) -> Parts:
        """Formulas and the separators between them."""
        chains: list[list] = []
        wides: list[bool] = []
        semicolon = False
        tokens = self.tokens
        while True:
            start = self.i
            if tokens[start][-1:] == "}" and self.is_connective_at(start) and (word := self.parse_operand()):
                # Like a formula between wide spaces.
                if wides:
                    wides[-1] = True
                chains.append([word])
                wides.append(True)
                continue
            chain = self.parse_chain()
            if chain:
                chains.append(chain)
                wides.append(False)
            token = tokens[self.i]
            wide = comma = False
            while token in SEPARATORS and not (token == r"\\" and self.environments):
                wide = wide or token in (WIDE, r"\\")
                comma = comma or token in (",", ";")
                semicolon = semicolon or token == ";"
                self.i += 1
                if token == r"\\" and tokens[self.i] == "[":
                    self.skip_bracket()
                token = tokens[self.i]
            if wides:
                wides[-1] = wide and not comma
            if token in BARS:
                if (wide or comma) and self.begins_formula(token):
                    continue
                break
            if token in CLOSERS or token in FRACTIONS or token == r"\\":
                break
            if self.in_set and token in (":", r"\colon"):
                break
            if self.i != start and self.is_connective_at(self.i):
                continue
            if self.i == start or (not wide and not comma and tokens[self.i - 1] != "."):
                raise Stop(f"{token} is not expected here", self.i)
        return Parts(chains, wides, semicolon)

    def begins_formula(self, bar: str) -> bool:
        """Whether a bar behind a separator begins the next formula, as in x, |y|, instead of closing this one."""
        if self.bar:
            return bar != self.bar or self.opens_group(self.i)
        if self.in_set:
            return self.opens_group(self.i)
        if not self.opens_group(self.i):
            raise Stop(f"{bar} is not expected here", self.i)
        return True

    def join(self, parts: Parts) -> Tree | None:
        """Formulas as one tree: expressions join the relation before them, or the first one after them."""
        chains = parts.chains
        if len(chains) == 1:
            chain = chains[0]
            return chain[0] if len(chain) == 1 else self.make_relation(chain)
        if not chains:
            return None
        if not self.as_published and True in parts.wides[:-1]:
            return Tree("O", "form-seq", self._join_spaced(parts))
        if all(len(chain) == 1 for chain in chains):
            return self.make_list([chain[0] for chain in chains])
        relations: list[tuple[list, list[Tree]]] = []
        expressions: list[Tree] = []
        for chain in chains:
            if len(chain) > 1:
                if expressions:
                    chain = [self.make_list([*expressions, chain[0]]), *chain[1:]]
                    expressions = []
                relations.append((chain, []))
            elif relations:
                relations[-1][1].append(chain[0])
            else:
                expressions.append(chain[0])
        trees = []
        for chain, members in relations:
            trees.append(
                self.make_relation([*chain[:-1], self.make_list([chain[-1], *members])] if members else chain)
            )
        tree = trees[-1]
        if not self.as_published:
            return Tree("O", "form-seq", trees) if len(trees) > 1 else tree
        for previous in reversed(trees[:-1]):
            tree = Tree("O", "form-seq", [previous, tree])
        return tree

    def _join_spaced(self, parts: Parts) -> list[Tree]:
        """The formulas between wide spaces."""
        trees: list[Tree] = []
        start = 0
        for index, wide in enumerate(parts.wides, 1):
            if wide or index == len(parts.wides):
                tree = self.join(Parts(parts.chains[start:index], [False], False))
                start = index
                if tree is not None:
                    trees.append(tree)
        return trees

    @staticmethod
    def make_list(trees: list[Tree]) -> Tree:
        return Tree("M", f"L-{len(trees)}", trees)

    def parse_chain(self) -> list:
        """Operands with relations between them: as in `Parts`; empty if nothing is there."""
        tokens = self.tokens
        token = tokens[self.i]
        op = INFIX.get(token)
        if op is not None:
            next_token = tokens[self.i + 1]
            if next_token in STOPS or (next_token in BARS and self.bar == next_token):
                self.i += 1
                return [make_sign(op, self.as_published)]
        out: list = []
        if op is not None and op.power in LOGIC:
            out.append(self.parse_signed(op))  # a sign of logic before a statement
        elif op is None or op.power > RELATION:
            first = self.parse_expression(SUM)
            if first is None:
                op = INFIX.get(tokens[self.i])
                if op is None:
                    return out
                first = MISSING
            out.append(self.parse_annotations(first) if tokens[self.i] in ANNOTATIONS else first)
        else:
            out.append(MISSING)
        while True:
            token = tokens[self.i]
            op = INFIX.get(token)
            if op is None:
                if token in BARS and not self.as_published and self.is_relation_bar(token):
                    self.i += 1
                    out.append(("O", "conditional", None, CONDITIONAL))
                elif token == WIDE and self._skip_space_before_sign():
                    continue
                else:
                    return out
            elif op.power == META and self.in_set:
                return out
            else:
                self.i += 1
                head = None
                if tokens[self.i] in ("^", "_"):
                    head = self.parse_scripted_sign(op)
                out.append((*(op.published if self.as_published else (op.type, op.symbol)), head, op.power))
            while tokens[self.i] == WIDE and not self.as_published:
                self.i += 1
            next_token = INFIX.get(tokens[self.i])
            right = None
            if next_token is None or next_token.power > RELATION:
                right = self.parse_expression(SUM)
            if right is None and op is not None and op.power in LOGIC and next_token is None:
                out[-2:] = [Tree("O", "limit-from", [out[-2], out[-1][2] or make_sign(op, False)])]
                continue
            if right is None:
                right = MISSING
            out.append(self.parse_annotations(right) if tokens[self.i] in ANNOTATIONS else right)

    def _skip_space_before_sign(self) -> bool:
        """Skips the wide space before a relation or connective, a \\quad \\Rightarrow \\quad b, if there is one."""
        index = self.i
        while self.tokens[index] == WIDE:
            index += 1
        op = INFIX.get(self.tokens[index])
        if self.as_published or op is None or op.power > RELATION or (op.power == META and self.in_set):
            return False
        self.i = index
        return True

    def make_relation(self, chain: list) -> Tree:
        """One node for a relation, `and` of the relations between neighbours for a chain, looser ones around it.

        a : b is the loosest. By default the rest of the formula is the right side of the first; published, colons
        and the like make a chain of their own.
        """
        if len(chain) == 3:
            return _make_operation(chain[1], chain[::2])
        loosest = META_RELATIONS if self.as_published else _COLON
        ops, sides = _split_chain(chain, set(_find_operators(chain, lambda op: op[1] in loosest)))
        if not self.as_published:
            if ops and (ratios := self._make_ratios(chain)):
                return ratios
            return self._nest_right(ops, [self._make_statement(side) for side in sides])
        trees = [self._make_pairs(side) for side in sides]
        return self._make_pairs(_interleave(trees, ops))

    @staticmethod
    def _nest_right(ops: list, trees: list[Tree]) -> Tree:
        """a : b : c, nested from the right."""
        tree = trees[-1]
        for op, left in zip(reversed(ops), reversed(trees[:-1]), strict=True):
            tree = Tree(op[0], op[1], [left, tree])
        return tree

    def _make_ratios(self, chain: list) -> Tree | None:
        """a : b = c : d, if all sides are ratios of equally many terms; else None."""
        equalities, sides = _split_chain(chain, set(_find_operators(chain, lambda op: op[1] in EQUALITIES)))
        if not equalities or len({len(side) for side in sides}) > 1 or len(sides[0]) == 1:
            return None
        if any(op[1] != ":" for side in sides for op in side[1::2]):
            return None
        ratios = [self._nest_right(side[1::2], side[::2]) for side in sides]
        return self._make_pairs(_interleave(ratios, equalities))

    def _make_statement(self, chain: list) -> Tree:
        """Statements with connectives between them, then a | b, then the signs of logic, then relations."""
        logic_indices = _find_operators(chain, lambda op: op[3] in LOGIC)
        connective_indices = _find_operators(chain, lambda op: op[3] == CONNECTIVE)
        if logic_indices and not connective_indices:
            connective_indices = self._find_looser(chain, logic_indices)
        if connective_indices:
            ops, sides = _split_chain(chain, set(connective_indices))
            return self._make_pairs(_interleave([self._make_statement(side) for side in sides], ops))
        bar_indices = _find_operators(chain, lambda op: op[3] == CONDITIONAL)
        if bar_indices and (len(bar_indices) == 1 or not logic_indices):
            ops, sides = _split_chain(chain, set(bar_indices))
            return self._nest_right(ops, [self._make_statement(side) for side in sides])
        if not logic_indices:
            return self._make_pairs(chain)
        loosest = min(chain[index][3] for index in logic_indices)
        ops, sides = _split_chain(chain, {index for index in logic_indices if chain[index][3] == loosest})
        return self._make_logical(ops, [self._make_statement(side) for side in sides])

    @staticmethod
    def _find_looser(chain: list, logic_indices: list[int]) -> list[int]:
        """The indices of operators that are looser than the signs of logic beside them: arrows and ≡ between
        propositions (not a congruence with its modulus), unless each side of a sign has one; or the only relation, if
        it stands between signs."""
        arrows = [
            index
            for index in _find_operators(chain, lambda op: op[1] in ARROWS)
            if chain[index][1] != "equivalent" or chain[index + 1].symbol != "annotated"
        ]
        if arrows and [bisect.bisect(logic_indices, index) for index in arrows] == list(
            range(len(logic_indices) + 1)
        ):
            return []
        relations = _find_operators(chain, lambda op: op[3] == RELATION)
        if not arrows and len(relations) == 1 and logic_indices[0] < relations[0] < logic_indices[-1]:
            return relations
        return arrows

    @staticmethod
    def _make_logical(ops: list[tuple], trees: list[Tree]) -> Tree:
        """p ∧ q ∧ r as one node; an operator with scripts has a node of its own."""
        parts, last = trees[:1], ops[0]
        for op, tree in zip(ops, trees[1:], strict=True):
            if len(parts) > 1 and (op != last or op[2] is not None):
                parts = [_make_operation(last, parts)]
            last = op
            parts.append(tree)
        return _make_operation(last, parts)

    def _make_pairs(self, chain: list) -> Tree:
        """Relations between neighbours."""
        if len(chain) == 1:
            return chain[0]
        pairs = [
            _make_operation(chain[index], [chain[index - 1], chain[index + 1]]) for index in range(1, len(chain), 2)
        ]
        return pairs[0] if len(pairs) == 1 else self.check_size(Tree("U", "and", pairs))

    def check_size(self, tree: Tree) -> Tree:
        """The tree, if not too large: a chain holds its inner operands twice, and chains in chains twice that."""
        if tree.size > LARGEST:
            raise Stop(f"more than {LARGEST} nodes", self.i)
        return tree

    def parse_annotations(self, tree: Tree) -> Tree:
        """x \\pmod n: x annotated with its modulus."""
        while (token := self.tokens[self.i]) in ANNOTATIONS:
            self.i += 1
            if token == r"\mod":
                modulus = self.parse_expression(PRODUCT)
            else:
                modulus = self.parse_argument()
            tree = Tree("O", "annotated", [tree, Tree("F", token[1:], [modulus or MISSING])])
        if token not in STOPS and token not in INFIX and token not in BARS and (not self.in_set or token != ":"):
            rest = self.parse_expression(PRODUCT)
            if rest is not None:
                tree = Tree("U", "times", [tree, rest])
        return tree
