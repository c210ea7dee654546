"""Each scheme, head and row of configs/schemes.py is held to the numbers that it says it reads and writes."""

from __future__ import annotations

import math
import os
from decimal import Decimal
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build, find, names
from numjax.bundled.configs import schemes
from numjax.errors import DataError
from numjax.heads import intseq
from numjax.nn import base10, binary64, fourier, value_maps
from numjax.nn.numerals import exponent_id
from numjax.numeral import format as formats
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.system import assemble
from numjax.text import vocab as vocabularies
from numjax.tools import parts
from numjax.types import HeadOut, Mark, Number, NumberRange, Text
from tests import drawn
from tests.residues_test import make_sure_weights

COUNT = 10_000 if os.environ.get("NUMJAX_TEST_ALL") else 250
MOST_PLACES = 30  # of drawn numbers without a limit
# Neither is a number to be read, nor part of one that is: versions, dates, words, signs between words, no numbers.
TEXTS = [
    "v1.2.3 of 2024-01-05, not 05/01/2024", "abc123 x2y 3rd B12", "3-2 and 3 - 2 and -3", "NaN, inf or -Infinity",
    "007 and 1.0 and 1.50 and 1e3 and 1E-7", "1,200 or 1,234,567.50", "1/2, 50% and $3", ".5 or 5.", "--1 +-2 1..2",
]  # fmt: skip


@pytest.fixture(scope="module")
def vocabulary():
    return vocabularies.build({"name": "sentencepiece", "size": 400}, [*TEXTS, "How many grams are 2 eggs? 1,200 g."])


def load_config(row: str) -> Any:
    return schemes.get_config(f"{row},smoke")


def list_schemes() -> list[tuple[str, dict]]:
    """Returns (name, options) of each scheme of text with its defaults, and of each row, without repetition."""
    blocks = [{"name": name} for name in names("text") if find("text", name).reads == "text"]
    blocks += [load_config(row).scheme.to_dict() for row in schemes.ROWS]
    options = [(str(b["name"]), {k: v for k, v in b.items() if k not in ("name", "vocab")}) for b in blocks]
    return [pair for i, pair in enumerate(options) if pair not in options[:i]]


SCHEMES = list_schemes()


def make_scheme(name: str, options: dict, vocabulary):
    """Builds a scheme. Where it gives values of the numbers before a mark, all are before it."""
    return build("text", {"name": name, **options}, vocab=vocabulary)


def draw_number(rng, numbers: NumberRange) -> Decimal:
    """Draws a number of a range: of any count of digits and any size within it, half of them with few digits."""
    high = MOST_PLACES // 2 if numbers.high is None else numbers.high
    places = MOST_PLACES // 2 if numbers.places is None else numbers.places
    low = -places if numbers.low is None else max(numbers.low, -places)
    first = int(rng.integers(low, high + 1))
    most = min(first + places + 1, MOST_PLACES if numbers.digits is None else numbers.digits)
    if most < 1:
        return Decimal(0)
    n_digits = int(rng.integers(1, 1 + (min(most, 3) if rng.random() < 0.5 else most)))
    digits = "".join(map(str, rng.integers(0, 10, n_digits - 1)))
    sign = "-" if numbers.signed and rng.random() < 0.4 else ""
    return Decimal(f"{sign}{rng.integers(1, 10)}{digits}e{first - n_digits + 1}")


def list_edges(numbers: NumberRange) -> list[Decimal]:
    """Returns 0, −0, ±1, 9…9, powers of ten, and the longest numbers, as far as the range has them."""
    high = MOST_PLACES // 2 if numbers.high is None else numbers.high
    n_digits = MOST_PLACES // 2 if numbers.digits is None else numbers.digits
    texts = ["0", "-0", "1", "-1", "9", "-9", "10", "0.1", "-0.1", "100", "7.5", "120", f"1e{high}", f"-1e{high}"]
    texts += [f"{'9' * n_digits}e{high - n_digits + 1}", f"-{'9' * n_digits}e{high - n_digits + 1}"] * (n_digits > 0)
    texts += [f"1e{numbers.low}" if numbers.low is not None else "1e-9", "9" * 9, "0." + "9" * (numbers.places or 9)]
    texts += [f"{'1' * 5}e-{places}" for places in range(8)]
    return [value for value in map(Decimal, texts) if numbers.holds(value)]


