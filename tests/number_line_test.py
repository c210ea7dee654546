"""Neighbours and monotonicity on the number line, and the command line that prints them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from numjax.errors import UsageError
from numjax.geometry import naik, number_line
from numjax.inspect import vectors
from numjax.tools import geometry


def test_neighbours_equal_those_of_brute_force(rng):
    values = np.sort(rng.choice(100, 40, replace=False)).astype(float)
    x = np.round(rng.normal(size=(40, 3)))  # many vectors are equally near, some the same
    queries = np.asarray([0, 1, 17, 39])
    natural, nearest = (
        number_line.natural_neighbours(values, queries, 6),
        number_line.embedded_neighbours(x, queries, 6),
    )
    for row, query in enumerate(queries):
        others = [i for i in range(40) if i != query]
        assert natural[row].tolist() == sorted(others, key=lambda i: (abs(values[i] - values[query]), i))[:6]
        assert nearest[row].tolist() == sorted(others, key=lambda i: (((x[i] - x[query]) ** 2).sum(), i))[:6]
    overlaps = [len(set(a) & set(b)) / 6 for a, b in zip(natural.tolist(), nearest.tolist(), strict=True)]
    np.testing.assert_allclose(number_line.overlap(natural, nearest), overlaps)


def test_close_vectors_far_from_the_origin_are_separated():
    """The product of the vectors is too coarse for their squared distances."""
    x = np.stack([np.full(50, 1e3), 1e-5 * np.arange(50.0)], axis=1)
    neighbours = number_line.embedded_neighbours(x, np.arange(50), 4)
    np.testing.assert_array_equal(neighbours, number_line.natural_neighbours(np.arange(50.0), np.arange(50), 4))


def test_decimals_as_far_from_a_number_tie():
    values = np.round(np.arange(1, 1001) / 10, 1)
    queries = np.arange(1, 999)
    near = number_line.natural_neighbours(values, queries, 1)
    np.testing.assert_array_equal(near[:, 0], queries - 1, "the smaller number first")
    wide = np.asarray([1e-3, 2e-3, 4e-3, 1e9, 1e9 + 3, 1e9 + 4])
    assert number_line.natural_neighbours(wide, np.asarray([0, 1, 4]), 2).tolist() == [[1, 2], [0, 2], [5, 3]]


def test_bad_pools_are_refused():
    with pytest.raises(UsageError, match="no 10 neighbours"):
        number_line.natural_neighbours(np.arange(10.0), np.asarray([0]))
    with pytest.raises(UsageError, match="ascend"):
        number_line.natural_neighbours(np.asarray([1.0, 1, 2]), np.asarray([0]), 1)
    with pytest.raises(UsageError, match="no number of 3 digits"):
        number_line.f1_by_length(np.arange(50.0), np.zeros((50, 2)), [3])


def test_weighted_digit_sums_have_an_f1_of_0_7():
    """F1 is 0.70 for 2 to 4 digits, and almost 0 for the plain sum: the weights matter, not the digits' vectors."""
    pool = np.arange(10_000)
    weighted_sums = vectors.make("digit_sum:aggregate=weighted,init_std=1.0", seed=1)(pool)
    scores = number_line.f1_by_length(pool, weighted_sums, [1, 2, 3, 4], queries=150)
    assert all(scores[n] == pytest.approx(0.70, abs=0.02) for n in (2, 3, 4)) and scores[1] < 0.3
    plain_sums = vectors.make("digit_sum:aggregate=sum,init_std=1.0", seed=1)(pool[:1000])
    assert number_line.f1_by_length(pool[:1000], plain_sums, [2, 3], queries=60)[3] < 0.05
    line_scores = number_line.f1_by_length(pool, np.stack([pool, 0 * pool], 1), [1, 4], queries=20)
    assert line_scores == {1: 1.0, 4: 1.0}


