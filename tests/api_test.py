"""Functions that notebooks call on finished runs: embed, score, generate, predict; and a profile on request."""

from __future__ import annotations

import json
import re
import shutil
from decimal import Decimal
from typing import Any

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

import numjax
from numjax import api, inspect, modes
from numjax.bundled.configs import numgpt
from numjax.config import origin
from numjax.errors import DataError, UsageError
from numjax.evals import generate, score
from numjax.types import Mark, Number, Text
from tests.runs_test import cache, tiny  # noqa: F401  (the fixture builds datasets once)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    modes.run(tiny(**{"optim.steps": 10, "eval.every": 10, "profile_steps": "3:5"}), str(folder), "train")
    return folder


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("writer")
    config = tiny("smoke,task=generation", **{"optim.steps": 10, "eval.every": 10, "optim.accumulate": 2})
    results = modes.run(config, str(folder), "train")
    return folder, results


def test_a_profile_is_written_on_request(classifier):
    assert list((classifier / "profile").rglob("*.xplane.pb"))
    with pytest.raises(UsageError, match="10:15"):
        modes.run(tiny(profile_steps="5"), str(classifier.parent / "bad"), "train")


def test_embed_gives_one_vector_a_number(classifier):
    model = numjax.load(classifier)
    vector, vectors = model.embed("3.14"), model.embed(["3.14", "-1,200", "0"])
    assert vector.shape == (32,) and vectors.shape == (3, 32)
    np.testing.assert_allclose(vector, vectors[0], rtol=1e-5)
    # A vector holds only exponent and prototypes, so the same value gives the same vector.
    np.testing.assert_allclose(model.embed("1200"), model.embed("1,200"), rtol=1e-6)
    raw = model.embed("3.14", name="numeral")
    prototypes = np.exp(-(((3.14 - np.linspace(-10, 10, 48)) / 0.5) ** 2))
    np.testing.assert_allclose(raw[16:], prototypes, atol=1e-5)
    with pytest.raises(DataError, match="not one number"):
        model.embed("pi")


def test_a_number_without_a_value_beside_it_has_the_mean_of_its_symbols(writer, tmp_path):
    config = tiny("smoke,task=generation,system=digits", **{"optim.steps": 1, "eval.test": False})
    with config.unlocked():
        config.scheme = ConfigDict({"name": "limbs", "size": 1, "vocab": config.scheme.vocab.to_dict()})
    modes.run(config, str(tmp_path), "train")
    model = numjax.load(tmp_path)
    row = model.system.encode(model.system.scheme.parse("12"))
    vectors = model.params["embeds_token"]["table"][row.ids]
    np.testing.assert_allclose(model.embed("12"), np.asarray(vectors).mean(0), rtol=1e-5)


def test_a_text_of_several_rows_has_one_score(tmp_path):
    texts, words = tmp_path / "texts", "item {} costs {} euros"
    texts.mkdir()
    (texts / "a.txt").write_text("\n".join(words.format(i, 3 * i) for i in range(300)))
    config = numgpt.get_config("smoke,task=text,system=gpt")
    with config.unlocked():
        config.optim.steps, config.task.path, config.eval.test = 1, str(texts), False
    modes.run(config, str(tmp_path / "run"), "train")
    model = numjax.load(tmp_path / "run")
    short, long = words.format(1, 2), " ".join(words.format(i, i) for i in range(90))
    encoded = model.encode([{"text": long}])
    rows = api.log_likelihoods(model.system, model.params, model.mesh, model.batches(encoded), len(encoded))
    assert len(rows) > 2
    scores = model.score([short, long, short])
    np.testing.assert_allclose(scores[1], rows.sum(), rtol=1e-5)
    np.testing.assert_allclose(scores[[0, 2]], model.score(short), rtol=1e-4)
    with pytest.raises(UsageError, match="the run continues texts: use generate, or score"):
        model.predict([{"text": short}])
    # Texts of all lengths, in any number, need few programs.
    score.row_log_prob.clear_cache()
    for count in range(1, 31):
        model.score(words.format(7, " ".join("7" * count)))
    model.score([short] * 5)
    assert score.row_log_prob._cache_size() < 12


def test_a_prompt_that_leaves_no_room_is_left_out_and_the_others_are_answered(writer):
    folder, _ = writer
    config = origin.get_config(folder)
    short, long = {"question": "How many grams are 2 eggs?"}, {"question": "How many grams are 2 eggs? " * 3}
    lengths = [len(row.ids) for row in numjax.load(folder).encode([short, long]).rows]
    with config.unlocked():
        config.decode.max_tokens = config.backbone.max_length - min(lengths)
    model, skipped = numjax.load(folder, config), []
    (answer,) = model.predict([long, short, long], skipped=skipped)
    assert answer["id"] == "record-1"
    assert [row["id"] for row in skipped] == ["record-0", "record-2"]
    assert f"do not fit backbone.max_length={config.backbone.max_length}" in skipped[0]["reason"]
    with pytest.raises(DataError, match=r"record record-0 of input: its prompt of"):
        model.predict([long, short], strict=True)
    assert model.score([short | {"answer": "80"}, long | {"answer": "80"}]).shape == (2,)


