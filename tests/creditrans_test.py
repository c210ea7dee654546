"""Card transactions: reading TabFormer's table, refusing bad rows, cutting windows and splitting them."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import pathlib

import numpy as np
import pytest

from numjax.bundled import data
from numjax.bundled.data import build
from numjax.bundled.data.creditrans import generate, read
from numjax.bundled.data.records import MENDED, REMARKS, read_notes, read_skipped
from numjax.errors import DataError, UsageError
from numjax.tasks import transactions

HEADER = ",".join(read.COLUMNS)
ROW = "7,1,2002,9,1,06:21,$134.09,Swipe Transaction,3527213246127876953,La Verne,CA,91750.0,5300,,No"


def make_cells(**changes: str) -> list[str]:
    names = {name.lower().replace(" ", "_").rstrip("?"): i for i, name in enumerate(read.COLUMNS)}
    row = ROW.split(",")
    for name, value in changes.items():
        row[names[name]] = value
    return row


def test_a_published_row_is_parsed():
    transaction = read.parse_transaction(make_cells())
    assert dict(zip(read.FIELDS, transaction.cells, strict=True)) == {
        "User": "7", "Card": "1", "Timestamp": "1030861260", "Amount": "134.09", "Use Chip": "Swipe Transaction",
        "Merchant Name": "3527213246127876953", "Merchant City": "La Verne", "Merchant State": "CA", "Zip": "91750.0",
        "MCC": "5300", "Errors?": "",
    }  # fmt: skip
    assert np.datetime64(transaction.seconds, "s") == np.datetime64("2002-09-01T06:21") and not transaction.fraud
    assert read.parse_transaction(make_cells(is_fraud="Yes")).fraud


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$-99.00", "-99.00"),
        ("-$99.00", "-99.00"),
        ("$1,234.5", "1234.5"),
        ("$0.00", "0.00"),
        ("12", "12"),
        ("$1,234,567", "1234567"),
        ("1234.50", "1234.50"),
        (".5", ".5"),
        ("$7.", "7."),
    ],
)
def test_amounts_keep_their_sign(text, expected):
    assert read.parse_transaction(make_cells(amount=text)).cells[3] == expected


@pytest.mark.parametrize("blank", ["", " ", "nan", "NaN", "NA", "null", "None"])
def test_unknown_cells_are_empty(blank):
    changes = dict.fromkeys(("zip", "merchant_state", "errors", "use_chip", "mcc", "merchant_name"), blank)
    cells = read.parse_transaction(make_cells(**changes)).cells
    assert [cells[i] for i in (4, 5, 7, 8, 9, 10)] == [""] * 6 and cells[6] == "La Verne"


BAD = {
    "amount": [
        *("$", "", "nan", "12 dollars", "$1.2.3", "--5", "$" + "9" * 400),
        *("$37,50", "$1,23,4", "$1234,567", "$,5", "$1_000", "$３７"),
    ],
    "day": ["31", "x", "", "nan", "1_2", "１２", "+3"],
    "year": ["19", "1969", "2101", "２０１９", "2_019", "20190"],
    "time": ["25:00", "6", "", "06:21:00:00", "06:60", "-1:00", "0_6:21", "０６:21"],
    "user": ["", "-1", "a", "null", "9" * 20, str(2**63), "9" * 5000],
    "card": ["1.0", str(2**63)],
    "zip": ["9175O", "inf", "91_750", "91750.5", "９１７５０", "9e4", "-1.0"],
    "mcc": ["5300.5", "5_300", "0x10"],
    "is_fraud": ["", "maybe", "none"],
}
COLUMN = {**{name: name.title() for name in BAD}, "mcc": "MCC"} | {"is_fraud": "Is Fraud?"}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BAD.items() for text in texts])
def test_a_bad_cell_is_named_in_one_line(name, text):
    with pytest.raises(ValueError) as error:
        read.parse_transaction(make_cells(**{name: text}))
    message = str(error.value)
    assert "\n" not in message and len(message) < 120 and COLUMN[name] in message
    # The message has the whole date.
    assert {"day": f"2002-9-{text} ", "year": f"{text}-9-1 "}.get(name, text[:40] + "'") in message


@pytest.mark.parametrize(("name", "index", "form"), [("zip", 8, "91750.0"), ("mcc", 9, "5300")])
@pytest.mark.parametrize("end", ["", ".", ".0", ".00"])
def test_codes_have_one_form_in_every_copy_of_a_table(name, index, form, end):
    assert read.parse_transaction(make_cells(**{name: form.removesuffix(".0") + end})).cells[index] == form


def test_the_published_rows_keep_their_forms(real_data):
    (path,) = real_data("creditrans").glob("*.csv.gz")
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file))
        for row in rows:
            cells = read.parse_transaction([row[name] for name in read.COLUMNS]).cells
            assert (cells[3], cells[8], cells[9]) == (row["Amount"].replace("$", ""), row["Zip"], row["MCC"])
    assert len(rows) == 16_951


def test_codes_have_no_leading_zero():
    assert (
        read.parse_transaction(make_cells(zip="07102")).cells[8]
        == "7102.0"
        == read.parse_transaction(make_cells(zip="7102.0")).cells[8]
    )


def test_the_largest_ids_and_amounts_are_parsed():
    transaction = read.parse_transaction(make_cells(user=str(2**63 - 1), amount="$" + "9" * 300))
    assert transaction.user == 2**63 - 1 and transaction.cells[3] == "9" * 300


def test_bad_rows_are_skipped_and_named_and_windows_continue(tmp_path):
    lines = [ROW.replace("06:21", f"06:{i:02d}") for i in range(24)]
    lines[3] = lines[3].replace("$134.09", "nan")
    lines[8] = "7,1,2002"
    lines[20] = lines[20].replace(",No", ",Yes")
    path = tmp_path / "card_transaction.v1.csv.gz"
    path.write_bytes(gzip.compress("\n".join([HEADER, *lines, ""]).encode()))
    options = {"path": tmp_path, "by": "time"}
    skipped = data.load_skipped("creditrans", tmp_path / "built", **options)
    assert [row["id"] for row in skipped] == ["creditrans-line-5", "creditrans-line-10"]
    assert "Amount 'nan'" in skipped[0]["reason"] and "date" in skipped[1]["reason"]
    records = [
        r for split in ("train", "test") for r in data.load("creditrans", split, tmp_path / "built", **options)
    ]
    assert [(r["id"], r["label"], r["frauds"]) for r in records] == [
        ("creditrans-0007-000000", 0, "0" * 10),
        ("creditrans-0007-000010", 1, "0000000010"),
    ]
    minutes = [int(row[2]) % 3600 // 60 for r in records for row in json.loads(r["rows"])]
    assert minutes == [i for i in range(22) if i not in (3, 8)]
    with pytest.raises(DataError, match="creditrans-line-5: Amount"):
        data.prepare("creditrans", tmp_path / "strict", strict=True, **options)


def build_minutes(*, lines, root, **options):
    """Builds a table; returns (the minutes of all windows' rows, skipped rows, remarks)."""
    root.mkdir()
    (root / "transactions.csv").write_text("\n".join([HEADER, *lines, ""]))
    builder = data.prepare("creditrans", root / "built", path=root, **options)
    records = [
        r
        for split in builder.info.splits
        for r in data.load("creditrans", split, root / "built", path=root, **options)
    ]
    minutes = sorted(int(row[2]) % 3600 // 60 for r in records for row in json.loads(r["rows"]))
    folder = pathlib.Path(builder.data_dir)
    return minutes, read_skipped(folder), read_notes(folder, REMARKS)


def test_only_rows_that_a_quote_joins_are_skipped_and_named(tmp_path):
    rows = [ROW.replace("06:21", f"06:{i:02d}") for i in range(50)]
    joined = [*rows]
    joined[11], joined[13] = rows[11].replace(",,No", ',,"Bad PIN,No'), rows[13].replace(",,No", ',Bad CVV",No')
    open_end = [*rows]
    open_end[44] = rows[44].replace(",,No", ',"Bad PIN,No')
    wide = [*rows]
    wide[20] += ",x,y"
    quoted = [*rows]
    quoted[20] = rows[20].replace(",,No", ',"Bad PIN,Technical Glitch",No')
    for name, lines, skipped_minutes, message in [
        ("joined", joined, {11, 12, 13}, "creditrans-line-13: lines 13 to 15 are one row"),
        ("open", open_end, set(range(44, 50)), "creditrans-line-46: lines 46 to 51 are one row"),
        ("wide", wide, {20}, "creditrans-line-22: has 17 cells, the header 15"),
        ("quoted", quoted, set(), ""),
    ]:
        minutes, skipped, _ = build_minutes(lines=lines, root=tmp_path / name)
        usable = [i for i in range(50) if i not in skipped_minutes]
        assert minutes == usable[: len(usable) // 10 * 10], name
        assert "; ".join(f"{row['id']}: {row['reason']}" for row in skipped).startswith(message), name
        assert len(skipped) == bool(message), name


def test_a_row_too_long_for_the_reader_is_named_and_the_next_rows_are_kept(tmp_path):
    rows = [ROW.replace("06:21", f"06:{i:02d}") for i in range(21)]
    rows[3] += "x" * 200_000
    limit = csv.field_size_limit(1 << 17)  # the default limit; other modules raise it
    try:
        minutes, skipped, remarks = build_minutes(lines=rows, root=tmp_path / "long")
    finally:
        csv.field_size_limit(limit)
    assert minutes == [i for i in range(21) if i != 3]
    assert [row["id"] for row in skipped] == ["creditrans-line-5"] and "field larger" in skipped[0]["reason"]
    assert not remarks


def test_rows_with_too_many_digits_are_named_and_the_next_rows_are_kept(tmp_path):
    rows = [ROW.replace("06:21", f"06:{i:02d}") for i in range(22)]
    rows[3] = "9" * 20 + rows[3][1:]
    rows[5] = rows[5].replace("$134.09", "$" + "1" * 400)
    minutes, skipped, _ = build_minutes(lines=rows, root=tmp_path / "digits")
    assert minutes == [i for i in range(22) if i not in (3, 5)]
    assert [row["id"] for row in skipped] == ["creditrans-line-5", "creditrans-line-7"]
    assert "User '9" in skipped[0]["reason"] and "Amount '$1" in skipped[1]["reason"]


def test_a_card_whose_rows_go_back_in_time_is_reported_and_kept_as_it_is(tmp_path, capsys):
    years = [ROW.replace("2002", str(year)) for year in range(2002, 2012)]
    second_card = [line.replace("7,1,", "7,2,", 1) for line in years]
    for name, lines, count in (
        ("cards", [*years, *second_card], 0),
        ("same", [ROW] * 20, 0),
        ("turns", [*years, *second_card[::-1]], 1),
        ("back", [*second_card[::-1], *years[::-1]], 2),
    ):
        (tmp_path / name).mkdir()
        file = tmp_path / name / "transactions.csv"
        file.write_text("\n".join([HEADER, *lines, ""]))
        builder = data.prepare("creditrans", tmp_path / "built", path=file)
        warning = f"in {count} windows {read.BACKWARDS}"
        assert (warning in capsys.readouterr().err) == (count > 0), name
        assert len(read_notes(pathlib.Path(builder.data_dir), MENDED)) == count
        records = [record for _, record in read.read_windows(str(file))]
        assert [record.get("mended") for record in records] == [None] * (2 - count) + [read.BACKWARDS] * count
        times = [row[2] for record in records for row in json.loads(record["rows"])]
        assert times == [read.parse_transaction(line.split(",")).cells[2] for line in lines]


def test_rows_in_no_window_are_counted(tmp_path, capsys):
    lines = [f"{user}{ROW[1:]}" for user, count in enumerate((9, 23, 10, 1)) for _ in range(count)]
    _, _, remarks = build_minutes(lines=lines, root=tmp_path / "ten")
    assert [row["reason"] for row in remarks] == ["13 of 43 usable rows, users' last ones, are in no window"]
    minutes, _, remarks = build_minutes(lines=lines, root=tmp_path / "four", stride=4)
    assert len(minutes) == 50 and remarks[0]["reason"].startswith("11 of 43 usable rows")
    root = tmp_path / "four"
    assert build.main(["creditrans", f"--data_dir={root / 'built'}", f"--path={root}", "--stride=4", "--report"]) == 0
    assert "- 11 of 43 usable rows" in capsys.readouterr().out


@pytest.mark.parametrize("stride", [1, 5, 9])
def test_no_row_is_on_both_sides_of_a_cut_in_time(stride, load_splits):
    splits = load_splits("creditrans", users=3, by="time", stride=stride)
    rows = {
        split: {(r["user"], r["first"] + i) for r in records for i in range(10)} for split, records in splits.items()
    }
    assert all(len(records) > 20 for records in splits.values())
    for a, b in itertools.combinations(rows.values(), 2):
        assert not a & b
    ends = {s: [max(int(row[2]) for row in json.loads(r["rows"])) for r in rs] for s, rs in splits.items()}
    begins = {s: [min(int(row[2]) for row in json.loads(r["rows"])) for r in rs] for s, rs in splits.items()}
    assert max(ends["train"]) < min(begins["validation"]) and max(ends["validation"]) < min(begins["test"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"{HEADER.replace('Zip,', '')}\n{ROW}\n".encode(), "no column 'Zip'; the table has User, Card"),
        (b"", "the file is empty"),
        ("\r".join([HEADER, *[ROW] * 20]).encode(), r"transactions.csv: line 1 is no header: .* not in \\r alone"),
        ("\n".join([HEADER + ',"more', *[ROW] * 20]).encode(), "transactions.csv: line 1 is no header: close its"),
        ("\n".join(['"' + HEADER, *[ROW] * 9999]).encode(), "transactions.csv: line 1 is no header: close its"),
        (gzip.compress(f"{HEADER}\n{ROW}\n".encode() * 99, mtime=0)[:-9], "damaged or cut short"),
        (f"{HEADER}\n".encode() + b"\xff\xfe\n", "line 2 is not UTF-8"),
        (f"{HEADER}\n".encode(), "no user has 10 usable rows in a row$"),
        (f"{HEADER}\n{ROW}\n{ROW[1:]}\n".encode(), "no user has 10 usable rows in a row: 1 left out, the first is"),
        ("\n".join([HEADER, *(f"{user}{ROW[1:]}" for user in range(100))]).encode(), "no user has 10 usable rows"),
        (
            "\n".join([HEADER, *[ROW, "8" + ROW[1:], ROW] * 9]).encode(),
            "user 7 appears again at line 4: sort by user",
        ),
    ],
)
def test_damaged_files_are_refused_in_one_line(content, message, tmp_path):
    path = tmp_path / ("transactions.csv.gz" if content[:2] == b"\x1f\x8b" else "transactions.csv")
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        data.prepare("creditrans", tmp_path / "built", path=tmp_path)
    assert "\n" not in str(error.value)


def test_options_are_checked(tmp_path):
    for bad in ({"by": "card"}, {"stride": 11}, {"stride": 0}, {"users": 0}, {"size": -1}):
        with pytest.raises(UsageError, match=next(iter(bad))):
            data.prepare("creditrans", tmp_path, **bad)


@pytest.mark.parametrize("split", ["random", "time", "user"])
def test_splits_follow_their_rules(split, load_splits):
    splits = load_splits("creditrans", users=5, by=split)
    rows = [row for records in splits.values() for row in records]
    assert len({row["id"] for row in rows}) == len(rows) > 250
    ends = {
        name: [max(int(row[2]) for row in json.loads(r["rows"])) for r in records] for name, records in splits.items()
    }
    users = {name: {r["user"] for r in records} for name, records in splits.items()}
    if split == "time":
        assert max(ends["train"]) < min(ends["validation"]) <= max(ends["validation"]) < min(ends["test"])
    if split == "user":
        assert not users["train"] & users["validation"] and not users["train"] & users["test"]
        assert [len(users[name]) for name in ("train", "validation", "test")] == [3, 1, 1]
    else:
        shares = [len(splits[name]) / len(rows) for name in ("train", "validation", "test")]
        np.testing.assert_allclose(shares, (0.6, 0.2, 0.2), atol=0.01)
    if split == "random":
        frauds = [sum(r["label"] for r in splits[name]) for name in ("train", "validation", "test")]
        np.testing.assert_allclose(np.asarray(frauds) / sum(frauds), (0.6, 0.2, 0.2), atol=0.1)
    assert all(r["label"] == int("1" in r["frauds"]) for r in rows)


def test_fewer_than_five_users_are_not_divided_by_user(tmp_path):
    for options, message in (
        ({"users": 4}, "there are 4: give 5 or more, or another by"),
        ({"users": 9, "size": 30}, "there are 1 among the first 30 windows: give 5 or more"),
    ):
        with pytest.raises(DataError, match=message):
            data.prepare("creditrans", tmp_path, by="user", **options)
    assert len(data.prepare("creditrans", tmp_path, by="random", users=4).info.splits) == 3
    # Users without a window do not count.
    lines = [f"{user}{ROW[1:]}" for user in range(6) for _ in range(10 if user else 9)]
    (tmp_path / "transactions.csv").write_text("\n".join([HEADER, *lines]))
    assert len(data.prepare("creditrans", tmp_path, by="user", path=tmp_path).info.splits) == 3
    (tmp_path / "transactions.csv").write_text("\n".join([HEADER, *lines[:-1]]))
    with pytest.raises(DataError, match="there are 4"):
        data.prepare("creditrans", tmp_path, by="user", path=tmp_path)


def test_the_stand_in_is_the_same_for_any_number_of_users(tmp_path):
    two_users, four_users = list(generate.generate_rows(2, 3, 200)), list(generate.generate_rows(4, 3, 200))
    assert four_users[: len(two_users)] == two_users and len(four_users) > len(two_users)
    assert two_users != list(generate.generate_rows(2, 4, 200))[: len(two_users)]
    paths = [tmp_path / "a.csv.gz", tmp_path / "b.csv"]
    for path in paths:
        assert generate.main(["--users=2", "--seed=3", "--rows=200", f"--out={path}"]) == 0
    assert gzip.decompress(paths[0].read_bytes()) == paths[1].read_bytes()
    assert [row for _, row in read.read_table(paths[1])] == two_users
    assert generate.main(["--users=0"]) == 2


def test_the_stand_in_has_what_the_table_has_and_frauds_differ():
    raw = list(generate.generate_rows(8, 0))
    transactions = [read.parse_transaction(row) for row in raw]
    assert any(row[6].startswith("$-") for row in raw) and any(row[13] for row in raw)
    assert {row[7].split()[0] for row in raw} == {"Swipe", "Chip", "Online"}
    assert all((row[7] == "Online Transaction") == (row[9] == "ONLINE") == (row[7][0] == "O") for row in raw)
    keys = [(int(row.cells[0]), int(row.cells[1]), row.seconds) for row in transactions]
    assert keys == sorted(keys), "by user, card and time"
    is_fraud = np.asarray([row.fraud for row in transactions])
    assert 0.005 < is_fraud.mean() < 0.03
    is_night = np.asarray([row.seconds % 86400 < 6 * 3600 for row in transactions])
    is_away = np.asarray([not row.cells[8] for row in transactions])
    for sign in (is_night, is_away):
        assert (
            sign[is_fraud].mean() > 3 * sign[~is_fraud].mean()
            and 0 < sign[~is_fraud].mean()
            and sign[is_fraud].mean() < 1
        )


def test_windows_match_a_slow_implementation(rng):
    users = np.repeat(np.arange(6), rng.integers(1, 40, 6))
    rows = [read.Transaction((str(user), "0", str(i)), False) for i, user in enumerate(users)]
    for stride in (1, 5, 10):
        expected = []
        for user in range(6):
            user_rows = [row for row in rows if row.user == user]
            expected += [(user, s, tuple(user_rows[s : s + 10])) for s in range(0, len(user_rows) - 9, stride)]
        assert [tuple(window) for window in read.make_windows(rows, stride)] == expected


@pytest.mark.parametrize(
    ("time", "cell", "wanted"),
    [
        *(("s", cell, cell) for cell in ("1577836800", "1577836800.0")),
        ("us", "1577836800", "1577836800000000"),
        ("us", "1577836800.0", "1577836800000000"),
        ("us", "-1.5", "-1500000"),
        ("us", "1.23456789", "1234567.89"),
        ("ns", "1577836800.25", "1577836800250000000"),
        ("us", "", ""),
        ("ns", "", ""),
        ("us", "never", "never"),
    ],
)
def test_times_in_a_smaller_unit_move_the_point_and_missing_ones_stay_missing(time, cell, wanted):
    task = transactions.Task(time=time)
    row = [cell if name == "Timestamp" else "" for name in transactions.COLUMNS]
    (cells,) = task._parse_rows({"rows": [row]})
    assert cells[transactions.COLUMNS.index("Timestamp")] == (wanted or transactions.MISSING)
