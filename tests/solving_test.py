"""GSM8K and MATH: their files good and bad, LaTeX in running text, and the task of solving them."""

from __future__ import annotations

import functools
import gzip
import itertools
import json
import re
import tarfile
from fractions import Fraction

import pytest

from numjax import build
from numjax.bundled import data
from numjax.bundled.data import build as command
from numjax.bundled.data.sampling import divide_records
from numjax.bundled.data.solving import generate, word_problems
from numjax.bundled.data.solving.read import FORMS, find_boxes, parse_gsm8k, parse_math
from numjax.errors import DataError, UsageError
from numjax.expr import latex
from numjax.expr.evaluate import evaluate
from numjax.expr.prose.dollars import mark_formulas
from numjax.expr.tree import Tree
from numjax.tasks.solving import Task, answers_agree, parse_answer
from numjax.text import document as documents
from numjax.text import vocab
from numjax.text.vocab import symbols
from numjax.types import Formula, Mark, Number, Text
from tests.conftest import ROOT

SPLITS = ("train", "validation", "test")
parse = functools.partial(documents.parse, rules="default")

GSM = {"question": "Ann has 3 bags of 4 pears. How many?", "answer": "She has 3*4=<<3*4=12>>12 pears.\n#### 12"}
MATH = {
    "problem": "Solve $2x = 3$.",
    "level": "Level 1",
    "type": "Algebra",
    "solution": r"Halving, $x = \boxed{\frac{3}{2}}.$",
}


def load(path, tmp_path, form, **options) -> dict[str, list[dict]]:
    return {
        s: list(data.load("solving", s, tmp_path / "built", path=str(path), form=form, **options)) for s in SPLITS
    }


# ---------------------------------------------------------------------------------------------------
# Files.


def test_what_the_files_hold():
    assert parse_gsm8k(GSM) == {
        "problem": GSM["question"],
        "solution": "She has 3*4=12 pears.",
        "answer": "12",
        "level": "",
        "subject": "",
    }
    assert parse_math(MATH) == {
        "problem": MATH["problem"],
        "solution": MATH["solution"],
        "answer": r"\frac{3}{2}",
        "level": "Level 1",
        "subject": "Algebra",
    }


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        (r"a \boxed{1} b \boxed{\frac{1}{2}}", ["1", r"\frac{1}{2}"]),
        (r"\boxed 5 and \fbox{x}", ["5", "x"]),
        (r"\boxed{\{1, 2\}}", [r"\{1, 2\}"]),
        (r"\boxed{never closed", []),
        (r"\boxed", []),
        ("none", []),
    ],
)
def test_boxes(text, contents):
    assert [content for _, _, content in find_boxes(text)] == contents


BAD = {
    "gsm8k": [
        {"question": "a"},
        GSM | {"question": " "},
        GSM | {"answer": "no mark 12"},
        GSM | {"answer": "nothing behind it #### "},
        3,
        GSM | {"answer": 12},
    ],
    "math": [MATH | {"solution": "no box"}, MATH | {"solution": r"\boxed{}"}, {"problem": "a"}, 3],
}


@pytest.mark.parametrize("form", FORMS)
def test_bad_records_are_left_out_and_named(form, tmp_path):
    good = {"gsm8k": GSM, "math": MATH}[form]
    lines = [json.dumps(one) for one in [*[good] * 20, *BAD[form]]]
    (tmp_path / "train.jsonl").write_text("\n".join([*lines, "{broken"]))
    assert sum(map(len, load(tmp_path / "train.jsonl", tmp_path, form).values())) == 20
    options = dict(path=str(tmp_path / "train.jsonl"), form=form)
    left_out = data.load_skipped("solving", tmp_path / "built", **options)
    assert [row["id"] for row in left_out] == [f"train.jsonl:{n}" for n in range(21, 22 + len(BAD[form]))]
    assert all(row["reason"] and "\n" not in row["reason"] for row in left_out)
    with pytest.raises(DataError, match=r"^train\.jsonl:21: "):
        data.load("solving", "train", tmp_path / "strict", strict=True, **options)


