"""Reads the shards of a corpus on any Apache Beam runner: `make beam` installs it; imported on first use.

    python -m data.build articles --path=CORPUS --beam
        --beam_options="--direct_num_workers=8 --direct_running_mode=multi_processing"
    python -m data.build articles --path=CORPUS --beam
        --beam_runner=FlinkRunner --beam_options="--flink_master=HOST:PORT"

The pipeline writes one part for each shard (`data.shards`) to a folder under `data_dir`. The process that started it
then joins the parts to the dataset. Workers need numjax, the corpus and `data_dir` under the same paths. A stopped
pipeline continues with the missing shards when it is run again.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from numjax import bundled
from numjax.errors import UsageError

from . import shards

RUNNER = "DirectRunner"


class Pipeline(NamedTuple):
    """The name of a runner, and its options as on a command line."""

    runner: str = RUNNER
    options: Sequence[str] = ()


def make_parts(
    name: str, cls: Any, options: Mapping[str, Any], folder: pathlib.Path, settings: Pipeline
) -> list[pathlib.Path]:
    """Makes the missing parts of a dataset; returns the paths of all parts in order.

    Args:
      name: of the dataset. cls: its builder. options: all options of the builder.
      folder: of the parts. settings: the runner and its options.

    Raises:
      UsageError: Beam is not installed, the dataset has no shards, or the runner is unknown or refuses its options.
    """
    beam = _import_beam()
    if not issubclass(cls, shards.ShardedBuilder):
        raise UsageError(f"{name} is not built by Beam: leave --beam out")
    source = cls.shards(options)
    parts = [shards.locate_part(folder, i, len(source)) for i in range(len(source))]
    missing = [(shard, str(part)) for shard, part in zip(source, parts, strict=True) if not part.exists()]
    print(
        f"{name}: {len(missing):,} of {len(parts):,} shards to read with {settings.runner}",
        file=sys.stderr,
        flush=True,
    )
    if not missing:
        return parts
    beam_options = _make_options(settings)
    old_path = os.environ.get("PYTHONPATH")
    # Workers on this machine import the same numjax as this process.
    folders = [str(bundled.PACKAGE.parent), *filter(None, [old_path])]
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    # By name, since `data` may not be on a worker's path.
    calls = [("data.shards", "write_part", name, shard, dict(options), part) for shard, part in missing]
    try:
        with beam.Pipeline(options=beam_options) as pipeline:
            # Shards are few and large. Without a shuffle a runner may give all of them to one worker.
            spread = pipeline | "shards" >> beam.Create(calls) | "spread" >> beam.Reshuffle()
            _ = spread | "read" >> beam.MapTuple(bundled.call)
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise UsageError(
            f"{name}: the pipeline failed ({type(error).__name__}: {reason}); run it again to continue with the "
            "missing shards"
        ) from error
    finally:
        if old_path is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = old_path
    return parts


def _make_options(settings: Pipeline) -> Any:
    from apache_beam.options.pipeline_options import PipelineOptions  # type: ignore[import-not-found]
    from apache_beam.runners import create_runner  # type: ignore[import-not-found]

    try:
        create_runner(settings.runner)
    except (ValueError, ImportError, AttributeError) as error:
        raise UsageError(f"--beam_runner={settings.runner}: {str(error).splitlines()[0]}") from None
    return PipelineOptions([f"--runner={settings.runner}", *settings.options])


def _import_beam() -> Any:
    try:
        import apache_beam  # type: ignore[import-not-found]
    except ImportError:
        raise UsageError("apache_beam is not installed: make beam, in the checkout, or leave --beam out") from None
    return apache_beam
