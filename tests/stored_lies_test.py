"""Lies in stored files that random damage seldom tells, one by one."""

from __future__ import annotations

import json

import pytest

from numjax.bundled import data
from numjax.config import origin
from numjax.errors import DataError, UsageError
from numjax.text import vocab
from tests import damage
from tests.stored_files_test import CONFIG, VOCABULARIES, store
from tests.stored_files_test import folder as _folder  # noqa: F401  the folder that `store` writes to


@pytest.mark.parametrize("changes", [{"marks": [1]}, {"marks": "abc"}, {"files": "cells.json"}])
def test_marks_and_files_of_a_vocabulary_are_lists_of_names(changes):
    with pytest.raises(UsageError, match="its marks and files are no lists of names"):
        vocab.load(store("cells", dict(VOCABULARIES["cells"]._files()), changes))


@pytest.mark.parametrize(("lie", "says"), [(True, "no object of"), (1.0, "no object of"), (7, "ids are not")])
def test_ids_of_bytes_are_whole_numbers(lie, says):
    whole = dict(VOCABULARIES["gpt2"]._files())
    table = json.loads(whole["vocab.json"])
    piece = next(piece for piece, token in table.items() if token == 1)
    with pytest.raises(UsageError, match=says):
        vocab.load(store("gpt2", whole | {"vocab.json": json.dumps(table | {piece: lie}).encode()}))


def test_a_merge_of_what_is_no_byte_is_named():
    whole = dict(VOCABULARIES["gpt2"]._files())
    table = json.loads(whole["vocab.json"])
    table |= {piece: len(table) + i for i, piece in enumerate(("你", "你t"))}
    lied = {"vocab.json": json.dumps(table).encode(), "merges.txt": whole["merges.txt"] + "你 t\n".encode()}
    with pytest.raises(UsageError, match="the merge to '你t' is none of bytes"):
        vocab.load(store("gpt2", whole | lied))


def test_a_piece_that_is_no_text_is_one_line():
    model = VOCABULARIES["sentencepiece"]._files()["sentencepiece.model"]
    lied = model.replace(b"\n\x011\x15", b"\n\x01\xff\x15", 1)
    assert lied != model
    with pytest.raises(UsageError, match="not a sentencepiece model"):
        vocab.load(store("sentencepiece", {"sentencepiece.model": lied}))


@pytest.mark.parametrize(
    ("path", "lie", "says"),
    [
        (("compile_cache",), damage.DROPPED, "compile_cache is missing"),
        (("optim", "batch_size"), "8", "optim.batch_size is '8'"),
        (("num_seeds",), 1.5, "num_seeds is 1.5"),
        (("seed",), True, "seed is True"),
        (("mesh",), 3, "mesh.data is missing"),
    ],
)
def test_a_setting_of_another_type_is_named(path, lie, says, tmp_path):
    origin.save_config(tmp_path, damage.replace(CONFIG, path, lie))
    with pytest.raises(UsageError, match=f"config.json: {says}"):
        origin.get_config(tmp_path)


def test_a_dataset_of_another_version_is_one_line(tmp_path):
    folder = data.load("mme", "train", tmp_path, size=80).folder
    info = json.loads((folder / "dataset_info.json").read_text())
    (folder / "dataset_info.json").write_text(json.dumps(info | {"version": "9.9.9"}))
    with pytest.raises(DataError, match="is damaged"):
        data.load("mme", "train", tmp_path, size=80)
