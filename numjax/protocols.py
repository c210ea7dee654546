"""What each kind of part is: one base class a kind, with every optional method and what it does by default.

The file name is the registration: `build.py` finds numjax/<kind>/<name>.py and calls what it defines under the name
of the base class. Nobody asks a part what attributes it has: an optional one is here, with a default that does the
obvious thing or says what is missing; whether a part has its own of a method, `Part.provides` says.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self, TypeVar

from numjax.errors import UsageError
from numjax.types import (
    Allowed,
    Channel,
    Document,
    Example,
    Features,
    Grammar,
    HeadOut,
    Loss,
    Number,
    Numeral,
    Scores,
    Tokens,
)

if TYPE_CHECKING:
    Array = Any  # as in types.py

T = TypeVar("T")
Told = Annotated[T, "by the context"]  # marks a parameter of a part that is a field of `Context`, and no option
OrTold = Annotated[T, "by the context, or an option"]  # … and an option all the same, which counts instead


@dataclasses.dataclass(frozen=True, kw_only=True)
class Context:
    """What the core tells parts as it builds them, each those fields that it marks with `Told` or `OrTold`.

    None is not known: a part then keeps its default, or is refused if it has none.

    Attributes:
      width: D. dim: the same, for embeddings of tokens and trees, and for those of numerals that are added to tokens
        or stand in their place. dtype: of the backbone's computation.
      vocab: the vocabulary, of schemes. vocab_size: its size, padded; size: ids in use; base: those of text.
      num_id: id of [NUM]. digits: K of numerals.
      digit_ids: of 0 … 9, where each is a token of its own; agg_id: of [AGG].
      digit_symbols: (id, digit) of each token that is one digit. number_symbols: (id, value) of each that is a
      number. symbols: (first id of mathematical symbols, for each the text tokens that spell it); symbol_range: (that
        first, how many). types: how many token types there are.
      grammar: of the scheme. num_classes: of the task's labels.
      stack: where positions are. positions: what a backbone gives its stacks.
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
    symbols: tuple[int, tuple[tuple[int, ...], ...]] | None = None
    symbol_range: tuple[int, int] | None = None
    types: int | None = None
    grammar: Grammar | None = None
    num_classes: int | None = None
    stack: Any = None
    positions: Any = None


class Producer:
    """Makes a channel of the ids: on the host of a whole document, in the decoder token by token, the same values.

    Producers are values: hashable, and equal ones make the same channel.

    Attributes:
      channel: what it makes.
    """

    channel: Channel

    def of(self, ids: Any) -> Any:
        """int32[T, …] in NumPy, of the ids int32[T] of a document."""
        raise NotImplementedError

    def begin(self, rows: int) -> Any:
        """The state before the first token, a pytree of arrays [rows, …]."""
        del rows
        return ()

    def step(self, state: Any, token: Array, at: Any) -> tuple[Any, Array]:
        """(the state behind a token int32[B], the channel's value at it, [B, …]). `at`: the automaton there,
        `decode.channels.At`."""
        raise NotImplementedError


