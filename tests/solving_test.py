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
from numjax.bundled.data import pieces
from numjax.bundled.data.sampling import divide_records
from numjax.bundled.data.solving import generate, word_problems
from numjax.bundled.data.solving.read import FORMS, find_boxes, parse_gsm8k, parse_math, read_problems
from numjax.errors import DataError, UsageError
from numjax.expr import latex, printer
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


def load_splits(path, tmp_path, form, **options) -> dict[str, list[dict]]:
    return {
        s: list(data.load("solving", s, tmp_path / "built", path=str(path), form=form, **options)) for s in SPLITS
    }


# ---------------------------------------------------------------------------------------------------
# Files.


def test_records_of_the_files_are_parsed():
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
        (r"\boxed{1\\} and \boxed{a\\{}b}", [r"1\\", r"a\\{}b"]),
        (r"\boxed{never closed", []),
        (r"\boxed", []),
        ("none", []),
    ],
)
def test_contents_of_boxes_are_extracted(text, contents):
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
def test_bad_records_are_skipped_and_named(form, tmp_path):
    good, text = {"gsm8k": (GSM, "question"), "math": (MATH, "problem")}[form]
    lines = [json.dumps(one) for one in [*(good | {text: f"{good[text]} {i}"} for i in range(20)), *BAD[form]]]
    (tmp_path / "train.jsonl").write_text("\n".join([*lines, "{broken"]))
    assert sum(map(len, load_splits(tmp_path / "train.jsonl", tmp_path, form).values())) == 20
    options = dict(path=str(tmp_path / "train.jsonl"), form=form)
    skipped = data.load_skipped("solving", tmp_path / "built", **options)
    assert [row["id"] for row in skipped] == [f"train.jsonl:{n}" for n in range(21, 22 + len(BAD[form]))]
    assert all(row["reason"] and "\n" not in row["reason"] for row in skipped)
    with pytest.raises(DataError, match=r"^train\.jsonl:21: "):
        data.load("solving", "train", tmp_path / "strict", strict=True, **options)


def test_test_splits_of_the_files_stay(tmp_path):
    train, test = ([GSM | {"question": f"{name} {i}?"} for i in range(n)] for name, n in (("train", 50), ("test", 7)))
    for name, rows in (("train.jsonl.gz", train), ("test.jsonl.gz", test)):
        (tmp_path / name).write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    splits = load_splits(tmp_path, tmp_path, "gsm8k")
    assert {s: len(rows) for s, rows in splits.items()} == {"train": 45, "validation": 5, "test": 7}
    assert {r["problem"] for r in splits["test"]} == {r["question"] for r in test}
    with pytest.raises(DataError, match="7 usable records are too few"):
        load_splits(tmp_path / "test.jsonl.gz", tmp_path / "alone", "gsm8k")


def test_a_question_is_in_one_split(tmp_path):
    """As in GSM8K's own folder, where `train_socratic.jsonl` asks what `train.jsonl` asks."""
    folder = tmp_path / "gsm8k"
    folder.mkdir()
    questions = [f"Ann has {i} pears. How many?" for i in range(60)]
    files = {"train": questions[:50], "train_socratic": [text.replace(" ", "  ") for text in questions[:50]]}
    files["test"] = [*questions[50:], questions[7]]
    for name, texts in files.items():
        (folder / f"{name}.jsonl").write_text("\n".join(json.dumps(GSM | {"question": text}) for text in texts))
    splits = load_splits(folder, tmp_path, "gsm8k")
    assert sorted(row["problem"] for rows in splits.values() for row in rows) == sorted(questions)
    assert len(splits["test"]) == 11 and questions[7] in {row["problem"] for row in splits["test"]}
    skipped = data.load_skipped("solving", tmp_path / "built", path=str(folder), form="gsm8k")
    reasons = {row["id"]: row["reason"] for row in skipped}
    assert len(reasons) == 51 and reasons["train_socratic.jsonl:1"] == "asks what train.jsonl:1 asks"
    assert reasons["train.jsonl:8"] == "asks what test.jsonl:11 of the test asks"


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train.jsonl:3", "train"),
        ("validset.json", "validation"),
        ("dev-v1.json", "validation"),
        ("MATH/test/algebra/7.json", "test"),
        ("mawps_train_test.zip/testset.json", "test"),
        ("gsm8k_train_test.zip/train.jsonl", "train"),
        ("train-test-split/testset.json", "test"),
        ("train-test-split/problems.json", ""),
        ("test/train-test-split/problems.json", "test"),
        ("train.tar/test.json", "test"),
        ("contest.json", ""),
        ("train/latest.json", "train"),
    ],
)
def test_the_name_nearest_to_a_file_states_its_split(name, split):
    assert pieces.find_split(name) == split


