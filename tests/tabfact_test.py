"""TabFact: its files and what is wrong with them, splits by table, the stand-in's truth, linearisation, metrics."""

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


def write(root, texts, examples=None, archive=True, **lists):
    """A release in a folder."""
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
    for name, found in lists.items():
        (root / f"{name}.json").write_text(json.dumps(found))
    return root


def load(root, tmp_path, **options):
    found = {
        split: list(data.load("tabfact", split, tmp_path / "built", path=str(root), **options)) for split in SPLITS
    }
    left = data.load_skipped("tabfact", tmp_path / "built", path=str(root), **options)
    return found, {row["id"]: row["reason"] for row in left}


def some(count, seed=3):
    return make_release(8 * count, seed)


# ---------------------------------------------------------------------------------------------------
# Files.


@pytest.mark.parametrize("archive", [True, False])
def test_validation_alone_is_divided_by_table(archive, tmp_path):
    examples, texts, kinds = some(20)
    ids = {kind: [name for name, of in kinds.items() if of == kind] for kind in ("simple", "complex")}
    root = write(tmp_path / "it", texts, examples, archive, simple_ids=ids["simple"], complex_ids=ids["complex"])
    found, left = load(root, tmp_path)
    assert not left and [len({r["table_id"] for r in found[split]}) for split in SPLITS] == [14, 2, 4]
    records = [record for split in SPLITS for record in found[split]]
    assert {r["id"]: (r["statement"], r["label"]) for r in records} == {
        f"{name}:{i}": (said, label)
        for name, (statements, labels, _) in examples.items()
        for i, (said, label) in enumerate(zip(statements, labels, strict=True))
    }
    for record in records:
        lines = texts[record["table_id"]].splitlines()
        assert json.loads(record["table"]) == [line.split("#") for line in lines]
        assert record["kind"] == kinds[record["table_id"]] and record["caption"] == examples[record["table_id"]][2]
    other, _ = load(root, tmp_path, seed=1)
    assert {r["table_id"] for r in other["test"]} != {r["table_id"] for r in found["test"]}
    few, _ = load(root, tmp_path, size=5)
    assert {split: few[split] for split in SPLITS} == {split: found[split][:5] for split in SPLITS}


def test_the_first_so_many_statements_are_of_both_kinds(tmp_path):
    """The release's pairs are those of complex tables first, as are the statements of a split."""
    examples, texts, kinds = some(64)
    names = sorted(examples, key=lambda name: kinds[name])
    pairs = [[name, f"{name} is {side}", f"{name} was {side}"] for side in ("up", "down") for name in names[:48]]
    ids = {f"{kind}_ids": [name for name, of in kinds.items() if of == kind] for kind in ("simple", "complex")}
    held = {name: examples[name] for name in names[48:]}
    root = write(tmp_path / "it", texts, held, positive_negative_pairs=pairs, train_id=names[:48], **ids)
    found, _ = load(root, tmp_path)
    assert len(found["train"]) == 4 * 48
    tables = [record["table_id"] for record in found["train"]]
    assert all(len(set(tables[at : at + 4])) == 1 for at in range(0, len(tables), 4)), "a table's stay together"
    many = sum(kinds[name] == "complex" for name in names[:48])
    share = np.mean([record["kind"] == "complex" for record in found["train"][: 4 * many]])
    assert 0.4 < share < 0.95, "in the order of the file all of them would be"
    few, _ = load(root, tmp_path, size=20)
    assert few["train"] == found["train"][:20]


def test_splits_that_are_there_stay_what_they_are(tmp_path):
    examples, texts, _ = some(9)
    names = list(examples)
    root = write(tmp_path / "it", texts, {name: examples[name] for name in names[:2]})
    (root / "train_examples.json").write_text(json.dumps({name: examples[name] for name in names[2:8]}))
    (root / "test_examples.json").write_text(json.dumps({names[8]: examples[names[8]]}))
    found, _ = load(root, tmp_path)
    tables = [{record["table_id"] for record in found[split]} for split in SPLITS]
    assert tables == [set(names[2:8]), set(names[:2]), {names[8]}]
    (root / "test_examples.json").unlink()
    found, _ = load(root, tmp_path)
    tables = [{record["table_id"] for record in found[split]} for split in SPLITS]
    assert tables[0] == set(names[2:8]) and tables[1] | tables[2] == set(names[:2]) and len(tables[2]) == 1


