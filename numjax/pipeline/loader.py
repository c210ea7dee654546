"""Batches as a function of the step: a plan an epoch, read through grain.

A position is one global example count (rows read so far), so a run resumes on any number of processes: each
takes its own slice of every global batch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from numjax.errors import UsageError
from numjax.pipeline import packing
from numjax.pipeline.batch import HostFeatures, assemble
from numjax.pipeline.features import Encoded
from numjax.types import Batch

__all__ = ["Encoded", "Loader"]


class Loader:
    """Reads an encoded split.

    Attributes:
      encoded: the rows.
      options: the config's data block.
      batch_size: rows of a global batch.
    """

    def __init__(
        self,
        encoded: Encoded,
        config: Any,
        *,
        seed: int,
        host_features: HostFeatures | None = None,
        process: tuple[int, int] | None = None,
    ):
        """
        Args:
          config: reads its blocks data, optim.batch_size and objectives.
          seed: of the data order.
          process: (index, count); by default jax's.

        Raises:
          UsageError: the batch does not divide over processes.
        """
        self.encoded, self.options, self.batch_size = encoded, config.data, int(config.optim.batch_size)
        self._seed, self._host_features = seed, host_features
        self._grammar = any(block.get("constrain", False) for block in config.objectives.values())
        if process is None:
            import jax

            process = (jax.process_index(), jax.process_count())
        self._process, self._processes = process
        if self.batch_size % self._processes:
            raise UsageError(f"optim.batch_size={self.batch_size} does not divide over {self._processes} processes")
        self._sizes = packing.buckets(encoded.lengths) if len(encoded) else [16]
        most = int(encoded.numbers.max(initial=1))
        if encoded.packed:
            # Room for twice the numerals that a full row holds on average; rows richer in numbers pack fewer texts.
            share = encoded.numbers.sum() / max(1, encoded.lengths.sum())
            most = max(most, int(np.ceil(2 * share * self.options.length)))
        self._numerals = max(4, -(-most // 4) * 4)
        self._plans: dict[int, packing.Plan] = {}
        self._first = [0]
        self._lock = threading.Lock()

    def batches_of_epoch(self, epoch: int) -> int:
        """Batches of an epoch (packed plans differ a little from epoch to epoch)."""
        return len(self._plan(epoch).batches)

    def locate(self, batch: int) -> tuple[int, int]:
        """(epoch, batch within it) of a global batch index."""
        epoch = 0
        while True:
            with self._lock:
                known = len(self._first)
            if epoch + 1 >= known:
                count = self.batches_of_epoch(epoch)
                with self._lock:
                    if len(self._first) == epoch + 1:
                        self._first.append(self._first[epoch] + count)
            if batch < self._first[epoch + 1]:
                return epoch, batch - self._first[epoch]
            epoch += 1

    def batch(self, index: int) -> tuple[Batch, int, int]:
        """(this process's rows of a global batch, valid rows and real tokens of the whole batch)."""
        epoch, within = self.locate(index)
        plan = self._plan(epoch)
        return self._make(plan.batches[within], plan.lengths[within])

    def iterate(self, examples: int = 0) -> Iterator[tuple[Batch, int, int]]:
        """Training batches without end, from a position on.

        Raises:
          UsageError: the position is no multiple of the batch size.
        """
        import grain

        if examples % self.batch_size:
            raise UsageError(
                f"cannot resume at example {examples} with optim.batch_size={self.batch_size}: "
                "keep the batch size of the run"
            )
        start = examples // self.batch_size
        reading = grain.ReadOptions(num_threads=self.options.threads, prefetch_buffer_size=self.options.prefetch)
        dataset = grain.MapDataset.source(_Source(self, start)).to_iter_dataset(reading)
        if self.options.workers:
            dataset = dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=self.options.workers))
        return iter(dataset)

    def epoch(self, batch_size: int, limit: int = 0) -> Iterator[Batch]:
        """Each example once, this process's rows; batches are filled up with invalid rows."""
        batch_size = max(self._processes, batch_size // self._processes * self._processes)
        lengths = self.encoded.lengths[:limit] if limit else self.encoded.lengths
        plan = packing.sequential(lengths, self._sizes, batch_size)
        for rows, length in zip(plan.batches, plan.lengths, strict=True):
            yield self._make(rows, length)[0]

    def example_batch(self) -> Batch:
        """A global batch of the largest shape, all padding: for shapes."""
        length = self.options.length if self.encoded.packed else self._sizes[-1]
        return self._assemble([[]] * self.batch_size, length)

    def shapes(self) -> list[tuple[int, int]]:
        """The distinct (rows, positions) of training batches."""
        lengths = [self.options.length] if self.encoded.packed else self._sizes
        return [(self.batch_size, length) for length in lengths]

    def _plan(self, epoch: int) -> packing.Plan:
        with self._lock:
            found = self._plans.get(epoch)
        if found is None:
            encoded = self.encoded
            if encoded.packed:
                found = packing.packed(
                    encoded.lengths,
                    encoded.numbers,
                    self.options.length,
                    self._numerals,
                    self.batch_size,
                    self._seed,
                    epoch,
                )
            else:
                found = packing.bucketed(encoded.lengths, self._sizes, self.batch_size, self._seed, epoch)
            with self._lock:
                self._plans[epoch] = found
                for old in [e for e in self._plans if e < epoch - 1]:
                    del self._plans[old]
        return found

    def _make(self, rows: list[np.ndarray], length: int) -> tuple[Batch, int, int]:
        share = len(rows) // self._processes
        mine = rows[self._process * share : (self._process + 1) * share]
        tokens = int(sum(self.encoded.lengths[row].sum() for row in rows))
        return self._assemble(mine, length), sum(len(row) > 0 for row in rows), tokens

    def _assemble(self, rows, length: int) -> Batch:
        like = self.encoded.rows[0].labels if len(self.encoded) else {}
        return assemble(
            [[self.encoded.rows[i] for i in row] for row in rows],
            [list(row) for row in rows],
            kind=self.encoded.kind,
            length=length,
            numerals=self._numerals,
            digits=self.options.digits,
            host_features=self._host_features,
            grammar=self._grammar,
            label_shapes=dict(like),
        )


class _Source:
    """Global batches from `start` on, in random access; grain wants a length."""

    def __init__(self, loader: Loader, start: int):
        self._loader, self._start = loader, start

    def __len__(self) -> int:
        return 2**40

    def __getitem__(self, index: int) -> tuple[Batch, int, int]:
        return self._loader.batch(self._start + int(index))
