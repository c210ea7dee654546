"""Splits LaTeX into tokens: one regular expression, then user macros, aliases and spaces. Linear in the length."""

from __future__ import annotations

import functools
import itertools
import re

from numjax.expr.latex.commands import ALIASES, FONTS, SKIPPED, SWITCHES, TEXTS
from numjax.expr.operators import INFIX
from numjax.expr.rules import DEFAULT, Rules

LONGEST = 100_000  # characters of a formula
MOST_TOKENS = 50_000  # after the expansion of macros
MOST_EXPANSIONS = 2_000

END = ""  # the token after the last
NOTHING = "\\null"  # a token without meaning
LABEL = 200
WIDE = "\\quad"  # space that separates formulas

_TEXT = "|".join(TEXTS)
_TOKEN = rf"""
      (?: \\(?:{_TEXT})\*? \s* \{{ (?: [^{{}}\\] | \\. | \{{ (?: [^{{}}\\] | \\. )*+ \}} )*+ \}} )
    | \\tree \s* \[ [^\[\]\s]{{1,2}} \] \s* \{{ [^{{}}\\]*+ \}}  # a node in the printer's general notation
    VERBATIM
    | \\(?:left|right) \s* \.
    | \\not \s* (?: \\[A-Za-z]++ | [=<>|] )
    | \\(?:hspace|operatorname|tag|hphantom)\*
    | \\(?:hskip|vskip|kern|mkern|mskip|hfil|raise|lower)(?![A-Za-z])
          \s* -? (?: [0-9.\s]*+ (?:em|ex|pt|cm|mm|in|mu|truecm|sp|pc|bp|dd|cc)\b )?
    | \\[A-Za-z]++
    | \\ \s (?=\s) | \\.
    | (?<![_^0-9.]) (?!0[0-9]{{0,2}},[0-9]|MEMBER) [0-9]{{1,3}} GROUPED (?![0-9]) (?: \. [0-9]++ )?
    | DECIMALS
    | [0-9](?:\s*+[0-9])*+ (?: \s*+ \. (?:\s*+[0-9])++ )?  # digits may stand apart
    | \. \s* \. \s* \.
    | \. (?:\s*+[0-9])++
    | NAME
    | : \s* =
    | % [^\n]{{0,1000}}+ \n  # a bound, since signs of percent without a line behind them would each read to the end
    | [\uD800-\uDFFF]
    | \S
    """
# At most 30 groups, to bound the cost of a match that fails at the end.
# 1{,}000, 1,\!000, 1\,000 and 1~000 can only be one number; 1,000 without spaces is one under the rule "plain".
_SPACE = r"(?: ~ | \\[ ,:;] )"
_PROTECTED = rf"(?: \s*+ (?: \{{\s*,\s*\}} | ,\s*\\! | {_SPACE} ) \s*+ [0-9]\s*+[0-9]\s*+[0-9] )"
# 3.141\,592\,65
_DECIMALS = rf"[0-9]++ \. [0-9]{{3}} (?: {_SPACE} [0-9]{{3}} ){{1,30}}+ (?: {_SPACE} [0-9]{{1,2}} )?+ (?![0-9])"
# (100,200), [1,100] and \{100,200,300\} are lists all the same, but no list has a member 000 or 050.
_OPENED = "".join(
    rf"(?<!{open}{sign}[0-9]{{{n}}})" for open in (r"[(\[]", r"\\\{") for sign in ("", "-") for n in (1, 2, 3)
)
_MEMBER = r"(?<=[1-9][0-9]{2},) [1-9][0-9]{2} (?:,[1-9][0-9]{2})*+ \s*+ (?: [)\]] | \\\})"
_GROUPED = {
    "plain": rf"""(?: {_OPENED} (?: , [0-9]{{3}} ){{1,30}}+
                    | (?= (?: , [0-9]{{3}} ){{0,29}}? ,0[0-9]{{2}} ) (?: , [0-9]{{3}} ){{1,30}}+
                    | (?: , [0-9]{{3}} ){{1,30}}+ (?! [0-9] | \s*+ (?: [)\]] | \\\}} ))
                    | {_PROTECTED}{{1,30}}+ )""",
    "protected": rf"{_PROTECTED}{{1,30}}+",
    "none": r"(?!)",
}


