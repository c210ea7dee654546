"""A config from literals: the base of every run, the changes of a system, and the changes of each argument word.

A change is a dict, path → new value:

    "backbone": dict(width=32)             sets options; the others stay
    "embeds.numeral": dict(name="dice")    replaces a block; its old options are dropped, but a scheme keeps
                                           `blocks.INHERITED_OPTIONS`
    "heads": dict(next=dict(name="token")) replaces all blocks of a kind
    "embeds.type": None                    removes a block
    "seed": 42                             sets a value
    "heads.next:mixture": dict(keep=9)     applies only if the block has this part
    "embeds.numeral?": dict(length=16)     applies only if the block exists
    "words": ("reader=none",)              words that this one implies, unless the argument gives others
    "when": {"laptop": {…}}                a change if this word is given too; "numbers" means any word of a
                                           key, and "paper task=text" means all of these words
    "from": "laptop"                       of a scale: that scale is applied first, and its "when"s hold
    "needs": "heads.next:mixture"          without it the word is an error; of a tuple one is enough
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict

from numjax.build import suggest
from numjax.config import blocks
from numjax.tasks import NEXT

Change = Mapping[str, Any]

NLL = NEXT["objectives"]["next"]
# All options of a run; a system changes some of them.
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
        bucket_by="tokens",
        memory=512,
        threads=2,
        prefetch=8,
        workers=0,
        train_size=0,
    ),
    # generate: tasks that generate answers do so at each validation, not only at the end.
    "eval": dict(every=0, batch_size=128, examples=0, test=True, best=True, generate=True),
    "decode": dict(temperature=0.0, top_k=0, top_p=1.0, max_tokens=32, batch_size=32, beams=0, length_penalty=0.0),
    "checkpoint": dict(every=0, keep=2, asynchronous=True),
}
# For a backbone whose block must be complete.
SIZES: dict[str, Any] = {name: BASE["backbone"][name] for name in blocks.INHERITED_OPTIONS["backbone"]}
_CONTROL_KEYS = ("words", "when", "from", "needs")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """The `get_config` of a file of configs/: called with an argument, it returns a config.

    Changes are applied in this order: the base, the system, the task with its heads and losses, `parts`, the scale,
    `as_published`, `options`; flags come last. Within `parts` and `options` the order is that of their keys, not
    that of the argument.

    Attributes:
      system: the change of the base.
      task, scale: defaults for an argument that names none.
      tasks, scales: word → change. A bare word of the argument is a scale, as_published or a word of `bare`.
      parts, options: key → word → change; "*" stands for any other word, and "*" in its values becomes the word.
      bare: the key of `parts` whose words may stand alone, without "KEY=".
      as_published: the change that restores the original behaviour of a paper's code.
      required: key that an argument must name → what it is, as the start of a message that the words follow.
    """

    system: Change
    task: str = ""
    tasks: Mapping[str, Change] = dataclasses.field(default_factory=dict)
    scale: str = ""
    scales: Mapping[str, Change] = dataclasses.field(default_factory=dict)
    parts: Mapping[str, Mapping[str, Change]] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Mapping[str, Change]] = dataclasses.field(default_factory=dict)
    bare: str = ""
    as_published: Change | None = None
    required: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __call__(self, argument: str | None = None) -> ConfigDict:
        """The config for an argument such as "laptop,task=mwpas,embed=dice,as_published".

        Raises:
          ValueError: a word is unknown (the message suggests words), a key has two words, or a word does not fit the
            others.
        """
        choices = self._parse_argument(argument or "")
        try:
            return self._compose(choices)
        except _Unfit as unfit:
            raise ValueError(self._explain(unfit, choices)) from None

    def _parse_argument(self, argument: str) -> dict[str, str]:
        """Key → word of an argument; the key of a scale is "scale"."""
        choices: dict[str, str] = {}
        for word in filter(None, (part.strip() for part in argument.split(","))):
            key, _, value = word.partition("=")
            if word in self.scales:
                key, value = "scale", word
            elif word in self.parts.get(self.bare, {}):
                key, value = self.bare, word
            elif word == "as_published" and self.as_published is not None:
                value = word
            elif not (value and key in self._keys()):
                raise ValueError(self._describe_unknown(word))
            elif value not in self._keys()[key] and "*" not in self._keys()[key]:
                raise ValueError(_unknown_message(key, value, self._keys()[key]))
            if choices.get(key, value) != value and key != "scale":
                raise ValueError(f"{key}={choices[key]} and {value}: choose one")
            choices[key] = value
        for key, question in self.required.items():
            if key not in choices:
                raise ValueError(f"{question} {', '.join(word for word in self._keys()[key] if word != '*')}")
        return choices

    def list_words(self) -> dict[str, tuple[str, ...]]:
        """The words that an argument may have, by key: scale, as_published, task and others. "*" is any word."""
        published = {"as_published": ("as_published",)} if self.as_published is not None else {}
        keys = {key: tuple(changes) for key, changes in self._keys().items()}
        return ({"scale": tuple(self.scales)} if self.scales else {}) | published | keys

    def _describe_unknown(self, word: str) -> str:
        """The message for a word of the argument that is none: what was meant, or all that there are."""
        if ":" in word:
            return f"{word!r} has a colon: write commas between the words, {word.replace(':', ',')}"
        key, _, value = word.partition("=")
        keys = self._keys()
        meant = [f"{name}={value or key}" for name, words in keys.items() if (value or key) in words]
        bare = [*self.list_words().get("scale", ()), *self.list_words().get("as_published", ())]
        bare += self.parts.get(self.bare, ())
        near = difflib.get_close_matches(key, [*bare, *keys], n=3, cutoff=0.6)
        meant = meant or [f"{name}=…" if name in keys else name for name in near]
        words = [*bare, *(f"{name}=…" for name in keys)]
        advice = f"did you mean {', '.join(meant)}?" if meant else f"its words are {', '.join(words)}"
        return f"this config has no word {word!r}: {advice}"

    def _keys(self) -> dict[str, Mapping[str, Change]]:
        return ({"task": self.tasks} if self.tasks else {}) | {**self.parts, **self.options}

    def _words(self, choices: Mapping[str, str]) -> Iterator[tuple[str, Change]]:
        """Yields (the word as the argument has it, its change) in the order of application."""
        order = ["task", *self.parts, "scale", "as_published", *self.options]
        defaults = {"task": self.task, "scale": self.scale}
        words = {key: choices.get(key) or defaults.get(key, "") for key in order}
        added_words: dict[str, str] = {}
        for key in order:
            if words[key]:
                added_words |= dict(word.split("=", 1) for word in self._change(key, words[key]).get("words", ()))
        for key in order:
            if word := words[key] or added_words.get(key, ""):
                for name in self._list_scales(word) if key == "scale" else (word,):
                    yield name if key in ("scale", "as_published") else f"{key}={name}", self._change(key, name)

    def _list_scales(self, word: str) -> list[str]:
        """The scale from which a scale starts, if there is one, and so on; then the scale itself."""
        if word not in self.scales:
            raise ValueError(_unknown_message("from", word, self.scales))
        source = self.scales[word].get("from", "")
        return [*(self._list_scales(source) if source else ()), word]

    def _change(self, key: str, word: str) -> Change:
        if key == "as_published":
            return self.as_published or {}
        changes = self.scales if key == "scale" else self._keys()[key]
        return changes[word] if word in changes else _fill_word(changes["*"], word)

    def _compose(self, choices: Mapping[str, str]) -> ConfigDict:
        """The config of these words. Raises _Unfit for the first word whose needs are not met."""
        config: Any = ConfigDict()
        for change in (BASE, self.system):
            _apply(config, change, "the system")
        applied: list[tuple[str, Change]] = []
        for word, change in self._words(choices):
            needs = change.get("needs", ())
            needs = (needs,) if isinstance(needs, str) else needs
            if needs and not any(_is_present(config, path) for path in needs):
                raise _Unfit(word, needs, config)
            if word.startswith("task="):
                _apply(config, {"task": change["task"]}, word)
                blocks.add_task_blocks(config)
                change = {path: value for path, value in change.items() if path != "task"}
            _apply(config, change, word)
            applied.append((word, change))
            for earlier_word, joint_change in _joint_changes(applied):
                _apply(config, joint_change, f"{earlier_word} with {word}")
        return config.lock()

    def _explain(self, unfit: _Unfit, choices: Mapping[str, str]) -> str:
        """The message for a word whose needs are not met: the need, what the config has, which words would fit."""
        path = unfit.needs[0].partition(":")[0]
        names = " or ".join(needed.partition(":")[2] for needed in unfit.needs)
        value = _get(unfit.config, path)
        state = f"it is {value.name}" if isinstance(value, ConfigDict) and "name" in value else "is none"
        fitting_words: list[str] = []
        for key in ("task", *self.parts):
            if not (fitting_words or unfit.word.startswith(f"{key}=")):
                fitting_words = [
                    f"{key}={word}" for word in self._keys().get(key, ()) if self._is_valid({**choices, key: word})
                ]
        advice = f": use it with {' or '.join(fitting_words)}" if fitting_words else ""
        return f"{unfit.word} needs {path}{names and '=' + names}, and here {state}{advice}"

    def _is_valid(self, choices: Mapping[str, str]) -> bool:
        try:
            self._compose(choices)
        except ValueError:
            return False
        return "*" not in choices.values()


class _Unfit(ValueError):
    """A word whose needs are not met."""

    def __init__(self, word: str, needs: tuple[str, ...], config: Any):
        super().__init__(word)
        self.word, self.needs, self.config = word, needs, config


def list_settings() -> Iterator[tuple[str, Any]]:
    """Yields (path, default) for the settings that every config has; for a block or blocks a dict."""
    for key, default in BASE.items():
        if isinstance(default, Mapping) and key.partition(".")[0] not in blocks.BLOCK_KINDS:
            yield from ((f"{key}.{name}", value) for name, value in default.items())
        else:
            yield key, default


def apply_change(config: Any, change: Change) -> ConfigDict:
    """Applies a change to a config in place and returns it, for config files that start from another one."""
    _apply(config, change, "the change")
    return config


def _apply(config: Any, change: Change, word: str) -> None:
    for target, value in change.items():
        if target not in _CONTROL_KEYS:
            with config.unlocked():
                _put(config, target, value, word)


def _put(config: Any, target: str, value: Any, word: str) -> None:
    path = target.rstrip("?").partition(":")[0]
    if (":" in target or target.endswith("?")) and not _is_present(config, target.rstrip("?")):
        return
    parent, _, key = path.rpartition(".")
    holder = _get(config, parent) if parent else config
    if not isinstance(holder, ConfigDict) or (not parent and key not in BASE and key not in holder):
        raise ValueError(f"{word}: a config has no {path!r}: did you mean {suggest(path, BASE)}?")
    if value is None:
        if key not in holder:
            raise ValueError(f"{word}: there is no {path} to remove")
        del holder[key]
    elif not isinstance(value, Mapping):
        holder[key] = value
    elif "name" in value:
        # The options of a backbone are unknown without JAX, so its block is complete.
        inherited = blocks.inherited_options(path, holder.get(key), value["name"]) if path == "scheme" else {}
        holder[key] = ConfigDict({**inherited, **value})
    elif key in holder and not _is_axis(path):
        holder[key] = _update_block(holder[key], value)
    elif _is_block(path):
        raise ValueError(f"{word}: there is no {path} to change options of")
    else:
        holder[key] = ConfigDict(value)


def _update_block(block: Any, options: Mapping[str, Any]) -> ConfigDict:
    """A block with changed options, which may have other types; options of an inner block are merged with its own."""
    new = {
        key: _update_block(block[key], value)
        if isinstance(value, Mapping) and isinstance(block.get(key), ConfigDict) and "name" not in value
        else value
        for key, value in options.items()
    }
    return ConfigDict({**block, **new})


def _is_axis(path: str) -> bool:
    """Whether the key `path` of a config holds several blocks."""
    return blocks.BLOCK_KINDS.get(path, ("", False))[1]


def _is_block(path: str) -> bool:
    parent, _, _ = path.rpartition(".")
    return _is_axis(parent) or (path in blocks.BLOCK_KINDS and not _is_axis(path))


def _get(config: Any, path: str) -> Any:
    for key in path.split("."):
        if not isinstance(config, ConfigDict) or key not in config:
            return None
        config = config[key]
    return config


def _is_present(config: Any, target: str) -> bool:
    """Whether the config has a block, "heads.next", or has this part there, "heads.next:mixture"."""
    path, _, name = target.partition(":")
    value = _get(config, path)
    return value is not None and (not name or value.get("name") == name)


def _joint_changes(applied: list[tuple[str, Change]]) -> Iterator[tuple[str, Change]]:
    """Yields (word, its "when" change) for each change that applies now that the last word of `applied` is given."""
    last_words = {applied[-1][0], applied[-1][0].partition("=")[0]}
    words = {name for word, _ in applied for name in (word, word.partition("=")[0])}
    for i, (word, change) in enumerate(applied):
        for names, joint_change in change.get("when", {}).items():
            needed_words = set(names.split())
            if needed_words <= words and (i == len(applied) - 1 or needed_words & last_words):
                yield word, joint_change


def _fill_word(change: Any, word: str) -> Any:
    """A change for any word, with each "*" replaced by the word."""
    if isinstance(change, Mapping):
        return {key: _fill_word(value, word) for key, value in change.items()}
    return word if change == "*" else change


def _unknown_message(what: str, word: str, candidates: Any) -> str:
    return (
        f"no {what} is called {word!r}: did you mean {suggest(word, [name for name in candidates if name != '*'])}?"
    )