def list_outside(numbers: NumberRange) -> list[Decimal]:
    """Returns numbers that just miss the range, one for each limit that it has."""
    texts = []
    if numbers.digits:
        texts += ["1." + "0" * (numbers.digits - 1) + "1", "-1." + "2" * numbers.digits]
    if numbers.places is not None:
        texts += [f"1e-{numbers.places + 1}", f"-3e-{numbers.places + 1}"]
    if numbers.high is not None:
        texts += [f"2e{numbers.high + 1}", f"-1e{numbers.high + 1}"]
    if numbers.low is not None:
        texts += [f"9e{numbers.low - 1}", f"-1e{numbers.low - 3}"]
    return [value for value in map(Decimal, texts) if not numbers.holds(value)] + [Decimal(-5)] * (not numbers.signed)


@pytest.mark.parametrize(
    ("numbers", "inside", "outside"),
    [
        (NumberRange(), ["0", "-0", "-7", "1e99", "1e-99", "123456789012345678901234567890.5"], []),
        (NumberRange(signed=False), ["0", "-0", "7"], ["-7", "-1e-9"]),
        (NumberRange(digits=2), ["12000", "-0.0012", "1.20"], ["121", "1.01"]),
        (NumberRange(places=1), ["1.5", "1.50", "300"], ["1.05", "0.01"]),
        (NumberRange(low=-2, high=3), ["9999.123", "0.01", "0"], ["10000", "0.00999"]),
        (NumberRange(digits=0), ["0", "-0", "0.00"], ["1", "1e-9"]),
    ],
)
def test_a_range_holds_its_numbers(numbers, inside, outside):
    assert all(numbers.holds(Decimal(text)) for text in inside)
    assert not any(numbers.holds(Decimal(text)) for text in outside)
    both = numbers.intersect(NumberRange(digits=5, high=9))
    values = [Decimal(text) for text in (*inside, *outside)]
    assert [both.holds(v) for v in values] == [
        numbers.holds(v) and NumberRange(digits=5, high=9).holds(v) for v in values
    ]


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (NumberRange(), "all numbers"),
        (NumberRange(signed=False, places=0), "all unsigned whole numbers"),
        (NumberRange(digits=3, low=-10, high=14), "numbers (at most 3 digits, first digit from 10^-10 to 10^14)"),
        (NumberRange(places=4, high=8), "numbers (at most 4 behind the point, first digit to 10^8)"),
    ],
)
def test_a_range_in_words(numbers, words):
    assert numbers.describe() == words


@pytest.mark.parametrize(
    ("kind", "name", "line"),
    [
        ("text", "replace", "reads all numbers; writes what the head writes; the written form is not kept"),
        ("text", "digits", "has 6 positions for a number of 6 digits"),
        (
            "heads",
            "xval",
            "writes numbers (at most 5 digits, first digit from 10^-8 to 10^29); a number near the one",
        ),
    ],
)
def test_the_tool_says_what_a_part_can_do_with_numbers(kind, name, line):
    assert any(line in other for other in parts.list_parts(kind, name))
    assert not any(other.startswith(("reads", "writes")) for other in parts.list_parts("text", "rows"))


def write_numbers(values) -> list[Number]:
    return [Number(formats.format(value), value) for value in values]


def round_trip(scheme, numbers, with_numbers: bool):
    """Returns the numbers of rows of 25, decoded with or without the numbers that a head would give."""
    decoded = []
    for start in range(0, len(numbers), 25):
        segments = [s for number in numbers[start : start + 25] for s in (number, Text(" and "))]
        row = scheme.encode((Mark("[CLS]"), *segments))
        document = scheme.decode(row.ids, row.numbers if with_numbers else ())
        decoded += [segment for segment in document if isinstance(segment, Number)]
    return decoded


