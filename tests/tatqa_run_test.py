"""TAT-QA end to end at smoke: a row of Table 3 is trained, and its model answers a user's questions."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import optax
import pytest

import numjax
from numjax import inspect, modes
from numjax.bundled import data
from numjax.bundled.configs import luna
from numjax.bundled.experiments import runs as experiment
from numjax.bundled.experiments.luna import table3, table4
from numjax.errors import DataError, UsageError
from numjax.nn.sizes import encoder_size as compute_encoder_size
from numjax.pipeline import batch as batches
from numjax.pretrained import bert
from numjax.runtime import shard
from numjax.system import assemble
from numjax.tasks.tatqa.answers import OPERATORS, SCALES
from numjax.text import vocab as vocabularies
from numjax.text.vocab import bytebpe
from numjax.train import inherit
from numjax.train.step import init_state
from numjax.types import TrainState

OPTIONS = SimpleNamespace(
    scale="smoke", as_published=False, tatqa="", tabfact="", bert="", roberta="", seeds=[0], tabfact_seeds=0
)

PIECES = ["<s>", "<pad>", "</s>", "<unk>", *bytebpe._byte_of_character(), "<mask>"]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table3")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMJAX_CACHE", str(folder / "data"))
        table3.main(["--scale=smoke", "--only=tatqa/baseline", "--seeds=1", f"--out={folder}"])
    return folder


def test_tabfact_uses_the_first_seeds():
    def make_options(scale, n_tabfact, seeds=(0, 1, 2)):
        return SimpleNamespace(scale=scale, seeds=list(seeds), tabfact_seeds=n_tabfact)

    assert table3.choose_tabfact_seeds(make_options("laptop", 0)) == [0]
    assert (
        table3.choose_tabfact_seeds(make_options("paper", 0))
        == table3.choose_tabfact_seeds(make_options("laptop", 3))
        == [0, 1, 2]
    )
    assert table3.choose_tabfact_seeds(make_options("paper", 2, seeds=(0,))) == [0], "no more than there are"
    with pytest.raises(UsageError, match="--tabfact_seeds=-1"):
        table3.choose_tabfact_seeds(make_options("laptop", -1))


def test_table3_agrees_with_the_predictions_on_disk(out):
    entries = {(e["row"], e["column"]): e for e in json.loads((out / "table3.json").read_text())["tables"]["table3"]}
    choice = table3.CHOICES["baseline"]
    folder = experiment.workdir(table3.make_cell(OPTIONS, "baseline", "tatqa"), 0, out)
    rows = [json.loads(line) for line in (folder / "predictions" / "tatqa.jsonl").open()]
    assert len(rows) == 24, "every question is scored"
    task = numjax.load(folder).system.task
    scores = task.score([r["prediction"] for r in rows], [r["reference"] for r in rows])
    assert entries[choice.label, "EM"]["here"]["mean"] == pytest.approx(100 * scores["em"])
    assert entries[choice.label, "EM"]["paper"] == {"mean": 50.15, "std": 0.8}
    is_right = [r["prediction"]["operator"] == r["reference"]["operator"] for r in rows if r["reference"]["operator"]]
    assert entries[choice.label, "operator"]["here"]["mean"] == pytest.approx(100 * np.mean(is_right))
    text = (out / "table3.md").read_text()
    assert "No pre-trained weights" in text and "stand-in" in text and "| Replace | 51.87 ± 1.70 | – |" in text


def test_remarks_on_data_name_no_parent_folder(tmp_path):
    options = SimpleNamespace(**vars(OPTIONS) | {"tatqa": str(tmp_path / "asked"), "bert": str(tmp_path / "base")})
    remarks = " ".join(table3.make_remarks(options))
    assert "TAT-QA's files in asked" in remarks and "from base" in remarks and str(tmp_path) not in remarks
    card_options = SimpleNamespace(
        scale="smoke", as_published=False, path=str(tmp_path / "cards"), users=0, by="random"
    )
    assert table4.make_remarks(card_options)[0] == "Data: cards."


def test_overnight_tests_every_fold_once_after_a_pretraining_without_it(tmp_path, monkeypatch):
    calls = []

    def train(system, data, folder, seed, score, compiled=None, note=None):
        config = system
        dataset = config.task.name if config.task.name != "table_text" else "pretrain"
        calls.append((dataset, config.task.get("fold"), config.task.get("folds"), seed, config.backbone.dtype))
        assert config.scheme.vocab.path == "pretrained:minilm"
        (folder.parent / "vocabulary").mkdir(parents=True, exist_ok=True)
        return {"test": {"em": seed / 10, "accuracy": 0.5}}, None

    monkeypatch.setattr(experiment, "train", train)
    monkeypatch.setattr(experiment, "assemble", lambda config, folder: config)
    monkeypatch.setattr(experiment, "load_data", lambda *args, **kwargs: None)
    words = ["--scale=overnight", "--only=tatqa/luna,tatqa/baseline,tabfact/luna", "--dirty", f"--out={tmp_path}"]
    table3.main([*words, "--bert=minilm"])
    expected = []
    for fold in range(5):
        expected += [("pretrain", fold, 5, 0), ("tatqa", fold, 5, fold), ("tatqa", fold, 5, fold)]
    # TabFact starts from a pre-training that is there.
    assert calls == [(*call, "float32") for call in (*expected, ("tabfact", None, None, 0))]
    text = (tmp_path / "table3.md").read_text()
    assert "| 20.00 ± 15.81 |" in text and "has not read its test questions" in text
    with pytest.raises(UsageError, match="--scale=overnight starts from pretrained weights: give --bert=minilm"):
        table3.main(words)


@pytest.mark.parametrize("is_real", [False, True])
def test_each_question_of_tatqa_is_tested_in_one_fold_which_its_pretraining_has_not_read(
    is_real, real_data, tmp_path
):
    tatqa = str(real_data("tatqa")) if is_real else ""
    tested: list[str] = []
    for fold in range(5):
        own: dict[str, Any] = {"path": tatqa, "fold": fold, "folds": 5}
        splits = {s: data.load("tatqa", s, tmp_path, **own) for s in ("train", "validation", "test")}
        contexts = [{record["context"] for record in records} for records in splits.values()]
        assert not (contexts[0] & contexts[1] or contexts[0] & contexts[2] or contexts[1] & contexts[2])
        tested += [record["id"] for record in splits["test"]]
        if fold in (0, 3):
            options: dict[str, Any] = {"tatqa": tatqa} if is_real else {"statements": 400}
            read = data.load("table_text", "train", tmp_path, fold=fold, folds=5, **options)
            names = {record["id"].removeprefix("tatqa/") for record in read if record["source"] == "tatqa"}
            assert names >= {record["id"] for record in splits["train"]}
            assert not names & {record["id"] for record in splits["test"]}
    assert len(tested) == len(set(tested)) == (1668 if is_real else 2880)
    for fold, folds in ((5, 5), (0, 1), (1, 0), (-1, 5)):
        for name in ("tatqa", "table_text"):
            with pytest.raises(UsageError, match=f"fold={fold} is none of folds={folds}"):
                data.load(name, "train", tmp_path, fold=fold, folds=folds)
    with pytest.raises(UsageError, match="tables=many has splits with wordings of their own: set folds=0"):
        data.load("tatqa", "train", tmp_path, tables="many", folds=5)
    with pytest.raises(UsageError, match="folds=5 are TAT-QA's"):
        data.load("table_text", "train", tmp_path, text=str(tmp_path), folds=5)


def test_scores_of_a_line_of_predictions_are_the_metrics(out):
    folder = experiment.workdir(table3.make_cell(OPTIONS, "baseline", "tatqa"), 0, out)
    rows = [json.loads(line) for line in (folder / "predictions" / "tatqa.jsonl").open()]
    right = [row | {"prediction": {**row["reference"]}} for row in rows]
    expected = numjax.load(folder).system.task.score([r["prediction"] for r in right], [r["reference"] for r in rows])
    assert (
        np.mean([table3.score_question(row) for row in right]) == pytest.approx(expected["em"]) and expected["em"] > 0
    )
    assert [table3.score_statement({"prediction": p, "reference": {"label": 1}}) for p in (0, 1)] == [0.0, 1.0]


def test_rows_have_configs_of_their_own(out):
    keys = {
        experiment.make_key(table3.make_cell(OPTIONS, system, task))
        for system in table3.CHOICES
        for task in table3.TASKS
    }
    # At smoke the three sizes are one.
    assert len(keys) == 2 * (len(table3.CHOICES) - 2)
    laptop = SimpleNamespace(**vars(OPTIONS) | {"scale": "laptop"})
    rows = [table3.CHOICES[row] for row in ("luna", "1M", "0.1M")]
    encoders = [table3.make_config(laptop, row, "tatqa", "bert").embeds.numeral for row in rows]
    sizes = [
        compute_encoder_size("char_lstm", encoder.parameters, 128, (encoder.hidden, encoder.layers))
        for encoder in encoders
    ]
    assert sizes == [(128, 1), (32, 3), (16, 1)]
    paper = SimpleNamespace(**vars(OPTIONS) | {"scale": "paper", "bert": "BERT"})
    cells = [table3.make_cell(paper, system, "tatqa") for system in table3.CHOICES]
    assert len({experiment.make_key(cell) for cell in cells}) == len(cells)
    rates = cells[0].config.optim
    assert rates.learning_rate == 1.5e-4 and rates.rates[0][1] * 1.5e-4 == pytest.approx(5e-6)
    assert rates.weight_decay == 0.01 and dict(rates.weight_decays) == {"^(?!backbone/|embeds_token/)": 5e-5}
    assert cells[0].config.init_from == "" and cells[0].start.config.init_from == cells[-1].config.init_from == "BERT"


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_pre_training_and_its_tasks_have_the_same_sizes(scale):
    """A task's encoder and number encoder are as large as those of the pre-training that it starts from."""
    options = SimpleNamespace(**vars(OPTIONS) | {"scale": scale})
    for system in table3.CHOICES:
        for task in table3.TASKS:
            cell = table3.make_cell(options, system, task)
            if cell.start is None:
                continue
            config, start_config = cell.config, cell.start.config
            assert (
                config.backbone == start_config.backbone and config.embeds.numeral == start_config.embeds.numeral
            ), (system, task)


