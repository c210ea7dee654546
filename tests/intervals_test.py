"""Intervals of numbers that models write: where the numbers stand, all numbers as the reference, and bad words."""

from __future__ import annotations

import functools
import math
from decimal import Decimal
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.bundled.configs import schemes
from numjax.config import fit
from numjax.errors import UsageError
from numjax.evals import generate as evals
from numjax.evals import requests, uncertainty
from numjax.evals.numbers import PredictedNumber
from numjax.nn.numerals import gather
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.pipeline.features import from_features
from numjax.runtime import shard
from numjax.system import assemble, make_loader
from numjax.text import document as documents
from numjax.types import Batch, Mark

RECORDS = [
    {"id": f"{a}+{b}", "question": f"{a} + {b} =", "answer": str(a + b), "accepted": str(a + b)}
    | {"operation": "add", "stream": "inside"}
    for a in range(0, 60, 7)
    for b in range(0, 60, 7)
]
SHARES = (0.5, 0.9)
MOST = 12
PROMPTS = ["12 + 30 =", "7 + 8 ="]
LAYOUTS = ("digits", "digits_rev_answer", "bpe", "chunk3", "hints", "numerologic", "p1000", "rt", "limbs", "numgpt")


@pytest.fixture(scope="module")
def make_system(tmp_path_factory):
    """Row of configs/schemes.py → (a small system whose answers are one number, random parameters)."""

    @functools.cache
    def make(row: str, answer: str = "number", scale: float = 1.0):
        config: Any = schemes.get_config(f"{row},smoke")
        changes = {"task.answer": answer, "backbone.width": 32, "backbone.layers": 1, "backbone.heads": 2}
        if scale != 1.0:
            changes["heads.next"] = {"name": "token", "tied": False}
        with config.unlocked():
            config.update_from_flattened_dict(changes)
        system = assemble(config, tmp_path_factory.mktemp(row), lambda: RECORDS)
        rows = [from_features(system.encode(evals.make_prompt(system, p)), config.data.digits) for p in PROMPTS]
        keys = requests.make_keys(jax.random.key(0), range(len(rows)))
        batch = Batch(requests.make_request(system, rows, MOST, keys, requests.Sampling()).prompt)
        params = jax.jit(lambda: system.model.init(jax.random.key(3), batch)["params"])()
        if scale != 1.0:
            params = params | {"heads_next": {"kernel": params["heads_next"]["kernel"] * scale}}
        return system, params

    return make


def generate(system, params, **options):
    return evals.generate(system, params, PROMPTS, max_tokens=MOST, intervals=SHARES, **options)


@pytest.mark.parametrize("row", LAYOUTS)
def test_each_layout_says_where_its_numbers_stand(make_system, row):
    """The text before a number has one number less, and its tokens alone are that number."""
    system, _ = make_system(row, "text")
    document = (Mark("[SEP]"), *documents.parse(" 46 and 7.5 or 120", "default"), Mark("[EOS]"))
    encoded = system.encode((*evals.START, *document))
    ids = np.asarray(encoded.ids)[2:].tolist()
    values = [Decimal(46), Decimal("7.5"), Decimal(120)]
    is_slot = system.scheme.numbers == "slot"
    predicted = [PredictedNumber(str(v), v, v) for v in values] if is_slot else []
    prompt = from_features(system.encode(evals.START), system.config.data.digits)
    decode = functools.partial(evals._decode_document, system, prompt)
    text = uncertainty.WrittenText(prompt, requests.Written(ids, predicted, 0.0, True), decode)
    places = uncertainty._find_places(system, text)
    assert len(places) == 3
    for k, place in enumerate(places):
        assert len(uncertainty.list_numbers(decode(ids[: place.start], predicted))) == k, "the prefix tells no digit"
        assert [n.value for n in uncertainty.list_numbers(decode(ids[: place.tail], predicted))] == values[: k + 1]
        assert place.tail and bool(place.positions) == is_slot


