"""Tables of many layouts: answers and labels follow from the cells, and a statement alone reveals no label."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections import Counter
from decimal import Decimal
from typing import Any

import jax
import numpy as np
import pytest

from numjax.build import build
from numjax.bundled.configs import luna
from numjax.bundled.data.tables import questions, statement_wordings, wording
from numjax.bundled.data.tables.draw import Draw
from numjax.bundled.data.tables.question_wordings import WORDINGS
from numjax.bundled.data.tables.questions import make_contexts
from numjax.bundled.data.tables.sheet import TableSheet
from numjax.bundled.data.tables.statements import make_records, phrase_number
from numjax.bundled.experiments.typed_tables import __main__ as typed
from numjax.errors import UsageError
from numjax.heads.tagop import header_means
from numjax.tasks import tabfact, tatqa
from numjax.tasks.tatqa import records as tatqa_records
from numjax.tasks.tatqa import traits
from numjax.tasks.tatqa.traits import TRAITS
from numjax.tasks.tatqa.units import parse_value
from numjax.text import document, vocab
from numjax.types import Tokens

PARSE = functools.partial(document.parse, rules="accounting")
REPORT = [["year", "revenue", "cost"], ["2019", "1,200", "900"], ["2018", "1,000", "850"]]


@pytest.fixture(scope="module")
def asked():
    return [
        (context["table"]["table"], q) for context in make_contexts(250, 3, "train") for q in context["questions"]
    ]


def evaluate_derivation(derivation: str) -> Decimal:
    """Returns the value of a derivation, evaluated by Python."""
    text = re.sub(r"[\d.,]+", lambda match: f"Decimal('{match[0].replace(',', '')}')", derivation)
    return eval(text, {"Decimal": Decimal})


def test_answers_follow_from_the_cells_of_their_mapping(asked):
    kinds = Counter()
    for table, q in asked:
        cells = [table[row][column] for row, column in q["mapping"]]
        kinds[q["answer_type"]] += 1
        if q["answer_type"] == "count":
            assert q["answer"] == len(cells) == len(set(map(tuple, q["mapping"])))
        elif q["answer_type"] == "arithmetic":
            numbers = [value.number for value in map(parse_value, cells) if value is not None]
            written_numbers = [Decimal(x.replace(",", "")) for x in re.findall(r"[\d.,]*\d", q["derivation"])]
            assert len(numbers) == len(cells) and set(map(abs, numbers)) <= set(written_numbers)
            value = evaluate_derivation(q["derivation"]) * (
                100 if q["scale"] == "percent" and "/" in q["derivation"] else 1
            )
            average = re.fullmatch(r"\(.*\+.*\)/\d+", q["derivation"])
            value = value / 100 if average and q["scale"] == "percent" else value
            assert abs(value - Decimal(str(q["answer"]))) <= Decimal("0.00501"), q
        elif q["answer_from"] == "table":
            assert len(cells) == len(q["answer"])
            assert all(answer in cell for answer, cell in zip(q["answer"], cells, strict=True))
    assert set(kinds) == {"span", "multi-span", "arithmetic", "count"}


def find_time_before(text: str) -> str:
    """Returns the year or quarter before the one that a text names."""
    (number,) = {match[1] for match in re.finditer(r"\b(?:Q|FY ?|Year )?(\d{4}|(?<=Q)\d)\b", text, re.IGNORECASE)}
    return str(int(number) - 1)


def test_the_time_before_is_the_one_right_before(asked):
    texts = [(table, q["question"]) for table, q in asked]
    for split in wording.SPLITS:
        for record in make_records(1500, 3, split):
            texts.append((record["table"], record["statement"]))
    n_found = 0
    for table, text in texts:
        if re.search(r"(compared with|against|over) the (previous )?(year|quarter)\b", text):
            before = find_time_before(text)
            assert any(re.search(rf"(\b|Q|FY){before}\b", cell) for row in table for cell in row), (text, table)
            n_found += 1
    assert n_found > 20


def test_a_scale_of_the_whole_table_is_that_of_all_its_numbers():
    n_found = Counter()
    for seed in range(900):
        sheet = TableSheet(Draw(seed))
        notes = [text for text in sheet.paragraphs if re.match(r"(All figures|Numbers) .*in (thou|mill|bill)", text)]
        corners = [cell for cell in (sheet.cells[0][0],) if re.search(r"(thousand|million|billion)s?\)?$", cell)]
        if sheet.shape != "series" and (notes or corners):
            assert all(sheet.get_scale(m) for m in range(len(sheet.measures)))
            n_found += Counter(note=bool(notes), corner=bool(corners))
        for m, measure in enumerate(sheet.measures):
            if sheet.scales[m] and measure.unit in ("$", "€", "£"):
                written = {phrase_number(sheet, m, Decimal(1200), sheet.draw) for _ in range(20)}
                assert not any(measure.unit in text and sheet.scales[m] not in text for text in written)
                n_found["sign"] += 1
    assert min(n_found[name] for name in ("note", "corner", "sign")) > 5


def test_changes_in_percent_have_a_base_above_zero():
    derivations = []
    for seed in range(400):
        sheet = TableSheet(Draw(seed))
        if min(sheet.values.values()) < 0 and sheet.times:
            found = [questions._ask_percent_change(sheet, sheet.draw, "train") for _ in range(10)]
            derivations += [question["derivation"] for question in found if question]
    assert len(derivations) > 20 and not any("/(-" in derivation for derivation in derivations)


def test_sums_over_one_of_several_times_name_it():
    assert all("{then}" in text for text in WORDINGS["how_many_all"])


def test_nearly_every_question_has_labels_at_its_cells(asked):
    task, operators = tatqa.Task(traits=True), Counter()
    contexts = [context for split in wording.SPLITS for context in make_contexts(60, 1, split)]
    for _, record in tatqa_records.from_contexts(contexts, "tables"):
        assert not isinstance(record, ValueError)
        example = task.example(record, PARSE)
        operator = example.reference["operator"]
        operators[operator] += 1
        if operator and record["answer_from"] == "table" and not operator.startswith("SHARE"):
            assert example.labels["tags"].sum() == len(json.loads(record["mapping"]))
    assert operators[""] < 0.01 * operators.total() and len(operators) >= 11
    assert operators["SHARE-COLUMN"] and operators["CHANGE-RATIO"]


def test_tables_follow_from_their_seed_and_split():
    first, same, other = (list(make_contexts(5, seed, "train")) for seed in (0, 0, 1))
    assert first == same != other
    tables = {
        split: {json.dumps(context["table"]["table"]) for context in make_contexts(40, 0, split)}
        for split in wording.SPLITS
    }
    assert not any(a & b for a, b in itertools.combinations(tables.values(), 2))


@pytest.mark.parametrize("wordings_by_plan", [WORDINGS, statement_wordings.WORDINGS])
def test_splits_share_no_wording(wordings_by_plan):
    for plan, wordings in wordings_by_plan.items():
        assert len(set(wordings)) == len(wordings), plan
        parts = [wording.select_wordings(wordings, split) for split in wording.SPLITS]
        assert all(parts) and sum(map(len, parts)) == len(wordings), plan
        assert not any(set(a) & set(b) for a, b in itertools.combinations(parts, 2)), plan


def test_seen_wordings_are_those_of_training():
    def find_beginnings(split: str, wordings: str) -> set[str]:
        questions = [
            q["question"] for context in make_contexts(120, 0, split, wordings) for q in context["questions"]
        ]
        return {" ".join(text.split()[:2]).lower() for text in questions}

    held_out = {
        text.split("{")[0].strip().lower() for text in wording.select_wordings(WORDINGS["percent_change"], "test")
    }
    state_wordings = {text for text in held_out if text.startswith("state the change in")}
    assert state_wordings and not find_beginnings("test", "seen") & {"from the"}
    assert find_beginnings("test", "apart") - find_beginnings("test", "seen"), "other wordings"


def test_tables_are_of_many_forms():
    sheets = [TableSheet(Draw(7, number)) for number in range(400)]
    text = json.dumps([sheet.cells for sheet in sheets], ensure_ascii=False)
    assert {sheet.shape for sheet in sheets} == {"report", "list", "series", "double"}
    for sign in ("%", "$", "€", " km", "(in ", "FY", "Q1", "Total"):
        assert sign in text, sign
    assert re.search(r"\(\d[\d,.]*\)\"", text) and re.search(r"\"\d{1,3},\d{3}\"", text)
    assert any("thousands" in paragraph for sheet in sheets for paragraph in sheet.paragraphs)
    for sheet in sheets:
        assert len({len(row) for row in sheet.cells}) == 1
        for ref, (row, column) in sheet.cell_of.items():
            value = parse_value(sheet.cells[row][column])
            assert value is not None and value.number == sheet.values[ref], (sheet.cells[row][column], ref)


def test_statements_are_balanced_and_do_not_reveal_their_labels():
    """A linear model of a statement's words and word pairs has an accuracy near one half."""
    statements = list(make_records(1500, 0, "train"))
    assert sum(one["label"] for one in statements) * 2 == len(statements)

    def split_words(text: str) -> set[str]:
        parts = re.findall(r"[a-z]+|\d|[^\sa-z\d]", text.lower())
        return {*parts, *map("_".join, itertools.pairwise(parts))}

    word_sets = [split_words(one["statement"]) for one in statements]
    n_train = len(statements) * 4 // 5
    counts = Counter(word for one in word_sets[:n_train] for word in one)
    index_of = {word: i for i, word in enumerate(word for word, n in counts.items() if n >= 5)}
    weights = np.zeros(len(index_of))
    rows = [[index_of[word] for word in one if word in index_of] for one in word_sets]
    for _ in range(4):
        for row, one in zip(rows[:n_train], statements[:n_train], strict=True):
            weights[row] -= 0.05 * (1 / (1 + np.exp(-weights[row].sum())) - one["label"])
    right = [
        (weights[row].sum() > 0) == one["label"]
        for row, one in zip(rows[n_train:], statements[n_train:], strict=True)
    ]
    assert 0.45 < np.mean(right) < 0.55


