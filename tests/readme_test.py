"""The README's ablation, run as it is printed."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def test_the_ablation_runs_as_printed(tmp_path):
    section = (ROOT / "README.md").read_text().split("## An ablation in ten minutes")[1].split("\n## ")[0]
    blocks = re.findall(r"```(python|bash)\n(.*?)```", section, re.DOTALL)
    assert [kind for kind, _ in blocks] == ["python", "python", "bash", "python"]
    for kind, code in blocks:
        if kind == "python":
            name = re.match(r"# (\w+\.py)\n", code)
            assert name, "each file says its name"
            (tmp_path / name[1]).write_text(code)
    bash = next(code for kind, code in blocks if kind == "bash")
    environment = os.environ | {
        "SCALE": "smoke",
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
        "NUMJAX_CACHE": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        ["bash", "-euc", bash], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("(4, 64)")
    compared = subprocess.run(
        [sys.executable, "compare.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    found = re.findall(r"^(\w+) +([\d.]+)%$", compared.stdout, re.MULTILINE)
    assert [name for name, _ in found] == ["waves", "prototype", "dice"]
    assert all(30 <= float(value) <= 100 for _, value in found)
