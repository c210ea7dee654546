"""The types that everything shares. NamedTuples only: pytrees without importing jax.

Shape legend: B rows of a batch, T positions, N numerals of a row, K digits kept, D model width,
V vocabulary (padded), S grammar states, C grammar classes, L tree levels.

What the five systems put into a `Batch` (absent parts are `None` or an empty dict):

| system  | inputs                                  | source            | targets            | labels              |
|---------|-----------------------------------------|-------------------|--------------------|---------------------|
| GPT     | ids positions segment_ids               | –                 | ids mask, shifted  | label (classifying) |
| NumGPT  | + numeral_index numerals                | –                 | + numeral_index    | label               |
| DICE    | + numeral_index on every sub-word of a  | –                 | –                  | span (first, last)  |
|         |   number, pooled by the regulariser     |                   |                    |                     |
| digits  | decoder: ids positions segment_ids      | types mark [AGG], | ids mask, shifted, | answer (a Numeral)  |
|         |   numeral_index (digits of the answer)  | numeral_index     | numeral_index      |                     |
| LUNA    | numeral_index at [NUM], types (segment, | –                 | ids mask, masked   | label, tags[B,T],   |
|         |   row, column), features (characters)   |                   | positions, numbers | operator, scale     |
| MathGPT | + types tree_positions; grammar_state   | –                 | ids mask, shifted  | –                   |
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from numjax.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from numjax.expr.tree import Tree

    Array = Any  # jax.Array on the device, np.ndarray on the host: the same types serve both

# --- Host: text, numbers and formulas with their surface.


class Span(NamedTuple):
    """A numeral found in a text: `text == source[start:end]`, `value` exact."""

    start: int
    end: int
    text: str
    value: Decimal


def _differs(self: object, other: object) -> bool:
    return not self == other


class Text(NamedTuple):
    """Running text between numbers and formulas. Unlike bare tuples, it never equals a Mark of that name."""

    text: str

    def __eq__(self, other: object) -> bool:
        return type(other) is Text and self.text == other.text

    __ne__ = _differs


class Number(NamedTuple):
    """A numeral as written and what it is worth, exactly ("50%" is worth 0.50)."""

    surface: str
    value: Decimal


class Formula(NamedTuple):
    """A formula as written, and its operator tree (None: not read). Those with equal trees are equal."""

    surface: str
    tree: Tree | None

    def __eq__(self, other: object) -> bool:
        if type(other) is not Formula or self.tree != other.tree:
            return False
        return self.tree is not None or self.surface == other.surface

    __ne__ = _differs


class Mark(NamedTuple):
    """A reserved token such as [CLS], [SEP], [EOS] or [MASK]: never spelled by text, never equal to one."""

    name: str

    def __eq__(self, other: object) -> bool:
        return type(other) is Mark and self.name == other.name

    __ne__ = _differs


Segment = Text | Number | Formula | Mark
Document = tuple[Segment, ...]


class Example(NamedTuple):
    """What a task makes of one record.

    Attributes:
      id: names the record in `skipped.jsonl` and in predictions.
      document: what the decoder (or the only stack) reads.
      source: what an encoder reads, if there is one; `document` is then what is written: [CLS], the answer, [EOS],
        with `loss_from` 1.
      loss_from: index of the first segment of `document` that is scored; earlier ones are prompt.
      labels: arrays or numbers that heads other than the language model's predict.
      spans: label name → characters [start, end) of the document's surface, None where they are not known. The
        pipeline makes of each the label int32[2], the first and last position that cover any of them, or −1 where
        the row has not all of them.
      slide: segments [start, end) that are read in windows where the text is too long and `data.overflow` is
        "windows".
      units: characters [start, end) of the document's surface, in order and apart, with more numbers of each. In the
        channel "units" a position has the number of its unit, from 1, and these; all 0 outside units.
      traits: characters [start, end) of the document's surface, in order and apart, with numbers that become token
        types behind the scheme's own; 0 elsewhere.
      limits: segments [start, end) and how many of their positions are read, the first ones.
      spare: segments [start, end) of the prompt, in the order in which they are left out where it is too long and
        `data.overflow` is "shorten". Of a range that is one Text only as many last positions as need be.
      unread: what of the record the task itself leaves out, in words: "rows not read: 180"; "" for nothing.
      reference: whatever the task's metric compares a prediction with; stays on the host.
    """

    id: str
    document: Document
    source: Document | None = None
    loss_from: int = 0
    labels: Mapping[str, Any] = {}
    reference: Any = None
    spare: tuple[tuple[int, int], ...] = ()
    spans: Mapping[str, tuple[int, int] | None] = {}
    slide: tuple[int, int] | None = None
    units: tuple[tuple[int, ...], ...] = ()
    traits: tuple[tuple[int, ...], ...] = ()
    limits: tuple[tuple[int, int, int], ...] = ()
    unread: str = ""


# --- Both halves: arrays.


class Numeral(NamedTuple):
    """Decimal numbers as arrays: value = sign · d0.d1d2… · 10^exponent.

    Digits are canonical (most significant first, no leading and no trailing zeros; zero has none) and
    padded with zeros to K. On the host every digit is kept; here a number of more than K digits is
    rounded half-even and flagged by `n_digits > K`. The exponent is that of the first digit and is found
    from the digits: a float32 log10 is wrong at many powers of ten.

    Attributes:
      sign: int8[...], −1 or +1 (−0 keeps its −1).
      digits: int8[..., K].
      n_digits: int32[...], significant digits of the exact number. exponent: int32[...].
      valid: bool[...], False in padding.
    """

    sign: Array
    digits: Array
    n_digits: Array
    exponent: Array
    valid: Array

    @property
    def mantissa(self) -> Array:
        """f ∈ (−10, 10) with value = f · 10^exponent, float32[...] (NumGPT eq. 1)."""
        xp = self.digits.__array_namespace__()
        places = xp.asarray([10.0**-i for i in range(self.digits.shape[-1])], dtype=xp.float32)
        return self.sign.astype(xp.float32) * (self.digits.astype(xp.float32) * places).sum(axis=-1)

    @property
    def value(self) -> Array:
        """The number in float32[...]; ±inf and 0 beyond its range."""
        xp = self.digits.__array_namespace__()
        return self.mantissa * xp.power(xp.asarray(10.0, dtype=xp.float32), self.exponent.astype(xp.float32))

    @property
    def log10(self) -> Array:
        """log10 |value|, float32[...]; −inf for zero. Exact in the exponent at any size."""
        xp = self.digits.__array_namespace__()
        return xp.log10(xp.abs(self.mantissa)) + self.exponent.astype(xp.float32)


class Channel(NamedTuple):
    """What a position has beside its id, declared once by who gives it; batches, windows and meshes treat all alike.

    Attributes:
      name: its key in `Tokens.channels`.
      fill: its value in padding.
      of_ids: it follows from the ids: where one is hidden, so is this.
    """

    name: str
    fill: int = 0
    of_ids: bool = False


TYPES, TREE_POSITIONS, UNITS = Channel("types"), Channel("tree_positions", -1), Channel("units")


class Tokens(NamedTuple):
    """One stream of positions: a row of a batch, or a batch of rows.

    Attributes:
      ids: int32[B, T]. positions: int32[B, T], counted anew in each segment.
      segment_ids: int32[B, T]; 0 is padding, 1, 2, … the examples packed into a row.
      channels: what else a position has, by name, each int32[B, T, …], see `Channel`. Schemes give "types"
        ([B, T] or [B, T, n]: segment, column, node type, …) and "tree_positions" ([B, T, L], child index at each
        level, −1 below the node), tasks "units" ([B, T, n], see `Example.units`), parts what they declare.
      numeral_index: int32[B, T], which numeral of the row the position belongs to, −1 for none. No channel: it points
        into `numerals`, so that packing renumbers it and masking takes it away.
      numerals: Numeral[B, N]. features: what an embedding's `host_features` computed, each [B, N, …].
      distinct: Numeral[S, W], the numerals of S groups of as many rows each, every string once a group, where the
        config says data.shared; embeddings then read these, and `features` are theirs, each [S, W, …].
      distinct_index: int32[B, T], which of its group's `distinct` a position belongs to, −1 for none.
    """

    ids: Array
    positions: Array
    segment_ids: Array
    channels: Mapping[str, Array] = {}
    numeral_index: Array | None = None
    numerals: Numeral | None = None
    features: Mapping[str, Array] = {}
    distinct: Numeral | None = None
    distinct_index: Array | None = None

    def channel(self, name: str) -> Array:
        """What positions have under this name.

        Raises:
          UsageError: there is no such channel.
        """
        if name not in self.channels:
            raise UsageError(f"positions have no channel {name!r}: choose a scheme, a task or a part that gives it")
        return self.channels[name]


class Targets(NamedTuple):
    """What is to be predicted: shifted by one for language models, in place for masked ones.

    Attributes:
      ids: int32[B, T]. mask: bool[B, T], True where scored.
      numeral_index: int32[B, T] into the numerals of `inputs`, −1 for none.
      numerals: Numeral[B, T]; gathered on device from `numeral_index`, never shipped.
    """

    ids: Array
    mask: Array
    numeral_index: Array | None = None
    numerals: Numeral | None = None


class Batch(NamedTuple):
    """What a step reads. `grammar_state[b, t]` is where the automaton stands before target t (see `Features`).

    Attributes:
      inputs: what the decoder (or the only stack) reads.
      targets: None for tasks that only classify. source: what the encoder reads.
      grammar_state: int32[B, T]. labels: name → array[B, …].
      example_id: int32[B]: index into the task's examples (−1 in padding and in packed rows).
      valid: bool[B], False for rows that only fill the batch.
    """

    inputs: Tokens
    targets: Targets | None = None
    source: Tokens | None = None
    grammar_state: Array | None = None
    labels: Mapping[str, Any] = {}
    example_id: Array | None = None
    valid: Array | None = None


class Features(NamedTuple):
    """A document as a scheme encodes it: one unpadded row on the host.

    Attributes:
      ids: int32[T]. numeral_index: int32[T] into `numbers`, −1 for none.
      numbers: the numerals with their surfaces, in order.
      starts: first position of each segment of the document, and at the end T.
      grammar_state: int32[T + 1], where the automaton stands before each id, and at the end after the last one:
        its state + S · what the stack forbids there (see `NO_PUSH`).
      channels: name → int32[T, …], as in `Tokens`.
      offsets: int32[T, 2], the characters [start, end) of the document's surface that a position covers; None where
        nobody asked.
    """

    ids: np.ndarray
    numeral_index: np.ndarray
    numbers: tuple[Number, ...]
    starts: tuple[int, ...]
    grammar_state: np.ndarray
    channels: Mapping[str, np.ndarray] = {}
    offsets: np.ndarray | None = None


class Grammar(NamedTuple):
    """A pushdown automaton over token classes, as tables. One automaton, four masters: it masks
    training, masks decoding, yields tree positions and validates. `text/tables.py` makes the tables,
    `text/grammar.py` runs them on the host, `decode/grammar.py` on device.

    A token v of class c = class_of[v] can be read in state s when next_state[s, c] ≥ 0. Reading it then
    does stack_op[s, c]: NONE moves to next_state; PUSH opens a node: the state to return to,
    return_state[s, c], and the child count 0 go on the stack; NEXT counts one more child of the open
    node; POP closes it, counts it as a child of its parent, and goes to the state that was pushed.
    The stack adds: NEXT and POP need an open node, PUSH a free level, NEXT and PUSH room for one more
    child in the open node, POP that the open node has its least number of children.

    Arity is a property of the class (tokens of different arity are in different classes), so every mask is
    a gather by class. `close_cost` is exact: it knows arity, width and depth, so a decoder that keeps
    cost ≤ remaining length can always end the text, and never sees a state without a legal token.

    Attributes:
      class_of: int32[V]. Class 0 can never be read (padding, unknown, reserved).
      next_state: int32[S, C], −1 where forbidden. Ignored for POP (the stack decides) except for its sign.
      stack_op: int32[S, C], one of NONE, PUSH, POP, NEXT. return_state: int32[S, C], what a PUSH stores.
      token_type: int32[S, C], type of a token by where it stands (the same piece may be text or symbol).
      placed: bool[S], the token read in this state stands in a tree and has a tree position.
      given: bool[S, C], may stand there but is never to be generated ([CLS], [SEP], …).
      least_children, most_children: int32[C], of the node that a PUSH of this class opens.
      close_cost: int32[S, N, W + 1, D + 1], least number of tokens that close the open node, its POP
        included, from a state, with n children still lacking, room for w more and d free levels.
      end_cost: int32[S], least number of tokens to an accepting state at an empty stack.
      start: state before the first token. accept: bool[S], a text may end here, with an empty stack.
      recalled: bool[C], a class of one token that may be generated only where the text, or the source that an encoder
        reads, has shown it before: a pointer to one of its numbers. It may be read wherever the tables say so.
      counted: bool[D + 1], whether a node that is closed counts as a child of its parent, by the depth of what is
        read next. True but for MathGPT's own generator, which forgets it at even depths.
      answer: state in which an answer begins, whatever the prompt before it; −1 where what is written goes on from
        the prompt's end.
    """

    class_of: Array
    next_state: Array
    stack_op: Array
    return_state: Array
    token_type: Array
    placed: Array
    given: Array
    least_children: Array
    most_children: Array
    close_cost: Array
    end_cost: Array
    start: Array | int
    accept: Array
    recalled: Array
    counted: Array
    answer: Array | int = -1

    @property
    def max_depth(self) -> int:
        """D, the limit on open nodes; a tree position has D + 1 levels, the root's first."""
        return self.close_cost.shape[3] - 1

    @property
    def max_width(self) -> int:
        """W, the limit on the children of one node."""
        return self.close_cost.shape[2] - 1