def test_given_test_splits_stay(tmp_path):
    train, test = ([GSM | {"question": f"{name} {i}?"} for i in range(n)] for name, n in (("train", 50), ("test", 7)))
    for name, rows in (("train.jsonl.gz", train), ("test.jsonl.gz", test)):
        (tmp_path / name).write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    found = load(tmp_path, tmp_path, "gsm8k")
    assert {s: len(rows) for s, rows in found.items()} == {"train": 45, "validation": 5, "test": 7}
    assert {r["problem"] for r in found["test"]} == {r["question"] for r in test}
    with pytest.raises(DataError, match="7 usable records are too few"):
        load(tmp_path / "test.jsonl.gz", tmp_path / "alone", "gsm8k")


@pytest.mark.parametrize("archive", [False, True])
def test_maths_own_folders(archive, tmp_path):
    root = tmp_path / "source" / "MATH"
    for split, count in (("train", 20), ("test", 4)):
        for i in range(count):
            path = root / split / ("algebra" if i % 2 else "geometry") / f"{i}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(MATH | {"problem": f"{split} {i}"}))
    path = root.parent
    if archive:
        path = tmp_path / "packed" / "MATH.tar"
        path.parent.mkdir()
        with tarfile.open(path, "w") as tar:
            tar.add(root, "MATH")
    found = load(path, tmp_path, "math")
    assert {s: len(rows) for s, rows in found.items()} == {"train": 18, "validation": 2, "test": 4}
    assert all(r["problem"].startswith("test") for r in found["test"])
    assert len({r["id"] for rows in found.values() for r in rows}) == 24


def test_without_a_test_split_a_seeded_fifth_is():
    parts = divide_records(103, 5)
    assert sorted(itertools.chain(*parts.values())) == list(range(103)) and len(parts["test"]) == 21
    assert len(parts["validation"]) == 8 and parts == divide_records(103, 5) != divide_records(103, 6)
    given = divide_records(100, 5, ["test"])
    assert not given["test"] and len(given["validation"]) == 10


@pytest.mark.parametrize("options", [{"form": "math23k"}, {"size": -1}, {"seed": -1}])
def test_options_are_checked(options, tmp_path):
    with pytest.raises(UsageError):
        data.load("solving", "train", tmp_path, **options)


def test_composed_problems_are_solved_by_their_steps():
    """Each calculation is right, of numbers that the problem gives, constants or results; the last is the answer."""
    drawn = list(word_problems.make_problems(400, 3))
    assert drawn == list(word_problems.make_problems(400, 3))
    counts = {split: sum(split == other for other, _ in drawn) for split in SPLITS}
    assert counts == {"train": 290, "validation": 32, "test": 78}
    rows = [parse_gsm8k(raw) for _, raw in drawn]
    assert len({row["problem"] for row in rows}) == len(rows)
    numbers = [
        {Fraction(one.value) for one in documents.parse(row["problem"], "words") if isinstance(one, Number)}
        for row in rows
    ]
    constants = set(map(Fraction, (*range(1, 11), 12, 16, 24, 36, 60, 100, 1000)))
    shares = several = 0
    for row, (_, raw), given in zip(rows, drawn, numbers, strict=True):
        calls = re.findall(r"<<([^=]*)=([^>]*)>>", raw["answer"])
        assert calls and all(_value(left) == Fraction(right) for left, right in calls), raw
        assert calls[-1][1] == row["answer"] and "<" not in row["solution"]
        # What a calculation reads was given, is what one before came to, or is a constant or a percentage.
        known = given | constants | {Fraction(right) for _, right in calls}
        read = {Fraction(n) for n in re.findall(r"[\d.]+", " ".join(left for left, _ in calls))}
        assert all(n in known or n / 100 in given for n in read), (raw, read - known)
        several += len(calls) > 1
        shares += "(" in raw["answer"]
    assert several > 100 and shares > 10


