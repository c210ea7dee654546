"""Trains what the README trains, asks what it asks, and compares the answers with the right ones.

    make examples                                         # goes on where it was stopped
    python -m experiments.examples --only=runs/equations  # one workdir
    python -m experiments.examples --scale=smoke          # form alone: small models answer nothing

Commands are read from the README and run as they are printed, in --out. The right answers are in `answers.toml`.
Writes examples.md there: prompt, wanted, got. The exit code is 1 where an answer is wrong (at smoke: where there is
none).
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
from numjax.bundled.experiments.examples import readme
from numjax.bundled.experiments.examples.readme import Command
from numjax.errors import UsageError
from numjax.tools.command import Parser

ANSWERS = pathlib.Path(__file__).with_name("answers.toml")


class Asked(NamedTuple):
    """A question of the README: the commands that train what answers it, the one that asks, and what is right."""

    prompt: str
    workdir: str
    train: list[Command]
    ask: Command
    wanted: dict[str, Any]


def main(words: list[str] | None = None) -> int:
    """Prints a line an answer; returns the exit code."""
    made = Parser(description=__doc__)
    made.add_argument("--scale", choices=("smoke", "laptop"), default="laptop", help="as the README trains, or small")
    made.add_argument("--out", default="runs/examples", help="folder of the runs and of examples.md")
    made.add_argument("--only", default="", help="workdirs, separated by commas")
    given = made.parse_args(words)
    asked = questions((bundled.HOME / "README.md").read_text(encoding="utf-8"))
    chosen = list(filter(None, given.only.split(",")))
    if unknown := set(chosen) - {one.workdir for one in asked}:
        raise UsageError(f"--only: nothing asks {', '.join(sorted(unknown))}")
    out = pathlib.Path(given.out).expanduser().absolute()
    out.mkdir(parents=True, exist_ok=True)
    rows, trained = [], set()
    for one in asked:
        if chosen and one.workdir not in chosen:
            continue
        took = 0.0
        for train in one.train:
            if train.workdir not in trained:
                trained.add(train.workdir)
                took += run(train, out, given.scale)[1]
        said = run(one.ask, out, given.scale)[0]
        got, right = judged(one.wanted, said)
        rows.append(
            [one.prompt, wanted(one.wanted), got, "yes" if right else "no", f"{took / 60:.1f}" if took else ""]
        )
        print(f"{one.workdir}: wanted {rows[-1][1]}, got {got}", flush=True)
        tables.write(out / "examples.md", table(rows))
    good = [row[2] != "nothing" if given.scale == "smoke" else row[3] == "yes" for row in rows]
    print(f"{sum(row[3] == 'yes' for row in rows)} of {len(rows)} answered right: {out / 'examples.md'}")
    return 0 if all(good) else 1


def questions(text: str) -> list[Asked]:
    """What a README asks, by `answers.toml`.

    Raises:
      UsageError: a prompt does not stand there, or a command that asks has no right answer.
    """
    found = readme.commands(text)
    out = []
    for entry in tomllib.loads(ANSWERS.read_text(encoding="utf-8"))["asked"]:
        prompt, workdir = entry.pop("prompt"), entry.pop("workdir")
        if prompt not in text:
            raise UsageError(f"{ANSWERS.name}: the README does not ask {prompt!r}")
        asks = [one for one in found if one.mode in ("generate", "predict") and one.workdir == workdir]
        holds = [one for one in asks if prompt in "\n".join((*one.before, one.text))]
        # What the README asks in Python is asked on the command line.
        line = f"{readme.PYTHON} -m numjax.main --workdir={workdir} --mode=generate --prompt={shlex.quote(prompt)}"
        ask = holds[0] if holds else Command(line, ())
        out.append(Asked(prompt, workdir, readme.training(found, workdir), ask, entry))
    return out


def run(one: Command, folder: pathlib.Path, scale: str) -> tuple[str, float]:
    """(what it prints, seconds) of a command, run in a folder behind what goes before it in its block.

    Raises:
      UsageError: it fails.
    """
    text = "\n".join((*(line for line in one.before if not line.startswith("make ")), one.text))
    text = text.replace(readme.PYTHON, shlex.quote(sys.executable))
    if scale == "smoke":
        text = at_smoke(text)
    began = time.perf_counter()
    paths = os.pathsep.join(filter(None, (str(bundled.HOME), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(["bash", "-euc", text], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise UsageError(
            f"{one.text}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'it failed'}"
        )
    return done.stdout, time.perf_counter() - began


def at_smoke(text: str) -> str:
    """The same command with the smallest sizes."""
    words = []
    for word in text.split(" "):
        if word.startswith("--config="):
            name, colon, argument = word.partition(":")
            word = f"{name}:smoke{',' if colon else ''}{argument}"
        words.append(word)
    return " ".join(words)


def judged(right: dict[str, Any], said: str) -> tuple[str, bool]:
    """(what was said, whether it is right) of the JSON lines that a command printed."""
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    if not lines:
        return "nothing", False
    found = lines[-1]
    if "label" in right:
        return str(found["prediction"]), found["prediction"] == right["label"]
    if "answer" in right:
        answer = found["prediction"]
        parts = answer["answer"] if isinstance(answer["answer"], list) else [answer["answer"]]
        text = f"{', '.join(map(str, parts))} {answer['scale']}".strip()
        same = len(parts) == 1 and equal(str(parts[0]), right["answer"]) and answer["scale"] == right.get("scale", "")
        return text, same
    numbers = found.get("numbers", [])
    if len(numbers) != 1:
        return f"{len(numbers)} numbers: {found['text'].strip()}", False
    number = numbers[0]
    if "estimate" in right:
        low, high = (Decimal(str(number["interval"][end])) for end in ("low", "high"))
        return f"{number['value']} ({low} to {high})", low <= Decimal(right["estimate"]) <= high
    return str(number["value"]), equal(str(number["value"]), right["number"])


def wanted(right: dict[str, Any]) -> str:
    """What is right, as the table has it."""
    if "estimate" in right:
        return f"about {right['estimate']}"
    return " ".join(str(right[name]) for name in ("label", "number", "answer", "scale") if name in right)


def table(rows: list[list[str]]) -> str:
    """In Markdown."""
    lines = [["prompt", "wanted", "got", "right", "minutes of training"], ["---"] * 5, *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def equal(said: str, right: str) -> bool:
    """Whether two texts are the same number."""
    try:
        return Decimal(said.replace(",", "")) == Decimal(right)
    except InvalidOperation:
        return False


if __name__ == "__main__":
    command.entry(lambda: sys.exit(main()))
