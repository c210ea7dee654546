"""Formulas in a row: separators, lists, relations and their chains."""

from __future__ import annotations

import itertools

from numjax.expr.lexer import WIDE
from numjax.expr.operands import Operands
from numjax.expr.operators import INFIX, META, PRODUCT, RELATION, SUM
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

_LOOSE = frozenset([":", "conditional"])  # looser than the relations beside them


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
        if op is None or op.power > RELATION:
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
                    out.append(("O", "conditional", None))
                else:
                    return out
            elif op.power == META and self.in_set:
                return out
            else:
                self.i += 1
                head = None
                if tokens[self.i] in ("^", "_"):
                    head = self.scripted_sign(op)
                out.append((*(op.published if self.published else (op.type, op.symbol)), head))
            following = INFIX.get(tokens[self.i])
            right = None
            if following is None or following.power > RELATION:
                right = self.expression(SUM)
            if right is None:
                right = MISSING
            out.append(self.annotated(right) if tokens[self.i] in ANNOTATIONS else right)

    def relation(self, chain: list) -> Tree:
        """One node for a relation, `and` of the relations between neighbours for a chain, looser ones around it.

        a : b is looser than a relation, and so is a | b unless the rules have it LaTeXML's way. By default the rest
        of the formula is the right side of the first; published, colons make a chain of their own.
        """
        sides: list[list] = [[chain[0]]]
        loose = []
        for index in range(1, len(chain), 2):
            if chain[index][1] in _LOOSE:
                loose.append(chain[index])
                sides.append([chain[index + 1]])
            else:
                sides[-1] += chain[index : index + 2]
        trees = [side[0] if len(side) == 1 else self._pairs(side) for side in sides]
        if self.published and loose:
            pairs = [Tree("F", ":", pair) for pair in itertools.pairwise(trees)]
            return pairs[0] if len(pairs) == 1 else self.bounded(Tree("U", "and", pairs))
        tree = trees[-1]
        for op, left in zip(reversed(loose), reversed(trees[:-1]), strict=True):
            tree = Tree(op[0], op[1], [left, tree])
        return tree

    def _pairs(self, chain: list) -> Tree:
        """Relations between neighbours."""
        pairs = []
        for index in range(1, len(chain), 2):
            kind, symbol, head = chain[index]
            left, right = chain[index - 1], chain[index + 1]
            if head is None:
                pairs.append(Tree(kind, symbol, [left, right]))
            else:
                pairs.append(Tree("+", hint(head), [head, left, right]))
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