def test_labels_of_statements_agree_with_the_cells():
    """Statements of a few wordings are parsed by patterns."""
    label_counts = Counter()
    for statement in make_records(900, 5, "train"):
        table, text = statement["table"], statement["statement"].rstrip(".")
        match = re.fullmatch(r"(.+) ha(?:s|d) (more|less|fewer) (?:number of )?(.+) than (.+)", text, re.IGNORECASE)
        if match is None:
            continue
        rows = {row[0].lower(): row for row in table[1:]}
        heads = [re.sub(r"[(\[,:].*", "", head).strip().lower() for head in table[0]]
        first, second, measure = match[1].lower(), match[4].lower(), match[3].lower()
        if first not in rows or second not in rows or heads.count(measure) != 1:
            continue
        a, b = (parse_value(rows[name][heads.index(measure)]) for name in (first, second))
        assert a is not None and b is not None
        assert ((a.number > b.number) == (match[2] == "more")) == bool(statement["label"]), statement
        label_counts[statement["label"]] += 1
    assert min(label_counts[0], label_counts[1]) > 5


# --- Traits.


def find_cell_traits(question, table, cell):
    cells, _ = traits.find_traits(question, table)
    return {name: value for name, value in zip(TRAITS, cells[cell], strict=True) if value}


def find_word_traits(question, table):
    _, spans = traits.find_traits(question, table)
    names = list(TRAITS)
    return {question[s[0] : s[1]]: {names[i]: v for i, v in enumerate(s[2:]) if v} for s in spans}


