"""Word problems as people type them, in `generate` and `predict`: one number as the answer, or one clear line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from decimal import Decimal

import pytest

import numjax
from numjax import modes
from numjax.errors import DataError, UsageError
from numjax.evals import uncertainty
from numjax.numeral import default
from numjax.tasks import generation
from numjax.text import document as documents
from numjax.types import Mark
from tests.runs_test import ROOT, cache, tiny  # noqa: F401  (the fixture builds datasets once)

SHIP = "A ship holds 6518 tons of coal. It takes on 3542 tons. How many tons does it hold now?"
QUESTIONS = {
    "as trained": f"Q: {SHIP} A:",
    "bare": SHIP,
    "with a blank behind": f"Q: {SHIP} A: ",
    "no number": "How many tons does the ship hold now?",
    "capitals": SHIP.upper(),
    "no question mark": SHIP.removesuffix("?"),
    "another language": "Ein Schiff hält 6518 Tonnen und nimmt 3542 auf. Wie viele? 船有多少吨?",
    "a number alone": "12",
    "huge numbers": "How many are 1e400 and -1e-400 and 99999999999999999999999999?",
    "marks": "What is [NUM] and [EOS] and [F]5[/F]?",
    "begins and ends in digits": "7 eggs and 8",
    "half answered": f"Q: {SHIP} A: 10",
    "nulls": "7 \0 and \ud800 8?",
}
TOO_LONG = {"many numbers": " and ".join(map(str, range(200, 240))) * 4, "ten thousand words": "word " * 10_000}
EMPTY = {"empty": "", "blank": " \t", "nothing asked": "Q: A:", "nothing asked twice": "Q:   A:  "}
SYSTEMS = ("numgpt", "digits", *(pytest.param(name, marks=pytest.mark.whole) for name in ("gpt", "dice")))


@pytest.fixture(scope="module", params=SYSTEMS)
def small_run(request, tmp_path_factory):
    """(system, its config, the workdir of a run of two steps)."""
    folder = tmp_path_factory.mktemp(request.param)
    changes = {
        "optim.steps": 2,
        "eval.every": 2,
        "data.length": 232,
        "backbone.max_length": 256,
        "backbone.layers": 1,
    }
    config = tiny(f"smoke,task=generation,system={request.param}", **changes)
    results = modes.run(config, str(folder), "train")
    assert results["validation"]["NGR"] == 1.0
    return request.param, config, folder


def is_one_number(text: str) -> bool:
    (span,) = default.find(text)
    return text == f" {span.text}"


def test_every_question_is_answered_by_one_number(small_run, capsys):
    system, config, folder = small_run
    capsys.readouterr()
    modes.run(config, str(folder), "generate", prompts=list(QUESTIONS.values()))
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == len(QUESTIONS)
    for name, row in zip(QUESTIONS, rows, strict=True):
        assert is_one_number(row["text"]) and row["ended"] and len(row["numbers"]) == 1, name
        (number,) = row["numbers"]
        assert ("approximate" in number) == ("intervals" in number) == (system in ("numgpt", "dice")), name
    as_trained, bare, blank = rows[:3]
    assert as_trained["text"] == bare["text"] == blank["text"], "each gets the same layout"


def test_every_answer_says_how_sure_it_is_if_asked(small_run, capsys):
    system, config, folder = small_run
    capsys.readouterr()
    modes.run(config, str(folder), "generate", prompts=[SHIP], intervals=(0.5, 0.9))
    (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (number,) = row["numbers"]
    assert 0 < number["probability"] <= 1
    note = number.get("note", "")
    assert not note or note.startswith(uncertainty.WITH_NEXT) or "samples have no number here" in note
    assert number["method"] == ("density" if system in ("numgpt", "dice") else "samples")
    narrow, wide = ((Decimal(i["low"]), Decimal(i["high"])) for i in number["intervals"])
    assert wide[0] <= narrow[0] <= narrow[1] <= wide[1]


def test_sampling_and_beams_also_write_one_number(small_run):
    model = numjax.load(small_run[2])
    for options in (dict(temperature=1.0, seed=3), dict(temperature=8.0), dict(beams=4), dict(max_tokens=3)):
        for name, result in zip(QUESTIONS, model.generate(list(QUESTIONS.values()), **options), strict=True):
            assert is_one_number(result.text) and result.ended and len(result.numbers) == 1, (name, options)


def test_a_length_penalty_makes_answers_longer_where_they_have_a_length(small_run):
    model = numjax.load(small_run[2])
    short, long = (model.generate([SHIP], beams=4, length_penalty=penalty)[0].text for penalty in (0.0, 5.0))
    assert len(long) > len(short) if small_run[0] in ("gpt", "digits") else long == short


def test_records_are_predicted_or_skipped_with_a_reason(small_run, tmp_path, capfd):
    system, config, folder = small_run
    questions = QUESTIONS | TOO_LONG | EMPTY
    malformed = {"no question": {"id": "no question"}, "no text": {"id": "no text", "question": 5}}
    records = [{"id": name, "question": text} for name, text in questions.items()]
    (tmp_path / "problems.jsonl").write_text("".join(json.dumps(r) + "\n" for r in [*records, *malformed.values()]))
    capfd.readouterr()
    results = modes.run(config, str(folder), "predict", input=str(tmp_path / "problems.jsonl"))
    stdout, stderr = capfd.readouterr()
    rows = {row["id"]: row for row in map(json.loads, stdout.splitlines())}
    assert rows.keys() == QUESTIONS.keys() and results["predictions"] == list(rows.values())
    for name, row in rows.items():
        assert is_one_number(row["text"]), name
        assert ("approximate" in row) == ("intervals" in row) == (system in ("numgpt", "dice"))
        assert float(row["prediction"]) == pytest.approx(float(row["text"]), rel=1e-4)
    reasons = {row["id"]: row["reason"] for row in results["skipped"]}
    assert reasons.keys() == {*TOO_LONG, *EMPTY, *malformed}
    for name, reason in reasons.items():
        pattern = "more than data.length=232" if name in TOO_LONG else "question|there is no problem"
        assert re.search(pattern, reason) and "\n" not in reason and f"left out {name}: {reason}" in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize(("name", "text"), [*TOO_LONG.items(), *EMPTY.items()])
def test_a_prompt_that_cannot_be_answered_is_named_in_one_line(small_run, name, text):
    message = "do not fit the context of 256: shorten it" if name in TOO_LONG else "there is no problem in it"
    with pytest.raises(UsageError, match=f"^the prompt {re.escape(repr(text[:40]))}.*{message}") as caught:
        numjax.load(small_run[2]).generate([SHIP, text])
    assert "\n" not in str(caught.value)


def test_the_command_line_refuses_an_empty_prompt_in_one_line_and_exits_2(small_run, tmp_path):
    system, _, folder = small_run
    if system != "numgpt":
        pytest.skip("the way there is the same")
    config_file = tmp_path / "own.py"
    config_file.write_text(
        "import pathlib\nfrom ml_collections import ConfigDict\nfrom numjax.config.origin import load_config\n"
        f"def get_config(argument=None):\n    return ConfigDict(load_config(pathlib.Path({str(folder)!r})))\n"
    )
    words = [sys.executable, "-m", "numjax.main", f"--config={config_file}", f"--workdir={folder}"]
    process = subprocess.run(
        [*words, "--mode=generate", "--prompt="], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert process.returncode == 2 and process.stdout == ""
    lines = [line for line in process.stderr.splitlines() if not line.endswith(" so far")]  # a slow machine's waits
    assert re.fullmatch(r"numjax: the prompt '' cannot be read: there is no problem in it: .*", "\n".join(lines))


def test_a_run_trained_on_free_answers_can_generate_one_number(small_run, capsys):
    """A workdir without the option `answer` still loads, and any workdir can generate text or a number."""
    system, config, folder = small_run
    for form, numbers in (("text", None), ("number", 1)):
        with config.unlocked():
            config.task.answer = form
        capsys.readouterr()
        modes.run(config, str(folder), "generate", prompts=[SHIP])
        (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert numbers is None or len(row["numbers"]) == numbers, system


def test_a_problem_gets_the_layout_of_training_exactly_once():
    task, free_task = generation.Task(answer="number"), generation.Task()
    for text in ("7 and 8?", " 7 and 8?\n", "Q: 7 and 8?", "Q:7 and 8? A:", "7 and 8? A: ", "Q: 7 and 8? A:"):
        document = task.prompt_from_text(text, documents.parse)
        assert document is not None and document[0] == Mark("[CLS]")
        assert documents.surface(document[1:]) == "Q: 7 and 8? A:"
        for record in ({"question": text}, {"prompt": text}):
            assert task.prompt(record, documents.parse) == document
    assert free_task.prompt_from_text("7 and 8?", documents.parse) is None
    assert documents.surface(free_task.prompt({"prompt": "7 and"}, documents.parse)) == "[CLS]7 and"
    for text in EMPTY.values():
        with pytest.raises(DataError, match="there is no problem in it"):
            task.prompt_from_text(text, documents.parse)
