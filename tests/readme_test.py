"""Runs the commands of the README as they are printed."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def run_section(title: str, folder: pathlib.Path) -> tuple[str, dict[str, str]]:
    """Writes the files of a section, runs its commands at smoke scale, and returns their output and environment."""
    section = (ROOT / "README.md").read_text().split(f"## {title}")[1].split("\n## ")[0]
    blocks = re.findall(r"```(python|bash)\n(.*?)```", section, re.DOTALL)
    for kind, code in blocks:
        if kind == "python":
            name = re.match(r"# (\w+\.py)\n", code)
            assert name, "each file says its name"
            (folder / name[1]).write_text(code)
    (bash,) = (code for kind, code in blocks if kind == "bash")
    environment = os.environ | {
        "SCALE": "smoke",
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
        "NUMJAX_CACHE": str(folder / "cache"),
    }
    process = subprocess.run(
        ["bash", "-euc", bash], cwd=folder, env=environment, capture_output=True, text=True, timeout=400
    )
    assert process.returncode == 0, process.stderr[-2000:]
    return process.stdout, environment


def test_a_config_of_ones_own_trains_as_printed(tmp_path):
    run_section("A config of your own", tmp_path)
    for name, metric in (("mine", "LMAE"), ("mine-units", "accuracy")):
        lines = [json.loads(line) for line in (tmp_path / "runs" / name / "metrics.jsonl").read_text().splitlines()]
        assert metric in lines[-1], lines[-1]
    assert "ntl" in (tmp_path / "runs/mine/config.json").read_text()


def test_the_ablation_runs_as_printed(tmp_path):
    output, environment = run_section("An ablation in ten minutes", tmp_path)
    assert output.startswith("(4, 64)")
    process = subprocess.run(
        [sys.executable, "compare.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    accuracies = re.findall(r"^(\w+) +([\d.]+)%$", process.stdout, re.MULTILINE)
    assert [name for name, _ in accuracies] == ["waves", "prototype", "dice"]
    assert all(30 <= float(value) <= 100 for _, value in accuracies)