def test_traits_hold_what_a_question_names_and_in_which_order():
    forward, back = "What was the change in revenue from 2018 to 2019?", "Revenue in 2019 less that of 2018?"
    assert (
        find_cell_traits(forward, REPORT, (1, 1))["row_named"] == 3
        and find_cell_traits(forward, REPORT, (2, 1))["row_named"] == 2
    )
    assert (
        find_cell_traits(back, REPORT, (1, 1))["row_named"] == 2
        and find_cell_traits(back, REPORT, (2, 1))["row_named"] == 3
    )
    assert find_cell_traits(forward, REPORT, (1, 1))["column_named"] == 2 and "column_named" not in find_cell_traits(
        forward, REPORT, (1, 2)
    )
    assert find_word_traits(forward, REPORT)["2018"] == {"row_named": 2}
    assert (
        find_cell_traits(forward, REPORT, (2, 2))["row"],
        find_cell_traits(forward, REPORT, (2, 2))["column"],
    ) == (3, 3)


def test_a_header_whose_words_are_another_s_gives_way_to_it():
    table = [["item", "cost", "cost of sales"], ["a", "1", "2"], ["b", "3", "4"]]
    assert find_cell_traits("What was the cost of sales of a?", table, (1, 2))["column_named"] == 2
    assert find_cell_traits("What was the cost of sales of a?", table, (1, 1))["column_named"] == 1
    assert find_cell_traits("What was the cost of a?", table, (1, 1))["column_named"] == 2


