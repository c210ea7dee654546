"""A config from literals: what every run knows, what a system is, and what each word of an argument changes.

A change is a dict, place → what comes there:

    "backbone": dict(width=32)             options; the others stay
    "embeds.numeral": dict(name="dice")    another block; its old options go, but for what a scheme
                                           reads (`blocks.KEPT`)
    "heads": dict(next=dict(name="token")) all blocks of an axis
    "embeds.type": None                    taken out
    "seed": 42                             a value
    "heads.next:mixture": dict(keep=9)     only where this part stands there
    "embeds.numeral?": dict(length=16)     only where something stands there
    "words": ("reader=none",)              other words that this one brings, where the argument says no others
    "when": {"laptop": {…}}                a change for where this word is said too; "numbers" is
                                           any word of a key, and of "paper task=text" all are
    "needs": "heads.next:mixture"          without it the word is refused; of a tuple one is enough
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict

from numjax.build import near
from numjax.config import blocks
from numjax.tasks.answered import NEXT

Change = Mapping[str, Any]

NLL = NEXT["objectives"]["next"]
# Everything a run knows; a system says what it has otherwise.
BASE: Change = {
    "seed": 0,
    "num_seeds": 1,
    "init_from": "",
    "log_every": 50,
    "profile_steps": "",
    "topology": "",
    "compile_cache": "~/.cache/numjax/jit",
    "task": dict(name="statement", dataset="mme"),
    "scheme": dict(name="subword", rules="default", pad_multiple=128),
    "scheme.vocab": dict(name="sentencepiece", size=2000),
    "embeds": dict(token=dict(name="token")),
    "positions": dict(sequence=dict(name="learned")),
    "backbone": dict(
        name="decoder",
        width=128,
        layers=2,
        heads=4,
        mlp_ratio=4,
        max_length=128,
        dropout=0.1,
        scan=False,
        remat="none",
        packed=False,
        attention="auto",
        dtype="auto",
        init_std=0.02,
    ),
    **NEXT,
    "optim": dict(
        learning_rate=3e-4,
        schedule="constant",
        warmup=0,
        floor=0.0,
        weight_decay=0.1,
        betas=(0.9, 0.95),
        clip=1.0,
        batch_size=32,
        accumulate=1,
        epochs=20,
        steps=0,
    ),
    "mesh": dict(data=-1, fsdp=1, tensor=1, rules=()),
    "data": dict(
        dir="",
        digits=20,
        length=128,
        overflow="skip",
        pack=False,
        buckets=4,
        memory=512,
        threads=2,
        prefetch=8,
        workers=0,
        train_size=0,
    ),
    # generate: tasks that write their answers do so at each look at validation, not at the end alone.
    "eval": dict(every=0, batch_size=128, examples=0, test=True, best=True, generate=True),
    "decode": dict(temperature=0.0, top_k=0, top_p=1.0, max_tokens=32, batch_size=32, beams=0, length_penalty=0.0),
    "checkpoint": dict(every=0, keep=2, asynchronous=True),
}
# Of a backbone whose block is whole.
SIZES: dict[str, Any] = {name: BASE["backbone"][name] for name in blocks.KEPT["backbone"]}
_BESIDE = ("words", "when", "needs")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a file of configs/ gives as its `get_config`: called with an argument it is a config.

    Applied are, each over what was before: the base, the system, the task with the heads and losses that it brings,
    `parts`, the scale, `as_published`, `options`; flags come last. Within `parts` and `options` the order is that of
    their keys, whatever the argument's.

    Attributes:
      system: the literal, a change of the base.
      task, scale: what they are where the argument names none.
      tasks, scales: word → change. A bare word of the argument is a scale or as_published.
      parts, options: key → word → change, where "*" stands for any other word: "*" in its values becomes the word.
      as_published: turns every documented departure from a paper's code back.
    """

    system: Change
    task: str = ""
    tasks: Mapping[str, Change] = dataclasses.field(default_factory=dict)
    scale: str = ""
    scales: Mapping[str, Change] = dataclasses.field(default_factory=dict)
    parts: Mapping[str, Mapping[str, Change]] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Mapping[str, Change]] = dataclasses.field(default_factory=dict)
    as_published: Change | None = None

    def __call__(self, argument: str | None = None) -> ConfigDict:
        """The config for an argument such as "laptop,task=mwpas,embed=dice,as_published".

        Raises:
          ValueError: an unknown word, whose nearest ones are named; two words for one key; or one that does not go
            with the others.
        """
        said = self._said(argument or "")
        try:
            return self._composed(said)
        except _Unfit as unfit:
            raise ValueError(self._explained(unfit, said)) from None

    def _said(self, argument: str) -> dict[str, str]:
        """Key → word; of a scale the key is "scale"."""
        said: dict[str, str] = {}
        for word in filter(None, (part.strip() for part in argument.split(","))):
            key, _, value = word.partition("=")
            if word in self.scales:
                key, value = "scale", word
            elif word == "as_published" and self.as_published is not None:
                value = word
            elif not (value and key in self._keys()):
                keys = ("as_published",) * (self.as_published is not None)
                raise ValueError(_unknown("config argument", key, [*self.scales, *keys, *self._keys()]))
            elif value not in self._keys()[key] and "*" not in self._keys()[key]:
                raise ValueError(_unknown(key, value, self._keys()[key]))
            if said.get(key, value) != value and key != "scale":
                raise ValueError(f"{key}={said[key]} and {value}: choose one")
            said[key] = value
        return said

    def _keys(self) -> dict[str, Mapping[str, Change]]:
        return ({"task": self.tasks} if self.tasks else {}) | {**self.parts, **self.options}

    def _words(self, said: Mapping[str, str]) -> Iterator[tuple[str, Change]]:
        """(the word as the argument has it, its change) in the order in which they are applied."""
        order = ["task", *self.parts, "scale", "as_published", *self.options]
        defaults = {"task": self.task, "scale": self.scale}
        chosen = {key: said.get(key) or defaults.get(key, "") for key in order}
        brought: dict[str, str] = {}
        for key in order:
            if chosen[key]:
                brought |= dict(word.split("=", 1) for word in self._change(key, chosen[key]).get("words", ()))
        for key in order:
            if word := chosen[key] or brought.get(key, ""):
                yield word if key in ("scale", "as_published") else f"{key}={word}", self._change(key, word)

    def _change(self, key: str, word: str) -> Change:
        if key == "as_published":
            return self.as_published or {}
        among = self.scales if key == "scale" else self._keys()[key]
        return among[word] if word in among else _filled(among["*"], word)

    def _composed(self, said: Mapping[str, str]) -> ConfigDict:
        """Raises _Unfit for the first word that needs what is not there."""
        config: Any = ConfigDict()
        for change in (BASE, self.system):
            _apply(config, change, "the system")
        done: list[tuple[str, Change]] = []
        for word, change in self._words(said):
            needs = change.get("needs", ())
            needs = (needs,) if isinstance(needs, str) else needs
            if needs and not any(_stands(config, place) for place in needs):
                raise _Unfit(word, needs, config)
            if word.startswith("task="):
                _apply(config, {"task": change["task"]}, word)
                blocks.bring(config)
                change = {place: value for place, value in change.items() if place != "task"}
            _apply(config, change, word)
            done.append((word, change))
            for one, two in _together(done):
                _apply(config, two, f"{one} with {word}")
        return config.lock()

    def _explained(self, unfit: _Unfit, said: Mapping[str, str]) -> str:
        """What was there instead, and with which words of one key it would go."""
        place = unfit.needs[0].partition(":")[0]
        names = " or ".join(needed.partition(":")[2] for needed in unfit.needs)
        here = _at(unfit.config, place)
        stands = f"it is {here.name}" if isinstance(here, ConfigDict) and "name" in here else "is none"
        fits: list[str] = []
        for key in ("task", *self.parts):
            if not (fits or unfit.word.startswith(f"{key}=")):
                fits = [f"{key}={word}" for word in self._keys().get(key, ()) if self._goes({**said, key: word})]
        told = f": use it with {' or '.join(fits)}" if fits else ""
        return f"{unfit.word} needs {place}{names and '=' + names}, and here {stands}{told}"

    def _goes(self, said: Mapping[str, str]) -> bool:
        try:
            self._composed(said)
        except ValueError:
            return False
        return "*" not in said.values()


