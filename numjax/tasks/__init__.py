"""Tasks, one per file: a record becomes an `Example`, predictions become metrics. Each defines `Task`.

Below are the heads and losses that tasks add (`protocols.Task.brings`) to configs without heads of these names.
"""

from __future__ import annotations

from typing import Any

LABEL: dict[str, Any] = {
    "heads": {"label": dict(name="classify", pool="end")},
    "objectives": {"label": dict(name="nll", head="label", label="label", average="scored", weight=1.0)},
}
NEXT: dict[str, Any] = {
    "heads": {"next": dict(name="token")},
    "objectives": {"next": dict(name="nll", head="next", label=None, average="scored", constrain=False, weight=1.0)},
}
SPAN: dict[str, Any] = {
    "heads": {"span": dict(name="span", longest=30)},
    # The mean of the losses of start and end, as in BERT, not their sum.
    "objectives": {"span": dict(name="nll", head="span", label="span", weight=0.5)},
}