@pytest.mark.parametrize(("row", "is_closed"), [("bpe", False), ("digits", True)])
def test_a_number_at_the_end_is_complete_only_behind_its_closing_mark(make_system, row, is_closed):
    system, _ = make_system(row, "text")
    prompt = from_features(system.encode(evals.START), system.config.data.digits)
    decode = functools.partial(evals._decode_document, system, prompt)
    ids = np.asarray(system.encode((*evals.START, *documents.parse("7 and 46", "default"))).ids)[1:].tolist()
    places = uncertainty._find_places(
        system, uncertainty.WrittenText(prompt, requests.Written(ids, [], 0.0, False), decode)
    )
    assert [place.end for place in places][-1] == len(ids)
    assert places[-1].tail == (len(ids) if is_closed else 0) and places[0].tail > places[0].start


def test_a_spelled_numbers_probability_and_intervals_are_those_of_all_numbers(make_system):
    """The answer is one number of at most two characters, so that a beam over them all is the distribution."""
    system, params = make_system("digits")
    most = 6  # a blank, [F], two characters, [/F] and [EOS]
    options = dict(max_tokens=most, batch_size=2)
    beams = evals.search(system, params, PROMPTS, width=128, **options)
    results = evals.generate(system, params, PROMPTS, intervals=SHARES, samples=400, **options)
    for ranked, result in zip(beams, results, strict=True):
        by_text = {g.text: math.exp(g.log_prob) for g in ranked}
        masses: dict[Decimal, float] = {}
        for text, mass in by_text.items():  # 0 and −0 are one number
            masses[Decimal(text)] = masses.get(Decimal(text), 0.0) + mass
        assert sum(masses.values()) == pytest.approx(1, abs=1e-4)
        (number,) = result.numbers
        assert number["probability"] == pytest.approx(by_text[result.text], rel=1e-3)
        assert number["probability"] == pytest.approx(math.exp(result.log_prob), rel=1e-3)
        assert number["method"] == "samples" and number["samples"] == 400 and "note" not in number
        ends = [(Decimal(i["low"]), Decimal(i["high"]), i["share"]) for i in number["intervals"]]
        for low, high, share in ends:
            five_sigma = 5 * math.sqrt(0.25 / 400)
            assert sum(m for v, m in masses.items() if v <= high) > (1 + share) / 2 - five_sigma
            assert sum(m for v, m in masses.items() if v < low) < (1 - share) / 2 + five_sigma
        assert ends[1][0] <= ends[0][0] <= ends[0][1] <= ends[1][1], "50% lies inside 90%"
    again = evals.generate(system, params, PROMPTS, intervals=SHARES, samples=400, **options)
    assert again == results, "a seed fixes the samples"


def test_beams_and_samples_have_the_probability_of_their_own_number(make_system):
    system, params = make_system("digits")
    for options in (dict(beams=3), dict(temperature=1.0, seed=5)):
        for result in generate(system, params, samples=8, **options):
            (number,) = result.numbers
            assert number["probability"] == pytest.approx(math.exp(result.log_prob), rel=1e-3)


def test_a_number_that_a_head_predicts_has_the_heads_own_quantiles(make_system):
    system, params = make_system("numgpt")
    (plain, _), (result, _) = (
        evals.generate(system, params, PROMPTS, max_tokens=MOST, intervals=i) for i in ((), SHARES)
    )
    (number,) = result.numbers
    assert number["value"] == plain.numbers[0]["value"]
    assert (plain.numbers[0]["method"], number["method"]) == ("mantissa", "density")
    assert len(plain.numbers[0]["intervals"]) == 1 < len(number["intervals"])
    assert number["approximate"] and 0 < number["probability"] < 1
    (low, high), (wide_low, wide_high) = ((Decimal(i["low"]), Decimal(i["high"])) for i in number["intervals"])
    assert wide_low <= low < high <= wide_high


