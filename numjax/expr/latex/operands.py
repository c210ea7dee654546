"""Factors: atoms with their scripts, arguments, groups, letters in fonts, calls and differentials."""

from __future__ import annotations

from numjax.expr.latex.commands import ACCENT_COMMANDS, ACCENTS, FONTS, LEAVES, SEPARATE_FONTS, style_letter
from numjax.expr.latex.lexer import END
from numjax.expr.latex.state import (
    BARS,
    DIGITS,
    MISSING,
    SCRIPTS,
    STOPS,
    Action,
    Parts,
    ReaderState,
    Stop,
    make_leaf,
    make_sign,
)
from numjax.expr.operators import INFIX, Infix
from numjax.expr.tree import Tree

# Commands of fractions, which make a mixed number behind a whole one.
FRACTION_COMMANDS = frozenset([r"\frac", r"\dfrac", r"\tfrac", r"\cfrac", r"\nicefrac", r"\sfrac"])
_POSTFIX = {"!": "factorial", r"\degree": "degree"}
ORDER = "D-lpar;&rpar;"


def is_order(base: Tree, exponent: Tree, calls: str) -> bool:
    """Whether a power in parentheses is no power but a count: of derivatives, f^{(n)}, or of members, x_i^{(t + 1)}.

    Args:
      base: its base. exponent: the content of the parentheses. calls: letters that are functions.
    """
    if exponent.symbol.startswith(("interval", "V-", "L-")):
        return False
    while base.children and (base.symbol == "SUB" or (base.type == "F" and base.symbol in ACCENT_COMMANDS)):
        base = base.children[0]
    if base.type != "V" or base.children is not None:
        return False
    if base.symbol in calls:
        return True
    parts = list(exponent.children or [exponent]) if exponent.symbol in ("plus", "minus") else [exponent]
    if base.symbol == "e" or len(parts) > 2 or (parts[-1].type != "N" and len(parts) == 2):
        return False
    return all(p.children is None and (p.symbol.isdigit() if p.type == "N" else _is_letter(p)) for p in parts)


def _continues_name(token: str) -> bool:
    return token.isdecimal() if token[:1] in DIGITS else len(token) == 1 and token.isalpha()


def _is_letter(tree: Tree) -> bool:
    return tree.type == "V" and len(tree.symbol) == 1


def _add_fraction(whole: Tree, fraction: Tree) -> Tree | None:
    parts = fraction.children
    if fraction.type != "O" or not parts:
        return None
    if fraction.symbol in ("percent", "degree"):
        number = _add_fraction(whole, parts[0])
        return None if number is None else Tree("O", fraction.symbol, [number])
    is_fraction = fraction.symbol == "divide" and all(part.type == "N" for part in parts)
    return Tree("U", "plus", [whole, fraction]) if is_fraction else None


_STAR = Tree("V", "∗")
_ARGUMENT_ENDS = frozenset([END, "}", "&", r"\\", r"\right", r"\end"])


