"""Files that hold a record each, or one a line, single, packed or in archives; one record in memory at a time."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import pathlib
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import IO, Any, NamedTuple

from numjax.errors import DataError

from .text.read import MAX_LINE, label, numbered

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".zip")
_OPEN = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
LARGEST = 32 << 20  # bytes of one record; a packed file may hold any number

_DAMAGED = (
    EOFError,
    zlib.error,
    gzip.BadGzipFile,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    NotImplementedError,
)


class Piece(NamedTuple):
    """One file, or one line of a .jsonl, as it was written; where `data` is None why there is none.

    Attributes:
      id: its name below the root, in an archive with the archive's. suffix: of `kinds`.
    """

    id: str
    suffix: str
    data: bytes | None
    reason: str = ""


def list_files(path: str, kinds: Sequence[str], what: str) -> list[pathlib.Path]:
    """The files of some kinds (".html", ".jsonl", …) under a folder, also packed and in archives, or the file itself.

    Hidden ones are left out. Sorted.

    Raises:
      DataError: there are none.
    """
    root = pathlib.Path(path).expanduser().absolute()
    if not root.exists():
        raise DataError(f"{root}: no such file or folder; set path to {what}")
    if root.is_file():
        return [root]
    suffixes = (*ARCHIVES, *_packed(kinds))
    found = (file for file in root.rglob("*") if file.name.lower().endswith(suffixes) and file.is_file())
    files = sorted(file for file in found if not any(p.startswith(".") for p in file.relative_to(root).parts))
    if not files:
        raise DataError(f"{root}: no {', '.join(kinds)} there, by itself or in an archive; set path to {what}")
    return files


def _packed(kinds: Sequence[str]) -> tuple[str, ...]:
    return (*kinds, *(kind + packed for kind in kinds for packed in _OPEN))


def is_archive(path: pathlib.Path) -> bool:
    """Whether a file holds any number of others."""
    return path.name.lower().endswith(ARCHIVES)


def read_file(path: pathlib.Path, root: pathlib.Path, kinds: Sequence[str]) -> Iterator[Piece]:
    """The records of a file in order. Before a break in a damaged one they are kept; the break is one more piece."""
    name = label(path, root)
    empty = True
    try:
        for piece in _members(path, name, kinds) if is_archive(path) else _single(path, name, kinds):
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


def _single(path: pathlib.Path, name: str, kinds: Sequence[str]) -> Iterator[Piece]:
    with open(path, "rb") as file:
        yield from _file(file, name, kinds)


def _members(path: pathlib.Path, name: str, kinds: Sequence[str]) -> Iterator[Piece]:
    if path.name.lower().endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if _wanted(member.filename, kinds) and not member.is_dir():
                    if member.flag_bits & 1:
                        yield Piece(f"{name}/{member.filename}", "", None, "is encrypted")
                        continue
                    with archive.open(member) as file:
                        yield from _member(file, f"{name}/{member.filename}", kinds)
        return
    with tarfile.open(path, "r|*") as archive:
        for member in archive:
            if member.isfile() and _wanted(member.name, kinds):
                file = archive.extractfile(member)
                assert file is not None
                yield from _member(file, f"{name}/{member.name.removeprefix('./')}", kinds)
            # tarfile remembers every member that it has passed.
            archive.members = []  # type: ignore[attr-defined]


def _member(file: IO[bytes], name: str, kinds: Sequence[str]) -> Iterator[Piece]:
    try:
        yield from _file(file, name, kinds)
    except _DAMAGED as error:
        yield Piece(name, "", None, f"damaged ({' '.join(str(error).split())[:80]})")


def _wanted(name: str, kinds: Sequence[str]) -> bool:
    parts = pathlib.PurePosixPath(name).parts
    return name.lower().endswith(_packed(kinds)) and not any(part.startswith(".") and part != "." for part in parts)


def _file(file: IO[bytes], name: str, kinds: Sequence[str]) -> Iterator[Piece]:
    """The records of one file, packed or not."""
    written = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    plain = name.lower()
    packed = next((suffix for suffix in _OPEN if plain.endswith(suffix)), None)
    if packed is not None:
        file, plain = _OPEN[packed](file), plain.removesuffix(packed)  # type: ignore[assignment]
    suffix = next((suffix for suffix in kinds if plain.endswith(suffix)), "")
    if suffix == ".jsonl":
        for number, line in numbered(file):
            if line is None:
                yield Piece(f"{written}:{number}", suffix, None, f"longer than {MAX_LINE >> 20} MiB")
            elif line.strip():
                yield Piece(f"{written}:{number}", suffix, line)
        return
    found = file.read(LARGEST + 1)
    if len(found) > LARGEST:
        yield Piece(written, suffix, None, f"larger than {LARGEST >> 20} MiB")
    else:
        yield Piece(written, suffix, found)


def objects(piece: Piece) -> Iterator[tuple[str, Any]]:
    """(id, object; or a ValueError why there is none) of a piece that holds JSON: one object, or a list of them."""
    if piece.data is None:
        yield piece.id, ValueError(piece.reason)
        return
    try:
        value = json.loads(piece.data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        yield piece.id, ValueError("not JSON in UTF-8")
        return
    if isinstance(value, list):
        yield from ((f"{piece.id}:{number}", one) for number, one in enumerate(value))
    else:
        yield piece.id, value
