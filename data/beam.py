"""Reading the shards of a corpus on any Apache Beam runner: `pip install numjax[beam]`, imported on first use.

    python -m data.build articles --path=CORPUS --beam
        --beam_options="--direct_num_workers=8 --direct_running_mode=multi_processing"
    python -m data.build articles --path=CORPUS --beam
        --beam_runner=FlinkRunner --beam_options="--flink_master=HOST:PORT"

The pipeline makes a part a shard (`data.shards`) in a folder under `data_dir`; the process that started it puts the
dataset together. Workers need numjax, the corpus and `data_dir` under the same paths. A pipeline that was stopped
goes on with the shards that are missing.
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
    """A runner by name, and its options as on a command line."""

    runner: str = RUNNER
    options: Sequence[str] = ()


def read(name: str, cls: Any, options: Mapping[str, Any], folder: pathlib.Path, how: Pipeline) -> list[pathlib.Path]:
    """Makes the parts of a dataset that are not there yet; returns all of them in order.

    Args:
      name: of the dataset. cls: its builder. options: all of the builder's.
      folder: where the parts are kept.

    Raises:
      UsageError: Beam is not installed, the dataset has no shards, or the runner is unknown or refuses its options.
    """
    beam = _library()
    if not issubclass(cls, shards.ShardedBuilder):
        raise UsageError(f"{name} is not built by Beam: leave --beam out")
    source = cls.shards(options)
    parts = [shards.part_of(folder, i, len(source)) for i in range(len(source))]
    missing = [(shard, str(part)) for shard, part in zip(source, parts, strict=True) if not part.exists()]
    print(f"{name}: {len(missing):,} of {len(parts):,} shards to read with {how.runner}", file=sys.stderr, flush=True)
    if not missing:
        return parts
    settings = _settings(how)
    before = os.environ.get("PYTHONPATH")
    # Workers that this machine starts find numjax where this process did.
    places = [str(bundled.PACKAGE.parent), *filter(None, [before])]
    os.environ["PYTHONPATH"] = os.pathsep.join(places)
    # By name, since a worker need not have `data` on its path.
    todo = [("data.shards", "write_part", name, shard, dict(options), part) for shard, part in missing]
    try:
        with beam.Pipeline(options=settings) as pipeline:
            # Shards are few and large: without a shuffle a runner may give all of them to one worker.
            spread = pipeline | "shards" >> beam.Create(todo) | "spread" >> beam.Reshuffle()
            _ = spread | "read" >> beam.MapTuple(bundled.call)
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise UsageError(
            f"{name}: the pipeline failed ({type(error).__name__}: {reason}); run it again to go on with the shards "
            "that are missing"
        ) from error
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return parts


def _settings(how: Pipeline) -> Any:
    from apache_beam.options.pipeline_options import PipelineOptions  # type: ignore[import-not-found]
    from apache_beam.runners import create_runner  # type: ignore[import-not-found]

    try:
        create_runner(how.runner)
    except (ValueError, ImportError, AttributeError) as error:
        raise UsageError(f"--beam_runner={how.runner}: {str(error).splitlines()[0]}") from None
    return PipelineOptions([f"--runner={how.runner}", *how.options])


def _library() -> Any:
    try:
        import apache_beam  # type: ignore[import-not-found]
    except ImportError:
        raise UsageError("apache_beam is not installed: pip install 'numjax[beam]', or leave --beam out") from None
    return apache_beam
