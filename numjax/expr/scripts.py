"""Powers, indices, primes and postfix signs: what they are of, and what in them is no power."""

from __future__ import annotations

from numjax.expr.lexer import END
from numjax.expr.operators import INFIX, Infix
from numjax.expr.state import BARS, MISSING, SCRIPTS, STOPS, State, Stop, bare, leaf
from numjax.expr.tree import Tree

_POSTFIX = {"!": "factorial", r"\degree": "degree"}
ORDER = "D-lpar;&rpar;"


def counts(base: Tree, alone: bool, calls: str) -> bool:
    """Whether a power in parentheses counts, derivatives as in f^{(n)} or members as in x_i^{(2)}, and is no power.

    Args:
      base: what it stands at. alone: whether it is one letter or number; letters that are functions have any.
    """
    while base.type == "O" and base.symbol == "SUB" and base.children:
        base = base.children[0]
    return base.type == "V" and base.children is None and (base.symbol in calls or (alone and base.symbol != "e"))


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
        """The n of f^{(n)}, in its parentheses: see `counts`."""
        tokens, at = self.tokens, self.i
        first = at + 2 if tokens[at + 1] == r"\left" else at + 1
        if tokens[at] != "{" or tokens[first] != "(":
            return None
        alone = [*([r"\right"] if first > at + 1 else []), ")", "}"]
        found = tokens[first + 2 : first + 2 + len(alone)] == alone
        if not counts(base, found and tokens[first + 1].isalnum(), self.rules.calls):
            return None
        if not found and not self._parenthesised(at):
            return None
        made = self.group()
        if made is None or made.symbol.startswith(("interval", "V-", "L-")):
            self.i = at  # an interval or a list is no number of derivatives
            return None
        return Tree("M", ORDER, [made])

    def _parenthesised(self, at: int) -> bool:
        """Whether the parenthesis behind the brace here is closed right before that brace is."""
        depth, i, tokens = 0, at, self.tokens
        while tokens[i] != END:
            depth += (tokens[i] in ("{", "(")) - (tokens[i] in ("}", ")"))
            if depth < 2 and tokens[i] == ")":
                break
            i += 1
        return tokens[i + 1 : i + 2] == ["}"]

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