@pytest.mark.parametrize(
    "table", [[["Sales", "300", "200"], ["Costs", "111", "74"]], [["", ""], ["300", "200"]], [["3"]]]
)
def test_tables_without_headers_have_traits_too(table):
    cells, _ = traits.find_traits("What was the change in Sales from 300 to 200?", table)
    assert len(list(cells)) == len(table) * len(table[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("All figures are in thousands.", 1),
        ("Revenue, in millions of dollars", 2),
        ("($ in thousands)", 1),
        ("(in millions)", 2),
        ("Sales by region, € billion.", 3),
        ("revenue ($m)", 2),
        ("cost (k)", 1),
        ("(000s)", 1),
        ("income in £ million", 2),
        ("Numbers are stated in US$ bn.", 3),
        ("It sold 2 million cars", 0),
        ("a profit of $3 million", 0),
        ("a profit of 1,200 million", 0),
        ("one million people and a thousand dogs", 0),
        ("13 m long", 0),
        ("km", 0),
        ("Points", 0),
    ],
)
def test_scales_come_from_headers_and_paragraphs(text, expected):
    assert traits.find_scale(text) == expected


def test_cells_have_the_scale_of_their_header_or_a_paragraph():
    table = [["", "revenue ($m)", "staff", "margin %"], ["2019", "5", "7", "3"], ["2018", "4", "6", "2"]]

    def find_scales(rows, *paragraphs):
        cells, _ = traits.find_traits("What?", rows, paragraphs)
        index = list(TRAITS).index("scaled")
        return [cells[1, c][index] for c in range(1, 4)]

    assert find_scales(table) == [2, 0, 0]
    assert find_scales(table, "A note.", "Figures are in thousands.") == [2, 1, 0]
    assert find_scales([["(in billions)", *table[0][1:]], *table[1:]], "Figures are in thousands.") == [2, 3, 0]


def test_traits_compare_numbers_exactly():
    table = [["club", "points"], ["Barton", "45"], ["Fenham", "1,200"], ["Total", "1,245"]]
    question = "How many clubs have more than 45 points?"
    assert (
        find_cell_traits(question, table, (1, 1))["compared"] == 1
        and find_cell_traits(question, table, (2, 1))["compared"] == 2
    )
    ranks = find_cell_traits(question, table, (2, 1))
    assert (ranks["column_rank"], ranks["column_rank_back"]) == (2, 1)
    assert (
        "column_rank" not in find_cell_traits(question, table, (3, 1))
        and find_cell_traits(question, table, (3, 1))["total"] == 1
    )
    assert find_word_traits(question, table)["45"] == {"is_cell": 2, "exceeded": 2}


