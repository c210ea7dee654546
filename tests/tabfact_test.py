"""TabFact: its files and their faults, splits by table, the stand-in's labels, linearisation, metrics."""

from __future__ import annotations

import collections
import functools
import gzip
import io
import json
import re
import tarfile

import numpy as np
import pytest

from numjax.bundled import data
from numjax.bundled.data.tabfact import read
from numjax.bundled.data.tabfact.generate import make_release
from numjax.errors import DataError, UsageError
from numjax.pipeline import features
from numjax.tasks import tabfact
from numjax.text import document as documents
from numjax.text import subword, vocab
from numjax.types import Mark, Text

SPLITS = ("train", "validation", "test")
parse = functools.partial(documents.parse, rules="default")
TABLE = "club#points#crowd\nbarton#12#1,200\nfenham##900\n"


def write_release(root, texts, examples=None, archive=True, **lists):
    """Writes a release to a folder and returns the folder."""
    root.mkdir(exist_ok=True)
    if archive:
        with tarfile.open(root / "all_csv_val.tar.gz", "w:gz") as file:
            for name, text in texts.items():
                info = tarfile.TarInfo(f"all_csv/{name}")
                info.size = len(text.encode())
                file.addfile(info, io.BytesIO(text.encode()))
    else:
        (root / "data" / "all_csv").mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (root / "data" / "all_csv" / name).write_text(text)
    if examples is not None:
        with gzip.open(root / "val_examples.json.gz", "wt") as file:
            json.dump(examples, file)
    for name, content in lists.items():
        (root / f"{name}.json").write_text(json.dumps(content))
    return root


def load_release(root, tmp_path, **options):
    splits = {
        split: list(data.load("tabfact", split, tmp_path / "built", path=str(root), **options)) for split in SPLITS
    }
    skipped = data.load_skipped("tabfact", tmp_path / "built", path=str(root), **options)
    return splits, {row["id"]: row["reason"] for row in skipped}


def make_examples(count, seed=3):
    return make_release(8 * count, seed)


# ---------------------------------------------------------------------------------------------------
# Files.


@pytest.mark.parametrize("archive", [True, False])
def test_validation_alone_is_divided_by_table(archive, tmp_path):
    examples, texts, kinds = make_examples(20)
    ids = {kind: [name for name, table_kind in kinds.items() if table_kind == kind] for kind in ("simple", "complex")}
    root = write_release(
        tmp_path / "it", texts, examples, archive, simple_ids=ids["simple"], complex_ids=ids["complex"]
    )
    splits, reasons = load_release(root, tmp_path)
    assert not reasons and [len({r["table_id"] for r in splits[split]}) for split in SPLITS] == [14, 2, 4]
    records = [record for split in SPLITS for record in splits[split]]
    assert {r["id"]: (r["statement"], r["label"]) for r in records} == {
        f"{name}:{i}": (statement, label)
        for name, (statements, labels, _) in examples.items()
        for i, (statement, label) in enumerate(zip(statements, labels, strict=True))
    }
    for record in records:
        lines = texts[record["table_id"]].splitlines()
        assert json.loads(record["table"]) == [line.split("#") for line in lines]
        assert record["kind"] == kinds[record["table_id"]] and record["caption"] == examples[record["table_id"]][2]
    other, _ = load_release(root, tmp_path, seed=1)
    assert {r["table_id"] for r in other["test"]} != {r["table_id"] for r in splits["test"]}
    small, _ = load_release(root, tmp_path, size=5)
    assert {split: small[split] for split in SPLITS} == {split: splits[split][:5] for split in SPLITS}


def test_the_first_statements_are_of_both_kinds(tmp_path):
    """The release lists the pairs of complex tables first; a split mixes both kinds."""
    examples, texts, kinds = make_examples(64)
    names = sorted(examples, key=lambda name: kinds[name])
    pairs = [[name, f"{name} is {side}", f"{name} was {side}"] for side in ("up", "down") for name in names[:48]]
    ids = {
        f"{kind}_ids": [name for name, table_kind in kinds.items() if table_kind == kind]
        for kind in ("simple", "complex")
    }
    validation = {name: examples[name] for name in names[48:]}
    root = write_release(
        tmp_path / "it", texts, validation, positive_negative_pairs=pairs, train_id=names[:48], **ids
    )
    splits, _ = load_release(root, tmp_path)
    assert len(splits["train"]) == 4 * 48
    tables = [record["table_id"] for record in splits["train"]]
    assert all(len(set(tables[start : start + 4])) == 1 for start in range(0, len(tables), 4)), (
        "statements of a table stay together"
    )
    n_complex = sum(kinds[name] == "complex" for name in names[:48])
    share = np.mean([record["kind"] == "complex" for record in splits["train"][: 4 * n_complex]])
    assert 0.4 < share < 0.95, "in the order of the file all of them would be"
    small, _ = load_release(root, tmp_path, size=20)
    assert small["train"] == splits["train"][:20]