def test_tatqa_starts_from_roberta_and_tabfact_from_bert():
    paper = SimpleNamespace(**vars(OPTIONS) | {"scale": "paper", "bert": "BERT", "roberta": "ROBERTA"})
    for system in table3.CHOICES:
        tatqa_cell, tabfact_cell = (table3.make_cell(paper, system, task) for task in table3.TASKS)
        for cell, source, kind, types, width in (
            (tatqa_cell, "ROBERTA", "gpt2", (1,), 1024),
            (tabfact_cell, "BERT", "wordpiece", (2,), 768),
        ):
            first = cell.start or cell
            assert first.config.init_from == first.config.scheme.vocab.path == source
            assert first.config.scheme.vocab.name == kind
            assert tuple(cell.config.backbone.types) == types and cell.config.backbone.width == width
            assert cell.start is None or cell.start.config.backbone == cell.config.backbone
            assert cell.start is None or cell.config.init_from == "", "the weights come from pre-training"


def test_a_row_starts_from_the_files_of_roberta(tmp_path, monkeypatch, capsys):
    """A row loads RoBERTa's pieces, marks, positions from 2 on and layers, and trains on TAT-QA."""
    monkeypatch.setenv("NUMJAX_CACHE", str(tmp_path / "data"))
    write_roberta(tmp_path / "roberta")
    words = ["--scale=smoke", "--only=tatqa/baseline", "--seeds=1", f"--out={tmp_path}"]
    table3.main([*words, f"--roberta={tmp_path / 'roberta'}"])
    output = capsys.readouterr()
    options = SimpleNamespace(**vars(OPTIONS) | {"roberta": str(tmp_path / "roberta")})
    cell = table3.make_cell(options, "baseline", "tatqa")
    vocab = vocabularies.load(str(experiment.cell_folder(cell, tmp_path) / "vocabulary"))
    assert (vocab.mark("[CLS]"), vocab.mark("[SEP]"), vocab.known) == (0, 2, len(PIECES))
    # Loaded: the stack's four tables and norms, two layers of twelve arrays, the tokens. TagOp's head is in no file.
    assert f"init_from {tmp_path / 'roberta'} (step 0): 29 loaded" in output.err
    assert (
        "TAT-QA from roberta, TabFact from random parameters" in output.out
        and "RoBERTa's shape for TAT-QA" in output.out
    )


