"""The front table: each claim of the five papers, its verdict by a rule, our figure and theirs.

`claims.toml` holds the claims and where their figures are; the verdicts follow from the JSON files:

- A claim says that one row is above (or below) another, or that a row reaches a figure of the paper. Its *margin* is
  the difference over seeds, paired by seed where two rows are compared, and its interval the 95% interval of the mean
  (Student's t).
- **held**: a comparison whose interval lies on the claimed side of 0; a figure that the mean reaches; for an `exact`
  count, equality.
- **did not hold**: the interval lies on the other side of 0.
- **too small to tell**: everything else; also with fewer than two seeds, with two rows that have not had the same
  trials (`trials.py`), and with rows that are not above the `floor` that needs no model.
- **cannot be tested here**: `untestable` gives the reason. This alone is typed in.
"""

from __future__ import annotations

import collections
import json
import math
import pathlib
import statistics
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from scipy import stats

from numjax.bundled.experiments import tables, trials
from numjax.bundled.experiments.quotes import Problem

FILE = "claims.toml"
README = "README.md"
MARKS = "<!-- {}: written by python -m experiments.verify --write -->\n", "<!-- end of {} -->\n"
MOST_SEEDS = 100  # more are not estimated
HELD, NOT_HELD, TOO_SMALL, UNTESTABLE = "held", "did not hold", "too small to tell", "cannot be tested here"


class Verdict(NamedTuple):
    """A verdict, its reason where the figures do not show it, and our figure and theirs as text."""

    verdict: str
    reason: str = ""
    ours: str = "–"
    theirs: str = "–"
    scale: str = "–"


class Figure(NamedTuple):
    """A row's values by seed, the paper's mean, and the task."""

    values: Mapping[str, float]
    paper: float | None = None
    task: str = ""

    @property
    def spread(self) -> tuple[float, float | None]:
        """(mean, deviation)."""
        return tables.mean_and_std(list(self.values.values())) or (math.nan, None)


def judge(claim: Mapping[str, Any], folder: pathlib.Path) -> Verdict:
    """The verdict of a claim.

    Args:
      claim: of `claims.toml`. folder: experiments/.

    Raises:
      KeyError, OSError: a figure that it names is not there.
    """
    if "untestable" in claim:
        return Verdict(UNTESTABLE, claim["untestable"], theirs=claim.get("theirs", "–"))
    content = json.loads((folder / claim["file"]).read_text(encoding="utf-8"))
    sign, digits = (-1 if claim.get("lower") else 1), claim.get("digits", 1)
    figure = find_figure(content, claim, claim["row"])
    reference = find_figure(content, claim, claim["than"]) if "than" in claim else None
    if "target_path" in claim:
        ((_, target),) = _walk(content, claim["target_path"].split("/"))
    else:
        target = claim.get("target", figure.paper)
    if reference is None:
        margins = [sign * (value - target) for value in figure.values.values()]
    else:
        seeds = sorted(figure.values.keys() & reference.values.keys())
        margins = [sign * (figure.values[seed] - reference.values[seed]) for seed in seeds]
    interval = find_interval(margins)
    verdict, reason = weigh(margins, interval, is_ranking=reference is not None)
    if claim.get("exact"):
        verdict, reason = (HELD if not any(margins) else NOT_HELD), ""
    figures = [figure] if reference is None else [figure, reference]
    if "floor" in claim and not any(is_above(f, sign, claim["floor"]) for f in figures):
        verdict, reason = TOO_SMALL, f"no row is shown to be better than {claim['floor_of']}, {claim['floor']:g}"
    if (counts := content.get("trials", {})) and not figure.task and trials.is_by_task(counts):
        raise KeyError(f"{claim['file']} has trials by task: give the claim the task of its path")
    counts = trials.select(counts, figure.task)
    if reference is not None and counts:
        names = claim.get("labels", [claim["row"], claim["than"]])
        if not trials.is_fair({name: counts[name] for name in names}):
            verdict, reason = TOO_SMALL, f"no fair comparison: {trials.describe(counts)}"
    ours = " against ".join(format_spread(f.spread, digits) for f in figures)
    if interval:
        low, high = sorted(sign * bound for bound in interval)
        ours += f" (difference {low:+.{digits}f} to {high:+.{digits}f})"
    papers = [target] if reference is None else [figure.paper, reference.paper]
    theirs = " against ".join(f"{p:.{digits}f}" for p in papers if p is not None)
    if unit := claim.get("unit"):
        ours, theirs = f"{ours} {unit}", f"{theirs} {unit}"
    return Verdict(verdict, reason, ours, claim.get("theirs", theirs) or "–", content.get("scale", "–"))