@pytest.mark.parametrize(
    ("statement", "word", "trait", "holds"),
    [
        ("The total revenue is 2,200.", "2,200", "is_sum", True),
        ("The total revenue is 2,201.", "2,201", "is_sum", False),
        ("The total revenue is 1,750.", "1,750", "is_sum", False),
        ("The total is 1,750.", "1,750", "is_sum", True),
        ("The average cost was 875.", "875", "is_mean", True),
        ("The average revenue was 875.", "875", "is_mean", False),
        ("Revenue rose by 200 from 2018 to 2019.", "200", "is_difference", True),
        ("Cost rose by 200 from 2018 to 2019.", "200", "is_difference", False),
        ("Revenue rose by 20% from 2018 to 2019.", "20", "is_ratio", True),
        ("Revenue rose by 21% from 2018 to 2019.", "21", "is_ratio", False),
        ("In two years cost was above 800.", "two", "is_count", True),
        ("In two years cost was above 870.", "two", "is_count", False),
        ("In one year cost was above 870.", "one", "is_count", True),
    ],
)
def test_numbers_of_a_statement_have_traits(statement, word, trait, holds):
    assert find_word_traits(statement, REPORT)[word].get(trait, 0) == int(holds)


def test_traits_lie_at_their_cells_in_both_tasks():
    """A cell's traits are at the cell's positions; words outside cells have none."""
    words = vocab.build(
        dict(name="wordpiece", size=400), ["what was the change in revenue cost year 2018 2019 , 1 2 0 9"]
    )
    scheme = build("text", {"name": "addback", "types": True, "rules": "accounting"}, vocab=words)
    from numjax.pipeline import features, windows

    question = "what was the change in revenue"
    record = {"id": "1", "question": question, "table": REPORT, "paragraphs": []} | tatqa_records.UNANSWERED
    fact = {"id": "1", "statement": question, "table": REPORT, "label": 1, "kind": ""}
    tasks = ((tatqa.Task(traits=True), record, 3), (tabfact.Task(traits=True), fact, 0))
    for (task, task_record, units), layout in itertools.product(tasks, ("rows", "columns")):
        if layout == "columns":
            if units:
                continue
            task = tabfact.Task(traits=True, layout=layout)
        example = task.example(task_record, scheme.parse)
        features_with_units = windows.add_unit_channels(scheme.encode(example.document, offsets=True), example)
        assert features_with_units.channels["types"].shape[1] == 1 + len(TRAITS) and (
            "units" in features_with_units.channels
        ) == bool(units)
        surface = document.surface(example.document)
        traits_of_surface = {surface[start:end]: values for start, end, *values in example.traits}
        cells, _ = traits.find_traits(question, REPORT)
        assert all(tuple(traits_of_surface[REPORT[r][c]]) == cells[r, c] for r, c in cells)
        assert not features_with_units.channels["types"][0].any(), "[CLS]"
        row = features.from_features(features_with_units, 20)
        assert row.channels["types"][:, 1].max() == 3
    with pytest.raises(UsageError, match="use layout=rows"):
        tabfact.Task(traits=True, layout="sentences")


def test_headers_are_the_means_of_their_positions(rng):
    h = rng.standard_normal((2, 9, 4)).astype(np.float32)
    line = rng.integers(0, 4, (2, 9))
    header = rng.random((2, 9)) < 0.4
    means = np.asarray(jax.jit(header_means, static_argnums=3)(h, line, header, 5))
    for b, t in itertools.product(range(2), range(9)):
        header_positions = [u for u in range(9) if header[b, u] and line[b, u] == line[b, t] and line[b, t] > 0]
        np.testing.assert_allclose(
            means[b, t], h[b, header_positions].mean(axis=0) if header_positions else np.zeros(4), atol=1e-5
        )


