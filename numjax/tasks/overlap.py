"""How much of what was to be written was written: BLEU-4, ROUGE-L and METEOR over tokens that blanks part.

The libraries that compute them come with `pip install numjax[metrics]` and are imported on first use.
"""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Sequence
from typing import Any

from numjax.errors import UsageError

# nlg-eval's, and so the papers': recall counts more.
PUBLISHED_BETA = 1.2


def scores(predictions: Sequence[str], references: Sequence[str], *, as_published: bool = False) -> dict[str, float]:
    """All three by name, from 0 to 1.

    Args:
      predictions, references: one reference a prediction; a missing prediction is an empty text and scores 0.
      as_published: ROUGE-L as nlg-eval has it, with β = 1.2 instead of 1.
    """
    beta = PUBLISHED_BETA if as_published else 1.0
    return {
        "BLEU-4": bleu(predictions, references),
        "ROUGE-L": rouge_l(predictions, references, beta),
        "METEOR_exact_stem": meteor(predictions, references),
    }


def bleu(predictions: Sequence[str], references: Sequence[str]) -> float:
    """BLEU-4 of the corpus (Papineni et al., 2002), not smoothed: 0 if no four tokens in a row are right."""
    _paired(predictions, references)
    sacrebleu = _library("sacrebleu")
    options: dict[str, Any] = {
        "tokenize": "none",
        "smooth_method": "none",
        "force": True,
        "use_effective_order": False,
    }
    return min(1.0, sacrebleu.corpus_bleu(list(predictions), [list(references)], **options).score / 100)


def rouge_l(predictions: Sequence[str], references: Sequence[str], beta: float = 1.0) -> float:
    """Mean F_β of the longest common subsequence (Lin, 2004)."""
    _paired(predictions, references)
    scorer = _library("rouge_score.rouge_scorer").RougeScorer(["rougeL"], tokenizer=_Blanks())
    found = []
    for prediction, reference in zip(predictions, references, strict=True):
        score = scorer.score(reference, prediction)["rougeL"]
        below = score.recall + beta**2 * score.precision
        found.append((1 + beta**2) * score.precision * score.recall / below if below else 0.0)
    return statistics.fmean(found)


def meteor(predictions: Sequence[str], references: Sequence[str]) -> float:
    """Mean METEOR with exact and stemmed matches alone (Banerjee and Lavie, 2005; α 0.9, β 3, γ 0.5).

    Neither synonyms nor paraphrases count: they need WordNet or the Java program. Not comparable with METEOR 1.5.
    """
    _paired(predictions, references)
    single = _library("nltk.translate.meteor_score").single_meteor_score
    stemmer = _library("nltk.stem.porter").PorterStemmer()
    return statistics.fmean(
        float(single(reference.split(), prediction.split(), stemmer=stemmer, wordnet=_NoSynonyms()))
        for prediction, reference in zip(predictions, references, strict=True)
    )


class _Blanks:
    """Tokens as they stand: the library's own tokenizer would drop all signs, and with them the formulas."""

    def tokenize(self, text: str) -> list[str]:
        return text.split()


class _NoSynonyms:
    """In place of WordNet."""

    def synsets(self, word: str) -> list[Any]:
        return []


def _paired(predictions: Sequence[str], references: Sequence[str]) -> None:
    if len(predictions) != len(references) or not references:
        raise UsageError(f"{len(predictions)} predictions for {len(references)} references")


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UsageError(f"{name.partition('.')[0]} is not installed: pip install 'numjax[metrics]'") from None
