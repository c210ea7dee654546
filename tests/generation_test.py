"""Word problems as people type them, in `generate` and `predict`: an answer or one clear line, never two numbers."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

import numjax
from numjax.errors import DataError, UsageError
from numjax.numeral import default
from numjax.tasks import generation
from numjax.text import document as documents
from numjax.train import runs
from numjax.types import Mark
from tests.runs_test import ROOT, cache, tiny  # noqa: F401  (the fixture builds datasets once)

SHIP = "A ship holds 6518 tons of coal. It takes on 3542 tons. How many tons does it hold now?"
ANSWERED = {
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
SYSTEMS = ("numgpt", "gpt", "digits", "dice")


@pytest.fixture(scope="module", params=SYSTEMS)
def trained(request, tmp_path_factory):
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
    results = runs.run(config, str(folder), "train")
    assert results["validation"]["NGR"] == 1.0
    return request.param, config, folder


def one_number(text: str) -> bool:
    (span,) = default.find(text)
    return text == f" {span.text}"


def test_whatever_is_asked_is_answered_by_one_number(trained, capsys):
    system, config, folder = trained
    capsys.readouterr()
    runs.run(config, str(folder), "generate", prompts=list(ANSWERED.values()))
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == len(ANSWERED)
    for what, row in zip(ANSWERED, rows, strict=True):
        assert one_number(row["text"]) and row["ended"] and len(row["numbers"]) == 1, what
        (number,) = row["numbers"]
        assert ("approximate" in number) == ("interval" in number) == (system in ("numgpt", "dice")), what
    as_trained, bare, blank = rows[:3]
    assert as_trained["text"] == bare["text"] == blank["text"], "it is laid out the same"


def test_sampling_and_beams_write_one_number_too(trained):
    model = numjax.load(trained[2])
    for how in (dict(temperature=1.0, seed=3), dict(temperature=8.0), dict(beams=4), dict(max_tokens=3)):
        for what, result in zip(ANSWERED, model.generate(list(ANSWERED.values()), **how), strict=True):
            assert one_number(result.text) and result.ended and len(result.numbers) == 1, (what, how)


def test_records_are_predicted_or_left_out_with_the_reason(trained, tmp_path, capfd):
    system, config, folder = trained
    asked = ANSWERED | TOO_LONG | EMPTY
    more = {"no question": {"id": "no question"}, "no text": {"id": "no text", "question": 5}}
    records = [{"id": what, "question": text} for what, text in asked.items()]
    (tmp_path / "problems.jsonl").write_text("".join(json.dumps(r) + "\n" for r in [*records, *more.values()]))
    capfd.readouterr()
    found = runs.run(config, str(folder), "predict", input=str(tmp_path / "problems.jsonl"))
    out, told = capfd.readouterr()
    rows = {row["id"]: row for row in map(json.loads, out.splitlines())}
    assert rows.keys() == ANSWERED.keys() and found["predictions"] == list(rows.values())
    for what, row in rows.items():
        assert one_number(row["text"]), what
        assert ("approximate" in row) == ("interval" in row) == (system in ("numgpt", "dice"))
        assert float(row["prediction"]) == pytest.approx(float(row["text"]), rel=1e-4)
    reasons = {row["id"]: row["reason"] for row in found["skipped"]}
    assert reasons.keys() == {*TOO_LONG, *EMPTY, *more}
    for what, reason in reasons.items():
        says = "more than data.length=232" if what in TOO_LONG else "question|there is no problem"
        assert re.search(says, reason) and "\n" not in reason and f"left out {what}: {reason}" in told
    assert "Traceback" not in told


@pytest.mark.parametrize(("what", "text"), [*TOO_LONG.items(), *EMPTY.items()])
def test_a_prompt_that_cannot_be_answered_is_named_in_one_line(trained, what, text):
    says = "do not fit the context of 256: shorten it" if what in TOO_LONG else "there is no problem in it"
    with pytest.raises(UsageError, match=f"^the prompt {re.escape(repr(text[:40]))}.*{says}") as caught:
        numjax.load(trained[2]).generate([SHIP, text])
    assert "\n" not in str(caught.value)


def test_the_command_line_says_it_in_one_line_and_exits_2(trained, tmp_path):
    system, _, folder = trained
    if system != "numgpt":
        pytest.skip("the way there is the same")
    own = tmp_path / "own.py"
    own.write_text(
        "import pathlib\nfrom ml_collections import ConfigDict\nfrom numjax.config.origin import load_config\n"
        f"def get_config(argument=None):\n    return ConfigDict(load_config(pathlib.Path({str(folder)!r})))\n"
    )
    words = [sys.executable, "-m", "numjax.main", f"--config={own}", f"--workdir={folder}"]
    done = subprocess.run(
        [*words, "--mode=generate", "--prompt="], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and done.stdout == ""
    assert re.fullmatch(r"numjax: the prompt '' cannot be read: there is no problem in it: .*\n", done.stderr)


def test_answers_that_were_free_when_a_run_was_trained_may_be_held_to_one_number_later(trained, capsys):
    """A workdir from before answers had a form goes on, and one may be read either way."""
    system, config, folder = trained
    for form, numbers in (("text", None), ("number", 1)):
        with config.unlocked():
            config.task.answer = form
        capsys.readouterr()
        runs.run(config, str(folder), "generate", prompts=[SHIP])
        (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert numbers is None or len(row["numbers"]) == numbers, system


def test_a_problem_is_laid_out_as_in_training_and_only_once():
    task, free = generation.Task(answer="number"), generation.Task()
    for text in ("7 and 8?", " 7 and 8?\n", "Q: 7 and 8?", "Q:7 and 8? A:", "7 and 8? A: ", "Q: 7 and 8? A:"):
        document = task.prompt_from_text(text, documents.parse)
        assert document is not None and document[0] == Mark("[CLS]")
        assert documents.surface(document[1:]) == "Q: 7 and 8? A:"
        for record in ({"question": text}, {"prompt": text}):
            assert task.prompt(record, documents.parse) == document
    assert free.prompt_from_text("7 and 8?", documents.parse) is None
    assert documents.surface(free.prompt({"prompt": "7 and"}, documents.parse)) == "[CLS]7 and"
    for text in EMPTY.values():
        with pytest.raises(DataError, match="there is no problem in it"):
            task.prompt_from_text(text, documents.parse)
