"""The problems of data/arithmetic: their answers by a second way, their shares, splits and streams."""

from __future__ import annotations

import collections
import math
import re
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from numjax.bundled.data.arithmetic import floats, generate, make
from numjax.bundled.data.arithmetic.edges import list_edges
from numjax.bundled.data.arithmetic.operations import OPERATIONS
from numjax.bundled.data.arithmetic.problem import round_half_up
from numjax.bundled.data.mme import wordings
from numjax.bundled.data.mme.generate import THINGS
from numjax.text import document as documents
from numjax.types import Number
from tests.arithmetic_answers import check_orbit, check_series, find_numbers, solve

LENGTHS = (1, 2, 3, 4, 6, 8, 12, 20, 30)
THING = {thing.name: thing for thing in THINGS}


def draw_problems(name: str, count: int) -> list:
    """Problems of an operation, of all its lengths and streams in turn, behind its edges."""
    operation, rng = OPERATIONS[name], np.random.default_rng(7)
    lengths = [n for n in LENGTHS if n <= operation.most]
    draws = [operation.draw, *operation.streams.values()]
    problems = [edge for n in lengths for edge in list_edges(name, n)]
    problems += [draws[i % len(draws)](rng, lengths[i // len(draws) % len(lengths)]) for i in range(count)]
    return problems


def check_answer(name: str, problem) -> None:
    if name == "mme":
        _, count, thing = problem.group.split(maxsplit=2)
        value = Fraction(problem.operands[0].split()[0].replace(",", ""))
        fits = THING[thing].low * int(count) <= value <= THING[thing].high * int(count)
        assert problem.answer == str(int(fits)) and problem.operands[1] == count
        assert problem.question.startswith(f"fits {problem.operands[0]} : ")
    elif name == "orbit":
        check_orbit(problem.question, problem.answer)
    elif name == "series":
        check_series(problem.question, problem.answer)
    else:
        assert sorted((problem.answer, *problem.accepted)) == sorted(solve(problem.question)), problem.question


@pytest.mark.parametrize("name", OPERATIONS)
def test_answers_are_those_of_a_second_way(name):
    for problem in draw_problems(name, 500):
        check_answer(name, problem)


@pytest.mark.whole
@pytest.mark.parametrize("name", OPERATIONS)
def test_ten_thousand_answers_are_those_of_a_second_way(name):
    for problem in draw_problems(name, 10_000):
        check_answer(name, problem)


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_parse_is_that_of_the_question(name):
    """Operands and operator say what the question asks, in its order, and the scheme's parser finds them too."""
    for problem in draw_problems(name, 100):
        rest = problem.question
        for operand in problem.operands if name != "mme" else ():
            _, found, rest = rest.partition(operand)
            assert found, problem.question
        numbers = [s for s in documents.parse(problem.question) if isinstance(s, Number)]
        if name not in ("mme", "fmul", "fdiv"):
            assert [number.surface for number in numbers] == list(problem.operands)
        if name in ("fmul", "fdiv"):
            assert [number.surface for number in numbers] == [*problem.operands, "7"]
        if name in ("add", "sub", "mul1", "mul2", "mul", "mul6", "decadd"):
            a, b = map(Fraction, problem.operands)
            value = {"+": a + b, "-": a - b, "*": a * b}[problem.operator]
            assert value == Fraction(problem.answer)


def test_no_two_operations_ask_alike():
    """The words and signs of a question decide its operation, but for products and sums, which are the same."""
    owners = collections.defaultdict(set)
    same = {"mul1": "mul", "mul2": "mul", "mul6": "mul", "decadd": "add"}
    for name in OPERATIONS:
        for problem in draw_problems(name, 60):
            words = (
                problem.question.split()[0] if name == "mme" else re.sub(r"-?[0-9][-0-9.,e]*", "#", problem.question)
            )
            owners[re.sub(r"(# ?,? ?)+", "# ", words)].add(same.get(name, name))
    assert {words: names for words, names in owners.items() if len(names) > 1} == {}


def test_published_roundings():
    texts = {("2.3551", 3): "2.36", ("9.9999", 3): "10.0", ("12.351", 3): "12.4", ("99951", 3): "100000"}
    assert {key: round_half_up(Decimal(key[0]), key[1]) for key in texts} == texts


def test_tasks_that_nupa_has_too_have_its_answers():
    """Its places count from the left and from 0, ours from the right and from 1."""
    assert make.make_count(2, 27423).answer == "2" and make.make_length(27423).answer == "5"
    assert [make.make_digit(5 - place, 50404).answer for place in (0, 1, 4)] == ["5", "0", "4"]
    converted, reduced = make.make_converted("50400", 4, True), make.make_reduced(9, 6)
    assert (converted.question, converted.answer) == ("write 50400 as power =", "5.04e4")
    assert (reduced.question, reduced.answer) == ("reduce 9 / 6 =", "3 / 2")


def test_sines_need_no_library():
    """Within an error of 1e-15, and floats round by their exact values."""
    for angle in (*np.linspace(-2000, 2000, 2001).tolist(), 0.0, math.pi / 4, math.pi, 1e-9):
        assert abs(floats.sine(angle) - math.sin(angle)) < 1e-15
        assert abs(floats.cosine(angle) - math.cos(angle)) < 1e-15
    assert [floats.round_float(x, 2) for x in (0.125, -0.125, 0.0, 2.675, 99.5)] == [
        "0.13",
        "-0.13",
        "0",
        "2.7",
        "100",
    ]
    assert [str(floats.round_places(x, 2)) for x in (0.125, -0.125, -0.001, 2.675)] == [
        "0.13",
        "-0.13",
        "0.00",
        "2.67",
    ]


def test_a_carry_runs_through_all_places_in_a_tenth_of_the_sums(rng):
    def carries_everywhere(a: int, b: int) -> bool:
        places = range(1, max(len(str(a)), len(str(b))) + 1)
        return all(a % 10**n + b % 10**n >= 10**n for n in places)

    sums = [tuple(map(int, OPERATIONS["add"](rng, 6).operands)) for _ in range(4000)]
    assert 0.085 < sum(carries_everywhere(*pair) for pair in sums) / len(sums) < 0.115
    chains = [tuple(map(int, OPERATIONS["add"].streams["carries"](rng, 6).operands)) for _ in range(300)]
    assert all(carries_everywhere(*pair) for pair in chains)
    assert 0.05 < sum(1 in pair for pair in chains) / len(chains) < 0.2


def test_half_of_the_differences_are_negative(rng):
    signs = [Decimal(OPERATIONS["sub"](rng, 6).answer) < 0 for _ in range(3000)]
    assert 0.46 < sum(signs) / len(signs) < 0.54


def test_decimals_differ_in_their_places(rng):
    for length in (1, 4, 12):
        pairs = [OPERATIONS["decadd"](rng, length).operands for _ in range(200)]
        places = [[len(text.partition(".")[2]) for text in pair] for pair in pairs]
        assert all(a != b for a, b in places) and {n for pair in places for n in pair} == {0, 1, 2, 3, 4}


def classify(texts: tuple[str, ...]) -> str:
    half = math.ceil(len(texts[0]) / 2)
    if len({text[:half] for text in texts}) == 1 and all(text.isdigit() and len(text) == 2 * half for text in texts):
        return "head"
    if len({text.partition(".")[0] for text in texts}) == 1 and len({len(text) for text in texts}) == len(texts):
        return "length"
    return ""


@pytest.mark.parametrize("name", ["max", "sort"])
def test_most_lists_are_hard(name, rng):
    lists = [OPERATIONS[name](rng, 6).operands for _ in range(3000)]
    shares = collections.Counter(map(classify, lists))
    assert 0.37 < shares["head"] / 3000 < 0.43 and 0.17 < shares["length"] / 3000 < 0.23
    assert {len(texts) for texts in lists} == set(range(2 if name == "max" else 3, 6))


def test_rounding_meets_runs_of_nines_and_ties(rng):
    nines = ties = 0
    for _ in range(3000):
        number, digits = OPERATIONS["round"](rng, 6).operands
        rest = number.replace(".", "").lstrip("0")[int(digits) :].rstrip("0")
        nines += rest.startswith("99")
        ties += rest == "5"
    assert nines > 450 and ties > 450


@pytest.fixture(scope="module")
def rows():
    return list(generate.make_problems(list(OPERATIONS), 2200, 10, seed=3, length=6, longer=[8, 12]))


def find_value(operation: str, question: str) -> tuple:
    """What the questions of an operation that ask for the same thing of the same values share."""
    values = [Fraction(text.replace(",", "")) for text in find_numbers(question)]
    words = re.sub(r"[0-9][-0-9.,e]*", "#", question)
    if operation in ("add", "decadd", "mul1", "mul2", "mul", "mul6", "fmul", "max", "sort", "pick"):
        return operation, tuple(sorted(values))
    if operation == "mod":
        return operation, question.split()[1], tuple(sorted(values[:2])), values[2]
    if operation == "frac":
        terms = [a / b for a, b in zip(values[::2], values[1::2], strict=True)]
        return operation, tuple(sorted(terms))
    if operation in ("copy", "convert"):
        sign = "-" if question.startswith("copy -") else ""
        return operation, sign, tuple(values)
    return operation, words, tuple(values)


def test_splits_share_no_values(rows):
    splits = collections.defaultdict(set)
    for split, record in rows:
        key = (record["operation"], "edges") if record["stream"] == "edges" else (record["operation"], "")
        value = find_value(record["operation"], record["question"])
        if record["operation"] != "mme":
            assert key[1] or value not in splits[split], "once in a split"
            splits[split].add(value)
    assert not splits["train"] & splits["test"] and not splits["train"] & splits["validation"]
    assert not splits["validation"] & splits["test"]


def test_products_of_all_three_kinds_share_no_values_between_splits():
    splits = collections.defaultdict(set)
    for names in (["mul1"], ["mul2", "mul"], ["add", "decadd"]):
        rows = generate.make_problems(names, 800 * len(names), 20, seed=2, length=5, longer=[8])
        for split, record in rows:
            splits[split].add((record["operator"], *sorted(map(Fraction, record["operands"].split(" | ")))))
    assert not splits["train"] & splits["test"] and not splits["validation"] & splits["test"]
    assert not splits["train"] & splits["validation"]


def test_test_is_the_same_for_any_size():
    """And less training is the beginning of more."""
    names = ["add", "max", "mme", "copy", "convert", "frac"]

    def draw(size: int) -> dict[tuple[str, str], list[tuple[str, str]]]:
        splits = collections.defaultdict(list)
        for split, record in generate.make_problems(names, size, 10, seed=4, length=4, longer=[6]):
            splits[split, record["operation"]].append((record["question"], record["stream"]))
        return splits

    few, many = draw(150), draw(3000)
    assert all(few[split, name] == many[split, name] for split in ("validation", "test") for name in names)
    assert all(many["train", name][:25] == few["train", name] for name in names)


def test_all_problems_of_two_digits_are_for_training():
    """A hash would keep a tenth of them out of it."""
    rows = generate.make_problems(["digit_at"], 4500, 10, seed=0, length=6, longer=[])
    questions = [record["question"] for split, record in rows if split == "train"]
    short = {question for question in questions if len(find_numbers(question)[1]) <= 2}
    assert len(short) > 0.95 * (9 + 2 * 90)


def test_no_edge_of_another_operation_is_in_training(monkeypatch):
    edges = [make.make_product(a, b) for a in range(10, 60) for b in range(10)]
    monkeypatch.setattr(generate, "list_edges", lambda name, length: edges if name == "mul" else [])
    rows = [r for _, r in generate.make_problems(["mul1"], 350, 2, seed=0, length=2, longer=[])]
    pairs = [sorted(map(int, record["operands"].split(" | "))) for record in rows]
    assert len(pairs) > 350 and not any(10 <= b < 60 for _, b in pairs)


def test_a_stream_of_few_problems_is_short():
    rows = generate.make_problems(["add"], 50, 100, seed=0, length=3, longer=[])
    streams = collections.Counter(record["stream"] for _, record in rows)
    assert 5 < streams["carries"] < 60 and streams["magnitude"] == 100


def find_thing(question: str) -> str:
    forms = {
        form: thing for thing, names in wordings.WORDS.names.items() for name in names for form in name.split("/")
    }
    (*_, longest) = sorted((form for form in forms if form in question.lower()), key=len)
    return forms[longest]


def test_a_thing_and_its_count_are_in_one_split():
    """Whatever the answer and the wording."""
    seen = collections.defaultdict(list)
    for split, record in generate.make_problems(["mme"], 800, 60, seed=1, length=6, longer=[]):
        _, _, question = record["question"].partition(" : ")
        seen[find_thing(question), record["operands"].split(" | ")[1]].append(split)
    repeated = [splits for splits in seen.values() if len(splits) > 1]
    assert len(repeated) > 40 and all(len(set(splits)) == 1 for splits in repeated)


def test_equal_values_have_one_key():
    half, third = (1, 2), (1, 3)
    for one, other in [
        (make.make_sum(3, 17), make.make_sum(17, 3)),
        (make.make_product(3, 17), make.make_product(17, 3)),
        (make.make_decimal_sum(Decimal("1.50"), Decimal(2)), make.make_decimal_sum(Decimal(2), Decimal("1.5"))),
        (make.make_largest([Decimal("1.0"), Decimal(2)]), make.make_largest([Decimal(2), Decimal(1)])),
        (make.make_residue(3, "+", 4, 7), make.make_residue(4, "+", 3, 7)),
        (make.make_converted("504", 4, True), make.make_converted("5040", 4, False)),
        (make.make_reduced(1, 2), make.make_reduced(2, 4)),
        (make.make_fraction_sum(*half, *third), make.make_fraction_sum(2, 6, *half)),
        (make.make_scaled_product(Decimal(2), Decimal("0.3")), make.make_scaled_product(Decimal("0.30"), Decimal(2))),
        (make.make_copy("0017"), make.make_copy("17")),
        (make.make_copy("1,700"), make.make_copy("1.7e3")),
        (make.make_pick(3, 4, True), make.make_pick(4, 3, True)),
    ]:
        assert one.key == other.key and one.question != other.question
    assert make.make_difference(3, 17).key != make.make_difference(17, 3).key
    assert make.make_residue(3, "+", 4, 7).key != make.make_residue(3, "*", 4, 7).key
    assert (
        make.make_scaled_quotient(Decimal(1), Decimal(2)).key != make.make_scaled_quotient(Decimal(2), Decimal(1)).key
    )


def test_streams_are_what_they_say(rows):
    assert len({record["id"] for _, record in rows}) == len(rows)
    sizes = collections.Counter(split for split, _ in rows)
    assert sizes["train"] == 2200 and sizes["validation"] == 10 * len(OPERATIONS)
    streams = collections.Counter((r["operation"], r["stream"]) for split, r in rows if split == "test")
    for name, operation in OPERATIONS.items():
        assert streams[name, "edges"] >= 3 and streams[name, "inside"] == 10
        assert all(streams[name, stream] == 10 for stream in operation.streams)
        own = {f"length {n}" for n in operation.longer or (8, 12) if n <= max(operation.most, 3)}
        assert {s for o, s in streams if o == name} == {"edges", "inside", *operation.streams} | (
            own if operation.most > 1 and (operation.longer or operation.most > 8) else set()
        )
    assert all(record["answer"] in record["accepted"].split(" | ") for _, record in rows)


def test_longer_streams_have_operands_of_their_length(rows):
    for split, record in rows:
        longest = max(sum(c.isdigit() for c in text.partition(".")[0]) for text in record["operands"].split(" | "))
        name, stream = record["operation"], record["stream"]
        if stream.startswith("length ") and name not in ("convert", "copy"):
            assert longest == int(stream.removeprefix("length ")), record
        if stream == "inside" and split != "train" and OPERATIONS[name].most > 3:
            assert sum(c.isdigit() for c in "".join(record["operands"])) > 2
            assert any(sum(c.isdigit() for c in text) > 2 for text in record["operands"].split(" | ")), "no tiny ones"
        if name == "frac" and split != "test":
            assert all(len(text) <= 2 for text in record["operands"].split(" | "))


def test_magnitudes_are_beyond_those_of_training(rows):
    sizes = collections.defaultdict(list)
    for split, record in rows:
        operands = [abs(Fraction(t.replace(",", ""))) for t in find_numbers(record["operands"].replace(" | ", " ; "))]
        operands = operands[-1:] if record["operation"] == "mme" else operands  # the count, not the answer
        key = "train" if split == "train" else record["stream"]
        sizes[record["operation"], key] += [(max(operands), min(operands))]
    for name, operation in OPERATIONS.items():
        if "magnitude" in operation.streams:
            high, low = (f(x[i] for x in sizes[name, "train"]) for i, f in ((0, max), (1, min)))
            for largest, least in sizes[name, "magnitude"]:
                assert largest > high or (name in ("fmul", "fdiv") and least < low), name


def test_lengths_of_two_operands_are_independent():
    rows = [r for s, r in generate.make_problems(["sub"], 6000, 10, seed=0, length=6, longer=[]) if s == "train"]
    pairs = collections.Counter(tuple(len(text) for text in record["operands"].split(" | ")) for record in rows)
    expected = 6000 / 36
    assert all(0.7 < pairs[a, b] / expected < 1.4 for a in range(1, 7) for b in range(1, 7) if a + b > 3)


def test_decimal_context_does_not_round():
    """Long operands must not meet the default context of 28 digits."""
    rng = np.random.default_rng(0)
    with localcontext(prec=5, rounding=ROUND_HALF_UP):
        for name in ("decadd", "fmul", "fdiv", "round", "convert", "max", "tabular", "series", "orbit"):
            problems = [OPERATIONS[name](rng, 40) for _ in range(20)]
            rng = np.random.default_rng(0)
            with localcontext(prec=300):
                assert [OPERATIONS[name](rng, 40) for _ in range(20)] == problems
            rng = np.random.default_rng(0)
