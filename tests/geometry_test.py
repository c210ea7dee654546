"""Neighbours, distances, projections and pictures of embeddings; and Figs. 2–7 of MathGPT from them."""

from __future__ import annotations

import itertools
import json
import types
from collections import deque

import numpy as np
import pytest
from matplotlib import pyplot as plt
from ml_collections import ConfigDict
from scipy import stats
from sklearn import metrics

import numjax
from numjax import inspect, modes
from numjax.bundled.experiments.mathgpt import figures
from numjax.errors import DataError, UsageError
from numjax.expr import latex
from numjax.expr.printer import signs
from numjax.expr.tree import Tree
from numjax.geometry import neighbours, plots, projections
from numjax.inspect import Symbol
from tests import drawn, encoder_decoder_test
from tests.runs_test import TINY, cache  # noqa: F401  (the fixture builds datasets once)

# -- projections -----------------------------------------------------------------------------------------------------


def test_pca_is_the_singular_value_decomposition(rng):
    for count, width in ((30, 8), (6, 20)):
        x = rng.normal(size=(count, width)) @ rng.normal(size=(width, width)) + 5
        projection = projections.pca(x, 3)
        u, sizes, _ = np.linalg.svd(x - x.mean(0), full_matrices=False)
        np.testing.assert_allclose(np.abs(projection.points), np.abs(u[:, :3] * sizes[:3]), atol=1e-8)
        np.testing.assert_allclose(projection.share, sizes[:3] ** 2 / (sizes**2).sum())
        # The variances are the eigenvalues of the covariance; the order of the vectors does not change the signs.
        values = np.linalg.eigvalsh(np.cov(x.T))[::-1][:3]
        np.testing.assert_allclose(projection.points.var(axis=0, ddof=1), values, rtol=1e-8)
        order = rng.permutation(count)
        np.testing.assert_allclose(projections.pca(x[order], 3).points, projection.points[order], atol=1e-8)
        np.testing.assert_allclose((x - projection.centre) @ projection.axes.T, projection.points, atol=1e-8)


def test_pca_refuses_too_many_dimensions_and_values_that_are_not_finite():
    with pytest.raises(UsageError, match="at most 2"):
        projections.pca(np.zeros((5, 2)), 3)
    with pytest.raises(UsageError, match="finite"):
        projections.pca(np.full((3, 3), np.nan))
    assert projections.pca(np.ones((4, 3))).share.tolist() == [0, 0]


