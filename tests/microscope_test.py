"""The page that shows how systems hold numbers: its data against independent computations, and in a browser."""

from __future__ import annotations

import html
import json
import re
from decimal import Decimal

import jax
import numpy as np
import pytest

import numjax
from numjax import api, modes
from numjax.bundled.configs import numgpt
from numjax.config import blocks
from numjax.errors import UsageError
from numjax.evals import generate
from numjax.inspect import answers, microscope, render, symbols, vectors, views
from numjax.runtime import shard
from numjax.system import assemble
from numjax.tools import inspect as tool
from numjax.types import Formula, Number
from tests.chromium import Browser, find_chromium
from tests.runs_test import cache, tiny  # noqa: F401  (the fixture builds datasets once)

SPECS = ["dice:form=d,dim=12", "prototype:dim=16"]
HOSTILE = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def shown():
    return microscope.examine(SPECS, ["1,234", "17.5"], high=59)


STEP = {"optim.steps": 1, "eval.every": 1, "checkpoint.every": 1}


def make_writer(folder, *words: str) -> api.Loaded:
    """An untrained model, of the task `generation` by default, with blocks set by words."""
    words = ("task=generation:answer=number,size=400", *words)
    config = blocks.apply_changes(numgpt.get_config("smoke,task=generation"), words)
    mesh = shard.make_mesh()
    system = assemble(config, folder)
    blank = api.Loaded(system, {}, 0, mesh)
    batch = next(blank.batches(blank.encode([{"id": 1, "question": "Q: How many are 3 and 4? A:", "answer": "7"}])))
    params = jax.jit(lambda: system.model.init(jax.random.key(0), batch)["params"])()
    return api.Loaded(system, jax.device_put(params, shard.replicated(mesh)), 0, mesh)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    modes.run(tiny(**STEP), str(folder), "train")
    return folder


@pytest.fixture(scope="module")
def approximate_writer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixture")
    modes.run(tiny("smoke,task=generation", **STEP | {"task.answer": "number"}), str(folder), "train")
    return folder


@pytest.fixture(scope="module")
def spelling_writer(tmp_path_factory):
    words = "scheme=digits:layout=digits", "~embeds.numeral", "heads.next=token"
    return make_writer(tmp_path_factory.mktemp("token"), *words)


@pytest.fixture(scope="module")
def exact_writer(tmp_path_factory):
    words = "embeds.numeral=fone:integer=7,fraction=2", "heads.next=fone:integer=7,fraction=2"
    return make_writer(tmp_path_factory.mktemp("fone"), *words)


# -- symbols and rules -----------------------------------------------------------------------------------------------


def test_symbols_of_every_layout_decode_to_the_number(shown):
    names = [layout.name for layout in shown.layouts]
    assert {"subword", "digits", "digits:layout=agg", "replace", "addback", "trees, in a formula"} <= {*names}
    for layout in shown.layouts:
        n_checked = 0
        for text, value, row in zip(shown.texts, shown.values, layout.rows, strict=True):
            if row is None:
                assert layout.in_formula, (layout.name, text)
                continue
            document = layout.scheme.decode(row.ids.tolist(), row.numbers)
            if layout.in_formula:
                (formula,) = document
                assert isinstance(formula, Formula)
                assert formula.tree == symbols.make_document(layout.scheme, text, in_formula=True)[0].tree
            else:
                assert document == (Number(text, value),), (layout.name, text)
            n_checked += 1
        assert n_checked > 60, layout.name