class _Unfit(ValueError):
    """A word that needs what is not there."""

    def __init__(self, word: str, needs: tuple[str, ...], config: Any):
        super().__init__(word)
        self.word, self.needs, self.config = word, needs, config


def changed(config: Any, change: Change) -> ConfigDict:
    """The config with a change made of it, in place: for files that begin with another's config."""
    _apply(config, change, "the change")
    return config


def _apply(config: Any, change: Change, word: str) -> None:
    for place, value in change.items():
        if place not in _BESIDE:
            with config.unlocked():
                _put(config, place, value, word)


def _put(config: Any, place: str, value: Any, word: str) -> None:
    path = place.rstrip("?").partition(":")[0]
    if (":" in place or place.endswith("?")) and not _stands(config, place.rstrip("?")):
        return
    above, _, key = path.rpartition(".")
    holder = _at(config, above) if above else config
    if not isinstance(holder, ConfigDict) or (not above and key not in BASE and key not in holder):
        raise ValueError(f"{word}: a config has no {path!r}: did you mean {near(path, BASE)}?")
    if value is None:
        if key not in holder:
            raise ValueError(f"{word}: there is no {path} to take out")
        del holder[key]
    elif not isinstance(value, Mapping):
        holder[key] = value
    elif "name" in value:
        # The options of a backbone are not known without JAX: its block is whole.
        kept = blocks.kept(path, holder.get(key), value["name"]) if path == "scheme" else {}
        holder[key] = ConfigDict({**kept, **value})
    elif key in holder and not _is_axis(path):
        holder[key] = _updated(holder[key], value)
    elif _is_block(path):
        raise ValueError(f"{word}: there is no {path} to have other options")
    else:
        holder[key] = ConfigDict(value)


