"""The modes of `numjax.main`, each for a config and a workdir."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
from absl import logging

from numjax import api, build
from numjax.config import origin
from numjax.errors import UsageError
from numjax.modes import inputs, unread
from numjax.modes.check import check_run
from numjax.modes.evaluate import evaluate_run
from numjax.modes.predict import predict_records
from numjax.modes.train import train_seeds
from numjax.runtime import files, log, processes, program
from numjax.train import inherit, workdir


def set_up(config: Any, distributed: bool = False, planning: bool = False) -> None:
    """Sets up the compilation cache and logging. With `distributed` it joins the other processes; with `planning` it
    does not use this machine's own devices. Call it before any JAX work."""
    # Orbax and JAX log much; progress lines and warnings have what a user must know.
    logging.set_verbosity(logging.WARNING)
    log.quieten()
    if config.compile_cache:
        folder = pathlib.Path(config.compile_cache).expanduser()
        jax.config.update("jax_compilation_cache_dir", str(folder))
        if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:  # the user's setting takes precedence
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    jax.config.update("jax_threefry_partitionable", True)
    if planning:
        from numjax.plan import topology

        topology.set_up()
    if distributed:
        processes.join()


def run(
    config: Any,
    folder: str,
    mode: str,
    *,
    strict: bool = False,
    input: str | None = None,
    prompts: Sequence[str] = (),
    intervals: Sequence[float] = (),
) -> dict[str, Any]:
    """Runs one mode; returns its results (metrics by split, or predictions).

    Args:
      config: of the run.
      folder: the workdir, or the folder of a seed in it.
      mode: one of `main.MODES` but "show".
      strict: stop at the first bad record.
      input: a file of records or prompts, "-" for stdin.
      prompts: texts to go on with. intervals: shares of intervals, see `evals.generate.generate`.

    Raises:
      UsageError: the workdir and the config do not go together, or the mode lacks its input.
    """
    path = pathlib.Path(folder).expanduser()
    with (
        processes.coordinate_exit(),
        files.report_full_disk(path),
        inherit.refuse_other_config(path),
    ):
        if mode == "compile":
            from numjax.plan.plan import plan

            # Planning does not claim the workdir: the next plan there may be for another batch or mesh.
            return plan(config, path)
        if mode in ("train", "check"):
            return _write_run(config, path, mode, strict)
        return _use_run(config, path, mode, strict, input, prompts, intervals)


def _write_run(config: Any, folder: pathlib.Path, mode: str, strict: bool) -> dict[str, Any]:
    """Trains or checks; both write the config, the vocabulary and the list of skipped records."""
    if (home := origin.home(folder)) != folder:
        raise UsageError(f"{folder} is a seed of the run in {home}: give --workdir={home}")
    with workdir.lock_folder(folder):
        workdir.claim(folder, config, keep=mode == "train")
        if mode == "check":
            return check_run(config, folder, strict)
        results = train_seeds(config, folder, strict)
        _say_next(config, folder)
        return results


def _say_next(config: Any, folder: pathlib.Path) -> None:
    """Says where the results of a training are, and a command that uses the model."""
    task = build.find("tasks", config.task.name)
    run = folder if config.num_seeds == 1 else folder / f"seed_{config.seed}"
    mode, words = ("generate", ' --prompt="…"') if task.kind == "language_model" else ("predict", " --input=FILE")
    if task.kind == "masked":  # a pre-training predicts nothing
        mode, words = "eval", ""
    command = program.name_of("numjax.main").rpartition(" ")[0] + f" {mode}" if program.is_command() else (
        f"python -m numjax.main --mode={mode}"
    )  # fmt: skip
    model = "best" if any((run / "best").glob("[0-9]*")) else "checkpoints"  # config.eval.best=False has no best/
    answers = ", predictions/ the answers" * (run / "predictions").exists()
    where = f"metrics.jsonl has the metrics, {model}/ the model{answers}"
    log.say(f"results are in {run}: {where}. Use the model: {command} --workdir={run}{words}")


def _use_run(
    config: Any,
    folder: pathlib.Path,
    mode: str,
    strict: bool,
    input: str | None,
    prompts: Sequence[str],
    intervals: Sequence[float],
) -> dict[str, Any]:
    """Evaluates a trained run, or lets it predict or generate."""
    home = origin.home(folder)
    if not (home / origin.CONFIG_FILE).exists() or not workdir.has_checkpoint(folder):
        raise origin.no_run_error(folder)
    if not config.init_from:
        # A trained run no longer needs its start, so the user need not give it again.
        config = config.copy_and_resolve_references()
        config.init_from = origin.load_config(home).get("init_from", "")
    workdir.claim(home, config, keep=False)
    if mode == "eval":
        return evaluate_run(config, folder, strict)
    model = api.load(folder, config=config)
    if mode == "predict" and input:
        records, skipped = inputs.split_valid(inputs.load_records(model.system.task, input), strict)
        return predict_records(model, records, skipped, folder, strict)
    if mode == "generate" and (lines := [*prompts, *(inputs.read_lines(input) if input else [])]):
        if unknown := model.system.scheme.vocab.list_unknown("".join(lines)):
            log.say(
                f"characters that the vocabulary lacks: {' '.join(unknown)} – no text of training had them, so that "
                "the model cannot understand them"
            )
        unread.say_texts(model.system, lines)
        for generation in model.generate(lines, intervals=intervals):
            log.print_result(generation._asdict())
        return {}
    flags = "--input=FILE (or - for stdin)" + (" or --prompt=TEXT" if mode == "generate" else "")
    raise UsageError(f"{program.mode_of(mode)} needs {flags}")
