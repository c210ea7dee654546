"""Layouts of time series, with numbers in the scale of those before them: published examples, and exact bounds."""

from __future__ import annotations

import types
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import pytest

from numjax.build import find
from numjax.bundled import data as datasets
from numjax.errors import DataError, UsageError
from numjax.evals import generate
from numjax.pipeline.features import encode_source, from_features
from numjax.text import vocab as vocabularies
from numjax.text.scaled import limit_size
from numjax.types import Mark, Number, Text

NAMES = ("bins", "rescaled")


@pytest.fixture(scope="module")
def vocabulary():
    return vocabularies.build({"name": "sentencepiece", "size": 320}, ["next 12 34.5 = -6"])


def make_scheme(name: str, vocabulary, **options):
    return find("text", name)(vocabulary, **options)


def make_numbers(*texts: str) -> list[Number]:
    return [Number(text, Decimal(text)) for text in texts]


def make_row(given, answers):
    """Returns the document of given numbers, the mark, and answers."""
    before = [segment for number in given for segment in (number, Text(" "))]
    return (Mark("[CLS]"), *before, Mark("[SEP]"), *(s for number in answers for s in (Text(" "), number)))


def list_codes(scheme, document) -> list[str]:
    """Returns the names of all marks of numbers."""
    names = [scheme.vocab.mark_name(token) for token in scheme.encode(document).ids.tolist()]
    return [name for name in names if name in scheme.marks]


def draw_series(rng, count: int = 24) -> list[Number]:
    scale = 10.0 ** rng.integers(-6, 7)
    return make_numbers(*(f"{x:.{rng.integers(0, 8)}e}" for x in scale * rng.normal(rng.normal(0, 3), 1, count)))


def test_chronos_ids_and_values(vocabulary):
    """Of [1, 2, 3, −4], whose scale is 2.5, by the published code: ids 2104, 2158, 2213, 1831; 0 is 2049."""
    scheme, given = make_scheme("bins", vocabulary), make_numbers("1", "2", "3", "-4")
    codes = list_codes(scheme, make_row(given, make_numbers("0")))
    assert [int(code[2:-1]) + 3 for code in codes] == [2104, 2158, 2213, 1831, 2049]
    after = scheme.after(given)
    assert after.scale == Fraction(5, 2)
    values = [after.nearest(number.value) for number in given]
    assert [f"{value:.5f}" for value in values] == ["1.00806", "1.99780", "3.00587", "-3.99560"]
    assert after.nearest(Decimal(0)) == 0


def test_chronos_bins_are_as_wide_as_published(vocabulary):
    """4093 centres from −15 to 15, 0.0073314 apart; with the three ids before them 4096."""
    scheme = make_scheme("bins", vocabulary)
    assert len(scheme.marks) == 4093 == 4096 - 3
    assert f"{float(scheme.width):.7f}" == "0.0073314"
    assert [scheme.nearest(Decimal(n)) for n in (-99, 99)] == [-15, 15]


@pytest.mark.parametrize(
    ("text", "code", "value", "published_code", "published_value"),
    [
        ("1.23", "1 2 3", "1.23", "1 2 2", "1.225"),
        (".29", "2 9", "0.29", "2 8", "0.285"),
        (".28", "2 8", "0.28", "2 8", "0.285"),
        ("-.28", "[-] 2 8", "-0.28", "[-] 2 8", "-0.285"),
        ("0", "0", "0", "0", "0.005"),
    ],
)
def test_llmtime_cuts_floats_off(text, code, value, published_code, published_value, vocabulary):
    for as_published, symbols, result in ((False, code, value), (True, published_code, published_value)):
        scheme = make_scheme("rescaled", vocabulary, precision=2, as_published=as_published)
        assert scheme.write_value(Decimal(text)) == (*symbols.split(), "[,]")
        assert scheme.nearest(Decimal(text)) == Decimal(result)


def test_what_is_written_is_the_nearest_in_the_scale(vocabulary, rng):
    """Half a bin of the scale at most, and half a unit of the last digit; beyond the range the outermost centre."""
    for _ in range(40):
        given = draw_series(rng)
        sizes = sorted(abs(Fraction(number.value)) for number in given)
        bins = make_scheme("bins", vocabulary, bins=101, limit=2.0).after(given)
        scale = sum(sizes) / len(sizes)
        for number in draw_series(rng, 8) + given:
            gold, written = Fraction(number.value), Fraction(bins.nearest(number.value))
            limited = min(max(gold, -2 * scale), 2 * scale)
            assert abs(written - limited) <= scale / 50 * (1 + Fraction(1, 10**6))
            assert bins.nearest(bins.nearest(number.value)) == bins.nearest(number.value)
        digits = make_scheme("rescaled", vocabulary, precision=3, quantile=1.0).after(given)
        for number in given:
            written = digits.nearest(number.value)
            assert abs(Fraction(written) - Fraction(number.value)) <= sizes[-1] / 2000 * (1 + Fraction(1, 10**6))
            assert digits.nearest(written) == written