def test_methods_that_moved_name_their_replacement(classifier):
    model = numjax.load(classifier)
    for name, replacement in api.MOVED.items():
        with pytest.raises(AttributeError, match=f"'{name}' is a function now: {re.escape(replacement)}"):
            getattr(model, name)
        function = replacement.removeprefix("numjax.inspect.").partition("(")[0]
        assert callable(getattr(inspect, function))
    with pytest.raises(AttributeError, match="has no 'atention'"):
        _ = model.atention
    assert not hasattr(model, "vectors")


def test_functions_of_one_kind_of_model_are_refused_for_others(classifier):
    model = numjax.load(classifier)
    with pytest.raises(UsageError, match="has no formulas"):
        inspect.list_symbols(model)
    with pytest.raises(UsageError, match="backbone decoder is no encoder"):
        inspect.attention_weights(model, {"question": "How many grams are 2 eggs?", "answer": "80"})


def test_score_gives_probabilities_in_order(classifier):
    model = numjax.load(classifier)
    record = {"question": "How many grams are 2 eggs?", "answer": "80"}
    other = {"question": "How many grams are 2 eggs?", "answer": "8000"}
    scores = model.score([record, other])
    assert scores.shape == (2, 2)
    np.testing.assert_allclose(scores.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(model.score(other), scores[1], rtol=1e-5)
    with pytest.raises(DataError, match="question"):
        model.score({"answer": "80"})


def test_the_same_question_compiles_once(classifier, writer):
    record = {"question": "How many grams are 2 eggs?", "answer": "80"}
    count = [0]

    def count_compilation(event: str, seconds: float, **details) -> None:
        count[0] += event == "/jax/core/compile/backend_compile_duration"

    jax.monitoring.register_event_duration_secs_listener(count_compilation)
    for folder, methods in ((classifier, ("score", "predict")), (writer[0], ("score",))):
        model, n_before = numjax.load(folder), count[0]
        for method in methods:
            getattr(model, method)([record])
        assert count[0] > n_before  # the listener counts
        n_before = count[0]
        for method in methods * 2:
            getattr(model, method)([record])
        assert count[0] == n_before


def test_a_classifier_does_not_write(classifier):
    with pytest.raises(UsageError, match="only classifies"):
        numjax.load(classifier).generate("How many?")


@pytest.mark.parametrize(
    ("method", "argument"),
    [
        ("embed", "3"),
        ("score", {"question": "How many are 5?", "answer": "5"}),
        ("generate", "Q: 3 A:"),
        ("predict", [{"question": "How many are 5?"}]),
    ],
)
def test_a_config_of_other_sizes_than_the_checkpoint_is_one_line(writer, tmp_path, method, argument):
    """Flax notices only when the model runs."""
    folder = shutil.copytree(writer[0], tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    config["embeds"]["numeral"]["high"] += 3
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != "digest"}))
    with pytest.raises(
        UsageError, match=f"^{re.escape(str(folder))}: its checkpoint is not of its config: .*exponent"
    ):
        getattr(numjax.load(folder), method)(argument)


def test_generate_answers_one_prompt_or_several(writer):
    model = numjax.load(writer[0])
    prompt = "Q: A shelf holds 52 books and 17 are taken. How many are left? A:"
    answer = model.generate(prompt, max_tokens=4)
    answers = model.generate([prompt, "Q: 3 A:"], max_tokens=4)
    assert answer.prompt == prompt and answers[0].text == answer.text
    assert isinstance(answer.numbers, list) and np.isfinite(answer.log_prob)


def test_generation_metrics_come_with_the_run(writer):
    folder, results = writer
    metrics = results["validation"]
    assert 0 <= metrics["NGR"] <= 1 and metrics["n_valid"] >= 0
    assert metrics["loss"] == pytest.approx(metrics["next/mass"] + metrics["next/mantissa"], rel=1e-4)
    assert "perplexity" not in metrics and metrics["mass_perplexity"] >= 1
    assert (folder / "predictions" / "generation.validation.jsonl").exists()


def test_score_of_a_language_model_is_the_log_likelihood_of_one_record(writer):
    model = numjax.load(writer[0])
    records = [
        {"question": "How many are 3 and 4?", "answer": "7"},
        {"question": "How many are 5?", "answer": "5000"},
    ]
    scores = model.score(records)
    np.testing.assert_allclose(scores[1], model.score(records[1]), rtol=1e-4)


def test_a_folder_without_a_run_is_named(tmp_path):
    (tmp_path / "a" / "best").mkdir(parents=True)
    (tmp_path / "a" / "config.json").write_text("{}")
    (tmp_path / "b").mkdir()
    (tmp_path / "file").touch()
    for folder, message in {
        "none": "none does not exist: train a run there",
        "a/best": r"a/best lies in the run .*a: give --workdir=.*a$",
        "b": "b holds no run: train one",
        "file": "file is a file: give the folder of a run",
        ".": "holds no run itself, but in it are runs: a$",
        "a": "a holds no readable config",
    }.items():
        with pytest.raises(UsageError, match=message):
            numjax.load(tmp_path / folder)


def test_a_generated_text_ends_at_its_first_mark_and_its_numbers_stay_apart(monkeypatch):
    one, two = Number("1", Decimal(1)), Number("2", Decimal(2))
    document = (Text("so "), one, two, Mark("[EOS]"), Text("behind"))
    monkeypatch.setattr(generate, "_decode_document", lambda *_: document)
    made: Any = generate._make_generation
    assert made(None, "question", None, ([], [], -1.0, True, None)).text == "so 1 2"
