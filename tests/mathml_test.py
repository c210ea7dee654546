"""MathML: every node type, both conventions, what is refused and where, and nothing that raises."""

from __future__ import annotations

import gzip
import json
import random
import re

import pytest

from numjax.expr import latex, mathml
from numjax.expr.mathml import markup
from numjax.expr.rules import Unreadable
from numjax.expr.tree import Tree
from tests.notation import as_written

A, B, C, X = "<ci>a</ci>", "<ci>b</ci>", "<ci>c</ci>", "<ci>x</ci>"
# Around content MathML as an annotation.
OPEN, CLOSE = '<annotation-xml encoding="MathML-Content">', "</annotation-xml>"
SUP, SUB = '<csymbol cd="ambiguous">superscript</csymbol>', '<csymbol cd="ambiguous">subscript</csymbol>'


def shown(tree) -> str:
    """A tree in one line, type!symbol(children); an Unreadable as its error."""
    if isinstance(tree, Unreadable):
        return f"at {tree.at}: {tree.error}"
    below = "" if tree.children is None else f"({', '.join(map(shown, tree.children))})"
    return f"{tree.type}!{tree.symbol}{below}"


def read(source: str, **options) -> str:
    return shown(mathml.parse(source, **options))


def apply(*parts: str) -> str:
    return f"<apply>{''.join(parts)}</apply>"


def latexml(name: str) -> str:
    return f'<csymbol cd="latexml">{name}</csymbol>'