@pytest.mark.parametrize(("name", "options"), SCHEMES, ids=str)
def test_a_scheme_gives_back_every_number_that_it_claims(name, options, vocabulary, rng):
    scheme = make_scheme(name, options, vocabulary)
    abilities = scheme.abilities()
    numbers_read, numbers_written = abilities.reads, abilities.writes
    assert numbers_read is not None and (numbers_written is None) == (scheme.numbers == "slot")
    values = [*list_edges(numbers_read), *(draw_number(rng, numbers_read) for _ in range(COUNT))]
    numbers = write_numbers(values)
    assert round_trip(scheme, numbers, with_numbers=True) == numbers
    assert all(scheme.nearest(value) == value for value in values)
    decoded = round_trip(scheme, numbers, with_numbers=False)
    if abilities.keeps_format:
        assert decoded == numbers
        zeros = [Number(text, Decimal(text)) for text in ("007", "1.0", "0.50", "1e3", "-0")]
        assert round_trip(scheme, zeros, with_numbers=False) == zeros
    elif numbers_written is not None and not scheme.gives_values(options):
        assert [number.value for number in decoded] == values
        nearest = [scheme.nearest(value) for value in values]  # a layout may have no −0
        assert [number.value.is_signed() for number in decoded] == [value.is_signed() for value in nearest]
    else:
        assert not decoded, "without their values [NUM]s are no numbers"


@pytest.mark.parametrize(("name", "options"), SCHEMES, ids=str)
def test_a_number_beyond_a_scheme_is_refused_or_the_nearest_that_it_says(name, options, vocabulary):
    scheme = make_scheme(name, options, vocabulary)
    numbers = scheme.abilities().reads
    assert numbers is not None
    for value in list_outside(numbers):
        number = write_numbers([value])
        try:
            nearest = scheme.nearest(value)
        except DataError:
            with pytest.raises(DataError, match="digits"):
                scheme.encode(number)
            continue
        assert nearest != value, "a number comes back that it does not claim"
        assert [n.value for n in round_trip(scheme, number, with_numbers=False)] == [nearest]
        assert scheme.nearest(nearest) == nearest and numbers.holds(nearest)


@pytest.mark.parametrize(("name", "options"), SCHEMES, ids=str)
def test_what_is_no_number_stays_as_it_is(name, options, vocabulary):
    """Versions, dates and numbers inside of words come back letter by letter; NaN and infinities are words."""
    scheme = make_scheme(name, options, vocabulary)
    for text in TEXTS:
        document = (*scheme.parse(text), Mark("[SEP]"))
        row = scheme.encode(document)
        assert scheme.decode(row.ids, row.numbers) == document
        assert "".join(s.surface if isinstance(s, Number) else s.text for s in document[:-1]) == text
        assert all(number.value.is_finite() for number in row.numbers)
    for surface in ("NaN", "Infinity", "-Infinity"):
        with pytest.raises(DataError, match="not a finite number"):
            scheme.encode((Number(surface, Decimal(surface)),))


@pytest.mark.parametrize(("name", "options"), SCHEMES, ids=str)
def test_the_count_of_positions_is_that_of_a_text(name, options, vocabulary):
    scheme = make_scheme(name, options, vocabulary)

    def count(text: str) -> int:
        numbers = (Number(text, Decimal(text)),) if text else ()
        return len(scheme.encode((Mark("[CLS]"), *numbers, Mark("[SEP]"))).ids) - 2

    for n in (1, 3, 6, 10):
        assert scheme.positions_per_number(n) == count("1" * n)
        if scheme.abilities().parallel_write:
            assert scheme.positions_per_number(n) == 1


# ---------------------------------------------------------------------------------------------------
# Heads that write a number at one position. Each gets the output of a model that is certain of a number.


def make_head(name: str, **options):
    return build("heads", {"name": name} | options, **(drawn.CONTEXT | {"digits": 20}))


def be_sure_of_places(head, value: Decimal, codes: np.ndarray) -> np.ndarray:
    """Returns the outputs of all places, lowest first, of `codes` [10, outputs of a place], and then of the sign."""
    sign, digits, exponent = value.as_tuple()
    by_place = dict(enumerate(reversed(digits), int(exponent) + head.fraction)) if value else {}
    outputs = [codes[by_place.get(place, 0)] for place in range(head.places)]
    return np.concatenate([*outputs, [-9.0 if sign else 9.0]])


def make_place_weights(head, outputs: np.ndarray) -> dict:
    """Returns weights that give these outputs for a hidden state whose norm is (1, −1, 1, …)."""
    width = head.width
    return {
        "number_scale": np.ones(width, np.float32),
        "number_bias": np.zeros(width, np.float32),
        "number_kernel": np.outer(np.where(np.arange(width) % 2, -1, 1) / width, outputs).astype(np.float32),
    }


def make_sure_fone(head, value):
    codes = fourier.code_digits(fourier.parse_bases(head.bases))
    return make_place_weights(head, be_sure_of_places(head, value, 60 * codes.T))


