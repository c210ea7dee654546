"""Numbers → vectors, for probes, geometry and notebooks: any numeral embedding of the library and any frozen table.

    make("dice:form=d,dim=300,low=0,high=9999")      an embedding and its options, as in a config
    make("prototype:dim=64", seed=3)                 learned ones have random parameters of that seed
    make("table:path=glove.6B.300d.txt")             a GloVe or word2vec text file; the path alone means the same

Legend: N numbers, D width.
"""

from __future__ import annotations

import functools
import inspect
import pathlib
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from numjax import build
from numjax.config import blocks
from numjax.errors import DataError, UsageError
from numjax.numeral import words
from numjax.numeral.exact import format_plain, to_numeral
from numjax.numeral.surface import take_apart
from numjax.pretrained import word_vectors
from numjax.types import Numeral

# A number as users may give it, also as text: "7", "1,000", "seven".
NumberLike = int | float | Decimal | str | np.integer | np.floating
Numbers = Sequence[NumberLike] | np.ndarray | range

DIM = 64  # the width of embeddings that have no default
DIGITS = 20
TABLE = "table"
_CHUNK = 1 << 14  # numbers embedded at once
_MAX_NAMED = 5  # numbers that a message names


class Vectors(Protocol):
    """A function from numbers to vectors, as `make` returns it.

    Attributes:
      spec: its specification. dim: D. options: name → value; for an embedding with its defaults.
    """

    spec: str
    dim: int
    options: dict[str, Any]

    def __call__(self, numbers: Numbers) -> np.ndarray:
        """float64[N, D] on the host, computed in float64 if the embedding can do that, else converted from float32.

        Raises:
          DataError: a text is no number, is outside a range that is enforced, or has no row in the table.
        """
        ...

    def on_device(self, numbers: Numbers) -> jax.Array:
        """float32[N, D] on the default backend, as a model gets them. Errors as in `__call__`."""
        ...

    def has_vector(self, numbers: Numbers) -> np.ndarray:
        """bool[N], whether each number has a vector; always True for an embedding."""
        ...


def names() -> list[str]:
    """Names of the library's numeral embeddings."""
    return [name for name in build.names("embed") if build.find("embed", name).kind == "numeral"]


def make(spec: str, seed: int = 0, **defaults: Any) -> Vectors:
    """The vectors of a specification `name:key=value,…`.

    Args:
      seed: for random parameters, and for the embedding's option `seed` if the specification does not set it.
      defaults: options of the embedding, used if it has them and the specification does not set them.

    Raises:
      UsageError: a name, option or value is unknown. DataError: the table cannot be read.
    """
    name, options = parse_spec(spec)
    if name == TABLE:
        return _TableVectors(spec, options)
    return _EmbeddingVectors(spec, name, options, seed, defaults)


def parse_spec(spec: str) -> tuple[str, dict[str, Any]]:
    """(name, options by name) of a specification, with the types that the embedding declares.

    Raises:
      UsageError: the specification cannot be parsed, or a name in it is unknown.
    """
    if spec and pathlib.Path(spec).expanduser().is_file():
        return TABLE, {"path": spec}
    name, options = blocks.split_spec(spec)
    if name == TABLE:
        if options.keys() != {"path"}:
            raise UsageError(f"{spec!r}: a table has one option: table:path=FILE")
        return name, options
    if "/" in name or pathlib.Path(name).suffix in (".txt", ".vec", ".gz"):
        raise UsageError(f"{spec}: no such file of vectors")
    _find_numeral_embed(name)
    block = blocks.parse_block("embed", spec)
    return name, {key: value for key, value in block.items() if key != "name"}


def has_options(spec: str, *options: str) -> bool:
    """Whether the embedding of a specification has all these options."""
    name, _ = parse_spec(spec)
    return name != TABLE and set(options) <= set(inspect.signature(_find_numeral_embed(name)).parameters)


def values(numbers: Numbers) -> list[Decimal]:
    """The exact values of the numbers; words have the value of their numeral.

    Raises:
      DataError: a text is not one number.
    """
    return [_value(number) for number in numbers]


def _value(number: NumberLike) -> Decimal:
    if isinstance(number, Decimal):
        return number
    if not isinstance(number, str):
        # The shortest decimal of a float, not its binary expansion.
        value = Decimal(str(number))
    else:
        parts = take_apart(number)
        word_spans = [] if parts else words.find(number)
        if parts is None and not (len(word_spans) == 1 and word_spans[0].text == number):
            raise DataError(f"{number[:40]!r} is not one number: write 7, 1,000, -3.5 or seven")
        try:
            value = parts.value if parts else word_spans[0].value
        except ArithmeticError:
            raise DataError(f"{number[:40]} is out of range: an exponent has at most 17 digits") from None
    if not value.is_finite():
        raise DataError(f"{number} is not a finite number")
    return value


def _find_numeral_embed(name: str) -> Any:
    cls = build.find("embed", name)
    if cls.kind != "numeral":
        raise UsageError(f"embed {name!r} does not embed numbers: choose {', '.join([*names(), TABLE])}")
    return cls


