"""Difficult texts for the tests of vocabularies and schemes."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from numjax.text import vocab

CORPUS = [
    "How many grams are 2 eggs? About 1,200 to 1.5e3 grams, not 50%.",
    "The cat sat on the mat; the mat cost $12.50 in 2019.\nIt lost (1,746) dollars, or -3.2%.",
    "  indented  text\twith tabs — and dashes, naïve café, 東京 2020",
] * 3
SPECIAL_TEXTS = [
    "\u2581",
    "\u2585",
    "\0",
    "<0x41>",
    "<unk>",
    "[NUM]",
    "[CLS]",
    "<|endoftext|>",
    "[F]1[/F]",
    "  ",
    "\n\n",
    "\r",
]
NUMERALS = [
    *("0", "-0", "007", "1,234.5", "50%", "-3.2%", "1e300", "1E-300", "+5", "\u22125", "10-20", "$-5", "-$5"),
    *("(1,746)", "(2019)", "($1,746)", "1,234.", ".5", "2.", "3.14.15", "10:30", "nan", "inf", "H2O", "1/2"),
    *(
        "1 234",
        "€5",
        "12,34",
        "1e",
        "e5",
        "--5",
        "2.5e+3%",
        "(₩1,746)",
        "-₽5",
        "\u2212¢5",
        "1e\u22125",
        "9" * 400,
        "5 %",
        "1.2e3.4",
        "+-10",
        "5e-",
    ),
]


def make_sentencepiece(**options):
    return vocab.build({"name": "sentencepiece", "size": 400, **options}, CORPUS)


VOCABULARIES = ["unigram", "bpe", "gpt2"]


def make_vocabulary(request):
    """Builds the vocabulary of a fixture's parameter. GPT-2's needs its files: without them the test is skipped."""
    if request.param == "gpt2":
        return vocab.build({"name": "gpt2", "path": str(request.getfixturevalue("real_data")("tokenizers") / "gpt2")})
    return make_sentencepiece(model=request.param)


texts = st.lists(
    st.one_of(
        st.text(max_size=8), st.sampled_from(SPECIAL_TEXTS), st.sampled_from(NUMERALS), st.sampled_from([" ", "a "])
    ),
    max_size=8,
).map("".join)
surrogates = st.text(st.characters(categories=["Cs", "Lu"]), max_size=4)
property_settings = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
