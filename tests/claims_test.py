"""Statements judged by their evidence: the evidence of generated statements gives their labels, exactly."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from numjax.build import build
from numjax.bundled.configs import luna
from numjax.bundled.data.tables import facts, statements, wording
from numjax.bundled.data.tables.draw import Draw
from numjax.bundled.data.tables.sheet import TableSheet
from numjax.bundled.data.tables.statement_wordings import DENIALS, WORDINGS
from numjax.errors import DataError, UsageError
from numjax.tasks import claims
from numjax.tasks.claims import lines, operations, selection
from numjax.tasks.claims.operations import OPERATORS, Claim, contains_words, judge
from numjax.tasks.claims.task import ROLES
from numjax.tasks.tatqa.traits import find_numbers, parse_grid, parse_time
from numjax.tasks.tatqa.units import TABLE
from numjax.text import document
from tests import drawn

PARSE = functools.partial(document.parse, rules="accounting")
TASK = claims.Task(units=200)
CLUBS = (
    ("club", "city", "points", "wins"),
    ("Arvo", "Oslo", "1,200", "30"),
    ("Belt", "Lima", "900", "40"),
    ("Corm", "Oslo", "(50)", "10"),
    ("Total", "-", "2,050", "80"),
)
YEARS = (
    ("", "2021", "2020", "2019"),
    ("Sales (in thousands)", "5,200", "4,000", "5,000"),
    ("Staff", "12", "12", "9"),
)


@pytest.fixture(scope="module")
def records():
    """Returns statements of all splits, as the builder stores them."""
    return [
        record | {name: json.dumps(record[name]) for name in ("table", "evidence")}
        for split in wording.SPLITS
        for record in statements.make_records(170, 3, split)
    ]


def certain_output(example, certainty=1.0):
    """Returns the output of a head that is certain of the labels."""
    labels = example.labels
    tags = labels["tags"]
    roles = [np.where(tags == role, certainty, (1 - certainty) / 3) for role in (1, 2)]
    return np.concatenate([[labels["operator"], labels["scale"], 0, 0.0], *roles])


def to_tuples(cells):
    return sorted(map(tuple, cells))


def test_the_evidence_of_every_statement_gives_its_label(records):
    """From labels to predictions: tags become cells and numbers, and these the label."""
    counts = Counter()
    for record in records:
        example, evidence = TASK.example(record, PARSE), json.loads(record["evidence"])
        for certainty in (1.0, 0.8):
            label, used = TASK.make_prediction(example, certain_output(example, certainty))
            assert label == record["label"], (record, used)
            assert (used["operation"], used["denied"]) == (evidence["operation"], evidence["denied"])
            assert to_tuples(used["first"]) == to_tuples(evidence["first"]), record
            assert to_tuples(used["second"]) == to_tuples(evidence["second"]), record
            for name in ("claimed", "limit"):
                start, end = evidence[name] or (0, 0)
                is_named = evidence["operation"] not in ("TEXT", *operations.PERCENTS) and end
                assert not is_named or used[name].strip(" $€£") in record["statement"][start:end], record
        counts[evidence["operation"]] += 1
    assert set(counts) == set(OPERATORS) and sum(counts.values()) > 4000


@pytest.mark.parametrize("plan", [statements._state_mean, statements._state_percent])
def test_a_wrong_number_is_not_right_when_rounded(plan):
    n_statements = 0
    for number in range(60):
        sheet = TableSheet(Draw(5, number))
        grid = parse_grid(tuple(tuple(cell.strip() for cell in row) for row in sheet.cells))
        for _ in range(60):
            if (fact := plan(sheet, sheet.draw, False)) is None:
                continue
            text, evidence = facts.phrase_fact(fact, False, "train", sheet.draw)
            claimed = next(
                n for n in find_numbers(text) if n.start < evidence.claimed[1] and n.end > evidence.claimed[0]
            )
            claim = Claim(evidence.operation, False, evidence.first, evidence.second, claimed)
            assert not judge(text, grid, claim), (text, sheet.cells)
            n_statements += 1
    assert n_statements > 1000


def test_every_statement_needs_its_cells(records):
    """The tags of each role are those of the evidence, and no others."""
    for record in records[::10]:
        example, evidence = TASK.example(record, PARSE), json.loads(record["evidence"])
        text, tags = document.surface(example.document), example.labels["tags"]
        rows = json.loads(record["table"])
        for role, name in ((1, "first"), (2, "second")):
            cells = [rows[r][c] for r, c in evidence[name] if rows[r][c]]
            units = [u for u, tag in zip(example.units, tags, strict=False) if tag == role and u[2] == TABLE]
            assert sorted(text[start:end] for start, end, *_ in units) == sorted(cells)
        assert not tags[len(example.units) :].any()


def test_a_line_is_whole_though_the_model_is_unsure_of_a_cell_or_did_not_see_it(records):
    n_lines = 0
    for record in records:
        example = TASK.example(record, PARSE)
        tagged = [i for i, unit in enumerate(example.units) if example.labels["tags"][i] and unit[2] == TABLE]
        operation = OPERATORS[example.labels["operator"]]
        if operation not in selection.WHOLE_LINES or len(tagged) < 3:
            continue
        n_lines += 1
        for doubt in (0.3, -1.0):
            output = certain_output(example, 0.9)
            output[[4 + tagged[-1], 4 + TASK.units + tagged[-1]]] = (doubt, min(doubt, 0.1))
            assert TASK.make_prediction(example, output)[0] == record["label"], record
    assert n_lines > 500


def judge_claim(statement, rows, operation, first, second=(), denied=False):
    """Judges a statement whose first number is the claimed one and whose last is the limit."""
    numbers = find_numbers(statement)
    claimed, limit = (numbers[0], numbers[-1]) if numbers else (None, None)
    return judge(statement, parse_grid(rows), Claim(operation, denied, first, second, claimed, limit))


@pytest.mark.parametrize(
    ("statement", "operation", "first", "second", "expected"),
    [
        ("Arvo has 1200 points", "EQUAL", [(1, 2)], [], True),
        ("Corm has -50 points", "EQUAL", [(3, 2)], [], True),
        ("Corm has 50 points", "EQUAL", [(3, 2)], [], False),
        ("Belt is in Lima", "TEXT", [(2, 1)], [], True),
        ("Belt is in Limassol", "TEXT", [(2, 1)], [], False),
        ("two clubs are in Oslo", "COUNT-TEXT", [(1, 1), (2, 1), (3, 1)], [], True),
        ("two clubs are in Lima", "COUNT-TEXT", [(1, 1), (2, 1), (3, 1)], [], False),
        ("0 clubs are in Rome", "COUNT-TEXT", [(1, 1), (2, 1), (3, 1)], [], True),
        ("three clubs", "SIZE", [(1, 0), (2, 0), (3, 0)], [], True),
        ("Belt has more than 900 points", "ABOVE", [(2, 2)], [], False),
        ("two clubs have more than 0 points", "COUNT-ABOVE", [(1, 2), (2, 2), (3, 2)], [], True),
        ("only one club has less than 0 points", "ONE-BELOW", [(1, 2), (2, 2), (3, 2)], [], True),
        ("all have more than 9 wins", "ALL-ABOVE", [(1, 3), (2, 3), (3, 3)], [], True),
        ("all have more than 10 wins", "ALL-ABOVE", [(1, 3), (2, 3), (3, 3)], [], False),
        ("none has fewer than 10 wins", "NONE-BELOW", [(1, 3), (2, 3), (3, 3)], [], True),
        ("Belt has the most wins", "LARGEST", [(2, 3)], [(1, 3), (3, 3)], True),
        ("Arvo has the most wins", "LARGEST", [(1, 3)], [(2, 3), (3, 3)], False),
        ("Corm has the fewest wins", "SMALLEST", [(3, 3)], [(1, 3), (2, 3)], True),
        ("2,100 points", "SUM", [(1, 2), (2, 2)], [], True),
        ("683 points on average", "MEAN", [(1, 2), (2, 2), (3, 2)], [], True),
        ("683.3 points on average", "MEAN", [(1, 2), (2, 2), (3, 2)], [], True),
        ("683.4 points on average", "MEAN", [(1, 2), (2, 2), (3, 2)], [], False),
        ("300 more than Belt", "MORE-BY", [(1, 2)], [(2, 2)], True),
        ("300 more than Arvo", "MORE-BY", [(2, 2)], [(1, 2)], False),
        ("300 less than Arvo", "LESS-BY", [(2, 2)], [(1, 2)], True),
        ("300 apart", "DIFFERENCE", [(2, 2)], [(1, 2)], True),
        ("33.3% more", "UP-PERCENT", [(1, 2)], [(2, 2)], True),
        ("33% more", "UP-PERCENT", [(1, 2)], [(2, 2)], True),
        ("33% more", "DOWN-PERCENT", [(1, 2)], [(2, 2)], False),
        ("a change of 25 percent", "PERCENT", [(2, 2)], [(1, 2)], True),
    ],
)
def test_operations_are_computed_exactly(statement, operation, first, second, expected):
    assert judge_claim(statement, CLUBS, operation, tuple(first), tuple(second)) is expected
    assert judge_claim(statement, CLUBS, operation, tuple(first), tuple(second), denied=True) is not expected


@pytest.mark.parametrize("operation", OPERATORS)
def test_a_claim_without_operands_is_not_entailed_even_if_it_is_denied(operation):
    for denied in (False, True):
        assert not judge("nothing", parse_grid(CLUBS), Claim(operation, denied, ()))
        table = (("Name",), ("x",))
        assert not judge(
            "nothing", parse_grid(table), selection.select_claim(operation, denied, table, selection.Roles({}, {}))
        )


@pytest.mark.parametrize(
    ("number", "claimed", "decimals", "is_right"),
    [
        ("2.5", "3", 0, True),
        ("2.5", "2", 0, False),
        ("-2.5", "-3", 0, True),
        ("-2.5", "3", 0, False),
        ("2.449", "2.4", 1, True),
        ("2.45", "2.5", 1, True),
        ("0.04", "0", 1, True),
        ("-0.04", "0", 1, True),
        ("-0.05", "0", 1, False),
    ],
)
def test_halves_are_rounded_away_from_zero(number, claimed, decimals, is_right):
    assert operations._rounds_to(Decimal(number), Decimal(claimed), decimals) is is_right


def test_any_output_about_any_table_gives_a_label(rng):
    """Odd tables and statements, and random outputs: a label, never an error."""
    cells = ["", "1e999", "-1e-999", "—", "Total", "2019", "5B", "(3)", "12%", "x" * 300, "9" * 99, "½", "all", "£ —"]
    statements = ["1e5", "It is 0." + "0" * 3000 + "1 million", "12 thousand and -0 or 9999999 billion", "½ ٣"]
    for _ in range(150):
        height, width = rng.integers(2, 5), rng.integers(1, 5)
        table = [[str(rng.choice(cells)) for _ in range(width)] for _ in range(height)]
        table[-1][-1] = "7"
        record = {"id": "x", "table": table, "statement": str(rng.choice(statements))}
        example = TASK.example(TASK.unanswered | record, PARSE)
        roles = rng.random((2, int(rng.integers(1, 40)))) - 0.2
        for operator in range(len(OPERATORS)):
            output = np.concatenate([[operator, rng.integers(2), 0, -0.5], *np.where(roles < 0, -1, roles / 2)])
            label, used = TASK.make_prediction(example, output)
            assert label in (0, 1) and used["confidence"] == pytest.approx(np.exp(-0.5))
            json.dumps(used)


@pytest.mark.parametrize(
    ("number", "is_right"),
    [
        ("5,200", True),
        ("5,200 thousand", True),
        ("5.2 million", True),
        ("5.3 million", False),
        ("5,200,000", True),
        ("5,200,001", False),
        ("5.2", False),
        ("$5.2m", True),
        ("$5.3m", False),
        ("5,200k", True),
        ("0.0052bn", True),
    ],
)
def test_numbers_are_read_in_the_unit_of_the_table(number, is_right):
    assert judge_claim(f"Sales were {number}", YEARS, "EQUAL", ((1, 1),)) is is_right


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("$1.2bn, 1,234m and 5.2x", ["$1.2", "1,234", "5.2"]), ("up 12.5k or 1.5pp", ["12.5", "1.5"]),
        ("the 30th of FY2019, 1.5th, 2x4", []), ("1,234.5 and 12.5%", ["1,234.5", "12.5"]),
    ],
)  # fmt: skip
def test_a_number_of_a_statement_is_read_whole_or_not(text, numbers):
    assert [text[number.start : number.end] for number in find_numbers(text)] == numbers


def test_the_time_before_is_found_in_any_order_and_beside_a_measure():
    grid = parse_grid(YEARS)
    assert lines.find_previous(grid, (1, 1)) == (1, 2) and lines.find_previous(grid, (1, 3)) is None
    joint = (("firm", "CO2 (2020)", "CO2 (2019)", "sales 2020", "sales 2019"), ("Arvo", "1", "2", "3", "4"))
    assert lines.find_previous(parse_grid(joint), (1, 3)) == (1, 4)
    assert ((1, 3), (1, 4)) in lines.list_lines(joint).numbers and ((1, 1), (1, 2)) in lines.list_lines(joint).numbers
    months = (("month", "2020", "2021"), ("January", "1", "2"), ("February", "3", "4"))
    assert lines.find_previous(parse_grid(months), (2, 2)) == (2, 1), "years count before months"
    assert lines.find_previous(parse_grid((("month", "rain"), ("January", "1"), ("February", "3"))), (2, 1)) == (1, 1)
    assert lines.find_previous(parse_grid(CLUBS), (2, 2)) is None
    cities = (("city", "rain"), ("Marseille", "1"), ("Decatur", "2"), ("Augusta", "3"))
    assert lines.find_previous(parse_grid(cities), (2, 1)) is None, "no months"
    dated = (("", "March 31, 2019", "December 31, 2018"), ("cash", "150", "100"))
    assert lines.find_previous(parse_grid(dated), (1, 1)) == (1, 2)
    assert lines.find_previous(parse_grid(dated), (1, 2)) is None
    measures = (
        ("", "sales Dec 2018", "sales Mar 2019", "costs Dec 2018", "costs Mar 2019"),
        ("A", "1", "2", "3", "4"),
    )
    assert lines.find_previous(parse_grid(measures), (1, 4)) == (1, 3)
    mixed = (("", "sales 2019", "sales Dec 2018", "costs 2019"), ("A", "1", "2", "3"))
    assert lines.find_previous(parse_grid(mixed), (1, 1)) == (1, 2), "years and dates have one order"
    assert lines.find_previous(parse_grid(mixed), (1, 2)) is None


@pytest.mark.parametrize(
    "ordered",
    [
        ["2018", "FY 2019", "Year 2020"],
        ["Q1", "Q2", "Q4"],
        ["January", "Feb", "Mar.", "april", "MAY", "June", "Jul", "August", "Sept", "Oct.", "Nov", "December"],
        ["March 31, 2018", "December 31, 2018", "Mar 31, 2019", "As of 1 April 2019", "Year ended 31st Dec. 2019"],
        ["Jun 2018", "Sep 2018", "March 2019"],
    ],
)
def test_times_of_headers_are_in_order(ordered):
    keys = [parse_time(header) for header in ordered]
    assert None not in keys and keys == sorted(set(keys))


@pytest.mark.parametrize(
    "header", ["Marketing", "Decrease", "Juneau", "Augusta", "Mayor", "sales in 12 shops", "", "5"]
)
def test_words_that_only_begin_like_a_month_are_no_times(header):
    assert parse_time(header) is None


def test_lines_leave_out_totals_but_a_total_has_a_line_of_its_own():
    numbers = lines.list_lines(CLUBS).numbers
    assert ((1, 2), (2, 2), (3, 2)) in numbers and ((4, 1), (4, 2), (4, 3)) in numbers, "a dash is zero"
    assert ((1, 0), (2, 0), (3, 0)) in lines.list_lines(CLUBS).headers
    assert ((1, 1), (2, 1), (3, 1)) in lines.list_lines(CLUBS).texts


def test_cells_of_a_measure_at_several_times_are_a_line():
    rows = (
        ("sales 2017", "sales 2018", "costs 2018", "sales 2019"),
        ("north 2018", "1", "2", "3"),
        ("south 2018", "4", "5", "6"),
        ("north 2019", "7", "8", "9"),
    )
    found, texts, _ = lines.list_lines(rows)
    assert {((1, 1), (1, 3)), ((2, 1), (2, 3)), ((1, 1), (3, 1)), ((1, 2), (3, 2))} <= set(found)
    assert not any(column == 0 or row == 0 for line in (*found, *texts) for row, column in line), (
        "headers are no cells"
    )


def test_words_of_a_text_must_be_whole_and_in_order():
    assert contains_words("The type of Arvo is NORTH-east.", "North-East")
    assert not contains_words("Northeast", "North") and not contains_words("East north", "north east")
    assert not contains_words("anything", "") and not contains_words("", "north")


def test_wordings_of_a_direction_have_its_operation(monkeypatch):
    """A wording with {less} says the opposite of one with {more}, with its cells exchanged."""
    first, second = ((1, 1),), ((2, 1),)
    all_wordings = dict(WORDINGS)

    def phrase(plan, operation, needle, second=second, denies=False):
        """Returns the evidence of a fact in a wording with `needle`."""
        monkeypatch.setitem(WORDINGS, plan, tuple(text for text in all_wordings[plan] if needle in text))
        slots = dict.fromkeys(re.findall(r"\{(\w+)\}", " ".join(WORDINGS[plan] + DENIALS.get(plan, ()))), "7")
        fact = facts.Fact(plan, slots, operation, first, second)
        return facts.phrase_fact(fact, denies, "train", Draw(0))[1]

    assert phrase("more", "GREATER", "{a} has {more}")[:4] == ("GREATER", False, first, second)
    assert phrase("more", "GREATER", "{b} has {less}")[:4] == ("LESS", False, second, first)
    assert phrase("difference", "MORE-BY", "{v} {more}").operation == "MORE-BY"
    assert phrase("difference", "MORE-BY", "apart").operation == "DIFFERENCE"
    assert phrase("percent", "DOWN-PERCENT", "changed").operation == "PERCENT"
    assert phrase("all", "ALL-ABOVE", "{below}", second=())[:4] == ("NONE-BELOW", False, first, ())
    assert phrase("limit", "ABOVE", "{x}", denies=True).denied
    assert not phrase("sum", "SUM", "total", denies=True).denied, "sums have no wordings that deny them"


@pytest.mark.parametrize(
    "evidence",
    [
        *("[]", "{", '{"operation": "NAME"}', '{"operation": "SUM"}', '{"operation": ["SUM"]}', "5", '"SUM"'),
        '{"operation": "SUM", "denied": false, "first": null, "second": [], "claimed": [0, 1], "limit": []}',
        '{"operation": "SUM", "denied": null, "first": [], "second": [], "claimed": [0, 1], "limit": []}',
        '{"operation": "SUM", "denied": false, "first": [], "second": [], "claimed": "ab", "limit": []}',
        '{"operation": "SUM", "denied": false, "first": [], "second": [], "claimed": [], "limit": [[1], 2]}',
    ],
)
def test_bad_evidence_is_named_in_one_line(records, evidence):
    with pytest.raises(DataError, match=r"^field 'evidence' must be the JSON of operation") as error:
        TASK.example(records[0] | {"evidence": evidence}, PARSE)
    assert "\n" not in str(error.value)


def test_without_evidence_there_are_no_labels(records):
    example = TASK.example(records[0] | {"evidence": ""}, PARSE)
    assert example.labels["operator"] == example.labels["scale"] == -1 and not example.labels["tags"].any()
    assert example.reference["operation"] == ""


def test_the_head_of_the_config_fits_the_task():
    config = luna.get_config("smoke,task=claims")
    head = config.heads.answer
    assert (head.operators, head.scales, head.roles) == (len(OPERATORS), 2, ROLES)
    assert {block.part for block in config.objectives.values()} == {"operator", "scale", "tags"}


def test_a_release_without_evidence_is_refused():
    with pytest.raises(
        UsageError, match=r"^claims: the statements in release have labels but no evidence: use task=tabfact"
    ):
        claims.Task(path="release")


def test_roles_have_a_probability_each(rng):
    """The head's output for two roles: their probabilities by unit, one role after the other."""
    batch = drawn.add_units(drawn.draw_batch(rng, lengths=[[5, 3], [9], [6]]), rng)
    head: Any = build("heads", {"name": "tagop", "roles": 2, "dropout": 0.0, "init_std": 0.5}, width=8)
    h = rng.standard_normal((3, 12, 8)).astype(np.float32)
    params = drawn.draw_params(head, rng, h, batch.inputs)
    out = head.apply({"params": params}, h, batch.inputs)
    tags_BT3, best = np.exp(head.tags(out)), np.asarray(head.best(out))
    np.testing.assert_allclose(tags_BT3.sum(-1), 1, atol=1e-5)
    assert best.shape == (3, 4 + 2 * 12)
    unit = batch.inputs.channels["units"][..., 0]
    for role in (1, 2):
        for b, u in ((0, 1), (1, 2), (2, 2)):
            expected = tags_BT3[b, unit[b] == u, role].max()
            assert best[b, 4 + 12 * (role - 1) + u - 1] == pytest.approx(expected, abs=1e-6)
    roles = rng.integers(0, 3, (3, 12)).astype(np.int32)
    expected = sum(
        float(np.log(tags_BT3[b, t, roles[b, unit[b, t] - 1]])) for b in range(3) for t in range(12) if unit[b, t]
    )
    labels = dict(batch.labels) | {"tags": roles}
    assert float(head.log_prob(out, labels)["tags"].sum()) == pytest.approx(expected, abs=1e-3)
    assert head.scored(out, labels)["tags"].all()


def test_numbers_of_the_statement_belong_to_it(rng):
    """Units of group 0 change neither the mean of the statement nor the operator."""
    batch = drawn.draw_batch(rng, lengths=[[9], [9], [9]])
    cells = np.zeros((3, 12, 3), np.int32)
    cells[:, 5] = 2, TABLE, 1
    with_number = cells.copy()
    with_number[:, 2] = 1, 0, 1
    head: Any = build("heads", {"name": "tagop", "asked": "both", "dropout": 0.0, "init_std": 0.5}, width=8)
    h = rng.standard_normal((3, 12, 8)).astype(np.float32)
    results = []
    for units in (cells, with_number):
        inputs = batch.inputs._replace(channels={"units": units})
        params = drawn.draw_params(head, np.random.default_rng(0), h, inputs)
        results.append(head.operator(head.apply({"params": params}, h, inputs)))
    np.testing.assert_array_equal(*results)
