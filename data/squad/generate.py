"""A seeded stand-in for SQuAD: articles on invented places, ships and works, in the file's JSON form.

Every paragraph holds several numbers of different kinds, so that the only number is never the answer. About half of
the answers are only digits, some are a number with its unit, the others are words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_ONSETS = (
    "Bar",
    "Cal",
    "Dor",
    "El",
    "Fen",
    "Gar",
    "Hol",
    "Ister",
    "Kel",
    "Lor",
    "Mar",
    "Nor",
    "Ost",
    "Pel",
    "Ros",
    "Tar",
)
_MIDDLES = ("a", "e", "i", "o", "u", "an", "er", "in", "ol", "um")
_ENDS = ("burg", "dale", "ford", "ham", "mere", "mouth", "stad", "ton", "vik", "wick")
_FIRST = ("Ada", "Bruno", "Clara", "Dirk", "Emil", "Frieda", "Greta", "Hugo", "Ida", "Jonas", "Lena", "Marta", "Otto")
_GOODS = ("wool", "salt", "timber", "glass", "copper", "paper", "grain", "fish", "leather", "clay")
_SEASONS = ("spring", "summer", "autumn", "winter")

Draw = Callable[[int, int], int]
QuestionAnswers = list[tuple[str, str]]


def make_articles(count: int, seed: int) -> dict[str, Any]:
    """Returns SQuAD's JSON of `count` articles with two to four paragraphs each; every answer has its position.

    Args:
      count: number of articles; no two have the same title. seed: of everything random.
    """
    rng = np.random.default_rng(seed)

    def draw(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    def pick(words: tuple[str, ...]) -> str:
        return words[draw(0, len(words) - 1)]

    entries, titles = [], set()
    while len(entries) < count:
        title = pick(_ONSETS) + pick(_MIDDLES) + pick(_ENDS)
        if title in titles:
            title = f"{title} {'North South East West Upper Lower Old New'.split()[draw(0, 7)]}"
        if title in titles:
            continue
        titles.add(title)
        indices = rng.permutation(len(PARAGRAPHS))[: draw(2, 4)]
        paragraphs = []
        for p, index in enumerate(indices.tolist()):
            text, questions = PARAGRAPHS[index](title, draw, pick)
            qas = []
            for q, (question, answer) in enumerate(questions):
                answer_text, _, context = answer.partition("|")
                # "7|has 7 mills": the answer, and a stretch around it that occurs once.
                stretch = context or answer_text
                start = text.index(stretch) + stretch.index(answer_text)
                answers = [{"text": answer_text, "answer_start": start}]
                qas.append({"id": f"stand-in-{len(entries):05d}-{p}-{q}", "question": question, "answers": answers})
            paragraphs.append({"context": text, "qas": qas})
        entries.append({"title": title, "paragraphs": paragraphs})
    return {"data": entries, "version": "1.1"}


def _write_town(name: str, draw: Draw, pick: Callable) -> tuple[str, QuestionAnswers]:
    year, people, area, mills = draw(1101, 1790), draw(900, 29_000), draw(12, 480), draw(2, 60)
    mayor, goods = pick(_FIRST), pick(_GOODS)
    text = (
        f"{name} was founded in {year} on the left bank of a river. It covers {area} square kilometres and has "
        f"{people} inhabitants. The town grew rich on {goods}, and at one time it had {mills} mills. Its first "
        f"mayor, {mayor}, ruled for {mills % 9 + 3} years."
    )
    return text, [
        (f"In what year was {name} founded?", f"{year}|founded in {year}"),
        (f"How many inhabitants does {name} have?", f"{people}|has {people} inhabitants"),
        (f"What is the area of {name}?", f"{area} square kilometres"),
        (f"What made {name} rich?", f"{goods}|rich on {goods}"),
        (f"How many mills did {name} have?", f"{mills}|had {mills} mills"),
        (f"Who was the first mayor of {name}?", f"{mayor}|mayor, {mayor}"),
    ]


def _write_bridge(name: str, draw: Draw, pick: Callable) -> tuple[str, QuestionAnswers]:
    start, years, length, width, arches = draw(1801, 1960), draw(2, 19), draw(80, 2900), draw(5, 40), draw(3, 31)
    engineer = pick(_FIRST)
    text = (
        f"Work on the {name} bridge began in {start} under the engineer {engineer} and took {years} years. The "
        f"bridge is {length} metres long and {width} metres wide, and rests on {arches} arches of stone. "
        f"When it was opened in {start + years}, a crowd of {draw(2000, 28_000)} people crossed it in one day."
    )
    return text, [
        (f"When did work on the {name} bridge begin?", f"{start}|began in {start}"),
        (f"When was the {name} bridge opened?", f"{start + years}|opened in {start + years}"),
        (f"How long is the {name} bridge?", f"{length} metres"),
        (f"On how many arches does the {name} bridge rest?", f"{arches}|rests on {arches} arches"),
        (f"Which engineer built the {name} bridge?", f"{engineer}|engineer {engineer}"),
    ]


def _write_ship(name: str, draw: Draw, pick: Callable) -> tuple[str, QuestionAnswers]:
    year, tons, crew, guns, goods = draw(1650, 1930), draw(90, 9900), draw(14, 800), draw(4, 110), pick(_GOODS)
    text = (
        f"The ship {name} was launched in {year}. She displaced {tons} tons and carried a crew of {crew} with "
        f"{guns} guns. On her third voyage she brought home {goods} worth {draw(1000, 29_000)} crowns. She sank in "
        f"the {pick(_SEASONS)} of {year + draw(3, 40)}, and {crew - draw(1, 12)} of her men were saved."
    )
    return text, [
        (f"In what year was the {name} launched?", f"{year}|launched in {year}"),
        (f"How large was the crew of the {name}?", f"{crew}|crew of {crew}"),
        (f"How many guns did the {name} carry?", f"{guns}|{guns} guns"),
        (f"How much did the {name} displace?", f"{tons} tons"),
        (f"What did the {name} bring home on her third voyage?", f"{goods}|home {goods}"),
    ]


def _write_school(name: str, draw: Draw, pick: Callable) -> tuple[str, QuestionAnswers]:
    year, pupils, teachers, books = draw(1820, 2005), draw(60, 4000), draw(5, 300), draw(1500, 29_500)
    founder = pick(_FIRST)
    text = (
        f"{founder} opened a school in {name} in {year}. Today {teachers} teachers work there, and {pupils} pupils "
        f"attend it. The library holds {books} books, of which {books // draw(3, 9)} are older than the school. "
        f"Lessons begin at {draw(7, 9)} o'clock."
    )
    return text, [
        (f"In what year was the school in {name} opened?", f"{year}|in {name} in {year}"),
        (f"How many pupils attend the school in {name}?", f"{pupils}|{pupils} pupils"),
        (f"How many teachers work at the school in {name}?", f"{teachers}|{teachers} teachers"),
        (f"How many books does the library of the school in {name} hold?", f"{books} books|holds {books} books"),
        (f"Who opened the school in {name}?", founder),
    ]


def _write_match(name: str, draw: Draw, pick: Callable) -> tuple[str, QuestionAnswers]:
    year, crowd, points, season = draw(1951, 2015), draw(900, 29_900), draw(21, 99), pick(_SEASONS)
    text = (
        f"In the {season} of {year} {name} won the cup with {points} points to {points - draw(1, 20)}. The final was "
        f"watched by {crowd} people. {pick(_FIRST)} scored {draw(5, 19)} points in the last {draw(2, 30)} minutes."
    )
    return text, [
        (f"In what year did {name} win the cup?", f"{year}|{season} of {year}"),
        (f"How many people watched the final that {name} won?", f"{crowd}|by {crowd} people"),
        (f"How many points did {name} score in the final?", f"{points}|with {points} points"),
        (f"In which season did {name} win the cup?", f"{season}|the {season}"),
    ]


def _write_railway(name: str, draw: Draw, pick: Callable) -> tuple[str, QuestionAnswers]:
    year, length, stations, riders = draw(1839, 1980), draw(14, 900), draw(3, 80), draw(400, 29_000)
    goods = pick(_GOODS)
    text = (
        f"The {name} railway has been open since {year}. The line is {length} kilometres long and has {stations} "
        f"stations. It was built to move {goods}; by {year + draw(20, 60)} it carried {riders} riders a day at "
        f"{draw(30, 160)} kilometres an hour."
    )
    return text, [
        (f"Since when has the {name} railway been open?", f"{year}|since {year}"),
        (f"How long is the line of the {name} railway?", f"{length} kilometres|is {length} kilometres"),
        (f"How many stations does the {name} railway have?", f"{stations}|has {stations} stations"),
        (f"How many riders a day did the {name} railway carry?", f"{riders}|carried {riders} riders"),
        (f"What was the {name} railway built to move?", f"{goods}|move {goods}"),
    ]


PARAGRAPHS = (_write_town, _write_bridge, _write_ship, _write_school, _write_match, _write_railway)
