"""Fills the disk at every write of a run: a run on disks of growing size, until one is large enough.

    python -m experiments.faults.disk --step=16 --out=runs/faults/disk

Each disk is a file system in memory, in a mount namespace of its own. A run that meets a full disk must end with exit
code 2 and one line. Then the disk gets room, and the same command must end with the results of an undisturbed run,
bit for bit. If it is stopped, run the same command again: it resumes. Needs Linux with user namespaces.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

from numjax.bundled.experiments import command, report
from numjax.bundled.experiments.faults import verdict
from numjax.bundled.experiments.faults.life import EVAL_EVERY, Life
from numjax.bundled.experiments.stored import describe_machine
from numjax.errors import UsageError
from numjax.tools.command import Parser

NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
STEPS = 2 * EVAL_EVERY
CODE = re.compile(r"^exit code (\d+)$", re.MULTILINE)


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Runs on every size of disk and prints the table; writes disk.json and disk.md in --out.

    Raises:
      UsageError: no file system can be mounted here.
    """
    parser = Parser(prog="python -m experiments.faults.disk", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--step", type=int, default=16, help="KiB from one size to the next")
    parser.add_argument("--out", default="runs/faults/disk", help="folder of the runs and results")
    options = parser.parse_args(words)
    out = pathlib.Path(options.out).expanduser().absolute()
    (out / "disk").mkdir(parents=True, exist_ok=True)
    if subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", str(out / "disk")], check=False).returncode:
        raise UsageError(
            "cannot mount a file system here: run it on Linux with user namespaces (unshare --user --mount)"
        )
    reference_run = Life(out, "straight", STEPS)
    reference_run.run_undisturbed()
    log = out / "disk.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    while not rows or rows[-1]["code"] != 0:
        rows.append(_run_on(options.step * (len(rows) + 1), out, reference_run))
        with log.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
        print(rows[-1], file=sys.stderr, flush=True)
    results = {"step_in_KiB": options.step, "machine": describe_machine()} | summarise(rows[:-1])
    content = {"title": "A full disk at every size", "results": results}
    print(report.write("disk", out, "faults.verdict", content), flush=True)
    return results


def _run_on(size: int, out: pathlib.Path, reference_run: Life) -> dict[str, Any]:
    """Runs on a disk of `size` KiB, then on the same disk with room."""
    disk, copy = out / "disk", out / "full"
    shutil.rmtree(copy, ignore_errors=True)
    on_disk, run = (Life(out, "full", STEPS, workdir=folder) for folder in (disk / "run", copy))
    run.witness_file.unlink(missing_ok=True)
    start = f"{' '.join(map(str, on_disk.command))}; echo exit code $? >&2"
    room = f"mount -o remount,size=1g tmpfs {disk}"
    script = f"mount -t tmpfs -o size={size}k tmpfs {disk}; {start}; {room}; {start}; cp -r {on_disk.workdir} {copy}"
    process = subprocess.run(
        [*NAMESPACE, "sh", "-c", script], env=on_disk.make_environment(), capture_output=True, text=True, check=False
    )
    text, code, later_text, later_code, *_ = CODE.split(process.stderr)
    messages = [line for line in text.splitlines() if line.startswith("numjax: ")]
    results = verdict.compare(run, reference_run) if later_code == "0" else {}
    expected = {"records_lost": 0, "records_read_twice": 0, "records_twice_in_an_epoch": 0}
    differences = [name for name, value in results.items() if value is False or value != expected.get(name, value)]
    return {
        "size": size, "code": int(code), "messages": messages, "traceback": "Traceback" in text,
        "later_code": int(later_code), "later_traceback": "Traceback" in later_text, "differences": differences,
    }  # fmt: skip


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts over all disks that were too small."""
    return {
        "disks": len(rows),
        "ended_with_exit_code_2": sum(row["code"] == 2 for row in rows),
        "ended_with_one_line": sum(len(row["messages"]) == 1 and not row["traceback"] for row in rows),
        "resumed_to_the_end": sum(row["later_code"] == 0 and not row["later_traceback"] for row in rows),
        "ended_like_an_undisturbed_run": sum(row["later_code"] == 0 and not row["differences"] for row in rows),
    }


if __name__ == "__main__":
    command.entry(main, starts_programs=True)
