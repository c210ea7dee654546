"""The reader's engine: precedence climbing over tokens; what commands do is in `numjax.expr.constructs`."""

from __future__ import annotations

import functools
from collections.abc import Callable

from numjax.expr.commands import ACCENTS, APART, FONTS, LEAVES, styled
from numjax.expr.lexer import END, WIDE
from numjax.expr.operators import INFIX, JUXTAPOSED, META, PRODUCT, RELATION, SUM, Infix
from numjax.expr.rules import Rules
from numjax.expr.tree import Tree

# Groups in groups: each costs a few frames of Python's stack, which holds 1,000.
NESTED = 100
LARGEST = 200_000  # nodes: a chain a = b = c holds b twice, and chains in chains twice twice

MISSING = Tree("W", "")
PADDING = Tree("E", "")

CLOSERS = frozenset([END, ")", "]", "}", r"\}", r"\rangle", r"\rfloor", r"\rceil", r"\rvert", r"\rVert", r"\right", "&",
                     r"\end", r"\middle"])  # fmt: skip
FRACTIONS = frozenset([r"\over", r"\atop", r"\choose", r"\above"])
SEPARATORS = frozenset([",", ";", ".", WIDE, r"\\"])
STOPS = CLOSERS | SEPARATORS | FRACTIONS
BARS = frozenset(["|", r"\|", r"\mid"])
SCRIPTS = frozenset(["^", "_", "'", "!", "%", r"\%", r"\degree"])
# What has no operator between it and its neighbour but is no factor either.
ANNOTATIONS = frozenset([r"\pmod", r"\mod", r"\pod"])
DIGITS = frozenset("0123456789")


class Stop(Exception):
    """The formula cannot be read on: message and the index of the token."""

    def __init__(self, message: str, index: int):
        super().__init__(message)
        self.message = message
        self.index = index


_POSTFIX = {"!": "factorial", r"\degree": "degree"}

Action = Callable[["Reader", str], "Tree | None"]


@functools.lru_cache(maxsize=1 << 13)
def leaf(kind: str, symbol: str) -> Tree:
    """A leaf, the same object for the same symbol."""
    return Tree(kind, symbol)


def bare(op: Infix, published: bool) -> Tree:
    """An operator's sign on its own: r_+ has the bare plus as its index."""
    kind, symbol = op.published if published else (op.type, op.symbol)
    return leaf("V" if kind == "F" else kind, symbol)


