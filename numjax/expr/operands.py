"""Factors: atoms with their scripts, arguments, groups, letters in fonts, calls and differentials."""

from __future__ import annotations

from numjax.expr.commands import ACCENTS, APART, FONTS, LEAVES, styled
from numjax.expr.lexer import END
from numjax.expr.operators import INFIX, Infix
from numjax.expr.scripts import Scripts
from numjax.expr.state import BARS, DIGITS, MISSING, SCRIPTS, STOPS, Action, Parts, State, Stop, bare, leaf
from numjax.expr.tree import Tree

_STAR = Tree("V", "∗")
_UNARGUED = frozenset([END, "}", "&", r"\\", r"\right", r"\end"])


class Operands(Scripts):
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

    def signed(self, op: Infix) -> Tree | None:
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
                self.change(i, token[1:])
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
