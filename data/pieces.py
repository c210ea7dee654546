"""Reads files that hold one record, or one record a line: plain, packed or in archives, one record at a time."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import pathlib
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import IO, Any, NamedTuple

from numjax.errors import DataError

from .text.read import MAX_LINE, name_below, number_lines

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".zip")
_OPEN = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
LARGEST = 32 << 20  # bytes of one record, since a packed file may unpack to any number

_DAMAGED = (
    EOFError,
    zlib.error,
    gzip.BadGzipFile,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    NotImplementedError,
)


_SPLITS = re.compile(r"(?:^|[_.-])(train|valid|val|dev|test)(?:set)?(?=[_.-]|$)")
_SPLIT_NAMES = {"train": "train", "test": "test", "valid": "validation", "val": "validation", "dev": "validation"}


class Piece(NamedTuple):
    """The raw bytes of one file or of one line of a .jsonl; if `data` is None, `reason` says why.

    Attributes:
      id: its name below the root, in an archive behind the archive's name. suffix: one of `kinds`.
    """

    id: str
    suffix: str
    data: bytes | None
    reason: str = ""


def list_files(path: str, kinds: Sequence[str], what: str) -> list[pathlib.Path]:
    """Returns the sorted files of some kinds (".html", ".jsonl", …) under a folder, also packed and in archives.

    If `path` is a file, returns that file. Hidden files are skipped.

    Raises:
      DataError: there are no such files.
    """
    root = pathlib.Path(path).expanduser().absolute()
    if not root.exists():
        raise DataError(f"{root}: no such file or folder; set path to {what}")
    if root.is_file():
        return [root]
    suffixes = (*ARCHIVES, *_add_packed(kinds))
    candidates = (file for file in root.rglob("*") if file.name.lower().endswith(suffixes) and file.is_file())
    files = sorted(file for file in candidates if not any(p.startswith(".") for p in file.relative_to(root).parts))
    if not files:
        raise DataError(f"{root}: no {', '.join(kinds)} there, by itself or in an archive; set path to {what}")
    return files


def _add_packed(kinds: Sequence[str]) -> tuple[str, ...]:
    return (*kinds, *(kind + packed for kind in kinds for packed in _OPEN))


def find_split(name: str) -> str:
    """Returns the split that a file's own name states, or else the nearest folder's or archive's around it.

    "" if none of them states just one: "train_test.zip" states none.

    Args:
      name: below the root, as in `Piece.id`.
    """
    for part in reversed(name.lower().split("/")):
        stated = {_SPLIT_NAMES[word] for word in _SPLITS.findall(part)}
        if len(stated) == 1:
            return stated.pop()
    return ""


def is_archive(path: pathlib.Path) -> bool:
    """Whether a file is an archive of other files."""
    return path.name.lower().endswith(ARCHIVES)


def read_file(path: pathlib.Path, root: pathlib.Path, kinds: Sequence[str]) -> Iterator[Piece]:
    """Yields the records of a file in order. If the file is damaged, the last piece reports it; earlier ones stay."""
    name = name_below(path, root)
    empty = True
    try:
        for piece in _read_members(path, name, kinds) if is_archive(path) else _read_single(path, name, kinds):
            empty = False
            yield piece
    except _DAMAGED as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        yield Piece(name, "", None, f"damaged or cut short ({reason[:80]}); what precedes the break is kept")
    except OSError as error:
        yield Piece(name, "", None, f"cannot be read: {error.strerror or error}")
    else:
        if empty:
            yield Piece(name, "", None, "holds nothing to read")


def _read_single(path: pathlib.Path, name: str, kinds: Sequence[str]) -> Iterator[Piece]:
    with open(path, "rb") as file:
        yield from _read_pieces(file, name, kinds)


def _read_members(path: pathlib.Path, name: str, kinds: Sequence[str]) -> Iterator[Piece]:
    if path.name.lower().endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if _is_wanted(member.filename, kinds) and not member.is_dir():
                    if member.flag_bits & 1:
                        yield Piece(f"{name}/{member.filename}", "", None, "is encrypted")
                        continue
                    with archive.open(member) as file:
                        yield from _read_member(file, f"{name}/{member.filename}", kinds)
        return
    with tarfile.open(path, "r|*") as archive:
        for member in archive:
            if member.isfile() and _is_wanted(member.name, kinds):
                file = archive.extractfile(member)
                assert file is not None
                yield from _read_member(file, f"{name}/{member.name.removeprefix('./')}", kinds)
            # tarfile would keep every member in memory.
            archive.members = []  # type: ignore[attr-defined]


def _read_member(file: IO[bytes], name: str, kinds: Sequence[str]) -> Iterator[Piece]:
    try:
        yield from _read_pieces(file, name, kinds)
    except _DAMAGED as error:
        yield Piece(name, "", None, f"damaged ({' '.join(str(error).split())[:80]})")


def _is_wanted(name: str, kinds: Sequence[str]) -> bool:
    parts = pathlib.PurePosixPath(name).parts
    return name.lower().endswith(_add_packed(kinds)) and not any(
        part.startswith(".") and part != "." for part in parts
    )


def _read_pieces(file: IO[bytes], name: str, kinds: Sequence[str]) -> Iterator[Piece]:
    """Yields the records of one file, packed or not."""
    shown_name = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    plain_name = name.lower()
    packing = next((suffix for suffix in _OPEN if plain_name.endswith(suffix)), None)
    if packing is not None:
        file, plain_name = _OPEN[packing](file), plain_name.removesuffix(packing)  # type: ignore[assignment]
    suffix = next((suffix for suffix in kinds if plain_name.endswith(suffix)), "")
    if suffix == ".jsonl":
        for number, line in number_lines(file):
            if line is None:
                yield Piece(f"{shown_name}:{number}", suffix, None, f"longer than {MAX_LINE >> 20} MiB")
            elif line.strip():
                yield Piece(f"{shown_name}:{number}", suffix, line)
        return
    content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        yield Piece(shown_name, suffix, None, f"larger than {LARGEST >> 20} MiB")
    else:
        yield Piece(shown_name, suffix, content)


def parse_objects(piece: Piece) -> Iterator[tuple[str, Any]]:
    """Yields (id, object or a ValueError) for a piece of JSON that holds one object or a list of them."""
    if piece.data is None:
        yield piece.id, ValueError(piece.reason)
        return
    try:
        value = json.loads(piece.data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        yield piece.id, ValueError("not JSON in UTF-8")
        return
    if isinstance(value, list):
        yield from ((f"{piece.id}:{number}", item) for number, item in enumerate(value))
    else:
        yield piece.id, value