def weigh(margins: Sequence[float], interval: tuple[float, float] | None, is_ranking: bool) -> tuple[str, str]:
    """(verdict, reason) of margins over seeds that should be above 0.

    Args:
      interval: of their mean, or None.
      is_ranking: two rows are compared; else a figure should be reached.
    """
    if interval is None:
        return TOO_SMALL, "one seed" if margins else "no seeds"
    if interval[1] < 0:
        return NOT_HELD, ""
    if interval[0] > 0 or (not is_ranking and statistics.fmean(margins) >= 0):
        return HELD, ""
    needed = count_seeds(margins)
    size = f"at least {needed}" if needed else f"more than {MOST_SEEDS}"
    return TOO_SMALL, f"{len(margins)} seeds, and 0 is in the interval; a difference of this size needs {size}"


def count_seeds(margins: Sequence[float]) -> int:
    """How many seeds a mean and a deviation like these need at least for a 95% interval without 0; 0 if `MOST_SEEDS`
    are too few. With so many, about half of all tries show the difference."""
    mean, deviation = statistics.fmean(margins), statistics.stdev(margins)
    for count in range(len(margins), MOST_SEEDS + 1):
        if float(stats.t.ppf(0.975, count - 1)) * deviation / math.sqrt(count) < abs(mean):
            return count
    return 0


