"""The command `numjax`: each of its words does what its module does, with the same output and exit code."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from numjax import __main__ as command
from numjax import main as run_main
from numjax.runtime import program

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODULE = [sys.executable, "-m"]
COMMAND = [*MODULE, "numjax"]


def run(words, folder, text=""):
    """(exit code, stdout, stderr) of a process with the checkout's numjax."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        words, input=text, env=environment, cwd=folder, capture_output=True, text=True, timeout=300
    )
    return process.returncode, process.stdout, process.stderr


# Tool → pairs of (arguments, standard input).
TOOLS = {
    "numerals": [
        ([], "Up 12.5% to $(1,746)\n\nno number\n"),
        (["--rules=words"], "one hundred\n"),
        (["--rules=x"], ""),
    ],
    "trees": [([], "x^2+1\n\\foo\n"), (["--from=article"], '["V","x",null]\n'), (["--from=pdf"], "")],
    "parts": [(["embed", "dice"], ""), (["embed", "dise"], "")],
    "geometry": [(["sweep", "--embed=dice", "--numbers=1:5"], ""), ([], "")],
    "launch": [(["--processes=1", "--module=timeit"], ""), (["--processes=0"], "")],
}


@pytest.mark.parametrize(("tool", "case"), [(tool, i) for tool, cases in TOOLS.items() for i in range(len(cases))])
def test_a_tool_prints_what_its_module_prints(tool, case, tmp_path):
    words, text = TOOLS[tool][case]
    code, out, errors = run([*COMMAND, tool, *words], tmp_path, text)
    module_code, module_out, module_errors = run([*MODULE, f"numjax.tools.{tool}", *words], tmp_path, text)
    assert (code, out) == (module_code, module_out)
    # The one difference: each shows what the user typed.
    name, module_name = f"numjax {tool}: ", "numjax: " if tool == "launch" else f"{tool}: "
    assert errors.replace(name, module_name) == module_errors
    assert name in errors or code == 0


# Calls a program with `numjax.modes` replaced by one that prints how it is called: that needs neither JAX nor a run.
RECORD = """
import runpy, sys, types
import numjax
modes = types.ModuleType("numjax.modes")
modes.set_up = lambda config, **options: print("set up", options)
modes.run = lambda config, *words, **options: print("run", config.task.name, config.optim.steps, words, options)
sys.modules["numjax.modes"] = numjax.modes = modes
module, *sys.argv[1:] = sys.argv[1:]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("mode", program.MODES)
def test_a_mode_is_the_module_with_that_mode(mode, tmp_path):
    words = ["--config=numgpt:smoke,task=mwpas", "--workdir=w", "--config.optim.steps=3", "--strict"]
    words += [
        f"--{name}={'0.5' if name == 'intervals' else 'x'}"
        for name, modes in run_main.MODES_OF_FLAG.items()
        if mode in modes
    ]
    start = [sys.executable, "-c", RECORD]
    code, out, errors = run([*start, "numjax", mode, *words], tmp_path)
    assert (code, out, errors) == run([*start, "numjax.main", f"--mode={mode}", *words], tmp_path)
    assert code == 0 and (("'w'" in out and f"{mode!r}" in out) or mode == "show")


def test_training_is_the_default_of_the_module_alone(tmp_path):
    """`numjax eval` must not fall back to the default of --mode."""
    words = ["--config=numgpt:smoke", "--workdir=w"]
    outputs = [
        run([sys.executable, "-c", RECORD, *start, *words], tmp_path)[1]
        for start in (["numjax.main"], ["numjax", "eval"])
    ]
    assert "'train'" in outputs[0] and "'eval'" in outputs[1]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with the run "run" that `numjax train` trained, and what it printed."""
    folder = tmp_path_factory.mktemp("command")
    words = ["--config=numgpt:smoke", "--config.task.size=400", "--config.optim.steps=4", "--config.eval.examples=16"]
    code, out, errors = run([*COMMAND, "train", "--workdir=run", *words], folder)
    assert code == 0, errors
    return folder, out, errors


