"""Formulas in a row: separators, lists, relations and their chains."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Collection, Sequence

from numjax.expr.lexer import WIDE
from numjax.expr.operands import Operands
from numjax.expr.operators import (
    ARROWS,
    CONDITIONAL,
    CONNECTIVE,
    EQUALITIES,
    INFIX,
    LOGIC,
    META,
    PRODUCT,
    RELATION,
    SUM,
)
from numjax.expr.state import (
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
    bare,
    hint,
)  # fmt: skip
from numjax.expr.tree import Tree


def _parted(chain: list, places: Collection[int]) -> tuple[list[tuple], list[list]]:
    """(the operators of a chain that part it, at these places; what is between them)."""
    ops: list[tuple] = []
    sides: list[list] = [[chain[0]]]
    for index in range(1, len(chain), 2):
        if index in places:
            ops.append(chain[index])
            sides.append([chain[index + 1]])
        else:
            sides[-1] += chain[index : index + 2]
    return ops, sides


def _places(chain: list, wanted: Callable[[tuple], bool]) -> list[int]:
    """Where a chain has such operators."""
    return [index for index in range(1, len(chain), 2) if wanted(chain[index])]


def _woven(trees: Sequence[Tree], ops: Sequence[tuple]) -> list:
    """The chain of these operands and operators."""
    return [trees[0], *itertools.chain.from_iterable(zip(ops, trees[1:], strict=True))]


def _between(op: tuple, operands: list[Tree]) -> Tree:
    kind, symbol, head, _ = op
    return Tree(kind, symbol, operands) if head is None else Tree("+", hint(head), [head, *operands])


class Sequences(Operands):
    """Reads formulas up to what closes their group."""

    __slots__ = ()

    def statement(self) -> Tree | None:
        """Formulas up to what closes the group, as one tree: alone, a list, or a sequence."""
        return self.joined(self.formulas())

    def formulas(self) -> Parts:
        """`sequence`, and where it is the upper half of a fraction a \\over b, the fraction."""
        parts = self.sequence()
        token = self.tokens[self.i]
        while token in FRACTIONS:
            above = self.joined(parts)
            self.i += 1
            if token == r"\above":
                self.argument()
            below = self.joined(self.sequence())
            pair = [above or MISSING, below or MISSING]
            parts = Parts([[Tree("O", "binomial" if token == r"\choose" else "divide", pair)]], [False], False)
            token = self.tokens[self.i]
        return parts

    def sequence(self) -> Parts:
        """Formulas and the separators between them."""
        chains: list[list] = []
        wides: list[bool] = []
        semicolon = False
        tokens = self.tokens
        while True:
            at = self.i
            if tokens[at][-1:] == "}" and self.connects(at) and (word := self.operand()):
                # Like a formula between wide spaces.
                if wides:
                    wides[-1] = True
                chains.append([word])
                wides.append(True)
                continue
            chain = self.chain()
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
                if (wide or comma) and self.begins(token):
                    continue
                break
            if token in CLOSERS or token in FRACTIONS or token == r"\\":
                break
            if self.in_set and token in (":", r"\colon"):
                break
            if self.i != at and self.connects(self.i):
                continue
            if self.i == at or (not wide and not comma and tokens[self.i - 1] != "."):
                raise Stop(f"{token} is not expected here", self.i)
        return Parts(chains, wides, semicolon)

    def begins(self, bar: str) -> bool:
        """Whether a bar behind a separator begins the next formula, as in x, |y|, and does not close this one."""
        if self.bar:
            return bar != self.bar or self.opens(self.i)
        if self.in_set:
            return self.opens(self.i)
        if not self.opens(self.i):
            raise Stop(f"{bar} is not expected here", self.i)
        return True

    def joined(self, parts: Parts) -> Tree | None:
        """Formulas as one tree: expressions join the relation before them, or the first one after them."""
        chains = parts.chains
        if len(chains) == 1:
            chain = chains[0]
            return chain[0] if len(chain) == 1 else self.relation(chain)
        if not chains:
            return None
        if not self.published and True in parts.wides[:-1]:
            return Tree("O", "form-seq", self._divided(parts))
        if all(len(chain) == 1 for chain in chains):
            return self.listed([chain[0] for chain in chains])
        merged: list[tuple[list, list[Tree]]] = []
        waiting: list[Tree] = []
        for chain in chains:
            if len(chain) > 1:
                if waiting:
                    chain = [self.listed([*waiting, chain[0]]), *chain[1:]]
                    waiting = []
                merged.append((chain, []))
            elif merged:
                merged[-1][1].append(chain[0])
            else:
                waiting.append(chain[0])
        trees = []
        for chain, listed in merged:
            trees.append(self.relation([*chain[:-1], self.listed([chain[-1], *listed])] if listed else chain))
        tree = trees[-1]
        if not self.published:
            return Tree("O", "form-seq", trees) if len(trees) > 1 else tree
        for before in reversed(trees[:-1]):
            tree = Tree("O", "form-seq", [before, tree])
        return tree

    def _divided(self, parts: Parts) -> list[Tree]:
        """The formulas between wide spaces."""
        trees: list[Tree] = []
        begin = 0
        for index, wide in enumerate(parts.wides, 1):
            if wide or index == len(parts.wides):
                tree = self.joined(Parts(parts.chains[begin:index], [False], False))
                begin = index
                if tree is not None:
                    trees.append(tree)
        return trees

    @staticmethod
    def listed(trees: list[Tree]) -> Tree:
        return Tree("M", f"L-{len(trees)}", trees)

    def chain(self) -> list:
        """Operands with relations between them: as in `Parts`; empty if nothing is there."""
        tokens = self.tokens
        token = tokens[self.i]
        op = INFIX.get(token)
        if op is not None:
            following = tokens[self.i + 1]
            if following in STOPS or (following in BARS and self.bar == following):
                self.i += 1
                return [bare(op, self.published)]
        out: list = []
        if op is not None and op.power in LOGIC:
            out.append(self.signed(op))  # a sign of logic before a statement
        elif op is None or op.power > RELATION:
            first = self.expression(SUM)
            if first is None:
                op = INFIX.get(tokens[self.i])
                if op is None:
                    return out
                first = MISSING
            out.append(self.annotated(first) if tokens[self.i] in ANNOTATIONS else first)
        else:
            out.append(MISSING)
        while True:
            token = tokens[self.i]
            op = INFIX.get(token)
            if op is None:
                if token in BARS and not self.published and self.divides(token):
                    self.i += 1
                    out.append(("O", "conditional", None, CONDITIONAL))
                elif token == WIDE and self._spaced_sign():
                    continue
                else:
                    return out
            elif op.power == META and self.in_set:
                return out
            else:
                self.i += 1
                head = None
                if tokens[self.i] in ("^", "_"):
                    head = self.scripted_sign(op)
                out.append((*(op.published if self.published else (op.type, op.symbol)), head, op.power))
            while tokens[self.i] == WIDE and not self.published:
                self.i += 1
            following = INFIX.get(tokens[self.i])
            right = None
            if following is None or following.power > RELATION:
                right = self.expression(SUM)
            if right is None and op is not None and op.power in LOGIC and following is None:
                out[-2:] = [Tree("O", "limit-from", [out[-2], out[-1][2] or bare(op, False)])]
                continue
            if right is None:
                right = MISSING
            out.append(self.annotated(right) if tokens[self.i] in ANNOTATIONS else right)

    def _spaced_sign(self) -> bool:
        """Skips the wide space before a relation or connective, a \\quad \\Rightarrow \\quad b, if there is one."""
        at = self.i
        while self.tokens[at] == WIDE:
            at += 1
        op = INFIX.get(self.tokens[at])
        if self.published or op is None or op.power > RELATION or (op.power == META and self.in_set):
            return False
        self.i = at
        return True

    def relation(self, chain: list) -> Tree:
        """One node for a relation, `and` of the relations between neighbours for a chain, looser ones around it.

        a : b is the loosest. By default the rest of the formula is the right side of the first; published, colons
        make a chain of their own.
        """
        ops, sides = _parted(chain, set(_places(chain, lambda op: op[1] == ":")))
        if not self.published:
            if ops and (ratios := self._ratios(chain)):
                return ratios
            return self._loosened(ops, [self._stated(side) for side in sides])
        trees = [self._pairs(side) for side in sides]
        if ops:
            pairs = [Tree("F", ":", pair) for pair in itertools.pairwise(trees)]
            return pairs[0] if len(pairs) == 1 else self.bounded(Tree("U", "and", pairs))
        return trees[0]

    @staticmethod
    def _loosened(ops: list, trees: list[Tree]) -> Tree:
        """a : b : c from the right."""
        tree = trees[-1]
        for op, left in zip(reversed(ops), reversed(trees[:-1]), strict=True):
            tree = Tree(op[0], op[1], [left, tree])
        return tree

    def _ratios(self, chain: list) -> Tree | None:
        """a : b = c : d, where all sides are ratios of equally many; None if they are not."""
        equal, sides = _parted(chain, set(_places(chain, lambda op: op[1] in EQUALITIES)))
        if not equal or len({len(side) for side in sides}) > 1 or len(sides[0]) == 1:
            return None
        if any(op[1] != ":" for side in sides for op in side[1::2]):
            return None
        made = [self._loosened(side[1::2], side[::2]) for side in sides]
        return self._pairs(_woven(made, equal))

    def _stated(self, chain: list) -> Tree:
        """Statements with connectives between them, then a | b, then the signs of logic, then relations."""
        logical = _places(chain, lambda op: op[3] in LOGIC)
        parts = _places(chain, lambda op: op[3] == CONNECTIVE)
        if logical and not parts:
            parts = self._beside_logic(chain, logical)
        if parts:
            ops, sides = _parted(chain, set(parts))
            return self._pairs(_woven([self._stated(side) for side in sides], ops))
        bars = _places(chain, lambda op: op[3] == CONDITIONAL)
        if bars and (len(bars) == 1 or not logical):
            ops, sides = _parted(chain, set(bars))
            return self._loosened(ops, [self._stated(side) for side in sides])
        if not logical:
            return self._pairs(chain)
        loosest = min(chain[index][3] for index in logical)
        ops, sides = _parted(chain, {index for index in logical if chain[index][3] == loosest})
        return self._joined_by(ops, [self._stated(side) for side in sides])

    @staticmethod
    def _beside_logic(chain: list, logical: list[int]) -> list[int]:
        """Where what is looser than the signs of logic beside it stands: arrows and ≡ between propositions (not a
        congruence with its modulus), unless each side of a sign has one; or the only relation, between signs."""
        loose = [
            index
            for index in _places(chain, lambda op: op[1] in ARROWS)
            if chain[index][1] != "equivalent" or chain[index + 1].symbol != "annotated"
        ]
        if loose and [bisect.bisect(logical, index) for index in loose] == list(range(len(logical) + 1)):
            return []
        related = _places(chain, lambda op: op[3] == RELATION)
        if not loose and len(related) == 1 and logical[0] < related[0] < logical[-1]:
            return related
        return loose

    @staticmethod
    def _joined_by(ops: list[tuple], trees: list[Tree]) -> Tree:
        """p ∧ q ∧ r as one node; one with scripts stands alone."""
        parts, last = trees[:1], ops[0]
        for op, tree in zip(ops, trees[1:], strict=True):
            if len(parts) > 1 and (op != last or op[2] is not None):
                parts = [_between(last, parts)]
            last = op
            parts.append(tree)
        return _between(last, parts)

    def _pairs(self, chain: list) -> Tree:
        """Relations between neighbours."""
        if len(chain) == 1:
            return chain[0]
        pairs = [_between(chain[index], [chain[index - 1], chain[index + 1]]) for index in range(1, len(chain), 2)]
        return pairs[0] if len(pairs) == 1 else self.bounded(Tree("U", "and", pairs))

    def bounded(self, tree: Tree) -> Tree:
        """A chain holds its inner operands twice, and chains in chains twice that."""
        if tree.size > LARGEST:
            raise Stop(f"more than {LARGEST} nodes", self.i)
        return tree

    def annotated(self, tree: Tree) -> Tree:
        """x \\pmod n: x annotated with its modulus."""
        while (token := self.tokens[self.i]) in ANNOTATIONS:
            self.i += 1
            if token == r"\mod":
                modulus = self.expression(PRODUCT)
            else:
                modulus = self.argument()
            tree = Tree("O", "annotated", [tree, Tree("F", token[1:], [modulus or MISSING])])
        if token not in STOPS and token not in INFIX and token not in BARS and (not self.in_set or token != ":"):
            rest = self.expression(PRODUCT)
            if rest is not None:
                tree = Tree("U", "times", [tree, rest])
        return tree