def test_existing_splits_are_kept(tmp_path):
    examples, texts, _ = make_examples(9)
    names = list(examples)
    root = write_release(tmp_path / "it", texts, {name: examples[name] for name in names[:2]})
    (root / "train_examples.json").write_text(json.dumps({name: examples[name] for name in names[2:8]}))
    (root / "test_examples.json").write_text(json.dumps({names[8]: examples[names[8]]}))
    splits, _ = load_release(root, tmp_path)
    tables = [{record["table_id"] for record in splits[split]} for split in SPLITS]
    assert tables == [set(names[2:8]), set(names[:2]), {names[8]}]
    (root / "test_examples.json").unlink()
    splits, _ = load_release(root, tmp_path)
    tables = [{record["table_id"] for record in splits[split]} for split in SPLITS]
    assert tables[0] == set(names[2:8]) and tables[1] | tables[2] == set(names[:2]) and len(tables[2]) == 1


def test_pairs_train_where_there_are_no_training_examples(tmp_path):
    examples, texts, _ = make_examples(6)
    validation_table, *names = examples
    pairs = [
        [validation_table, "is a", "is b"],
        [names[0], "is 3", "is 4"],
        [names[0], "is 3", "is 5"],
        [names[1], "is 4", "is 3"],
    ]
    pairs += [[names[2], "not", "in the list"], [names[1], "is 3", "is 7"], ["x", 3, ""], [names[3], "is 1", " "]]
    texts = {name: text for name, text in texts.items() if name != names[3]}
    lists = dict(positive_negative_pairs=pairs, train_id=[validation_table, names[0], names[1], names[3]])
    root = write_release(
        tmp_path / "it", texts, {validation_table: examples[validation_table], names[4]: examples[names[4]]}, **lists
    )
    splits, reasons = load_release(root, tmp_path)
    labels = collections.defaultdict(dict)
    for record in splits["train"]:
        labels[record["table_id"]][record["statement"]] = record["label"]
    # Each statement occurs once; pairs on tables of the validation split are left out.
    assert labels == {names[0]: {"is 3": 1, "is 4": 0, "is 5": 0}, names[1]: {"is 4": 1, "is 7": 0}}
    assert len(splits["train"]) == 5
    assert reasons == {
        "positive_negative_pairs.json:6": "is not [table id, entailed statement, refuted statement]",
        f"{names[1]}:pair-1": "stands on both sides of pairs",
        f"{names[3]}:pair-0": "its table's file is missing",
        f"{names[3]}:pair-1": "has no statement",
    }


def test_the_end_of_a_pair_does_not_reveal_its_label():
    """The release ends refuted statements more often with a full stop; scored statements end with none."""
    pairs = [
        ["t", "a is 3.5 .", "a is 4.5 ."],
        ["t", "b is 3", "b is 4 ."],
        ["t", "c is 3 . .", "c is 4.."],
        ["t", "a is 3.5", "d is of the u.s."],
        ["u", "e is 3 .", "e is 3"],
        ["u", "f is 3 ?", "borries-ileigh"],
    ]
    parsed_pairs = list(read.parse_pairs(pairs, "pairs", None))
    good = [(one["statement"], one["label"]) for _, one in parsed_pairs if not isinstance(one, ValueError)]
    assert good == [
        ("a is 3.5", 1), ("a is 4.5", 0), ("b is 3", 1), ("b is 4", 0), ("c is 3", 1), ("c is 4", 0),
        ("d is of the u.s.", 0), ("f is 3 ?", 1),
    ]  # fmt: skip
    assert {name: str(one) for name, one in parsed_pairs if isinstance(one, ValueError)} == {
        "u:pair-0": "stands on both sides of pairs",
        "u:pair-2": "'borries-ileigh' is one word, no statement",
    }


