"""The documentation's examples: their commands, their form at smoke scale, and how answers are judged."""

from __future__ import annotations

import json
import pathlib
import re

import pytest

from numjax.bundled.experiments.examples import __main__ as examples
from numjax.bundled.experiments.examples import commands
from numjax.errors import UsageError

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = examples.read_pages()


def test_every_question_of_the_pages_has_an_answer_and_training_commands():
    questions = examples.load_questions(PAGES)
    question_commands = [
        entry
        for entry in commands.find_commands(PAGES)
        if entry.mode in ("generate", "predict") and entry.workdir not in ("runs/fraud",)
    ]
    assert len(question_commands) > 5
    for entry in question_commands:
        text = "\n".join((*entry.setup, entry.text))
        assert any(question.workdir == entry.workdir and question.prompt in text for question in questions), text
    assert all(entry.train_commands and entry.train_commands[-1].workdir == entry.workdir for entry in questions)
    with pytest.raises(UsageError, match="no page asks"):
        examples.load_questions("nothing")


def test_typed_problems_of_the_pages_are_in_the_typed_list():
    """As `data/problems/README.md` says; those of estimates and of measures have lists of their own."""
    rows = [json.loads(line) for line in (ROOT / "data/problems/typed.jsonl").read_text("utf-8").splitlines()]
    answers = {row["problem"]: row["answer"] for row in rows}
    for question in examples.load_questions(PAGES):
        if "number" in question.answer:
            assert answers[question.prompt] == question.answer["number"], question.prompt
    measures = [json.loads(line) for line in (ROOT / "data/mme/typed.jsonl").read_text("utf-8").splitlines()]
    assert any(row["question"] in question.prompt for question in examples.load_questions(PAGES) for row in measures)


def test_commands_are_parsed_whole():
    text = """
```bash
numjax train --config=x --workdir=runs/one

printf 'b' > b.txt
numjax generate --workdir=runs/one \\
  --prompt="two words"
echo '{}' |
  numjax predict --workdir=runs/one --input=-
numjax train --config=y --config.init_from=runs/one --workdir=runs/two
numjax predict --workdir=runs/two --input=- <<'END'
{"x": 1}
END
```

```text
numjax train --workdir=runs/none
```

```python
no = "command"
```
"""
    parsed = commands.find_commands(text)
    assert [(command.workdir, command.mode) for command in parsed] == [
        ("runs/one", "train"),
        ("", ""),
        ("runs/one", "generate"),
        ("runs/one", "predict"),
        ("runs/two", "train"),
        ("runs/two", "predict"),
    ]
    assert parsed[2].text.endswith('--prompt="two words"') and parsed[2].setup == ("printf 'b' > b.txt",)
    assert parsed[5].text.endswith('{"x": 1}\nEND\n')
    assert [command.workdir for command in commands.find_training_commands(parsed, "runs/two")] == [
        "runs/one",
        "runs/two",
    ]
    with pytest.raises(LookupError):
        commands.find_training_commands(parsed, "runs/three")
    assert examples.shrink_sizes("a --config=x --workdir=w") == "a --config=x:smoke --workdir=w"
    assert examples.shrink_sizes("a --config=x:task=y") == "a --config=x:smoke,task=y"


@pytest.mark.parametrize(
    ("right", "answer", "is_right"),
    [
        ({"number": "84"}, {"numbers": [{"value": "84.0"}]}, True),
        ({"number": "84"}, {"numbers": [{"value": "6"}]}, False),
        ({"number": "84"}, {"numbers": [{"value": "84"}, {"value": "84"}], "text": "84 84"}, False),
        ({"estimate": "80"}, {"numbers": [{"value": "70", "intervals": [{"low": "60", "high": "90"}]}]}, True),
        ({"estimate": "91"}, {"numbers": [{"value": "70", "intervals": [{"low": "60", "high": "90"}]}]}, False),
        ({"label": 1}, {"prediction": 1}, True),
        ({"label": 1}, {"prediction": 0}, False),
        ({"answer": "200", "scale": "thousand"}, {"prediction": {"answer": ["200"], "scale": "thousand"}}, True),
        ({"answer": "200", "scale": "thousand"}, {"prediction": {"answer": "200", "scale": ""}}, False),
        ({"answer": "200"}, {"prediction": {"answer": ["200", "1"], "scale": ""}}, False),
    ],
)
def test_answers_are_judged_against_the_right_ones(right, answer, is_right):
    assert examples.judge(right, f"a line\n{json.dumps(answer)}\n")[1] == is_right
    assert examples.judge(right, "no answer\n") == ("nothing", False)


@pytest.mark.whole
def test_a_run_at_smoke_scale_writes_the_table(tmp_path, capsys):
    code = examples.main(["--scale=smoke", f"--out={tmp_path}", "--only=runs/sums"])
    lines = (tmp_path / "examples.md").read_text().splitlines()
    assert len(lines) == 4 and lines[0].startswith("| prompt | wanted | got | right |")
    wanted = [re.split(r" \| ", line)[1] for line in lines[2:]]
    assert wanted == ["10060", "35"] and "of 2 answered right" in capsys.readouterr().out
    assert code == 0  # each prompt has an answer, right or wrong
    with pytest.raises(UsageError, match="no question uses runs/other"):
        examples.main(["--only=runs/other", f"--out={tmp_path}"])