def test_symbols_spell_what_the_ids_hold(shown):
    layouts = {layout.name: layout for layout in shown.layouts}
    index = shown.texts.index("1,200")
    assert layouts["digits"].symbols[index] == ("1", ",", "2", "0", "0")
    assert layouts["digits:layout=digits"].symbols[index] == ("[F]", "1", ",", "2", "0", "0", "[/F]")
    assert layouts["replace"].symbols[index] == ("[NUM]",) and layouts["replace"].slot
    assert layouts["addback"].symbols[index][-1] == "[NUM]"
    assert "".join(layouts["subword"].symbols[index]) == "1,200" and not layouts["subword"].slot
    vocab = layouts["digits"].scheme.vocab
    assert symbols.name_symbols(vocab, vocab.encode("\u2212")) in (("\u2212",), ("⟨e2⟩", "⟨88⟩", "⟨92⟩"))
    assert symbols.BLANK in "".join(symbols.name_symbols(vocab, vocab.encode(" 42")))


def test_rules_read_each_text_their_own_way(shown):
    readings = {reading.rules: reading.spans for reading in shown.readings[shown.texts.index("1,200")]}
    assert readings["default"] == (("1,200", "1200"),)
    assert readings["digits"] == (("1", "1"), ("200", "200"))
    assert shown.values[shown.texts.index("1e-3")] == Decimal("0.001")


def test_another_vocabulary_may_be_given():
    vocab = symbols.make_vocabulary("wordpiece:size=100,split_digits=true")
    layouts = {layout.name: layout for layout in symbols.list_layouts(vocab, ["42"])}
    assert layouts["subword"].symbols == (("\u24234", "\u24232"),)  # a word begins with a blank
    for spec, message in {
        "cells": "choose one of",
        "wordpiece:sise=3": "has no option",
        "gpt2": "needs path",
    }.items():
        with pytest.raises(UsageError, match=message):
            symbols.make_vocabulary(spec)


# -- vectors ---------------------------------------------------------------------------------------------------------


def check_view(view: views.View, expected: np.ndarray, values, range_size: int) -> None:
    """Compares a view with a brute-force computation in float64."""
    np.testing.assert_allclose(view.vectors, expected, rtol=1e-6, atol=1e-9)
    for i in range(0, len(expected), 7):
        cosines = {}
        for j in range(len(expected)):
            if values[j] != values[i] and values[j] not in {values[k] for k in cosines}:
                a, b = expected[i], expected[j]
                cosines[j] = sum(a * b) / np.sqrt(sum(a * a) * sum(b * b))
        best = sorted(cosines, key=lambda j: -cosines[j])[: view.nearest.shape[1]]
        assert i not in view.nearest[i]
        np.testing.assert_allclose(view.cosines[i], [cosines[j] for j in best], atol=1e-9)
        np.testing.assert_allclose([cosines[j] for j in view.nearest[i]], view.cosines[i], atol=1e-9)
    units = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(
        view.maps[0].cosines, (units @ units.T)[:range_size, :range_size][:100, :100], atol=1e-9
    )
    # The picture keeps the distances of the plane that holds most variance.
    centred = expected - expected[:range_size].mean(axis=0)
    _, axes = np.linalg.eigh(centred[:range_size].T @ centred[:range_size])
    plane = centred @ axes[:, :-3:-1]
    np.testing.assert_allclose(np.abs(view.points), np.abs(plane), atol=1e-6 * np.abs(plane).max())


def test_views_equal_a_brute_force_computation(shown):
    for spec, part in zip(SPECS, shown.parts, strict=True):
        (view,) = part.views
        check_view(view, vectors.make(spec)(shown.texts), shown.values, 60)


def test_maps_of_a_long_range_average_cells():
    rng = np.random.default_rng(0)
    vectors_ND = rng.normal(size=(250, 5))
    has_vector = np.ones(250, bool)
    has_vector[[3, 240]] = False
    view = views.make_view("", vectors_ND, has_vector, [Decimal(i) for i in range(250)], 250)
    single, coarse = view.maps
    assert (single.step, coarse.step) == (1, 3) and coarse.cosines.shape == (84, 84)
    units = vectors_ND / np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    units[~has_vector] = np.nan
    expected = np.nanmean([[units[i] @ units[j] for j in range(99, 102)] for i in range(3, 6)])
    assert coarse.cosines[1, 33] == pytest.approx(expected) and np.isnan(single.cosines[3]).all()
    assert (view.nearest[3] == -1).all() and not np.isin(view.nearest, [3, 240]).any()
    assert not np.isnan(coarse.cosines).any()


