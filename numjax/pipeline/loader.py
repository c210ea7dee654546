"""Batches as a function of the step: one plan per epoch, read through grain.

The data position is one global count of examples: the rows of batches so far, including rows that only fill a batch,
so that it is the step times the batch size. A run can resume from it on any number of processes and any mesh: each
process takes the rows of every global batch that its devices hold.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from numjax.errors import UsageError
from numjax.pipeline import distinct, packing
from numjax.pipeline.batch import HostFeatures, feature_table, gather, gather_source
from numjax.pipeline.columns import MEMORY
from numjax.pipeline.features import Encoded, source_length
from numjax.types import Batch

__all__ = ["BUCKET_BY", "Encoded", "Loader"]

# What puts rows into one batch: the positions that they take, with the least padding; or the characters of their
# texts, so that all schemes have the same batches.
BUCKET_BY = ("tokens", "characters")


class Loader:
    """Reads an encoded split.

    Attributes:
      encoded: the rows.
      batch_size: rows of a global batch.
      numerals, source_numerals: N of all batches, and of their sources.
    """

    def __init__(
        self,
        encoded: Encoded,
        config: Any,
        *,
        seed: int,
        host_features: HostFeatures | None = None,
        process: tuple[int | Sequence[int], int] | None = None,
        few_shapes: bool = False,
    ):
        """
        Args:
          config: uses its blocks data, optim and objectives, and mesh.tensor if `process` is not given.
          seed: of the data order.
          host_features: computes the embeddings' features on the host; once per number if they fit into memory.
          process: (the index of the slice of a batch that this process reads, or several, ascending; the number of
            equal slices), as `processes.row_shards` finds them in a mesh. By default those of a mesh of all devices
            in their order, or the whole batch without JAX.
          few_shapes: round the sizes of batches up, so that other rows need few other shapes. Otherwise a split has
            as little padding as `data.buckets` shapes allow.

        Raises:
          UsageError: only a mesh can tell which rows this process reads.
        """
        data = config.data
        self.encoded, self.batch_size = encoded, int(config.optim.batch_size)
        self._seed, self._length = seed, int(data.length)
        self._threads, self._prefetch, self._workers = data.threads, data.prefetch, data.workers
        self._grammar = any(block.get("constrain", False) for block in config.objectives.values())
        slices, self._parts = _find_slices(config) if process is None else process
        self._slices = (slices,) if isinstance(slices, int) else tuple(slices)
        self._accumulate, self._shares = int(config.optim.get("accumulate", 1)), bool(data.get("shared", False))
        self._keys, self._shapes = _choose_buckets(encoded, data)
        if few_shapes:
            self._shapes = {bucket: _round_shape(shape, data) for bucket, shape in self._shapes.items()}
        self._sizes = list(self._shapes)
        limit = int(encoded.numbers.max(initial=1))
        if encoded.packed:
            # Room for twice the numerals that a full row holds on average; rows richer in numbers pack fewer texts.
            share = encoded.numbers.sum() / max(1, encoded.lengths.sum())
            limit = max(limit, int(np.ceil(2 * share * self._length)))
        self.numerals = _make_room(limit, few_shapes)
        self._host_features, self._features, self._source_features = host_features, None, None
        memory = data.get("memory", MEMORY)
        if host_features is not None:
            self._features = feature_table(encoded.columns, host_features, memory)
        if encoded.source is not None:
            self.source_numerals = _make_room(int(encoded.source.numbers.max(initial=1)), few_shapes)
            if host_features is not None:
                self._source_features = feature_table(
                    encoded.source.columns, host_features, data.get("memory", MEMORY)
                )
        self._plans: dict[int, packing.EpochPlan] = {}
        self._lock = threading.Lock()

    def check_batch(self) -> None:
        """Raises UsageError unless a batch divides evenly into slices and each slice into microbatches."""
        if self.batch_size % (self._parts * self._accumulate):
            raise UsageError(
                f"config.optim.batch_size={self.batch_size} does not divide over data × fsdp={self._parts} "
                f"× accumulate={self._accumulate}: change it, config.mesh or optim.accumulate"
            )

    def batches_of_epoch(self, epoch: int = 0) -> int:
        """The number of batches in an epoch, the same for all epochs."""
        del epoch
        n_rows = len(self._filling.row_starts) - 1 if self.encoded.packed else len(self.encoded)
        return -(-n_rows // self.batch_size)

    def locate(self, batch: int) -> tuple[int, int]:
        """(epoch, batch within it) of a global batch index.

        Raises:
          UsageError: there are no examples.
        """
        if not len(self.encoded):
            raise UsageError("there is no example to read: see skipped.jsonl for what was left out")
        return divmod(batch, self.batches_of_epoch())

    def batch(self, index: int) -> tuple[Batch, int, int]:
        """(this process's rows of a global batch, examples and real tokens of the whole batch)."""
        epoch, within = self.locate(index)
        plan = self._plan(epoch)
        members, _ = plan.rows(within)
        tokens = int(self.encoded.lengths[members].sum())
        if self.encoded.source is not None:
            tokens += int(self.encoded.source.lengths[members].sum())
        return self._make_batch(plan, within, epoch), len(members), tokens

    def iterate(self, examples: int = 0) -> Iterator[tuple[Batch, int, int]]:
        """Endless training batches from a position on, as `batch` gives them.

        Args:
          examples: the position.

        Raises:
          UsageError: the position is no multiple of the batch size.
        """
        if examples % self.batch_size:
            raise UsageError(
                f"cannot resume at example {examples} with optim.batch_size={self.batch_size}: "
                "keep the batch size of the run"
            )
        if self._workers and self.encoded.columns.spilled:
            raise UsageError(
                "data.workers copy the data, which exceed data.memory: set data.workers=0, or raise data.memory"
            )
        self.locate(0)
        # grain imports jax, which the host half does not need before this.
        import grain

        reading = grain.ReadOptions(num_threads=self._threads, prefetch_buffer_size=self._prefetch)
        source = _Source(self, examples // self.batch_size)
        dataset = grain.MapDataset.source(source).to_iter_dataset(reading)
        if self._workers:
            _parse_flags()
            dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=self._workers))
        return iter(dataset)

    def epoch(self, batch_size: int, limit: int = 0) -> Iterator[Batch]:
        """This process's part of batches that hold each of the first `limit` rows (0: all) once, unpacked and not
        shuffled. The batch size is rounded up to a multiple of the slices; the last batch is filled with invalid
        rows."""
        batch_size = max(1, -(-batch_size // self._parts)) * self._parts
        lengths = self._keys[:limit] if limit else self._keys
        plan = packing.plan_sequential(lengths, self._sizes, batch_size)
        for within in range(len(plan.lengths)):
            yield self._make_batch(plan, within)

    def example_batch(self) -> Batch:
        """A global batch of the largest shape with only padding, used for its shapes."""
        empty, need = (np.zeros(0, np.int64), np.zeros(self.batch_size, np.int64)), self.batch_size * self.numerals
        groups = self._group_rows(self.batch_size, self._parts, 0)
        return self._gather(*empty, *self.shapes()[-1][1:], groups=groups, need=need, epoch=0)

    def shapes(self) -> list[tuple[int, ...]]:
        """The distinct (rows, positions) of training batches, ascending; with an encoder also of sources."""
        # Buckets of characters may need the same room.
        lengths = [(self._length,)] if self.encoded.packed else dict.fromkeys(self._shapes.values())
        return [(self.batch_size, *shape) for shape in lengths]

    def _plan(self, epoch: int) -> packing.EpochPlan:
        with self._lock:
            plan = self._plans.pop(epoch, None) or self._make_plan(epoch)
            # Reader threads work on two neighbouring epochs at most: keep the two used last.
            self._plans = dict([*self._plans.items(), (epoch, plan)][-2:])
            return plan

    def _make_plan(self, epoch: int) -> packing.EpochPlan:
        if self.encoded.packed:
            return packing.plan_packed(self._filling, self.batch_size, self._seed, epoch)
        return packing.plan_buckets(self._keys, self._sizes, self.batch_size, self._seed, epoch)

    @functools.cached_property
    def _filling(self) -> packing.Filling:
        # Cached and lazy: evaluation does not need it, and it takes a second for a hundred thousand texts.
        return packing.fill_rows(self.encoded.lengths, self.encoded.numbers, self._length, self.numerals)

    def _make_batch(self, plan: packing.EpochPlan, within: int, epoch: int = -1) -> Batch:
        size = int(plan.lengths[within])
        # A process that reads all rows needs no slices, so they need not be equal.
        has_all_slices = len(self._slices) == self._parts
        rows = plan.rows(within) if has_all_slices else plan.rows(within, self._slices, self._parts)
        groups = self._group_rows(len(rows[1]), len(self._slices), epoch)
        shape = self._shapes.get(size, (size,))
        return self._gather(*rows, *shape, groups=groups, need=self._count_needed(plan, within, epoch), epoch=epoch)

    def _group_rows(self, rows: int, slices: int, epoch: int) -> np.ndarray | None:
        """The group of each row, over `slices` slices; None unless rows share tables. Evaluations have no
        microbatches."""
        if not self._shares:
            return None
        return distinct.Groups(slices, self._accumulate if epoch >= 0 else 1).group_rows(rows)

    def _count_needed(self, plan: packing.EpochPlan, within: int, epoch: int) -> int:
        """The largest number of numerals in a shared table of any process, so that all make batches of one shape."""
        groups = self._group_rows(plan.size, self._parts, epoch)
        return 0 if groups is None else distinct.count_needed(self.encoded.columns, *plan.rows(within), groups)

    def _gather(
        self,
        members: np.ndarray,
        counts: np.ndarray,
        length: int,
        source: int = 0,
        *,
        groups: np.ndarray | None,
        need: int,
        epoch: int,
    ) -> Batch:
        """A batch; evaluations, which have no epoch, always mask alike. `groups`, `need`: see `_group_rows`,
        `_count_needed`."""
        encoded = self.encoded
        shared_options: dict[str, Any] = dict(
            pad_id=encoded.pad_id, declared=encoded.declared, host_features=self._host_features
        )
        source_tokens = None
        if encoded.source is not None:
            source_tokens = gather_source(
                encoded.columns,
                members,
                counts,
                length=source,
                numerals=self.source_numerals,
                features=self._source_features,
                **shared_options,
            )
        shared = None
        if groups is not None:
            limit = len(counts) // (int(groups.max()) + 1) * self.numerals
            shared = groups, distinct.choose_width(need, limit)
        return gather(
            encoded.columns,
            members,
            counts,
            kind=encoded.kind,
            length=length,
            numerals=self.numerals,
            shared=shared,
            grammar=self._grammar,
            start_state=encoded.start_state,
            features=self._features,
            source=source_tokens,
            masking=None if encoded.masking is None else (encoded.masking, self._seed, epoch),
            **shared_options,
        )

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__ | {"_lock": None, "_plans": {}}
        if self._features is not None and (self._source_features is not None or self.encoded.source is None):
            state["_host_features"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"_lock": threading.Lock()})


class _Source:
    """Global batches from `start` on, with random access; grain needs a length."""

    def __init__(self, loader: Loader, start: int):
        self._loader, self._start = loader, start

    def __len__(self) -> int:
        return 2**40

    def __getitem__(self, index: int) -> tuple[Batch, int, int]:
        return self._loader.batch(self._start + int(index))


def _choose_buckets(encoded: Encoded, data: Any) -> tuple[np.ndarray, dict[int, tuple[int, ...]]]:
    """(the number that selects each row's bucket, bucket → positions, with an encoder also of sources).

    Raises:
      UsageError: no such `data.bucket_by`, or the rows do not tell their characters.
    """
    limit, by = data.get("buckets", 4), data.get("bucket_by", BUCKET_BY[0])
    if by not in BUCKET_BY:
        raise UsageError(f"data.bucket_by={by!r}: choose one of {', '.join(BUCKET_BY)}")
    length, source = int(data.length), encoded.source
    if by == "tokens":
        if source is not None:
            return packing.pair_buckets(encoded.lengths, source.lengths, limit, length, source_length(data))
        sizes = packing.choose_buckets(encoded.lengths, limit, longest=length)
        return encoded.lengths, {size: (size,) for size in sizes}
    if (keys := encoded.characters) is None:
        raise UsageError("data.bucket_by=characters: these rows were encoded elsewhere, without their texts")
    lengths = (encoded.lengths,) if source is None else (encoded.lengths, source.lengths)
    longest = (length,) if source is None else (length, source_length(data))
    return keys, packing.find_shapes(keys, packing.choose_buckets(keys, limit), lengths, longest)


def _round_shape(shape: Sequence[int], data: Any) -> tuple[int, ...]:
    longest = (int(data.length), source_length(data))
    return tuple(min(packing.round_up(size, 8), most) for size, most in zip(shape, longest, strict=False))


def _make_room(numbers: int, few_shapes: bool) -> int:
    """The numerals of a batch whose rows have at most so many."""
    return packing.round_up(numbers, 4) if few_shapes else max(4, -(-numbers // 4) * 4)


def _find_slices(config: Any) -> tuple[Sequence[int], int]:
    # Without JAX there are no devices and no other processes, so it need not be imported.
    jax: Any = sys.modules.get("jax")
    if jax is None:
        return (0,), 1
    tensor = config.mesh.tensor if "mesh" in config else 1
    parts, processes = max(1, jax.device_count() // tensor), jax.process_count()
    if parts % processes:
        raise UsageError(
            f"config.mesh.tensor={tensor} spans processes, and only the mesh says which rows this one reads: give "
            "the loader its processes.row_shards, or do this in one process"
        )
    share = parts // processes
    return range(jax.process_index() * share, (jax.process_index() + 1) * share), parts


def _parse_flags() -> None:
    # grain's worker processes use absl flags, which a notebook never parses.
    from absl import flags

    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
