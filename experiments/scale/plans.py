"""The table of plans: every decoder of configs/scale on slices and clusters that are not here.

    python -m experiments.scale.plans --out=runs/scale              # half an hour; needs make tpu
    python -m experiments.scale.plans --only=decoder_124m,h100:64

A plan is a process of its own (`--mode=compile`); one that is done is not done again: remove --out to do all anew.
Writes plans.md and plans.json.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from numjax.bundled.experiments import command, report
from numjax.bundled.experiments.benchmarks import pairs
from numjax.errors import UsageError
from numjax.plan.arithmetic import PEAK_SHARE
from numjax.plan.plan import FILE, GIB

ROOT = pathlib.Path(__file__).resolve().parents[2]


class PlanJob(NamedTuple):
    """A config on a topology, with its flags beside those."""

    config: str
    topology: str
    flags: tuple[str, ...] = ()


def make_job(config: str, topology: str, rows: int, fsdp: int, remat: str = "", tensor: int = 1) -> PlanJob:
    """A plan with `rows` sequences a step in all."""
    flags = [f"--config.optim.batch_size={rows}", f"--config.mesh.fsdp={fsdp}"]
    flags += [f"--config.mesh.tensor={tensor}"] if tensor > 1 else []
    return PlanJob(config, topology, (*flags, *([f"--config.backbone.remat={remat}"] if remat else [])))


PLANS = (
    make_job("decoder_124m", "v5e:4x4", 128, 1),
    make_job("decoder_124m:system=numgpt", "v5e:4x4", 128, 1),
    make_job("decoder_124m", "v5e:16x16", 2048, 1),
    make_job("decoder_124m", "v5p:4x4x4", 1024, 1),
    make_job("decoder_124m", "v6e:8x8", 1024, 1),
    make_job("decoder_124m", "h100:64", 1024, 1),
    make_job("decoder_1b3", "v5e:4x4", 64, 16),
    make_job("decoder_1b3", "v5e:16x16", 1024, 16),
    make_job("decoder_1b3:system=numgpt", "v5e:16x16", 1024, 16),
    make_job("decoder_1b3", "v5p:4x4x4", 512, 8, "dots"),
    make_job("decoder_1b3", "v6e:8x8", 512, 16),
    make_job("decoder_1b3", "h100:64", 512, 8),
    make_job("decoder_7b", "v5e:4x4", 16, 16),
    make_job("decoder_7b", "v5e:16x16", 512, 64),
    make_job("decoder_7b", "v5p:4x4x4", 256, 64),
    make_job("decoder_7b", "v6e:8x8", 256, 64),
    make_job("decoder_7b", "h100:64", 256, 8),
)


def run(job: PlanJob, folder: pathlib.Path) -> dict[str, Any]:
    """The plan's json, with what its process said, took and held."""
    plan_folder = folder / f"{job.config}_{job.topology}".replace(":", "_")
    done_file = plan_folder / "done.json"
    if done_file.exists():
        return json.loads(done_file.read_text())
    words = [f"--config=scale/{job.config}", f"--config.topology={job.topology}", *job.flags]
    print(f"{job.config} on {job.topology}", file=sys.stderr, flush=True)
    (plan_folder / FILE).unlink(missing_ok=True)
    start = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-m", "numjax.main", "--mode=compile", f"--workdir={plan_folder}", *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
    )
    last_lines = process.stderr.strip().splitlines()[-1:] or [""]
    if process.returncode and not (plan_folder / FILE).exists():
        raise UsageError(f"{job.config} on {job.topology}: {last_lines[0]}")
    result = json.loads((plan_folder / FILE).read_text())
    result |= {
        "config": job.config,
        "flags": job.flags,
        "said": last_lines[0],
        "seconds_to_plan": time.monotonic() - start,
    }
    done_file.write_text(json.dumps(result, indent=1) + "\n")
    return result


def format_row(result: dict[str, Any]) -> str:
    """A row of the table."""
    mesh = " × ".join(str(result["mesh"][name]) for name in ("data", "fsdp", "tensor"))
    parts = result["per_chip_bytes"]
    cells = [result["config"], result["topology"], mesh, f"{result['rows'] / result['chips']:g} × {result['length']}"]
    memory = f"{parts['total'] / GIB:.1f} of {parts['available'] / GIB:.0f}"
    if not result["fits"]:
        return f"| {' | '.join([*cells, memory, 'does not fit', '', '', ''])} |"
    bytes_sent = sum(result["collective_bytes"].values())
    floor = result["fsdp_floor_bytes"]
    seconds = result["seconds"]
    cells += [memory, " / ".join(f"{1e3 * seconds[name]:.0f}" for name in ("compute", "memory", "network"))]
    cells += [f"{bytes_sent / 1e9:.2f}" + (f" ({bytes_sent / floor:.2f}×)" if floor else "")]
    cells += [f"{100 * result['mfu']:.0f}%", f"{100 * result['mfu_no_overlap']:.0f}%"]
    return f"| {' | '.join(cells)} |"


def render(content: Mapping[str, Any]) -> str:
    """The Markdown of the JSON."""
    header = ["model", "chips", "data × fsdp × tensor", "rows a chip", "GiB a chip", "ms compute / memory / network"]
    header += ["GB sent a chip (× FSDP floor)", "MFU at best", "MFU, no overlap"]
    title = f"# Plans: matrix products at {PEAK_SHARE:.0%} of the data sheet's peak\n"
    lines = [title, f"| {' | '.join(header)} |", f"|{'---|' * len(header)}", *map(format_row, content["plans"])]
    return "\n".join(lines) + "\n"


def main(words: Sequence[str] | None = None) -> None:
    """Plans what is not planned yet, then writes the table."""
    parser = command.Parser(prog="python -m experiments.scale.plans", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", default="runs/scale", help="folder of the plans")
    parser.add_argument("--only", default="", help="configs and topologies, separated by commas")
    command.add_dirty(parser)
    options = parser.parse_args(words)
    command.check_code(options.dirty)
    selection = [word for word in options.only.split(",") if word]
    folder = pathlib.Path(options.out)
    jobs = [p for p in PLANS if not selection or {p.config, p.config.partition(":")[0], p.topology} & set(selection)]
    if not jobs:
        raise UsageError(f"--only={options.only} names no plan: see PLANS in experiments/scale/plans.py")
    results = [run(job, folder) for job in jobs]
    content = {"machine": pairs.describe_machine(), "plans": results}
    text = report.write("plans", folder, "scale.plans", content)
    print(text)
    print(f"{folder / 'plans.md'}\n{folder / 'plans.json'}")


if __name__ == "__main__":
    command.entry(main, starts_programs=True)