class _EmbeddingVectors:
    """An embedding of the library."""

    def __init__(self, spec: str, name: str, options: dict[str, Any], seed: int, defaults: dict[str, Any]):
        declared = inspect.signature(_find_numeral_embed(name)).parameters
        arguments = {key: value for key, value in defaults.items() if key in declared}
        if "seed" in declared:
            arguments.setdefault("seed", seed)
        if "dim" in declared and declared["dim"].default is inspect.Parameter.empty:
            arguments.setdefault("dim", DIM)
        self.spec = spec
        self.module = build.build("embed", {"name": name, **arguments, **options})
        self.options = {key: getattr(self.module, key) for key in declared if key not in ("name", "parent")}
        # An example number, inside the range if the embedding enforces one.
        try:
            example = self._embed_inputs([Decimal(str(self.options.get("low", 1)))])
            shapes = jax.eval_shape(self.module.init, jax.random.key(seed), *example)
            self.dim = int(jax.eval_shape(self.module.apply, shapes, *example).shape[-1])
        except (ArithmeticError, IndexError, TypeError, ValueError) as error:
            if isinstance(error, UsageError | DataError):
                raise
            reason = " ".join(str(error).split())[:120]
            raise UsageError(
                f"{spec}: these options make no embedding ({reason}); see numjax/embed/{name}.py"
            ) from error
        if self.dim < 1:
            raise UsageError(f"{spec}: vectors of {self.dim} dimensions; give dim=1 or more")
        # Many embeddings have no parameters: then nothing need be compiled.
        variables = jax.jit(self.module.init)(jax.random.key(seed), *example) if jax.tree.leaves(shapes) else shapes
        self.params = variables.get("params", {})
        self._apply = jax.jit(self.module.apply)

    def __call__(self, numbers: Numbers) -> np.ndarray:
        if self.module.provides("host_vectors"):
            numerals = to_numeral(values(numbers), DIGITS)
            return np.asarray(self.module.host_vectors(numerals), np.float64)
        return np.asarray(self.on_device(numbers), np.float64)

    def on_device(self, numbers: Numbers) -> jax.Array:
        exact = values(numbers)
        if not exact:
            return jnp.zeros((0, self.dim))
        # Chunks have few sizes, so that another count needs no compilation.
        size = min(_CHUNK, max(16, 1 << (len(exact) - 1).bit_length()))
        chunks = []
        for begin in range(0, len(exact), size):
            chunk = exact[begin : begin + size]
            padded = chunk + [chunk[-1]] * (size - len(chunk))
            chunks.append(self._apply({"params": self.params}, *self._embed_inputs(padded))[: len(chunk)])
        return jnp.concatenate(chunks)

    def has_vector(self, numbers: Numbers) -> np.ndarray:
        return np.ones(len(numbers), bool)

    def _embed_inputs(self, exact: Sequence[Decimal]) -> tuple[Numeral, dict[str, np.ndarray]]:
        numerals = to_numeral(exact, DIGITS)
        if not self.module.provides("host_features"):
            return numerals, {}
        return numerals, self.module.host_features(numerals, [format_plain(value) for value in exact])


class _TableVectors:
    """A table from a file. Words and numerals have separate rows."""

    def __init__(self, spec: str, options: dict[str, Any]):
        self.spec, self.options = spec, options
        self.table = _read_table(options["path"])
        self.dim = self.table.vectors.shape[1]

    def __call__(self, numbers: Numbers) -> np.ndarray:
        rows = [self._row(number) for number in numbers]
        missing = [str(number) for number, row in zip(numbers, rows, strict=True) if row is None]
        if missing:
            raise DataError(f"{self.options['path']} has no row for {summarise_numbers(missing)}: leave them out")
        return self.table.vectors[np.asarray(rows, int)] if rows else np.zeros((0, self.dim))

    def on_device(self, numbers: Numbers) -> jax.Array:
        return jnp.asarray(self(numbers), jnp.float32)

    def has_vector(self, numbers: Numbers) -> np.ndarray:
        return np.asarray([self._row(number) is not None for number in numbers], bool)

    def _row(self, number: NumberLike) -> int | None:
        value = _value(number)
        spellings = [number] if isinstance(number, str) else []
        if not isinstance(number, str) or take_apart(number) is not None:
            is_whole = value == value.to_integral_value() and abs(value) < 10**15
            spellings += [format_plain(value), *([f"{int(value)}", f"{int(value):,}"] if is_whole else [])]
        return next((self.table.row[word] for word in spellings if word in self.table.row), None)


@functools.lru_cache(4)
def _read_table(path: str) -> word_vectors.Table:
    return word_vectors.read_table(path)


def summarise_numbers(numbers: Sequence[str]) -> str:
    """The count and the first few numbers, as text: "7 numbers (12, 15, …)"."""
    first_numbers = ", ".join(numbers[:_MAX_NAMED]) + ", …" * (len(numbers) > _MAX_NAMED)
    return f"{len(numbers)} number{'s' * (len(numbers) != 1)} ({first_numbers})"