def _value(expression: str) -> Fraction:
    return eval(re.sub(r"(\d+(?:\.\d+)?)", r"Fraction('\1')", expression))


def test_the_stand_in_of_math_is_drawn_anew_alike():
    made = [parse_math(raw) for raw in generate.make_problems(400, 3)]
    assert len({row["problem"] for row in made}) == 400
    assert all(
        parse_answer(row["answer"]) is not None and answers_agree(row["answer"], row["answer"]) for row in made
    )
    assert made == [parse_math(raw) for raw in generate.make_problems(400, 3)]


def test_answers_of_the_stand_in_of_math_are_right():
    checked = 0
    for raw in generate.make_problems(300, 1):
        row = parse_math(raw)
        numbers = [int(n) for n in re.findall(r"-?\d+", row["problem"])]
        if found := re.fullmatch(r"Solve for \$x\$: \$(\d+)x \+ (\d+) = (\d+)\$\.", row["problem"]):
            a, b, c = map(int, found.groups())
            want = Fraction(c - b, a)
        elif row["subject"] == "Intermediate Algebra":
            total, product = (int(n) for n in re.findall(r"- (\d+)x \+ (\d+)", row["problem"])[0])
            want = Fraction(total * total - 2 * product)
        elif row["subject"] == "Counting & Probability":
            want = Fraction(numbers[0], sum(numbers))
        elif row["subject"] == "Prealgebra":
            want = None
            assert float(evaluate(_tree(row["answer"])).real) == pytest.approx(numbers[0] ** 0.5)
        else:
            continue
        checked += 1
        assert want is None or evaluate(_tree(row["answer"])) == want
    assert checked > 150


def _tree(text: str) -> Tree:
    tree = latex.parse(text)
    assert isinstance(tree, Tree)
    return tree


def test_the_stand_in_says_when_it_is_used_up(monkeypatch):
    few = (lambda draw: {"problem": f"What is {draw(1, 50)}?", "solution": r"\boxed{1}"},)
    monkeypatch.setattr(generate, "MATH", few)
    assert len(list(generate.make_problems(30, 0))) == 30
    with pytest.raises(UsageError, match="smaller"):
        list(generate.make_problems(51, 0))


@pytest.mark.parametrize("form", FORMS)
def test_sample_comes_from_the_builder(form, capsys, data_dir):
    assert command.main(["solving", f"--data_dir={data_dir}", f"--form={form}", "--sample=1"]) == 0
    lines = (ROOT / "data/solving/sample.jsonl").read_text().splitlines(keepends=True)
    count = len(SPLITS)
    assert capsys.readouterr().out == "".join(lines[:count] if form == "gsm8k" else lines[count:])


# ---------------------------------------------------------------------------------------------------
# LaTeX in running text.


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (r"Since $x^2=4,$ we go.", "Since <m> x^2=4 </m>, we go."),
        (r"It costs \$5 or $\$6$.", r"It costs $5 or <m> \$6 </m>."),
        (r"\[x = \boxed{2}.\]", "<m> x = {2} </m>."),
        (r"so \(a\) and $$b\,.$$", "so <m> a </m> and <m> b </m>."),
        (r"$y \text{ if $x$}$", r"<m> y \text{ if $x$} </m>"),
        (r"\begin{align*}a&=b\\&=c.\end{align*}", r"<m> \begin{align*}a&=b\\&=c\end{align*} </m>."),
        (r"\begin{tabular}{c}1\end{tabular}", r"\begin{tabular}{c}1\end{tabular}"),
        ("[asy]draw((0,0)); $x$[/asy]See $x$.", " See <m> x </m>."),
        ("an open $x", "an open $x"),
        (r"odd $x\}$ braces", r"odd <m> x\} </m> braces"),
        ("a $} b$ c", "a <m> } b </m> c"),
        ("$ $ and $.$", " and ."),
        (r"\boxed{5} out of math", r"\boxed{5} out of math"),
    ],
)
def test_latex_is_marked(text, want):
    assert mark_formulas(text) == want