class Operands(ReaderState):
    """Reads factors; formulas and expressions are read by `numjax.expr.latex.reader.ExpressionReader`."""

    __slots__ = ()

    def parse_statement(self) -> Tree | None:
        raise NotImplementedError

    def parse_formulas(self) -> Parts:
        raise NotImplementedError

    def join(self, parts: Parts) -> Tree | None:
        raise NotImplementedError

    def make_relation(self, chain: list) -> Tree:
        raise NotImplementedError

    def parse_expression(self, minimum: int) -> Tree | None:
        raise NotImplementedError

    def parse_signed(self, op: Infix) -> Tree | None:
        raise NotImplementedError

    def parse_operand(self) -> Tree | None:
        """A factor: an atom with its scripts, or a function with its argument; None for a command without a node."""
        i = self.i
        token = self.tokens[i]
        entry = self.atoms.get(token)
        if entry is None:
            if token in STOPS:
                return None
            entry = self.resolve(token)
        atom: Tree | None
        if isinstance(entry, Tree):
            self.i = i + 1
            atom = entry
            if self.font is not None or (self.in_integrand and token == "d") or token in self.calls:
                atom = self.parse_letter(token, entry)
        else:
            if token in STOPS:
                return None
            atom = entry(self, token)
        if self.tokens[self.i] in SCRIPTS:
            if atom is None:
                atom = self.parse_prescripts()
            else:
                atom = self.parse_scripts(atom)
        return atom

    def join_mixed_number(self, start: int, whole: Tree, fraction: Tree) -> Tree | None:
        """68 5/7, a whole number and a fraction, is their sum; a sign of percent or degrees is that of both. None for
        what is no mixed number.

        Args:
          start: the index of the fraction's token.
        """
        is_whole = whole.type == "N" and "." not in whole.symbol and self.tokens[start - 1][-1:] in DIGITS
        return _add_fraction(whole, fraction) if is_whole and self.rules.mixed else None

    def parse_letter(self, token: str, entry: Tree) -> Tree:
        """A letter in a font, a differential, or a function that is called."""
        tokens = self.tokens
        if self.font is not None:
            entry = self.parse_name(token, entry)
            if entry.symbol == "d" and self.font == "" and self.rules.differentials == "everywhere":
                differential = self.parse_differential()
                return entry if differential is None else differential
            return entry
        next_token = tokens[self.i]
        if token == "d" and self.in_integrand:
            differential = self.parse_differential()
            if differential is not None:
                return differential
        elif next_token == "(" and token in self.calls:
            return self.parse_call(entry)
        return entry

    def parse_call(self, function: Tree) -> Tree:
        """f(x, y): the function's letter was read, a parenthesis follows."""
        start = self.i
        self.i += 1
        self.enter()
        bar, in_set, self.bar, self.in_set = self.bar, self.in_set, "", False
        parts = self.parse_formulas()
        self.bar, self.in_set = bar, in_set
        self.level -= 1
        if self.tokens[self.i] != ")":
            raise Stop("( is not closed", start)
        self.i += 1
        is_list = not parts.semicolon and True not in parts.wides[:-1]
        if is_list and all(len(chain) == 1 for chain in parts.chains):
            arguments = [chain[0] for chain in parts.chains]
        else:
            arguments = [self.join(parts) or MISSING]
        if not arguments:
            arguments = [Tree("M", "L-0")]
        return Tree("F", function.symbol, arguments)

    def parse_differential(self) -> Tree | None:
        """d x below an integral sign: the d was read."""
        next_token = self.tokens[self.i]
        entry = self.atoms.get(next_token)
        if isinstance(entry, Tree):
            if entry.type != "V" or next_token == "d":
                return None
        elif next_token not in ACCENTS and next_token not in FONTS and next_token != "{":
            return None
        saved, self.in_integrand = self.in_integrand, False
        self.enter()
        variable = self.parse_operand()
        self.level -= 1
        self.in_integrand = saved
        return None if variable is None else Tree("O", "differential-d", [variable])

    def parse_name(self, token: str, entry: Tree) -> Tree:
        """A letter in the current font; where the alphabet joins letters, one name with the letters and digits that
        touch it, as in H2O."""
        font = self.font
        assert font is not None
        if len(entry.symbol) != 1 or entry.type != "V":
            return entry
        symbol = style_letter(font, entry.symbol)
        if font in SEPARATE_FONTS:
            return make_leaf("V", symbol)
        tokens = self.tokens
        while _continues_name(part := tokens[self.i]):
            symbol += style_letter(font, part) if len(part) == 1 else part
            self.i += 1
        return make_leaf("V", symbol)

    def resolve(self, token: str) -> Tree | Action:
        """The tree or action of a token that is in no table: a number, a character, an unknown macro."""
        first = token[:1]
        if first in DIGITS or (first == "." and len(token) > 1):
            return self.parse_number
        if first == "\\":
            command = self.find_command(token)
            if command is not None:
                return command
            if self.rules.unknown == "symbol" and len(token) > 1 and token[1].isalpha():
                return make_leaf("V", token)
            raise Stop(f"unknown macro {token}", self.i)
        if not token:
            raise Stop("the formula ends too early", self.i)
        if token in STOPS or token in SCRIPTS or token in BARS:
            return parse_closer
        if len(token) > 1 and token.isalpha():
            return make_leaf("V", token)
        if token.isprintable() and not token.isspace() and token not in "&#$":
            return make_leaf("V", token)
        raise Stop(f"{token!r} has no place in a formula", self.i)

    def find_command(self, token: str) -> Action | None:
        """The action of a command that is known by its beginning; `numjax.expr.latex.constructs` implements this."""
        raise NotImplementedError

    def parse_number(self, _: ReaderState, token: str) -> Tree:
        """A number, as the lexer joined it."""
        self.i += 1
        if not self.as_published and (period := self._parse_period(token)):
            return Tree("O", "repeating-decimal", [make_leaf("N", token), make_leaf("N", period)])
        return make_leaf("N", token)

    def _parse_period(self, token: str) -> str:
        """The digits under the bar behind the point of 0.1\\overline{6}, which is 1/6; "" where there are none."""
        index = self.i + (self.tokens[self.i] == "." and "." not in token)
        if "." not in token and index == self.i:
            return ""
        next_tokens = self.tokens[index : index + 4]
        if (
            next_tokens[:2] not in ([r"\overline", "{"], [r"\bar", "{"])
            or next_tokens[3] != "}"
            or not next_tokens[2].isdigit()
        ):
            return ""
        self.i = index + 4
        return next_tokens[2]

    def parse_argument(self) -> Tree | None:
        """What a command or a script takes: a group or one token; None for an empty group.

        A digit is taken off the number it begins, as TeX does: x^23 is x² times 3.
        """
        tokens = self.tokens
        i = self.i
        token = tokens[i]
        if token == "{":
            return self.parse_group()
        first = token[:1]
        if first in DIGITS:
            if len(token) > 1:
                self.change(i, token[1:])
                if token[1] == "." and len(token) == 2:
                    self.i = i + 1
            else:
                self.i = i + 1
            return make_leaf("N", first)
        op = INFIX.get(token)
        if op is not None:
            self.i = i + 1
            # R^* is no R^×.
            return _STAR if token == "*" and not self.as_published else make_sign(op, self.as_published)
        if token == "'":
            self.i = i + 1
            return make_leaf("V", "′")
        if token in STOPS or token in SCRIPTS or token in BARS:
            if token in _ARGUMENT_ENDS:
                return None
            if token in ("^", "_"):
                raise Stop(f"{token} where an argument should be", i)
            self.i = i + 1
            return make_leaf("V", token)
        entry = self.atoms.get(token)
        if entry is None:
            entry = self.resolve(token)
        if isinstance(entry, Tree):
            self.i = i + 1
            return self.style_leaf(entry)
        self.enter()
        tree = entry(self, token)
        self.level -= 1
        return tree

    def style_leaf(self, entry: Tree) -> Tree:
        if self.font and entry.type == "V" and len(entry.symbol) == 1:
            return make_leaf("V", style_letter(self.font, entry.symbol))
        return entry

    def parse_group(self) -> Tree | None:
        """{…}: what is in the braces; fonts and bars begin anew and end with it."""
        start = self.i
        tokens = self.tokens
        token = tokens[start + 1]
        if token != END and tokens[start + 2] == "}" and token != "{" and token != "}":
            # One token: by far the most frequent group.
            if token[0] in DIGITS:
                self.i = start + 3
                return make_leaf("N", token)
            self.i = start + 1
            tree = self.parse_argument()
            if self.i == start + 2:
                self.i = start + 3
                return tree
            self.i = start
        self.i = start + 1
        self.enter()
        saved = self.font, self.bar, self.in_set, self.environments, self.in_integrand
        self.bar, self.in_set, self.environments = "", False, 0
        if self.rules.differentials != "everywhere":
            self.in_integrand = False
        tree = self.parse_statement()
        self.font, self.bar, self.in_set, self.environments, self.in_integrand = saved
        self.level -= 1
        if tokens[self.i] != "}":
            self.raise_unclosed("{", start)
        self.i += 1
        return tree

    def parse_scripts(self, base: Tree) -> Tree:
        """Powers, indices, primes, factorials and percent signs behind an atom, in the order written."""
        tokens = self.tokens
        while True:
            token = tokens[self.i]
            if token == "^":
                self.i += 1
                if primes := self._parse_braced_primes():
                    leaf = make_leaf("V", primes)
                    base = Tree("F", primes, [base]) if self.as_published else Tree("O", "SUP", [base, leaf])
                    continue
                if not self.rules.degrees:
                    exponent = self.parse_argument()
                elif tokens[self.i] == r"\circ":
                    self.i += 1
                    base = Tree("O", "degree", [base])
                    continue
                elif tokens[self.i : self.i + 3] == ["{", r"\circ", "}"]:
                    self.i += 3
                    base = Tree("O", "degree", [base])
                    continue
                elif self.rules.orders and (order := self._parse_order(base)):
                    exponent = order
                else:
                    exponent = self._parse_script(token)
                if exponent is None:
                    continue
                base = Tree("O", "SUP", [base, exponent])
            elif token == "_":
                self.i += 1
                index = self._parse_script(token)
                if index is None:
                    continue
                base = Tree("O", "SUB", [base, index])
            elif token == "'":
                count = 0
                while tokens[self.i] == "'":
                    self.i += 1
                    count += 1
                base = Tree("O", "SUP", [base, make_leaf("V", "′" * count)])
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

    def _parse_braced_primes(self) -> str:
        """The primes of x^{''}, which LaTeXML applies to x like a function; "" for another power."""
        tokens, i = self.tokens, self.i + 1
        while tokens[i] == "'":
            i += 1
        if tokens[self.i] != "{" or tokens[i] != "}" or i == self.i + 1:
            return ""
        primes = "′" * (i - self.i - 1)
        self.i = i + 1
        return primes

    def _parse_script(self, mark: str) -> Tree | None:
        """The argument of ^ or _; None for an empty group, and published also for no argument.

        Raises:
          Stop: there is no argument.
        """
        start = self.i
        argument = self.parse_argument()
        if argument is None and self.i == start and not self.as_published:
            raise Stop(f"{mark} without an argument", start - 1)
        return argument

    def _parse_order(self, base: Tree) -> Tree | None:
        """A power in braces and parentheses; it keeps the parentheses if `is_order` holds. None for another power."""
        tokens, start = self.tokens, self.i
        if (
            tokens[start] != "{"
            or "(" not in (tokens[start + 1], tokens[start + 2])
            or not self._is_parenthesised(start)
        ):
            return None
        exponent = self.parse_group()
        if exponent is None or not is_order(base, exponent, self.rules.calls):
            return exponent
        return Tree("M", ORDER, [exponent])

    def _is_parenthesised(self, start: int) -> bool:
        """Whether the parenthesis after this brace closes right before the brace does."""
        braces, parentheses, i, tokens = 0, 0, start, self.tokens
        if tokens[start + 1] not in ("(", r"\left"):
            return False
        while tokens[i] != END:
            token = tokens[i]
            braces += (token == "{") - (token == "}")
            parentheses += (token == "(") - (token == ")")
            if not braces:
                return False
            if token == ")" and not parentheses:
                return tokens[i + 1] == "}" and braces == 1
            i += 1
        return False

    def parse_scripted_sign(self, op: Infix) -> Tree:
        """⊗_R: the bare sign with its scripts, to stand before its operands."""
        return self.parse_scripts(make_sign(op, self.as_published))

    def parse_prescripts(self) -> Tree | None:
        """{}_2 F_1: scripts without a base belong to the atom after them."""
        tokens = self.tokens
        prescripts: list[tuple[str, Tree]] = []
        while (token := tokens[self.i]) in SCRIPTS:
            self.i += 1
            if token in ("^", "_"):
                script = self.parse_argument()
                if script is not None:
                    prescripts.append(("SUP" if token == "^" else "SUB", script))
            elif token == "'":
                prescripts.append(("SUP", make_leaf("V", "′")))
            else:
                # !n: a subfactorial, %, a degree sign.
                prescripts.append((token, MISSING))
            while tokens[self.i : self.i + 2] == ["{", "}"]:
                self.i += 2
        next_token = tokens[self.i]
        base = None
        if next_token not in STOPS and next_token not in BARS and next_token not in INFIX:
            self.enter()
            base = self.parse_operand()
            self.level -= 1
        for symbol, script in prescripts:
            if script is MISSING:
                base = Tree("O", _POSTFIX.get(symbol, "percent"), [MISSING if base is None else base])
                continue
            base = Tree("O", symbol, [MISSING if base is None else base, script])
        return base


def parse_closer(reader: ReaderState, token: str) -> Tree | None:
    """A token that ends an operand, where an operand should begin."""
    if token in SCRIPTS:
        # Scripts of nothing: they belong to what follows.
        return None
    if token == r"\mid":
        reader.i += 1
        return make_leaf("V", "∣")
    raise Stop(f"{token} is not expected here", reader.i)


_LETTERS = {letter: Tree("V", letter) for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"}
ATOMS: dict[str, Tree | Action] = {**_LETTERS, **LEAVES}