def test_monotonicity_equals_a_loop(rng):
    values = np.cumsum(rng.integers(1, 4, 30)).astype(float)
    x, anchors = rng.normal(size=(30, 3)), np.asarray([0, 11, 29])
    result = number_line.measure_monotonicity(values, x, anchors)
    n_falling, n_steps, number_distances, vector_distances, n_furthest = 0, 0, [], [], 0
    for anchor in anchors:
        length = [np.sqrt(((x[i] - x[anchor]) ** 2).sum()) for i in range(30)]
        for i in range(30):
            number_distances.append(abs(values[i] - values[anchor]))
            vector_distances.append(length[i])
            outer = i + 1 if i >= anchor else i - 1
            if 0 <= outer < 30 and i != anchor:
                n_falling += length[outer] < length[i]
                n_steps += 1
        n_steps += int(anchor > 0) + int(anchor < 29)  # the first step each way cannot fall
        far = 0 if values[anchor] - values[0] > values[-1] - values[anchor] else 29
        n_furthest += max(length) == length[far]
    assert result.falling == pytest.approx(n_falling / n_steps) and result.steps == n_steps
    assert result.spearman == pytest.approx(stats.spearmanr(number_distances, vector_distances)[0])
    assert result.furthest == pytest.approx(n_furthest / 3)


def test_equal_distances_are_ties_of_the_rank_correlation(rng):
    """The distances of DICE-2 depend on |x − y| alone; those of orthonormal vectors are all √2. Both are rounded."""
    for high in (9, 20, 99):
        numbers = np.arange(high + 1)
        unit = naik.normalize(vectors.make("dice:form=2,dim=64", low=0.0, high=float(high))(numbers))
        assert number_line.measure_monotonicity(numbers, unit, numbers).spearman == pytest.approx(1, abs=1e-9)
    orthonormal, _ = np.linalg.qr(rng.normal(size=(50, 50)))
    gaps = np.abs(np.subtract.outer(np.arange(50), np.arange(50)))
    expected = stats.spearmanr(gaps.ravel(), (gaps > 0).ravel())[0]
    result = number_line.measure_monotonicity(np.arange(50), orthonormal, np.arange(50))
    assert result.spearman == pytest.approx(expected) and result.falling == 0
    noise = 1 + 1e-14 * rng.normal(size=(50, 4))  # fifty times the same vector
    assert number_line.measure_monotonicity(np.arange(50), noise, np.arange(50)).spearman == 0


def test_dice_2_is_monotone_and_dice_d_is_not():
    numbers, anchors = np.arange(0, 10_000, 25), np.arange(0, 400, 20)

    def measure(spec):
        unit = naik.normalize(vectors.make(spec, low=0.0, high=9999.0)(numbers))
        return number_line.measure_monotonicity(numbers, unit, anchors), unit

    circle, _ = measure("dice:form=2,dim=16")
    assert circle.falling == 0 and circle.spearman > 0.9999 and circle.furthest == 1
    sphere, unit = measure("dice:form=d,dim=64")
    assert 0.2 < sphere.falling < 0.27 and 0.8 < sphere.spearman < 0.9
    # The furthest from x is its mirror, not the end of the range.
    distances = np.linalg.norm(unit - unit[40], axis=1)
    assert numbers[40] == 1000 and abs(numbers[np.argmax(distances)] - 8999) <= 25


def test_carry_steps_are_averaged_by_kind(rng):
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
    """Writes the magnitude test of our own numbers in the form of Naik's files."""
    examples = naik.make_magnitude_triples([str(n) for n in [*range(-3, 40), 55, 60, 61, 99, 100, 740, 1999, 2000]])
    for name, rows in ((naik.STRICT, examples.strict), (naik.BROAD, examples.broad)):
        lines = ["\t".join(examples.numbers[i] for i in row) + "\n" for row in rows]
        (tmp_path / name).write_text("".join(lines) + "inf\tinf\tinf\n")
    (tmp_path / naik.NUMBERS).write_text("\n".join([*examples.numbers, "inf"]) + "\n")
    return tmp_path


