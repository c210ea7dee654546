"""Runs the documentation's training commands and questions, and compares the answers with the right ones.

    make examples                                         # resumes if it was stopped
    python -m experiments.examples --only=runs/equations  # one workdir
    python -m experiments.examples --scale=smoke          # tests only that it runs: small models answer nothing

Commands are read from the README and docs/guides, and run in --out as they are printed. `answers.toml` has the right
answers. Writes examples.md there: prompt, wanted, got. The exit code is 1 if an answer is wrong (at smoke: if one is
missing).
"""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import subprocess
import sys
import time
import tomllib
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from numjax import bundled
from numjax.bundled.experiments import command, tables
from numjax.bundled.experiments.examples.commands import Command, find_commands, find_training_commands
from numjax.errors import UsageError
from numjax.tools.command import Parser

ANSWERS = pathlib.Path(__file__).with_name("answers.toml")


class Question(NamedTuple):
    """A question of the documentation: its training commands, the command that asks it, and the right answer."""

    prompt: str
    workdir: str
    train_commands: list[Command]
    ask_command: Command
    answer: dict[str, Any]


def main(words: list[str] | None = None) -> int:
    """Prints one line per answer; returns the exit code."""
    parser = Parser(description=__doc__)
    parser.add_argument("--scale", choices=("smoke", "laptop"), default="laptop", help="as the pages train, or small")
    parser.add_argument("--out", default="runs/examples", help="folder of the runs and of examples.md")
    parser.add_argument("--only", default="", help="workdirs, separated by commas")
    options = parser.parse_args(words)
    questions = load_questions(read_pages())
    workdirs = list(filter(None, options.only.split(",")))
    if unknown_workdirs := set(workdirs) - {question.workdir for question in questions}:
        raise UsageError(f"--only: no question uses {', '.join(sorted(unknown_workdirs))}")
    out = pathlib.Path(options.out).expanduser().absolute()
    out.mkdir(parents=True, exist_ok=True)
    rows, trained_workdirs = [], set()
    for question in questions:
        if workdirs and question.workdir not in workdirs:
            continue
        seconds = 0.0
        for train_command in question.train_commands:
            if train_command.workdir not in trained_workdirs:
                trained_workdirs.add(train_command.workdir)
                seconds += run_command(train_command, out, options.scale)[1]
        output = run_command(question.ask_command, out, options.scale)[0]
        answer, is_right = judge(question.answer, output)
        rows.append(
            [
                question.prompt,
                format_answer(question.answer),
                answer,
                "yes" if is_right else "no",
                f"{seconds / 60:.1f}" if seconds else "",
            ]
        )
        print(f"{question.workdir}: wanted {rows[-1][1]}, got {answer}", flush=True)
        tables.write_text(out / "examples.md", format_table(rows))
    successes = [row[2] != "nothing" if options.scale == "smoke" else row[3] == "yes" for row in rows]
    print(f"{sum(row[3] == 'yes' for row in rows)} of {len(rows)} answered right: {out / 'examples.md'}")
    return 0 if all(successes) else 1


def read_pages() -> str:
    """The text of the README and of the guides, which ask the questions."""
    pages = [bundled.HOME / "README.md", *sorted((bundled.HOME / "docs" / "guides").glob("*.md"))]
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)


def load_questions(text: str) -> list[Question]:
    """The questions of `answers.toml`, with their commands from the text of the pages.

    Raises:
      UsageError: the text does not contain a prompt.
    """
    commands = find_commands(text)
    questions = []
    for entry in tomllib.loads(ANSWERS.read_text(encoding="utf-8"))["asked"]:
        prompt, workdir = entry.pop("prompt"), entry.pop("workdir")
        if prompt not in text:
            raise UsageError(f"{ANSWERS.name}: no page asks {prompt!r}")
        asking_commands = [
            candidate
            for candidate in commands
            if candidate.mode in ("generate", "predict") and candidate.workdir == workdir
        ]
        matching_commands = [
            candidate for candidate in asking_commands if prompt in "\n".join((*candidate.setup, candidate.text))
        ]
        # Questions that a page asks in Python are asked on the command line.
        line = f"numjax generate --workdir={workdir} --prompt={shlex.quote(prompt)}"
        ask_command = matching_commands[0] if matching_commands else Command(line, ())
        questions.append(Question(prompt, workdir, find_training_commands(commands, workdir), ask_command, entry))
    return questions