@pytest.mark.parametrize("archive", [False, True])
def test_folders_of_math_are_loaded(archive, tmp_path):
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
    splits = load_splits(path, tmp_path, "math")
    assert {s: len(rows) for s, rows in splits.items()} == {"train": 18, "validation": 2, "test": 4}
    assert all(r["problem"].startswith("test") for r in splits["test"])
    assert len({r["id"] for rows in splits.values() for r in rows}) == 24


def test_without_a_test_split_a_seeded_fifth_becomes_it():
    parts = divide_records(103, 5)
    assert sorted(itertools.chain(*parts.values())) == list(range(103)) and len(parts["test"]) == 21
    assert len(parts["validation"]) == 8 and parts == divide_records(103, 5) != divide_records(103, 6)
    other_parts = divide_records(100, 5, ["test"])
    assert not other_parts["test"] and len(other_parts["validation"]) == 10


@pytest.mark.parametrize("options", [{"form": "math23k"}, {"size": -1}, {"seed": -1}])
def test_options_are_checked(options, tmp_path):
    with pytest.raises(UsageError):
        data.load("solving", "train", tmp_path, **options)


def test_composed_problems_are_solved_by_their_steps():
    """Each calculation is right and uses numbers of the problem, constants or results; the last gives the answer."""
    problems = list(word_problems.make_problems(400, 3))
    assert problems == list(word_problems.make_problems(400, 3))
    counts = {split: sum(split == other for other, _ in problems) for split in SPLITS}
    assert counts == {"train": 290, "validation": 32, "test": 78}
    rows = [parse_gsm8k(raw) for _, raw in problems]
    assert len({row["problem"] for row in rows}) == len(rows)
    numbers = [
        {
            Fraction(segment.value)
            for segment in documents.parse(row["problem"], "words")
            if isinstance(segment, Number)
        }
        for row in rows
    ]
    constants = set(map(Fraction, (*range(1, 11), 12, 16, 24, 36, 60, 100, 1000)))
    n_shares = n_several = 0
    for row, (_, raw), problem_numbers in zip(rows, problems, numbers, strict=True):
        calls = re.findall(r"<<([^=]*)=([^>]*)>>", raw["answer"])
        assert calls and all(_evaluate(left) == Fraction(right) for left, right in calls), raw
        assert calls[-1][1] == row["answer"] and "<" not in row["solution"]
        # An operand is a number of the problem, an earlier result, a constant or a percentage.
        known = problem_numbers | constants | {Fraction(right) for _, right in calls}
        operands = {Fraction(n) for n in re.findall(r"[\d.]+", " ".join(left for left, _ in calls))}
        assert all(n in known or n / 100 in problem_numbers for n in operands), (raw, operands - known)
        n_several += len(calls) > 1
        n_shares += "(" in raw["answer"]
    assert n_several > 100 and n_shares > 10


def _evaluate(expression: str) -> Fraction:
    return eval(re.sub(r"(\d+(?:\.\d+)?)", r"Fraction('\1')", expression))


def test_the_stand_in_of_math_is_reproducible():
    rows = [parse_math(raw) for raw in generate.make_problems(400, 3)]
    assert len({row["problem"] for row in rows}) == 400
    assert all(
        parse_answer(row["answer"]) is not None and answers_agree(row["answer"], row["answer"]) for row in rows
    )
    assert rows == [parse_math(raw) for raw in generate.make_problems(400, 3)]


def test_answers_of_the_stand_in_of_math_are_right():
    n_checked = 0
    for raw in generate.make_problems(300, 1):
        row = parse_math(raw)
        numbers = [int(n) for n in re.findall(r"-?\d+", row["problem"])]
        if match := re.fullmatch(r"Solve for \$x\$: \$(\d+)x \+ (\d+) = (\d+)\$\.", row["problem"]):
            a, b, c = map(int, match.groups())
            expected = Fraction(c - b, a)
        elif row["subject"] == "Intermediate Algebra":
            total, product = (int(n) for n in re.findall(r"- (\d+)x \+ (\d+)", row["problem"])[0])
            expected = Fraction(total * total - 2 * product)
        elif row["subject"] == "Counting & Probability":
            expected = Fraction(numbers[0], sum(numbers))
        elif row["subject"] == "Prealgebra":
            expected = None
            assert float(evaluate(_parse_latex(row["answer"])).real) == pytest.approx(numbers[0] ** 0.5)
        else:
            continue
        n_checked += 1
        assert expected is None or evaluate(_parse_latex(row["answer"])) == expected
    assert n_checked > 150