def test_pairs_train_where_nothing_else_does(tmp_path):
    examples, texts, _ = some(6)
    held, *names = examples
    pairs = [
        [held, "is a", "is b"],
        [names[0], "is 3", "is 4"],
        [names[0], "is 3", "is 5"],
        [names[1], "is 4", "is 3"],
    ]
    pairs += [[names[2], "not", "in the list"], [names[1], "is 3", "is 7"], ["x", 3, ""], [names[3], "is 1", " "]]
    texts = {name: text for name, text in texts.items() if name != names[3]}
    more = dict(positive_negative_pairs=pairs, train_id=[held, names[0], names[1], names[3]])
    root = write(tmp_path / "it", texts, {held: examples[held], names[4]: examples[names[4]]}, **more)
    found, left = load(root, tmp_path)
    said = collections.defaultdict(dict)
    for record in found["train"]:
        said[record["table_id"]][record["statement"]] = record["label"]
    # Each statement once; what a table of the validation split says is not learned.
    assert said == {names[0]: {"is 3": 1, "is 4": 0, "is 5": 0}, names[1]: {"is 4": 1, "is 7": 0}}
    assert len(found["train"]) == 5
    assert left == {
        "positive_negative_pairs.json:6": "is not [table id, entailed statement, refuted statement]",
        f"{names[1]}:pair-1": "stands on both sides of pairs",
        f"{names[3]}:pair-0": "its table's file is missing",
        f"{names[3]}:pair-1": "has no statement",
    }


def test_how_a_pair_ends_does_not_give_its_label_away():
    """The release ends refuted statements with a stop more often, those that are scored with none."""
    pairs = [
        ["t", "a is 3.5 .", "a is 4.5 ."],
        ["t", "b is 3", "b is 4 ."],
        ["t", "c is 3 . .", "c is 4.."],
        ["t", "a is 3.5", "d is of the u.s."],
        ["u", "e is 3 .", "e is 3"],
        ["u", "f is 3 ?", "borries-ileigh"],
    ]
    found = list(read.parse_pairs(pairs, "pairs", None))
    good = [(one["statement"], one["label"]) for _, one in found if not isinstance(one, ValueError)]
    assert good == [
        ("a is 3.5", 1), ("a is 4.5", 0), ("b is 3", 1), ("b is 4", 0), ("c is 3", 1), ("c is 4", 0),
        ("d is of the u.s.", 0), ("f is 3 ?", 1),
    ]  # fmt: skip
    assert {name: str(one) for name, one in found if isinstance(one, ValueError)} == {
        "u:pair-0": "stands on both sides of pairs",
        "u:pair-2": "'borries-ileigh' is one word, no statement",
    }