def test_equal_values_are_no_neighbours_of_each_other():
    texts = ["7", "8", "9", "7.0", "007"]
    vectors_ND = np.asarray([[1, 0], [1, 0.5], [0, 1], [1, 0], [1, 0.01]], float)
    view = views.make_view("", vectors_ND, np.ones(5, bool), [Decimal(text) for text in texts], 3)
    assert view.nearest[0].tolist()[:2] == [1, 2] and view.nearest[0, 2] == -1
    np.testing.assert_array_equal(view.nearest[3], view.nearest[0])
    assert view.nearest[1].tolist()[0] == 0 and not np.isin(view.nearest, [3, 4]).any()


def test_neighbours_of_almost_parallel_vectors_are_those_of_differences():
    """Products of these vectors differ by less than their rounding, or not at all."""
    units = vectors.make("dice:form=2,low=0,high=1000000000")(range(100))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    view = views.make_view("", units, np.ones(100, bool), [Decimal(i) for i in range(100)], 100)
    distances = np.linalg.norm(units[:, None] - units, axis=2)
    np.testing.assert_allclose(
        np.take_along_axis(distances, view.nearest, axis=1), np.sort(distances, axis=1)[:, 1:9], rtol=1e-6
    )
    assert {*view.nearest[50]} == {46, 47, 48, 49, 51, 52, 53, 54}


def test_of_equal_neighbours_the_earlier_comes_first_and_a_zero_vector_has_no_direction():
    units = vectors.make("dice:form=2,low=0,high=99")(range(100))
    units[90] = 0
    view = views.make_view("", units, np.ones(100, bool), [Decimal(i) for i in range(100)], 100)
    assert all(view.nearest[i].tolist() == [i + d for n in (1, 2, 3, 4) for d in (-n, n)] for i in range(10, 80))
    np.testing.assert_allclose(view.cosines[90], 0, atol=1e-9)
    assert 90 not in view.nearest[89]


def test_a_table_shows_which_numbers_it_lacks(tmp_path):
    rng = np.random.default_rng(0)
    table = tmp_path / "vectors.txt"
    table.write_text("\n".join(f"{w} {' '.join(map(str, rng.normal(size=4)))}" for w in ["cat", *map(str, range(9))]))
    shown = microscope.examine([str(table)], high=9)
    (view,) = shown.parts[0].views
    assert view.has_vector[:10].tolist() == [True] * 9 + [False] and view.has_vector[shown.texts.index("007")]
    assert shown.parts[0].name == "vectors.txt" and dict(shown.parts[0].facts)["numbers without a row"]
    (tmp_path / "words.txt").write_text("cat 1 2\ndog 3 4\n")
    with pytest.raises(UsageError, match="none of the numbers 0 … 9 has a vector"):
        microscope.examine([str(tmp_path / "words.txt")], high=9)


def test_vectors_of_a_run_are_those_of_embed(classifier):
    model = numjax.load(classifier)
    shown = microscope.examine([str(classifier)], high=19)
    stack, numeral = shown.parts[0].views
    assert (stack.name, numeral.name) == ("input of the stack", "numeral: prototype")
    known = [text for text, ok in zip(shown.texts, stack.has_vector, strict=True) if ok]
    for view, name in ((stack, None), (numeral, "numeral")):
        expected = model.embed(known, name).astype(np.float64)
        known_values = [shown.values[i] for i in np.flatnonzero(view.has_vector)]
        check_view(view._replace(vectors=view.vectors[view.has_vector]), expected, known_values, 20)
    own_layout = shown.parts[0].layouts[0]
    assert own_layout.symbols[12] == ("[NUM]",) and shown.vocabulary.startswith("the vocabulary of ")


# -- answers ---------------------------------------------------------------------------------------------------------


