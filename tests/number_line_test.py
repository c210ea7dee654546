"""Neighbours and monotony on the number line, and the command line that prints them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from numjax.errors import UsageError
from numjax.geometry import naik, number_line
from numjax.inspect import vectors
from numjax.tools import geometry


def test_neighbours_are_those_of_brute_force(rng):
    values = np.sort(rng.choice(100, 40, replace=False)).astype(float)
    x = np.round(rng.normal(size=(40, 3)))  # many vectors are equally near, some the same
    queries = np.asarray([0, 1, 17, 39])
    natural, near = number_line.natural_neighbours(values, queries, 6), number_line.embedded_neighbours(x, queries, 6)
    for row, query in enumerate(queries):
        others = [i for i in range(40) if i != query]
        assert natural[row].tolist() == sorted(others, key=lambda i: (abs(values[i] - values[query]), i))[:6]
        assert near[row].tolist() == sorted(others, key=lambda i: (((x[i] - x[query]) ** 2).sum(), i))[:6]
    shared = [len(set(a) & set(b)) / 6 for a, b in zip(natural.tolist(), near.tolist(), strict=True)]
    np.testing.assert_allclose(number_line.overlap(natural, near), shared)


def test_close_vectors_far_from_the_origin_are_told_apart():
    """Their squared distances are beyond what the product of the vectors can hold."""
    x = np.stack([np.full(50, 1e3), 1e-5 * np.arange(50.0)], axis=1)
    found = number_line.embedded_neighbours(x, np.arange(50), 4)
    np.testing.assert_array_equal(found, number_line.natural_neighbours(np.arange(50.0), np.arange(50), 4))


def test_bad_pools_are_named():
    with pytest.raises(UsageError, match="no 10 neighbours"):
        number_line.natural_neighbours(np.arange(10.0), np.asarray([0]))
    with pytest.raises(UsageError, match="ascend"):
        number_line.natural_neighbours(np.asarray([1.0, 1, 2]), np.asarray([0]), 1)
    with pytest.raises(UsageError, match="no number of 3 digits"):
        number_line.f1_by_length(np.arange(50.0), np.zeros((50, 2)), [3])


def test_f1_of_eq_1_with_random_digits():
    """0.70 for 2 to 4 digits, and almost nothing for the sum: the weights do it, whatever the digits' vectors."""
    pool = np.arange(10_000)
    weighted = vectors.make("digit_sum:aggregate=weighted,init_std=1.0", seed=1)(pool)
    found = number_line.f1_by_length(pool, weighted, [1, 2, 3, 4], queries=150)
    assert all(found[n] == pytest.approx(0.70, abs=0.02) for n in (2, 3, 4)) and found[1] < 0.3
    summed = vectors.make("digit_sum:aggregate=sum,init_std=1.0", seed=1)(pool[:1000])
    assert number_line.f1_by_length(pool[:1000], summed, [2, 3], queries=60)[3] < 0.05
    lengths = number_line.f1_by_length(pool, np.stack([pool, 0 * pool], 1), [1, 4], queries=20)
    assert lengths == {1: 1.0, 4: 1.0}


def test_monotony_is_that_of_a_loop(rng):
    values = np.cumsum(rng.integers(1, 4, 30)).astype(float)
    x, anchors = rng.normal(size=(30, 3)), np.asarray([0, 11, 29])
    found = number_line.measure_monotonicity(values, x, anchors)
    falling, steps, away, apart, furthest = 0, 0, [], [], 0
    for anchor in anchors:
        length = [np.sqrt(((x[i] - x[anchor]) ** 2).sum()) for i in range(30)]
        for i in range(30):
            away.append(abs(values[i] - values[anchor]))
            apart.append(length[i])
            outer = i + 1 if i >= anchor else i - 1
            if 0 <= outer < 30 and i != anchor:
                falling += length[outer] < length[i]
                steps += 1
        steps += int(anchor > 0) + int(anchor < 29)  # the first step each way cannot fall
        far = 0 if values[anchor] - values[0] > values[-1] - values[anchor] else 29
        furthest += max(length) == length[far]
    assert found.falling == pytest.approx(falling / steps) and found.steps == steps
    assert found.spearman == pytest.approx(stats.spearmanr(away, apart)[0])
    assert found.furthest == pytest.approx(furthest / 3)


def test_dice_2_is_monotone_and_dice_d_is_not():
    numbers, anchors = np.arange(0, 10_000, 25), np.arange(0, 400, 20)

    def measured(spec):
        unit = naik.normalize(vectors.make(spec, low=0.0, high=9999.0)(numbers))
        return number_line.measure_monotonicity(numbers, unit, anchors), unit

    circle, _ = measured("dice:form=2,dim=16")
    assert circle.falling == 0 and circle.spearman > 0.9999 and circle.furthest == 1
    sphere, unit = measured("dice:form=d,dim=64")
    assert 0.2 < sphere.falling < 0.27 and 0.8 < sphere.spearman < 0.9
    # The furthest from x is its mirror, not the end of the range.
    apart = np.linalg.norm(unit - unit[40], axis=1)
    assert numbers[40] == 1000 and abs(numbers[np.argmax(apart)] - 8999) <= 25


