"""What all configs share: the base, the tasks and the order in which an argument composes.

`--config=configs/numgpt.py:laptop,task=mwpas,embed=dice` composes base → task → what replaces whole blocks
(system, embed) → scale → as_published → what changes a block; flags (`--config.optim.batch_size=64`) come last.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ml_collections import ConfigDict

from configs import presets

Change = Callable[[Any], None]  # ConfigDict's attributes are not known to type checkers


def base() -> ConfigDict:
    """Everything a run knows; a system's file fills in its blocks."""
    return ConfigDict(
        dict(
            seed=0,
            num_seeds=1,
            init_from="",
            log_every=50,
            profile_steps="",
            topology="",
            compile_cache="~/.cache/numjax/jit",
            task=dict(name="statement", dataset="mme"),
            scheme=dict(
                name="subword", rules="default", pad_multiple=128, vocab=dict(name="sentencepiece", size=2000)
            ),
            embeds=dict(token=dict(name="token")),
            positions=dict(sequence=dict(presets.PRESETS["gpt2"].positions)),
            backbone=dict(
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
            heads=dict(),
            objectives=dict(),
            optim=dict(
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
            mesh=dict(data=-1, fsdp=1, tensor=1, rules=()),
            data=dict(
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
            eval=dict(every=0, batch_size=128, examples=0, test=True, best=True, generate=True),
            decode=dict(
                temperature=0.0, top_k=0, top_p=1.0, max_tokens=32, batch_size=32, beams=0, length_penalty=0.0
            ),
            checkpoint=dict(every=0, keep=2, asynchronous=True),
        )
    )


def compose(
    argument: str | None,
    config: Any,
    *,
    tasks: Mapping[str, Change],
    scales: Mapping[str, Change],
    swaps: Mapping[str, Mapping[str, Any]],
    as_published: Change,
    default_task: str,
    default_scale: str = "laptop",
    replacing: Collection[str] = (),
) -> ConfigDict:
    """Applies an argument such as "laptop,task=mwpas,embed=dice,as_published" to a base.

    Args:
      argument: comma-separated; a bare word is a scale or `as_published`, key=word a task or a swap.
      config: the base.
      tasks, scales, swaps: name → change in place; swaps by key, where "*" makes a change of any other name. They are
        applied in the order of the keys, whatever order they are given in.
      as_published: turns every documented departure from the paper's code back.
      replacing: keys of `swaps` that put whole new blocks in place: they come before scale and as_published,
        which would otherwise lose what they set in those blocks.

    Raises:
      ValueError: an unknown word, whose nearest ones are named; two blocks for one place.
    """
    task, scale, published = default_task, default_scale, False
    chosen: dict[str, dict[str, Change]] = {key: {} for key in swaps}
    for word in filter(None, (part.strip() for part in (argument or "").split(","))):
        key, _, value = word.partition("=")
        if not value and key in scales:
            scale = key
        elif word == "as_published":
            published = True
        elif key == "task":
            known(value, tasks, "task")
            task = value
        elif value and key in swaps:
            if value not in swaps[key] and "*" in swaps[key]:
                change = swaps[key]["*"](value)
            else:
                known(value, swaps[key], key)
                change = swaps[key][value]
            chosen[key][value] = change
            if key in replacing and len(chosen[key]) > 1:
                raise ValueError(f"{key}={' and '.join(chosen[key])}: choose one")
        else:
            words = [*scales, "as_published", "task", *swaps]
            known(key, dict.fromkeys(words), "config argument")
    early = [change for key in swaps if key in replacing for change in chosen[key].values()]
    late = [change for key in swaps if key not in replacing for change in chosen[key].values()]
    for change in (tasks[task], *early, scales[scale], *([as_published] if published else []), *late):
        change(config)
    return config.lock()


def known(word: str, words: Mapping[str, object], what: str) -> None:
    """Raises ValueError, naming the nearest words, unless `word` is one of `words`."""
    if word not in words:
        near = difflib.get_close_matches(word, list(words), n=3, cutoff=0.4) or sorted(words)
        raise ValueError(f"no {what} is called {word!r}: did you mean {', '.join(near)}?")


def block(**kwargs) -> ConfigDict:
    """A named block."""
    return ConfigDict(kwargs)


def set_classifier(config: Any, num_classes: int) -> None:
    """One label a text, its cross-entropy the loss."""
    config.heads = block(label=dict(name="classify", num_classes=num_classes, pool="end"))
    config.objectives = block(label=dict(name="nll", head="label", label="label", average="scored", weight=1.0))


def set_language_model(config: Any, head: str, **options) -> None:
    """The next position, from `head` ("token" or "mixture")."""
    config.heads = block(next=dict(name=head) | options)
    config.objectives = block(
        next=dict(name="nll", head="next", label=None, average="scored", constrain=False, weight=1.0)
    )


def set_encoder(config: Any, max_length: int, preset: str = "bert") -> None:
    """BERT's stack, or RoBERTa's, over texts of `max_length` positions."""
    sizes = dict(width=128, layers=2, heads=4, mlp_ratio=4, max_length=max_length, types=(2,), dropout=0.1)
    runs = dict(scan=False, remat="none", attention="auto", dtype="auto", norm_epsilon=1e-12, init_std=0.02)
    chosen = presets.PRESETS[preset]
    config.backbone = block(**(sizes | runs | chosen.backbone))
    config.positions = block(sequence=dict(chosen.positions))


def set_encoder_decoder(config: Any, preset: str, **sizes) -> None:
    """An encoder–decoder of the form of T5 1.0 ("t5"), T5 1.1 and FLAN ("flan"), BART ("bart") or BERT with a decoder
    of its own ("bert_reader"), which writes tokens.

    Args:
      sizes: and other options of the backbone; those that every backbone has stay as they were, and so do other
        positions than the sequence's.
    """
    known(preset, presets.PRESETS, "preset")
    chosen = presets.PRESETS[preset]
    kept = ("width", "layers", "heads", "mlp_ratio", "max_length", "dropout", "remat", "attention", "dtype")
    kept_options = {name: config.backbone[name] for name in kept}
    config.backbone = block(**(kept_options | chosen.backbone | sizes))
    with config.unlocked():
        config.positions.sequence = ConfigDict(chosen.positions)
    head = {key: value for key, value in chosen.head.items() if key != "name"}
    set_language_model(config, chosen.head["name"], **head)