def test_judgements_are_those_of_score(classifier):
    model = numjax.load(classifier)
    judged = answers.judge_numbers(model, ["80", "8,000", "-3"])
    question = "How many grams are 2 eggs?"
    records = [{"question": question, "answer": text} for text in ("80", "8,000", "-3", "1", "100000")]
    expected = model.score(records)[:, 1]
    assert judged.question == question and judged.sweep[0] == 1 and judged.sweep[-1] == 100_000
    np.testing.assert_allclose(judged.probabilities, expected[:3], rtol=1e-5)
    np.testing.assert_allclose(judged.sweep_probabilities[[0, -1]], expected[3:], rtol=1e-5)
    sentence = answers.judge_numbers(model, ["7"], "Two eggs weigh {} grams.").probabilities
    np.testing.assert_allclose(sentence, model.score([{"question": "Two eggs weigh 7 grams."}])[:, 1], rtol=1e-5)


def test_an_approximating_head_shows_its_interval(approximate_writer):
    model = numjax.load(approximate_writer)
    written = answers.write_answers(model, ["7", "42", "1,200"], 1)
    with pytest.raises(UsageError, match=r"write \{\} where the number goes"):
        answers.write_answers(model, ["7"], 1, "no slot")
    assert written.example == "[CLS]Q: What is 1,200 + 0? A:" and "density" in written.meaning
    for text, candidates in zip(["7", "42", "1,200"], written.candidates, strict=True):
        generation = model.generate(f"What is {text} + 0?", max_tokens=answers.MAX_TOKENS)
        best = candidates[0]
        assert best.text == generation.text.strip() and best.value == generation.numbers[0]["value"]
        assert best.interval == generation.numbers[0]["intervals"][0]
        assert best.log_prob == pytest.approx(generation.log_prob, abs=1e-5)


def test_candidates_of_a_spelling_head_have_the_masses_of_generation(spelling_writer):
    model = spelling_writer
    written = answers.write_answers(model, ["7", "42"], 2)
    prompts = ["What is 7 + 0?", "What is 42 + 0?"]
    max_tokens = min(model.system.config.decode.max_tokens, answers.MAX_TOKENS)
    generations = model.generate(prompts, beams=answers.BEAMS, max_tokens=max_tokens)
    for generation, candidates in zip(generations, written.candidates, strict=True):
        assert candidates[0].log_prob == pytest.approx(generation.log_prob, abs=1e-4)
        assert candidates[0].text.rstrip("…") == generation.text.strip()
        log_probs = [candidate.log_prob for candidate in candidates]
        assert len(candidates) > 1 and log_probs == sorted(log_probs, reverse=True)
        assert sum(np.exp(log_probs)) <= 1 + 1e-5 and len({candidate.text for candidate in candidates}) > 1


def test_candidates_of_an_exact_number_head_have_the_likelihoods_of_score(exact_writer):
    model = exact_writer
    written = answers.write_answers(model, ["7", "42"], 2, prompt="Q: How many are {} and 0? A:")
    for text, candidates in zip(["7", "42"], written.candidates, strict=True):
        assert text in {candidate.value for candidate in candidates} and len(candidates) > 1
        question = f"How many are {text} and 0?"
        generated = model.generate(f"Q: {question} A:").numbers[0]["value"]
        assert generated in {candidate.value for candidate in candidates}
        # The task has no answer of 0 or below.
        positive = [candidate for candidate in candidates if Decimal(candidate.value) > 0]
        scores = model.score([{"question": f"Q: {question} A:", "answer": c.value} for c in positive])
        np.testing.assert_allclose([candidate.log_prob for candidate in positive], scores, rtol=1e-4)


