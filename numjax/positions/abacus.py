"""The place of a digit in its number (Abacus; McLeish et al. 2024, arXiv 2405.17399).

Legend: B rows, T positions, D width.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn import id_table
from numjax.protocols import FromContext
from numjax.types import Channel, Tokens

DRAWS = ("row", "batch")


@dataclasses.dataclass(frozen=True)
class Run(protocols.Producer):
    """The channel "digit_run": a token's number within its run of digits, from 1; 0 if it is no digit.

    Behind a mark that says that the first digit stands for 10^−n (`reversed` with `places`), n digits have −n … −1,
    so that numbers are aligned at their points.

    Attributes:
      digits: ids of the tokens that are one digit. marks: (id, n) of these marks.
    """

    digits: tuple[int, ...]
    marks: tuple[tuple[int, int], ...] = ()
    channel = Channel("digit_run", of_ids=True)

    @functools.cached_property
    def _is_digit(self) -> np.ndarray:
        return id_table.make_set(self.digits)

    @functools.cached_property
    def _counts(self) -> np.ndarray:
        return id_table.make(self.marks)

    def compute(self, ids: np.ndarray) -> np.ndarray:
        """The channel of a document's ids, int32[T]."""
        inside = id_table.look_up(self._is_digit, ids)
        at = np.arange(1, len(ids) + 1)
        before = np.maximum.accumulate(np.where(inside, 0, at))  # the last token before the run, from 1
        runs = at - before
        below = np.concatenate([[0], id_table.look_up(self._counts, ids)])
        runs = runs - below[before] - (runs <= below[before])
        return np.where(inside, runs, 0).astype(np.int32)

    def begin(self, rows: int) -> jax.Array:
        """The value of the latest digit in the run, −n − 1 behind a mark, 0 before a run: int32[rows]."""
        return jnp.zeros(rows, jnp.int32)

    def step(self, state: jax.Array, token: jax.Array, automaton_state: Any) -> tuple[jax.Array, jax.Array]:
        """(the state with this token, the channel's value at it)."""
        del automaton_state
        inside = (token[:, None] == jnp.asarray(self.digits, jnp.int32)).any(-1)
        begin = jnp.zeros_like(state)
        for mark, count in self.marks:
            begin = jnp.where(token == mark, -count - 1, begin)
        run = state + 1 + (state == -1)  # 1 follows −1
        return jnp.where(inside, run, begin), jnp.where(inside, run, 0)


class Positions(protocols.Positions, nn.Module):
    """A learned vector for each place in a run of digits, added to the stack's input; nothing is added to text.

    Write numbers with their last digit first, so that digits of the same power of ten have the same place. With
    `places` of scheme reversed, whose numbers begin with the place of their first digit, this is so behind the point
    too: these places have vectors of their own. A comma between thousands begins a new run all the same.

    The authors' code differs in four ways. It draws one offset for a batch (`draw`). It adds a learned vector to
    text too (`text`). It fails beyond its table, whose last vector is used here. And its places begin again behind a
    decimal point (`places=0` of the scheme): whole parts of reversed numbers are aligned, but not their fractions.

    Attributes:
      most: number of places with a vector of their own; further places use the last one.
      offset: in training places are shifted by a random number up to this, so that places that few numbers reach are
        trained too.
      draw: "row": each row has its own offset; "batch": all rows of a step have the same.
      slots: count [NUM]s instead of digits, for schemes that write a number in several of them, as FoNE does.
      text: whether tokens that are no digit get a vector too, one for all of them.
      init_std: as in `learned`.

    Raises:
      UsageError: `draw` is none of these, `most` is below 1, or `offset` below 0.
    """

    stack: FromContext[protocols.Stack | None] = None
    digit_symbols: FromContext[tuple[tuple[int, int], ...] | None] = None
    marks: FromContext[tuple[tuple[str, int], ...] | None] = None
    num_id: FromContext[int | None] = None
    most: int = 128
    offset: int = 99
    draw: str = "row"
    slots: bool = False
    text: bool = False
    init_std: float = 0.02
    reads_channels = ("digit_run",)

    def setup(self):
        if self.most < 1 or self.offset < 0:
            raise UsageError("positions abacus: most must be at least 1, and offset not negative")
        width, init = self.require_stack().width, nn.initializers.normal(self.init_std)
        shape = (self._n_below + self.most + self.offset, width)
        self.runs = self.param("runs", init, shape, jnp.float32)
        if self.text:
            self.text_vector = self.param("text", init, (width,), jnp.float32)

    def producers(self) -> tuple[protocols.Producer, ...]:
        if self.draw not in DRAWS:
            raise UsageError(f"positions abacus: draw must be one of {', '.join(DRAWS)}, not {self.draw!r}")
        if self.slots:
            if self.num_id is None:
                raise UsageError("positions abacus: this vocabulary has no [NUM]: set slots=False")
            return (Run((self.num_id,)),)
        if not self.digit_symbols:
            raise UsageError("positions abacus: no token of this vocabulary is a digit: split its digits")
        return (Run(tuple(token for token, _ in self.digit_symbols), self._find_marks()),)

    def added(self, tokens: Tokens, deterministic: bool = True) -> jax.Array:
        """x[B, T, D]."""
        places = tokens.channel("digit_run")
        index = self._n_below + jnp.minimum(places, self.most) - (places > 0)
        if not deterministic:
            rows = (places.shape[0] if self.draw == "row" else 1, 1)
            index = index + jax.random.randint(self.make_rng("dropout"), rows, 0, self.offset + 1)
        vectors = jnp.take(self.runs, jnp.maximum(index, 0), axis=0)
        return jnp.where((places != 0)[..., None], vectors, self.text_vector if self.text else 0.0)

    @property
    def _n_below(self) -> int:
        """Number of places behind the point that have a vector."""
        return max((count for _, count in self._find_marks()), default=0)

    def _find_marks(self) -> tuple[tuple[int, int], ...]:
        """(id, n) of the marks [10^-n]."""
        matches = ((re.fullmatch(r"\[10\^-([0-9]+)\]", name), token) for name, token in self.marks or ())
        return tuple((token, int(match[1])) for match, token in matches if match)
