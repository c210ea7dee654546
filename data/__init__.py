"""Datasets, one folder each. `load` builds one on first use and returns random-access sequences of dicts.

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
from numjax.runtime.files import hold_lock

if TYPE_CHECKING:
    from .beam import Pipeline
    from .builder import ArrayRecordBuilder
    from .records import Records

__all__ = ["find_builder", "find_root", "list_names", "load", "load_skipped", "prepare"]


def list_names() -> list[str]:
    """Returns the names of all datasets: the folders beside this file."""
    return sorted(path.parent.name for path in pathlib.Path(__file__).parent.glob("*/builder.py"))


def load(
    name: str,
    split: str = "train",
    data_dir: str | os.PathLike | None = None,
    *,
    strict: bool = False,
    **options: Any,
) -> Records:
    """Returns one split of a dataset. Builds the dataset first if needed. Several processes may call this at once.

    Args:
      name: see `list_names()`.
      split: "train", "validation" or "test", or an expression of tensorflow-datasets ("train+validation",
        "train[:10%]").
      data_dir: see `find_root`.
      strict: a bad record is an error. Otherwise bad records are skipped.
      **options: the builder's options; see the dataset's README.

    Returns:
      Dicts of str and int, each with an `id`, with random access.

    Raises:
      UsageError: unknown name, option or split, or a `data_dir` that cannot be written.
      DataError: bad source files, an empty split, or with `strict` a bad record.
    """
    from .records import Records

    builder = prepare(name, data_dir, strict=strict, **options)
    folder = pathlib.Path(builder.data_dir)
    splits = builder.info.splits
    for part in split.split("+"):
        base = part.split("[")[0].strip()
        if base in ("train", "validation", "test") and base not in splits:
            raise DataError(f"{name}: the {base} split is empty: there are too few records for it ({folder})")
    try:
        instructions = splits[split].file_instructions
    except (KeyError, ValueError):
        raise UsageError(f"{name}: no split {split!r}; it has {', '.join(splits)}") from None
    return Records(instructions, builder.fields, folder)


def load_skipped(name: str, data_dir: str | os.PathLike | None = None, **options: Any) -> list[dict[str, str]]:
    """Returns the records that the builder skipped, `{"id", "reason"}` each."""
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
    """Builds a dataset if needed and returns its builder. Arguments and errors as in `load`.

    Args:
      pipeline: if the dataset is not built yet, Apache Beam reads its source; see `data.beam`.
    """
    from .records import check_shards, read_skipped, report_damage

    cls = find_builder(name)
    root = find_root(data_dir)
    all_options = cls.complete_options(options)
    folder = root / name / cls.config_name(all_options) / str(cls.version_of(all_options))
    with report_damage(folder):
        # Before the builder reads it: another process may finish it at any moment.
        is_built = folder.exists()
        builder = cls(data_dir=root, strict=strict, **options)
    if not is_built:
        try:
            lock_path = root / ".locks" / f"{name}-{builder.chosen_config.name}.lock"
            with hold_lock(lock_path, f"another process builds {name}"):
                # Another process may have built it while this one waited for the lock.
                builder = cls(data_dir=root, strict=strict, **options)
                if not builder.is_prepared():
                    _build_dataset(builder, pipeline, root / ".parts")
        except OSError as error:
            reason = error.strerror or error
            raise UsageError(f"{name}: cannot build it under {root}: {reason}; choose another data_dir") from error
    with report_damage(folder):
        splits = builder.info.splits.values()
        shard_counts = [pair for info in splits for pair in zip(info.filepaths, info.shard_lengths, strict=True)]
        for path, _ in shard_counts:
            if pathlib.Path(path).parent != folder:
                raise ValueError(f"dataset_info.json names {path}, which is elsewhere")
    check_shards(folder, {pathlib.Path(path).name: count for path, count in shard_counts})
    if strict:
        skipped = read_skipped(folder)
        if skipped:
            raise DataError(f"{skipped[0]['id']}: {skipped[0]['reason']}")
    return builder


def find_root(data_dir: str | os.PathLike | None = None) -> pathlib.Path:
    """Returns the root of the built datasets: `data_dir`, $NUMJAX_CACHE, $TFDS_DATA_DIR or ~/.cache/numjax."""
    default = os.environ.get("NUMJAX_CACHE") or os.environ.get("TFDS_DATA_DIR") or "~/.cache/numjax"
    return pathlib.Path(data_dir or default).expanduser()


def find_builder(name: str) -> type[ArrayRecordBuilder]:
    """Returns the builder class of a dataset.

    Raises:
      UsageError: there is no such dataset.
    """
    if name not in list_names():
        matches = difflib.get_close_matches(name, list_names(), 1)
        hint = f"did you mean {matches[0]}?" if matches else f"there are {', '.join(list_names())}"
        raise UsageError(f"no dataset {name!r}; {hint}")
    return importlib.import_module(f".{name}", __package__).Builder


def _build_dataset(builder: ArrayRecordBuilder, pipeline: Pipeline | None, parts: pathlib.Path) -> None:
    # This process holds the lock, so a killed process must have left any unfinished folder of this configuration.
    target = pathlib.Path(builder.data_dir)
    for stale_path in target.parent.glob(f"incomplete.*_{target.name}"):
        shutil.rmtree(stale_path, ignore_errors=True)
    folder = parts / builder.name / target.parent.name / target.name
    if pipeline is not None:
        from . import beam

        builder.parts = beam.make_parts(builder.name, type(builder), builder.options, folder, pipeline)  # type: ignore[attr-defined]
    with open(os.devnull, "w") as silence, contextlib.redirect_stdout(silence):
        builder.download_and_prepare()
    shutil.rmtree(folder.parent, ignore_errors=True)
