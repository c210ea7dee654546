"""Expressions: precedence climbing over operands and the operators between them."""

from __future__ import annotations

from numjax.expr.latex.operands import FRACTION_COMMANDS
from numjax.expr.latex.sequences import Sequences
from numjax.expr.latex.state import ANNOTATIONS, BARS, MISSING, STOPS, Stop, hint, make_sign
from numjax.expr.operators import INFIX, JUXTAPOSED, PRODUCT, RELATION, SUM, Infix
from numjax.expr.symbols import arity
from numjax.expr.tree import Tree


class ExpressionReader(Sequences):
    """Reads expressions; formulas are in `numjax.expr.latex.sequences`, factors in `numjax.expr.latex.operands`."""

    __slots__ = ()

    def parse_expression(self, minimum: int) -> Tree | None:
        """Operands joined by operators of at least that power; None if no operand is there."""
        tokens = self.tokens
        op = INFIX.get(tokens[self.i])
        left = None
        while left is None:
            start = self.i
            if op is None:
                left = self.parse_operand()
            elif op.power <= RELATION:
                return None
            else:
                left = self.parse_signed(op)
            if left is None:
                # A command without a node, such as a font: its operand comes after it.
                if self.i == start:
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
                if token in STOPS or token in ANNOTATIONS or (token[-1:] == "}" and self.is_connective_at(self.i)):
                    break
                if minimum > PRODUCT:
                    break
                if token in BARS:
                    closes, left, parts, last = self.parse_bar(token, left, parts, last)
                    if closes:
                        break
                    if closes is None:
                        continue
                start = self.i
                right = self.parse_operand()
                if right is None:
                    if self.i == start:
                        raise Stop(f"{token} is not expected here", start)
                    continue
                if token in FRACTION_COMMANDS:
                    mixed_number = self.join_mixed_number(start, parts[-1] if parts else left, right)
                    if mixed_number is not None:
                        if parts:
                            parts[-1] = mixed_number
                        else:
                            left = mixed_number
                        continue
                op = JUXTAPOSED
            else:
                if op.power < minimum:
                    break
                self.i += 1
                next_token = tokens[self.i]
                if next_token == "^" or next_token == "_":
                    head = self.parse_scripted_sign(op)
                right = self.parse_expression(op.power + 1)
                if right is None:
                    sign = make_sign(op, self.as_published) if head is None else head
                    left = self.make_row(last, parts, left)
                    left = Tree("O", "limit-from", [left, sign])
                    last = None
                    parts = []
                    continue
            # One node for a row of the same operator: by default all signs of a product count as the same.
            key: object = (op.type, op.symbol) if products else op
            is_flat = op.flat or (nary and (op.symbol == "minus" or op.symbol == "divide" or op.published[0] == "F"))
            if head is None and is_flat and key == last and (products or op is last):
                parts.append(right)
                continue
            left = self.make_row(last, parts, left)
            if head is not None:
                left = Tree("+", hint(head), [head, left, right])
                last = None
                parts = []
            else:
                last = key
                parts = [left, right]
        return self.make_row(last, parts, left)

    def make_row(self, last: object, parts: list[Tree], left: Tree) -> Tree:
        """The node of the last operator with its operands, or the only operand."""
        if not parts:
            return left
        if type(last) is tuple:
            return Tree(last[0], last[1], parts)
        kind, symbol = last.published  # type: ignore[union-attr]
        return Tree(kind, symbol, parts)

    def parse_signed(self, op: Infix) -> Tree | None:
        """A sign in front of an operand: -x, ±x, ⊕x."""
        self.i += 1
        tokens = self.tokens
        head = self.parse_scripted_sign(op) if tokens[self.i] in ("^", "_") else None
        self.enter()
        right = self.parse_expression(PRODUCT)
        self.level -= 1
        sign = make_sign(op, self.as_published) if head is None else head
        if right is None:
            return sign
        if head is not None:
            return Tree("+", hint(head), [head, right])
        if op.power == PRODUCT or (arity(op.type, op.symbol)[0] > 1 and not self.as_published):
            # × x, ∖ x: something is missing before it.
            return Tree(op.type, op.symbol, [MISSING, right])
        kind, symbol = op.published if self.as_published else (op.type, op.symbol)
        return Tree(kind, symbol, [right])

    def parse_bar(
        self, token: str, left: Tree, parts: list[Tree], last: object
    ) -> tuple[bool | None, Tree, list[Tree], object]:
        """A bar after an operand: whether it ends the expression (True), opens a group (False) or is consumed (None);
        then the operand, the parts and the last operator."""
        if self.bar == token or (self.bar == "any" and token != r"\|"):
            return True, left, parts, last
        if self.in_set and not self.opens_group(self.i):
            return True, left, parts, last
        next_token = self.tokens[self.i + 1]
        if next_token == "_" and not self.opens_group(self.i):
            self.i += 1
            left = self.make_row(last, parts, left)
            bounds = []
            for script in ("_", "^"):
                if self.tokens[self.i] == script:
                    self.i += 1
                    bounds.append(self.parse_argument() or MISSING)
            return None, Tree("O", "evaluated-at", [left, *bounds]), [], None
        if self.opens_group(self.i):
            return False, left, parts, last
        if self.in_set or not self.as_published:
            return True, left, parts, last
        self.i += 1
        right = self.parse_expression(SUM)
        left = self.make_row(last, parts, left)
        return None, Tree("O", "conditional", [left, right or MISSING]), [], None