@pytest.mark.parametrize(
    ("source", "tree"),
    [
        ("<ci>x</ci>", "V!x"),
        ("<ci> normal-Σ </ci>", "V!Σ"),
        ("<ci>𝑥</ci>", "V!x"),
        ("<ci>ℎ</ci>", "V!h"),
        ("<ci>ℝ</ci>", "V!ℝ"),
        ("<ci>sans-serif-bold-A</ci>", "V!A"),
        ("<ci/>", "W!"),
        ('<cn type="integer">12</cn>', "N!12"),
        ("<cn> 1,000.5 </cn>", "N!1000.5"),
        ('<cn type="e-notation">2<sep/>-5</cn>', "N!2e-5"),
        ('<cn type="rational">1<sep/>2</cn>', "O!divide(N!1, N!2)"),
        ('<cn type="complex-cartesian">1<sep/>2</cn>', "U!plus(N!1, U!times(N!2, C!imaginaryi))"),
        ("<infinity/>", "C!infinity"),
        ("<emptyset/>", "C!emptyset"),
        ("<pi/>", "V!π"),
        ("<exponentiale/>", "V!e"),
        (latexml("Planck-constant-over-2-pi"), "C!hbar"),
        ('<csymbol cd="unknown">♥</csymbol>', "-!♥"),
        (latexml("absent"), "W!"),
        ("<ci><mtext>if so</mtext></ci>", "T!if so"),
        ("<mtext> odd </mtext>", "T!odd"),
        ("<qvar>*1*</qvar>", "-!?1"),
        ("<plus/>", "U!plus"),
        ("<minus/>", "O!minus"),
        ("<min/>", "F!min"),
        (apply("<plus/>", A, B), "U!plus(V!a, V!b)"),
        (apply("<divide/>", A, B), "O!divide(V!a, V!b)"),
        (apply("<power/>", A, B), "O!SUP(V!a, V!b)"),
        (apply(SUP, A, B), "O!SUP(V!a, V!b)"),
        (apply(SUB, A, B), "O!SUB(V!a, V!b)"),
        (apply(latexml("plus-or-minus"), A), "O!plus-or-minus(V!a)"),
        (apply(latexml("for-all"), A), "O!forall(V!a)"),
        (apply(latexml("modulo"), A, B), "O!rem(V!a, V!b)"),
        (apply("<root/>", A), "O!root(V!a, N!2)"),
        (apply("<root/>", "<degree><cn>3</cn></degree>", A), "O!root(V!a, N!3)"),
        (apply("<sin/>", A), "F!sin(V!a)"),
        (apply("<determinant/>", A), "F!det(V!a)"),
        (apply("<ci>f</ci>", A), "F!f(V!a)"),
        (apply("<ci>¯</ci>", A), "F!¯(V!a)"),
        (apply(apply(SUB, "<log/>", "<cn>2</cn>"), A), "+!F!log(O!SUB(F!log, N!2), V!a)"),
        (
            apply(apply(SUP, apply(SUB, "<sum/>", A), B), C),
            "+!O!SUB(O!SUP(O!SUB(O!sum, V!a), V!b), V!c)",
        ),
        (apply(latexml("delimited-[]"), A), "M!D-lsqb;&rsqb;(V!a)"),
        (apply(latexml("delimited-⟨⟩"), A), "M!D-⟩(V!a)"),
        (f"<list>{A}{B}</list>", "M!L-2(V!a, V!b)"),
        (f"<set>{A}</set>", "M!S-1(V!a)"),
        (f"<vector>{A}{B}{C}</vector>", "M!V-3(V!a, V!b, V!c)"),
        (f'<interval closure="open-closed">{A}{B}</interval>', "O!interval(O-C)(V!a, V!b)"),
        (f"<interval>{A}{B}</interval>", "O!interval(C-C)(V!a, V!b)"),
        (
            f"<matrix><matrixrow>{A}{B}</matrixrow><matrixrow>{C}</matrixrow></matrix>",
            "M!M-2x2(M!R!(V!a, V!b), M!R!(V!c, E!))",
        ),
        (
            apply(latexml("matrix"), f"<matrix><matrixrow>{A}</matrixrow></matrix>"),
            "M!M-1x1(M!R!(V!a))",
        ),
        (f'<cerror><csymbol cd="ambiguous">fragments</csymbol>{A}</cerror>', "E!cerror(O!fragments, V!a)"),
        (
            f"<piecewise><piece>{A}{B}</piece><otherwise>{C}</otherwise></piecewise>",
            "O!cases(V!a, V!b, V!c, T!otherwise)",
        ),
        # MathML's own bounds and bound variables become what LaTeX's readers make of theirs.
        (
            apply("<int/>", f"<bvar>{X}</bvar><lowlimit>{A}</lowlimit><uplimit>{B}</uplimit>", C),
            "+!O!SUB(O!SUP(O!SUB(O!int, V!a), V!b), U!times(V!c, O!differential-d(V!x)))",
        ),
        (
            apply("<sum/>", f"<bvar>{X}</bvar><lowlimit>{A}</lowlimit><uplimit>{B}</uplimit>", C),
            "+!O!SUB(O!SUP(O!SUB(O!sum, U!eq(V!x, V!a)), V!b), V!c)",
        ),
        (
            apply("<int/>", f"<bvar>{X}</bvar><interval>{A}{B}</interval>", C),
            "+!O!SUB(O!SUP(O!SUB(O!int, V!a), V!b), U!times(V!c, O!differential-d(V!x)))",
        ),
        (
            apply("<diff/>", f"<bvar>{X}<degree><cn>2</cn></degree></bvar>", A),
            "O!divide(+!O!differential-d(O!SUP(O!differential-d, N!2), V!a), O!differential-d(O!SUP(V!x, N!2)))",
        ),
        (apply("<forall/>", f"<bvar>{X}</bvar>", A), "O!forall(V!x, V!a)"),
        (apply("<log/>", "<logbase><cn>2</cn></logbase>", X), "+!F!log(O!SUB(F!log, N!2), V!x)"),
        (f"<set><bvar>{X}</bvar><condition>{A}</condition>{X}</set>", "O!conditional-set(V!x, V!a)"),
    ],
)
def test_every_node_type(source, tree):
    assert read(source) == tree
    assert read(f'<math xmlns="u"><semantics><mi>z</mi>{OPEN}{source}{CLOSE}</semantics></math>') == tree
    prefixed = re.sub("<(/?)", r"<\1m:", source)
    assert read(f'<m:math xmlns:m="u">{prefixed}</m:math>') == tree