@pytest.mark.parametrize("backbone", ["decoder", "encoder_decoder"])
def test_answers_that_begin_without_a_blank_are_scored_so(backbone, tmp_path):
    words = ("embeds.numeral=fone:integer=7,fraction=2", "heads.next=fone:integer=7,fraction=2")
    task = f"task=word_problem:form=mawps,encoder={backbone != 'decoder'},size=400"
    model = make_writer(tmp_path, *words, task, f"backbone={backbone}:layers=1,width=32,heads=2")
    ranked = {
        3: [generate.Generation("", "7", [{"value": "7"}], -1.0, True)],
        4: [generate.Generation("", " x = 12 * 7", [{"value": "84"}], -1.0, True)],  # of a formula
        5: [generate.Generation("", "7", [{"value": "7"}], -1.0, False)],
    }
    found = answers._score_neighbours(model, list("012345"), dict.fromkeys(ranked, "What is 3 + 0?"), ranked)
    assert [*found] == [3] and {candidate.value for candidate in found[3]} == {"3", "6", "7", "8"}
    records = [{"id": c.value, "question": "What is 3 + 0?", "answer": c.value} for c in found[3]]
    np.testing.assert_allclose([c.log_prob for c in found[3]], model.score(records), rtol=1e-4)


def test_a_large_model_is_asked_for_fewer_numbers(spelling_writer, monkeypatch):
    model = spelling_writer
    monkeypatch.setattr(answers, "_count_affordable", lambda model, max_tokens: 5)
    generation = generate.Generation("", " 7", [], -1.0, True)
    monkeypatch.setattr(generate, "search", lambda system, params, prompts, **_: [[generation] for _ in prompts])
    written = answers.write_answers(model, [*map(str, range(12)), "99", "0.5"], 2)
    asked = [i for i, candidates in enumerate(written.candidates) if candidates]
    assert asked == [0, 4, 8, 12, 13]


def test_a_head_that_writes_nothing_is_named_in_one_line(classifier, monkeypatch):
    monkeypatch.setattr(answers, "_QUESTIONS", {})
    shown = microscope.examine([str(classifier)], high=9)
    part = shown.parts[0]
    assert part.written is None and part.judged is None
    assert part.silence.startswith("No answers to show of the heads label: classify: no question is known")
    assert "\n" not in part.silence


# -- the page --------------------------------------------------------------------------------------------------------