RECORDS = '{"question": "How many grams are 2 eggs?", "answer": "80"}\n{"question": 3}\nno JSON\n'


def drop_waits(errors: str) -> list[str]:
    """The lines without those about long waits (`runtime/waiting.py`), which depend on the load of the machine."""
    return [line for line in errors.splitlines() if not line.endswith(" so far")]


def test_a_trained_run_predicts_as_with_the_module(trained):
    folder, out, errors = trained
    assert out == "" and "best checkpoint, step " in errors
    assert errors.splitlines()[-1].endswith("Use the model: numjax predict --workdir=run --input=FILE")
    words = ["--workdir=run", "--input=-"]
    (code, out, errors), (*others, other_errors) = (
        run([*command, *words], folder, RECORDS)
        for command in ([*COMMAND, "predict"], [*MODULE, "numjax.main", "--mode=predict"])
    )
    assert [code, out] == others and drop_waits(errors) == drop_waits(other_errors)
    assert code == 0 and json.loads(out)["id"] == "input-1" and errors.count("left out") == 2


def test_a_strict_prediction_ends_with_the_code_of_bad_data(trained):
    folder, _, _ = trained
    code, out, errors = run([*COMMAND, "predict", "--workdir=run", "--input=-", "--strict"], folder, RECORDS)
    assert code == 3 and out == "" and errors.startswith("numjax predict: input-") and errors.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["trian"], ["'trian'", "did you mean train?"]),
        (["numeral"], ["did you mean numerals?"]),
        (["command"], ["'command' is no command"]),  # a module beside the tools
        (["../main"], ["'../main' is no command"]),
        ([""], ["give a command first"]),
        ([], ["give a command first", "numjax --help"]),
        (["--config=numgpt"], ["give a command first"]),
        (["train"], ["--config and --workdir are missing", "numjax train --config=numgpt:task=measures --workdir="]),
        (["train", "--config=numgpt"], ["--workdir is missing"]),
        (["eval"], ["--workdir is missing: numjax eval --workdir=runs/measures"]),
        (["show"], ["--config is missing, or the --workdir of a run: numjax show --config=numgpt:paper"]),
        (["train", "--lr=1", "--config=numgpt", "--workdir=w"], ["no flag --lr", "--config.optim.learning_rate=0.1"]),
        (
            ["show", "--config=numgpt", "--config.optim.lr=1"],
            ["'optim.lr': did you mean --config.optim.learning_rate?"],
        ),
        (["show", "--config=numgpt", "--config.learning_rate=1"], ["did you mean --config.optim.learning_rate?"]),
        (["show", "--config=numgpt,smoke"], ["write a colon behind the name, numgpt:smoke"]),
        (["show", "--config=nofile.py"], ["there is no file 'nofile.py'", "dice, digits, gpt, luna"]),
        (["generate", "--config=numgpt", "--workdir=w", "1 + 2 ="], ['write --prompt="1 + 2 ="']),
        (["eval", "--config=numgptt", "--workdir=w"], ["no config 'numgptt'", "numgpt"]),
        (["train", "--mode=eval", "--config=numgpt", "--workdir=w"], ["--mode=eval", "type numjax eval"]),
        (["train", "--mode", "train", "--config=numgpt", "--workdir=w"], ["--mode=train", "type numjax train"]),
        (["train", "--config=numgpt", "--workdir=w", "--config.xy=1"], ["no key 'xy'", "numjax show lists them all"]),
        (["train", "--workdir=w", "--inptu=x", "--config=numgpt"], ["inptu"]),
        (["predict", "--workdir=w"], ["w does not exist: train a run there, with numjax train --config=NAME"]),
    ],
)
def test_bad_usage_gives_one_line_that_starts_with_what_was_typed(words, parts, tmp_path):
    code, out, errors = run([*COMMAND, *words], tmp_path)
    name = f"numjax {words[0]}: " if words and words[0] in program.MODES else "numjax: "
    assert code == 2 and out == "" and errors.startswith(name) and errors.count("\n") == 1, errors
    assert all(part in errors for part in parts), errors


