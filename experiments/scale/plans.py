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
from collections.abc import Sequence
from typing import Any, NamedTuple

from numjax.bundled.experiments import command
from numjax.bundled.experiments.benchmarks import pairs
from numjax.errors import UsageError
from numjax.plan.plan import FILE, GIB

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Plan(NamedTuple):
    """A config on a topology, with its flags beside those."""

    config: str
    topology: str
    flags: tuple[str, ...] = ()


def of(config: str, topology: str, rows: int, fsdp: int, remat: str = "", tensor: int = 1) -> Plan:
    """A plan with `rows` sequences a step in all."""
    flags = [f"--config.optim.batch_size={rows}", f"--config.mesh.fsdp={fsdp}"]
    flags += [f"--config.mesh.tensor={tensor}"] if tensor > 1 else []
    return Plan(config, topology, (*flags, *([f"--config.backbone.remat={remat}"] if remat else [])))


PLANS = (
    of("decoder_124m", "v5e:4x4", 128, 1),
    of("decoder_124m:system=numgpt", "v5e:4x4", 128, 1),
    of("decoder_124m", "v5e:16x16", 2048, 1),
    of("decoder_124m", "v5p:4x4x4", 1024, 1),
    of("decoder_124m", "v6e:8x8", 1024, 1),
    of("decoder_124m", "h100:64", 1024, 1),
    of("decoder_1b3", "v5e:4x4", 64, 16),
    of("decoder_1b3", "v5e:16x16", 1024, 16),
    of("decoder_1b3:system=numgpt", "v5e:16x16", 1024, 16),
    of("decoder_1b3", "v5p:4x4x4", 512, 8, "dots"),
    of("decoder_1b3", "v6e:8x8", 512, 16),
    of("decoder_1b3", "h100:64", 512, 8),
    of("decoder_7b", "v5e:4x4", 16, 16),
    of("decoder_7b", "v5e:16x16", 512, 64),
    of("decoder_7b", "v5p:4x4x4", 256, 64),
    of("decoder_7b", "v6e:8x8", 256, 64),
    of("decoder_7b", "h100:64", 256, 8),
)


def run(plan: Plan, folder: pathlib.Path) -> dict[str, Any]:
    """The plan's json, with what its process said, took and held."""
    made = folder / f"{plan.config}_{plan.topology}".replace(":", "_")
    done = made / "done.json"
    if done.exists():
        return json.loads(done.read_text())
    words = [f"--config=scale/{plan.config}", f"--config.topology={plan.topology}", *plan.flags]
    print(f"{plan.config} on {plan.topology}", file=sys.stderr, flush=True)
    (made / FILE).unlink(missing_ok=True)
    start = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-m", "numjax.main", "--mode=compile", f"--workdir={made}", *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
    )
    told = process.stderr.strip().splitlines()[-1:] or [""]
    if process.returncode and not (made / FILE).exists():
        raise UsageError(f"{plan.config} on {plan.topology}: {told[0]}")
    found = json.loads((made / FILE).read_text())
    found |= {
        "config": plan.config,
        "flags": plan.flags,
        "said": told[0],
        "seconds_to_plan": time.monotonic() - start,
    }
    done.write_text(json.dumps(found, indent=1) + "\n")
    return found


def line(found: dict[str, Any]) -> str:
    """A row of the table."""
    mesh = " × ".join(str(found["mesh"][name]) for name in ("data", "fsdp", "tensor"))
    parts = found["per_chip_bytes"]
    cells = [found["config"], found["topology"], mesh, f"{found['rows'] / found['chips']:g} × {found['length']}"]
    memory = f"{parts['total'] / GIB:.1f} of {parts['available'] / GIB:.0f}"
    if not found["fits"]:
        return f"| {' | '.join([*cells, memory, 'does not fit', '', '', ''])} |"
    sent = sum(found["collective_bytes"].values())
    floor = found["fsdp_floor_bytes"]
    seconds = found["seconds"]
    cells += [memory, " / ".join(f"{1e3 * seconds[name]:.0f}" for name in ("compute", "memory", "network"))]
    cells += [f"{sent / 1e9:.2f}" + (f" ({sent / floor:.2f}×)" if floor else "")]
    cells += [f"{100 * found['mfu']:.0f}%", f"{100 * found['mfu_no_overlap']:.0f}%"]
    return f"| {' | '.join(cells)} |"


def main(words: Sequence[str] | None = None) -> None:
    """Plans what is not planned yet, then writes the table."""
    made = command.Parser(prog="python -m experiments.scale.plans", description=(__doc__ or "").splitlines()[0])
    made.add_argument("--out", default="runs/scale", help="folder of the plans")
    made.add_argument("--only", default="", help="configs and topologies, separated by commas")
    options = made.parse_args(words)
    wanted = [word for word in options.only.split(",") if word]
    folder = pathlib.Path(options.out)
    chosen = [p for p in PLANS if not wanted or {p.config, p.config.partition(":")[0], p.topology} & set(wanted)]
    if not chosen:
        raise UsageError(f"--only={options.only} names no plan: see PLANS in experiments/scale/plans.py")
    found = [run(plan, folder) for plan in chosen]
    head = ["model", "chips", "data × fsdp × tensor", "rows a chip", "GiB a chip", "ms compute / memory / network"]
    head += ["GB sent a chip (× FSDP floor)", "MFU at best", "MFU, no overlap"]
    text = f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n" + "\n".join(line(one) for one in found) + "\n"
    (folder / "plans.md").write_text(text, encoding="utf-8")
    (folder / "plans.json").write_text(json.dumps({"machine": pairs.machine(), "plans": found}, indent=1) + "\n")
    print(text)
    print(f"{folder / 'plans.md'}\n{folder / 'plans.json'}")


if __name__ == "__main__":
    command.entry(main)