def test_the_quantile_lies_between_ranks(vocabulary):
    for quantile, scale in ((1.0, "10"), (0.5, "4.5"), (0.25, "2.5")):
        scheme = make_scheme("rescaled", vocabulary, quantile=quantile)
        assert scheme.after(make_numbers("-10", "1", "3", "6")).scale == Fraction(scale)


@pytest.mark.parametrize("name", NAMES)
def test_only_given_numbers_set_the_scale(name, vocabulary, rng):
    """The codes of the given numbers do not know the answer, and all codes are the same in other units."""
    scheme, given, answers = make_scheme(name, vocabulary), draw_series(rng), draw_series(rng, 3)
    codes = list_codes(scheme, make_row(given, answers))
    prompt = list_codes(scheme, make_row(given, []))
    assert codes[: len(prompt)] == prompt == list_codes(scheme, make_row(given, draw_series(rng, 2)))[: len(prompt)]
    larger = [[number._replace(value=number.value.scaleb(7)) for number in numbers] for numbers in (given, answers)]
    assert list_codes(scheme, make_row(*larger)) == codes
    ids = scheme.encode(make_row(given, answers)).ids.tolist()
    answer = scheme.after(given).decode(ids[ids.index(scheme.vocab.mark("[SEP]")) + 1 :])
    assert [n.value for n in answer if isinstance(n, Number)] == [
        scheme.after(given).nearest(n.value) for n in answers
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_row_comes_back_with_its_numbers(name, vocabulary, rng):
    scheme = make_scheme(name, vocabulary)
    for given, answers in (
        (draw_series(rng), draw_series(rng, 2)),
        ([], draw_series(rng, 2)),
        (draw_series(rng), []),
    ):
        document = make_row(given, answers)
        row = scheme.encode(document)
        assert scheme.decode(row.ids, row.numbers) == scheme.decode(row.ids.tolist(), row.numbers) == document
        source = scheme.encode((Mark("[CLS]"), *make_row(given, [])))
        behind = scheme.encode((Mark("[CLS]"), *answers), source=source)
        after = scheme.after(given)
        assert after.decode(behind.ids)[1:] == after.decode(after.encode(tuple(answers)).ids)


@pytest.mark.parametrize("until", ["[SEP]", ""])
@pytest.mark.parametrize("end", ["[SEP]", "", "source"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_generated_behind_a_prompt_is_what_the_host_reads(name, end, until, vocabulary):
    """In prompts with and without the mark, and behind a source: the numbers of a prompt count on both sides, or on
    none."""
    scheme = make_scheme(name, vocabulary, until=until)
    numbers, answer = make_numbers("100", "200"), make_numbers("3")
    given = [segment for number in numbers for segment in (number, Text(" "))]
    mark = (Mark("[SEP]"),) if end == "[SEP]" else ()
    source = encode_source((Mark("[CLS]"), *given), scheme) if end == "source" else None
    prompt = (Mark("[CLS]"), *(() if source else given), *mark)
    row = from_features(scheme.encode(prompt, source=source), 20)
    row = row._replace(source=from_features(source, 20)) if source else row
    whole = scheme.encode((*prompt, *answer), source=source)
    system = cast("Any", types.SimpleNamespace(scheme=scheme))
    (written,) = generate._decode_document(system, row, whole.ids[len(row.ids) :].tolist(), [])
    assert isinstance(written, Number)
    knows = bool(until) and end != ""
    assert written.value == (scheme.after(numbers) if knows else scheme.after([])).nearest(answer[0].value)
    if not source:
        assert scheme.decode(whole.ids, numbers)[-1] == written
    else:  # the numbers of a source are in the scale that they set
        codes = [scheme.vocab.mark_name(token) for token in source.ids.tolist()]
        scaled = scheme.after(numbers if knows else [])
        expected = [code for number in numbers for code in list_codes(scaled, (number,))]
        assert [code for code in codes if code in scheme.marks] == expected


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("given", [[], ["0"], ["0", "-0", "0.00"]], ids=str)
def test_without_a_scale_it_is_one(name, given, vocabulary):
    scheme = make_scheme(name, vocabulary).after(make_numbers(*given))
    assert scheme.scale == 1
    assert scheme.nearest(Decimal("1e999999")) > 14 and scheme.nearest(Decimal("-1e999999")) < -14
    assert scheme.nearest(Decimal("1e-999999")) == 0 == scheme.nearest(Decimal("-0"))
    assert not scheme.nearest(Decimal("-0")).is_signed()


@pytest.mark.parametrize("name", NAMES)
def test_the_scale_of_numbers_beyond_all_use_is_bounded(name, vocabulary):
    given = make_numbers("1e999999", "-1e999999", "1e999999")
    assert make_scheme(name, vocabulary).after(given).scale == 10**300
    with pytest.raises(DataError, match="not a finite number"):
        make_scheme(name, vocabulary).encode((*given, Number("NaN", Decimal("NaN")), Mark("[SEP]")))


@pytest.mark.parametrize("name", NAMES)
def test_until_nothing_the_scale_is_one(name, vocabulary):
    scheme = make_scheme(name, vocabulary, until="")
    given = make_numbers("2", "-1")
    values = [n.value for n in scheme.decode(scheme.encode(make_row(given, given)).ids) if isinstance(n, Number)]
    assert values == [scheme.nearest(Decimal(n)) for n in (2, -1, 2, -1)]
    assert scheme.scale == 1


def test_digits_come_back_exactly_without_a_scale(vocabulary, rng):
    scheme = make_scheme("rescaled", vocabulary, precision=4, digits=9)
    values = [Decimal(int(rng.integers(-(10**9) + 1, 10**9))).scaleb(-4) for _ in range(300)]
    assert [scheme.nearest(value) for value in values] == values
    assert scheme.nearest(Decimal("123456.7")) == Decimal("99999.9999")
    assert scheme.nearest(Decimal("0.00005")) == 0 and scheme.nearest(Decimal("0.00015")) == Decimal("0.0002")


@pytest.mark.parametrize(
    ("name", "options", "line"),
    [
        ("bins", {"bins": 10}, "odd number"),
        ("bins", {"bins": 1}, "odd number"),
        ("bins", {"limit": 0.0}, "limit must be positive"),
        ("bins", {"limit": float("nan")}, "limit must be positive"),
        ("rescaled", {"precision": 13}, "precision"),
        ("rescaled", {"digits": 0}, "digits must be"),
        ("rescaled", {"quantile": 0.0}, "quantile must be"),
    ],
)
def test_options_out_of_range_are_refused(name, options, line, vocabulary):
    with pytest.raises(UsageError, match=line):
        make_scheme(name, vocabulary, **options)


def test_a_code_has_at_most_a_hundred_digits_and_drops_three(vocabulary):
    assert make_scheme("rescaled", vocabulary).precision == 3, "as LLMTime's for GPT-3"
    assert make_scheme("rescaled", vocabulary, digits=100, precision=100).digits == 100
    with pytest.raises(UsageError, match="digits must be from 1 to 100"):
        make_scheme("rescaled", vocabulary, digits=101)


@pytest.mark.parametrize("name", NAMES)
def test_forecasts_are_written_within_a_percent(name, vocabulary):
    """The answers of the series of data/arithmetic lie within the range of both layouts."""
    scheme = make_scheme(name, vocabulary)
    records = map(dict, datasets.load("arithmetic", "test", operations="series", size=20, test=20, longer=""))
    for record in records:
        given = [s for s in scheme.parse(record["question"]) if isinstance(s, Number)]
        gold = Decimal(record["answer"])
        scale = max(abs(number.value) for number in given)
        assert abs(scheme.after(given).nearest(gold) - gold) <= scale / 100 or abs(gold) > 15 * scale


@pytest.mark.parametrize("name", NAMES)
def test_a_number_of_thousands_of_digits_is_read_as_its_first_ones(name, vocabulary):
    """Python reads no whole number of more than 4,300 digits. The digits behind the first hundreds still round."""
    scheme = make_scheme(name, vocabulary)
    for text in ("0." + "3" * 5000, "3" * 290 + "." + "1" * 5000):
        row = scheme.encode(make_row(make_numbers(text), make_numbers("0.2")))
        assert scheme.decode(row.ids, row.numbers[:1])[1].value == Decimal(text)
    half = "0.5" + "0" * 6000
    assert limit_size(Decimal(half + "1")) > Fraction(1, 2) == limit_size(Decimal(half + "0"))
    assert limit_size(Decimal(f"-{half}1")) == -limit_size(Decimal(half + "1"))