def test_help_has_a_line_for_every_command_and_imports_none(tmp_path):
    code, out, errors = run([*COMMAND, "--help"], tmp_path)
    assert code == 0 and errors == ""
    names = [*program.MODES, *command.list_tools()]
    lines = [line.split(maxsplit=1) for line in out.splitlines() if line.startswith("  ")]
    assert [name for name, _ in lines] == names and all(len(text) > 10 for _, text in lines)
    assert {"numerals", "trees", "geometry", "parts", "launch"} <= {*names}
    imports = "import sys; sys.argv[1:] = [{!r}]; from numjax import __main__ as m; m.main(); print(*sys.modules)"
    for word in ("--help", "--version"):
        _, out, _ = run([sys.executable, "-c", imports.format(word)], tmp_path)
        modules = {name.partition(".")[0] for name in out.split()}
        assert "numjax" in modules and not {"jax", "numpy", "absl", "ml_collections"} & modules


@pytest.mark.parametrize("word", [*program.MODES, *command.list_tools()])
def test_every_command_has_help_that_shows_its_name(word, tmp_path):
    code, out, errors = run([*COMMAND, word, "--help"], tmp_path)
    assert code == 0 and errors == "" and out.startswith(f"usage: numjax {word} ")
    if word in program.MODES:
        assert ("--input" in out) == (word in ("predict", "generate")) and "--mode" not in out
        assert f"numjax {word} {program.MODES[word].example}" in out


def test_the_module_has_help_for_all_modes(tmp_path):
    code, out, errors = run([*MODULE, "numjax.main", "--help"], tmp_path)
    assert code == 0 and errors == "" and out.startswith("usage: python -m numjax.main ")
    assert all(f"  {mode} " in out for mode in program.MODES) and "--mode" in out and "--prompt" in out


def test_a_file_in_the_folder_of_tools_is_a_command(tmp_path, monkeypatch):
    tool = tmp_path / "weigh.py"
    tool.write_text(
        '"""python -m numjax.tools.weigh\n[FILE]: weighs numbers. More.\n"""\ndef main(words):\n    return 7\n'
    )
    (tmp_path / "scales.py").write_text('"""python -m x: shared by tools."""\nclass main: pass\n')
    monkeypatch.setattr(command, "TOOLS", tmp_path)
    assert command.list_tools() == {"weigh": "weighs numbers"}
    assert "  weigh     weighs numbers" in command.format_help()
    tool.write_text("import jax\ndef main(words): ...\n")
    assert command.list_tools() == {"weigh": "weigh"}


def test_a_tool_gets_its_words_and_its_code_is_returned(tmp_path, monkeypatch):
    (tmp_path / "weigh.py").write_text(
        '"""Weighs."""\nimport sys\ndef main(words):\n    print(words, sys.argv)\n    return 7\n'
    )
    monkeypatch.setattr(command, "TOOLS", tmp_path)
    monkeypatch.setattr("numjax.tools.__path__", [str(tmp_path)])
    monkeypatch.setattr(sys, "argv", ["numjax", "weigh", "a", "--b=c"])
    assert command.main() == 7
    assert sys.argv == ["numjax weigh", "a", "--b=c"]
    sys.modules.pop("numjax.tools.weigh")


def test_help_that_nobody_reads_to_the_end_is_no_error(tmp_path):
    """As in `numjax --help | head -1`."""
    with subprocess.Popen(
        [*COMMAND, "--help"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


def test_the_installed_command_finds_a_part_of_the_working_folder(tmp_path):
    """A script's own folder is first on Python's path, not the one in which the user works."""
    script = tmp_path / "bin" / "numjax"
    script.parent.mkdir()
    script.write_text("import sys\nfrom numjax.__main__ import main\nsys.exit(main())\n")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "waves.py").write_text("from numjax.embed.prototype import Embed\n")
    code, out, errors = run([sys.executable, str(script), "show", "--config=numgpt:smoke,embed=waves"], folder)
    assert (code, errors) == (0, "") and "embeds.numeral = waves" in out
