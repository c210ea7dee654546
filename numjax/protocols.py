"""One base class for each kind of part, with every optional method and its default.

The file name is the registration: `build.py` finds numjax/<kind>/<name>.py and calls the class in it that has the
name of the base class. No code asks whether a part has an attribute: every optional attribute and method is here,
with a default that does the obvious thing or raises an error that says what is missing. `Part.provides` says whether
a part overrides a method.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

from numjax.errors import UsageError
from numjax.types import (
    Abilities,
    Allowed,
    Channel,
    Document,
    Example,
    Features,
    Grammar,
    HeadOut,
    Loss,
    Number,
    NumberRange,
    Numeral,
    Scores,
    Stack,
    Tokens,
    WrittenPlaces,
)

if TYPE_CHECKING:
    Array = Any  # as in types.py

T = TypeVar("T")
# Marks a parameter of a part that is no option: its value comes from the field of `Context` of that name.
FromContext = Annotated[T, "by the context"]
# Marks an option of a part. Without the option, the value comes from the field of `Context` of that name.
OptionOrContext = Annotated[T, "by the context, or an option"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Context:
    """The values that the core gives to parts when it builds them.

    A part gets the fields that it marks with `FromContext` or `OptionOrContext`. None means unknown: the part then
    keeps its default; if it has no default, building it fails.

    Attributes:
      width: D. dim: also D, for embeddings of tokens and trees, and for numeral embeddings that are added to token
        embeddings or replace them. dtype: of the backbone's computation.
      vocab: the vocabulary, for schemes. vocab_size: V, padded. size: ids in use. base: ids of text.
      num_id: id of [NUM]. digits: K of numerals.
      digit_ids: ids of 0 … 9, if each digit is a token of its own. agg_id: id of [AGG].
      digit_symbols: (id, digit) of each token that is one digit. number_symbols: (id, value) of each token that is a
        number. marks: (name, id) of the vocabulary's marks. point_ids: the tokens that are a decimal point; empty if
        the vocabulary has none. symbols: (first id of the mathematical symbols, the text tokens that spell each of
        them). symbol_range: (first id, count) of these symbols. types: number of token types.
      written_places: of the scheme. grammar: the scheme's. num_classes: number of the task's classes.
      stack: the stack that positions belong to. positions: the positions that a backbone gives to its stacks.
    """

    width: int | None = None
    dim: int | None = None
    dtype: str | None = None
    vocab: Any = None
    vocab_size: int | None = None
    size: int | None = None
    base: int | None = None
    num_id: int | None = None
    digits: int | None = None
    digit_ids: tuple[int, ...] | None = None
    agg_id: int | None = None
    digit_symbols: tuple[tuple[int, int], ...] | None = None
    number_symbols: tuple[tuple[int, float], ...] | None = None
    marks: tuple[tuple[str, int], ...] | None = None
    point_ids: tuple[int, ...] | None = None
    symbols: tuple[int, tuple[tuple[int, ...], ...]] | None = None
    symbol_range: tuple[int, int] | None = None
    types: int | None = None
    written_places: WrittenPlaces | None = None
    grammar: Grammar | None = None
    num_classes: int | None = None
    stack: Any = None
    positions: Any = None


class Producer:
    """Computes a channel from the ids. The host computes it for a whole document, the decoder token by token; both
    give the same values. Producers are values: they are hashable, and equal producers make the same `channel`."""

    channel: Channel

    @property
    def given(self) -> Producer:
        """The same for a text in which all numbers are given, such as an encoder's source."""
        return self

    def compute(self, ids: Any) -> Any:
        """The channel's values int32[T, …] for the ids int32[T] of a document, in NumPy."""
        raise NotImplementedError

    def begin(self, rows: int) -> Any:
        """The state before the first token: a pytree of arrays [rows, …]."""
        del rows
        return ()

    def step(self, state: Any, token: Array, automaton_state: Any) -> tuple[Any, Array]:
        """(the state after a token int32[B], the channel's value at this token, [B, …]). `automaton_state`: the
        automaton before the token, a `decode.channels.AutomatonState`."""
        raise NotImplementedError


