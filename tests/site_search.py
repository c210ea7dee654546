"""The search of the documentation site: Sphinx's `searchtools.js` in Python, on the index that the build wrote.

The scores are those of docs/static/scorer.js.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from sphinx.search.en import SearchEnglish

SCORER = pathlib.Path(__file__).resolve().parents[1] / "docs" / "static" / "scorer.js"
TITLE, PARTIAL_TITLE, TERM, PARTIAL_TERM = 15, 7, 5, 2
OBJECT_NAME, OBJECT_PART, OBJECT_PRIORITIES = 11, 6, {0: 15, 1: 5, 2: -5}


class Search:
    """The index of a built site."""

    def __init__(self, html: pathlib.Path):
        text = (html / "searchindex.js").read_text(encoding="utf-8")
        self.index: dict[str, Any] = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
        self.language = SearchEnglish({})
        table = re.search(r"FOLDER_BONUS = (\{.*?\});", SCORER.read_text(encoding="utf-8"))
        assert table
        self.bonuses: dict[str, int] = json.loads(table[1])

    def find_pages(self, query: str) -> list[str]:
        """The pages in the order in which the site lists them, each once."""
        results = [*self._match_titles(query), *self._match_entries(query)]
        results += [*self._match_objects(query), *self._match_terms(query)]
        names, titles = self.index["docnames"], self.index["titles"]

        def rank(result: tuple[int, float, str]) -> tuple[float, str]:
            page, score, shown = result
            bonus = next((value for prefix, value in self.bonuses.items() if names[page].startswith(prefix)), 0)
            return -score - bonus, (shown or titles[page]).lower()

        return list(dict.fromkeys(names[page] for page, _, _ in sorted(results, key=rank)))

    # Each of these yields (page, score, what the list shows; "": the title of the page).

    def _match_titles(self, query: str) -> Iterator[tuple[int, float, str]]:
        wanted = query.lower().strip()
        for title, places in self.index["alltitles"].items():
            if wanted in title.lower().strip() and len(wanted) >= len(title) / 2:
                for page, _ in places:
                    page_title = self.index["titles"][page]
                    name = title if page_title == title else f"{page_title} > {title}"
                    yield page, int(TITLE * len(wanted) / len(title) + 0.5) + (page_title == title), name

    def _match_entries(self, query: str) -> Iterator[tuple[int, float, str]]:
        wanted = query.lower().strip()
        for entry, places in self.index["indexentries"].items():
            if wanted in entry and len(wanted) >= len(entry) / 2:
                for page, _, is_main in places:
                    # Entries that are not the main ones come after everything else.
                    score = int(100 * len(wanted) / len(entry) + 0.5)
                    yield page, score if is_main else score - 1000, ""

    def _match_objects(self, query: str) -> Iterator[tuple[int, float, str]]:
        words = set(self.language.split(query.lower().strip()))
        for word in words:
            for prefix, entries in self.index["objects"].items():
                for page, kind, priority, _, name in entries:
                    full_name = f"{prefix}.{name}".lstrip(".").lower()
                    last_name = full_name.rpartition(".")[2]
                    kind_name = self.index["objnames"][str(kind)][2]
                    context = f"{prefix} {name} {kind_name} {self.index['titles'][page]}".lower()
                    if word not in full_name or any(other not in context for other in words - {word}):
                        continue
                    is_whole = word in (full_name, last_name)
                    score = OBJECT_NAME if is_whole else OBJECT_PART if word in last_name else 0
                    yield page, score + OBJECT_PRIORITIES.get(priority, 0), full_name

    def _match_terms(self, query: str) -> Iterator[tuple[int, float, str]]:
        words = {
            self.language.stem(word.lower())
            for word in self.language.split(query.strip())
            if word.lower() not in self.language.stopwords and not word.isdigit()
        }
        scores: dict[int, dict[str, int]] = {}
        for word in words:
            for pages, score in self._find_term(word):
                for page in pages if isinstance(pages, list) else [pages]:
                    scores.setdefault(page, {})[word] = score
        n_long = sum(len(word) > 2 for word in words)
        for page, found_words in scores.items():
            if len(found_words) in (len(words), n_long):
                yield page, max(found_words.values()), ""

    def _find_term(self, word: str) -> Iterator[tuple[Any, int]]:
        """Yields (pages, score): first of the word itself, then of words that contain it; a later score replaces an
        earlier one, as in searchtools.js."""
        kinds = (("terms", TERM, PARTIAL_TERM), ("titleterms", TITLE, PARTIAL_TITLE))
        for kind, whole, _ in kinds:
            if word in self.index[kind]:
                yield self.index[kind][word], whole
        for kind, _, partial in kinds:
            if len(word) > 2 and word not in self.index[kind]:
                pattern = re.compile(re.escape(word))
                for term, pages in self.index[kind].items():
                    if pattern.search(term):
                        yield pages, partial