def _parse_latex(text: str) -> Tree:
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
    ("text", "expected"),
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
def test_latex_is_marked(text, expected):
    assert mark_formulas(text) == expected


# ---------------------------------------------------------------------------------------------------
# The task.


def list_parts(document) -> list:
    """Returns texts and numbers as joined strings, formulas as trees, and marks."""
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


def make_record(form: str) -> dict:
    return {"id": "r", **FORMS[form]({"gsm8k": GSM, "math": MATH}[form])}


def test_documents_have_the_layout_of_the_task():
    tree = latex.parse
    example = Task(form="gsm8k").example(make_record("gsm8k"), parse)
    assert list_parts(example.document) == [
        *(Mark("[CLS]"), "Question: Ann has ", tree("3"), " bags of ", tree("4"), " pears. How many?", Mark("[SEP]")),
        *(" Solution: She has ", tree("3*4=12"), " pears. [SEP] Final Answer: ", tree("12"), Mark("[EOS]")),
    ]
    assert example.document[example.loss_from - 1] == Text(" Solution: ") and example.reference == {"answer": "12"}
    assert documents.surface(example.document[example.loss_from :]) == (
        "She has  <m> 3 * 4 = 12 </m>  pears. [SEP] Final Answer:  <m> 12 </m> [EOS]"
    )
    example = Task(form="math").example(make_record("math"), parse)
    assert list_parts(example.document) == [
        *(Mark("[CLS]"), "Question: Solve ", tree("2x=3"), ".", Mark("[SEP]"), " Solution: Halving, "),
        *(tree(r"x=\frac32"), ". [SEP] Final Answer: ", tree(r"\frac32"), Mark("[EOS]")),
    ]


def test_the_published_layout_is_text():
    task = Task(form="math", as_published=True)
    example = task.example(make_record("math"), parse)
    assert documents.surface(example.document) == (
        "Question: Solve  <m> 2x = 3 </m> . [SEP] Solution: Halving,  <m> x = {\\frac{3}{2}} </m> . "
        "[SEP] Final Answer:  <m> \\frac{3}{2} </m> [EOS]"
    )
    assert not any(isinstance(segment, Mark) for segment in example.document[:-1])
    assert example.document[: example.loss_from] == task.prompt(make_record("math"), parse)
    assert documents.surface(task.prompt(make_record("math"), parse)).endswith(" [SEP] Solution: ")


TRAINING = ["Question: Ann has 3 bags of pears. How many? Solution: Halving, She [SEP] Final Answer: Solve"] * 9


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["trees", "subword"])
def test_tokens_decode_to_the_document_and_the_answer(form, name):
    marks = symbols.list_marks(symbols.count_symbols([latex.parse(r"3*4=\frac{1}{2}x")]))  # type: ignore[list-item]
    vocabulary = vocab.build({"name": "sentencepiece", "size": 330, "model": "bpe"}, TRAINING, marks)
    scheme = build.build("text", {"name": name}, vocab=vocabulary)
    task = Task(form=form)
    example = task.example(make_record(form), scheme.parse)
    features = scheme.encode(example.document)
    first = features.starts[example.loss_from]
    assert (
        scheme.decode(features.ids[:first]) == documents.merge(example.document[: example.loss_from])
        or name != "trees"
    )
    document = scheme.decode(features.ids[first:])
    assert document == documents.merge(example.document[example.loss_from :]) or name != "trees"
    prediction = task.predicted(document)
    scores = task.score([prediction], [example.reference])
    assert scores == {"accuracy": 1.0, "answered": 1.0, "read": 1.0}


def test_predictions_are_final_answers():
    task = Task()
    answer = Formula("", None), Formula("x", latex.parse("x"))
    assert task.predicted((Text("so [SEP] Final Answer: "), Number("7", 7), Mark("[EOS]"), Text("8"))) == "7"
    assert task.predicted((Text("[SEP] Final Answer: a [SEP] Final Answer: "), answer[1])) == "x"
    assert task.predicted((Text("[SEP] Final Answer:  <m> 12 </m> "),)) == "12"
    assert task.predicted((Text("[SEP] Final Answer: "), answer[0])) is None
    assert task.predicted((Text("the answer is 7"),)) is None
    assert task.predicted((Text("cut off [SEP] Final Ans"),)) is None