@pytest.mark.parametrize(
    ("source", "default", "published"),
    [
        (
            apply("<minus/>", A, B, C),
            "O!minus(O!minus(V!a, V!b), V!c)",
            "O!minus(V!a, V!b, V!c)",
        ),
        (
            apply("<divide/>", A, B, C),
            "O!divide(O!divide(V!a, V!b), V!c)",
            "O!divide(V!a, V!b, V!c)",
        ),
        (apply("<int/>", A), "O!int(V!a)", "O!int(V!a, W!, W!)"),
        ("<ci>?</ci>", "V!?", "V!&quest;"),
        ("<ci><mtext>cm</mtext></ci>", "T!cm", "W!"),
        ("<qvar>*1*</qvar>", "-!?1", "at 0: query variables have no type"),
        (
            apply("<int/>", f"<bvar>{X}</bvar>", A),
            "O!int(U!times(V!a, O!differential-d(V!x)))",
            "at 0: qualifiers have no type",
        ),
    ],
)
def test_published_conventions(source, default, published):
    assert read(source) == default
    assert read(source, as_published=True) == published


def test_sums_too_wide_for_a_position_are_halved():
    wide = mathml.parse(apply("<plus/>", *["<cn>1</cn>"] * 87))
    assert isinstance(wide, Tree) and [len(half.children or ()) for half in wide.children or ()] == [44, 43]
    assert "more than 62" in read(apply("<lt/>", *["<cn>1</cn>"] * 63))


def test_shares_are_resolved():
    chain = apply("<and/>", apply("<lt/>", A, '<ci id="m">b</ci>'), apply("<lt/>", '<share href="#m"/>', C))
    assert read(chain) == "U!and(O!lt(V!a, V!b), O!lt(V!b, V!c))"
    inner = '<apply id="p"><plus/><ci id="q">x</ci><ci>a</ci></apply>'
    nested = apply("<plus/>", '<share href="#p"/>', inner, '<share href="#q"/>')
    assert read(nested) == "U!plus(U!plus(V!x, V!a), U!plus(V!x, V!a), V!x)"
    lost = apply("<lt/>", A, '<share href="#zz"/>')
    assert read(lost) == f"at {lost.index('<share')}: <share> names nothing: '#zz'"
    assert read(lost, as_published=True) == "O!lt(V!a)"


def test_shares_that_loop_or_swell_are_refused():
    loop = apply("<plus/>", A, '<share href="#me"/>').replace("<apply>", '<apply id="me">', 1)
    assert "contains itself" in read(loop)
    levels = ['<apply id="l0"><plus/><ci>x</ci><ci>x</ci></apply>']
    levels += [
        f'<apply id="l{i}"><plus/><share href="#l{i - 1}"/><share href="#l{i - 1}"/></apply>' for i in range(1, 60)
    ]
    assert "too large" in read(f"<list>{''.join(levels)}</list>")


BOMB = '<!DOCTYPE m [<!ENTITY a "aaaaaaaaaa">{}]><math><ci>&j;</ci></math>'.format(
    "".join(f'<!ENTITY {b} "{("&" + a + ";") * 10}">' for a, b in zip("abcdefghi", "bcdefghij", strict=True))
)


@pytest.mark.parametrize(
    "source",
    [
        BOMB,
        '<!DOCTYPE m [<!ENTITY x SYSTEM "file:///etc/passwd">]><math><ci>&x;</ci></math>',
        '<!DOCTYPE m [<!ENTITY x PUBLIC "p" "http://127.0.0.1/x">]><math><ci>&x;</ci></math>',
        '<!DOCTYPE m [<!ENTITY % x SYSTEM "file:///etc/passwd"> %x;]><math><ci>a</ci></math>',
    ],
)
def test_bombs_and_external_entities_are_refused(source):
    found = mathml.parse(source)
    assert isinstance(found, Unreadable) and "refused" in found.error and 0 <= found.at <= len(source)


