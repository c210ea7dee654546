"""The shared types. All are NamedTuples: pytrees that need no import of jax.

Shape legend: B rows of a batch, T positions, N numerals of a row, K digits kept, D model width,
V vocabulary (padded), S grammar states, C grammar classes, L tree levels.

What the systems put into a `Batch` (absent parts are `None` or an empty dict):

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
    """A numeral in a text: `text == source[start:end]`, `value` exact."""

    start: int
    end: int
    text: str
    value: Decimal


def _differs(self: object, other: object) -> bool:
    return not self == other


class Text(NamedTuple):
    """Text between numbers and formulas. Unlike bare tuples, it never equals a Mark of the same name."""

    text: str

    def __eq__(self, other: object) -> bool:
        return type(other) is Text and self.text == other.text

    __ne__ = _differs


PART = "…"  # begins the surface of a part of a number behind its first one, see `text/slots.py`


class Number(NamedTuple):
    """A numeral as written and its exact value ("50%" has the value 0.50)."""

    surface: str
    value: Decimal


class Formula(NamedTuple):
    """A formula as written, and its operator tree (None: not parsed). Formulas with equal trees are equal."""

    surface: str
    tree: Tree | None

    def __eq__(self, other: object) -> bool:
        if type(other) is not Formula or self.tree != other.tree:
            return False
        return self.tree is not None or self.surface == other.surface

    __ne__ = _differs


class Mark(NamedTuple):
    """A reserved token such as [CLS], [SEP], [EOS] or [MASK]: text never spells it and never equals it."""

    name: str

    def __eq__(self, other: object) -> bool:
        return type(other) is Mark and self.name == other.name

    __ne__ = _differs


Segment = Text | Number | Formula | Mark
Document = tuple[Segment, ...]


class NumberRange(NamedTuple):
    """A set of decimal numbers, 0 among them. None: no limit.

    Attributes:
      signed: negative numbers belong to it.
      digits: most significant digits; with 0 only the number 0 is left.
      places: most digits behind the point; 0: whole numbers.
      low, high: least and largest power of ten of the first significant digit.
    """

    signed: bool = True
    digits: int | None = None
    places: int | None = None
    low: int | None = None
    high: int | None = None

    def holds(self, value: Decimal) -> bool:
        """Whether a finite number belongs to it; −0 counts as 0."""
        digits = value.as_tuple().digits
        # Without the zeros at its end; Decimal's own arithmetic would round to 28 digits.
        text = "".join(map(str, digits)).strip("0")
        if not text:
            return True
        last, first = value.adjusted() - len(text) + 1, value.adjusted()
        return (
            (self.signed or value > 0)
            and (self.digits is None or len(text) <= self.digits)
            and (self.places is None or last >= -self.places)
            and (self.low is None or first >= self.low)
            and (self.high is None or first <= self.high)
        )

    def intersect(self, other: NumberRange) -> NumberRange:
        """The numbers of both."""

        def limit(choose: Any, *values: int | None) -> int | None:
            return choose((value for value in values if value is not None), default=None)

        return NumberRange(
            self.signed and other.signed,
            limit(min, self.digits, other.digits),
            limit(min, self.places, other.places),
            limit(max, self.low, other.low),
            limit(min, self.high, other.high),
        )

    def describe(self) -> str:
        """The range in words: "numbers (at most 3 digits, first digit from 10^-10 to 10^14)"."""
        limits = [] if self.digits is None else [f"at most {self.digits} digits"]
        if self.places:
            limits.append(f"at most {self.places} behind the point")
        ends = [f"{word} 10^{n}" for word, n in (("from", self.low), ("to", self.high)) if n is not None]
        limits += [f"first digit {' '.join(ends)}"] if ends else []
        kind = ("" if self.signed else "unsigned ") + ("whole numbers" if self.places == 0 else "numbers")
        return f"{kind} ({', '.join(limits)})" if limits else f"all {kind}"


class Abilities(NamedTuple):
    """What a scheme, or a system with its heads and embeddings, can do with numbers. Tests hold each to its word.

    Attributes:
      reads: numbers that reach the model whole: any two of them differ in its input. None: it reads no numbers.
      writes: numbers that it can write exactly. None: it writes no numbers.
      exact: a written number is exactly the one that the model means. False: near it, as where a head predicts one
        real value.
      keeps_format: the written form comes back from the ids alone: "007", "1.0" and "1e3" stay as they are.
      parallel_write: a number is written at one position, all digits at once.
      needs_parse: positions depend on which numbers of a problem are given and which is its answer.
    """

    reads: NumberRange | None
    writes: NumberRange | None
    exact: bool = True
    keeps_format: bool = False
    parallel_write: bool = False
    needs_parse: bool = False


class Example(NamedTuple):
    """A task's record, turned into a document and labels.

    Attributes:
      id: names the record in `skipped.jsonl` and in predictions.
      document: the input of the decoder (or of the only stack).
      source: the input of the encoder, if there is one; `document` then holds the text to generate: [CLS], the
        answer, [EOS], with `loss_from` 1.
      loss_from: index of the first segment of `document` that is scored; earlier ones are the prompt.
      labels: arrays or numbers that heads other than the language model's predict.
      spans: label name → characters [start, end) of the document's surface, None where they are unknown. The
        pipeline turns each into the label int32[2]: the first and last position that cover any of these characters,
        or −1 if the row does not have all of them.
      slide: segments [start, end) that are cut into windows if the text is too long and `data.overflow` is "windows".
      units: (start, end, numbers …) each: the characters [start, end) of the document's surface, in order and
        disjoint, with further numbers. In the channel "units" a position has the number of its unit, from 1, and then
        these numbers; all are 0 outside units.
      traits: (start, end, numbers …) each: the characters [start, end) of the document's surface, in order and
        disjoint, with numbers that become token types after the scheme's own; 0 elsewhere.
      limits: (start, end, count) each: of the segments [start, end) only the first `count` positions are kept.
      spare: segments [start, end) of the prompt, in the order in which they are dropped if it is too long and
        `data.overflow` is "shorten". A range of a single Text loses only as many of its last positions as needed.
      unread: the parts of the record that the task itself leaves out, in words: "rows not read: 180"; "" for none.
      reference: what the task's metric compares a prediction with; stays on the host.
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
    padded with zeros to K. The host keeps every digit; here a number of more than K digits is
    rounded half-even and flagged by `n_digits > K`. The exponent is that of the first digit and is computed
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
    """An array with a value at each position, beside the ids. The scheme, task or part that gives a channel declares
    it once; batches, windows and meshes treat all channels alike.

    Attributes:
      name: its key in `Tokens.channels`.
      fill: its value in padding.
      of_ids: it is computed from the ids: where masking hides an id, it hides the value too.
      reach: it is computed from so many ids before its own too, so masking an id hides the values of that many
        positions behind it.
      ahead: it is computed from so many ids behind its own too.
    """

    name: str
    fill: int = 0
    of_ids: bool = False
    reach: int = 0
    ahead: int = 0


