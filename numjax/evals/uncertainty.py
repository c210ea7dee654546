"""How sure a model is of the numbers that it has written: the probability of each, and its central intervals.

A head that states a distribution of its numbers gives the quantiles (`heads.base.NumberDistribution`). All other
numbers, which are spelled or searched for, are written anew many times behind the same text, and the quantiles are
those of these samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from numjax.decode import sample, uncertainty
from numjax.evals import requests
from numjax.evals.numbers import DENSITY
from numjax.evals.requests import Sampling, Written
from numjax.numeral import format as formats
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.pipeline.features import EncodedRow
from numjax.runtime import processes
from numjax.runtime.waiting import Wait
from numjax.system import System
from numjax.types import Document, Number, Numeral, Targets

OWN_KEYS = 2**32 - 1  # no text has this number: its samples have other keys than the text
SAMPLES = 256  # of a number whose head states no distribution
EXACT, SAMPLED = "exact", "samples"
NO_NUMBER = "the value of a formula has no distribution of its own"
CUT_OFF = "the number was cut off: it may go on"
NO_MASS = "the head states no probability of a number"
NEVER_AGAIN = "no sample has a number here"
WITH_NEXT = (
    "no mark opens and closes this number: its probability is that of its tokens and of the token behind it, not "
    "given that a number is written here"
)

Decode = Callable[[Sequence[int], Sequence[Any]], Document]


class WrittenText(NamedTuple):
    """A text that was written behind a row; `decode` gives the document of its ids and predicted numbers."""

    row: EncodedRow
    written: Written
    decode: Decode


class Settings(NamedTuple):
    """What to say of numbers, and how.

    Attributes:
      shares: of the central intervals, in (0, 1).
      max_tokens: as when the texts were written. batch_size: rows at a time.
      samples: for numbers whose head states no distribution. seed: of these samples.
    """

    shares: Sequence[float]
    max_tokens: int
    batch_size: int
    samples: int = SAMPLES
    seed: int = 0


class Place(NamedTuple):
    """Where a number stands in a text.

    Attributes:
      start, end: its tokens, without a mark that opens it. tail: the end of the tokens that say that it is complete:
        a mark that closes it, or the token behind it; 0 if there is none.
      positions: the [NUM]s among them, whose number a head predicted; () for a spelled number.
    """

    start: int
    end: int
    tail: int
    positions: tuple[int, ...]

    @property
    def first(self) -> int:
        """The token that begins the number itself."""
        return self.positions[0] if self.positions else self.start


class Uncertainty(NamedTuple):
    """How sure a model is of a number.

    Attributes:
      probability: of the number as it is written, given that a number is written there; None if there is none. Of a
        spelled number without marks at its ends: of its tokens and the token behind it, whatever is written there.
      intervals: (share, low, high) each, so that at least the share lies between the ends, both included, and at most
        half of the rest on either side; () if the number has no distribution.
      method: `EXACT`, `numbers.DENSITY` or `SAMPLED`; "" without intervals. samples: how many, if they are sampled.
      note: what is missing and why; "" if nothing is.
    """

    probability: float | None = None
    intervals: tuple[tuple[float, Decimal, Decimal], ...] = ()
    method: str = ""
    samples: int = 0
    note: str = ""

    def list_fields(self) -> dict[str, Any]:
        """What `numjax generate` prints of it."""
        ends = [
            {"share": share, "low": formats.format(low), "high": formats.format(high)}
            for share, low, high in self.intervals
        ]
        fields: dict[str, Any] = {"probability": self.probability, "intervals": ends}
        fields |= {"method": self.method} if self.method else {}
        fields |= {"samples": self.samples} if self.samples else {}
        return fields | ({"note": self.note} if self.note else {})


def list_levels(shares: Sequence[float]) -> list[float]:
    """The levels of the quantiles at the ends of central intervals, low and high in turn."""
    return [level for share in shares for level in ((1 - share) / 2, (1 + share) / 2)]


def find_quantile(ordered: Sequence[Decimal], level: float) -> Decimal:
    """The least of some ordered values that at least the share `level` of them do not exceed."""
    # 0.95 · 20 is a little above 19 in floats.
    return ordered[min(len(ordered), max(1, math.ceil(level * len(ordered) - 1e-9))) - 1]


def describe_numbers(
    system: System, params: Any, texts: Sequence[WrittenText], settings: Settings
) -> list[list[Uncertainty]]:
    """The uncertainty of each number of each text."""
    places = [_find_places(system, text) for text in texts]
    measures = _measure(system, params, texts, places, settings)
    results, missing = [], []
    for i, row_places in enumerate(places):
        results.append([_read_measures(system, measures[i], place, settings.shares) for place in row_places])
        missing += [(i, k) for k, result in enumerate(results[i]) if not result.method and result.note != CUT_OFF]
    root = jax.random.fold_in(jax.random.key(settings.seed), OWN_KEYS)
    with Wait("compiling and sampling", len(missing), "numbers") as wait:
        for i, k in wait.count(missing):
            key = jax.random.fold_in(jax.random.fold_in(root, i), k)
            written = _write_anew(system, params, texts[i], places[i][k].first, settings, key)
            values, n_cut = _list_values(system, texts[i], written, k, places[i])
            results[i][k] = _summarise(results[i][k], values, n_cut, settings)
    return results


def _find_places(system: System, text: WrittenText) -> list[Place]:
    """The places of the numbers of a text."""
    places: list[Place] = []
    for k, number in enumerate(list_numbers(text.decode(text.written.ids, text.written.numbers))):
        places.append(_find_place(system, text, number, k, places[-1].end if places else 0))
    return places


def _find_place(system: System, text: WrittenText, number: Number, k: int, begin: int) -> Place:
    """The place of the k-th number of a text, at `begin` or behind it. It is found by decoding the text's beginnings
    and ends: any layout of numbers has them."""
    (ids, predicted, *_), decode = text.written, text.decode
    # The number is complete at the first end from which on it stays the same.
    end = len(ids)
    while end > begin + 1 and list_numbers(decode(ids[: end - 1], predicted))[k : k + 1] == [number]:
        end -= 1
    start = end - 1
    while start > begin and list_numbers(decode(ids[start:end], predicted[k:])) != [number]:
        start -= 1
    tail = end + 1 if end < len(ids) else 0
    if ids[start] in _list_opening(system):
        start, tail = start + 1, end
    num_id = system.scheme.vocab.mark("[NUM]") if predicted else -1
    return Place(start, end, tail, tuple(i for i in range(start, end) if ids[i] == num_id))


def _list_opening(system: System) -> set[int]:
    """The marks that open a number."""
    vocab = system.scheme.vocab
    return {vocab.mark(name) for name in system.scheme.fences if name in vocab.marks}


def list_numbers(document: Document) -> list[Number]:
    """The numbers of a document."""
    return [segment for segment in document if isinstance(segment, Number)]


class _RowMeasures(NamedTuple):
    """`decode.uncertainty.Measures` of one row."""

    token_log_prob: np.ndarray  # float32[M]
    number_log_mass: np.ndarray | None  # float32[M]
    quantiles: Numeral | None  # [M, Q]


def _measure(
    system: System, params: Any, texts: Sequence[WrittenText], places: Sequence[Sequence[Place]], settings: Settings
) -> list[_RowMeasures]:
    """The measures of each text, from one pass of the decoder over its tokens."""
    model, grammar = requests.decoding_model(system)
    levels = jnp.asarray(list_levels(settings.shares), jnp.float32)
    options: dict[str, Any] = dict(head=model.writer, max_tokens=settings.max_tokens, **_list_ids(system))
    results: dict[int, _RowMeasures] = {}
    batch_size = min(settings.batch_size, max(1, len(texts)))
    for indices, rows in requests.list_batches([text.row for text in texts], batch_size):
        padded = requests.fill(indices, len(rows))
        written = [texts[i].written for i in padded]
        forced = _force(written, [len(text.ids) for text in written], settings.max_tokens)
        targets = _make_targets(system, written, [places[i] for i in padded], forced.ids)
        keys = requests.make_keys(jax.random.key(0), padded)
        request = requests.make_request(system, rows, settings.max_tokens, keys, Sampling(), forced)
        with requests.mesh_context(params):
            device_grammar, request = requests.distribute(params, grammar, request)
            output = uncertainty.measure(model, params, device_grammar, request, targets, levels, **options)
        output = processes.fetch(output)
        for b, i in enumerate(indices):
            results[i] = _RowMeasures(*jax.tree.map(lambda x, b=b: x[b], output))
    return [results[i] for i in range(len(texts))]


def _list_ids(system: System) -> dict[str, int]:
    return {name: system.scheme.vocab.mark(mark) for name, mark in (("num_id", "[NUM]"), ("end_id", "[EOS]"))}


def _force(texts: Sequence[Written], counts: Sequence[int], max_tokens: int) -> sample.Forced:
    """The first tokens of texts as `sample.Forced`."""
    ids = np.zeros((len(texts), max_tokens), np.int32)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text.ids)] = text.ids
    numerals = None
    if texts[0].numerals is not None:
        numerals = jax.tree.map(
            lambda *columns: np.stack(
                [np.pad(x, [(0, max_tokens - len(x))] + [(0, 0)] * (x.ndim - 1)) for x in columns]
            ),
            *(text.numerals for text in texts),
        )
    return sample.Forced(jnp.asarray(ids), jnp.asarray(counts, jnp.int32), numerals)


def _make_targets(system: System, texts, places: Sequence[Sequence[Place]], ids: Any) -> Targets:
    """The tokens, and the number of each [NUM]."""
    index, values = np.full(ids.shape, -1, np.int32), np.full(ids.shape, None, object)
    for b, (text, row_places) in enumerate(zip(texts, places, strict=True)):
        for k, place in enumerate(row_places):
            for position in place.positions:
                index[b, position], values[b, position] = k, text.numbers[k].value
                if not system.scheme.whole_numbers:
                    part = Numeral(*(np.asarray(x)[position : position + 1] for x in text.numerals))
                    values[b, position] = to_decimals(part._replace(valid=np.ones(1, bool)))[0]
    numerals = to_numeral(values.reshape(-1).tolist(), system.config.data.digits)
    numerals = Numeral(*(x.reshape(*ids.shape, *x.shape[1:]) for x in numerals))
    return Targets(ids, index >= 0, index, numerals)


def _read_measures(system: System, measures: _RowMeasures, place: Place, shares: Sequence[float]) -> Uncertainty:
    """What the measures say of a number; without a method or a note it is still to be sampled."""
    if place.positions:
        if measures.quantiles is None or measures.number_log_mass is None:
            return Uncertainty()
        log_mass = float(measures.number_log_mass[list(place.positions)].sum())
        if not system.scheme.whole_numbers:
            # The tokens say how many parts there are. No quantile of a part is one of the number.
            log_mass += float(measures.token_log_prob[place.first + 1 : place.tail].sum())
            return Uncertainty(math.exp(min(0.0, log_mass)) if place.tail else None)
        probability = math.exp(min(0.0, log_mass))
        at_last = Numeral(*(np.asarray(x)[place.positions[-1]] for x in measures.quantiles))
        ends = to_decimals(at_last._replace(valid=np.ones_like(at_last.valid)))
        head = system.model.heads[system.model.writer]
        intervals = tuple(
            (share, low, high)
            for share, low, high in zip(shares, ends[::2], ends[1::2], strict=True)
            if low is not None and high is not None
        )
        return Uncertainty(probability, intervals, DENSITY if head.densities else EXACT)
    if not place.tail:
        return Uncertainty(note=CUT_OFF)
    probability = math.exp(min(0.0, float(measures.token_log_prob[place.start : place.tail].sum())))
    return Uncertainty(probability, note=WITH_NEXT if place.tail > place.end else "")


def _write_anew(
    system: System, params: Any, text: WrittenText, start: int, settings: Settings, key: jax.Array
) -> list[Written]:
    """Samples of texts whose first `start` tokens are those of `text`."""
    model, grammar = requests.decoding_model(system)
    size, most = min(settings.batch_size, settings.samples), settings.max_tokens
    forced = _force([text.written] * size, [start] * size, most)
    options: dict[str, Any] = dict(head=model.writer, max_tokens=most, greedy=False, **_list_ids(system))
    samples: list[Written] = []
    for first in range(0, settings.samples, size):
        keys = requests.make_keys(key, range(first, first + size))
        request = requests.make_request(system, [text.row] * size, most, keys, Sampling(1.0), forced)
        with requests.mesh_context(params):
            device_grammar, request = requests.distribute(params, grammar, request)
            output = sample.generate(model, params, device_grammar, request, **options)
        output = processes.fetch(output)
        samples += [requests.extract_row(system, output, b) for b in range(size)]
    return samples[: settings.samples]


def _list_values(
    system: System, text: WrittenText, samples: Sequence[Written], k: int, places: Sequence[Place]
) -> tuple[list[Decimal], int]:
    """(the values of the k-th numbers of samples that begin where that of the text does, how many samples end within
    such a number); other samples go on with text there, and are left out."""
    first, begin = places[k].first, places[k - 1].end if k else 0
    # Behind a mark that opens a number there is one.
    is_open = first > 0 and text.written.ids[first - 1] in _list_opening(system)
    values, n_cut = [], 0
    for written in samples:
        for number in list_numbers(text.decode(written.ids, written.numbers))[k : k + 1]:
            place = None if is_open else _find_place(system, text._replace(written=written), number, k, begin)
            if place is None or (place.first == first and place.tail):
                values.append(number.value)
            else:
                n_cut += place.first == first
    return values, n_cut


def _summarise(measured: Uncertainty, values: Sequence[Decimal], n_cut: int, settings: Settings) -> Uncertainty:
    notes = [measured.note] if measured.note else []
    if not values:
        return measured._replace(note="; ".join([*notes, NEVER_AGAIN]))
    ordered = sorted(values)
    ends = [find_quantile(ordered, level) for level in list_levels(settings.shares)]
    intervals = tuple(zip(settings.shares, ends[::2], ends[1::2], strict=True))
    if measured.probability is None:
        notes.append(NO_MASS)
    n_without = settings.samples - len(values) - n_cut
    for count, what in ((n_without, "have no number here"), (n_cut, "are cut off in it")):
        if count:
            notes.append(f"{count} of {settings.samples} samples {what}, and are left out")
    return Uncertainty(measured.probability, intervals, SAMPLED, len(values), "; ".join(notes))