def test_what_is_bad_is_left_out_and_named(tmp_path):
    examples, texts, _ = some(8)
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
    root = write(tmp_path / "it", texts, examples)
    _, left = load(root, tmp_path)
    assert left == {
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


def test_files_cut_short_are_one_line(tmp_path):
    examples, texts, _ = some(24)
    root = write(tmp_path / "it", texts, examples)
    whole = (root / "all_csv_val.tar.gz").read_bytes()
    (root / "all_csv_val.tar.gz").write_bytes(whole[: len(whole) * 3 // 4])
    found, left = load(root, tmp_path)
    # The archive or the table in which it breaks off may be named too: it depends on where that is.
    reasons = collections.Counter(reason for reason in left.values() if not reason.startswith("damaged"))
    assert found["train"] and reasons["its table's file is missing"] >= 8 and len(reasons) == 1
    text = json.dumps(examples)
    (root / "val_examples.json.gz").unlink()
    (root / "val_examples.json").write_text(text[: len(text) // 2])
    with pytest.raises(DataError, match=r"val_examples.json: the JSON breaks off or is wrong; fetch it again"):
        load(root, tmp_path)
    (root / "val_examples.json").write_text("[]")
    with pytest.raises(DataError, match=r"val_examples.json: not TabFact's form"):
        load(root, tmp_path)
    (root / "val_examples.json").unlink()
    with pytest.raises(DataError, match=r"no train_examples.json.*set path to the folder"):
        load(root, tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        load(tmp_path / "nowhere", tmp_path)
    with pytest.raises(UsageError, match="size=-1 is negative"):
        data.load("tabfact", data_dir=tmp_path, size=-1)
    two = write(tmp_path / "two", texts, {name: examples[name] for name in list(examples)[:2]})
    with pytest.raises(DataError, match="2 tables are too few to split"):
        load(two, tmp_path)


def test_the_released_files(real_data, tmp_path):
    root = tmp_path / "it"
    root.mkdir()
    for name in ("all_csv_val.tar.gz", "val_examples.json.gz", "simple_ids.json", "complex_ids.json"):
        (root / name).symlink_to(real_data("tabfact") / name)
    found, left = load(root, tmp_path)
    assert not left and sum(len(found[split]) for split in SPLITS) == 12_792
    tables = [{record["table_id"] for record in found[split]} for split in SPLITS]
    assert [len(some) for some in tables] == [1221, 136, 339] and len(set.union(*tables)) == 1696
    assert sum(record["label"] for split in SPLITS for record in found[split]) == 6478
    kinds = {record["table_id"]: record["kind"] for split in SPLITS for record in found[split]}
    assert collections.Counter(kinds.values()) == {"simple": 848, "complex": 848}
    paired = json.loads(gzip.open(real_data("tabfact") / "positive_negative_pairs.json.gz").read())
    wanted = read.read_ids(real_data("tabfact") / "train_id.json")
    good = [one for _, one in read.parse_pairs(paired, "pairs", wanted) if not isinstance(one, ValueError)]
    assert len(good) == 17_553 and len({one["id"] for one in good}) == 17_553
    # 63 in 100 of these labels could be told from the last character, with the stops.
    ends = collections.Counter((one["statement"][-1], one["label"]) for one in good)
    told = sum(max(ends[last, 0], ends[last, 1]) for last in {last for last, _ in ends})
    assert told < 0.53 * len(good)


# ---------------------------------------------------------------------------------------------------
# The stand-in.


def number(text: str) -> int:
    """A number in tenths where it has a point; the same in all cells of a column."""
    return int(text.replace(",", "").replace(".", ""))


def truth(said: str, rows: list[list[str]]) -> bool:
    """What a table says of a statement, read off its words anew."""
    header, body = rows[0], rows[1:]
    place = {row[0]: row for row in body}

    def column(name):
        return header.index(name)

    if m := re.fullmatch(r"(\w+) be from (\w+)", said):
        return place[m[1]][1] == m[2]
    if m := re.fullmatch(r"(\w+) from (\w+) have (\S+) (\w+) and (\S+) (\w+)", said):
        row = place[m[1]]
        return row[1:] == [m[2], m[3], m[5]] and header[2:] == [m[4], m[6]]
    if m := re.fullmatch(r"the (\w+) of (\w+) be (\S+)", said):
        return place[m[2]][column(m[1])] == m[3]
    if m := re.fullmatch(r"(\w+) have (more|less) (\w+) than (\w+)", said):
        one, other = (number(place[m[i]][column(m[3])]) for i in (1, 4))
        return one > other if m[2] == "more" else one < other
    if m := re.fullmatch(r"(\w+) have the (highest|lowest) (\w+)", said):
        values = [number(row[column(m[3])]) for row in body]
        best = max(values) if m[2] == "highest" else min(values)
        return number(place[m[1]][column(m[3])]) == best
    if m := re.fullmatch(r"(\d) (\w+) have more than (\S+) (\w+)", said):
        assert m[2] == header[0] + "s"
        return sum(number(row[column(m[4])]) > number(m[3]) for row in body) == int(m[1])
    if m := re.fullmatch(r"(\w+) and (\w+) have a total (\w+) of (\S+)", said):
        values = [number(place[name][column(m[3])]) for name in (m[1], m[2])]
        return sum(values) == number(m[4])
    m = re.fullmatch(r"(\w+) have (\S+) (\w+)", said)
    assert m, said
    return place[m[1]][column(m[3])] == m[2]


def test_the_stand_in_tells_the_truth(everything):
    found = everything("tabfact", size=1600, seed=4)
    assert [len(found[split]) for split in SPLITS] == [1152, 128, 320]
    of_templates = collections.defaultdict(collections.Counter)
    by_kind = collections.Counter()
    for record in (record for split in SPLITS for record in found[split]):
        assert truth(record["statement"], json.loads(record["table"])) == record["label"], record
        bare = re.sub(r"\d\S*", "9", record["statement"])
        words = [w for w in bare.split() if w in "be have more less highest lowest total than from 9".split()]
        of_templates[record["kind"], tuple(words)][record["label"]] += 1
        by_kind[record["kind"]] += 1
    # No template is likelier to be true than false.
    assert all(counts[0] == counts[1] for counts in of_templates.values()) and len(of_templates) == 10
    assert by_kind["simple"] == by_kind["complex"] == 800


# ---------------------------------------------------------------------------------------------------
# The task.


def example(layout="rows", **fields):
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
    found = example(layout)
    assert documents.surface(found.document) == f"[CLS]barton have 12 points[SEP]{cells}[SEP]"
    assert found == example(layout, table=json.dumps([line.split("#") for line in TABLE.splitlines()]))
    assert found.labels == {"label": 1} and found.reference == {"label": 1, "kind": "complex"}
    # The numbers of the rows in sentences are none of the table's.
    numbers = [segment.surface for segment in found.document if not isinstance(segment, Mark | Text)]
    assert sorted(numbers) == sorted(["12", "12", "1,200", "900"])


def test_a_long_table_loses_its_end_and_is_counted():
    words = vocab.build({"name": "wordpiece", "size": 200}, [TABLE.replace("#", " "), "barton have 12 points"] * 5)
    scheme = subword.Scheme(words, types=True)
    table = [["club", "points"], *([f"barton {i}", f"{i},{i}00"] for i in range(100, 160)), ["x" * 10_000, "5"]]
    record = {"statement": "barton have 12 points", "table": table, "label": 1, "kind": ""}
    short = record | {"table": table[:3]}
    options = type(
        "Options", (), dict(length=64, overflow="shorten", digits=20, pack=False, get=lambda self, *a: a[-1])
    )()
    found = features.encode(tabfact.Task(), scheme, [record, short], options, "train")
    assert len(found.shortened) == 1 and not found.skipped and 60 < found.lengths[0] <= 64 and found.lengths[1] < 40
    rows = [list(map(int, row.ids)) for row in found.rows]
    whole = scheme.encode(tabfact.Task().example(record | {"id": "x"}, scheme.parse).document)
    # All but the end of the table, and no part of a number that was cut.
    assert rows[0][:-1] == whole.ids[: len(rows[0]) - 1].tolist() and rows[0][-1] == words.mark("[SEP]")
    cut = whole.numeral_index[len(rows[0]) - 1]
    assert cut < 0 or cut != whole.numeral_index[len(rows[0]) - 2]
    statement = rows[0].index(words.mark("[SEP]"))
    assert found.rows[0].channels["types"].tolist() == [0] * (statement + 1) + [1] * (len(rows[0]) - statement - 1)
    long = record | {"statement": "barton " * 80}
    found = features.encode(tabfact.Task(), scheme, [long], options, "train")
    assert not len(found) and "no more than 64 fit" in found.skipped[0]["reason"]


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
def test_tables_of_ones_own_that_cannot_be_read(table, message):
    with pytest.raises(DataError, match=message) as error:
        example(table=table)
    assert "\n" not in str(error.value)


def test_cells_of_ones_own_may_be_numbers():
    found = example(table=[["club", "points"], ["barton", 12.5], ["fenham", None], ["kelton", 7]])
    assert documents.surface(found.document).endswith("club points barton 12.5 fenham kelton 7[SEP]")
    for nothing in (float("nan"), float("inf"), float("-inf"), np.float64("nan")):
        assert example(table=[["club", "points"], ["barton", 12.5], ["fenham", nothing], ["kelton", 7]]) == found
    assert example(table=[["a"], ["9" * 20_000]]).spare


def test_accuracy_on_the_complex_subset():
    references = [{"label": a, "kind": b} for a, b in [(1, "simple"), (0, "complex"), (1, "complex"), (1, "")]]
    found = tabfact.Task().score([1, 1, 1, 0], references)
    assert found == {"accuracy": 0.5, "majority": 0.75, "accuracy_simple": 1.0, "accuracy_complex": 0.5}
    with pytest.raises(UsageError, match="rows, columns, sentences"):
        tabfact.Task(layout="cells")
