"""Datasets, one folder each: built on first use, read as random-access sequences of dicts.

    records = data.load("mme", "train", size=8000)
    records[0]["question"], records[0]["label"]

Nothing heavy is imported before the first `load`; TensorFlow never is.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import pathlib
import shutil
from typing import TYPE_CHECKING, Any

from numjax.errors import DataError, UsageError
from numjax.runtime.files import locked

if TYPE_CHECKING:
    from .beam import Pipeline
    from .builder import ArrayRecordBuilder
    from .records import Records

__all__ = ["builder_of", "home", "load", "names", "prepare", "skipped"]


def names() -> list[str]:
    """The datasets that there are: the folders beside this file."""
    return sorted(path.parent.name for path in pathlib.Path(__file__).parent.glob("*/builder.py"))


def load(
    name: str,
    split: str = "train",
    data_dir: str | os.PathLike | None = None,
    *,
    strict: bool = False,
    **options: Any,
) -> Records:
    """One split of a dataset, built first if it is not there. Several processes may call this at once.

    Args:
      name: see `names()`.
      split: "train", "validation" or "test", or what tensorflow-datasets understands ("train+validation",
        "train[:10%]").
      data_dir: see `home`.
      strict: bad records are an error instead of being left out.
      **options: the builder's; see the dataset's README.

    Returns:
      Dicts of str and int, each with an `id`, in random access.

    Raises:
      UsageError: unknown name, option or split, or a `data_dir` that cannot be written.
      DataError: bad source files, an empty split, or under `strict` a bad record.
    """
    from .records import Records

    builder = prepare(name, data_dir, strict=strict, **options)
    folder = pathlib.Path(builder.data_dir)
    present = builder.info.splits
    for part in split.split("+"):
        base = part.split("[")[0].strip()
        if base in ("train", "validation", "test") and base not in present:
            raise DataError(f"{name}: the {base} split is empty: there are too few records for it ({folder})")
    try:
        instructions = present[split].file_instructions
    except (KeyError, ValueError):
        raise UsageError(f"{name}: no split {split!r}; it has {', '.join(present)}") from None
    return Records(instructions, builder.fields, folder)


def skipped(name: str, data_dir: str | os.PathLike | None = None, **options: Any) -> list[dict[str, str]]:
    """The records that were left out when the dataset was built, `{"id", "reason"}` each."""
    from .records import read_skipped

    return read_skipped(pathlib.Path(prepare(name, data_dir, **options).data_dir))


def prepare(
    name: str,
    data_dir: str | os.PathLike | None = None,
    *,
    strict: bool = False,
    pipeline: Pipeline | None = None,
    **options: Any,
) -> ArrayRecordBuilder:
    """A dataset's builder with its data on disk, complete. Arguments and errors as in `load`.

    Args:
      pipeline: read the source with Apache Beam, if it is not built yet; see `data.beam`.
    """
    from .records import check, read_skipped, whole

    make = builder_of(name)
    root = home(data_dir)
    with whole(root / name / make.config_name(make.chosen(options)) / str(make.VERSION)):
        builder = make(data_dir=root, strict=strict, **options)
    if not builder.is_prepared():
        try:
            lock = root / ".locks" / f"{name}-{builder.chosen_config.name}.lock"
            with locked(lock, f"another process builds {name}"):
                # Another process may have built it while this one waited for the lock.
                builder = make(data_dir=root, strict=strict, **options)
                if not builder.is_prepared():
                    _build(builder, pipeline, root / ".parts")
        except OSError as error:
            reason = error.strerror or error
            raise UsageError(f"{name}: cannot build it under {root}: {reason}; choose another data_dir") from error
    folder = pathlib.Path(builder.data_dir)
    with whole(folder):
        splits = builder.info.splits.values()
        listed = [pair for info in splits for pair in zip(info.filepaths, info.shard_lengths, strict=True)]
    check(folder, {pathlib.Path(path).name: count for path, count in listed})
    if strict:
        left_out = read_skipped(folder)
        if left_out:
            raise DataError(f"{left_out[0]['id']}: {left_out[0]['reason']}")
    return builder


def home(data_dir: str | os.PathLike | None = None) -> pathlib.Path:
    """Root of the built datasets: as given, else $NUMJAX_CACHE, else $TFDS_DATA_DIR, else ~/.cache/numjax."""
    known = os.environ.get("NUMJAX_CACHE") or os.environ.get("TFDS_DATA_DIR") or "~/.cache/numjax"
    return pathlib.Path(data_dir or known).expanduser()


def builder_of(name: str) -> type[ArrayRecordBuilder]:
    """The builder of a dataset.

    Raises:
      UsageError: there is no such dataset.
    """
    if name not in names():
        near = difflib.get_close_matches(name, names(), 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names())}"
        raise UsageError(f"no dataset {name!r}; {hint}")
    return importlib.import_module(f".{name}", __package__).Builder


def _build(builder: ArrayRecordBuilder, pipeline: Pipeline | None, parts: pathlib.Path) -> None:
    # Under the lock, an unfinished folder of this configuration can only be what a killed process left.
    target = pathlib.Path(builder.data_dir)
    for stale in target.parent.glob(f"incomplete.*_{target.name}"):
        shutil.rmtree(stale, ignore_errors=True)
    folder = parts / builder.name / target.parent.name / target.name
    if pipeline is not None:
        from . import beam

        builder.parts = beam.read(builder.name, type(builder), builder.options, folder, pipeline)  # type: ignore[attr-defined]
    with open(os.devnull, "w") as silence, contextlib.redirect_stdout(silence):
        builder.download_and_prepare()
    shutil.rmtree(folder.parent, ignore_errors=True)