def test_a_document_type_is_not_fetched():
    assert read('<!DOCTYPE math SYSTEM "http://127.0.0.1:1/math.dtd"><math><ci>a</ci></math>') in (
        "V!a",
        "at 0: external entities are refused",
    )


def test_named_characters():
    assert read(apply("<ci>&alpha;</ci>", "<ci>&lt;</ci>", "<ci>&#x3b2;</ci>")) == "F!α(V!<, V!β)"
    late = "<list><ci>&alpha;&InvisibleTimes;</ci><nonsense><b/></nonsense></list>"
    assert read(late) == f"at {late.index('<nonsense')}: <nonsense> has no contents in content MathML"


@pytest.mark.parametrize(
    ("source", "at", "error"),
    [
        ("", 0, "no element found"),
        ("x = 1", 0, "syntax error"),
        ("<math/>", 0, "the formula is empty"),
        ("<math><ci>a</math>", 13, "mismatched tag"),
        ("<math><ci>é\n&nope;</ci></math>", 12, "undefined entity"),
        ("<list><ci>é</ci><frob/></list>", 16, "<frob> is not content MathML"),
        ("<math><mfrac><mn>1</mn><mn>2</mn></mfrac></math>", 0, "presentation MathML without the TeX"),
        ("<interval closure='odd'><ci>a</ci><ci>b</ci></interval>", 0, "an interval is not 'odd'"),
        ("<interval><ci>a</ci></interval>", 0, "an interval has two ends, not 1"),
        ("<matrix><ci>a</ci></matrix>", 0, "a matrix has rows"),
        ("<cn>1<sep/>2<sep/>3</cn>", 0, "two parts"),
        ("<ci>\ud800</ci>", 4, "surrogate"),
        ("<math><semantics><mi>x</mi><annotation-xml encoding='MathML-Content'/></semantics></math>", 27, "empty"),
    ],
)
def test_errors_have_a_place(source, at, error):
    found = mathml.parse(source)
    assert isinstance(found, Unreadable) and error in found.error and found.at == at


def test_nesting_without_end_is_refused():
    deep = "<apply><sin/>" * 10_000 + "<ci>x</ci>" + "</apply>" * 10_000
    assert "levels deep" in read(deep)
    assert "characters" in read(" " * (markup.LARGEST + 1))


def test_presentation_is_read_through_its_tex():
    annotation = '<annotation encoding="application/x-tex">{}</annotation>'
    tex = f'<math alttext="y"><semantics><mi>x</mi>{annotation.format("x&lt;1")}</semantics></math>'
    assert read(tex) == "O!lt(V!x, N!1)"
    alone = '<math alttext="a/b/c"><mi>y</mi></math>'
    assert read(alone) == "O!divide(O!divide(V!a, V!b), V!c)"
    assert read(alone, as_published=True) == "O!divide(V!a, V!b, V!c)"
    broken = annotation.format("\\frac{1}{")
    assert read(f"<math><mrow><mi>x</mi></mrow>{broken}</math>").startswith("at 29: in its TeX: ")


def test_names_of_wikidata_are_what_is_written():
    symbol = '<csymbol cd="latexml" id="c1" xref="p1">Q3176558</csymbol>'
    source = f'<math><semantics><mi id="p1" xref="c1">ε</mi>{OPEN}{apply("<sin/>", symbol)}{CLOSE}</semantics></math>'
    assert read(source) == "F!sin(V!ε)"