def _compile(verbatim: str) -> dict[tuple[str, str], re.Pattern[str]]:
    source = _TOKEN.replace("VERBATIM", verbatim)
    return {
        (thousands, words): re.compile(
            source.replace("GROUPED", grouped)
            .replace("DECIMALS", "(?!)" if thousands == "none" else _DECIMALS)
            .replace("MEMBER", _MEMBER)
            .replace("NAME", name),
            re.VERBOSE | re.DOTALL,
        )
        for thousands, grouped in _GROUPED.items()
        for words, name in (("letters", "(?!)"), ("words", "[A-Za-z]{2,}+"))
    }


# \verb|…| needs a group, without which `findall` is fastest.
_PLAIN = _compile("")
TOKEN = _compile(r"| \\verb\*? \s* ([^A-Za-z0-9\s*]) [^\n]{0,300}? \1")
_DEFINES = re.compile(r"\\(?:newcommand|renewcommand|providecommand|def|DeclareMathOperator|let)\b")
_SPACERS = frozenset({"~", "\\ ", "\\quad", "\\qquad"})
_NUMERIC = frozenset("0123456789.")
# Signs that stand in braces only for the space around them.
SPACED = frozenset(
    [",", "=", "<", ">", "\\in", "\\to", "\\sim", "\\leq", "\\geq", "\\le", "\\ge", "\\equiv", "\\approx"]
)
_STACKS = frozenset(["\\stackrel", "\\overset", "\\underset", "\\tree"])
_MARKS = {"\\stackrel": "^", "\\overset": "^", "\\underset": "_"}
_ARROWS = {
    "\\x" + name: "\\" + name
    for name in (
        "rightarrow",
        "leftarrow",
        "Rightarrow",
        "Leftarrow",
        "leftrightarrow",
        "mapsto",
        "hookrightarrow",
        "rightleftharpoons",
    )
}
_PAIRS = {command: (sign, "^") for command, sign in _ARROWS.items()} | {
    "\\left.": ("\\left", "."),
    "\\right.": ("\\right", "."),
}
_LENGTH = re.compile(r"\\(?:hskip|vskip|kern|mkern|mskip|hfil|raise|lower)(?![A-Za-z])")


class LexError(Exception):
    """A text that cannot be split into tokens: message and column."""

    def __init__(self, message: str, column: int):
        super().__init__(message)
        self.message = message
        self.column = column


def tokenize(text: str, rules: Rules = DEFAULT) -> list[str]:
    """The tokens of a formula, macros expanded, spaces and tokens without meaning left out; END marks the end.

    Raises:
      LexError: too long, or macros that do not end.
    """
    if len(text) > LONGEST:
        raise LexError(f"longer than {LONGEST} characters", LONGEST)
    key = rules.thousands, rules.words
    if "\\verb" in text:
        tokens = [match[0] for match in TOKEN[key].finditer(text)]
    else:
        tokens = _PLAIN[key].findall(text)
    if "\\" in text and _DEFINES.search(text):
        tokens = [token for token, _ in _expand_macros([(token, 0) for token in tokens])]
    return _clean(tokens)[0]


def find_column(text: str, index: int, rules: Rules = DEFAULT) -> int:
    """Characters before token `index` of `tokenize`; for the tokens of a macro, before its use."""
    pairs = [(match[0], match.start()) for match in TOKEN[rules.thousands, rules.words].finditer(text)]
    if "\\" in text and _DEFINES.search(text):
        try:
            pairs = _expand_macros(pairs)
        except LexError as error:
            return error.column
    _, starts = _clean([token for token, _ in pairs], [start for _, start in pairs])
    return starts[index] if index < len(starts) else len(text)


def _clean(tokens: list[str], positions: list[int] | None = None) -> tuple[list[str], list[int]]:
    """The tokens without skipped ones, with aliases resolved and wide space as one token; and their columns.

    Args:
      tokens: as the expression splits them. positions: their columns, if those of the result are wanted.
    """
    # Most tokens mean the same everywhere, and few formulas have the others, so each of these has a pass of its own.
    cleaned = list(map(_clean_token, tokens))
    if not _SPACERS.isdisjoint(tokens):
        _merge_space(cleaned)
    columns = None if positions is None else list(itertools.compress(positions, cleaned))
    out = list(filter(None, cleaned))
    if not _PAIRS.keys().isdisjoint(out):
        out, columns = _split_pairs(out, columns)
    is_simple = _STACKS.isdisjoint(out)
    if "}" in out:
        out, columns = _remove_braces(out, columns, is_simple)
    if not is_simple:
        _unstack(out, columns)
    # Three, so that the reader may look two tokens ahead anywhere.
    out += [END] * 3
    return out, columns or []