@pytest.mark.parametrize(
    ("answer", "expected", "is_equal"),
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
        ("2 1/2", "2.5", True),
        ("2 1/2", "10.5", False),
        ("x = 12 3/4", "12.75", True),
        ("10 000/2", "5000", True),
        ("1~234", "234", False),
        ("x+3", "3 + x", True),
        ("x(x+1)", "x (1+x)", True),
        (r"\{1,2\}", r"\{2,1\}", True),
        (r"\left(\frac12,3\right)", r"(\frac{1}{2}, 3)", True),
        (r"15\sqrt{21}", r"\sqrt{4725}", True),
        (r"\text{Evelyn}", r"\text{Evelyn}", True),
        (r"10,\!080", "10080", True),
        (r"\$ \times 40", r"\$40", True),  # as a tree prints it
        (r"-\$ \times 40", "-40", True),
        (r"575 \times \text{students}", r"575\text{ students}", True),
        (r"5 \times 3", "15", True),
        (r"\begin{pmatrix} -2 \\ 5 \end{pmatrix}", r"\begin{pmatrix}-2\\5\end{pmatrix}", True),
        (r"\begin{pmatrix} 1 \\ 3 \end{pmatrix}", r"\begin{pmatrix} 3 \\ 1 \end{pmatrix}", False),
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
def test_equal_answers_agree(answer, expected, is_equal):
    assert answers_agree(answer, expected) is answers_agree(expected, answer) is is_equal


def test_answers_of_math_agree_with_what_their_trees_print(real_data):
    n_answers = 0
    for _, _, raw in read_problems(str(real_data("math_hendrycks"))):
        try:
            answer = parse_math(raw)["answer"]
        except ValueError:
            continue
        tree = latex.parse(answer)
        if isinstance(tree, Tree):
            n_answers += 1
            assert answers_agree(printer.latex(tree), answer), answer
    assert n_answers > 4000


def test_answers_are_scored():
    references = [{"answer": a} for a in ("12", "12", "12", r"\frac12")]
    assert Task().score(["12.0", None, "{", "0.5"], references) == {"accuracy": 0.5, "answered": 0.75, "read": 0.5}
    assert Task(tolerance=0.2).score(["11"], [{"answer": "12"}])["accuracy"] == 1
    for bad in ({"tolerance": -1}, {"form": "gsm"}):
        with pytest.raises(UsageError):
            Task(**bad)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="0 predictions"):
        Task().score([], [])


def test_prompts_from_text_have_the_layout():
    task = Task(form="math")
    assert list_parts(task.prompt_from_text("What is $x$?", parse)) == [
        *(Mark("[CLS]"), "Question: What is ", Tree("V", "x"), "?", Mark("[SEP]"), " Solution: "),
    ]
    asked = task.prompt_from_text("What is $x$?", parse)
    assert task.prompt_from_text("Question: What is $x$? [SEP] Solution: ", parse) == asked
    assert task.prompt_from_text("Question: a [SEP] Solution: First", parse) is None


def test_texts_are_plain_documents():
    (text,) = Task(form="math").texts([make_record("math")])
    assert text.endswith("Final Answer:  <m> \\frac{3}{2} </m> ") and "Question: Solve  <m> 2x = 3 </m> ." in text


@pytest.mark.parametrize(("form", "folder"), [("gsm8k", "gsm8k"), ("math", "math_hendrycks")])
def test_real_problems_are_parsed(form, folder, real_data, tmp_path):
    splits = load_splits(real_data(folder), tmp_path, form, size=1500)
    rows = [row for records in splits.values() for row in records]
    assert len(rows) == 1500
    task, n_all_formulas, n_unparsed = Task(form=form), 0, 0
    for row in rows:
        example = task.example(row, parse)
        n_formulas = sum(isinstance(segment, Formula) for segment in example.document)
        n_all_formulas += n_formulas
        n_unparsed += (task._mark_formulas(row, "problem") + task._solution_text(row)).count("<m>") - n_formulas
        prediction = task.predicted(example.document[example.loss_from :])
        assert prediction is not None and answers_agree(prediction, row["answer"])
    assert n_all_formulas > 10_000 and n_unparsed / n_all_formulas < 0.005