def make_sure_carry(head, value):
    codes = np.zeros((10, head.kind.count))
    codes[np.arange(10), np.arange(10) - head.least] = 60
    outputs = be_sure_of_places(head, value, codes)
    return make_place_weights(head, outputs) | {"digit_bias": np.zeros(len(outputs), np.float32)}


def make_sure_bits(head, value):
    bits = np.asarray(binary64.encode(jax.tree.map(jnp.asarray, to_numeral([value], 20))))[0]
    kernel = np.zeros((head.width, binary64.BITS), np.float32)
    return {"number_kernel": kernel, "number_bias": np.where(bits > 0, 20.0, -20.0).astype(np.float32)}


def make_sure_base10(head, value):
    digits = np.asarray(base10.encode(to_numeral([value], 20)))[0]
    bias = np.concatenate([[-20.0 if value.is_signed() else 20.0], 20 * np.eye(10)[digits].reshape(-1)])
    return {"number_kernel": np.zeros((head.width, len(bias)), np.float32), "number_bias": bias.astype(np.float32)}


def make_sure_intseq(head, value):
    scaled = int(value.scaleb(head.fraction))
    classes, _ = intseq.lay_out_classes(head.most)
    count = int(np.sum(range(2, head.most + 1)))
    residue_bias, sign_bias = np.zeros(count, np.float32), np.zeros(3, np.float32)
    residue_bias[[classes[m - 2, scaled % m] for m in range(2, head.most + 1)]] = 20
    sign_bias[1 + (value > 0) - (value < 0)] = 20
    size = 1 + float(abs(value).log10()) if value else 0.0
    weights = {"magnitude_bias": np.full(1, size, np.float32), "sign_bias": sign_bias, "residue_bias": residue_bias}
    sizes = {"magnitude_kernel": 1, "sign_kernel": 3, "residue_kernel": count}
    return weights | {key: np.zeros((head.width, n), np.float32) for key, n in sizes.items()}


def make_sure_mixture(head, value):
    exponent = value.adjusted() if value else head.low - 1
    count = head.high - head.low + 3
    scores = np.where(np.arange(count) == exponent_id(jnp.int32(exponent), head.low, head.high), 50.0, 0.0)
    mantissa = float(value.scaleb(-exponent)) if value else math.copysign(1, value)
    first = np.zeros(head.width, np.float32)
    first[0] = 1
    weights = {"exponent": np.outer(first, scores), "mantissa": np.outer(first, [mantissa])}
    weights |= {"selector": np.outer(first, [0, 9]), "log_variance": np.outer(first, [0])}
    return {key: value.astype(np.float32) for key, value in weights.items()}


def make_sure_xval(head, value):
    u = value_maps.apply_map(np.asarray(float(value)), head.map, head.scale)
    sizes = {"number_up": (head.width, 4), "number_up_bias": (4,), "number_down": (4, 1)}
    weights = {key: np.zeros(shape, np.float32) for key, shape in sizes.items()}
    return weights | {"number_down_bias": np.full(1, u, np.float32)}


SURE = {
    "fone": make_sure_fone,
    "carry": make_sure_carry,
    "bits": make_sure_bits,
    "base10": make_sure_base10,
    "intseq": make_sure_intseq,
    "mixture": make_sure_mixture,
    "xval": make_sure_xval,
    "residues": make_sure_weights,
}


def write_surely(head, name: str, values) -> list[Decimal]:
    """Returns the numbers that a head writes whose model is certain of these."""
    hidden = np.where(np.arange(head.width) % 2, -1, 1).astype(np.float32)[None]
    kernel = {"kernel": np.zeros((drawn.VOCAB, head.width), np.float32)}
    run = jax.jit(jax.vmap(lambda weights: head.step_scores(HeadOut(hidden, kernel | weights)).numeral))
    written = []
    for start in range(0, len(values), 250):
        weights = [SURE[name](head, value) for value in values[start : start + 250]]
        padded = weights + weights[:1] * (250 - len(weights))  # so that there is one shape to compile
        numeral = jax.tree.map(np.asarray, run(jax.tree.map(lambda *x: np.stack(x), *padded)))
        numeral = numeral._replace(valid=np.ones(numeral.valid.shape, bool))
        written += to_decimals(numeral)[: len(weights)]
    return written