def run_command(printed_command: Command, folder: pathlib.Path, scale: str) -> tuple[str, float]:
    """Runs a command in a folder, after the commands before it in its block: (its output, seconds).

    Raises:
      UsageError: the command fails.
    """
    text = "\n".join(
        (*(line for line in printed_command.setup if not line.startswith("make ")), printed_command.text)
    )
    if scale == "smoke":
        text = shrink_sizes(text)
    start = time.perf_counter()
    paths = os.pathsep.join(filter(None, (str(bundled.HOME), os.environ.get("PYTHONPATH"))))
    programs = os.pathsep.join((str(pathlib.Path(sys.executable).parent), os.environ["PATH"]))
    environment = os.environ | {"PYTHONPATH": paths, "PATH": programs}
    process = subprocess.run(["bash", "-euc", text], cwd=folder, env=environment, capture_output=True, text=True)
    if process.returncode:
        raise UsageError(
            f"{printed_command.text}: "
            f"{process.stderr.strip().splitlines()[-1] if process.stderr.strip() else 'it failed'}"
        )
    return process.stdout, time.perf_counter() - start


def shrink_sizes(text: str) -> str:
    """The same command with the smallest sizes."""
    words = []
    for word in text.split(" "):
        if word.startswith("--config="):
            name, colon, argument = word.partition(":")
            word = f"{name}:smoke{',' if colon else ''}{argument}"
        words.append(word)
    return " ".join(words)


def judge(expected: dict[str, Any], output: str) -> tuple[str, bool]:
    """(the answer, whether it is right), from the JSON lines that a command printed."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if not lines:
        return "nothing", False
    record = lines[-1]
    if "label" in expected:
        return str(record["prediction"]), record["prediction"] == expected["label"]
    if "answer" in expected:
        answer = record["prediction"]
        parts = answer["answer"] if isinstance(answer["answer"], list) else [answer["answer"]]
        text = f"{', '.join(map(str, parts))} {answer['scale']}".strip()
        is_same = (
            len(parts) == 1
            and is_same_number(str(parts[0]), expected["answer"])
            and answer["scale"] == expected.get("scale", "")
        )
        return text, is_same
    numbers = record.get("numbers", [])
    if len(numbers) != 1:
        return f"{len(numbers)} numbers: {record['text'].strip()}", False
    number = numbers[0]
    if "estimate" in expected:
        low, high = (Decimal(str(number["intervals"][0][end])) for end in ("low", "high"))
        return f"{number['value']} ({low} to {high})", low <= Decimal(expected["estimate"]) <= high
    return str(number["value"]), is_same_number(str(number["value"]), expected["number"])


def format_answer(expected: dict[str, Any]) -> str:
    """The right answer as text for the table."""
    if "estimate" in expected:
        return f"about {expected['estimate']}"
    return " ".join(str(expected[name]) for name in ("label", "number", "answer", "scale") if name in expected)


def format_table(rows: list[list[str]]) -> str:
    """The rows as a Markdown table."""
    lines = [["prompt", "wanted", "got", "right", "minutes of training"], ["---"] * 5, *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def is_same_number(text: str, expected: str) -> bool:
    """Whether two texts are the same number."""
    try:
        return Decimal(text.replace(",", "")) == Decimal(expected)
    except InvalidOperation:
        return False


if __name__ == "__main__":
    command.entry(lambda: sys.exit(main()), starts_programs=True)