@pytest.mark.parametrize("row", ["digits", "fone"])
def test_what_is_drawn_for_a_prompt_does_not_depend_on_its_batch(make_system, row):
    system, params = make_system(row)
    prompts = [f"{a} + {b} =" for a, b in ((12, 30), (7, 8), (41, 5), (3, 3), (20, 20))]
    options = dict(max_tokens=MOST, temperature=1.0, seed=4, intervals=SHARES, samples=7)
    alone, *others = (evals.generate(system, params, prompts, batch_size=size, **options) for size in (1, 5))
    for other in others:
        for one, expected in zip(other, alone, strict=True):
            assert one.text == expected.text
            for number, right in zip(one.numbers, expected.numbers, strict=True):
                assert number.keys() == right.keys() and number["value"] == right["value"]
                for own, ends in zip(number["intervals"], right["intervals"], strict=True):
                    for end in ("low", "high"):
                        assert float(own[end]) == pytest.approx(float(ends[end]), rel=1e-3)
    assert len({generation.text for generation in alone}) > 1


@pytest.mark.parametrize("row", ["fone", "carry_save"])
def test_the_probability_of_a_number_is_its_likelihood_in_training(make_system, row):
    """The decoder's pass, token by token, against the scores of whole rows."""
    system, params = make_system(row)
    encoded = system.encode_split(RECORDS[3:5], "train")
    batch = next(iter(make_loader(system, encoded, shard.make_mesh()).epoch(2)))

    @jax.jit
    def score(batch):
        outs, _ = system.model.apply({"params": params}, batch)
        numerals = gather(batch.inputs.numerals, batch.targets.numeral_index)
        parts = system.model.heads["next"].log_prob(outs["next"], batch.targets._replace(numerals=numerals))
        return sum(jnp.where(batch.targets.mask, x, 0.0).sum(1) for name, x in parts.items() if name != "token")

    expected = np.zeros(2)
    expected[np.asarray(batch.example_id)] = np.exp(np.asarray(score(batch), np.float64))
    texts = []
    for i, record in enumerate(RECORDS[3:5]):
        full, prompt = encoded.rows[i], evals._cut_to_prompt(encoded.rows[i])
        ids = np.asarray(full.ids)[full.loss_from :].tolist()
        value = Decimal(record["answer"])
        written = requests.Written(
            ids, [PredictedNumber(str(value), value, value)], 0.0, True,
            to_numeral([value] * len(ids), system.config.data.digits),
        )  # fmt: skip
        decode = functools.partial(evals._decode_document, system, prompt)
        texts.append(uncertainty.WrittenText(prompt, written, decode))
    results = uncertainty.describe_numbers(system, params, texts, uncertainty.Settings(SHARES, MOST, 2))
    for (described,), probability in zip(results, expected, strict=True):
        assert described.method == "exact" and described.probability == pytest.approx(probability, rel=1e-3)
        (low, high), (wide_low, wide_high) = (ends for _, *ends in described.intervals)
        assert wide_low <= low <= high <= wide_high