TYPES, TREE_POSITIONS, UNITS = Channel("types"), Channel("tree_positions", -1), Channel("units")


class Tokens(NamedTuple):
    """One stream of positions: a row of a batch, or a batch of rows.

    Attributes:
      ids: int32[B, T]. positions: int32[B, T], counted from 0 in each segment.
      segment_ids: int32[B, T]; 0 is padding, 1, 2, … the examples packed into a row.
      channels: name → int32[B, T, …], see `Channel`. Schemes give "types" ([B, T] or [B, T, n]: segment, column, node
        type, …) and "tree_positions" ([B, T, L], child index at each level, −1 below the node); tasks give "units"
        ([B, T, n], see `Example.units`); parts give the channels that they declare.
      numeral_index: int32[B, T], the numeral of the row that the position belongs to, −1 for none. It is no channel:
        it points into `numerals`, so packing renumbers it and masking removes it.
      numerals: Numeral[B, N]. features: arrays of the embeddings' `host_features`, each [B, N, …].
      distinct: Numeral[S, W], for configs with data.shared: rows form S groups of equal size, and each group lists
        every number string once. Embeddings then use `distinct`, and `features` belong to it, each [S, W, …].
      distinct_index: int32[B, T], the entry of its group's `distinct` that a position belongs to, −1 for none.
      vectors: float32[B, T, D], the input vectors of numbers that a decoder has begun to write, whose values nobody
        knows yet (`Scores.vector`); None elsewhere.
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
    vectors: Array | None = None

    def channel(self, name: str) -> Array:
        """The values of a channel.

        Raises:
          UsageError: there is no such channel.
        """
        if name not in self.channels:
            raise UsageError(f"positions have no channel {name!r}: choose a scheme, a task or a part that gives it")
        return self.channels[name]

    def first_types(self) -> Array:
        """The channel "types", int[..., T]: the scheme's types, without those that a task adds at each position.

        Raises:
          UsageError: there is no such channel.
        """
        types = self.channel(TYPES.name)
        return types if types.ndim == self.ids.ndim else types[..., 0]


class Stack(NamedTuple):
    """A stack of layers as its positions see it.

    Attributes:
      width: D. heads: H, and size: E, dimensions of a head; both 0 without attention. max_length: longest text.
      causal: a position sees only earlier ones. dtype: of the computation.
    """

    width: int
    heads: int = 0
    size: int = 0
    max_length: int = 0
    causal: bool = False
    dtype: str = "float32"


class Targets(NamedTuple):
    """The targets to predict: shifted by one for language models, in place for masked ones.

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
    """The input of a step. `grammar_state[b, t]` is the state of the automaton before target t (see `Features`).

    Attributes:
      inputs: the input of the decoder (or of the only stack).
      targets: None for tasks that only classify. source: the input of the encoder.
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
      grammar_state: int32[T + 1], the automaton before each id, and finally after the last one:
        its state + S · a code of what the stack forbids there (see `NO_PUSH`).
      channels: name → int32[T, …], as in `Tokens`.
      offsets: int32[T, 2], the characters [start, end) of the document's surface that a position covers; None unless
        `Scheme.encode` got `offsets=True`.
    """

    ids: np.ndarray
    numeral_index: np.ndarray
    numbers: tuple[Number, ...]
    starts: tuple[int, ...]
    grammar_state: np.ndarray
    channels: Mapping[str, np.ndarray] = {}
    offsets: np.ndarray | None = None


