"""The base class of all builders: a tensorflow-datasets builder that streams to disk without TensorFlow."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import hashlib
import json
import os
import pathlib
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds

from numjax.errors import DataError, UsageError

from .records import MENDED, REMARKS, SKIPPED, SplitWriter, encode, read_notes
from .sampling import SPLITS

_PROGRESS_SECONDS = 10.0
LONGEST_NAME = 200  # characters of a folder's name: file systems allow 255, with what names of locks add to it
NO_CHARACTER = "holds half of a surrogate pair, which is no character"


@dataclasses.dataclass(eq=False)
class OptionsConfig(tfds.core.BuilderConfig):
    """A builder's options. The name contains all of them, so that different options never share a folder."""

    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    strict: bool = False


class _LocalInfo(tfds.core.DatasetInfo):
    def initialize_from_bucket(self) -> None:
        """Does nothing: no public bucket has these datasets, and the inherited method leaves a temporary folder."""


class ArrayRecordBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """A dataset of flat records. A subclass states its fields and options and yields (split, record).

    One pass over `_generate_examples` gives all splits, in its order, in constant memory. `skipped.jsonl` beside the
    data lists the skipped records.

    Attributes:
      FIELDS: name → str or int (stored as int64). Every record has a string `id`.
      OPTIONS: name → default. An option called `path` stands for the files under it: its part of the
        configuration's name changes when a file's name, size or modification time changes.
      PATHS: the options that name files or folders.
      KEYS: name → fields. A report counts the different values of these fields and their overlap between splits, if
        the options keep the fields.
      TOTALS: fields of which a report gives the sum.
      UNNAMED: option → the value that a folder's name omits, so that datasets built before this option existed keep
        their folders.
    """

    VERSION = tfds.core.Version("1.0.0")
    MADE_VERSION: ClassVar[Any] = None  # of generated records, where it is another than that of a user's files
    FIELDS: ClassVar[dict[str, type]]
    OPTIONS: ClassVar[dict[str, Any]]
    PATHS: ClassVar[tuple[str, ...]] = ("path",)
    KEYS: ClassVar[dict[str, tuple[str, ...]]] = {}
    TOTALS: ClassVar[tuple[str, ...]] = ()
    UNNAMED: ClassVar[dict[str, Any]] = {}

    # Nothing is downloaded, and the inherited property needs a package that is not always installed.
    url_infos: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        *,
        data_dir: str | os.PathLike | None = None,
        config: OptionsConfig | None = None,
        version: Any = None,
        file_format: Any = "array_record",
        strict: bool = False,
        **options: Any,
    ):
        """Args:
          data_dir: root of the built datasets.
          config: only for unpickling; give options by keyword instead.
          version: as in tensorflow-datasets.
          file_format: only `array_record` can be read without TensorFlow.
          strict: stop at the first bad record instead of skipping it.
          **options: see `OPTIONS`.

        Raises:
          UsageError: unknown option or bad value.
          DataError: there are no files under `path`.
        """
        if config is None:
            all_options = self.complete_options(options)
            config = OptionsConfig(
                name=self.config_name(all_options),
                version=self.version_of(all_options),
                options=all_options,
                strict=strict,
            )
        elif not isinstance(config, OptionsConfig) or options:
            raise UsageError(f"{self.name}: give options by keyword ({', '.join(self.OPTIONS)}), not as a config")
        super().__init__(data_dir=data_dir, config=config, version=version, file_format=file_format)

    @classmethod
    def complete_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Returns all options: `options` over the defaults, each value converted to its default's type."""
        for name in options:
            if name not in cls.OPTIONS:
                matches = difflib.get_close_matches(name, cls.OPTIONS, 1)
                hint = f"did you mean {matches[0]}?" if matches else f"it has {', '.join(cls.OPTIONS)}"
                raise UsageError(f"{cls.name}: no option {name}; {hint}")
        all_options = {**cls.OPTIONS, **options}
        for name, default in cls.OPTIONS.items():
            kind = type(default)
            given = all_options[name]
            try:
                value = kind(os.fspath(given) if kind is str else given)
            except (TypeError, ValueError, OverflowError):
                value = None
            if value is None or (kind is int and not isinstance(given, str) and value != given):
                raise UsageError(f"{cls.name}: {name}={all_options[name]!r} is not of type {kind.__name__}")
            all_options[name] = value
        cls.check(all_options)
        return all_options

    @classmethod
    def version_of(cls, options: Mapping[str, Any]) -> Any:
        """Returns the version of the records with some options."""
        is_made = not any(options.get(name) for name in cls.PATHS)
        return (is_made and cls.MADE_VERSION) or cls.VERSION

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        """Raises UsageError for invalid options or combinations of them. Subclasses add checks."""
        if not 0 <= options.get("seed", 0) < 2**63:
            raise UsageError(f"{cls.name}: seed={options['seed']} must be from 0 to 2^63 - 1")
        if cls.OPTIONS.get("size") == 0 and options["size"] < 0:
            raise UsageError(f"{cls.name}: size={options['size']} is negative: give 0, the default, or more")

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        """Returns the files that the option `path` stands for, sorted."""
        return []

    @classmethod
    def config_name(cls, options: Mapping[str, Any]) -> str:
        """Returns a folder's name, which contains every option except those that `UNNAMED` omits."""
        parts = []
        for name, value in options.items():
            if name in cls.UNNAMED and value == cls.UNNAMED[name]:
                continue
            if name == "path":
                file_stats = [(str(path.resolve()), path.stat()) for path in cls.files(options)]
                state = repr([(path, stat.st_size, stat.st_mtime_ns) for path, stat in file_stats])
                value = hashlib.sha256(state.encode()).hexdigest()[:16] if file_stats else "none"
            parts.append(f"{name}_{value}")
        folder = "-".join(parts)
        if len(folder) <= LONGEST_NAME:
            return folder
        return f"{folder[: LONGEST_NAME - 17]}-{hashlib.sha256(folder.encode()).hexdigest()[:16]}"

    @property
    def chosen_config(self) -> OptionsConfig:
        """The configuration, with its name, options and strictness."""
        config = self.builder_config
        assert isinstance(config, OptionsConfig)
        return config

    @property
    def options(self) -> Mapping[str, Any]:
        """All options and their values."""
        return self.chosen_config.options

    def is_prepared(self) -> bool:
        """Whether the data are on disk, complete."""
        return (self.data_path / "dataset_info.json").exists()

    def skip(self, record_id: str, reason: str) -> None:
        """Skips a record and writes down the reason.

        Raises:
          DataError: the builder is strict.
        """
        if self.chosen_config.strict:
            raise DataError(f"{record_id}: {reason}")
        self._note(SKIPPED, record_id, reason)

    def mend(self, record_id: str, reason: str) -> None:
        """Writes down a fault of a record that is kept, also under strict."""
        self._note(MENDED, record_id, reason)

    def remark(self, record_id: str, reason: str) -> None:
        """Writes down, for reports, what the records leave out of the source by design; also under strict."""
        self._note(REMARKS, record_id, reason)

    def _note(self, name: str, record_id: str, reason: str) -> None:
        line = json.dumps({"id": record_id, "reason": reason}, ensure_ascii=False)
        with open(self.data_path / name, "a", encoding="utf-8", errors="replace") as file:
            file.write(line + "\n")

    @property
    def fields(self) -> Mapping[str, type]:
        """The fields of its records: `FIELDS`, unless they depend on the options."""
        return self.FIELDS

    @functools.cached_property
    def info(self) -> tfds.core.DatasetInfo:
        """The description of the dataset, made once. The inherited property would never free it, nor its builder."""
        return self._info()

    def _info(self) -> tfds.core.DatasetInfo:
        features = {
            name: tfds.features.Text() if kind is str else tfds.features.Scalar(np.int64)
            for name, kind in self.fields.items()
        }
        metadata = self.get_metadata()
        return _LocalInfo(
            builder=self,
            features=tfds.features.FeaturesDict(features),
            description=metadata.description,
            citation=metadata.citation,
            disable_shuffling=True,
        )

    def _create_builder_config(self, builder_config: Any, version: Any) -> Any:
        # The inherited check warns about every configuration that is not predefined.
        return builder_config

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields (split, record) for every record of every split."""
        raise NotImplementedError

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        # tensorflow-datasets asks for one generator per split; here one pass gives all splits (_generate_splits).
        return {}

    def _generate_splits(self, dl_manager: Any, download_config: Any) -> list[tfds.core.SplitInfo]:
        writers = {split: SplitWriter(str(self.data_path / f"{split}.part")) for split in SPLITS}
        try:
            self._write_records(writers)
            infos = [self._finish(split, writer) for split, writer in writers.items() if writer.shard_lengths]
        finally:
            for writer in writers.values():
                with contextlib.suppress(OSError):
                    writer.close()
        if not infos:
            raise DataError(f"{self.name}: no usable record{self._first_skip()}")
        return infos

    def _write_records(self, writers: Mapping[str, SplitWriter]) -> None:
        next_line = time.monotonic() + _PROGRESS_SECONDS
        for count, (split, data) in enumerate(self._encoded_examples()):
            writers[split].write(data)
            if time.monotonic() > next_line:
                print(f"{self.name}: {count + 1:,} records built", file=sys.stderr, flush=True)
                next_line += _PROGRESS_SECONDS

    def _encoded_examples(self) -> Iterator[tuple[str, bytes]]:
        for split, record in self._generate_examples():
            try:
                yield split, encode(record, self.fields)
            except UnicodeEncodeError:
                self.skip(record["id"], NO_CHARACTER)

    def _finish(self, split: str, writer: SplitWriter) -> tfds.core.SplitInfo:
        template = self._get_filename_template(split_name=split)
        count = len(writer.shard_lengths)
        paths = [template.sharded_filepath(shard_index=i, num_shards=count) for i in range(count)]
        writer.close([os.fspath(path) for path in paths])
        return tfds.core.SplitInfo(
            name=split, shard_lengths=writer.shard_lengths, num_bytes=writer.num_bytes, filename_template=template
        )

    def _first_skip(self) -> str:
        skipped = read_notes(pathlib.Path(self.data_path), SKIPPED)
        return (
            f": {len(skipped)} left out, the first is {skipped[0]['id']}: {skipped[0]['reason']}" if skipped else ""
        )