def find_data(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_the_page_holds_the_data_and_nothing_of_the_network(shown):
    page = render.make_page(shown)
    assert len(page.encode()) < render.MOST_BYTES
    assert not re.search(r"https?://|<link(?! rel=\"icon\" href=\"data:,\")|src=|@import|url\(", page)
    data = find_data(page)
    assert data["texts"] == list(shown.texts) and data["values"][data["texts"].index("50%")] == "0.50"
    for part, packed in zip(shown.parts, data["parts"], strict=True):
        (view,), (stored,) = part.views, packed["views"]
        assert stored["precision"] == "float16" and stored["error"] < 1e-3
        units = render.decode(stored["vectors"], "<f2").reshape(view.vectors.shape).astype(np.float64)
        restored = units * render.decode(stored["scales"], "<f8")[:, None]
        np.testing.assert_allclose(restored, view.vectors, atol=1e-3 * np.abs(view.vectors).max())
        nearest = render.decode(stored["nearest"], "<i2").reshape(view.nearest.shape)
        np.testing.assert_array_equal(nearest, view.nearest)
        distances = render.decode(stored["distances"], "<f4").reshape(view.cosines.shape)
        np.testing.assert_allclose(distances, 1 - view.cosines, rtol=1e-6)
        levels = render.decode(stored["maps"][0]["levels"], "<u1").reshape(60, 60)
        span = stored["maps"][0]["high"] - stored["maps"][0]["low"]
        error = stored["maps"][0]["low"] + levels / render.LEVELS * span - view.maps[0].cosines
        assert np.abs(error).max() <= 0.51 * span / render.LEVELS
    layout = next(layout for layout in data["layouts"] if layout["name"] == "digits")
    assert [layout["symbols"][int(n)] for n in layout["rows"][42].split()] == ["4", "2"]


def test_wide_vectors_are_stored_in_fewer_bits_and_refused_beyond(shown, monkeypatch):
    monkeypatch.setattr(render, "MOST_BYTES", 1_000_000)
    rng = np.random.default_rng(0)
    count = len(shown.texts)

    def widen(dim: int) -> microscope.Microscope:
        view = views.make_view("", rng.normal(size=(count, dim)), np.ones(count, bool), shown.values, 60)
        return shown._replace(parts=(shown.parts[0]._replace(views=(view,)),) * 4)

    page = render.make_page(widen(1200))
    assert 5e5 < len(page.encode()) <= render.MOST_BYTES
    stored = find_data(page)["parts"][0]["views"][0]
    assert stored["precision"] == "int8" and 1e-5 < stored["error"] < 1e-2
    with pytest.raises(UsageError, match=r"do not fit a page of 1 MB: give fewer parts, or a smaller --high"):
        render.make_page(widen(2500))


def test_text_of_the_data_cannot_end_its_element(shown):
    part = shown.parts[0]._replace(name=HOSTILE, facts=(("a", "{{script}} <!-- \u2028"),))
    page = render.make_page(shown._replace(parts=(part,)))
    assert page.count("<script") == page.count("</script>") == 2 and HOSTILE not in page
    assert find_data(page)["parts"][0]["name"] == HOSTILE
    assert find_data(page)["parts"][0]["facts"] == [["a", "{{script}} <!-- \u2028"]]
    assert f"<title>{html.escape(HOSTILE)}" in page


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_command_writes_one_file(tmp_path, capsys):
    out = tmp_path / "new" / "page.html"
    words = ["prototype:dim=8", "dice:form=2,dim=4", "--high=9", f"--out={out}", "--numbers=1,234;17.5"]
    assert tool.main(words) == 0
    data = find_data(out.read_text("utf-8"))
    assert data["texts"][-2:] == ["1,234", "17.5"] and len(data["parts"]) == 2
    assert dict(data["parts"][1]["facts"])["high"] == "9.0"  # an open range is that of the page
    line = capsys.readouterr().out
    assert str(out) in line and line.count("\n") == 1 and list(out.parent.iterdir()) == [out]


def test_numbers_keep_their_writing(tmp_path):
    file = tmp_path / "numbers.txt"
    file.write_text("1,200\n\n -3.50 \n")
    assert tool.parse_texts(str(file)) == ["1,200", "-3.50"]
    assert tool.parse_texts("007,2e3") == ["007", "2e3"] and tool.parse_texts("1,200;5") == ["1,200", "5"]
    assert tool.parse_texts("3:5") == ["3", "4", "5"] and tool.parse_texts("") == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["prototype", "--numbers=cat"], "cat"),
        (["prototype", "--numbers=seven"], "in digits"),
        (["prototype", "--numbers=;"], "no number in it"),
        (["prototype", "--numbers=1e999"], "below 1e300"),
        (["prototype", "--high=5"], "--high=5"),
        (["prototype"] * 5, "5 parts"),
        (["token"], "does not embed numbers"),
        (["prototipe"], "did you mean prototype"),
        (["runs/none"], "no such folder or file"),
        (["prototype:dim=8", "--high=9", "--out=/proc/none/page.html"], "cannot write"),
        (["prototype:dim=8", "--high=9", "--vocab=cells"], "--vocab=cells"),
        ([], "are required"),
    ],
)
def test_bad_usage_is_one_line(words, message, capsys):
    assert tool.main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("inspect: ") and message in error and error.count("\n") == 1


def test_folders_that_hold_no_run_are_refused_in_one_line(tmp_path, classifier, capsys):
    assert tool.main([str(tmp_path)]) == 2
    assert "no run in this folder" in capsys.readouterr().err
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "config.json").write_bytes((classifier / "config.json").read_bytes())
    (empty / "vocabulary").symlink_to(classifier / "vocabulary")
    assert tool.main([str(empty)]) == 2
    error = capsys.readouterr().err
    assert "no checkpoint" in error and error.count("\n") == 1