def test_carries_and_lengths(rng):
    x = np.zeros((1001, 1))
    steps = np.ones(1000)
    steps[9::10], steps[[9, 99, 999]] = 3, 7
    x[1:, 0] = np.cumsum(steps)
    assert number_line.measure_carries(np.arange(1001), x) == {"plain": 1, "carry": 3, "length": 7}
    assert np.isnan(number_line.measure_carries(np.arange(5), x[:5])["carry"])
    with pytest.raises(UsageError, match="successive"):
        number_line.measure_carries(np.asarray([0, 2, 3]), x[:3])


# -- the command line ------------------------------------------------------------------------------------------------


@pytest.fixture
def triples(tmp_path):
    """The magnitude test in the form of Naik's files, of numbers of our own."""
    made = naik.make_magnitude_triples([str(n) for n in [*range(-3, 40), 55, 60, 61, 99, 100, 740, 1999, 2000]])
    for name, rows in ((naik.STRICT, made.strict), (naik.BROAD, made.broad)):
        lines = ["\t".join(made.numbers[i] for i in row) + "\n" for row in rows]
        (tmp_path / name).write_text("".join(lines) + "inf\tinf\tinf\n")
    (tmp_path / naik.NUMBERS).write_text("\n".join([*made.numbers, "inf"]) + "\n")
    return tmp_path


def said(capsys, *words: str) -> dict:
    assert geometry.main(words) == 0
    out = capsys.readouterr().out
    return json.loads(out.splitlines()[-1])


def test_carries_and_sweep_print_their_figures(capsys):
    """Of DICE-2 every step is the same chord, 2 sin(π / 2n), and distances from the least number are chords too."""
    carried = said(capsys, "carries", "--embed=dice:form=2,dim=8", "--high=200", "--seeds=2")
    step = 2 * np.sin(np.pi / 400)
    assert [carried[name] for name in ("plain", "carry", "length")] == pytest.approx([step] * 3, abs=1e-4)
    assert carried["seeds"] == 2 and carried["options"] == {"low": 0.0, "high": 200.0}
    swept = said(capsys, "sweep", "--embed=dice:form=2,dim=8", "--numbers=50,0,100,200", "--range=full")["distance"]
    assert list(swept) == ["0", "50", "100", "200"]
    assert list(swept.values()) == pytest.approx([2 * np.sin(np.pi * n / 400) for n in (0, 50, 100, 200)], rel=1e-5)
    # Digit sums jump where a digit carries, and most where one more begins.
    jumps = said(capsys, "carries", "--embed=digit_sum:dim=32", "--high=999")
    assert jumps["plain"] < jumps["carry"] < jumps["length"]


def test_naik_prints_its_figures(triples, capsys):
    words = ("naik", "--embed=dice:form=d,dim=12", f"--triples={triples}", "--seeds=2")
    found = said(capsys, *words, "--as_published", "--range=p98")
    low, high = naik.find_limits([text for text in (triples / naik.NUMBERS).read_text().split() if text != "inf"])
    assert found["options"] == {"as_printed": True, "low": low, "high": high} and found["seeds"] == 2
    assert found["skipped"] == 1 and found["numbers"] == 51 and 0 < found["outside"] < 0.05
    assert found["float32"] == {k: found[k] for k in found["float32"] if k != "device"} | {"device": "cpu"}
    assert found["num"]["ova"] == 100
    assert 80 < found["ova"] <= found["ova_ties"] <= 100 and 90 < found["sc"] <= 100 and 90 < found["bc"] <= 100
    full = said(capsys, *words[:1], "--embed=dice:form=2,dim=4", *words[2:], "--range=full", "--precision=float32")
    assert full["ova_ties"] == full["sc_ties"] == full["bc_ties"] == 100 and full["precision"] == "float32"


def test_naik_of_ones_own_table_says_what_is_missing(tmp_path, capsys):
    path = tmp_path / "glove.txt"
    rows = [f"{n} {np.cos(n / 50):.9f} {np.sin(n / 50):.9f}\n" for n in range(30) if n != 7]
    path.write_text("the 0 1\n" + "".join(rows) + "three 1 0.06\nfour 0 1\n")
    found = said(capsys, "naik", f"--embed={path}", "--numbers=0:29", "--range=p98")
    assert found["missing"] == 1 and found["missing_first"] == ["7"] and found["seeds"] == 1
    assert found["triples"] < 29 and found["ova_ties"] == 100 and found["options"] == {}
    assert found["num"]["triples"] == 2 and found["num"]["missing"] == 128