NONE, PUSH, POP, NEXT = 0, 1, 2, 3

# What a stack forbids, as bits of a code: training masks are one gather by state + S · code.
NO_PUSH, NO_NEXT, NO_POP = 1, 2, 4


class Allowed(NamedTuple):
    """Which tokens may be predicted: classes[..., class_of[v]]. Gathered class by class, so no [B, T, V]
    mask exists outside a chunk of the loss."""

    classes: Array  # bool[B, T, C] or, in the decoder, bool[B, C]
    class_of: Array  # int32[V]


class HeadOut(NamedTuple):
    """A head before its softmax: what it reads and the weights to read it with, so that a loss can go in
    chunks."""

    hidden: Array
    weights: Mapping[str, Array]


class Estimate(NamedTuple):
    """A number as a head that approximates gave it, for those who look: nothing is read back of it.

    Attributes:
      mantissa: float32[...], unrounded; exponent: int32[...].
      low, high: the canonical numbers between which the central `share` (float32[...]) of its density lies.
    """

    mantissa: Array
    exponent: Array
    low: Numeral
    high: Numeral
    share: Array


class Scores(NamedTuple):
    """What a head says of the next token.

    Attributes:
      mass: float32[B, V], log masses.
      numeral: the canonical number that [NUM] would stand for, rounded as the head rounds; None where numbers are
        spelled.
      estimate: where the head only approximates.
    """

    mass: Array
    numeral: Numeral | None = None
    estimate: Estimate | None = None


class Loss(NamedTuple):
    """A sum and a count: divided once, last, so that any sharding or accumulation is exact. `parts`: more pairs."""

    total: Array
    count: Array
    parts: Mapping[str, tuple[Array, Array]] = {}


class TrainState(NamedTuple):
    """All that training carries from step to step; keys come from fold_in(fold_in(seed, step), microbatch)."""

    step: Array
    params: Any
    opt_state: Any
    ema: Any = None