def test_a_number_in_parts_has_the_probability_of_all_of_them(make_system):
    """The likelihoods of its slots, and of each choice between one slot more and the end; against whole rows."""
    system, params = make_system("fone_slots")
    records = [dict(RECORDS[0], answer=a, accepted=a, id=a) for a in ("123456789012", "100004", "46")]
    encoded = system.encode_split(records, "train")
    batch = next(iter(make_loader(system, encoded, shard.make_mesh()).epoch(3)))
    head, vocab = system.model.heads["next"], system.scheme.vocab
    num_id, close_id = vocab.mark("[NUM]"), vocab.mark("[/R]")

    @jax.jit
    def score(batch):
        outs, _ = system.model.apply({"params": params}, batch)
        numerals = gather(batch.inputs.numerals, batch.targets.numeral_index)
        parts = head.log_prob(outs["next"], batch.targets._replace(numerals=numerals))
        numbers = sum(x for name, x in parts.items() if name != "token")
        choice = jax.nn.log_softmax(head.token_logits(outs["next"], jnp.asarray([num_id, close_id])), axis=-1)
        ends = jnp.where(batch.targets.ids == close_id, choice[..., 1], choice[..., 0])
        ends = jnp.where(batch.inputs.ids == num_id, ends, 0.0)
        return jnp.where(batch.targets.mask, numbers + ends, 0.0).sum(1)

    expected = np.zeros(3)
    expected[np.asarray(batch.example_id)] = np.asarray(score(batch), np.float64)
    texts = []
    for i, record in enumerate(records):
        full, prompt = encoded.rows[i], evals._cut_to_prompt(encoded.rows[i])
        value, index = Decimal(record["answer"]), np.asarray(full.numeral_index)[full.loss_from :]
        slots = [None if n < 0 else to_decimals(full.numerals)[n] or Decimal(0) for n in index]
        ids, count = np.asarray(full.ids)[full.loss_from :].tolist(), system.config.data.digits
        predicted = [PredictedNumber(str(value), value, value)]
        written = requests.Written(ids, predicted, 0.0, True, to_numeral(slots, count))
        decode = functools.partial(evals._decode_document, system, prompt)
        texts.append(uncertainty.WrittenText(prompt, written, decode))
    results = uncertainty.describe_numbers(system, params, texts, uncertainty.Settings(SHARES, MOST, 3, 8))
    for (described,), log_prob in zip(results, expected, strict=True):
        assert described.method == "samples" and math.log(described.probability) == pytest.approx(log_prob, rel=1e-3)


def test_a_head_without_a_distribution_says_so(make_system):
    system, params = make_system("residues")
    for result in generate(system, params, samples=64):
        (number,) = result.numbers
        assert number["probability"] is None and number["note"] == uncertainty.NO_MASS
        assert number["method"] == "samples" and number["samples"] == 64 and len(number["intervals"]) == 2


def test_a_certain_model_has_intervals_of_width_zero(make_system):
    system, params = make_system("digits", scale=1e4)
    for result in generate(system, params, samples=16):
        (number,) = result.numbers
        assert number["probability"] == pytest.approx(1)
        assert {end for i in number["intervals"] for end in (i["low"], i["high"])} == {number["value"]}


@pytest.mark.parametrize("row", ["bpe", "p1000", "digits", "numgpt"])
def test_samples_count_whose_number_begins_at_the_same_token(make_system, row):
    """Others go on with text, and write a number later: it is another one."""
    system, _ = make_system(row, "text")
    prompt = from_features(system.encode(evals.START), system.config.data.digits)
    text = uncertainty.WrittenText(prompt, *write(system, prompt, " 46 and 75"))
    places = uncertainty._find_places(system, text)
    assert len(places) == 2
    samples = [
        write(system, prompt, f" 46{rest}")[0] for rest in (" and 9", " and so 8", " and", " and 7, 6", " or 5")
    ]
    is_open = row == "digits"  # all samples have the mark, or none is of this kind
    expected = [9, 7] if not is_open else [9, 8, 7, 5]
    assert uncertainty._list_values(system, text, samples, 1, places) == (expected, 0)
    described = uncertainty._summarise(
        uncertainty.Uncertainty(0.5, note="first"),
        [Decimal(9), Decimal(7)],
        1,
        uncertainty.Settings(SHARES, MOST, 2, 5),
    )
    assert described.samples == 2 and described.note == (
        "first; 2 of 5 samples have no number here, and are left out; "
        "1 of 5 samples are cut off in it, and are left out"
    )


@pytest.mark.parametrize("row", ["bpe", "p1000", "digits"])
def test_a_sample_that_is_cut_off_within_its_number_does_not_count(make_system, row):
    """Its last digit need not be the number's last one."""
    system, _ = make_system(row, "text")
    prompt = from_features(system.encode(evals.START), system.config.data.digits)
    text = uncertainty.WrittenText(prompt, *write(system, prompt, " 46 and 75"))
    places = uncertainty._find_places(system, text)
    whole = write(system, prompt, " 46 and 123")[0]
    is_open = row == "digits"
    cut = whole._replace(ids=whole.ids[: -2 if is_open else -1], ended=False)  # without [EOS], and what closes it
    values, n_cut = uncertainty._list_values(system, text, [whole, cut, whole], 1, places)
    assert values == [123, 123] and n_cut == (not is_open)


