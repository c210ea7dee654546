"""Numbers → vectors, for probes, geometry and notebooks: any numeral embedding of the library and any frozen table.

    make("dice:form=d,dim=300,low=0,high=9999")      an embedding and its options, as in a config
    make("prototype:dim=64", seed=3)                 learned ones have random parameters of that seed
    make("table:path=glove.6B.300d.txt")             a GloVe or word2vec text file; a path alone says the same

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
from numjax.numeral.exact import plain, to_numeral
from numjax.numeral.surface import take_apart
from numjax.pretrained import word_vectors
from numjax.types import Numeral

# What a user may give for a number: "7", "1,000" and "seven" too.
Written = int | float | Decimal | str | np.integer | np.floating
Numbers = Sequence[Written] | np.ndarray | range

DIM = 64  # of embeddings that have no width of their own
DIGITS = 20
TABLE = "table"
_CHUNK = 1 << 14  # numbers embedded at once
_NAMED = 5  # numbers that a message names


class Vectors(Protocol):
    """What `make` gives.

    Attributes:
      spec: what it was made from. dim: D. options: name → value, of an embedding with its defaults.
    """

    spec: str
    dim: int
    options: dict[str, Any]

    def __call__(self, numbers: Numbers) -> np.ndarray:
        """float64[N, D] on the host: computed in float64 where the embedding can, else float32 vectors widened.

        Raises:
          DataError: a text is no number, lies outside a range that is enforced, or has no row in the table.
        """
        ...

    def on_device(self, numbers: Numbers) -> jax.Array:
        """float32[N, D] on the default backend, as a model gets them. Errors as `__call__`."""
        ...

    def known(self, numbers: Numbers) -> np.ndarray:
        """bool[N]: which have a vector. All, of an embedding."""
        ...


def names() -> list[str]:
    """The numeral embeddings of the library."""
    return [name for name in build.names("embed") if build.find("embed", name).kind == "numeral"]


def make(spec: str, seed: int = 0, **defaults: Any) -> Vectors:
    """The vectors that a specification `name:key=value,…` stands for.

    Args:
      seed: of random parameters, and of the embedding's own `seed` where the specification does not say.
      defaults: options of the embedding, taken where it has them and the specification does not say.

    Raises:
      UsageError: an unknown name, option or value. DataError: a table that cannot be read.
    """
    name, options = read_spec(spec)
    if name == TABLE:
        return _Frozen(spec, options)
    return _Embedded(spec, name, options, seed, defaults)


def read_spec(spec: str) -> tuple[str, dict[str, Any]]:
    """(name, options by name, typed as the embedding declares them).

    Raises:
      UsageError: it cannot be read, or names what is not there.
    """
    if spec and pathlib.Path(spec).expanduser().is_file():
        return TABLE, {"path": spec}
    name, options = blocks.split(spec)
    if name == TABLE:
        if options.keys() != {"path"}:
            raise UsageError(f"{spec!r}: a table has one option: table:path=FILE")
        return name, options
    if "/" in name or pathlib.Path(name).suffix in (".txt", ".vec", ".gz"):
        raise UsageError(f"{spec}: no such file of vectors")
    _numeral(name)
    block = blocks.read("embed", spec)
    return name, {key: value for key, value in block.items() if key != "name"}


def has(spec: str, *options: str) -> bool:
    """Whether the embedding of a specification has all these options."""
    name, _ = read_spec(spec)
    return name != TABLE and set(options) <= set(inspect.signature(_numeral(name)).parameters)


def values(numbers: Numbers) -> list[Decimal]:
    """Exactly what the numbers are worth; words are worth what their numeral is.

    Raises:
      DataError: a text is not one number.
    """
    return [_value(number) for number in numbers]


def _value(number: Written) -> Decimal:
    if isinstance(number, Decimal):
        return number
    if not isinstance(number, str):
        # The shortest decimal of a float, not its binary expansion.
        value = Decimal(str(number))
    else:
        parts = take_apart(number)
        found = [] if parts else words.find(number)
        if parts is None and not (len(found) == 1 and found[0].text == number):
            raise DataError(f"{number[:40]!r} is not one number: write 7, 1,000, -3.5 or seven")
        value = parts.value if parts else found[0].value
    if not value.is_finite():
        raise DataError(f"{number} is not a finite number")
    return value


def _numeral(name: str) -> Any:
    cls = build.find("embed", name)
    if cls.kind != "numeral":
        raise UsageError(f"embed {name!r} does not embed numbers: choose {', '.join([*names(), TABLE])}")
    return cls


class _Embedded:
    """An embedding of the library."""

    def __init__(self, spec: str, name: str, options: dict[str, Any], seed: int, defaults: dict[str, Any]):
        declared = inspect.signature(_numeral(name)).parameters
        told = {key: value for key, value in defaults.items() if key in declared}
        if "seed" in declared:
            told.setdefault("seed", seed)
        if "dim" in declared and declared["dim"].default is inspect.Parameter.empty:
            told.setdefault("dim", DIM)
        self.spec = spec
        self.module = build.build("embed", {"name": name, **told, **options})
        self.options = {key: getattr(self.module, key) for key in declared if key not in ("name", "parent")}
        # A number that lies in the range, where there is one that is enforced.
        try:
            one = self._read([Decimal(str(self.options.get("low", 1)))])
            shapes = jax.eval_shape(self.module.init, jax.random.key(seed), *one)
            self.dim = int(jax.eval_shape(self.module.apply, shapes, *one).shape[-1])
        except (ArithmeticError, IndexError, TypeError, ValueError) as error:
            if isinstance(error, UsageError | DataError):
                raise
            reason = " ".join(str(error).split())[:120]
            raise UsageError(
                f"{spec}: these options make no embedding ({reason}); see numjax/embed/{name}.py"
            ) from error
        if self.dim < 1:
            raise UsageError(f"{spec}: vectors of {self.dim} dimensions; give dim=1 or more")
        # Most have a few parameters, many none, for which nothing need be compiled.
        drawn = jax.jit(self.module.init)(jax.random.key(seed), *one) if jax.tree.leaves(shapes) else shapes
        self.params = drawn.get("params", {})
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
        # Chunks of a few sizes: nothing is compiled anew for another count.
        size = min(_CHUNK, max(16, 1 << (len(exact) - 1).bit_length()))
        found = []
        for begin in range(0, len(exact), size):
            chunk = exact[begin : begin + size]
            padded = chunk + [chunk[-1]] * (size - len(chunk))
            found.append(self._apply({"params": self.params}, *self._read(padded))[: len(chunk)])
        return jnp.concatenate(found)

    def known(self, numbers: Numbers) -> np.ndarray:
        return np.ones(len(numbers), bool)

    def _read(self, exact: Sequence[Decimal]) -> tuple[Numeral, dict[str, np.ndarray]]:
        numerals = to_numeral(exact, DIGITS)
        if not self.module.provides("host_features"):
            return numerals, {}
        return numerals, self.module.host_features(numerals, [plain(value) for value in exact])


class _Frozen:
    """A table read from a file. Words and numerals have rows of their own."""

    def __init__(self, spec: str, options: dict[str, Any]):
        self.spec, self.options = spec, options
        self.table = _read_table(options["path"])
        self.dim = self.table.vectors.shape[1]

    def __call__(self, numbers: Numbers) -> np.ndarray:
        rows = [self._row(number) for number in numbers]
        missing = [str(number) for number, row in zip(numbers, rows, strict=True) if row is None]
        if missing:
            raise DataError(f"{self.options['path']} has no row for {named(missing)}: leave them out")
        return self.table.vectors[np.asarray(rows, int)] if rows else np.zeros((0, self.dim))

    def on_device(self, numbers: Numbers) -> jax.Array:
        return jnp.asarray(self(numbers), jnp.float32)

    def known(self, numbers: Numbers) -> np.ndarray:
        return np.asarray([self._row(number) is not None for number in numbers], bool)

    def _row(self, number: Written) -> int | None:
        value = _value(number)
        written = [number] if isinstance(number, str) else []
        if not isinstance(number, str) or take_apart(number) is not None:
            whole = value == value.to_integral_value() and abs(value) < 10**15
            written += [plain(value), *([f"{int(value)}", f"{int(value):,}"] if whole else [])]
        return next((self.table.row[word] for word in written if word in self.table.row), None)


@functools.lru_cache(4)
def _read_table(path: str) -> word_vectors.Table:
    return word_vectors.read(path)


def named(numbers: Sequence[str]) -> str:
    """How many there are, and the first few: "7 numbers (12, 15, …)"."""
    shown = ", ".join(numbers[:_NAMED]) + ", …" * (len(numbers) > _NAMED)
    return f"{len(numbers)} number{'s' * (len(numbers) != 1)} ({shown})"