def test_pre_training_starts_from_the_files_of_roberta_with_its_teacher(tmp_path):
    """Plugin and number head are new, [NUM] starts at the mean of the token rows, the teacher equals the student."""
    write_roberta(tmp_path / "roberta")
    config = luna.get_config("smoke,distill=on,numbed=dice,shape=roberta")
    with config.unlocked():
        config.task.size = 60
        config.data.update(dir=str(tmp_path / "data"), buckets=1)
        config.scheme.vocab = {"name": "gpt2", "path": str(tmp_path / "roberta")}
    system = assemble(config, tmp_path)
    parse, encode = system.scheme.parse, system.scheme.encode
    row = encode(system.task.example({"id": "x", "text": "12 of 7", "table": ""}, parse).document)
    batch = batches.from_features([row], config.data.digits, system.host_features)
    state = jax.jit(lambda: init_state(system.model, optax.sgd(0.1), batch, 0, teacher=True))()
    mesh = shard.make_mesh(1, devices=jax.devices()[:1])
    sharding = shard.replicated(mesh)
    layout = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), state.params)
    compiled = SimpleNamespace(mesh=mesh, abstract_state=TrainState(None, layout, ()))
    loaded_state = inherit.load_pretrained(system, compiled, state, tmp_path / "roberta")
    roberta = bert.read_params(tmp_path / "roberta", heads=2)
    for name, leaf in roberta["backbone"]["layer_1"].items():
        np.testing.assert_array_equal(loaded_state.params["backbone"]["layer_1"][name], leaf)
    table, roberta_table = loaded_state.params["embeds_token"]["table"], roberta["embeds_token"]["table"]
    np.testing.assert_array_equal(table[: len(PIECES)], roberta_table)
    np.testing.assert_allclose(table[system.scheme.vocab.mark("[NUM]")], roberta_table.mean(axis=0), atol=1e-6)
    for name in ("embeds_numeral", "heads_number"):
        jax.tree.map(np.testing.assert_array_equal, loaded_state.params[name], state.params[name])
    jax.tree.map(np.testing.assert_array_equal, loaded_state.ema, loaded_state.params)