def test_bad_tables_and_examples_are_left_out_and_named(tmp_path):
    examples, texts, _ = make_examples(8)
    bad = {
        "empty": "a#b\n",
        "blank": "a#b\n#\n",
        "ragged": "a#b\n1#2\n1\n",
        "long": f"a#b\n1#{'9' * 30_000}\n",
    }
    texts |= {f"{name}.csv": text for name, text in bad.items()}
    examples |= {f"{name}.csv": [["it is 3"], [1], "c"] for name in (*bad, "missing")}
    examples["lengths"] = [["it is 3"], [1, 0], "c"]
    examples["form"] = {"statements": []}
    examples["labels"] = [["it is 3", "", "it is 4", 5], [None, 1, 2, 0], "c"]
    root = write_release(tmp_path / "it", texts, examples)
    _, reasons = load_release(root, tmp_path)
    assert reasons == {
        "empty.csv:0": "its table is empty: no cell below the header",
        "blank.csv:0": "its table is empty: no cell below the header",
        "ragged.csv:0": "its table is ragged: row 3 has 1 cells, the header 2",
        "long.csv:0": "its table has a cell of 30,000 characters in row 2; 20,000 at most",
        "missing.csv:0": "its table's file is missing",
        "lengths": "has 1 statements and 2 labels",
        "form": "is not [[statement], [label], caption]",
        "labels:0": "has the label None, neither 1 (entailed) nor 0 (refuted)",
        "labels:1": "has no statement",
        "labels:2": "has the label 2, neither 1 (entailed) nor 0 (refuted)",
        "labels:3": "has no statement",
    }
    with pytest.raises(DataError, match=r"has 1 statements and 2 labels"):
        data.load("tabfact", "train", tmp_path / "strict", path=str(root), strict=True)