def write(system, prompt, text: str):
    """(what a model would have written, the decoder of it)."""
    document = documents.parse(text, "default")
    ids = np.asarray(system.encode((*evals.START, *document, Mark("[EOS]"))).ids)[1:].tolist()
    numbers = uncertainty.list_numbers(document) if system.scheme.numbers == "slot" else []
    predicted = [PredictedNumber(n.surface, n.value, n.value) for n in numbers]
    return requests.Written(ids, predicted, 0.0, True), functools.partial(evals._decode_document, system, prompt)


def test_samples_are_drawn_by_batches_of_the_given_size(make_system, monkeypatch):
    system, params = make_system("digits")
    sizes, drawn = [], []
    make_request, list_values = requests.make_request, uncertainty._list_values
    monkeypatch.setattr(
        requests, "make_request", lambda s, rows, *a, **b: sizes.append(len(rows)) or make_request(s, rows, *a, **b)
    )

    def keep(*arguments):
        values, n_cut = list_values(*arguments)
        drawn.append(values)
        return values, n_cut

    monkeypatch.setattr(uncertainty, "_list_values", keep)
    results = generate(system, params, samples=10, batch_size=4)
    assert max(sizes) == 4 and [number["samples"] for result in results for number in result.numbers] == [10, 10]
    assert all(values[:4] != values[4:8] for values in drawn), "each batch has a key of its own"


@pytest.mark.parametrize(("row", "has_marks"), [("bpe", False), ("digits", True)])
def test_a_probability_that_includes_the_token_behind_says_so(make_system, row, has_marks):
    system, params = make_system(row)
    for result in generate(system, params, samples=8):
        (number,) = result.numbers
        assert number["method"] == "samples" and 0 < number["probability"] <= 1
        note = number.get("note", "")
        # Samples that go on without a number are counted behind it.
        assert note == "" if has_marks else note.startswith(uncertainty.WITH_NEXT)


def test_a_number_that_is_cut_off_has_no_probability():
    place, system = uncertainty.Place(3, 5, 0, ()), cast("Any", None)
    measures = uncertainty._RowMeasures(np.zeros(8), None, None)
    measured = uncertainty._read_measures(system, measures, place, SHARES)
    assert measured.list_fields() == {"probability": None, "intervals": [], "note": uncertainty.CUT_OFF}


def test_quantiles_of_samples_are_the_least_values_that_reach_their_level():
    values = [Decimal(i) for i in range(1, 21)]
    for level in (0.001, 0.05, 0.051, 0.25, 0.5, 0.95, 0.951, 0.999):
        quantile = uncertainty.find_quantile(values, level)
        assert sum(v <= quantile for v in values) >= level * 20 - 1e-9
        assert sum(v < quantile for v in values) < level * 20
    assert uncertainty.list_levels(SHARES) == pytest.approx([0.25, 0.75, 0.05, 0.95])


@pytest.mark.parametrize(
    "text", ["0", "1.2", "1", "nan", "inf", "half", "", "0.5,,0.9", "0.5;0.9", "-0.5", "0.9,0.9", "0.5,0.50"]
)
def test_bad_shares_are_refused_in_one_line(text):
    with pytest.raises(UsageError, match="intervals") as caught:
        fit.parse_intervals(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("shares", [0.9, "0.5,0.9", (0.5, "0.9"), None, {0.5}])
def test_shares_that_are_no_list_of_numbers_are_refused(shares):
    with pytest.raises(UsageError, match=r"^intervals: give a list of shares, such as \(0.5, 0.9\)"):
        fit.check_intervals(shares)


def test_good_shares_are_kept():
    assert fit.parse_intervals("0.5,0.9") == (0.5, 0.9) and fit.parse_intervals(" 0.8 ") == (0.8,)
    fit.check_intervals((0.5, 0.9))
    fit.check_intervals([])
    with pytest.raises(UsageError, match="samples must be a whole number from 1"):
        fit.check_intervals((0.5,), 0)