def test_neighbours_and_monotone_print_theirs(capsys):
    found = said(capsys, "neighbours", "--embed=dice:dim=4", "--lengths=1:2", "--queries=20")
    assert found["f1"] == {"1": 1.0, "2": 1.0} and found["pool"] == [1000, 0, 999] and found["k"] == 10
    assert found["options"] == {"low": 0, "high": 999}
    found = said(capsys, "monotone", "--embed=dice:form=d,dim=8", "--numbers=0:300", "--anchors=7", "--seeds=2")
    assert found["anchors"] == 7 and 0.1 < found["falling"] < 0.3 and found["std"]["falling"] == 0


def test_export_to_the_projector(tmp_path, capsys):
    out = tmp_path / "shown"
    found = said(capsys, "projector", "--embed=prototype:dim=6", "--numbers=8,9,10,-2.5", f"--out={out}")
    assert found["numbers"] == 4 and found["files"][0] == str(out / "vectors.tsv")
    written = np.loadtxt(out / "vectors.tsv", delimiter="\t")
    np.testing.assert_allclose(written, vectors.make("prototype:dim=6")([8, 9, 10, -2.5]), atol=1e-7)
    rows = [line.split("\t") for line in (out / "metadata.tsv").read_text().splitlines()]
    assert rows == [["number", "digits", "last digit"], ["8", "1", "8"], ["9", "1", "9"], ["10", "2", "0"],
                    ["-2.5", "1", "2"]]  # fmt: skip
    assert "vectors.tsv" in (out / "projector_config.pbtxt").read_text()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "required"),
        ("naik", "--embed"),
        ("naik --embed=dice", "--triples=FOLDER or --numbers=LIST"),
        ("naik --embed=dice --triples=/nowhere", "No such file"),
        ("naik --embed=dice --numbers=", "an empty list of numbers"),
        ("naik --embed=dice --numbers=9:1", "an empty list of numbers"),
        ("naik --embed=dice --numbers=1,x", "'x' is not one number"),
        ("naik --embed=dice --numbers=5,5", "three or more"),
        ("naik --embed=dice --numbers=1:9 --range=5:5", "an empty range"),
        ("naik --embed=dice --numbers=1:9 --range=p97", "p98, full, own or LOW:HIGH"),
        ("naik --embed=dice:low=0 --numbers=1:9 --range=p98", "sets low itself"),
        ("naik --embed=dice:low=5,high=5 --numbers=1:9", "low must be below high"),
        ("naik --embed=dice:out_of_range=error --numbers=1:99 --range=p98", "lies outside DICE's range"),
        ("naik --embed=prototype --numbers=1:9 --as_published", "no defect"),
        ("naik --embed=dice:dim=9 --numbers=1:9 --as_published", "no defect"),
        ("naik --embed=nothing.txt --numbers=1:9", "no such file"),
        ("naik --embed=dice:dim=1,form=d --numbers=1:9", "dim must be at least 2"),
        ("naik --embed=prototype:dim=-3 --numbers=1:9", "exponent_dim must lie"),
        ("naik --embed=dice --numbers=--5:3", "'--5:3' is not one number"),
        ("naik --embed=dice --numbers=١:٣", "'١:٣' is not one number"),
        ("naik --embed=dice --numbers=١,٢,٣", "'١' is not one number"),
        (f"monotone --embed=dice --numbers=0:{'9' * 5000}", "is not one number"),
        (f"naik --embed=dice --numbers={'5,' * 400}x", "'x' is not one number"),
        ("monotone --embed=dice --numbers=0:10000000", "10,000,001 numbers are more than 10,000,000"),
        ("monotone --embed=dice --numbers=1,2,1e400,5", "1e400 is beyond every float"),
        ("neighbours --embed=dice --lengths=9", "10,000,000,000 numbers are more than"),
        ("naik --embed=dice --numbers=1:9 --seeds=0", "at least 1"),
        ("neighbours --embed=dice --lengths=0", "digits from 1 to 9"),
        ("neighbours --embed=dice --lengths=1 --pool=1:5", "no 10 neighbours"),
        ("monotone --embed=dice --anchors=0", "at least 1"),
        ("carries --embed=dice --high=5", "10 or more"),
        ("sweep --embed=digit_sum --numbers=7", "vectors of 1 of the numbers"),
        ("projector --embed=dice", "--out=FOLDER"),
        ("projector --embed=dice --numbers=1:3 --out=/proc/nowhere", "cannot write"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(line, message, capsys):
    assert geometry.main(line.split()) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.startswith("geometry: ") and captured.err.count("\n") == 1
    assert not captured.out


def test_triples_with_missing_columns_are_bad_usage(triples, capsys):
    (triples / naik.STRICT).write_text("1\t2\n")
    assert geometry.main(["naik", "--embed=dice", f"--triples={triples}"]) == 2
    assert "scmag.tsv, line 1: 2 columns, not 3" in capsys.readouterr().err