def run_geometry(capsys, *words: str) -> dict:
    assert geometry.main(words) == 0
    out = capsys.readouterr().out
    return json.loads(out.splitlines()[-1])


def test_carries_and_sweep_print_their_figures(capsys):
    """Every step of DICE-2 is the same chord, 2 sin(π / 2n). Distances from the smallest number are chords too."""
    figures = run_geometry(capsys, "carries", "--embed=dice:form=2,dim=8", "--high=200", "--seeds=2")
    step = 2 * np.sin(np.pi / 400)
    assert [figures[name] for name in ("plain", "carry", "length")] == pytest.approx([step] * 3, abs=1e-4)
    assert figures["seeds"] == 2 and figures["options"] == {"low": 0.0, "high": 200.0}
    distances = run_geometry(capsys, "sweep", "--embed=dice:form=2,dim=8", "--numbers=50,0,100,200", "--range=full")[
        "distance"
    ]
    assert list(distances) == ["0", "50", "100", "200"]
    assert (
        run_geometry(capsys, "sweep", "--embed=dice:form=2,dim=8", "--numbers=1,1.0,2", "--seeds=1")["missing"] == 0
    )
    assert list(distances.values()) == pytest.approx(
        [2 * np.sin(np.pi * n / 400) for n in (0, 50, 100, 200)], rel=1e-5
    )
    shortest = run_geometry(capsys, "carries", "--embed=dice:form=2,dim=8", "--high=20", "--seeds=2")
    assert all(shortest[name] > 0 for name in ("plain", "carry", "length")), "each kind has a step"
    # Digit sums jump at a carry, and jump most where the number becomes longer.
    jumps = run_geometry(capsys, "carries", "--embed=digit_sum:dim=32", "--high=999")
    assert jumps["plain"] < jumps["carry"] < jumps["length"]


def test_naik_prints_its_figures(triples, capsys):
    words = ("naik", "--embed=dice:form=d,dim=12", f"--triples={triples}", "--seeds=2")
    figures = run_geometry(capsys, *words, "--as_published", "--range=p98")
    low, high = naik.find_limits([text for text in (triples / naik.NUMBERS).read_text().split() if text != "inf"])
    assert figures["options"] == {"as_printed": True, "low": low, "high": high} and figures["seeds"] == 2
    assert figures["skipped"] == 1 and figures["numbers"] == 51 and 0 < figures["outside"] < 0.05
    assert figures["float32"] == {k: figures[k] for k in figures["float32"] if k != "device"} | {"device": "cpu"}
    assert figures["num"]["ova"] == 100
    assert (
        80 < figures["ova"] <= figures["ova_ties"] <= 100 and 90 < figures["sc"] <= 100 and 90 < figures["bc"] <= 100
    )
    full = run_geometry(
        capsys, *words[:1], "--embed=dice:form=2,dim=4", *words[2:], "--range=full", "--precision=float32"
    )
    assert full["ova_ties"] == full["sc_ties"] == full["bc_ties"] == 100 and full["precision"] == "float32"


def test_naik_names_the_numbers_that_a_table_lacks(tmp_path, capsys):
    path = tmp_path / "glove.txt"
    rows = [f"{n} {np.cos(n / 50):.9f} {np.sin(n / 50):.9f}\n" for n in range(30) if n != 7]
    path.write_text("the 0 1\n" + "".join(rows) + "three 1 0.06\nfour 0 1\n")
    figures = run_geometry(capsys, "naik", f"--embed={path}", "--numbers=0:29", "--range=p98")
    assert figures["missing"] == 1 and figures["missing_first"] == ["7"] and figures["seeds"] == 1
    assert figures["triples"] < 29 and figures["ova_ties"] == 100 and figures["options"] == {}
    assert figures["num"]["triples"] == 2 and figures["num"]["missing"] == 128