def write_roberta(folder):
    """Writes a random RoBERTa of the smoke scale's sizes, with bytes as pieces, in the form of its own files."""
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps({piece: token for token, piece in enumerate(PIECES)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": 2}))
    rng = np.random.default_rng(0)
    shapes = {"out_kernel": (32, 32), "up_kernel": (32, 128), "up_bias": (128,), "down_kernel": (128, 32)}
    shapes |= {"qkv_kernel": (32, 3, 2, 16), "qkv_bias": (3, 2, 16)}

    def draw(*shape):
        return rng.normal(0, 0.1, shape).astype(np.float32)

    layer = ("qkv_kernel", "qkv_bias", *bert.LAYER)
    backbone = {f"layer_{i}": {name: draw(*shapes.get(name, (32,))) for name in layer} for i in range(2)}
    backbone |= {
        "order_sequence": {"places": draw(98, 32)},
        "types_0": draw(1, 32),
        "ln_0_scale": draw(32),
        "ln_0_bias": draw(32),
    }
    params = {"backbone": backbone, "embeds_token": {"table": draw(len(PIECES), 32)}}
    bert.write_params(folder / "model.safetensors", params, len(PIECES), "roberta")


def test_attention_on_a_question_and_its_table(out):
    """Fig. 3's case: input and attention of TagOp's encoder. The question has type 0, its table type 1."""
    cell = table3.make_cell(OPTIONS, "baseline", "tatqa")
    folder = experiment.workdir(cell, 0, out)
    model = numjax.load(folder)
    table = json.dumps([["", "2019"], ["Sales", "300"]])
    record = {"id": "own", "question": "What were Sales?", "table": table, "paragraphs": "[]"}
    acts = inspect.read_activations(model, record)
    size = len(acts.tokens)
    separator = acts.tokens.index("[SEP]")
    assert acts.types.tolist() == [0] * (separator + 1) + [1] * (size - separator - 1) and 4 < separator < size - 4
    weights = inspect.attention_weights(model, acts)
    assert weights.shape == (2, size, size)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    np.testing.assert_array_equal(inspect.attention_weights(model, record), weights)


def test_pre_training_needs_both_folders(tmp_path, capsys):
    with pytest.raises(UsageError, match=r"give --tatqa=FOLDER too, or neither"):
        table3.main(["--scale=smoke", "--only=tabfact/luna", f"--tabfact={tmp_path}", f"--out={tmp_path}"])


def test_questions_of_a_user_are_answered(out, tmp_path, capsys):
    cell = table3.make_cell(OPTIONS, "baseline", "tatqa")
    folder = experiment.workdir(cell, 0, out)
    # With these two, a seed's folder is a workdir.
    shutil.copytree(experiment.cell_folder(cell, out) / "vocabulary", folder / "vocabulary")
    shutil.copy(experiment.cell_folder(cell, out) / "config.json", folder)
    config = numjax.load(folder).system.config
    (tmp_path / "report.csv").write_text("(in millions),2019,2018\nSales,300,200\nCosts,(111),(74)\n")
    (tmp_path / "report.txt").write_text("Sales grew due to new stores.\n\nQ: What was the change in Sales?\n")
    output = modes.run(config, str(folder), "predict", input=str(tmp_path / "report.csv"))
    (row,) = output["predictions"]
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == row
    assert json.loads((folder / "predictions" / "input.jsonl").read_text()) == row
    assert row["id"] == "report-0" and row["prediction"]["operator"] in OPERATORS
    assert row["prediction"]["scale"] in SCALES and 0 < row["confidence"] <= 1
    for text in ("Sales,300,200\nCosts,111,74\n", ",,\nSales,300,200\n", "300,200\n111,74\n", "300\n"):
        (tmp_path / "report.csv").write_text(text)
        (row,) = modes.run(config, str(folder), "predict", input=str(tmp_path / "report.csv"))["predictions"]
        assert row["prediction"]["operator"] in OPERATORS, text
    (tmp_path / "report.csv").write_text("\n\n")
    capsys.readouterr()
    assert modes.run(config, str(folder), "predict", input=str(tmp_path / "report.csv"))["predictions"] == []
    assert capsys.readouterr().err == "left out report-0: its table is empty\n"
    contexts = [{"table": {"uid": "b", "table": []}, "questions": []}]
    (tmp_path / "asked.json").write_text(json.dumps(contexts))
    with pytest.raises(DataError, match="b: its table is empty"):
        modes.run(config, str(folder), "predict", input=str(tmp_path / "asked.json"), strict=True)
    capsys.readouterr()
    output = modes.run(config, str(folder), "predict", input=str(tmp_path / "asked.json"))
    assert output["predictions"] == [] and [row["id"] for row in output["skipped"]] == ["b"]
    assert capsys.readouterr().err == "left out b: its table is empty\n"
    table = [["", "2019"], *([f"Item {i}", str(i)] for i in range(200))]
    contexts = [
        {"table": {"uid": "long", "table": table}, "questions": [{"uid": "q", "question": "What is Item 199?"}]}
    ]
    (tmp_path / "asked.json").write_text(json.dumps(contexts))
    (row,) = modes.run(config, str(folder), "predict", input=str(tmp_path / "asked.json"))["predictions"]
    assert row["shortened"].startswith("positions not read: ")
    assert capsys.readouterr().err == f"not read whole q: {row['shortened']}\n"
    model = numjax.load(folder)
    assert model.predict([]) == [] and model.score([]).shape == (0,)
