"""What each kind of part promises. The file name is the registration: `build.py` finds numjax/<kind>/<name>.py and
calls what it defines under the name in brackets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from numjax.types import Allowed, Batch, Document, Example, Features, Grammar, HeadOut, Loss, Number

if TYPE_CHECKING:
    Array = Any  # as in types.py


class Vocabulary(Protocol):
    """Text ↔ ids, with reserved tokens behind the last id of the text (`text/base_vocabulary.py`)."""

    size: int  # with reserved tokens, without padding
    base: int  # ids of text, before those tokens

    def encode(self, text: str) -> list[int]: ...
    def decode(self, ids: Sequence[int]) -> str: ...
    def mark(self, name: str) -> int: ...
    def save(self, folder: str) -> None: ...


class Scheme(Protocol):
    """[Scheme] text/NAME.py. Document ↔ positions; decode(encode(doc)) == doc.

    One that can hold answers to a form has `answering(form)`, see `text/base.py`.
    """

    vocab: Vocabulary
    vocab_size: int  # padded

    def parse(self, text: str) -> Document: ...

    points: bool  # what is written may point to numbers read before, which `decode` then wants

    def encode(self, document: Document, offsets: bool = False, source: Features | None = None) -> Features: ...
    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document: ...
    def grammar(self) -> Grammar: ...


class Embed(Protocol):
    """[Embed] embed/NAME.py, a Linen shell over a pure function. `kind` says what it reads:

    numeral: (Numeral[...], features) → x[..., dim]; token and tree: (Tokens[B, T]) → x[B, T, D].
    A numeral embedding may define `host_features(numerals, surfaces) → {name: [N, …]}` in NumPy, which the
    pipeline calls; without features (in the decoder) it works from the numerals alone. One without parameters may
    define `host_vectors(numerals) → float64[N, dim]`, for those who measure distances. `reads_surfaces` says that
    the surfaces count; given None for them, `host_features` spells them from the digits, as the decoder does.
    """

    kind: str


class Backbone(Protocol):
    """[Backbone] backbone/NAME.py: (x[B, T, D], tokens, …) → (h[B, T, D], acts, cache).

    One that writes has `init_cache(rows, slots)` and `max_length`. With `encodes = True` it also takes `source`, the
    embedded source and its tokens, and `remember(x, tokens, cache)` puts what it makes of one into the cache.
    """

    width: int


class Head(Protocol):
    """[Head] heads/NAME.py: (h[B, T, D], tokens, table[V, D] or None) → HeadOut, and pure readers of it.

    `log_prob` gives named parts, each [B, T] (or [B]), zero where a part does not apply; their sum is the
    log-likelihood. Those that are log densities and no log masses are named in `densities` (none by default).
    `total_log_prob` sums the parts with weights, in chunks: objectives read positions by it. `step_scores` gives log
    masses [B, V] and the numeral that [NUM] would stand for, raw (or None); a head that predicts numerals says in
    `fed_back` what is read back of one. One whose numbers are approximate has `interval` ((out, raw numerals [B]) →
    [B, 2], between which mantissas the central `share` of what it predicts lies). What is predicted of a row,
    evaluations read from `log_probs` ([B, classes], of a classifier) or `best` ([B, …], anything else); a model has
    one such head at most.
    """

    def log_prob(self, out: HeadOut, targets: Any, allowed: Allowed | None) -> Mapping[str, Array]: ...


class Objective(Protocol):
    """[Objective] objectives/NAME.py: sums over a batch. `heads` are the model's, by name.

    Options: `draws` (it is given a `key` too, another one each step, None in evaluations), `whole_batch` (its sums
    are not those of its rows, so that a batch cannot be cut into microbatches), `head_methods` (what the
    head that it is given must have, beyond `log_prob`), `reads_teacher` (it is given `taught`
    too, the outs of a teacher: the mean of the parameters by its `momentum`, moved once a step, or, with its
    `each_microbatch`, with every microbatch; evaluations leave it out).
    """

    def __call__(
        self, heads: Mapping[str, Head], outs: Mapping[str, HeadOut], acts: Mapping[str, Any], batch: Batch
    ) -> Loss: ...


class Task(Protocol):
    """[Task] tasks/NAME.py: record → Example; predictions → metrics.

    Attributes:
      dataset: name of the builder in data/, with its options.
      kind: what the pipeline makes of it: "language_model" (shifted targets), "masked" (targets in place, see
        `pipeline/masking.py`), "classify" (labels only), "span" (labels that are positions of the text, see
        `Example.spans`; predictions are characters of it), "units" (labels of stretches of it, see `Example.units`;
        the task's `read` makes the predictions).
      metric: name of the validation metric that selects the best checkpoint, "-" before it if less is better.

    Options: `needs` (kind of block → names that the config must have), `unanswered` (defaults of fields that records
    to be predicted may lack), `generates`, `read` ((example, what the head says of its row) → the prediction, and
    what else is to be told), `from_file` (a path → (id, record or ValueError) of a file of one's own; None for files
    with a record a line) with `file_forms` (what these are, in words), `reads_probabilities` (`score` takes the
    classes' `log_probs` too), `tuned` (metrics that `score` chooses on validation, and takes as arguments on test,
    with what they are where nothing was chosen; with them it has a `read` that takes them too),
    `answer` (the form of what is written behind a prompt, of `text/answers.FORMS`; "text", whatever the scheme
    writes, by default), `prompt` (record → Document), `texts` (records → vocabulary's text), `asked` (a text that
    someone typed → the Document that asks it, or for an encoder–decoder its source; None to continue the text as it
    is), `splits` (split → the dataset's split that stands in for it), `fitted_on` (the split that makes a vocabulary,
    train).
    """

    dataset: Mapping[str, Any]
    kind: str
    metric: str

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example: ...
    def score(self, predictions: Sequence[Any], references: Sequence[Any]) -> Mapping[str, float]: ...