# ---------------------------------------------------------------------------------------------------
# The task.


def shown(document) -> list:
    """Texts and marks by what they say, formulas as trees; numbers within the text."""
    out: list = []
    for segment in document:
        if isinstance(segment, Formula):
            out.append(segment.tree)
        elif isinstance(segment, Mark):
            out.append(segment)
        else:
            text = segment.text if isinstance(segment, Text) else segment.surface
            if out and isinstance(out[-1], str):
                out[-1] += text
            else:
                out.append(text)
    return out


def record(form: str) -> dict:
    return {"id": "r", **FORMS[form]({"gsm8k": GSM, "math": MATH}[form])}


def test_layout():
    tree = latex.parse
    found = Task(form="gsm8k").example(record("gsm8k"), parse)
    assert shown(found.document) == [
        *(Mark("[CLS]"), "Question: Ann has ", tree("3"), " bags of ", tree("4"), " pears. How many?", Mark("[SEP]")),
        *(" Solution: She has ", tree("3*4=12"), " pears. [SEP] Final Answer: ", tree("12"), Mark("[EOS]")),
    ]
    assert found.document[found.loss_from - 1] == Text(" Solution: ") and found.reference == {"answer": "12"}
    assert documents.surface(found.document[found.loss_from :]) == (
        "She has  <m> 3 * 4 = 12 </m>  pears. [SEP] Final Answer:  <m> 12 </m> [EOS]"
    )
    found = Task(form="math").example(record("math"), parse)
    assert shown(found.document) == [
        *(Mark("[CLS]"), "Question: Solve ", tree("2x=3"), ".", Mark("[SEP]"), " Solution: Halving, "),
        *(tree(r"x=\frac32"), ". [SEP] Final Answer: ", tree(r"\frac32"), Mark("[EOS]")),
    ]


def test_the_published_layout_is_text():
    task = Task(form="math", as_published=True)
    found = task.example(record("math"), parse)
    assert documents.surface(found.document) == (
        "Question: Solve  <m> 2x = 3 </m> . [SEP] Solution: Halving,  <m> x = {\\frac{3}{2}} </m> . "
        "[SEP] Final Answer:  <m> \\frac{3}{2} </m> [EOS]"
    )
    assert not any(isinstance(segment, Mark) for segment in found.document[:-1])
    assert found.document[: found.loss_from] == task.prompt(record("math"), parse)
    assert documents.surface(task.prompt(record("math"), parse)).endswith(" [SEP] Solution: ")


TRAINING = ["Question: Ann has 3 bags of pears. How many? Solution: Halving, She [SEP] Final Answer: Solve"] * 9


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["trees", "subword"])
def test_tokens_back_to_the_document_and_the_answer(form, name):
    marks = symbols.list_marks(symbols.count_symbols([latex.parse(r"3*4=\frac{1}{2}x")]))  # type: ignore[list-item]
    known = vocab.build({"name": "sentencepiece", "size": 330, "model": "bpe"}, TRAINING, marks)
    scheme = build.build("text", {"name": name}, vocab=known)
    task = Task(form=form)
    found = task.example(record(form), scheme.parse)
    encoded = scheme.encode(found.document)
    first = encoded.starts[found.loss_from]
    assert scheme.decode(encoded.ids[:first]) == documents.merge(found.document[: found.loss_from]) or name != "trees"
    written = scheme.decode(encoded.ids[first:])
    assert written == documents.merge(found.document[found.loss_from :]) or name != "trees"
    prediction = task.predicted(written)
    scores = task.score([prediction], [found.reference])
    assert scores == {"accuracy": 1.0, "answered": 1.0, "read": 1.0}