def list_heads() -> list[tuple[str, dict]]:
    """Returns (name, options) of each head of numbers with its defaults, and of each row, without repetition."""
    blocks = [{"name": name} for name in names("heads")]
    blocks += [load_config(row).heads["next"].to_dict() for row in schemes.ROWS]
    options = [(str(b["name"]), {k: v for k, v in b.items() if k != "name"}) for b in blocks]
    # Heads whose scheme joins what they predict to numbers are tested with their scheme.
    classes = [find("heads", name) for name, _ in options]
    is_whole = [cls.numbers and cls.written_as == "slot" for cls in classes]
    return [p for i, p in enumerate(options) if is_whole[i] and p not in options[:i]]


HEADS = list_heads()


def test_every_head_of_numbers_is_tested():
    assert {name for name, _ in HEADS} == set(SURE), "a new head needs the output that is certain of a number"


@pytest.mark.parametrize(
    ("name", "options"),
    [*HEADS, ("fone", {"signed": False}), ("intseq", {"fraction": 2}), ("mixture", {"keep": 9})],
    ids=str,
)
def test_a_head_writes_every_number_that_it_claims(name, options, rng):
    head = make_head(name, **options)
    numbers = head.number_range
    values = [*list_edges(numbers), *(draw_number(rng, numbers) for _ in range(COUNT))]
    assert all(head.represents(value) for value in values)
    for value, written in zip(values, write_surely(head, name, values), strict=True):
        if head.exact:
            assert written == value
        else:
            assert math.isclose(written, value, rel_tol=3e-4, abs_tol=2e-8 * getattr(head, "scale", 1)), (
                value,
                written,
            )
    assert not any(map(head.represents, list_outside(numbers)))


# ---------------------------------------------------------------------------------------------------


def make_system(row: str, vocabulary, tmp_path):
    return assemble(load_config(row), tmp_path, vocabulary=vocabulary)


@pytest.mark.parametrize("row", schemes.ROWS)
def test_a_row_can_what_its_parts_can(row, vocabulary, tmp_path, rng):
    system = make_system(row, vocabulary, tmp_path)
    abilities = system.find_abilities()
    assert abilities.reads is not None and abilities.writes is not None
    head = system.model.heads["next"]
    is_slot = system.scheme.numbers == "slot"
    assert is_slot == (head.number_range is not None)
    assert abilities.parallel_write == (is_slot and system.scheme.whole_numbers)
    own = system.scheme.widen(head.number_range) if is_slot else system.scheme.abilities().writes
    assert abilities.writes == own
    assert abilities.needs_parse == (row in ("coupled", "coupled_bias", "carry_save", "parallel"))
    inside = [*list_edges(abilities.writes), *(draw_number(rng, abilities.writes) for _ in range(50))]
    outside = list_outside(abilities.writes)
    assert all(map(system.represents, inside)) and not any(map(system.represents, outside))


@pytest.mark.parametrize("row", schemes.ROWS)
def test_numbers_that_a_row_reads_are_told_apart(row, vocabulary, tmp_path, rng):
    """Neighbours of the same range have different inputs: different ids, or different vectors."""
    system = make_system(row, vocabulary, tmp_path)
    numbers = system.find_abilities().reads
    assert numbers is not None
    embed = next((embed for embed in system.model.embeds.values() if embed.kind == "numeral"), None)
    values = list({*list_edges(numbers), *(draw_number(rng, numbers) for _ in range(60))})
    rows = [system.scheme.encode(tuple(write_numbers([value]))) for value in values]
    groups: dict[bytes, list] = {}
    for row_features in rows:
        groups.setdefault(row_features.ids.tobytes(), []).append(row_features.numbers)
    if len(groups) == len(rows):
        return
    assert embed is not None and (len(groups) == 1 or not system.scheme.whole_numbers), (
        "the ids must tell all numbers apart, or none"
    )
    if embed.number_range is None or (embed.number_range.digits, embed.number_range.places) == (None, None):
        return  # a real value, as near as float32 has it
    for group in groups.values():
        slots = to_numeral([number.value for numbers in group for number in numbers], system.config.data.digits)
        vectors = np.asarray(embed.init_with_output(jax.random.key(0), slots, {})[0], np.float64)
        vectors = vectors.reshape(len(group), -1)
        distances = np.abs(vectors[:, None] - vectors[None]).max(-1) + 9 * np.eye(len(vectors))
        assert distances.min() > 1e-3, "two numbers have the same vectors"