def test_neighbours_and_monotone_count_the_numbers_that_a_table_has(tmp_path, capsys):
    path = tmp_path / "glove.txt"
    path.write_text("the 0 1\n" + "".join(f"{n} {np.cos(n / 50):.9f} {np.sin(n / 50):.9f}\n" for n in range(40)))
    figures = run_geometry(capsys, "monotone", f"--embed={path}", "--numbers=0:99")
    assert (figures["numbers"], figures["anchors"], figures["missing"]) == (40, 40, 60)
    figures = run_geometry(capsys, "neighbours", f"--embed={path}", "--lengths=1:2", "--pool=0:99")
    assert figures["pool"] == [40, 0, 39] and figures["missing"] == 60
    figures = run_geometry(capsys, "monotone", "--embed=dice:dim=4", "--numbers=1,1.0,1,2,3")
    assert (figures["numbers"], figures["anchors"], figures["missing"]) == (3, 3, 0)


def test_neighbours_and_monotone_print_their_figures(capsys):
    figures = run_geometry(capsys, "neighbours", "--embed=dice:dim=4", "--lengths=1:2", "--queries=20")
    assert figures["f1"] == {"1": 1.0, "2": 1.0} and figures["pool"] == [1000, 0, 999] and figures["k"] == 10
    assert figures["options"] == {"low": 0, "high": 999}
    figures = run_geometry(
        capsys, "monotone", "--embed=dice:form=d,dim=8", "--numbers=0:300", "--anchors=7", "--seeds=2"
    )
    assert figures["anchors"] == 7 and 0.1 < figures["falling"] < 0.3 and figures["std"]["falling"] == 0


def test_projector_writes_vectors_and_metadata(tmp_path, capsys):
    out = tmp_path / "shown"
    report = run_geometry(capsys, "projector", "--embed=prototype:dim=6", "--numbers=8,9,10,-2.5", f"--out={out}")
    assert report["numbers"] == 4 and report["files"][0] == str(out / "vectors.tsv")
    table = np.loadtxt(out / "vectors.tsv", delimiter="\t")
    np.testing.assert_allclose(table, vectors.make("prototype:dim=6")([8, 9, 10, -2.5]), atol=1e-7)
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
        ("monotone --embed=dice --numbers=1,2,1e9999999999", "1e9999999999 is beyond every float"),
        ("monotone --embed=dice --numbers=1,2,1e-9999999999", "1e-9999999999 is beyond every float"),
        ("monotone --embed=dice --numbers=1,2,12e999999999999999999", "an exponent has at most 17 digits"),
        ("monotone --embed=dice --numbers=/proc/self/mem", "/proc/self/mem cannot be read"),
        ("neighbours --embed=dice --lengths=9", "10,000,000,000 numbers are more than"),
        ("naik --embed=dice --numbers=1:9 --seeds=0", "at least 1"),
        ("neighbours --embed=dice --lengths=0", "digits from 1 to 9"),
        ("neighbours --embed=dice --lengths=1 --pool=1:5", "no 10 neighbours"),
        ("neighbours --embed=dice --lengths=1.5", "digits from 1 to 9, such as 1:4"),
        ("monotone --embed=dice --anchors=0", "at least 1"),
        ("carries --embed=prototype --high=19 --seeds=2", "20 or more"),
        ("sweep --embed=digit_sum --numbers=7", "vectors of 1 of the numbers"),
        ("projector --embed=dice", "--out=FOLDER"),
        ("projector --embed=dice --numbers=1:3 --out=/proc/nowhere", "cannot write"),
    ],
)
def test_bad_usage_gives_one_line_and_exit_code_2(line, message, capsys):
    assert geometry.main(line.split()) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.startswith("geometry: ") and captured.err.count("\n") == 1
    assert not captured.out


def test_triples_with_missing_columns_are_bad_usage(triples, capsys):
    (triples / naik.STRICT).write_text("1\t2\n")
    assert geometry.main(["naik", "--embed=dice", f"--triples={triples}"]) == 2
    assert "scmag.tsv, line 1: 2 columns, not 3" in capsys.readouterr().err