def find_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95% interval of a mean over seeds (Student's t); None with fewer than two."""
    spread = tables.mean_and_std(values)
    if spread is None or spread[1] is None:
        return None
    half = float(stats.t.ppf(0.975, len(values) - 1)) * spread[1] / math.sqrt(len(values))
    return spread[0] - half, spread[0] + half


def is_above(figure: Figure, sign: int, floor: float) -> bool:
    """Whether a row is better than a floor, outside the spread over seeds."""
    interval = find_interval([sign * (value - floor) for value in figure.values.values()])
    return interval is not None and interval[0] > 0


def find_figure(content: Mapping[str, Any], claim: Mapping[str, Any], row: str) -> Figure:
    """The values of a row, from a table's entries, or from `path` in the JSON, in which "*" stands for each seed.

    Raises:
      KeyError: it is not there.
    """
    if "path" in claim:
        values = dict(_walk(content, claim["path"].replace("ROW", row).split("/")))
        values = {seed: claim.get("factor", 1.0) * value for seed, value in values.items()}
        return Figure(values, task=claim.get("task", ""))
    for entries in content["tables"].values():
        for entry in entries:
            if (entry["row"], entry["column"]) == (row, claim["column"]):
                return Figure(entry["seeds"], (entry["paper"] or {}).get("mean"), entry["task"])
    raise KeyError(f"{claim['file']} has no row {row!r} with column {claim['column']!r}")


def _walk(value: Any, keys: Sequence[str], seed: str = "0") -> list[tuple[str, float]]:
    if not keys:
        return [(seed, float(value))]
    if keys[0] != "*":
        return _walk(value[int(keys[0]) if isinstance(value, list) else keys[0]], keys[1:], seed)
    members = value.items() if isinstance(value, Mapping) else enumerate(value)
    return [pair for name, member in members for pair in _walk(member, keys[1:], str(name))]


def format_spread(spread: tuple[float, float | None], digits: int) -> str:
    """A mean and its deviation as text."""
    return f"{spread[0]:.{digits}f}" + ("" if spread[1] is None else f" ± {spread[1]:.{digits}f}")


def format_claims(folder: pathlib.Path) -> str:
    """The front table as Markdown: a table a paper.

    Raises:
      KeyError, OSError: a figure that a claim names is not there.
    """
    papers, verdicts = _judge_all(folder)
    counts = _count(verdict for paper_verdicts in verdicts.values() for verdict in paper_verdicts)
    text = f"Of {sum(counts.values())} claims: {', '.join(f'{count} {name}' for name, count in counts.items())}.\n"
    for paper in papers:
        text += f"\n### {paper['name']}\n\n{paper['source']}; [what was run]({paper['link']})\n\n"
        text += "| claim | verdict | ours | theirs | scale |\n| --- | --- | --- | --- | --- |\n"
        for claim, verdict in zip(paper["claim"], verdicts[paper["name"]], strict=True):
            link = (
                f"[{claim['claim']}]({claim['file'].replace('.json', '.md')})" if "file" in claim else claim["claim"]
            )
            reason = f": {verdict.reason}" if verdict.reason else ""
            cells = [link, f"**{verdict.verdict}**{reason}", verdict.ours, verdict.theirs, verdict.scale]
            text += f"| {' | '.join(cells)} |\n"
    return text


def format_systems(folder: pathlib.Path) -> str:
    """The table of the project's README as Markdown: a line a paper, with how many of its claims held.

    Raises:
      KeyError, OSError: a figure that a claim names is not there.
    """
    papers, verdicts = _judge_all(folder)
    names = (HELD, NOT_HELD, TOO_SMALL, UNTESTABLE)
    text = f"| config | idea | {' | '.join(names)} |\n| --- | --- |{' ---: |' * len(names)}\n"
    for paper in papers:
        counts = _count(verdicts[paper["name"]])
        link = f"[{paper['name']}]({folder.name}/{paper['link']})"
        cells = [f"`{paper['config']}`", f"{link}: {paper['idea']}", *(str(counts[name]) for name in names)]
        text += f"| {' | '.join(cells)} |\n"
    return text


def write(folder: pathlib.Path) -> None:
    """Writes the front table into its README, and its summary into the project's, between their marks."""
    for path, name, text in _list_tables(folder):
        head, _, tail = _split(path.read_text(encoding="utf-8"), name)
        tables.write_text(path, head + text + tail)


def check(folder: pathlib.Path) -> list[Problem]:
    """Where the two tables are not those that the JSON files give."""
    problems = []
    for path, name, expected in _list_tables(folder):
        head, middle, _ = _split(path.read_text(encoding="utf-8"), name)
        if middle != expected:
            number, _, theirs = tables.find_difference(middle, expected)
            problem = f"the table of {name} should have {theirs[:80]!r}"
            problems.append(Problem(path, head.count("\n") + number, problem))
    return problems


def _list_tables(folder: pathlib.Path) -> list[tuple[pathlib.Path, str, str]]:
    """(file, name of its marks, text) of each table."""
    return [
        (folder / README, "claims", format_claims(folder)),
        (folder.parent / README, "systems", format_systems(folder)),
    ]


def _judge_all(folder: pathlib.Path) -> tuple[list[dict[str, Any]], dict[str, list[Verdict]]]:
    """The papers of `claims.toml`, and the verdicts of each by its name."""
    papers = tomllib.loads((folder / FILE).read_text(encoding="utf-8"))["paper"]
    return papers, {paper["name"]: [judge(claim, folder) for claim in paper["claim"]] for paper in papers}


def _count(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """How many verdicts there are of each name."""
    counts = collections.Counter(verdict.verdict for verdict in verdicts)
    return {name: counts[name] for name in (HELD, NOT_HELD, TOO_SMALL, UNTESTABLE)}


def _split(text: str, name: str) -> tuple[str, str, str]:
    """(up to the table of a name, the table, what follows)."""
    begin, end = (mark.format(name) for mark in MARKS)
    head, begin, rest = text.partition(begin)
    middle, end, tail = rest.partition(end)
    return head + begin, middle, end + tail
