"""The data of the page that shows how systems hold numbers: symbols, vectors, nearest numbers, answers.

microscope = examine(["dice:form=d,dim=300", "runs/mine"], extra=["1,200", "3.14"])
page = render.make_page(microscope)
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from numjax.config.origin import CONFIG_FILE, home
from numjax.errors import UsageError
from numjax.inspect import answers, symbols, vectors, views
from numjax.numeral.format import parse_value
from numjax.text.vocab.base import BaseVocabulary
from numjax.types import Number

if TYPE_CHECKING:
    from numjax.api import Loaded

HIGH = 999
LEAST_HIGH = 9
MAX_PARTS = 4
MAX_NUMBERS = 500  # beside the range
CHOSEN = (
    "-1", "-5", "-42", "-1000", "0.001", "1e-3", "0.25", "0.5", "1.5", "3.14", "99.9", "42.0", "007", "50%", "1000",
    "1001", "1024", "1,200", "1200", "2026", "9999", "10000", "12,345", "100000", "1000000", "1,000,000", "2.5e6",
    "1e9",
)  # fmt: skip


class Part(NamedTuple):
    """What is shown of an embedding or a run.

    Attributes:
      name: as it was given. facts: (name, value) to show. views: its embeddings.
      layouts: those of a run's own scheme with its own vocabulary.
      written, judged: what a run answers; None if it does not. silence: why there are no answers, in a sentence.
    """

    name: str
    facts: tuple[tuple[str, str], ...]
    views: tuple[views.View, ...]
    layouts: tuple[symbols.Layout, ...] = ()
    written: answers.Written | None = None
    judged: answers.Judged | None = None
    silence: str = ""


class Microscope(NamedTuple):
    """The data of a page.

    Attributes:
      texts: the numbers as written: 0 … high, then others. values: their exact values. high: the last of the range.
      readings: what each set of rules reads in each number.
      vocabulary: of `layouts`, in words. layouts: of every scheme.
      parts: the embeddings and runs.
    """

    texts: tuple[str, ...]
    values: tuple[Decimal, ...]
    high: int
    readings: tuple[tuple[symbols.Reading, ...], ...]
    vocabulary: str
    layouts: tuple[symbols.Layout, ...]
    parts: tuple[Part, ...]


def examine(
    specs: Sequence[str],
    extra: Sequence[str] = (),
    *,
    high: int = HIGH,
    prompt: str = "",
    vocab: str = "",
    trust: bool = False,
    options: Callable[[str, Sequence[str]], Mapping[str, Any]] | None = None,
) -> Microscope:
    """Examines embeddings and runs.

    Args:
      specs: workdirs, or embeddings as `vectors.make` takes them.
      extra: numbers beside 0 … `high` and `CHOSEN`.
      prompt: with `answers.SLOT` where the number goes, for runs that write; a question for runs that judge answers.
      vocab: the vocabulary of the layouts, see `symbols.make_vocabulary`; by default that of the first run.
      trust: run modules outside numjax that a workdir names.
      options: (embedding, numbers of the range) → options that its specification leaves open, such as DICE's range.

    Raises:
      UsageError: a part cannot be shown, or a text is no number. DataError: a table cannot be read.
    """
    if not 1 <= len(specs) <= MAX_PARTS:
        raise UsageError(f"{len(specs)} parts: give one to {MAX_PARTS} workdirs or embeddings")
    if not LEAST_HIGH <= high <= HIGH:
        raise UsageError(f"--high={high}: the range 0 … high ends between {LEAST_HIGH} and {HIGH}")
    if len(extra) > MAX_NUMBERS:
        raise UsageError(f"{len(extra)} numbers are more than {MAX_NUMBERS} beside the range: give fewer")
    range_texts = [str(number) for number in range(high + 1)]
    texts = tuple(dict.fromkeys((*range_texts, *CHOSEN, *extra)))
    values = tuple(parse_number(text) for text in texts)
    parts, run_vocabulary = [], None
    for spec, name in zip(specs, shorten_names(specs), strict=True):
        if is_workdir(spec):
            model = load_run(spec, trust)
            parts.append(examine_run(model, name, texts, values, high, prompt))
            run_vocabulary = run_vocabulary or (name, model.system.scheme.vocab)
        elif "/" in spec and not pathlib.Path(spec).expanduser().exists():
            raise UsageError(f"{spec}: no such folder or file: give a --workdir, an embedding or a file of vectors")
        else:
            defaults = options(spec, range_texts) if options else {}
            parts.append(examine_embedding(spec, texts, values, high, defaults)._replace(name=name))
    vocabulary, description = _choose_vocabulary(vocab, run_vocabulary)
    layouts = tuple(symbols.list_layouts(vocabulary, texts))
    readings = tuple(tuple(symbols.read_by_rules(text)) for text in texts)
    return Microscope(texts, values, high, readings, description, layouts, tuple(parts))


def parse_number(text: str) -> Decimal:
    """The exact value of a number in digits that fits a float.

    Raises:
      UsageError: the text is no such number.
    """
    value = parse_value(text)
    if text[-1:].isalpha() or abs(value.adjusted()) > 300:
        raise UsageError(f"{text[:40]!r}: give numbers in digits, below 1e300")
    return value


def is_workdir(spec: str) -> bool:
    """Whether a specification names a folder, which must be a run's."""
    return pathlib.Path(spec).expanduser().is_dir()


def shorten_names(specs: Sequence[str]) -> list[str]:
    """Names of parts for a page: of a folder or file the last parts of its path, as many as tell the paths apart. So
    a page does not show where its maker keeps files."""
    paths = {spec: pathlib.Path(spec).expanduser().resolve().parts for spec in specs}
    paths = {spec: parts for spec, parts in paths.items() if pathlib.Path(*parts).exists()}
    return [_shorten(parts, set(paths.values())) if (parts := paths.get(spec)) else spec for spec in specs]


