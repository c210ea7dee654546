"""Expressions: precedence climbing over operands and the operators between them."""

from __future__ import annotations

from numjax.expr.operators import INFIX, JUXTAPOSED, PRODUCT, RELATION, SUM, Infix
from numjax.expr.sequences import Sequences
from numjax.expr.state import ANNOTATIONS, BARS, DIGITS, MISSING, STOPS, Stop, bare, hint
from numjax.expr.tree import Tree

_FRACTIONS = frozenset([r"\frac", r"\dfrac", r"\tfrac"])


class Reader(Sequences):
    """Reads expressions; formulas are in `numjax.expr.sequences`, factors in `numjax.expr.operands`."""

    __slots__ = ()

    def expression(self, minimum: int) -> Tree | None:
        """Operands joined by operators of at least that power; None if no operand is there."""
        tokens = self.tokens
        op = INFIX.get(tokens[self.i])
        left = None
        while left is None:
            at = self.i
            if op is None:
                left = self.operand()
            elif op.power <= RELATION:
                return None
            else:
                left = self.signed(op)
            if left is None:
                # Something without a trace, a font: what it is for comes after it.
                if self.i == at:
                    return None
                op = INFIX.get(tokens[self.i])
        parts: list[Tree] = []
        last: object = None
        products = self.rules.products
        nary = self.rules.nary
        while True:
            token = tokens[self.i]
            op = INFIX.get(token)
            head = None
            if op is None:
                if token in STOPS or token in ANNOTATIONS or (token[-1:] == "}" and self.connects(self.i)):
                    break
                if minimum > PRODUCT:
                    break
                if token in BARS:
                    done, left, parts, last = self.at_bar(token, left, parts, last)
                    if done:
                        break
                    if done is None:
                        continue
                at = self.i
                right = self.operand()
                if right is None:
                    if self.i == at:
                        raise Stop(f"{token} is not expected here", at)
                    continue
                if token in _FRACTIONS and tokens[at - 1][-1:] in DIGITS and self.rules.mixed:
                    number = parts[-1] if parts else left
                    if (
                        number.type == "N"
                        and "." not in number.symbol
                        and all(c.type == "N" for c in right.children or ())
                    ):
                        # 68 5/7: a whole number and a fraction are a sum.
                        mixed = Tree("U", "plus", [number, right])
                        if parts:
                            parts[-1] = mixed
                        else:
                            left = mixed
                        continue
                op = JUXTAPOSED
            else:
                if op.power < minimum:
                    break
                self.i += 1
                following = tokens[self.i]
                if following == "^" or following == "_":
                    head = self.scripted_sign(op)
                right = self.expression(op.power + 1)
                if right is None:
                    sign = bare(op, self.published) if head is None else head
                    left = self.grouped(last, parts, left)
                    left = Tree("O", "limit-from", [left, sign])
                    last = None
                    parts = []
                    continue
            # One node for a row of the same operator: in the default any sign of a product will do.
            key: object = (op.type, op.symbol) if products else op
            flat = op.flat or (nary and (op.symbol == "minus" or op.symbol == "divide" or op.published[0] == "F"))
            if head is None and flat and key == last and (products or op is last):
                parts.append(right)
                continue
            left = self.grouped(last, parts, left)
            if head is not None:
                left = Tree("+", hint(head), [head, left, right])
                last = None
                parts = []
            else:
                last = key
                parts = [left, right]
        return self.grouped(last, parts, left)

    def grouped(self, last: object, parts: list[Tree], left: Tree) -> Tree:
        """The node of the operator that was being read, or what stood there."""
        if not parts:
            return left
        if type(last) is tuple:
            return Tree(last[0], last[1], parts)
        kind, symbol = last.published  # type: ignore[union-attr]
        return Tree(kind, symbol, parts)

    def signed(self, op: Infix) -> Tree | None:
        """A sign in front of an operand: -x, ±x, ⊕x."""
        self.i += 1
        tokens = self.tokens
        head = self.scripted_sign(op) if tokens[self.i] in ("^", "_") else None
        self.enter()
        right = self.expression(PRODUCT)
        self.level -= 1
        sign = bare(op, self.published) if head is None else head
        if right is None:
            return sign
        if head is not None:
            return Tree("+", hint(head), [head, right])
        if op.power == PRODUCT:
            # × x: something is missing before it.
            return Tree(op.type, op.symbol, [MISSING, right])
        kind, symbol = op.published if self.published else (op.type, op.symbol)
        return Tree(kind, symbol, [right])

    def at_bar(
        self, token: str, left: Tree, parts: list[Tree], last: object
    ) -> tuple[bool | None, Tree, list[Tree], object]:
        """A bar behind an operand: it closes (True), opens (False), or was used up (None)."""
        if self.bar == token or (self.bar == "any" and token != r"\|"):
            return True, left, parts, last
        if self.in_set and not self.opens(self.i):
            return True, left, parts, last
        following = self.tokens[self.i + 1]
        if following == "_" and not self.opens(self.i):
            self.i += 1
            left = self.grouped(last, parts, left)
            bounds = []
            for script in ("_", "^"):
                if self.tokens[self.i] == script:
                    self.i += 1
                    bounds.append(self.argument() or MISSING)
            return None, Tree("O", "evaluated-at", [left, *bounds]), [], None
        if token != r"\mid" and self.opens(self.i):
            return False, left, parts, last
        if self.in_set or not self.published:
            return True, left, parts, last
        self.i += 1
        right = self.expression(SUM)
        left = self.grouped(last, parts, left)
        return None, Tree("O", "conditional", [left, right or MISSING]), [], None