def test_tsne_is_the_same_for_a_seed_and_keeps_clusters_together(rng):
    centres = 10 * rng.normal(size=(3, 16))
    x = np.repeat(centres, 12, axis=0) + rng.normal(size=(36, 16))
    one, again, other = (projections.tsne(x, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, again)
    assert not np.allclose(one, other)
    for points in (one, other):
        near = neighbours.find_nearest(neighbours.distances(points, "euclid"), 5)
        assert (near // 12 == np.arange(36)[:, None] // 12).all()


def test_perplexity_is_lowered_for_few_vectors(rng):
    assert projections.limit_perplexity(100) == 10 and projections.limit_perplexity(7) == 3
    assert projections.tsne(rng.normal(size=(3, 4))).shape == (3, 2)
    with pytest.raises(UsageError, match="no picture"):
        projections.tsne(np.zeros((2, 4)))


# -- neighbours ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", neighbours.METRICS)
def test_distances_and_neighbours_are_those_of_brute_force(rng, metric):
    x = rng.normal(size=(25, 6))
    distances = neighbours.distances(x, metric)
    theirs = metrics.pairwise_distances(x, metric={"cosine": "cosine", "euclid": "euclidean"}[metric])
    np.testing.assert_allclose(distances, theirs, atol=1e-7)
    near = neighbours.find_nearest(distances, 4)
    for i in range(25):
        others = sorted((theirs[i, j], j) for j in range(25) if j != i)
        assert near[i].tolist() == [j for _, j in others[:4]]
        assert neighbours.find_rank(distances, i, others[6][1]) == 7
        with pytest.raises(UsageError, match="not among its own neighbours"):
            neighbours.find_rank(distances, i, i)


def test_of_equal_neighbours_the_earlier_comes_first_and_a_zero_vector_is_no_direction():
    x = np.asarray([[1.0, 0], [0, 1], [0, 1], [0, 0]])
    distances = neighbours.distances(x)
    np.testing.assert_allclose(distances, [[0, 1, 1, 1], [1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 0]])
    assert neighbours.find_nearest(distances, 9).tolist() == [[1, 2, 3], [2, 0, 3], [1, 0, 3], [0, 1, 2]]
    with pytest.raises(UsageError, match="cosine or euclid"):
        neighbours.distances(x, "cosin")


def test_kin_counts_relatives_and_compares_with_permuted_labels():
    x = np.asarray([[0.0, 0], [0, 1], [9, 0], [9, 1], [50, 50]])
    near = neighbours.find_nearest(neighbours.distances(x, "euclid"), 1)
    kin = neighbours.kin_share(near, ["a", "a", "b", "b", "lonely"])
    # 0 ↔ 1 and 2 ↔ 3 are nearest. The fifth has no relatives and does not count.
    assert kin.share == 1 and kin.count == 4
    # All permutations give the exact expectation and p-value, which `kin_share` estimates.
    values = []
    for deal in set(itertools.permutations("aabbl")):
        with_relatives = [i for i in range(5) if deal.count(deal[i]) > 1]
        values.append(np.mean([deal[near[i, 0]] == deal[i] for i in with_relatives]))
    assert kin.chance == pytest.approx(np.mean(values), abs=0.03)
    assert kin.p == pytest.approx(np.mean(np.asarray(values) >= 1), abs=0.03)
    assert kin == neighbours.kin_share(near, ["a", "a", "b", "b", "lonely"])
    assert neighbours.kin_share(near, "abcde") is None


def test_mantel_is_spearmans_and_its_partial_form(rng):
    n = 12
    tables = [neighbours.distances(rng.normal(size=(n, 3)), "euclid") for _ in range(3)]
    upper = np.triu_indices(n, 1)
    one, other, control = (stats.rankdata(table[upper]) for table in tables)
    rho = {
        (a, b): stats.spearmanr(x, y).statistic
        for (a, x), (b, y) in itertools.combinations(zip("xyz", (one, other, control), strict=True), 2)
    }
    assert neighbours.mantel(*tables[:2], permutations=9).rho == pytest.approx(rho["x", "y"])
    partial = (rho["x", "y"] - rho["x", "z"] * rho["y", "z"]) / np.sqrt(
        (1 - rho["x", "z"] ** 2) * (1 - rho["y", "z"] ** 2)
    )
    assert neighbours.mantel(*tables, permutations=9).rho == pytest.approx(partial)
    # Related tables have a small p. With their own square as control nothing is left.
    close = tables[0] + 0.1 * tables[1]
    assert neighbours.mantel(tables[0], close, permutations=400).p < 0.01
    assert neighbours.mantel(tables[0], close, close**2, permutations=400).rho == 0
    ps = [
        neighbours.mantel(*(neighbours.distances(rng.normal(size=(8, 2))) for _ in "xy"), permutations=60).p
        for _ in range(40)
    ]
    assert 0.25 < np.mean(ps) < 0.75 and np.mean(np.asarray(ps) < 0.05) < 0.25
    assert neighbours.mantel(tables[0], np.ones((n, n)), permutations=9) == (0, 1)


def test_shared_neighbours_is_the_share_of_common_neighbours(rng):
    x, y = (neighbours.distances(rng.normal(size=(15, 3)), "euclid") for _ in "xy")
    a, b = neighbours.find_nearest(x, 4), neighbours.find_nearest(y, 4)
    expected = np.mean([len(set(a[i]) & set(b[i])) / 4 for i in range(15)])
    assert (
        neighbours.shared_neighbours(x, y, 4) == pytest.approx(expected)
        and neighbours.shared_neighbours(x, 7 * x, 4) == 1
    )


def draw_tree(rng, most: int) -> list[int]:
    """Returns the parents of random nodes in preorder."""
    parents, path = [-1], [0]
    for node in range(1, most):
        path = path[: int(rng.integers(1, len(path) + 1))]
        parents.append(path[-1])
        path.append(node)
    return parents


def test_tree_distances_are_shortest_paths(rng):
    for _ in range(20):
        parents = draw_tree(rng, int(rng.integers(1, 30)))
        count = len(parents)
        rows = np.full((count, 32), -1, np.int32)
        rows[0, 0] = 0
        children = [0] * count
        for node, parent in enumerate(parents[1:], 1):
            depth = int((rows[parent] >= 0).sum())
            rows[node, :depth] = rows[parent, :depth]
            rows[node, depth] = children[parent]
            children[parent] += 1
        neighbour_sets = [set() for _ in parents]
        for node, parent in enumerate(parents[1:], 1):
            neighbour_sets[node].add(parent)
            neighbour_sets[parent].add(node)
        expected = np.zeros((count, count), int)
        for start in range(count):
            depths, queue = {start: 0}, deque([start])
            while queue:
                node = queue.popleft()
                for other in neighbour_sets[node] - depths.keys():
                    depths[other] = depths[node] + 1
                    queue.append(other)
            expected[start] = [depths[node] for node in range(count)]
        np.testing.assert_array_equal(neighbours.tree_distances(rows), expected)
        assert neighbours.find_parents(rows).tolist() == parents


# -- pictures --------------------------------------------------------------------------------------------------------


def test_labels_are_set_as_mathematics_or_written(recwarn):
    assert (
        plots.make_label(r"\leq") == r"$\leq$" and plots.make_label("=") == "$=$" and plots.make_label("x") == "$x$"
    )
    assert plots.make_label("^", "SUP") == "$x^n$" and plots.make_label(r"\hat") == r"$\hat{x}$"
    assert plots.make_label("limit-from") == "limit-from" and plots.make_label("end") == "end"
    assert plots.make_label(r"\begin{matrix}", "M-2x2") == "M-2x2"
    assert plots.make_label(r"\{ \}") == r"$\{ \}$"
    assert plots.make_label("ж") == "ж" and plots.make_label("$") == r"\$" and plots.make_label("数") == "U+6570"
    labels = [plots.make_label(signs.sign(*key), key[1]) for key in signs._INFIX_FAMILIES]
    figure, axes = plt.subplots()
    for text in labels:
        axes.text(0, 0, text)
    figure.canvas.draw()
    plt.close(figure)
    assert not [w for w in recwarn if "missing from font" in str(w.message)]


def test_labels_do_not_overlap_where_there_is_room(rng):
    # Each cell of a grid holds one label. With all labels on one side the grid would be almost full.
    marks = np.stack(np.meshgrid(np.arange(5), np.arange(5)), -1).reshape(-1, 2) * 60.0 + rng.uniform(0, 20, (25, 2))
    sizes = np.tile([[45.0, 14.0]], (25, 1))
    limits = np.asarray([[-60.0, -60.0], [360.0, 360.0]])
    centres = plots.arrange_labels(marks, sizes, 4.0, limits)
    for i, j in itertools.combinations(range(25), 2):
        is_apart = np.abs(centres[i] - centres[j]) >= (sizes[i] + sizes[j]) / 2 - 1e-9
        assert is_apart.any(), (i, j)
    covers = (np.abs(centres[:, None] - marks[None]) < sizes[:, None] / 2).all(axis=2)
    assert not covers.any()
    assert (centres - sizes / 2 >= limits[0]).all() and (centres + sizes / 2 <= limits[1]).all()


def test_a_scatter_has_every_label_a_legend_and_named_axes(rng):
    figure, axes = plt.subplots()
    labels = [f"$a_{{{i}}}$" for i in range(9)]
    plots.scatter(axes, rng.normal(size=(9, 2)), labels, [f"f{i % 8}" for i in range(9)], [(0, 1), (0, 2)], "title")
    figure.canvas.draw()
    assert sorted(text.get_text() for text in axes.texts) == sorted(labels) and len(axes.lines) == 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [f"f{i}" for i in range(8)]
    assert axes.get_xlabel() and axes.get_ylabel() and axes.get_title() == "title"
    colours = {(tuple(c.get_facecolor()[0]), c.get_paths()[0].vertices.tobytes()) for c in axes.collections}
    assert len(colours) == 8, "eight families look different with five colours"
    plt.close(figure)


# -- symbols ---------------------------------------------------------------------------------------------------------


def test_a_sign_parses_as_its_symbol():
    """A sign between operands parses as the node that it stands for."""
    for type, symbol in signs._INFIX_FAMILIES:
        tree = latex.parse(f"a {signs.sign(type, symbol)} b")
        assert isinstance(tree, Tree), (type, symbol)
        assert (tree.type, tree.symbol) == (type, symbol)
    assert latex.parse(signs.sign("V", "α")) == Tree("V", "α")


def test_each_operator_has_its_family():
    expected = {
        ("U", "eq"): "relation", ("O", "lt"): "relation", ("U", "plus"): "sum", ("O", "plus-or-minus"): "sum",
        ("U", "times"): "product", ("O", "divide"): "product", ("F", "sin"): "function", ("F", "f"): "function",
        ("F", "¯"): "accent", ("O", "sum"): "big operator", ("O", "int"): "big operator", ("U", "union"): "sum",
        ("O", "forall"): "quantifier", ("O", "SUP"): "script", ("M", "L-2"): "group", ("M", "matrix-L"): "group",
        ("O", "interval(O-C)"): "group", ("T", "if"): "text", ("O", "factorial"): "other",
    }  # fmt: skip
    assert {key: signs.family(*key) for key in expected} == expected


def test_the_most_frequent_symbols_are_selected_once_each():
    symbols = [Symbol("OP", t, s, signs.sign(t, s)) for t, s in (("U", "eq"), ("M", "L-2"), ("M", "L-3"), ("W", ""))]
    symbols += [Symbol("OP", "M", "matrix-S", signs.sign("M", "matrix-S")), Symbol("OP", "F", "sin", r"\sin")]
    counts = {"U": {"eq": 4}, "M": {"L-2": 3, "L-3": 9, "S-1": 2, "S-2": 1}, "W": {"": 99}}
    selection = figures.select_frequent(symbols, counts, 9)
    # Lists of two are written like lists of three. Symbols without a sign or without a count are left out.
    assert [symbol.symbol for symbol in selection] == ["L-3", "eq", "matrix-S"]
    assert [symbol.symbol for symbol in figures.select_frequent(symbols, counts, 1)] == ["L-3"]


def test_nodes_are_ordered_as_the_formula_is_written(workdirs):
    nodes = inspect.embed_nodes(numjax.load(workdirs["mathgpt"]), "x = 280/(1-y-0.5)")
    order = figures.order_infix(nodes)
    assert [nodes.names[i] for i in order] == ["x", "=", "number", "/", "1", "-", "y", "-", "number"]
    assert [figures._number_text(nodes, i) for i in order if nodes.names[i] == "number"] == ["280", "0.5"]


def test_only_operators_with_a_sign_are_plotted():
    operators = [("O", "leq"), ("O", "annotated"), ("F", "E"), ("F", "pmod"), ("F", "sin"), ("M", "L-2")]
    assert [figures.has_sign(Symbol("OP", t, s, signs.sign(t, s))) for t, s in operators] == [1, 0, 1, 0, 1, 1]


def test_each_letter_has_its_alphabet():
    assert [figures.alphabet(c) for c in ("x", "Q", "α", "Ω", "ж", "…", "abc", "∞")] == [
        "Latin", "Latin", "Greek", "Greek", "Cyrillic", "other", "other", "other",
    ]  # fmt: skip


# -- models ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counts_file(tmp_path_factory):
    """A file of counts, with more symbols than the stand-in has, in the form of MathGPT's vocab.json."""
    path = tmp_path_factory.mktemp("counts") / "vocab.json"
    counts = {
        "U": {"eq": 30, "plus": 20, "times": 25, "union": 3, "intersect": 4},
        "O": {"minus": 19, "divide": 18, "lt": 5, "SUP": 9, "percent": 1},
        "F": {"min": 7, "max": 6}, "M": {"L-2": 2}, "V": {"x": 9, "X": 5, "y": 4, "Y": 3, "α": 2, "β": 1},
    }  # fmt: skip
    path.write_text(json.dumps(counts))
    return path


@pytest.fixture(scope="module")
def workdirs(tmp_path_factory, counts_file):
    from numjax.bundled.configs import mathgpt

    folders = {}
    for name, words in (("mathgpt", "smoke,task=equation"), ("gpt", "smoke,task=equation,system=gpt")):
        config = mathgpt.get_config(words)
        with config.unlocked():
            config.task.size = TINY["task.size"]
            config.optim.steps = 2
            config.eval.update(test=False, examples=8)
            if name == "mathgpt":
                config.scheme.symbols.path = str(counts_file)
        folders[name] = tmp_path_factory.mktemp(name)
        modes.run(config, str(folders[name]), "train")
    return folders


def test_symbols_have_the_embeddings_of_the_model(workdirs):
    model = numjax.load(workdirs["mathgpt"])
    symbols = {symbol.symbol: symbol for symbol in inspect.list_symbols(model)}
    assert symbols["union"] == ("OP", "U", "union", r"\cup") and symbols["α"].latex == r"\alpha"
    vectors = inspect.embed_symbols(model, [symbols["union"], symbols["x"]])
    scheme, params = model.system.scheme, model.params
    weights = params["embeds_token"]
    for vector, name, type, kind in zip(vectors, ("union", "x"), "UV", (5, 3), strict=True):
        mean = np.mean([weights["table"][i] for i in scheme.vocab.encode(name)], axis=0)
        token = mean + np.tanh(mean @ weights["down"]) @ weights["up"]
        np.testing.assert_allclose(vector, token + params["embeds_type"]["vectors"][kind], atol=1e-5)
        assert scheme.symbols.find_token(type, name) is not None
    with pytest.raises(DataError, match="no token of its own"):
        inspect.embed_symbols(model, [Symbol("OP", "F", "sin", r"\sin")])


def test_a_text_model_averages_the_tokens_that_spell_a_symbol(workdirs):
    model = numjax.load(workdirs["gpt"])
    union = Symbol("OP", "U", "union", r"\cup")
    ids = model.system.scheme.vocab.encode(r"\cup")
    assert len(ids) > 1
    expected = np.asarray(model.params["embeds_token"]["table"])[ids].mean(axis=0)
    np.testing.assert_allclose(inspect.embed_symbols(model, [union])[0], expected, atol=1e-6)
    with pytest.raises(DataError, match="has no LaTeX"):
        inspect.embed_symbols(model, [Symbol("OP", "W", "", "")])
    for call in (lambda: inspect.list_symbols(model), lambda: inspect.embed_nodes(model, "x = 1")):
        with pytest.raises(UsageError, match="has no formulas"):
            call()


def test_nodes_have_the_position_vectors_of_the_tree(workdirs):
    model = numjax.load(workdirs["mathgpt"])
    nodes = inspect.embed_nodes(model, "x = 280/(1-y)")
    assert nodes.names == ["=", "x", "/", "number", "2", "8", "0", "end", "-", "1", "y", "end", "end", "end"]
    assert [row[row >= 0].tolist() for row in nodes.tree_positions] == [
        [0], [0, 0], [0, 1], [0, 1, 0], [0, 1, 0, 0], [0, 1, 0, 1], [0, 1, 0, 2], [0, 1, 0, 3], [0, 1, 1],
        [0, 1, 1, 0], [0, 1, 1, 1], [0, 1, 1, 2], [0, 1, 2], [0, 2],
    ]  # fmt: skip
    sequence = np.asarray(model.params["backbone"]["order_sequence"]["places"])[1:15]
    np.testing.assert_array_equal(inspect.embed_positions(model, 14, first=1), sequence)
    kernel = np.asarray(model.params["backbone"]["order_tree"]["kernel"]).reshape(32, 6, 2, -1)
    for vector, position, row in zip(nodes.vectors, sequence, nodes.tree_positions, strict=True):
        tree = sum(
            kernel[level, bit, index >> bit & 1] for level, index in enumerate(row) if index >= 0 for bit in range(6)
        )
        np.testing.assert_allclose(vector, position + tree, atol=1e-5)
    with pytest.raises(DataError, match="cannot be parsed"):
        inspect.embed_nodes(model, "x = (")
    with pytest.raises(UsageError, match="more than the context of 192"):
        inspect.embed_positions(model, 193)


def test_positions_are_those_of_the_stack_that_has_them(rng):
    """Those of the decoder, or of TabBERT's encoder over rows."""
    positions = encoder_decoder_test.POSITIONS["bart"]
    _, params, _ = encoder_decoder_test.draw_model("bart")
    tabular = dict(name="tabular", width=16, columns=4, heads=2, field_heads=2, field_mlp_width=16, max_length=40)
    tokens, _ = drawn.draw_tokens(rng, length=12)
    x_BTD = np.zeros((*tokens.ids.shape, 16), np.float32)
    rows = drawn.draw_params(drawn.build_backbone(tabular | {"layers": 1}, positions), rng, x_BTD, tokens)
    for backbone, name, width in ((params["backbone"], "decoder", 16), (rows, "rows", 64)):
        config = ConfigDict({"positions": positions})
        model = types.SimpleNamespace(system=types.SimpleNamespace(config=config), params={"backbone": backbone})
        vectors = inspect.embed_positions(model, 5, first=1)
        assert vectors.shape == (5, width)
        table = backbone[name]["order_sequence"]["places"]
        np.testing.assert_array_equal(vectors, table[3:8])
        with pytest.raises(
            UsageError, match=f"{len(table) - 1} positions are more than the context of {len(table) - 2}"
        ):
            inspect.embed_positions(model, len(table) - 1)
        with pytest.raises(UsageError, match="neither may be negative"):
            inspect.embed_positions(model, 2, first=-3)


def test_the_figures_of_two_runs(workdirs, tmp_path, capsys):
    words = [f"--{name}={folder}" for name, folder in workdirs.items()]
    figures.main([*words, f"--out={tmp_path}"])
    output = capsys.readouterr().out
    assert "fig7.png" in output and str(tmp_path) in output
    for number in range(2, 8):
        assert (tmp_path / f"fig{number}.png").stat().st_size > 5000
    assert (tmp_path / "positions.png").stat().st_size > 5000
    report = json.loads((tmp_path / "figures.json").read_text())
    assert {name: [len(panel["points"]) for panel in panels] for name, panels in report["panels"].items()} == {
        "fig2.png": [13], "fig3.png": [13], "fig4.png": [23, 13], "fig5.png": [13, 13], "fig6.png": [13, 13],
        "fig7.png": [6, 6],
    }  # fmt: skip
    assert report["operators"] == [
        "eq", "times", "plus", "minus", "divide", "SUP", "min", "max", "lt", "intersect", "union", "L-2", "percent",
    ]  # fmt: skip
    assert report["variables"] == list("xXyYαβ") and not report["left_out"]
    (measures,) = report["measures"]
    for system in ("mathgpt", "gpt"):
        assert measures[system]["operators: family"]["count"] == 10  # all but x^n, the list and the percent sign
        assert measures[system]["variables: letter"]["count"] == 4
        assert sorted(measures[system]["pairs"]) == ["eq lt", "eq plus", "min max", "plus minus", "union intersect"]
    assert report["nodes"]["gpt"] == ["x", "=", "280", "/", "1", "-", "2", "/", "5", "-", "1", "/", "3"]
    assert len(report["nodes"]["mathgpt"]) == 23
    # By construction MathGPT's positions follow the tree, and GPT's cannot.
    tree = {system: measures[system]["positions: tree"] for system in measures}
    assert tree["mathgpt"]["p"] < 0.01 and tree["mathgpt"]["value"] > tree["gpt"]["value"]
    assert "| positions: against the tree" in (tmp_path / "figures.md").read_text()


def test_counts_come_from_the_train_split_where_no_file_gives_them(workdirs, counts_file):
    model = numjax.load(workdirs["mathgpt"])
    assert figures.load_counts(model)["F"] == {"min": 7, "max": 6}
    with model.system.config.unlocked():
        model.system.config.scheme.symbols.path = ""
    counts = figures.load_counts(model)
    assert counts["U"]["eq"] == len(figures.source.load(model.system.task.dataset, "train")) and "F" not in counts
    assert figures.load_counts(model, str(counts_file))["U"]["eq"] == 30


def test_figures_need_mathgpt(tmp_path):
    with pytest.raises(UsageError, match="give --mathgpt"):
        figures.main([f"--gpt={tmp_path}", f"--out={tmp_path}"])
    with pytest.raises(UsageError, match="holds no run: train one"):
        figures.main([f"--mathgpt={tmp_path}", f"--out={tmp_path}"])
    with pytest.raises(UsageError, match="give each seed or fold of both"):
        figures.main([f"--mathgpt={tmp_path}", f"--gpt={tmp_path},{tmp_path}", f"--out={tmp_path}"])