def _shorten(parts: tuple[str, ...], all_parts: set[tuple[str, ...]]) -> str:
    least = 1 + parts[-1].startswith("seed_")  # which names no run
    for n in range(least, len(parts)):
        if sum(other[-n:] == parts[-n:] for other in all_parts) == 1:
            return "/".join(parts[-n:])
    return str(pathlib.Path(*parts))


def load_run(spec: str, trust: bool = False) -> Loaded:
    """The model of a workdir.

    Raises:
      UsageError: it holds no run with a checkpoint, or one that reads no text.
    """
    from numjax import api

    folder = pathlib.Path(spec).expanduser()
    if not (home(folder) / CONFIG_FILE).exists():
        raise UsageError(f"{spec}: no run in this folder, it has no {CONFIG_FILE}; give a --workdir or an embedding")
    model = api.load(folder, trust=trust)
    if model.system.scheme.reads != "text":
        raise UsageError(f"{spec}: its scheme {model.system.scheme.part_name()} reads rows of a table, not numbers")
    return model


def examine_embedding(
    spec: str, texts: Sequence[str], values: Sequence[Decimal], high: int, defaults: Mapping[str, Any]
) -> Part:
    """An embedding of the library or a table of vectors.

    Raises:
      UsageError: it is neither, or has a vector for no number of the range. DataError: the table cannot be read.
    """
    embedding = vectors.make(spec, **defaults)
    has_vector = embedding.has_vector(texts)
    if not has_vector[: high + 1].any():
        raise UsageError(f"{spec}: none of the numbers 0 … {high} has a vector in it")
    known = [text for text, ok in zip(texts, has_vector, strict=True) if ok]
    vectors_ND = np.zeros((len(texts), embedding.dim))
    vectors_ND[has_vector] = embedding(known)
    facts = [(name, str(value)) for name, value in embedding.options.items() if name != "path"]
    if missing := int((~has_vector).sum()):
        facts.append(("numbers without a row", f"{missing} of {len(texts)}"))
    view = views.make_view("", vectors_ND, has_vector, values, high + 1)
    return Part(spec, tuple(facts), (view,))


def examine_run(
    model: Loaded, name: str, texts: Sequence[str], values: Sequence[Decimal], high: int, prompt: str = ""
) -> Part:
    """A trained run: the input of its stack, its numeral embeddings, its own layout and its answers."""
    system = model.system
    has_vector = np.asarray([_is_one_number(model, text) for text in texts])
    if not has_vector[: high + 1].any():
        raise UsageError(f"{name}: its scheme reads no number in the texts 0 … {high}")
    known = [text for text, ok in zip(texts, has_vector, strict=True) if ok]
    run_views = []
    for embed_name in (None, *sorted(system.model.fusions)):
        known_vectors = np.asarray(model.embed(known, embed_name), np.float64)
        vectors_ND = np.zeros((len(texts), known_vectors.shape[1]))
        vectors_ND[has_vector] = known_vectors
        title = (
            "input of the stack" if embed_name is None else f"{embed_name}: {system.config.embeds[embed_name].name}"
        )
        run_views.append(views.make_view(title, vectors_ND, has_vector, values, high + 1))
    layouts = tuple(symbols.write_layouts(f"{system.scheme.part_name()}, of {name}", system.scheme, texts))
    written, judged, silence = _ask(model, texts, high, prompt)
    return Part(name, _list_facts(model), tuple(run_views), layouts, written, judged, silence)


def _ask(model: Loaded, texts: Sequence[str], high: int, prompt: str) -> tuple[Any, Any, str]:
    """(what the run writes, what it judges, why it does neither)."""
    is_writer = any(head.provides("step_scores") for head in model.system.model.heads.values())
    try:
        if is_writer:
            return answers.write_answers(model, texts, len(texts) - high - 1, prompt), None, ""
        return None, answers.judge_numbers(model, texts, prompt), ""
    except UsageError as error:
        if prompt:
            raise
        heads = ", ".join(f"{name}: {block.name}" for name, block in sorted(model.system.config.heads.items()))
        return None, None, f"No answers to show of the heads {heads or 'none'}: {error}."


def _is_one_number(model: Loaded, text: str) -> bool:
    """Whether `Loaded.embed` can embed the text."""
    document = model.system.scheme.parse(text)
    return len(document) == 1 and isinstance(document[0], Number) and document[0].surface == text


def _list_facts(model: Loaded) -> tuple[tuple[str, str], ...]:
    config = model.system.config
    blocks = {
        "task": config.task.name,
        "scheme": config.scheme.name,
        "embeddings": ", ".join(f"{name}: {block.name}" for name, block in sorted(config.embeds.items())),
        "backbone": f"{config.backbone.name}, {model.system.model.backbone.width} wide",
        "heads": ", ".join(f"{name}: {block.name}" for name, block in sorted(config.heads.items())),
        "step": f"{model.step:,}",
    }
    return tuple(blocks.items())


def _choose_vocabulary(spec: str, run: tuple[str, BaseVocabulary] | None) -> tuple[BaseVocabulary, str]:
    if not spec and run is not None:
        return run[1], f"the vocabulary of {run[0]}, {run[1].base:,} sub-words"
    vocabulary = symbols.make_vocabulary(spec or symbols.VOCABULARY)
    source = spec or f"{symbols.VOCABULARY}, trained on numbers alone"
    return vocabulary, f"{source}, {vocabulary.base:,} sub-words"