@functools.lru_cache(maxsize=1 << 13)
def _clean_token(token: str) -> str:
    """A token as the reader knows it; "" for one without meaning. Spacers stay for `_merge_space`."""
    first = token[0]
    if token in SKIPPED or (first == "%" and len(token) > 1):
        return ""
    if first == "\\":
        if len(token) == 2 and token not in _SPACERS and token[1] in " \t\n\r~":
            return ""
        if token[-1] == "." and token[:5] in ("\\left", "\\righ"):
            return "\\left." if token[1] == "l" else "\\right."
        if _LENGTH.match(token):
            return ""
        if token.startswith("\\not") and len(token) > 4 and not token[4].isalpha():
            token = "\\not" + token[4:].strip()
    elif first in "0123456789.:" and len(token) > 1:
        is_plain = first in ".:" or (token.isascii() and token.replace(".", "").isdigit())
        token = "".join(token.split()) if is_plain else "".join(filter(_NUMERIC.__contains__, token))
    return ALIASES.get(token, token)


def _merge_space(cleaned: list[str]) -> None:
    """Leaves one WIDE of spacers in a row that are wide together, none of others."""
    width = 0
    last = ""
    for index, token in enumerate(cleaned):
        if token in _SPACERS:
            width += 1 if token in ("~", "\\ ") else 3
            token = WIDE if width > 1 and last != WIDE else ""
            cleaned[index] = token
        elif token:
            width = 0
        last = token or last


def _split_pairs(tokens: list[str], starts: list[int] | None) -> tuple[list[str], list[int] | None]:
    """\\left. is two tokens, and so is the label of an arrow, \\xrightarrow{f}: a power of the arrow."""
    out: list[str] = []
    columns: list[int] = []
    for index, token in enumerate(tokens):
        pair = _PAIRS.get(token)
        if pair is None or (pair[1] == "^" and tokens[index + 1 : index + 2] != ["{"]):
            pair = (token,)
        out += pair
        if starts is not None:
            columns += [starts[index]] * len(pair)
    return out, None if starts is None else columns


def _remove_braces(
    tokens: list[str], starts: list[int] | None, is_simple: bool
) -> tuple[list[str], list[int] | None]:
    """Takes the braces from {=} and {,}, where they only change the spacing, and from {\\bf\\times} and
    \\mathbf{\\times}, since a sign is one in any font.

    Args:
      is_simple: no sign is a label, as in \\overset{=}{a}.
    """
    out: list[str] = []
    columns: list[int] = []
    begin = 0
    for _ in range(tokens.count("}")):
        end = tokens.index("}", begin)
        out += tokens[begin:end]
        if starts is not None:
            columns += starts[begin:end]
        begin = end + 1
        if len(out) > 2 and out[-1] in INFIX and _is_font_of_sign(out[-3], out[-2]):
            del out[-3:-1], columns[-3:-1]
        elif (
            len(out) > 1 and out[-2] == "{" and out[-1] in SPACED and (out[-1] == "," or is_simple)
            and (len(out) < 3 or out[-3] not in ("^", "_"))
        ):  # fmt: skip
            del out[-2:-1], columns[-2:-1]
        else:
            out.append("}")
            if starts is not None:
                columns.append(starts[end])
    out += tokens[begin:]
    return out, None if starts is None else [*columns, *starts[begin:]]


def _is_font_of_sign(before: str, last: str) -> bool:
    """Whether two tokens before a sign in braces set its font: a brace and a switch, or a command and its brace."""
    return (before == "{" and last in SWITCHES) or (last == "{" and before in FONTS and before not in SWITCHES)


