"""Powers, indices, primes and postfix signs: what they are of, and what in them is no power."""

from __future__ import annotations

from numjax.expr.commands import ACCENT_OF
from numjax.expr.lexer import END
from numjax.expr.operators import INFIX, Infix
from numjax.expr.state import BARS, MISSING, SCRIPTS, STOPS, State, Stop, bare, leaf
from numjax.expr.tree import Tree

_POSTFIX = {"!": "factorial", r"\degree": "degree"}
ORDER = "D-lpar;&rpar;"


def counts(base: Tree, raised: Tree, calls: str) -> bool:
    """Whether a power in parentheses counts, derivatives as in f^{(n)} or members as in x_i^{(t + 1)}, and is none.

    Args:
      base: what it stands at. raised: what the parentheses hold. calls: letters that are functions.
    """
    if raised.symbol.startswith(("interval", "V-", "L-")):
        return False
    while base.children and (base.symbol == "SUB" or (base.type == "F" and base.symbol in ACCENT_OF)):
        base = base.children[0]
    if base.type != "V" or base.children is not None:
        return False
    if base.symbol in calls:
        return True
    parts = list(raised.children or [raised]) if raised.symbol in ("plus", "minus") else [raised]
    if base.symbol == "e" or len(parts) > 2 or (parts[-1].type != "N" and len(parts) == 2):
        return False
    return all(p.children is None and (p.symbol.isdigit() if p.type == "N" else _letter(p)) for p in parts)


def _letter(tree: Tree) -> bool:
    return tree.type == "V" and len(tree.symbol) == 1


class Scripts(State):
    """Reads scripts; factors are read by `numjax.expr.operands.Operands`."""

    __slots__ = ()

    def operand(self) -> Tree | None:
        raise NotImplementedError

    def argument(self) -> Tree | None:
        raise NotImplementedError

    def group(self) -> Tree | None:
        raise NotImplementedError

    def scripts(self, base: Tree) -> Tree:
        """Powers, indices, primes, factorials and percent signs behind an atom, in the order written."""
        tokens = self.tokens
        while True:
            token = tokens[self.i]
            if token == "^":
                self.i += 1
                if not self.rules.degrees:
                    exponent = self.argument()
                elif tokens[self.i] == r"\circ":
                    self.i += 1
                    base = Tree("O", "degree", [base])
                    continue
                elif tokens[self.i : self.i + 3] == ["{", r"\circ", "}"]:
                    self.i += 3
                    base = Tree("O", "degree", [base])
                    continue
                elif self.rules.orders and (order := self._order(base)):
                    exponent = order
                else:
                    exponent = self._script(token)
                if exponent is None:
                    continue
                base = Tree("O", "SUP", [base, exponent])
            elif token == "_":
                self.i += 1
                index = self._script(token)
                if index is None:
                    continue
                base = Tree("O", "SUB", [base, index])
            elif token == "'":
                count = 0
                while tokens[self.i] == "'":
                    self.i += 1
                    count += 1
                base = Tree("O", "SUP", [base, leaf("V", "′" * count)])
            elif token == "!":
                self.i += 1
                if tokens[self.i] == "!":
                    self.i += 1
                    base = Tree("O", "double-factorial", [base])
                else:
                    base = Tree("O", "factorial", [base])
            elif token == r"\%" or token == "%":
                self.i += 1
                base = Tree("O", "percent", [base])
            elif token == r"\degree":
                self.i += 1
                base = Tree("O", "degree", [base])
            else:
                return base

    def _script(self, mark: str) -> Tree | None:
        """What stands behind ^ or _.

        Raises:
          Stop: nothing does, not even an empty group; published, that is nothing wrong.
        """
        at = self.i
        found = self.argument()
        if found is None and self.i == at and not self.published:
            raise Stop(f"{mark} without an argument", at - 1)
        return found

    def _order(self, base: Tree) -> Tree | None:
        """A power in braces and parentheses, which it keeps where they count: see `counts`. None for another."""
        tokens, at = self.tokens, self.i
        if tokens[at] != "{" or "(" not in (tokens[at + 1], tokens[at + 2]) or not self._parenthesised(at):
            return None
        made = self.group()
        if made is None or not counts(base, made, self.rules.calls):
            return made
        return Tree("M", ORDER, [made])

    def _parenthesised(self, at: int) -> bool:
        """Whether the parenthesis behind the brace here is closed right before that brace is."""
        braces, inner, i, tokens = 0, 0, at, self.tokens
        if tokens[at + 1] not in ("(", r"\left"):
            return False
        while tokens[i] != END:
            token = tokens[i]
            braces += (token == "{") - (token == "}")
            inner += (token == "(") - (token == ")")
            if not braces:
                return False
            if token == ")" and not inner:
                return tokens[i + 1] == "}" and braces == 1
            i += 1
        return False

    def scripted_sign(self, op: Infix) -> Tree:
        """⊗_R: the bare sign with its scripts, to stand before its operands."""
        return self.scripts(bare(op, self.published))

    def prescripted(self) -> Tree | None:
        """{}_2 F_1: scripts without a base belong to the atom after them."""
        tokens = self.tokens
        before: list[tuple[str, Tree]] = []
        while (token := tokens[self.i]) in SCRIPTS:
            self.i += 1
            if token in ("^", "_"):
                script = self.argument()
                if script is not None:
                    before.append(("SUP" if token == "^" else "SUB", script))
            elif token == "'":
                before.append(("SUP", leaf("V", "′")))
            else:
                # !n: a subfactorial, %, a degree sign.
                before.append((token, MISSING))
            while tokens[self.i : self.i + 2] == ["{", "}"]:
                self.i += 2
        following = tokens[self.i]
        base = None
        if following not in STOPS and following not in BARS and following not in INFIX:
            self.enter()
            base = self.operand()
            self.level -= 1
        for symbol, script in before:
            if script is MISSING:
                base = Tree("O", _POSTFIX.get(symbol, "percent"), [MISSING if base is None else base])
                continue
            base = Tree("O", symbol, [MISSING if base is None else base, script])
        return base