class Grammar(NamedTuple):
    """A pushdown automaton over token classes, as tables. The same automaton masks training, masks decoding, gives
    tree positions and validates. `text/grammar/tables.py` makes the tables,
    `text/grammar/automaton.py` runs them on the host, `decode/grammar.py` on device.

    A token v of class c = class_of[v] can be read in state s when next_state[s, c] ≥ 0. Reading it then
    does stack_op[s, c]: NONE moves to next_state; PUSH opens a node: the state to return to,
    return_state[s, c], and the child count 0 go on the stack; NEXT counts one more child of the open
    node; POP closes it, counts it as a child of its parent, and goes to the state that was pushed.
    The stack adds: NEXT and POP need an open node, PUSH a free level, NEXT and PUSH room for one more
    child in the open node, POP that the open node has its least number of children.

    Arity is a property of the class (tokens of different arity are in different classes), so every mask is
    a gather by class. `close_cost` is exact: it accounts for arity, width and depth, so a decoder that keeps
    cost ≤ remaining length can always end the text, and never reaches a state without a legal token.

    Attributes:
      class_of: int32[V]. Class 0 can never be read (padding, unknown, reserved).
      next_state: int32[S, C], −1 where forbidden. Ignored for POP (the stack decides) except for its sign.
      stack_op: int32[S, C], one of NONE, PUSH, POP, NEXT. return_state: int32[S, C], what a PUSH stores.
      token_type: int32[S, C], type of a token in this state (the same piece may be text or symbol).
      placed: bool[S], the token read in this state is in a tree and has a tree position.
      given: bool[S, C], the token may be read in this state but is never generated ([CLS], [SEP], …).
      least_children, most_children: int32[C], of the node that a PUSH of this class opens.
      close_cost: int32[S, N, W + 1, D + 1], least number of tokens that close the open node, its POP
        included, from a state, with n children still lacking, room for w more and d free levels.
      end_cost: int32[S], least number of tokens to an accepting state at an empty stack.
      start: state before the first token. accept: bool[S], a text may end here, with an empty stack.
      recalled: bool[C], a class of one token, a pointer to a number. It may be generated only after the text or the
        encoder's source has contained it. It may be read wherever the tables allow it.
      counted: bool[D + 1], whether a closed node counts as a child of its parent, by the depth of the next token.
        False only at even depths of MathGPT's own generator, which forgets it there.
      answer: state in which an answer begins, whatever the prompt before it; −1 where generation continues in the
        prompt's last state.
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

# Bits of the code of what a stack forbids: training masks are one gather by state + S · code.
NO_PUSH, NO_NEXT, NO_POP = 1, 2, 4


class WrittenPlaces(NamedTuple):
    """The positions of numbers that a scheme writes place by place.

    Attributes:
      lowest: the lowest decimal place. count: the number of places.
      least, most: the digits that a place may hold.
      size: how many places each position holds.
    """

    lowest: int
    count: int
    least: int
    most: int
    size: int = 1


class Allowed(NamedTuple):
    """The tokens that may be predicted: classes[..., class_of[v]]. The mask is gathered by class, so no [B, T, V]
    mask exists outside a chunk of the loss."""

    classes: Array  # bool[B, T, C] or, in the decoder, bool[B, C]
    class_of: Array  # int32[V]


class HeadOut(NamedTuple):
    """The output of a head before its softmax: hidden states and the weights to apply, so that a loss can work in
    chunks."""

    hidden: Array
    weights: Mapping[str, Array]


class Estimate(NamedTuple):
    """A number as an approximating head predicted it. It is only reported: no computation uses it.

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
    """A head's scores of the next token.

    Attributes:
      mass: float32[B, V], log masses.
      numeral: the canonical number that [NUM] would stand for, rounded as the head rounds; None where numbers are
        spelled.
      estimate: the unrounded number, if the head approximates; else None.
      vector: float32[B, D], the input vector of [NUM], from a head that foresees it; else None.
    """

    mass: Array
    numeral: Numeral | None = None
    estimate: Estimate | None = None
    vector: Array | None = None


class Loss(NamedTuple):
    """A sum and a count, divided only at the end, so that any sharding or accumulation is exact. `parts`: name → a
    further (sum, count)."""

    total: Array
    count: Array
    parts: Mapping[str, tuple[Array, Array]] = {}


class TrainState(NamedTuple):
    """The state that training carries from step to step; keys come from fold_in(fold_in(seed, step), microbatch)."""

    step: Array
    params: Any
    opt_state: Any
    ema: Any = None