def _unstack(tokens: list[str], starts: list[int] | None) -> None:
    """\\overset{a}{=} becomes =^{a}, an operator with a script, in as many tokens.

    Goes from the last token to the first, so that inner ones come first. A label of more than LABEL tokens stays.
    """
    for i in range(len(tokens) - 1, -1, -1):
        if tokens[i] not in _MARKS or i + 1 >= len(tokens):
            continue
        end = i + 2
        if tokens[i + 1] == "{":
            depth = 1
            while depth and end < min(len(tokens), i + LABEL):
                depth += (tokens[end] == "{") - (tokens[end] == "}")
                end += 1
            if depth:
                continue
        sign = tokens[end : end + 3] if tokens[end : end + 1] == ["{"] else tokens[end : end + 1]
        if len(sign) == 3 and (sign[0], sign[2]) != ("{", "}"):
            continue
        op = sign[len(sign) // 2] if sign else ""
        if op not in INFIX:
            continue
        stop = end + len(sign)
        replacement = [op, _MARKS[tokens[i]], *tokens[i + 1 : end]]
        replacement += [NOTHING] * (stop - i - len(replacement))
        if starts is not None:
            starts[i:stop] = [starts[i]] * len(replacement)
        tokens[i:stop] = replacement


def _expand_macros(pairs: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """The tokens without definitions and with macros expanded. Tokens of a macro have the column of its use."""
    macros: dict[str, tuple[int, list[tuple[str, int]]]] = {}
    out: list[tuple[str, int]] = []
    # A stack: the body of a macro is pushed back, so that macros in it are expanded too.
    stack = pairs[::-1]
    expansions = 0

    def take_argument() -> list[tuple[str, int]]:
        if not stack:
            return []
        token, start = stack.pop()
        if token != "{":
            return [(token, start)]
        depth, content = 1, []
        while stack:
            pair = stack.pop()
            if pair[0] == "{":
                depth += 1
            elif pair[0] == "}":
                depth -= 1
                if not depth:
                    return content
            content.append(pair)
        raise LexError("a brace that is not closed", start)

    while stack:
        token, start = stack.pop()
        if token in ("\\newcommand", "\\renewcommand", "\\providecommand", "\\DeclareMathOperator"):
            if stack and stack[-1][0] == "*":
                stack.pop()
            name = take_argument()
            count = 0
            if stack and stack[-1][0] == "[":
                stack.pop()
                if stack and stack[-1][0].isdigit():
                    count = min(int(stack.pop()[0][:2]), 9)
                if stack and stack[-1][0] == "]":
                    stack.pop()
            body = take_argument()
            if len(name) != 1:
                raise LexError(f"{token} without a name", start)
            if token == "\\DeclareMathOperator":
                body = [("\\operatorname", start), ("{", start), *body, ("}", start)]
            macros[name[0][0]] = (count, body)
        elif token in ("\\def", "\\let"):
            if not stack:
                raise LexError(f"{token} without a name", start)
            name, _ = stack.pop()
            count = 0
            if token == "\\let":
                if stack and stack[-1][0] == "=":
                    stack.pop()
                macros[name] = (0, [stack.pop()] if stack else [])
                continue
            while stack and stack[-1][0] != "{":
                count += stack.pop()[0] == "#"
            macros[name] = (min(count, 9), take_argument())
        elif token in macros:
            expansions += 1
            count, body = macros[token]
            if expansions > MOST_EXPANSIONS or len(stack) + len(out) + len(body) > MOST_TOKENS:
                raise LexError("macros that expand too far", start)
            arguments = [take_argument() for _ in range(count)]
            stack.extend((text, start) for text, _ in _fill_body(body, arguments, len(stack) + len(out), start)[::-1])
        else:
            out.append((token, start))
    return out


def _fill_body(
    body: list[tuple[str, int]], arguments: list[list[tuple[str, int]]], n_tokens: int, start: int
) -> list[tuple[str, int]]:
    """A macro's body with its arguments in place of #1, #2 …"""
    if not arguments:
        return body
    out: list[tuple[str, int]] = []
    index = 0
    while index < len(body):
        token = body[index]
        if token[0] == "#" and index + 1 < len(body) and body[index + 1][0][:1].isdigit():
            digits = body[index + 1][0]
            number = int(digits[0]) if digits[0].isascii() else 0
            if 1 <= number <= len(arguments):
                out.extend(arguments[number - 1])
            if digits[1:]:
                out.append((digits[1:], start))
            index += 2
        else:
            out.append(token)
            index += 1
        if n_tokens + len(out) > MOST_TOKENS:
            raise LexError("macros that expand too far", start)
    return out