def test_predictions():
    task = Task()
    answer = Formula("", None), Formula("x", latex.parse("x"))
    assert task.predicted((Text("so [SEP] Final Answer: "), Number("7", 7), Mark("[EOS]"), Text("8"))) == "7"
    assert task.predicted((Text("[SEP] Final Answer: a [SEP] Final Answer: "), answer[1])) == "x"
    assert task.predicted((Text("[SEP] Final Answer:  <m> 12 </m> "),)) == "12"
    assert task.predicted((Text("[SEP] Final Answer: "), answer[0])) is None
    assert task.predicted((Text("the answer is 7"),)) is None
    assert task.predicted((Text("cut off [SEP] Final Ans"),)) is None


@pytest.mark.parametrize(
    ("found", "wanted", "right"),
    [
        ("72", "72.0", True),
        ("1,080", "1080", True),
        (r"\$18", "18", True),
        ("$18$", "18", True),
        (r"x = \frac12", "0.5", True),
        (r"\dfrac{1}{2}", r"\frac12", True),
        (r"3\text{ cm}", "3", True),
        (r"3\text{ cm}^2", "3", True),
        (r"45^\circ", "45", True),
        (r"20\%", "20", True),
        ("72.", "72", True),
        ("x+3", "3 + x", True),
        ("x(x+1)", "x (1+x)", True),
        (r"\{1,2\}", r"\{2,1\}", True),
        (r"\left(\frac12,3\right)", r"(\frac{1}{2}, 3)", True),
        (r"15\sqrt{21}", r"\sqrt{4725}", True),
        (r"\text{Evelyn}", r"\text{Evelyn}", True),
        ("(1, 2)", "(2, 1)", False),
        ("0.33", "1/3", False),
        ("100000", "100001", False),
        ("-5", "5", False),
        ("x - 3", "3 - x", False),
        (r"\text{Ann}", r"\text{Evelyn}", False),
        ("", "0", False),
        ("{", "0", False),
        ("{ x", "{x", True),
    ],
)
def test_answers_that_are_the_same(found, wanted, right):
    assert answers_agree(found, wanted) is answers_agree(wanted, found) is right


def test_scores():
    references = [{"answer": a} for a in ("12", "12", "12", r"\frac12")]
    assert Task().score(["12.0", None, "{", "0.5"], references) == {"accuracy": 0.5, "answered": 0.75, "read": 0.5}
    assert Task(tolerance=0.2).score(["11"], [{"answer": "12"}])["accuracy"] == 1
    for bad in ({"tolerance": -1}, {"form": "gsm"}):
        with pytest.raises(UsageError):
            Task(**bad)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="0 predictions"):
        Task().score([], [])


def test_asked():
    task = Task(form="math")
    assert shown(task.prompt_from_text("What is $x$?", parse)) == [
        *(Mark("[CLS]"), "Question: What is ", Tree("V", "x"), "?", Mark("[SEP]"), " Solution: "),
    ]
    assert task.prompt_from_text("Question: a [SEP] Solution: ", parse) is None


def test_texts_are_what_a_plain_model_reads():
    (text,) = Task(form="math").texts([record("math")])
    assert text.endswith("Final Answer:  <m> \\frac{3}{2} </m> ") and "Question: Solve  <m> 2x = 3 </m> ." in text


@pytest.mark.parametrize(("form", "folder"), [("gsm8k", "gsm8k"), ("math", "math_hendrycks")])
def test_real_problems_are_read(form, folder, real_data, tmp_path):
    found = load(real_data(folder), tmp_path, form, size=1500)
    rows = [row for of in found.values() for row in of]
    assert len(rows) == 1500
    task, formulas, unread = Task(form=form), 0, 0
    for row in rows:
        example = task.example(row, parse)
        mine = sum(isinstance(segment, Formula) for segment in example.document)
        formulas += mine
        unread += (task._mark_formulas(row, "problem") + task._solution_text(row)).count("<m>") - mine
        prediction = task.predicted(example.document[example.loss_from :])
        assert prediction is not None and answers_agree(prediction, row["answer"])
    assert formulas > 10_000 and unread / formulas < 0.005
