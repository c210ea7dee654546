"""Builder of texts, sums and word problems, mixed: what a model reads before it is trained on word problems."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from numjax.errors import UsageError

from ..builder import ArrayRecordBuilder
from ..problems.generate import generate_records
from ..sampling import split_by_hash
from ..text.builder import TextBuilder
from .passages import list_passages, repeat_passages
from .sums import LONGEST, Sum, generate_sums

KINDS = ("text", "sum", "problem")
SPLITS = ("train", "validation")  # a model that was trained here is tested elsewhere
VALIDATION_SHARE = 0.05  # of the passages of text
_SURPLUS = 1.05  # word problems that are composed for each that is wanted: answers may be fractions, or long


class Pretraining(ArrayRecordBuilder):
    """Options: `path` of a folder of text, or empty for no texts; `size` training records, of which `texts` and
    `sums` are percentages and the rest are word problems (without a path, texts are left out of the mixture);
    `validation` records of each kind; `seed`."""

    FIELDS = {"id": str, "kind": str, "question": str, "answer": str}
    OPTIONS = {"path": "", "size": 20_000, "texts": 25, "sums": 40, "validation": 300, "seed": 0}
    KEYS = {"question": ("question",), "kind": ("kind",)}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        texts, sums = options["texts"], options["sums"]
        if not (texts >= 0 and sums >= 0 and texts + sums <= 100):
            raise UsageError(f"{cls.name}: texts={texts} and sums={sums} are percentages, of at most 100 together")
        if options["size"] < 1 or options["validation"] < 1:
            raise UsageError(f"{cls.name}: size and validation are at least 1")
        if not options["path"] and texts == 100:
            raise UsageError(f"{cls.name}: texts=100 and no path; set path=FOLDER to a folder of text")

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return TextBuilder.files(options) if options["path"] else []

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        validation, seed = self.options["validation"], self.options["seed"]
        rng = np.random.default_rng([seed, 0])
        order = self._draw_order(rng)
        counts = {kind: int((order == index).sum()) for index, kind in enumerate(KINDS)}
        wanted = {split: counts if split == "train" else _count_each(counts, validation) for split in SPLITS}
        held_out = list(_draw_different(np.random.default_rng([seed, 2]), validation))
        questions = {question for question, _ in held_out}
        sums = {"train": generate_sums(np.random.default_rng([seed, 1]), questions), "validation": iter(held_out)}
        problems = self._compose_problems(wanted)
        for split in SPLITS:
            streams = {
                "text": self._read_texts(split, wanted[split]["text"]),
                "sum": ((f"sum-{split}-{i:06d}", *next(sums[split])) for i in range(wanted[split]["sum"])),
                "problem": (record for other_split, record in problems if other_split == split),
            }
            if split != "train":  # mixed too, so that the first records have all kinds
                order = rng.permutation(_repeat_each(wanted[split]))
            for index in order.tolist():
                name, question, answer = next(streams[KINDS[index]])
                yield split, {"id": name, "kind": KINDS[index], "question": question, "answer": answer}

    def _draw_order(self, rng: np.random.Generator) -> np.ndarray:
        """The kind of each training record, int8[size]."""
        texts = self.options["texts"] if self.options["path"] else 0
        shares = np.array([texts, self.options["sums"], 100 - self.options["texts"] - self.options["sums"]], float)
        if not shares.sum():
            raise UsageError(f"{self.name}: texts, sums and problems are all 0")
        ends = np.round(np.cumsum(shares / shares.sum()) * self.options["size"]).astype(int)
        return rng.permutation(np.repeat(np.arange(len(KINDS), dtype=np.int8), np.diff(ends, prepend=0)))

    def _read_texts(self, split: str, count: int) -> Iterator[tuple[str, str, str]]:
        """Yields passages of a split, which a hash of the passage decides."""
        if not count:
            return
        root, files = pathlib.Path(self.options["path"]).expanduser(), self.files(self.options)
        if split == "train":  # once: each pass meets the same documents
            for _ in list_passages(files, root, self.skip):
                pass

        def list_split() -> Iterator[tuple[str, str]]:
            return (
                pair
                for pair in list_passages(files, root)
                if split_by_hash(pair[1], self.options["seed"], VALIDATION_SHARE, 0.0) == split
            )

        for name, passage in repeat_passages(list_split, count, split):
            yield name, passage, ""

    def _compose_problems(
        self, wanted: Mapping[str, Mapping[str, int]]
    ) -> Iterator[tuple[str, tuple[str, str, str]]]:
        """Yields (split, record) of more word problems than are wanted, training first, whose answer is a short
        decimal. Those of validation have other wordings."""
        sizes = {split: round(_SURPLUS * wanted[split]["problem"]) + 20 for split in SPLITS}
        for split, record in generate_records(
            size=sizes["train"],
            test=1,
            seed=self.options["seed"],
            invented=0.3,
            wordings=0,
            validation=sizes["validation"],
        ):
            answer = record["ans"]
            if split in SPLITS and "/" not in answer and len(answer) <= LONGEST:
                yield split, (record["id"], record["text_en"], answer)


def _draw_different(rng: np.random.Generator, count: int) -> Iterator[Sum]:
    """Yields so many sums, no two alike."""
    seen: set[str] = set()
    for drawn in generate_sums(rng):
        if len(seen) == count:
            return
        if drawn.question not in seen:
            seen.add(drawn.question)
            yield drawn


def _count_each(counts: Mapping[str, int], number: int) -> dict[str, int]:
    """So many records of each kind that training has."""
    return {kind: number if count else 0 for kind, count in counts.items()}


def _repeat_each(counts: Mapping[str, int]) -> np.ndarray:
    return np.repeat(np.arange(len(KINDS)), [counts[kind] for kind in KINDS])


Builder = Pretraining