def test_a_cell_is_tagged_by_its_headers_and_the_question(rng):
    """A tag depends on the headers with cells="crossed", on the question with asked="both", by default on neither."""
    h = rng.standard_normal((1, 8, 16)).astype(np.float32)
    # [CLS] asked asked, then a header of a row, one of a column, a cell of both, and another cell.
    row, column = [0, 0, 0, 2, 1, 2, 3, 0], [0, 0, 0, 1, 2, 2, 3, 0]
    unit = [0, 0, 0, 1, 2, 3, 4, 0]
    types, units = np.zeros((1, 8, 1 + len(TRAITS)), np.int32), np.zeros((1, 8, 3), np.int32)
    types[0, :, 1], types[0, :, 2], units[0, :, 0] = row, column, unit
    units[0, :, 1] = np.asarray(unit) > 0
    channels = {"types": types, "units": units}
    tokens = Tokens(np.zeros((1, 8), np.int32), np.arange(8)[None], np.asarray([[1] * 7 + [0]]), channels=channels)

    def find_dependencies(cells: str, asked: str) -> set[int]:
        head: Any = build("heads", {"name": "tagop", "cells": cells, "asked": asked, "init_std": 0.5}, width=16)
        params = head.init(jax.random.key(0), h, tokens)

        def tag(h):
            return head.tags(head.apply(params, h, tokens))[0, 5, 1]

        gradient = np.abs(jax.jit(jax.grad(tag))(h)[0]).sum(axis=-1)
        return set(np.flatnonzero(gradient > 1e-9).tolist())

    assert find_dependencies("alone", "first") == {5}
    assert find_dependencies("crossed", "first") == {3, 4, 5}
    assert find_dependencies("alone", "both") == {1, 2, 5}
    assert find_dependencies("crossed", "both") == {1, 2, 3, 4, 5}
    with pytest.raises(UsageError, match=r"set task\.traits=True"):
        build("heads", {"name": "tagop", "cells": "crossed"}, width=16).init(
            jax.random.key(0), h, tokens._replace(channels=channels | {"types": types[..., 0]})
        )


# --- The words of the config, and the typed tables.


@pytest.mark.parametrize("task", ["tatqa", "tabfact"])
def test_one_word_gives_tables_of_many_layouts(task):
    few, many = (luna.get_config(f"task={task},tables={word}") for word in ("few", "many"))
    assert few.to_json() == luna.get_config(f"task={task}").to_json(), "few is the default"
    assert many.task.tables == "many" and many.task.traits
    assert tuple(many.backbone.types) == (2, *traits.SIZES)
    with pytest.raises(
        ValueError,
        match=r"needs task=tatqa or tabfact, and here it is table_text: use it with task=tatqa or task=tabfact$",
    ):
        luna.get_config("task=pretrain,tables=many")


@pytest.mark.parametrize(
    ("expected", "scale", "answer", "predicted_scale", "is_right"),
    [
        ("200", "thousand", 200.0, "thousand", True),
        ("200", "thousand", 200.0, "", False),
        ("33.3", "percent", 33.33, "percent", True),
        ("33.4", "percent", 33.33, "percent", False),
        ("850", "thousand", ["850"], "thousand", True),
        ("1200", "", ["1,200"], "", True),
        ("Fenham", "", ["fenham"], "", True),
        ("3", "", 3, "", True),
        ("3", "", "", "", False),
    ],
)
def test_typed_answers_are_judged(expected, scale, answer, predicted_scale, is_right):
    prediction = {"answer": answer, "scale": predicted_scale, "operator": ""}
    assert typed.is_right({"answer": expected, "scale": scale}, prediction) == is_right


def test_the_typed_tables_become_examples(capsys):
    tables = typed.load_tables(typed.TYPED)
    assert len(tables) == 20
    task = tatqa.Task(traits=True)
    for record, _ in typed.make_question_records(tables):
        assert task.example(tatqa_records.UNANSWERED | record, PARSE).units
    for record, _ in typed.make_statement_records(tables):
        assert tabfact.Task(traits=True).example(record | {"label": 0, "kind": ""}, PARSE).traits
    typed.print_report([({"table": "t", "kind": "sum", "question": "?", "answer": "1"}, "2", False)] * 2)
    assert "sum: 0 of 2, 0.0%" in capsys.readouterr().out
    with pytest.raises(UsageError, match="no tables with"):
        typed.load_tables(typed.TYPED / "none")
