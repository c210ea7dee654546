"""Factors: atoms with their scripts, arguments, groups, letters in fonts, calls and differentials."""

from __future__ import annotations

from numjax.expr.commands import ACCENTS, APART, FONTS, LEAVES, styled
from numjax.expr.lexer import END
from numjax.expr.operators import INFIX, Infix
from numjax.expr.state import BARS, DIGITS, MISSING, SCRIPTS, STOPS, Action, Parts, State, Stop, bare, leaf
from numjax.expr.tree import Tree

_POSTFIX = {"!": "factorial", r"\degree": "degree"}
_STAR = Tree("V", "∗")
_UNARGUED = frozenset([END, "}", "&", r"\\", r"\right", r"\end"])


class Operands(State):
    """Reads factors; formulas and expressions are read by `numjax.expr.reader.Reader`."""

    __slots__ = ()

    def statement(self) -> Tree | None:
        raise NotImplementedError

    def formulas(self) -> Parts:
        raise NotImplementedError

    def joined(self, parts: Parts) -> Tree | None:
        raise NotImplementedError

    def relation(self, chain: list) -> Tree:
        raise NotImplementedError

    def expression(self, minimum: int) -> Tree | None:
        raise NotImplementedError

    def operand(self) -> Tree | None:
        """A factor: an atom with its scripts, or a function with its argument; None for what leaves no trace."""
        i = self.i
        token = self.tokens[i]
        entry = self.atoms.get(token)
        if entry is None:
            if token in STOPS:
                return None
            entry = self.other(token)
        atom: Tree | None
        if isinstance(entry, Tree):
            self.i = i + 1
            atom = entry
            if self.font is not None or (self.integrand and token == "d") or token in self.rules.calls:
                atom = self.letter(token, entry)
        else:
            if token in STOPS:
                return None
            atom = entry(self, token)
        if self.tokens[self.i] in SCRIPTS:
            if atom is None:
                atom = self.prescripted()
            else:
                atom = self.scripts(atom)
        return atom

    def letter(self, token: str, entry: Tree) -> Tree:
        """A letter in a font, a differential, or a function that is called."""
        tokens = self.tokens
        if self.font is not None:
            entry = self.name(token, entry)
            if entry.symbol == "d" and self.font == "" and self.rules.differentials == "everywhere":
                made = self.differential()
                return entry if made is None else made
            return entry
        following = tokens[self.i]
        if token == "d" and self.integrand:
            made = self.differential()
            if made is not None:
                return made
        elif following == "(" and token in self.rules.calls:
            return self.call(entry)
        return entry

    def call(self, function: Tree) -> Tree:
        """f(x, y): the function's letter was read, a parenthesis follows."""
        at = self.i
        self.i += 1
        self.enter()
        bar, in_set, self.bar, self.in_set = self.bar, self.in_set, "", False
        parts = self.formulas()
        self.bar, self.in_set = bar, in_set
        self.level -= 1
        if self.tokens[self.i] != ")":
            raise Stop("( is not closed", at)
        self.i += 1
        listed = not parts.semicolon and True not in parts.wides[:-1]
        if listed and all(len(chain) == 1 for chain in parts.chains):
            given = [chain[0] for chain in parts.chains]
        else:
            given = [self.joined(parts) or MISSING]
        if not given:
            given = [Tree("M", "L-0")]
        return Tree("F", function.symbol, given)

    def differential(self) -> Tree | None:
        """d x below an integral sign: the d was read."""
        following = self.tokens[self.i]
        entry = self.atoms.get(following)
        if isinstance(entry, Tree):
            if entry.type != "V" or following == "d":
                return None
        elif following not in ACCENTS and following not in FONTS and following != "{":
            return None
        keep, self.integrand = self.integrand, False
        self.enter()
        variable = self.operand()
        self.level -= 1
        self.integrand = keep
        return None if variable is None else Tree("O", "differential-d", [variable])

    def name(self, token: str, entry: Tree) -> Tree:
        """A letter in the font that holds; letters that touch are one name where the alphabet joins them."""
        font = self.font
        assert font is not None
        if len(entry.symbol) != 1 or entry.type != "V":
            return entry
        symbol = styled(font, entry.symbol)
        if font in APART:
            return leaf("V", symbol)
        tokens = self.tokens
        begin = self.i
        while len(following := tokens[self.i]) == 1 and following.isalpha():
            self.i += 1
        if self.i > begin:
            symbol += "".join(styled(font, letter) for letter in tokens[begin : self.i])
        return leaf("V", symbol)

    def other(self, token: str) -> Tree | Action:
        """A token that no table knows: a number, a character, an unknown macro."""
        first = token[:1]
        if first in DIGITS or (first == "." and len(token) > 1):
            return self.number
        if first == "\\":
            found = self.special(token)
            if found is not None:
                return found
            if self.rules.unknown == "symbol" and len(token) > 1 and token[1].isalpha():
                return leaf("V", token)
            raise Stop(f"unknown macro {token}", self.i)
        if not token:
            raise Stop("the formula ends too early", self.i)
        if token in STOPS or token in SCRIPTS or token in BARS:
            return closing
        if len(token) > 1 and token.isalpha():
            return leaf("V", token)
        if token.isprintable() and not token.isspace() and token not in "&#$":
            return leaf("V", token)
        raise Stop(f"{token!r} has no place in a formula", self.i)

    def special(self, token: str) -> Action | None:
        """Commands that are recognised by their beginning; `numjax.expr.constructs` fills this in."""
        raise NotImplementedError

    def number(self, _: State, token: str) -> Tree:
        """A number, as the lexer joined it."""
        self.i += 1
        if not self.published and (period := self._period(token)):
            return Tree("O", "repeating-decimal", [leaf("N", token), leaf("N", period)])
        return leaf("N", token)

    def _period(self, token: str) -> str:
        """The digits under the bar behind the point of 0.1\\overline{6}, which is 1/6; "" where there are none."""
        at = self.i + (self.tokens[self.i] == "." and "." not in token)
        if "." not in token and at == self.i:
            return ""
        found = self.tokens[at : at + 4]
        if found[:2] not in ([r"\overline", "{"], [r"\bar", "{"]) or found[3] != "}" or not found[2].isdigit():
            return ""
        self.i = at + 4
        return found[2]

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

    def argument(self) -> Tree | None:
        """What a command or a script takes: a group or one token; None for an empty group.

        A digit is taken off the number it begins, as TeX does: x^23 is x² times 3.
        """
        tokens = self.tokens
        i = self.i
        token = tokens[i]
        if token == "{":
            return self.group()
        first = token[:1]
        if first in DIGITS:
            if len(token) > 1:
                tokens[i] = token[1:]
                if token[1] == "." and len(token) == 2:
                    self.i = i + 1
            else:
                self.i = i + 1
            return leaf("N", first)
        op = INFIX.get(token)
        if op is not None:
            self.i = i + 1
            # R^* is no R^×.
            return _STAR if token == "*" and not self.published else bare(op, self.published)
        if token == "'":
            self.i = i + 1
            return leaf("V", "′")
        if token in STOPS or token in SCRIPTS or token in BARS:
            if token in _UNARGUED:
                return None
            if token in ("^", "_"):
                raise Stop(f"{token} where an argument should be", i)
            self.i = i + 1
            return leaf("V", token)
        entry = self.atoms.get(token)
        if entry is None:
            entry = self.other(token)
        if isinstance(entry, Tree):
            self.i = i + 1
            return self.styled_leaf(entry)
        self.enter()
        made = entry(self, token)
        self.level -= 1
        return made

    def styled_leaf(self, entry: Tree) -> Tree:
        if self.font and entry.type == "V" and len(entry.symbol) == 1:
            return leaf("V", styled(self.font, entry.symbol))
        return entry

    def group(self) -> Tree | None:
        """{…}: what is in the braces; fonts and bars begin anew and end with it."""
        at = self.i
        tokens = self.tokens
        token = tokens[at + 1]
        if token != END and tokens[at + 2] == "}" and token != "{" and token != "}":
            # One token: by far the most frequent group.
            if token[0] in DIGITS:
                self.i = at + 3
                return leaf("N", token)
            self.i = at + 1
            made = self.argument()
            if self.i == at + 2:
                self.i = at + 3
                return made
            self.i = at
        self.i = at + 1
        self.enter()
        saved = self.font, self.bar, self.in_set, self.environments, self.integrand
        self.bar, self.in_set, self.environments = "", False, 0
        if self.rules.differentials != "everywhere":
            self.integrand = False
        tree = self.statement()
        self.font, self.bar, self.in_set, self.environments, self.integrand = saved
        self.level -= 1
        if tokens[self.i] != "}":
            self.unclosed("{", at)
        self.i += 1
        return tree


ORDER = "D-lpar;&rpar;"


def counts(base: Tree, alone: bool, calls: str) -> bool:
    """Whether a power in parentheses counts, derivatives as in f^{(n)} or members as in x_i^{(2)}, and is no power.

    Args:
      base: what it stands at. alone: whether it is one letter or number; letters that are functions have any.
    """
    while base.type == "O" and base.symbol == "SUB" and base.children:
        base = base.children[0]
    return base.type == "V" and base.children is None and (base.symbol in calls or (alone and base.symbol != "e"))


def closing(reader: State, token: str) -> Tree | None:
    """What ends an operand, where one should begin."""
    if token in SCRIPTS:
        # Scripts of nothing: they belong to what follows.
        return None
    if token == r"\mid":
        reader.i += 1
        return leaf("V", "∣")
    raise Stop(f"{token} is not expected here", reader.i)


_LETTERS = {letter: Tree("V", letter) for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"}
ATOMS: dict[str, Tree | Action] = {**_LETTERS, **LEAVES}