def _updated(block: Any, options: Mapping[str, Any]) -> ConfigDict:
    """A block with other options, which may have other types; those of a block inside it join its own."""
    new = {
        key: _updated(block[key], value)
        if isinstance(value, Mapping) and isinstance(block.get(key), ConfigDict) and "name" not in value
        else value
        for key, value in options.items()
    }
    return ConfigDict({**block, **new})


def _is_axis(path: str) -> bool:
    """Whether it holds several blocks."""
    return blocks.PLACES.get(path, ("", False))[1]


def _is_block(path: str) -> bool:
    above, _, _ = path.rpartition(".")
    return _is_axis(above) or (path in blocks.PLACES and not _is_axis(path))


def _at(config: Any, path: str) -> Any:
    for key in path.split("."):
        if not isinstance(config, ConfigDict) or key not in config:
            return None
        config = config[key]
    return config


def _stands(config: Any, place: str) -> bool:
    """Whether there is something, "heads.next", or this part, "heads.next:mixture"."""
    path, _, name = place.partition(":")
    found = _at(config, path)
    return found is not None and (not name or found.get("name") == name)


def _together(done: list[tuple[str, Change]]) -> Iterator[tuple[str, Change]]:
    """(a word, what it changes together with others) now that the last of `done` is said, see "when"."""
    last = {done[-1][0], done[-1][0].partition("=")[0]}
    said = {name for word, _ in done for name in (word, word.partition("=")[0])}
    for i, (word, change) in enumerate(done):
        for names, more in change.get("when", {}).items():
            others = set(names.split())
            if others <= said and (i == len(done) - 1 or others & last):
                yield word, more


def _filled(change: Any, word: str) -> Any:
    """A change for any word, with the word in the place of each "*"."""
    if isinstance(change, Mapping):
        return {key: _filled(value, word) for key, value in change.items()}
    return word if change == "*" else change


def _unknown(what: str, word: str, among: Any) -> str:
    return f"no {what} is called {word!r}: did you mean {near(word, [name for name in among if name != '*'])}?"