class Part:
    """What all kinds share.

    Attributes:
      reads_channels: names of channels without which it cannot work.
    """

    reads_channels: tuple[str, ...] = ()

    @classmethod
    def wants_channels(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """`reads_channels` with these options."""
        del options
        return cls.reads_channels

    def producers(self) -> tuple[Producer, ...]:
        """What makes the channels that it reads and nobody else gives."""
        return ()

    @classmethod
    def provides(cls, method: str) -> bool:
        """Whether it has a method of its own by this name, beyond what its kind does by default.

        Methods that no kind has are for parts made for each other, such as an objective and its head.
        """
        found = getattr(cls, method, None)
        return found is not None and found is not getattr(cls._kind(), method, None)

    @classmethod
    def lacks(cls, what: str) -> UsageError:
        """The error of a part that is asked for what it has not."""
        name = cls.__module__.rpartition(".")[2] if cls.__module__.startswith("numjax.") else cls.__module__
        return UsageError(f"{cls._kind().__name__.lower()} {name} {what}")

    @classmethod
    def _kind(cls) -> type:
        return next(one for one in cls.__mro__ if Part in one.__bases__)


class Scheme(Part):
    """text/NAME.py. Document ↔ positions; decode(encode(doc)) == doc. Most begin with `text/base.py`.

    Attributes:
      marks: reserved tokens that it needs beyond those of every vocabulary.
      vocab: the vocabulary (`text/base_vocabulary.py`). vocab_size: its size, padded.
      points: what is written may point to numbers read before, which `decode` then wants.
      unwritten: ids that are read and cannot be written → the reason.
      symbols: the mathematical vocabulary of a scheme with trees; None for others.
      channels: what it gives beside ids.
      token_types: how many `types` there are. reads: what documents it is for, "text" or "rows".
      forms: of `text/answers.FORMS`, those that it can hold an answer to, with some vocabulary.
      digit_tokens: each digit of a number is a token of its own, with some vocabulary.
      numbers: what a number is: its pieces ("spelled"), [NUM] with its value beside it ("slot"), both ("behind"), or
        a cell ("cell").
    """

    marks: tuple[str, ...] = ()
    vocab: Any
    vocab_size: int
    points: bool = False
    unwritten: Mapping[int, str] = {}
    symbols: Any = None
    channels: tuple[Channel, ...] = ()
    token_types: int = 0
    reads: ClassVar[str] = "text"
    numbers: ClassVar[str] = "spelled"
    digit_tokens: ClassVar[bool] = False
    forms: tuple[str, ...] = ("text",)

    @classmethod
    def channels_of(cls, options: Mapping[str, Any]) -> tuple[Channel, ...]:
        """The channels that it gives with these options."""
        del options
        return cls.channels

    @classmethod
    def marks_of(cls, options: Mapping[str, Any], trees: Iterable[Any]) -> tuple[str, ...]:
        """The marks that it needs with these `symbols` options; some depend on a corpus's operator trees."""
        del options, trees
        return cls.marks

    def parse(self, text: str) -> Document:
        """Text → segments."""
        raise NotImplementedError

    def encode(self, document: Document, offsets: bool = False, source: Features | None = None) -> Features:
        """One unpadded row; `offsets` says which characters a position covers, `source` is what an encoder reads."""
        raise NotImplementedError

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """The document of a row; `numbers` are those that [NUM]s or pointers stand for."""
        raise NotImplementedError

    def grammar(self) -> Grammar:
        """The automaton of the rows that it writes."""
        raise NotImplementedError

    def generation_grammar(self) -> Grammar:
        """The automaton that generation follows, where that is another one (`trees_published`)."""
        return self.grammar()

    def answering(self, form: str) -> Self:
        """The same scheme, whose grammar holds what is written to a form of `text/answers.FORMS`."""
        if form == "text":
            return self
        raise self.lacks(f"cannot hold an answer to one {form}: set task.answer=text")

    def aggregation(self) -> dict[str, Any]:
        """What a scheme that spells digits tells parts of them: fields of `Context`."""
        return {}

    def symbol_pieces(self) -> tuple[int, tuple[tuple[int, ...], ...]] | None:
        """(first id of the mathematical symbols, for each the text tokens that spell it); None without symbols."""
        return None


class Embed(Part):
    """embed/NAME.py, a Linen shell over a pure function.

    Attributes:
      kind: what it reads. numeral: (Numeral[...], features) → x[..., dim]; token and type: (Tokens[B, T]) →
        x[B, T, D].
      reads_surfaces: the surfaces of numbers count; given None for them, `host_features` spells them from the digits,
        as the decoder does.
    """

    kind: ClassVar[str]
    reads_surfaces: ClassVar[bool] = False

    def tables(self) -> Mapping[str, Array]:
        """What depends on parameters alone, computed once a step and given to each call as `tables`."""
        return {}

    def host_features(self, numerals: Numeral, surfaces: Sequence[str] | None) -> Mapping[str, Any]:
        """{name: [N, …]} in NumPy, which the pipeline calls. Without features (in the decoder) a numeral embedding
        works from the numerals alone."""
        del numerals, surfaces
        return {}

    def host_vectors(self, numerals: Numeral) -> Any:
        """float64[N, dim], for those who measure distances, of an embedding without parameters."""
        del numerals
        raise self.lacks("has no vectors without parameters")


class Stack(NamedTuple):
    """What a stack of layers tells the positions in it.

    Attributes:
      width: D. heads: H; size: E, dimensions of a head; both 0 without attention. max_length: of a text.
      causal: a position sees only those before it. dtype: of the computation.
    """

    width: int
    heads: int = 0
    size: int = 0
    max_length: int = 0
    causal: bool = False
    dtype: str = "float32"


class Positions(Part):
    """positions/NAME.py: how order enters a stack. Each provides some of `added`, `angles` and `bias`.

    Attributes:
      stack: where it is; whoever builds a stack fills it in.
      bounded: it has no place beyond the stack's max_length.
    """

    stack: Stack | None = None
    bounded: ClassVar[bool] = False

    def inside(self) -> Stack:
        """Where it is."""
        if self.stack is None:
            raise UsageError("positions are of a stack: give them to a backbone")
        return self.stack

    def added(self, tokens: Tokens, deterministic: bool = True) -> Array:
        """x[B, T, D], added to the stack's input."""
        raise NotImplementedError

    def angles(self, tokens: Tokens, deterministic: bool = True) -> Array:
        """Radians by which pairs of a head's dimensions are turned in queries and keys, float32[B, T, pairs]."""
        raise NotImplementedError

    @property
    def sharpness(self) -> float:
        """What turned queries and keys are multiplied by."""
        return 1.0

    def place(self, tokens: Tokens, deterministic: bool = True) -> Array:
        """What `bias` wants to know of each position, int32[B, T]; a decoder keeps it for its keys."""
        del deterministic
        return tokens.positions

    def bias(self, query: Array, key: Array) -> Array:
        """Added to the scores, float32[B, H, T, S], of places [B, T] of queries and [B, S] of keys."""
        raise NotImplementedError


ACTS = ("added", "angles", "bias")  # where positions can act


class Backbone(Part):
    """backbone/NAME.py: (x[B, T, D], tokens, …) → (h[B, T, D], acts, cache).

    Attributes:
      positions: parts of that kind by name, which it gives to its stacks. takes: which of `ACTS` it knows.
      width: D. layers: how many. init_std: of what stands around it, such as fusions.
      encodes: it also takes `source`, the embedded source and its tokens. writes: no position sees those behind it.
      reads: "text", or "rows" of a table. by_position: it places every position, and not rows of them.
      scan: its layers are stacked in memory. remat: what it computes anew on the way back; None: there is no choice.
      encoder_layers: of its encoder, where it has both.
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
        """What positions add to the input of the stack, [B, T, D]."""
        del tokens
        raise self.lacks("adds no positions that could be looked at")

    def init_cache(self, rows: int, slots: int) -> Any:
        """An empty cache of so many slots."""
        del rows, slots
        raise self.lacks("writes nothing: choose backbone decoder or encoder_decoder")

    def remember(self, x: Array, tokens: Tokens, cache: Any) -> Any:
        """The cache with what the decoder reads of an embedded source."""
        del x, tokens, cache
        raise self.lacks("reads no source: choose backbone encoder_decoder")


class Head(Part):
    """heads/NAME.py: (h[B, T, D], tokens, table[V, D] or None) → HeadOut, and pure readers of it.

    One that writes provides `step_scores`; one that says something of each row provides `log_probs` or `best`, and a
    model has one of these at most.

    Attributes:
      densities: parts of `log_prob` that are log densities and no log masses.
      answers: the kind of task that it answers. numbers: what it writes as [NUM] has a number.
      labels: of units, where it reads several of each row.
      tied: it reads with the token embedding's table. by_token: its "kernel" and "bias" have a row a token.
    """

    densities: ClassVar[tuple[str, ...]] = ()
    answers: ClassVar[str]
    numbers: ClassVar[bool] = False
    labels: ClassVar[tuple[str, ...]] = ()
    tied = False
    by_token: ClassVar[bool] = False

    @classmethod
    def only_form(cls, options: Mapping[str, Any]) -> str:
        """With these options it writes nothing but answers of this form of `text/answers.FORMS`; "" for whatever."""
        del options
        return ""

    def log_prob(self, out: HeadOut, targets: Any, allowed: Allowed | None = None) -> Mapping[str, Array]:
        """Named parts, each [B, T] (or [B]), zero where a part does not apply; their sum is the log-likelihood."""
        raise NotImplementedError

    def total_log_prob(
        self, out: HeadOut, targets: Any, weights_BT: Array, allowed: Allowed | None = None
    ) -> Mapping[str, Array]:
        """The parts of `log_prob`, each summed with weights. Those that can go in chunks do."""
        return {name: (part * weights_BT).sum() for name, part in self.log_prob(out, targets, allowed).items()}

    def step_scores(self, out: HeadOut, allowed_BV: Array | None = None, key: Array | None = None) -> Scores:
        """The next token of hidden states [B, D]: log masses, and the canonical number that [NUM] would stand for."""
        del out, allowed_BV, key
        raise self.lacks("does not write")

    def represents(self, value: Decimal) -> bool:
        """Whether it can write this number exactly; one that spells its numbers writes any."""
        del value
        return self.provides("step_scores")

    def token_logits(self, out: HeadOut, ids: Array) -> Array:
        """float32[B, T, n], the logits of tokens int32[n] before any mask, of a head with a softmax over tokens."""
        del out, ids
        raise self.lacks("has no softmax over tokens")

    def log_probs(self, out: HeadOut) -> Array:
        """Log-probabilities of a row's classes, [B, classes]."""
        del out
        raise self.lacks("has no classes")

    def best(self, out: HeadOut) -> Array:
        """What is predicted of a row that is no class, [B, …]."""
        del out
        raise self.lacks("says nothing of a row")


class Objective(Part):
    """objectives/NAME.py: sums over a batch. `heads` are the model's, by name.

    Attributes:
      draws: it is given a `key` too, another one each step, None in evaluations.
      whole_batch: its sums are not those of its rows, so that a batch cannot be cut into microbatches.
      head_methods: what its head must provide, beyond `log_prob`. kinds: of the tasks that it is for; () for all.
      reads_digits: it reads digits that are tokens of their own.
      reads_teacher: it is given `taught` too, the outs of a teacher: the mean of the parameters by its `momentum`,
        moved once a step, or, with its `each_microbatch`, with every microbatch; evaluations leave it out.
    """

    draws: ClassVar[bool] = False
    head_methods: ClassVar[tuple[str, ...]] = ()
    kinds: ClassVar[tuple[str, ...]] = ()
    reads_digits: ClassVar[bool] = False
    reads_teacher: ClassVar[bool] = False
    whole_batch = False

    @classmethod
    def methods_of(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """`head_methods` with these options."""
        del options
        return cls.head_methods

    @classmethod
    def kinds_of(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """`kinds` with these options."""
        del options
        return cls.kinds

    def __call__(
        self, heads: Mapping[str, Any], outs: Mapping[str, HeadOut], acts: Mapping[str, Any], batch: Any, **more: Any
    ) -> Loss:
        raise NotImplementedError


class Task(Part):
    """tasks/NAME.py: record → Example; predictions → metrics.

    Attributes:
      dataset: name of the builder in data/, with its options.
      kind: what the pipeline makes of it: "language_model" (shifted targets), "masked" (targets in place, see
        `pipeline/masking.py`), "classify" (labels only), "span" (labels that are positions of the text, see
        `Example.spans`; predictions are characters of it), "units" (labels of stretches of it, see `Example.units`;
        the task's `read` makes the predictions).
      metric: name of the validation metric that selects the best checkpoint, "-" before it if less is better.
      needs: kind of block → names that the config must have. brings: axis → blocks, the heads and losses that answer
        it, and what else it wants of "data", for configs that have no heads of these names.
      num_classes: of its labels, where it has some.
      unanswered: defaults of fields that records to be predicted may lack.
      channels: what it gives beside a scheme's. reads: "text" or "rows".
      sources: its examples have a source, which an encoder reads.
      generates: predictions are what the model writes.
      answer: the form of what is written behind a prompt, of `text/answers.FORMS`; "text": whatever the scheme
        writes.
      fitted_on: the split that makes a vocabulary. splits: split → the dataset's split that stands in for it.
      reads_probabilities: `score` takes the classes' `log_probs` too.
      tuned: metrics that `score` chooses on validation, and takes as arguments on test, with what they are where
        nothing was chosen; `read` takes them too.
      file_forms: what files of one's own `from_file` reads, in words.
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
        """What is read of a record, and what is wanted of it."""
        raise NotImplementedError

    def score(self, predictions: Sequence[Any], references: Sequence[Any], **more: Any) -> Mapping[str, float]:
        """Metrics by name."""
        raise NotImplementedError

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What a vocabulary is trained on."""
        raise self.lacks("has no text to train a vocabulary on: set scheme.vocab.path")

    def prompt(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Document:
        """What the model reads of a record before it writes."""
        raise self.lacks("writes nothing")

    def asked(self, text: str, parse: Callable[[str], Document]) -> Document | None:
        """The document that asks what someone typed, or for an encoder–decoder its source; None to continue the text
        as it is."""
        del text, parse
        return None

    def predicted(self, document: Document) -> Any:
        """What of a written document is scored: by default the first number."""
        return next((str(segment.value) for segment in document if isinstance(segment, Number)), None)

    def log_prior(self, document: Document) -> float:
        """What to add to the log mass of a written document when beams are compared."""
        del document
        return 0.0

    def read(self, example: Example, said: Any, **tuned: float) -> tuple[Any, dict[str, Any]]:
        """(the prediction, what else is to be told) of what the head says of an example's row."""
        raise NotImplementedError

    def from_file(self, path: str) -> Iterable[tuple[str, Any]] | None:
        """(id, record or ValueError) of each record of a file of one's own; None for files with a record a line."""
        del path
        return None
