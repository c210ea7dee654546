"""Strategies that damage what is stored, as a broken disk or a stranger would."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

DROPPED = object()
LIES = (
    DROPPED, None, True, -1, 0, 4, 1.5, 10**30, 2**62, float("nan"), "", "x", "../x", "/etc/passwd", "a\0b", "\ud800",
    [], {}, [None], [[1]], [10**6, 10**6], {"name": 3},
)  # fmt: skip
TEXTS = (b"", b"null", b"3", b"[]", b"{}", b"[1", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000, b"1" * 5000)


def paths(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The paths to everything inside a value of JSON."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from paths(value[key], (*path, key))


def replace(value: Any, path: tuple, lie: Any) -> Any:
    """The value with something else at a path, or nothing."""
    out = node = copy.deepcopy(value)
    for key in path[:-1]:
        node = node[key]
    if lie is DROPPED:
        del node[path[-1]]
    else:
        node[path[-1]] = lie
    return out


def json_values(value: Any) -> st.SearchStrategy[Any]:
    """The value with one or two lies in it."""
    places = list(paths(value))
    one = st.builds(replace, st.just(value), st.sampled_from(places), st.sampled_from(LIES))
    return one | one.flatmap(
        lambda lied: (
            st.builds(replace, st.just(lied), st.sampled_from(list(paths(lied)) or [("x",)]), st.just(None))
            if list(paths(lied))
            else st.just(lied)
        )
    )


def json_files(value: Any) -> st.SearchStrategy[bytes]:
    """The file of a value: with lies, cut short, or something else altogether."""
    content = json.dumps(value).encode()
    lies = json_values(value).map(lambda lied: json.dumps(lied).encode())
    return lies | contents(content) | st.sampled_from(TEXTS)


def contents(content: bytes) -> st.SearchStrategy[bytes]:
    """A file cut short, with some bytes changed, put in or taken out."""
    index, some = st.integers(0, max(0, len(content) - 1)), st.binary(min_size=1, max_size=9)
    cut = index.map(lambda i: content[:i])
    changed = st.builds(lambda i, b: content[:i] + b + content[i + len(b) :], index, some)
    grown = st.builds(lambda i, b: content[:i] + b + content[i:], index, some | st.just(b"\xff" * 8))
    shrunk = st.builds(lambda i, n: content[:i] + content[i + n :], index, st.integers(1, 9))
    return cut | changed | grown | shrunk
