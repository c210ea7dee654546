"""The default rules and English cardinal numbers in words, read by text2num.

| text | numerals | why |
|---|---|---|
| `twenty-five` `Two hundred and five` | 25, 205 | hyphens, blanks and "and" join, commas and points do not |
| `twenty` and `five` over a line's end; over an empty line | 25; 20, 5 | text may be wrapped; paragraphs are apart |
| `three point one four` `zero zero seven` | 3.14, 7 | places are kept |
| `two trillion five hundred billion` | 2500000000000 | every scale adds what is smaller behind it |
| `3 million` `$(9.8) million` `two trillion` | 3000000, … | scale words multiply what is before them |
| `2 million five hundred` | 2000000, 500 | a number in digits takes scale words only |
| `two hundred and three hundred` | 200, 300 | a scale word multiplies nothing that holds one as large |
| `five-ten` `six, seven` `nineteen eighty-four` | 5, 10; 6, 7; 19, 84 | several numbers |
| `a hundred` `million` | 100, 1000000 | a scale word alone is once itself; "a" is not part of it |
| `minus five` `five percent` | 5 | only marks (`-`, `%`) change a value, words do not |
| `second` `twenty-first` `hundreds` `half` `dozen` | none | ordinals, plurals, fractions and sets are words |
| `one` | 1 | the pronoun too: words alone do not tell them apart |
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

import text_to_num

from numjax.errors import UsageError
from numjax.numeral import default
from numjax.numeral.surface import shift
from numjax.types import Span

# Powers of ten. The library stops at a billion, and multiplies neither decimals nor numbers in digits.
SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12, "quadrillion": 15}
_LARGE_SCALES = ("trillion", "quadrillion")

_UNITS = (
    "zero nought one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
)
_TENS = "seventeen eighteen nineteen twenty thirty forty fourty fifty sixty seventy eighty ninety"
# One word each for 0 to 19, then 20, 30, … 90.
_NUMBER_WORDS = [word for word in f"{_UNITS} {_TENS}".split() if word not in ("nought", "fourty")]
# Ordinals are matched to be left out: "twenty-first" holds no 20.
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth thirtieth fortieth fiftieth sixtieth "
    "seventieth eightieth ninetieth hundredth thousandth millionth billionth"
)


def _make_pattern(words: Iterable[str]) -> str:
    """A pattern of the words that reads each letter once: three times faster than "one|two|…"."""
    rest: dict[str, list[str]] = {}
    for word in sorted(set(words)):
        rest.setdefault(word[:1], []).append(word[1:])
    is_optional = rest.pop("", None) is not None
    return (
        f"(?:{'|'.join(letter + _make_pattern(tails) for letter, tails in rest.items())}){'?' * is_optional}"
        if rest
        else ""
    )


_WORD = _make_pattern(f"{_UNITS} {_TENS} {' '.join(SCALES)} {_ORDINALS}".split())
_BETWEEN = r"(?:[ \t\u00a0]*\n[ \t\u00a0]*|[ \t\u00a0]+|[ \t\u00a0]?-[ \t\u00a0]?)"
# A run of lower-case words is bounded, so that a text of nothing but number words stays linear.
_RUN = re.compile(rf"\b{_WORD}\b(?:{_BETWEEN}(?:{_WORD}|and|point)\b){{0,60}}")
_TOKEN = re.compile(r"[^\s-]+|-")


class _Token(NamedTuple):
    """A word or a hyphen, with the methods that text2num calls."""

    start: int
    end: int
    word: str

    def text(self) -> str:
        return self.word

    def nt_separated(self, previous: object) -> bool:
        return False

    def not_a_number_part(self) -> bool:
        return False


def find(text: str) -> list[Span]:
    """Numerals in digits and cardinal numbers in words, in order; see the table above."""
    spans = default.find(text)
    in_digits = {span.end: i for i, span in enumerate(spans)}
    for run in _RUN.finditer(_to_lower(text)):
        start = run.start()
        # "3 million": the run goes on with a number in digits, one blank or hyphen before it.
        previous = in_digits.get(start - 1)
        if previous is not None and text[start - 1] in " \t\u00a0-":
            numeral = spans[previous]
            tokens = _tokenize(run[0])
            if tokens[0].word in SCALES and numeral.text[-1] in "0123456789)":
                end_index, value = _apply_scales(tokens, 0, numeral.value)
                spans[previous] = _make_span(text, numeral.start, start + tokens[end_index - 1].end, value)
                spans += [
                    _make_span(text, start + first, start + last, v)
                    for first, last, v in _parse_numbers(tokens[end_index:])
                ]
                continue
        spans += [_make_span(text, start + first, start + last, value) for first, last, value in _parse_run(run[0])]
    return sorted(spans)


def spell(value: int) -> str:
    """A whole number below a million in words, "one hundred and twenty-nine", as `find` reads it.

    Raises:
      UsageError: any other number.
    """
    if not 0 <= value < 1_000_000:
        raise UsageError(f"{value} cannot be spelled: give a whole number below a million")
    for size, word in ((1000, "thousand"), (100, "hundred")):
        if value >= size:
            count, rest = divmod(value, size)
            joint = " and " if rest < 100 else " "
            return f"{spell(count)} {word}" + (joint + spell(rest) if rest else "")
    if value < 20:
        return _NUMBER_WORDS[value]
    tens = _NUMBER_WORDS[18 + value // 10]
    return tens if value % 10 == 0 else f"{tens}-{_NUMBER_WORDS[value % 10]}"


def _to_lower(text: str) -> str:
    """The text in lower case, of the same length: a few characters have no single lower-case one."""
    lower = text.lower()
    return lower if len(lower) == len(text) else re.sub("[A-Z]+", lambda m: m[0].lower(), text)


@functools.lru_cache(4096)
def _parse_run(run: str) -> tuple[tuple[int, int, Decimal], ...]:
    """(start, end, value) of the cardinal numbers of a run; cached, since a text repeats few runs."""
    return tuple(_parse_numbers(_tokenize(run)))


def _tokenize(run: str) -> list[_Token]:
    return [_Token(m.start(), m.end(), m[0]) for m in _TOKEN.finditer(run)]


def _make_span(text: str, start: int, end: int, value: Decimal) -> Span:
    return Span(start, end, text[start:end], value)


def _parse_numbers(tokens: Sequence[_Token]) -> Iterator[tuple[int, int, Decimal]]:
    """(start, end, value) of the cardinal numbers among the tokens of a run."""
    index = 0
    while (number := _find_number(tokens, index)) is not None:
        first, index, value = number
        yield tokens[first].start, tokens[index - 1].end, value


def _find_number(tokens: Sequence[_Token], index: int) -> tuple[int, int, Decimal] | None:
    """(its first index, the index behind it, its value) of the next cardinal number from `index` on."""
    while index < len(tokens):
        matches = text_to_num.find_numbers(tokens[index:], "en", 0.0)
        first_index = index + matches[0].start if matches else len(tokens)
        scale_index = next((i for i in range(index, first_index) if tokens[i].word in _LARGE_SCALES), None)
        if scale_index is not None:
            first_index, index, value = scale_index, scale_index, Decimal(1)
        elif matches:
            index += matches[0].end
            end_index = _find_end(tokens, first_index, index)
            if end_index < index:
                matches = text_to_num.find_numbers(tokens[first_index:end_index], "en", 0.0)
                index = first_index + matches[0].end
            if matches[0].is_ordinal:
                continue
            # The library spells the value with digits: its float would not be exact.
            value = Decimal(matches[0].text)
        else:
            return None
        return first_index, *_add_smaller(tokens, *_apply_scales(tokens, index, value))
    return None


def _find_end(tokens: Sequence[_Token], first: int, end: int) -> int:
    """The index behind the number from `first` to `end`, where the library may have read on into the next one: "two
    hundred and three" before another "hundred" ends behind "two hundred"."""
    behind = end + (end < len(tokens) and tokens[end].word == "-")
    scale = SCALES.get(tokens[behind].word, 0) if behind < len(tokens) else 0
    largest = [i for i in range(first, end) if SCALES.get(tokens[i].word, 0) >= scale > 0]
    if not largest:
        return end
    # "… and three hundred and seven" before "thousand": the last "and" is within the next number.
    between = range(largest[-1] + 1, end)
    joints = (i for i in between if tokens[i].word == "and" and tokens[i - 1].word != "hundred")
    return max(joints, default=largest[-1] + 1)


def _add_smaller(tokens: Sequence[_Token], index: int, value: Decimal) -> tuple[int, Decimal]:
    """(the index behind what is smaller than the last scale word and follows it, the value with it): the library adds
    only behind the scales that it knows."""
    scale = 10 ** SCALES.get(tokens[index - 1].word, 0)
    if tokens[index - 1].word not in _LARGE_SCALES or not _is_whole(value) or int(value) % scale:
        return index, value
    start = index + (index < len(tokens) and tokens[index].word in ("and", "-"))
    number = _find_number(tokens, start)
    if number is None or number[0] != start or not _is_whole(number[2]) or not 0 < number[2] < scale:
        return index, value
    return number[1], Decimal(int(value) + int(number[2]))


def _is_whole(value: Decimal) -> bool:
    return value == value.to_integral_value()


def _apply_scales(tokens: Sequence[_Token], index: int, value: Decimal) -> tuple[int, Decimal]:
    """(the index after the scale words from `index` on, the value times them)."""
    while index < len(tokens):
        word = index + (tokens[index].word == "-")
        if word >= len(tokens) or tokens[word].word not in SCALES:
            break
        index, value = word + 1, shift(value, SCALES[tokens[word].word])
    return index, value