class Part:
    """The base class of all kinds.

    Attributes:
      reads_channels: names of the channels that the part needs.
      made_for: the scheme whose symbols it reads; "" for any.
    """

    reads_channels: tuple[str, ...] = ()
    made_for: ClassVar[str] = ""

    @classmethod
    def wants_channels(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """`reads_channels` of a part with these options."""
        del options
        return cls.reads_channels

    def producers(self) -> tuple[Producer, ...]:
        """Producers of the channels that the part reads and that neither scheme nor task gives."""
        return ()

    @classmethod
    def provides(cls, method: str) -> bool:
        """Whether the part has its own version of this method, not only the default of its kind. Parts that are made
        for each other, such as an objective and its head, may have a method that no base class has."""
        own_method = getattr(cls, method, None)
        return own_method is not None and own_method is not getattr(cls._kind(), method, None)

    @classmethod
    def lacks(cls, what: str) -> UsageError:
        """The error to raise when a part is asked for something that it does not have; `what` ends the sentence."""
        return UsageError(f"{cls._kind().__name__.lower()} {cls.part_name()} {what}")

    @classmethod
    def part_name(cls) -> str:
        """The name that a config gives the part: of numjax/KIND/NAME, a file or a folder, NAME; else the module's."""
        path = cls.__module__.split(".")
        return path[2] if path[0] == "numjax" and len(path) > 2 else cls.__module__

    @classmethod
    def _kind(cls) -> type:
        return next(base for base in cls.__mro__ if Part in base.__bases__)


class Scheme(Part):
    """text/NAME.py: turns a Document into tokens and back; decode(encode(doc)) == doc. Most extend `text/base.py`.

    Attributes:
      marks: reserved tokens beyond those of every vocabulary. fences: mark before a number → mark behind it.
      vocab: the vocabulary (`text/vocab/base.py`). vocab_size: V, padded.
      points: generated tokens may point to earlier numbers; `decode` then needs these numbers.
      hides_digits: a given number shows in its value alone, not in the ids.
      unwritten: id → why it cannot be generated, for ids that can only be read.
      symbols: the mathematical vocabulary of a scheme with trees; None for others. channels: those beside the ids.
      token_types: number of values of the channel "types". reads: the documents that it takes, "text" or "rows".
      forms: the forms of `text/grammar/answers.FORMS` that its grammar can enforce with some vocabulary.
      digit_tokens: with some vocabulary a number's digits are tokens of their own, side by side.
      numbers: how a number appears: as its pieces ("spelled"), as [NUM] with its value beside it ("slot"), as both
        ("behind"; "prefix": [NUM] comes first and is written too), as a cell ("cell"), or, if it is written, as a
        [NUM] for each decimal place ("places").
      whole_numbers: False where `numbers` is "slot" and the value of a [NUM] may be only a part of its number.
    """

    marks: tuple[str, ...] = ()
    vocab: Any
    vocab_size: int
    points: bool = False
    hides_digits: bool = False
    unwritten: Mapping[int, str] = {}
    symbols: Any = None
    channels: tuple[Channel, ...] = ()
    token_types: int = 0
    reads: ClassVar[str] = "text"
    numbers: ClassVar[str] = "spelled"
    whole_numbers: ClassVar[bool] = True
    digit_tokens: ClassVar[bool] = False
    fences: Mapping[str, str] = {}
    forms: tuple[str, ...] = ("text",)

    @classmethod
    def gives_values(cls, options: Mapping[str, Any]) -> bool:
        """Whether a scheme with these options spells what is written, and embeddings read given numbers alone."""
        del options
        return False

    @classmethod
    def channels_of(cls, options: Mapping[str, Any]) -> tuple[Channel, ...]:
        """The channels that a scheme with these options gives."""
        del options
        return cls.channels

    @classmethod
    def marks_of(cls, options: Mapping[str, Any], trees: Iterable[Any]) -> tuple[str, ...]:
        """The marks that a scheme with these `symbols` options needs; some depend on the corpus's operator trees."""
        del options, trees
        return cls.marks

    def parse(self, text: str) -> Document:
        """The segments of a text."""
        raise NotImplementedError

    def encode(self, document: Document, offsets: bool = False, source: Features | None = None) -> Features:
        """One unpadded row. `offsets`: also give the characters that each position covers. `source`: the encoder's
        input."""
        raise NotImplementedError

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """The document of a row; `numbers` are the numbers that its [NUM]s or pointers stand for."""
        raise NotImplementedError

    def abilities(self) -> Abilities:
        """What it can do with numbers. Where a number is one position, `writes` is None: the head says it."""
        raise self.lacks("does not say what it can do with numbers: give it a method abilities()")

    def widen(self, numbers: NumberRange) -> NumberRange:
        """The numbers of a text whose [NUM]s have numbers of a range: the same, unless a number has several."""
        return numbers

    def positions_per_number(self, digits: int) -> int:
        """How many positions a whole number of so many digits has in a text that is read."""
        return len(self.encode((Number("1" * digits, Decimal("1" * digits)),)).ids)

    def join_numbers(self, ids: Sequence[int], values: Sequence[Decimal]) -> list[Number]:
        """The numbers of a generated text, from the values at its [NUM]s, where these are parts of numbers."""
        del ids, values
        raise self.lacks("has a whole number at each [NUM]")

    def after(self, numbers: Sequence[Number], ids: Sequence[int] | None = None) -> Self:
        """The scheme of what is written behind these numbers, of the row `ids` or without it of a source; of those
        whose symbols mean something by them alone."""
        del numbers, ids
        return self

    def nearest(self, value: Decimal) -> Decimal:
        """The number that is read where `value` is written: the same, unless the layout has only some numbers.

        Raises:
          DataError: no number stands for it.
        """
        return value

    def grammar(self) -> Grammar:
        """The automaton that accepts the scheme's rows."""
        raise NotImplementedError

    def generation_grammar(self) -> Grammar:
        """The automaton that generation follows: `grammar()` unless a scheme overrides it (`trees_published`)."""
        return self.grammar()

    def answering(self, form: str) -> Self:
        """The same scheme with a grammar that allows only answers of a form of `text/grammar/answers.FORMS`."""
        if form == "text":
            return self
        raise self.lacks(f"cannot hold an answer to one {form}: set task.answer=text")

    def aggregation(self) -> dict[str, Any]:
        """Fields of `Context` about digits, of a scheme that spells numbers digit by digit."""
        return {}

    def symbol_pieces(self) -> tuple[int, tuple[tuple[int, ...], ...]] | None:
        """(first id of the mathematical symbols, the text tokens that spell each of them); None without symbols."""
        return None


class Embed(Part):
    """embed/NAME.py: a Linen module around a pure function.

    Attributes:
      kind: its input. "numeral": (Numeral[...], features) → x[..., dim]. "token" and "type": (Tokens[B, T]) →
        x[B, T, D].
      reads_surfaces: its vectors depend on the surfaces of numbers. Where the surfaces are None, `host_features`
        spells the numbers from their digits, as the decoder does.
      number_range: numbers of which no two have the same vector; None if float32 alone sets the limit.
    """

    kind: ClassVar[str]
    reads_surfaces: ClassVar[bool] = False
    number_range: NumberRange | None = None

    def tables(self) -> Mapping[str, Array]:
        """Arrays that depend on parameters alone: computed once a step and passed to each call as `tables`."""
        return {}

    def host_features(self, numerals: Numeral, surfaces: Sequence[str] | None) -> Mapping[str, Any]:
        """{name: [N, …]} in NumPy, computed by the pipeline. The decoder has no features: there a numeral embedding
        works from the numerals alone."""
        del numerals, surfaces
        return {}

    def host_vectors(self, numerals: Numeral) -> Any:
        """Vectors float64[N, dim] of an embedding without parameters, for measuring distances."""
        del numerals
        raise self.lacks("has no vectors without parameters")


class Positions(Part):
    """positions/NAME.py: how order enters a stack. Each provides some of `added`, `angles` and `bias`.

    Attributes:
      stack: the stack that it belongs to; the backbone that builds the stack sets it.
      bounded: it has no positions beyond the stack's max_length.
      needs_parse: it depends on which numbers of a problem are given and which is its answer.
    """

    stack: Stack | None = None
    bounded: ClassVar[bool] = False
    needs_parse: ClassVar[bool] = False

    def require_stack(self) -> Stack:
        """The stack. Raises UsageError if no backbone has set it."""
        if self.stack is None:
            raise UsageError("positions need a stack: give them to a backbone")
        return self.stack

    def added(self, tokens: Tokens, deterministic: bool = True) -> Array:
        """x[B, T, D], which the backbone adds to the stack's input."""
        raise NotImplementedError

    def angles(self, tokens: Tokens, deterministic: bool = True) -> Array:
        """The angles in radians by which pairs of a head's dimensions are rotated in queries and keys,
        float32[B, T, pairs]."""
        raise NotImplementedError

    @property
    def sharpness(self) -> float:
        """The factor of rotated queries and keys."""
        return 1.0

    def bias_index(self, tokens: Tokens, deterministic: bool = True) -> Array:
        """The index of each position that `bias` compares, int32[B, T]; a decoder keeps it for its keys."""
        del deterministic
        return tokens.positions

    def bias(self, query: Array, key: Array) -> Array:
        """The bias of the attention scores, float32[B, H, T, S], from the `bias_index` of queries [B, T] and of keys
        [B, S]."""
        raise NotImplementedError


ACTS = ("added", "angles", "bias")  # the ways in which positions can act


class Backbone(Part):
    """backbone/NAME.py: (x[B, T, D], tokens, …) → (h[B, T, D], acts, cache).

    Attributes:
      positions: name → positions part, for its stacks. takes: the `ACTS` that it supports.
      width: D. layers: number of layers. init_std: for modules around it, such as fusions.
      encodes: it also takes `source`, a pair of the embedded source and its tokens. writes: it can generate text, so
        no position sees later ones.
      reads: "text", or "rows" of a table. by_position: its positions see each position of a text, not a table's rows.
      scan: its layers are stacked in memory. remat: what the backward pass recomputes; None where it has no such
        option.
      encoder_layers: number of its encoder's layers, if it has an encoder and a decoder.
    """

    positions: Mapping[str, Any]
    takes: ClassVar[tuple[str, ...]] = ACTS
    width: int
    layers: int
    max_length: int
    init_std: float
    encodes: ClassVar[bool] = False
    writes: ClassVar[bool] = False
    reads: ClassVar[str] = "text"
    by_position: ClassVar[bool] = True
    encoder_layers = 0
    scan = False
    remat = None

    def added_positions(self, tokens: Tokens) -> Array:
        """The sum that positions add to the input of the stack, [B, T, D]."""
        del tokens
        raise self.lacks("adds no positions to its input")

    def init_cache(self, rows: int, slots: int) -> Any:
        """An empty cache with `slots` positions for each row."""
        del rows, slots
        raise self.lacks("writes nothing: choose backbone decoder or encoder_decoder")

    def remember(self, x: Array, tokens: Tokens, cache: Any) -> Any:
        """The cache with an embedded source encoded for the decoder."""
        del x, tokens, cache
        raise self.lacks("reads no source: choose backbone encoder_decoder")


class Head(Part):
    """heads/NAME.py: (h[B, T, D], tokens, table[V, D] or None) → HeadOut, and pure functions of a HeadOut.

    A head that generates text provides `step_scores`. A head that predicts something for each row provides
    `log_probs` or `best`; a model has at most one such head.

    Attributes:
      densities: parts of `log_prob` that are no log masses: log densities, and parts that overlap.
      answers: the kind of task that it answers. numbers: it predicts what stands at each [NUM] that it generates.
      written_as: `Scheme.numbers`. labels: names of the units' labels, if it predicts several for each row.
      tied: its kernel is the token embedding's table. by_token: its "kernel" and "bias" have a row for each token.
      number_range: of numbers at [NUM]; None: others. exact: it predicts the number that it is certain of, not one
        near it. trained_by: an objective that must train it too, beside its `log_prob`.
    """

    number_range: NumberRange | None = None
    exact = True
    densities: ClassVar[tuple[str, ...]] = ()
    answers: ClassVar[str]
    numbers: ClassVar[bool] = False
    written_as: ClassVar[str] = "slot"
    labels: ClassVar[tuple[str, ...]] = ()
    tied = False
    by_token: ClassVar[bool] = False
    trained_by: ClassVar[str] = ""

    @classmethod
    def only_form(cls, options: Mapping[str, Any]) -> str:
        """The only form of `text/grammar/answers.FORMS` that the head can write with these options; "" for any."""
        del options
        return ""

    def log_prob(self, out: HeadOut, targets: Any, allowed: Allowed | None = None) -> Mapping[str, Array]:
        """The log-likelihood as named parts to be summed, each [B, T] (or [B]), zero where a part does not apply."""
        raise NotImplementedError

    def total_log_prob(
        self, out: HeadOut, targets: Any, weights_BT: Array, allowed: Allowed | None = None
    ) -> Mapping[str, Array]:
        """The weighted sum of each part of `log_prob`. Heads that can compute it in chunks do so."""
        return {name: (part * weights_BT).sum() for name, part in self.log_prob(out, targets, allowed).items()}

    def step_scores(self, out: HeadOut, allowed_BV: Array | None = None, key: Array | None = None) -> Scores:
        """Scores of the next token after hidden states [B, D]: log masses, and the number that [NUM] would have."""
        del out, allowed_BV, key
        raise self.lacks("does not write")

    def represents(self, value: Decimal) -> bool:
        """Whether the head can generate this number exactly; without a `number_range` it generates any."""
        if self.number_range is not None:
            return self.number_range.holds(value)
        return self.provides("step_scores")

    def token_logits(self, out: HeadOut, ids: Array) -> Array:
        """Logits of the tokens int32[n] before any mask, float32[B, T, n], of a head with a softmax over tokens."""
        del out, ids
        raise self.lacks("has no softmax over tokens")

    def log_probs(self, out: HeadOut) -> Array:
        """Log-probabilities of the classes of each row, [B, classes]."""
        del out
        raise self.lacks("has no classes")

    def best(self, out: HeadOut) -> Array:
        """The prediction for each row, [B, …], of a head without classes."""
        del out
        raise self.lacks("predicts nothing for a row")


class Objective(Part):
    """objectives/NAME.py: sums over a batch. `heads` are the model's heads by name, `outs` their outputs.

    Attributes:
      draws: its call also gets `key`, a new one each step; None in evaluations.
      has_perplexity: the parts that it reports add up to a mean −log p of tokens; so evaluations report a perplexity.
      whole_batch: its sum over a batch is not the sum over rows, so a batch cannot be cut into microbatches.
      head_options: its options that name heads. head_methods: methods of its head, beside `log_prob`. kinds: of the
        tasks that it works for; () for all. reads_digits: it needs digits that are tokens of their own.
      reads_teacher: its call also gets `taught`, outputs of a teacher: the running mean of the model's parameters
        with its `momentum`, updated each step, or each microbatch if `each_microbatch` is set. None in evaluations.
    """

    draws: ClassVar[bool] = False
    head_options: ClassVar[tuple[str, ...]] = ("head",)
    head_methods: ClassVar[tuple[str, ...]] = ()
    kinds: ClassVar[tuple[str, ...]] = ()
    reads_digits: ClassVar[bool] = False
    reads_teacher: ClassVar[bool] = False
    whole_batch = False
    has_perplexity = False

    @classmethod
    def methods_of(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """`head_methods` of an objective with these options."""
        del options
        return cls.head_methods

    @classmethod
    def kinds_of(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """`kinds` of an objective with these options."""
        del options
        return cls.kinds

    def __call__(
        self, heads: Mapping[str, Any], outs: Mapping[str, HeadOut], acts: Mapping[str, Any], batch: Any, **extra: Any
    ) -> Loss:
        raise NotImplementedError


class Task(Part):
    """tasks/NAME.py: record → Example; predictions → metrics.

    Attributes:
      dataset: name of the builder in data/, with its options.
      kind: the targets and labels that the pipeline makes: "language_model" (shifted targets), "masked" (targets in
        place, see `pipeline/masking.py`), "classify" (labels only), "span" (labels are positions of the text, see
        `Example.spans`; predictions are its characters), "units" (labels of stretches of the text, see
        `Example.units`; the task's `make_prediction` makes the predictions).
      metric: name of the validation metric that selects the best checkpoint, with "-" before it if lower is better.
      needs: kind of block → names that the config must have. brings: key of the config → the heads, losses or data
        options that answer the task, for configs that have no heads of these names.
      num_classes: of a task with classes. unanswered: defaults of fields that records may lack at prediction.
      channels: channels that it gives beside the scheme's. reads: "text" or "rows".
      sources: its examples have a source for an encoder. generates: its predictions are what the model generates.
      answer: the form of `text/grammar/answers.FORMS` that generated answers have; "text": any of the scheme's.
      fitted_on: the split that the vocabulary is trained on. splits: split → the dataset's split for it.
      tuned: name → default of the metrics that `score` chooses on validation and takes as arguments on test;
        `make_prediction` takes them too.
      reads_probabilities: `score` also takes the classes' `log_probs`. file_forms: what `from_file` reads, in words.
    """

    dataset: Mapping[str, Any]
    kind: str
    metric: str
    needs: Mapping[str, tuple[str, ...]] = {}
    brings: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    num_classes: int | None = None
    unanswered: Mapping[str, Any] = {}
    channels: tuple[Channel, ...] = ()
    reads: ClassVar[str] = "text"
    sources: bool = False
    generates = False
    answer = "text"
    fitted_on = "train"
    splits: Mapping[str, str] = {}
    reads_probabilities = False
    tuned: Mapping[str, float] = {}
    file_forms: tuple[str, ...] = ()

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The example of a record: the document, and the labels to predict.

        Raises:
          ValueError: the record cannot be used; the message says why.
        """
        raise NotImplementedError

    def score(self, predictions: Sequence[Any], references: Sequence[Any], **extra: Any) -> Mapping[str, float]:
        """Metrics by name."""
        raise NotImplementedError

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The texts that a vocabulary is trained on."""
        raise self.lacks("has no text to train a vocabulary on: set scheme.vocab.path")

    def prompt(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Document:
        """The prompt of a record: the document up to the first generated token."""
        raise self.lacks("writes nothing")

    def prompt_from_text(self, text: str, parse: Callable[[str], Document]) -> Document | None:
        """The prompt for a text that a user typed, or for an encoder–decoder the source; None to continue the text as
        it is."""
        del text, parse
        return None

    def predicted(self, document: Document) -> Any:
        """The prediction in a generated document: by default its first number."""
        return next((str(segment.value) for segment in document if isinstance(segment, Number)), None)

    def log_prior(self, document: Document) -> float:
        """The term to add to the log mass of a generated document when beams are compared."""
        del document
        return 0.0

    def make_prediction(self, example: Example, output: Any, **tuned: float) -> tuple[Any, dict[str, Any]]:
        """(the prediction, other fields to report) for an example, from the output of the head for its row.

        Args:
          tuned: the values that `score` chose on validation, by name.
        """
        raise NotImplementedError

    def from_file(self, path: str) -> Iterable[tuple[str, Any]] | None:
        """(id, record or ValueError) of each record of a user's file; None for files with a record a line."""
        del path
        return None
