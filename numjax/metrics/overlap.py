"""How much predicted texts overlap with references: BLEU-4, ROUGE-L and METEOR over tokens separated by blanks.

The libraries that compute them come with `pip install -e '.[metrics]'` in the checkout and are imported on first use.
"""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Sequence
from typing import Any

from numjax.errors import UsageError

# The β of nlg-eval, and so of the papers: recall counts more.
PUBLISHED_BETA = 1.2


def scores(predictions: Sequence[str], references: Sequence[str], *, as_published: bool = False) -> dict[str, float]:
    """All three metrics by name, from 0 to 1.

    Args:
      predictions, references: one reference per prediction; a missing prediction is an empty text and scores 0.
      as_published: ROUGE-L as in nlg-eval, with β = 1.2 instead of 1.
    """
    beta = PUBLISHED_BETA if as_published else 1.0
    return {
        "BLEU-4": bleu(predictions, references),
        "ROUGE-L": rouge_l(predictions, references, beta),
        "METEOR_exact_stem": meteor(predictions, references),
    }


def bleu(predictions: Sequence[str], references: Sequence[str]) -> float:
    """BLEU-4 of the corpus (Papineni et al., 2002), not smoothed: 0 if no sequence of four tokens matches."""
    _check_pairs(predictions, references)
    sacrebleu = _import_library("sacrebleu")
    options: dict[str, Any] = {
        "tokenize": "none",
        "smooth_method": "none",
        "force": True,
        "use_effective_order": False,
    }
    return min(1.0, sacrebleu.corpus_bleu(list(predictions), [list(references)], **options).score / 100)


def rouge_l(predictions: Sequence[str], references: Sequence[str], beta: float = 1.0) -> float:
    """Mean F_β of the longest common subsequence (Lin, 2004)."""
    _check_pairs(predictions, references)
    scorer = _import_library("rouge_score.rouge_scorer").RougeScorer(["rougeL"], tokenizer=_Blanks())
    scores = []
    for prediction, reference in zip(predictions, references, strict=True):
        score = scorer.score(reference, prediction)["rougeL"]
        denominator = score.recall + beta**2 * score.precision
        scores.append((1 + beta**2) * score.precision * score.recall / denominator if denominator else 0.0)
    return statistics.fmean(scores)


def meteor(predictions: Sequence[str], references: Sequence[str]) -> float:
    """Mean METEOR with only exact and stemmed matches (Banerjee and Lavie, 2005; α 0.9, β 3, γ 0.5).

    Neither synonyms nor paraphrases count: they need WordNet or the Java program. Not comparable with METEOR 1.5.
    """
    _check_pairs(predictions, references)
    single = _import_library("nltk.translate.meteor_score").single_meteor_score
    stemmer = _import_library("nltk.stem.porter").PorterStemmer()
    return statistics.fmean(
        float(single(reference.split(), prediction.split(), stemmer=stemmer, wordnet=_NoSynonyms()))
        for prediction, reference in zip(predictions, references, strict=True)
    )


class _Blanks:
    """Splits at blanks: the library's own tokenizer would drop all signs, and so the formulas."""

    def tokenize(self, text: str) -> list[str]:
        return text.split()


class _NoSynonyms:
    """Replaces WordNet, without synonyms."""

    def synsets(self, word: str) -> list[Any]:
        return []


def _check_pairs(predictions: Sequence[str], references: Sequence[str]) -> None:
    if len(predictions) != len(references) or not references:
        raise UsageError(f"{len(predictions)} predictions for {len(references)} references")


def _import_library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UsageError(
            f"{name.partition('.')[0]} is not installed: in the checkout, pip install -e '.[metrics]'"
        ) from None