class Reader:
    """One formula being read: its tokens, where we are, and what surrounds us."""

    __slots__ = (
        "atoms", "bar", "bars", "calls", "comma_list", "environments", "font", "functions", "i", "in_set", "integrand", "kets", "level",
        "published", "rules", "tokens",
    )  # fmt: skip

    def __init__(self, tokens: list[str], rules: Rules, atoms: dict[str, Tree | Action], functions: frozenset[str]):
        self.tokens = tokens
        self.rules = rules
        self.atoms = atoms
        self.functions = functions
        self.i = 0
        self.level = 0
        self.font: str | None = None
        self.bar = ""  # the bar that closes the group we are in
        self.in_set = False
        self.integrand = False
        self.environments = 0
        self.comma_list = False  # whether the parenthesis just read holds the arguments of a function
        self.published = not rules.products
        self.bars: dict[int, int] = {}
        self.kets: set[int] = set()
        if "|" in tokens or r"\|" in tokens:
            self._match_bars()

    # -- formulas ----------------------------------------------------------------------------------------------------

    def statement(self) -> Tree | None:
        """Formulas up to what closes the group, as one tree: alone, a list, or a sequence."""
        chains, relations, strong, _ = self.formulas()
        return self.joined(chains, relations, strong)

    def formulas(self) -> tuple[list[list], list[bool], list[bool], bool]:
        """`sequence`, and where it is the upper half of a fraction a \\over b, the fraction."""
        parts = self.sequence()
        token = self.tokens[self.i]
        while token in FRACTIONS:
            above = self.joined(*parts[:3])
            self.i += 1
            if token == r"\above":
                self.argument()
            below = self.joined(*self.sequence()[:3])
            pair = [above or MISSING, below or MISSING]
            fraction = Tree("O", "binomial" if token == r"\choose" else "divide", pair)
            parts = ([[fraction]], [False], [False], False)
            token = self.tokens[self.i]
        return parts

    def sequence(self) -> tuple[list[list], list[bool], list[bool], bool]:
        """Formulas with separators between: (operands and operators of each, whether it is a relation, whether wide
        space follows it, whether a semicolon is among them)."""
        chains: list[list] = []
        relations: list[bool] = []
        strong: list[bool] = []
        semicolon = False
        tokens = self.tokens
        while True:
            chain = self.chain()
            if chain:
                chains.append(chain)
                relations.append(len(chain) > 1)
                strong.append(False)
            token = tokens[self.i]
            wide, comma = False, False
            while token in SEPARATORS and not (token == r"\\" and self.environments):
                wide = wide or token is WIDE or token == r"\\" or token == WIDE
                comma = comma or token in (",", ";")
                semicolon = semicolon or token == ";"
                self.i += 1
                if token == r"\\" and tokens[self.i] == "[":
                    self.skip_bracket()
                token = tokens[self.i]
            if not wide and not comma and token not in STOPS and tokens[self.i - 1] != ".":
                if token in BARS or (self.in_set and token in (":", r"\colon")):
                    break
                raise Stop(f"{token} is not expected here", self.i)
            if strong:
                strong[-1] = wide and not comma
            if token in CLOSERS or token in FRACTIONS or token in BARS or token == r"\\":
                if token in BARS and not (self.in_set or self.bar):
                    # A bar that opens begins the next formula: x, |y|.
                    if (wide or comma) and self.opens(self.i):
                        continue
                    if wide or comma:
                        raise Stop(f"{token} is not expected here", self.i)
                elif token in BARS and (wide or comma) and token != self.bar and not self.in_set:
                    continue
                elif token in BARS and (wide or comma) and self.bars.get(self.i, 0) % 2 and self.opens(self.i):
                    continue
                break
        return chains, relations, strong, semicolon

    def joined(self, chains: list[list], relations: list[bool], strong: list[bool]) -> Tree | None:
        """Formulas as one tree: expressions join the relation before them, or the first one after them."""
        if len(chains) == 1:
            chain = chains[0]
            return chain[0] if len(chain) == 1 else self.relation(chain)
        if not chains:
            return None
        if not self.published and True in strong[:-1]:
            parts, begin = [], 0
            for index, wide in enumerate(strong):
                if wide or index == len(strong) - 1:
                    parts.append(self.joined(chains[begin : index + 1], relations[begin : index + 1], [False]))
                    begin = index + 1
            return Tree("O", "form-seq", parts) if len(parts) > 1 else parts[0]
        if True not in relations:
            return self.listed([chain[0] for chain in chains])
        merged: list[list] = []
        waiting: list[Tree] = []
        for chain, related in zip(chains, relations, strict=True):
            if related:
                chain = list(chain)
                if waiting:
                    chain[0] = self.listed([*waiting, chain[0]])
                    waiting = []
                merged.append(chain)
            elif merged:
                merged[-1].append(chain[0])
            else:
                waiting.append(chain[0])
        trees = []
        for chain in merged:
            # Operand, operator, operand, … and then what was listed after the last.
            last = next((index for index in range(len(chain) - 1, -1, -1) if type(chain[index]) is tuple), 0)
            if last + 2 < len(chain):
                chain[last + 1 :] = [self.listed(chain[last + 1 :])]
            trees.append(self.relation(chain))
        tree = trees[-1]
        if not self.published:
            return Tree("O", "form-seq", trees) if len(trees) > 1 else tree
        for before in reversed(trees[:-1]):
            tree = Tree("O", "form-seq", [before, tree])
        return tree

    @staticmethod
    def listed(trees: list[Tree]) -> Tree:
        return Tree("M", f"L-{len(trees)}", trees)

    def chain(self) -> list:
        """Operands with relations between them: [operand, (type, symbol, head), operand, …]; empty if nothing is there."""
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
        """One node for a relation, `and` of the relations between neighbours for a chain, looser (:) around tighter."""
        if not self.published:
            for index in range(1, len(chain), 2):
                if chain[index][1] == ":" or chain[index][1] == "conditional":
                    left, right = chain[:index], chain[index + 1 :]
                    pair = [side[0] if len(side) == 1 else self.relation(side) for side in (left, right)]
                    return Tree(chain[index][0], chain[index][1], pair)
        elif any(op[1] == ":" for op in chain[1::2]):
            return self._published_meta(chain)
        pairs = []
        for index in range(1, len(chain), 2):
            kind, symbol, head = chain[index]
            left, right = chain[index - 1], chain[index + 1]
            if head is None:
                pairs.append(Tree(kind, symbol, [left, right]))
            else:
                pairs.append(Tree("+", hint(head), [head, left, right]))
        if len(pairs) == 1:
            return pairs[0]
        tree = Tree("U", "and", pairs)
        if tree.size > LARGEST:
            raise Stop(f"more than {LARGEST} nodes", self.i)
        return tree

    def _published_meta(self, chain: list) -> Tree:
        """a : b = c : d is a chain of colons between relations."""
        sides: list[list] = [[chain[0]]]
        for index in range(1, len(chain), 2):
            if chain[index][1] == ":":
                sides.append([chain[index + 1]])
            else:
                sides[-1] += [chain[index], chain[index + 1]]
        trees = [side[0] if len(side) == 1 else self.relation(side) for side in sides]
        pairs = [Tree("F", ":", [left, right]) for left, right in zip(trees, trees[1:], strict=False)]
        tree = pairs[0] if len(pairs) == 1 else Tree("U", "and", pairs)
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

    # -- expressions -------------------------------------------------------------------------------------------------

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
                if token in STOPS or token in ANNOTATIONS:
                    break
                if minimum > PRODUCT:
                    break
                if token in BARS:
                    done, left, parts, last = self.at_bar(token, left, parts, last)
                    if done:
                        break
                    if done is None:
                        continue
                right = self.operand()
                if right is None:
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
        if not self.published and op.power == PRODUCT:
            # × x: something is missing before it.
            return Tree(op.type, op.symbol, [MISSING, right])
        kind, symbol = op.published if self.published else (op.type, op.symbol)
        return Tree(kind, symbol, [right])

    def scripted_sign(self, op: Infix) -> Tree:
        """⊗_R: the bare sign with its scripts, to stand before its operands."""
        return self.scripts(bare(op, self.published))

    def operand(self) -> Tree | None:
        """A factor: an atom with its scripts, or a function with what it is applied to; None if it leaves no trace."""
        i = self.i
        token = self.tokens[i]
        entry = self.atoms.get(token)
        if entry is None:
            if token in STOPS:
                return None
            entry = self.other(token)
        if type(entry) is Tree:
            self.i = i + 1
            atom = entry
            if self.font is not None or (self.integrand and token == "d") or token in self.rules.calls:
                atom = self.letter(token, entry)
        else:
            if token in STOPS:
                return None
            atom = entry(self, token)  # type: ignore[operator]
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
        chains, relations, strong, semicolon = self.formulas()
        self.bar, self.in_set = bar, in_set
        self.level -= 1
        if self.tokens[self.i] != ")":
            raise Stop("( is not closed", at)
        self.i += 1
        if semicolon or True in strong[:-1] or not chains:
            inner = self.joined(chains, relations, strong)
            given = [inner] if inner is not None else [Tree("M", "L-0")]
        elif True in relations and len(chains) > 1:
            given = [self.joined(chains, relations, strong)]
        else:
            given = [chain[0] if len(chain) == 1 else self.relation(chain) for chain in chains]
        return Tree("F", function.symbol, given)

    def differential(self) -> Tree | None:
        """d x below an integral sign: the d was read."""
        following = self.tokens[self.i]
        entry = self.atoms.get(following)
        if type(entry) is Tree:
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
        if token.isprintable() and not token.isspace() and token not in "&#$":
            return leaf("V", token)
        raise Stop(f"{token!r} has no place in a formula", self.i)

    def special(self, token: str) -> Action | None:
        """Commands that are recognised by their beginning; `numjax.expr.constructs` fills this in."""
        raise NotImplementedError

    def number(self, _: Reader, token: str) -> Tree:
        """A number, as the lexer joined it."""
        self.i += 1
        return leaf("N", token)

    # -- scripts -----------------------------------------------------------------------------------------------------

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
                else:
                    exponent = self.argument()
                if exponent is None:
                    continue
                base = Tree("O", "SUP", [base, exponent])
            elif token == "_":
                self.i += 1
                index = self.argument()
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
            return bare(op, self.published)
        if token == "'":
            self.i = i + 1
            return leaf("V", "′")
        if token in STOPS or token in SCRIPTS or token in BARS:
            if token in (END, "}", "&", r"\\", r"\right", r"\end"):
                return None
            if token in ("^", "_"):
                raise Stop(f"{token} where an argument should be", i)
            self.i = i + 1
            return leaf("V", token)
        entry = self.atoms.get(token)
        if entry is None:
            entry = self.other(token)
        if type(entry) is Tree:
            self.i = i + 1
            return self.styled_leaf(entry)
        self.enter()
        made = entry(self, token)  # type: ignore[operator]
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

    def unclosed(self, what: str, at: int) -> None:
        found = self.tokens[self.i]
        if found == END or found in ("}", "&", r"\\"):
            raise Stop(f"{what} is not closed", at)
        raise Stop(f"{found} where {what} should be closed", self.i)

    def skip_bracket(self) -> None:
        """[2em] behind \\\\: skipped."""
        i = self.i + 1
        while self.tokens[i] not in ("]", END, "{", "}"):
            i += 1
        if self.tokens[i] == "]":
            self.i = i + 1

    def enter(self) -> None:
        self.level += 1
        if self.level > NESTED:
            raise Stop(f"nested more than {NESTED} deep", self.i)

    # -- bars --------------------------------------------------------------------------------------------------------

    def _match_bars(self) -> None:
        """For every bar, how many follow it in the same group, and whether \\rangle comes before the next one."""
        counts: list[dict[str, int]] = [{}]
        nearest: list[str] = [""]
        tokens = self.tokens
        for i in range(len(tokens) - 1, -1, -1):
            token = tokens[i]
            if token in BARS:
                if i and tokens[i - 1] in (r"\left", r"\right", r"\middle"):
                    continue
                if nearest[-1] == r"\rangle" and token != r"\|":
                    self.kets.add(i)
                    nearest[-1] = token
                    continue
                nearest[-1] = token
                if token == r"\mid":
                    continue
                seen = counts[-1].get(token, 0)
                self.bars[i] = seen
                counts[-1][token] = seen + 1
            elif token in (r"\rangle", r"\langle"):
                nearest[-1] = token
            elif token in ("}", ")", "]", r"\}", r"\right", r"\end"):
                counts.append({})
                nearest.append("")
            elif token in ("{", "(", "[", r"\{", r"\left", r"\begin") and len(counts) > 1:
                counts.pop()
                nearest.pop()
            elif token in (",", ";", WIDE, "&", r"\\"):
                nearest[-1] = ""

    def opens(self, i: int) -> bool:
        """Whether the bar at i, between two operands, opens a group: then an odd number follows."""
        return i in self.kets or self.bars.get(i, 0) % 2 == 1

    def divides(self, token: str) -> bool:
        """Whether the bar here is a relation: nothing around us that it closes, nothing that it opens."""
        return (
            not self.in_set
            and self.bar != token
            and self.bar != "any"
            and (token == r"\mid" or not self.opens(self.i))
        )

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


def hint(head: Tree) -> str:
    """The symbol of a compound operator: what its operator is of, "O!sum" for a sum with a lower bound."""
    first = head.children[0] if head.children else head
    return f"{first.type}!{first.symbol}"


def closing(reader: Reader, token: str) -> Tree | None:
    """What ends an operand, where one should begin."""
    if token in SCRIPTS:
        # Scripts of nothing: they belong to what follows.
        return None
    if token == r"\mid":
        reader.i += 1
        return leaf("V", "∣")
    raise Stop(f"{token} is not expected here", reader.i)


LETTERS = {letter: Tree("V", letter) for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"}
ATOMS: dict[str, Tree | Action] = {**LETTERS, **LEAVES}