def test_foreign_code_of_a_workdir_needs_trust(tmp_path, classifier, capsys):
    config = json.loads((classifier / "config.json").read_text())
    config.pop("digest", None)
    config["embeds"]["numeral"]["name"] = "stranger.waves"
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert tool.main([str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "stranger.waves" in error and "--trust" in error and error.count("\n") == 1


def test_names_do_not_show_where_files_are(tmp_path):
    for name in ("a/gpt/seed_0", "b/gpt/seed_0", "c/numgpt"):
        (tmp_path / name).mkdir(parents=True)
    names = microscope.shorten_names([str(tmp_path / n) for n in ("a/gpt/seed_0", "c/numgpt")] + ["dice:dim=3"])
    assert names == ["gpt/seed_0", "numgpt", "dice:dim=3"]
    names = microscope.shorten_names([str(tmp_path / n) for n in ("a/gpt/seed_0", "b/gpt/seed_0")])
    assert names == ["a/gpt/seed_0", "b/gpt/seed_0"]


# -- the page in a browser -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if find_chromium() is None:
        pytest.skip("no chromium is installed: the page cannot be tried in a browser")
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def page(browser, shown, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(render.make_page(shown), "utf-8")
    return path


def list_symbols(browser: Browser, layout: str) -> list[str]:
    script = f"""[...document.querySelectorAll('#symbols tbody tr')]
        .find((row) => row.querySelector('th').firstChild.textContent === {json.dumps(layout)})
        .querySelectorAll('.symbol')"""
    return browser.evaluate(f"[...{script}].map((symbol) => symbol.textContent)")


def list_neighbours(browser: Browser, panel: int) -> list[str]:
    script = f"document.querySelectorAll('#views .panel')[{panel}].querySelectorAll('ol.bars .pick')"
    return browser.evaluate(f"[...{script}].map((pick) => pick.textContent)")


def test_typing_a_number_shows_its_symbols_and_neighbours(browser, page, shown):
    browser.open(f"{page.as_uri()}#n=7")
    assert list_symbols(browser, "digits") == ["7"]
    browser.evaluate("document.getElementById('number').focus()")
    browser.type("42")
    browser.wait_for("document.getElementById('status').textContent === 'Showing 42.'")
    assert list_symbols(browser, "digits:layout=digits") == ["[F]", "4", "2", "[/F]"]
    assert list_symbols(browser, "replace") == ["[NUM]"] and "[NUM] carries 42" in browser.text("#symbols")
    for panel, part in enumerate(shown.parts):
        assert list_neighbours(browser, panel) == [shown.texts[j] for j in part.views[0].nearest[42]]
    assert browser.text("#value") == "42" and browser.evaluate("location.hash") == "#n=42"
    assert browser.problems == []
    assert [address.partition("#")[0] for address in browser.requests] == [page.as_uri()]


def test_the_script_restores_vectors_and_cosines(browser, page, shown):
    browser.open(f"{page.as_uri()}#n=42")
    for panel, part in enumerate(shown.parts):
        view = part.views[0]
        stored = browser.evaluate(f"Array.from({{length: {view.dim}}}, (_, d) => component(views[{panel}], 42, d))")
        np.testing.assert_allclose(stored, view.vectors[42], atol=1e-3 * np.abs(view.vectors[42]).max())
        cosines = browser.evaluate(f"Array.from(cosinesTo(views[{panel}], 42))")
        np.testing.assert_allclose(cosines, view.maps[0].cosines[42], atol=2e-3)
    browser.evaluate("document.querySelector('#views details:last-of-type').open = true")
    for text, value in zip(shown.texts, shown.values, strict=True):
        if value:
            sign, digits, exponent = value.normalize().as_tuple()
            key = f"{'-' * sign}{''.join(map(str, digits))}e{exponent}"
            assert browser.evaluate(f"keyOf({json.dumps(text)})") == key
    assert browser.problems == []


def test_a_number_that_was_not_computed_leads_to_the_nearest(browser, page):
    browser.open(f"{page.as_uri()}#n=41.7")
    assert browser.evaluate("document.getElementById('results').hidden")
    status = browser.text("#status")
    assert "41.7 was not computed ahead" in status
    assert browser.evaluate("[...document.querySelectorAll('#status .pick')].map((p) => p.textContent)")[:2] == [
        "42",
        "42.0",
    ]
    browser.evaluate("document.querySelector('#status .pick').click()")
    assert browser.text("#status") == "Showing 42." and not browser.evaluate(
        "document.getElementById('results').hidden"
    )
    for text, message in {
        "1.2e3": "not computed ahead as it is written. Of the same value: 1,200 1200",
        "cat": "is not one number in digits",
        "%41": "is not one number in digits",
        "</script>": "is not one number in digits",
    }.items():
        browser.evaluate(f"show({json.dumps(text)})")
        assert message in " ".join(browser.text("#status").split())
    assert browser.problems == []


def test_the_keyboard_reaches_everything(browser, page):
    browser.open(f"{page.as_uri()}#n=42")
    browser.evaluate("document.getElementById('number').focus()")
    browser.type("8")
    browser.press("Enter")
    assert browser.text("#status") == "Showing 8."
    browser.evaluate("document.getElementById('next').focus()")
    browser.press("Enter")
    assert browser.text("#status") == "Showing 9."
    browser.evaluate("document.querySelector('#views canvas').focus()")
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    assert browser.text("#views output").startswith("component 2: ")
    unnamed = browser.evaluate("""[...document.querySelectorAll('button, input, select, canvas, table')].filter((e) =>
        !(e.textContent.trim() || e.ariaLabel || e.ariaHidden || e.labels?.length)).map((e) => e.outerHTML)""")
    assert unnamed == [] and browser.evaluate("document.documentElement.lang") == "en"
    assert browser.evaluate("document.getElementById('status').getAttribute('aria-live')") == "polite"
    for width in (390, 1280):
        browser.set_width(width)
        assert browser.evaluate("document.documentElement.scrollWidth") == width
    assert browser.problems == []


def test_hostile_text_is_shown_and_does_not_run(browser, shown, tmp_path):
    written = answers.Written(
        "{} + 0", HOSTILE, "text", tuple((answers.Candidate(HOSTILE, -0.1),) for _ in shown.texts)
    )
    hostile_layout = shown.layouts[0]._replace(
        name=HOSTILE,
        description=HOSTILE,
        symbols=tuple((HOSTILE, "<img src=x onerror=alert(1)>") for _ in shown.texts),
    )
    part = shown.parts[0]._replace(name=HOSTILE, written=written, layouts=(hostile_layout,))
    path = tmp_path / "page.html"
    path.write_text(render.make_page(shown._replace(parts=(part,))), "utf-8")
    browser.open(f"{path.as_uri()}#n=42")
    assert browser.evaluate("document.scripts.length") == 2 and browser.evaluate("document.images.length") == 0
    assert list_symbols(browser, HOSTILE) == [HOSTILE, "<img src=x onerror=alert(1)>"]
    assert HOSTILE in browser.text("#answers") and browser.problems == []


def test_answers_of_a_run_are_on_the_page(browser, classifier, approximate_writer, tmp_path):
    shown = microscope.examine([str(classifier), str(approximate_writer)], high=12)
    path = tmp_path / "page.html"
    path.write_text(render.make_page(shown), "utf-8")
    browser.open(f"{path.as_uri()}#n=7")
    judging, approximate = (browser.text(f"#answers .panel:nth-child({n})") for n in (1, 2))
    share = float(re.search(r"7: right with probability ([0-9.]+) %", judging)[1])
    assert share == pytest.approx(100 * shown.parts[0].judged.probabilities[7], rel=0.01)
    best = shown.parts[1].written.candidates[7][0]
    assert f"between {best.interval['low']} and {best.interval['high']}" in approximate
    assert "What is 7 + 0?" in approximate
    assert browser.problems == []