def test_truncated_files_give_one_line_errors(tmp_path):
    examples, texts, _ = make_examples(24)
    root = write_release(tmp_path / "it", texts, examples)
    whole = (root / "all_csv_val.tar.gz").read_bytes()
    (root / "all_csv_val.tar.gz").write_bytes(whole[: len(whole) * 3 // 4])
    splits, reason_of = load_release(root, tmp_path)
    # The archive or the table at the cut may be named too; that depends on where the cut is.
    reasons = collections.Counter(reason for reason in reason_of.values() if not reason.startswith("damaged"))
    assert splits["train"] and reasons["its table's file is missing"] >= 8 and len(reasons) == 1
    text = json.dumps(examples)
    (root / "val_examples.json.gz").unlink()
    (root / "val_examples.json").write_text(text[: len(text) // 2])
    with pytest.raises(DataError, match=r"val_examples.json: the JSON breaks off or is wrong; fetch it again"):
        load_release(root, tmp_path)
    (root / "val_examples.json").write_text("[]")
    with pytest.raises(DataError, match=r"val_examples.json: not TabFact's form"):
        load_release(root, tmp_path)
    (root / "val_examples.json").unlink()
    with pytest.raises(DataError, match=r"no train_examples.json.*set path to the folder"):
        load_release(root, tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        load_release(tmp_path / "nowhere", tmp_path)
    with pytest.raises(UsageError, match="size=-1 is negative"):
        data.load("tabfact", data_dir=tmp_path, size=-1)
    two = write_release(tmp_path / "two", texts, {name: examples[name] for name in list(examples)[:2]})
    with pytest.raises(DataError, match="2 tables are too few to split"):
        load_release(two, tmp_path)


def test_the_released_files(real_data, tmp_path):
    root = tmp_path / "it"
    root.mkdir()
    for name in ("all_csv_val.tar.gz", "val_examples.json.gz", "simple_ids.json", "complex_ids.json"):
        (root / name).symlink_to(real_data("tabfact") / name)
    splits, reasons = load_release(root, tmp_path)
    assert not reasons and sum(len(splits[split]) for split in SPLITS) == 12_792
    tables = [{record["table_id"] for record in splits[split]} for split in SPLITS]
    assert [len(ids) for ids in tables] == [1221, 136, 339] and len(set.union(*tables)) == 1696
    assert sum(record["label"] for split in SPLITS for record in splits[split]) == 6478
    kinds = {record["table_id"]: record["kind"] for split in SPLITS for record in splits[split]}
    assert collections.Counter(kinds.values()) == {"simple": 848, "complex": 848}
    pairs = json.loads(gzip.open(real_data("tabfact") / "positive_negative_pairs.json.gz").read())
    train_ids = read.read_ids(real_data("tabfact") / "train_id.json")
    statements = [
        statement
        for _, statement in read.parse_pairs(pairs, "pairs", train_ids)
        if not isinstance(statement, ValueError)
    ]
    assert len(statements) == 17_553 and len({statement["id"] for statement in statements}) == 17_553
    # With the full stops, the last character would give 63 in 100 of these labels.
    counts = collections.Counter((statement["statement"][-1], statement["label"]) for statement in statements)
    n_right = sum(max(counts[last, 0], counts[last, 1]) for last in {last for last, _ in counts})
    assert n_right < 0.53 * len(statements)


# ---------------------------------------------------------------------------------------------------
# The stand-in.


def parse_cell(text: str) -> int:
    """Returns a cell's number without its point: the cells of a column have equally many decimals."""
    return int(text.replace(",", "").replace(".", ""))


def is_true(statement: str, rows: list[list[str]]) -> bool:
    """Whether a statement holds in a table, by the statement's words."""
    header, body = rows[0], rows[1:]
    row_of = {row[0]: row for row in body}

    def find_column(name):
        return header.index(name)

    if m := re.fullmatch(r"(\w+) be from (\w+)", statement):
        return row_of[m[1]][1] == m[2]
    if m := re.fullmatch(r"(\w+) from (\w+) have (\S+) (\w+) and (\S+) (\w+)", statement):
        row = row_of[m[1]]
        return row[1:] == [m[2], m[3], m[5]] and header[2:] == [m[4], m[6]]
    if m := re.fullmatch(r"the (\w+) of (\w+) be (\S+)", statement):
        return row_of[m[2]][find_column(m[1])] == m[3]
    if m := re.fullmatch(r"(\w+) have (more|less) (\w+) than (\w+)", statement):
        one, other = (parse_cell(row_of[m[i]][find_column(m[3])]) for i in (1, 4))
        return one > other if m[2] == "more" else one < other
    if m := re.fullmatch(r"(\w+) have the (highest|lowest) (\w+)", statement):
        values = [parse_cell(row[find_column(m[3])]) for row in body]
        best = max(values) if m[2] == "highest" else min(values)
        return parse_cell(row_of[m[1]][find_column(m[3])]) == best
    if m := re.fullmatch(r"(\d) (\w+) have more than (\S+) (\w+)", statement):
        assert m[2] == header[0] + "s"
        return sum(parse_cell(row[find_column(m[4])]) > parse_cell(m[3]) for row in body) == int(m[1])
    if m := re.fullmatch(r"(\w+) and (\w+) have a total (\w+) of (\S+)", statement):
        values = [parse_cell(row_of[name][find_column(m[3])]) for name in (m[1], m[2])]
        return sum(values) == parse_cell(m[4])
    m = re.fullmatch(r"(\w+) have (\S+) (\w+)", statement)
    assert m, statement
    return row_of[m[1]][find_column(m[3])] == m[2]


def test_the_stand_ins_labels_are_true(load_splits):
    splits = load_splits("tabfact", size=1600, seed=4)
    assert [len(splits[split]) for split in SPLITS] == [1152, 128, 320]
    template_counts = collections.defaultdict(collections.Counter)
    kind_counts = collections.Counter()
    for record in (record for split in SPLITS for record in splits[split]):
        assert is_true(record["statement"], json.loads(record["table"])) == record["label"], record
        bare = re.sub(r"\d\S*", "9", record["statement"])
        words = [w for w in bare.split() if w in "be have more less highest lowest total than from 9".split()]
        template_counts[record["kind"], tuple(words)][record["label"]] += 1
        kind_counts[record["kind"]] += 1
    # No template is likelier to be true than false.
    assert all(counts[0] == counts[1] for counts in template_counts.values()) and len(template_counts) == 10
    assert kind_counts["simple"] == kind_counts["complex"] == 800


# ---------------------------------------------------------------------------------------------------
# The task.


def make_example(layout="rows", **fields):
    record = {"id": "x", "statement": "barton have 12 points", "label": 1, "kind": "complex"}
    record["table"] = [line.split("#") for line in TABLE.splitlines()]
    return tabfact.Task(layout=layout).example(record | fields, parse)


@pytest.mark.parametrize(
    ("layout", "cells"),
    [
        ("rows", " club points crowd barton 12 1,200 fenham 900"),
        ("columns", " club barton fenham points 12 crowd 1,200 900"),
        (
            "sentences",
            " row 1 is : club is barton ; points is 12 ; crowd is 1,200 ."
            " row 2 is : club is fenham ; points is  ; crowd is 900 .",
        ),
    ],
)
def test_layouts(layout, cells):
    example = make_example(layout)
    assert documents.surface(example.document) == f"[CLS]barton have 12 points[SEP]{cells}[SEP]"
    assert example == make_example(layout, table=json.dumps([line.split("#") for line in TABLE.splitlines()]))
    assert example.labels == {"label": 1} and example.reference == {"label": 1, "kind": "complex"}
    # Row numbers in sentences are text, not numbers of the table.
    numbers = [segment.surface for segment in example.document if not isinstance(segment, Mark | Text)]
    assert sorted(numbers) == sorted(["12", "12", "1,200", "900"])


def test_a_long_table_loses_its_end_and_is_counted():
    words = vocab.build({"name": "wordpiece", "size": 200}, [TABLE.replace("#", " "), "barton have 12 points"] * 5)
    scheme = subword.Scheme(words, types=True)
    table = [["club", "points"], *([f"barton {i}", f"{i},{i}00"] for i in range(100, 160)), ["x" * 10_000, "5"]]
    record = {"statement": "barton have 12 points", "table": table, "label": 1, "kind": ""}
    short_record = record | {"table": table[:3]}
    options = type(
        "ShortenOptions", (), dict(length=64, overflow="shorten", digits=20, pack=False, get=lambda self, *a: a[-1])
    )()
    encoded = features.encode(tabfact.Task(), scheme, [record, short_record], options, "train")
    assert (
        len(encoded.shortened) == 1
        and not encoded.skipped
        and 60 < encoded.lengths[0] <= 64
        and encoded.lengths[1] < 40
    )
    rows = [list(map(int, row.ids)) for row in encoded.rows]
    whole = scheme.encode(tabfact.Task().example(record | {"id": "x"}, scheme.parse).document)
    # Only the end of the table is missing, and no number is cut in two.
    assert rows[0][:-1] == whole.ids[: len(rows[0]) - 1].tolist() and rows[0][-1] == words.mark("[SEP]")
    numeral = whole.numeral_index[len(rows[0]) - 1]
    assert numeral < 0 or numeral != whole.numeral_index[len(rows[0]) - 2]
    statement = rows[0].index(words.mark("[SEP]"))
    assert encoded.rows[0].channels["types"].tolist() == [0] * (statement + 1) + [1] * (len(rows[0]) - statement - 1)
    long_record = record | {"statement": "barton " * 80}
    encoded = features.encode(tabfact.Task(), scheme, [long_record], options, "train")
    assert not len(encoded) and "no more than 64 fit" in encoded.skipped[0]["reason"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([["a", "b"]], "the table is empty"),
        ([], "the table is empty"),
        ([["a", "b"], ["", None]], "the table is empty"),
        ([["a", "b"], ["1"]], "ragged: row 2 has 1 cells, the header 2"),
        ([["a"], "b"], "row 2 is no list"),
        ([["a"], [["b"]]], r"a cell must be a text or a number, not \['b'\] in row 2"),
        ([["a"], ["9" * 20_001]], "a cell of 20,001 characters in row 2; 20,000 at most"),
        ('[["a"], [NaN]]', "the table is empty"),
        ("a#b\n1#2", "a list of rows, or its JSON"),
        ('[["a"], ["b"', "a list of rows, or its JSON"),
        ({"a": [1]}, "a list of rows"),
    ],
)
def test_malformed_tables_are_refused_in_one_line(table, message):
    with pytest.raises(DataError, match=message) as error:
        make_example(table=table)
    assert "\n" not in str(error.value)


def test_cells_may_be_numbers():
    example = make_example(table=[["club", "points"], ["barton", 12.5], ["fenham", None], ["kelton", 7]])
    assert documents.surface(example.document).endswith("club points barton 12.5 fenham kelton 7[SEP]")
    for value in (float("nan"), float("inf"), float("-inf"), np.float64("nan")):
        assert make_example(table=[["club", "points"], ["barton", 12.5], ["fenham", value], ["kelton", 7]]) == example
    assert make_example(table=[["a"], ["9" * 20_000]]).spare
    assert make_example(table='[["club", "points"], ["barton", 12.5], ["fenham", null], ["kelton", 7]]') == example


def test_traits_read_the_cells_of_a_table_in_json():
    table = '[["club", "points"], ["barton", 5], ["fenham", null]]'
    record = {"id": "a", "statement": "barton has 5", "label": 1, "kind": ""}
    task = tabfact.Task(traits=True)
    of_text, of_lists = (task.example(record | {"table": t}, documents.parse) for t in (table, json.loads(table)))
    assert of_text.traits == of_lists.traits and len(of_text.traits) > 4


def test_accuracy_on_the_complex_subset():
    references = [{"label": a, "kind": b} for a, b in [(1, "simple"), (0, "complex"), (1, "complex"), (1, "")]]
    scores = tabfact.Task().score([1, 1, 1, 0], references)
    assert scores == {"accuracy": 0.5, "majority": 0.75, "accuracy_simple": 1.0, "accuracy_complex": 0.5}
    with pytest.raises(UsageError, match="rows, columns, sentences"):
        tabfact.Task(layout="cells")