def test_foreign_symbols_are_read_as_they_are_presented():
    shown = (
        '<msub id="s"><mi id="w">ω</mi><mi>k</mi></msub><mover id="v"><mi>F</mi><mo>→</mo></mover><mo id="o">∑</mo>'
    )
    wikidata = '<csymbol cd="latexml" xref="{}">Q1</csymbol>'
    bounds = '<csymbol cd="dlmf" xref="o">semantic-sum</csymbol><ci>k</ci><cn>1</cn><ci>n</ci>'

    def foreign(source: str) -> str:
        return read(f"<math><semantics><mrow>{shown}</mrow>{OPEN}{source}{CLOSE}</semantics></math>")

    call = f"<apply>{wikidata.format('w')}<ci>k</ci></apply>"
    assert foreign(call) == "F!ω(V!k)"
    assert foreign(call.replace("<apply>", '<apply xref="s">')) == "O!SUB(V!ω, V!k)", "presented as a subscript"
    assert foreign(wikidata.format("v")) == "F!→(V!F)"
    assert foreign(wikidata.format("o")) == "O!Q1", "a sign is no name"
    assert foreign(f"<apply><apply>{bounds}</apply>{A}</apply>") == (
        "+!O!SUB(O!SUP(O!SUB(O!sum, U!eq(V!k, N!1)), V!n), V!a)"
    )
    derived = apply(latexml("derivative"), A, X, "<cn>2</cn>")
    assert read(derived) == read(apply("<diff/>", f"<bvar>{X}<degree><cn>2</cn></degree></bvar>", A))


def test_formulas_of_a_page_that_is_no_xml():
    page = (
        "<p>a < b & <math alttext='1 > 0'><ci>a</ci></math> <br> <m:math xmlns:m='u'><m:ci>b</m:ci></m:math> <math>"
    )
    found = list(mathml.find_formulas(page))
    assert [read(source) for _, source in found] == ["V!a", "V!b"]
    assert all(page.startswith(source, place) for place, source in found)


def test_mutations_never_raise():
    rng = random.Random(0)
    sources = [
        f'<math xmlns="u" alttext="">{apply("<plus/>", A, apply(SUP, X, "<cn>2</cn>"))}</math>',
        apply("<int/>", f"<bvar>{X}</bvar><lowlimit>{A}</lowlimit>", C),
        f"<matrix><matrixrow>{A}{B}</matrixrow></matrix><!-- c -->",
        apply("<and/>", '<ci id="m">b</ci>', '<share href="#m"/>'),
    ]
    pieces = "< > / & <apply> </apply> <bvar> </bvar> <sep/> <degree> &alpha; é <share/> <cn> </ci>".split()
    pieces += ['"', "<share href='#m'/>", " ", "\x00"]
    for _ in range(3000):
        source = rng.choice(sources)
        for _ in range(rng.randint(1, 4)):
            start = rng.randrange(len(source) + 1)
            source = source[:start] + rng.choice([*pieces, ""]) + source[start + rng.randint(0, 6) :]
        for as_published in (False, True):
            found = mathml.parse(source, as_published=as_published)
            assert isinstance(found, Tree) or 0 <= found.at <= len(source)


def test_queries_of_ntcir(real_data):
    """The file form of the pre-training corpus: each formula is a tree or says why not."""
    unread = {}
    for path in sorted(real_data("ntcir12_queries").glob("*.html")):
        found = [mathml.parse(source) for _, source in mathml.find_formulas(path.read_text())]
        assert len(found) == 1, path
        if isinstance(found[0], Unreadable):
            unread[path.name] = found[0].error
    assert unread.pop("9.html").startswith("not well-formed"), "a sign < stands bare in it"
    # Their ids were taken out of the queries.
    assert set(unread.values()) == {"<share> names nothing: '#.cmml'"} and len(unread) == 3


def test_mathmlben(real_data):
    """Hand-checked content MathML and the native reader agree on what is written (see `tests/notation.py`)."""
    with gzip.open(real_data("mathmlben") / "gold.jsonl.gz", "rt") as file:
        rows = list(map(json.loads, file))
    same = 0
    for row in rows:
        given, read_off = mathml.parse(row["correct_mml"]), latex.parse(row["correct_tex"])
        if isinstance(given, Tree) and isinstance(read_off, Tree):
            same += as_written(given) == as_written(read_off)
    assert same >= 0.7 * len(rows)
