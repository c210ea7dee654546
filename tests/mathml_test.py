"""MathML: every node type, both conventions, refused input with its position, and no exceptions."""

from __future__ import annotations

import gzip
import json
import random
import re

import pytest

from numjax.bundled.experiments.mathgpt.notation import normalize_notation
from numjax.expr import latex, mathml
from numjax.expr.mathml import markup
from numjax.expr.rules import Unreadable
from numjax.expr.tree import Tree

A, B, C, X = "<ci>a</ci>", "<ci>b</ci>", "<ci>c</ci>", "<ci>x</ci>"
# They enclose content MathML as an annotation.
OPEN, CLOSE = '<annotation-xml encoding="MathML-Content">', "</annotation-xml>"
SUP, SUB = '<csymbol cd="ambiguous">superscript</csymbol>', '<csymbol cd="ambiguous">subscript</csymbol>'


def format_tree(tree) -> str:
    """Returns a tree in one line, type!symbol(children), or the error of an Unreadable."""
    if isinstance(tree, Unreadable):
        return f"at {tree.at}: {tree.error}"
    below = "" if tree.children is None else f"({', '.join(map(format_tree, tree.children))})"
    return f"{tree.type}!{tree.symbol}{below}"


def parse_to_text(source: str, **options) -> str:
    return format_tree(mathml.parse(source, **options))


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
        ('<cn type="e-notation">−2<sep/>−5</cn>', "N!-2e-5"),
        ("<cn>−5</cn>", "N!-5"),
        ('<cn type="integer" base="2">101</cn>', "N!5"),
        ('<cn type="integer" base="16">−FF</cn>', "N!-255"),
        ('<cn type="constant">π</cn>', "V!π"),
        ('<cn type="constant">pi</cn>', "V!π"),
        ('<cn type="constant">infinity</cn>', "C!infinity"),
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
        # Bounds and bound variables of MathML become the nodes of those in LaTeX.
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
def test_every_node_type_is_parsed(source, tree):
    assert parse_to_text(source) == tree
    assert parse_to_text(f'<math xmlns="u"><semantics><mi>z</mi>{OPEN}{source}{CLOSE}</semantics></math>') == tree
    prefixed = re.sub("<(/?)", r"<\1m:", source)
    assert parse_to_text(f'<m:math xmlns:m="u">{prefixed}</m:math>') == tree


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
def test_conventions_differ_as_published(source, default, published):
    assert parse_to_text(source) == default
    assert parse_to_text(source, as_published=True) == published


def test_sums_too_wide_for_a_position_are_halved():
    wide = mathml.parse(apply("<plus/>", *["<cn>1</cn>"] * 87))
    assert isinstance(wide, Tree) and [len(half.children or ()) for half in wide.children or ()] == [44, 43]
    assert "more than 62" in parse_to_text(apply("<lt/>", *["<cn>1</cn>"] * 63))


def test_shares_are_resolved():
    chain = apply("<and/>", apply("<lt/>", A, '<ci id="m">b</ci>'), apply("<lt/>", '<share href="#m"/>', C))
    assert parse_to_text(chain) == "U!and(O!lt(V!a, V!b), O!lt(V!b, V!c))"
    inner = '<apply id="p"><plus/><ci id="q">x</ci><ci>a</ci></apply>'
    nested = apply("<plus/>", '<share href="#p"/>', inner, '<share href="#q"/>')
    assert parse_to_text(nested) == "U!plus(U!plus(V!x, V!a), U!plus(V!x, V!a), V!x)"
    dangling = apply("<lt/>", A, '<share href="#zz"/>')
    assert parse_to_text(dangling) == f"at {dangling.index('<share')}: <share> names nothing: '#zz'"
    assert parse_to_text(dangling, as_published=True) == "O!lt(V!a)"


def test_shares_that_loop_or_swell_are_refused():
    loop = apply("<plus/>", A, '<share href="#me"/>').replace("<apply>", '<apply id="me">', 1)
    assert "contains itself" in parse_to_text(loop)
    levels = ['<apply id="l0"><plus/><ci>x</ci><ci>x</ci></apply>']
    levels += [
        f'<apply id="l{i}"><plus/><share href="#l{i - 1}"/><share href="#l{i - 1}"/></apply>' for i in range(1, 60)
    ]
    assert "too large" in parse_to_text(f"<list>{''.join(levels)}</list>")


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
    result = mathml.parse(source)
    assert isinstance(result, Unreadable) and "refused" in result.error and 0 <= result.at <= len(source)


def test_an_external_document_type_is_not_fetched():
    assert parse_to_text('<!DOCTYPE math SYSTEM "http://127.0.0.1:1/math.dtd"><math><ci>a</ci></math>') in (
        "V!a",
        "at 0: external entities are refused",
    )


def test_named_characters_are_replaced():
    assert parse_to_text(apply("<ci>&alpha;</ci>", "<ci>&lt;</ci>", "<ci>&#x3b2;</ci>")) == "F!α(V!<, V!β)"
    late = "<list><ci>&alpha;&InvisibleTimes;</ci><nonsense><b/></nonsense></list>"
    assert parse_to_text(late) == f"at {late.index('<nonsense')}: <nonsense> has no contents in content MathML"


@pytest.mark.parametrize(
    ("source", "position", "error"),
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
def test_errors_have_a_position(source, position, error):
    result = mathml.parse(source)
    assert isinstance(result, Unreadable) and error in result.error and result.at == position


def test_deep_nesting_and_long_sources_are_refused():
    deep = "<apply><sin/>" * 10_000 + "<ci>x</ci>" + "</apply>" * 10_000
    assert "levels deep" in parse_to_text(deep)
    assert "characters" in parse_to_text(" " * (markup.LARGEST + 1))


def test_bad_contents_are_refused_with_their_reason():
    rule = "<set><bvar><ci>x</ci></bvar><condition></condition><ci>x</ci></set>"
    assert parse_to_text(rule) == "at 28: <condition> is empty"
    assert "levels deep" in parse_to_text("<semantics>" * 300 + X + "</semantics>" * 300)
    row = "<matrixrow>{}</matrixrow>".format
    square = f"<matrix>{row('<cn>1</cn>' * 500)}{row('<cn>1</cn>') * 500}</matrix>"
    assert parse_to_text(square) == "at 0: a matrix of more than 200000 cells"


def test_presentation_is_parsed_from_its_tex():
    annotation = '<annotation encoding="application/x-tex">{}</annotation>'
    tex = f'<math alttext="y"><semantics><mi>x</mi>{annotation.format("x&lt;1")}</semantics></math>'
    assert parse_to_text(tex) == "O!lt(V!x, N!1)"
    presentation = '<math alttext="a/b/c"><mi>y</mi></math>'
    assert parse_to_text(presentation) == "O!divide(O!divide(V!a, V!b), V!c)"
    assert parse_to_text(presentation, as_published=True) == "O!divide(V!a, V!b, V!c)"
    broken = annotation.format("\\frac{1}{")
    assert parse_to_text(f"<math><mrow><mi>x</mi></mrow>{broken}</math>").startswith("at 29: in its TeX: ")


def test_wikidata_symbols_take_their_presented_name():
    symbol = '<csymbol cd="latexml" id="c1" xref="p1">Q3176558</csymbol>'
    source = f'<math><semantics><mi id="p1" xref="c1">ε</mi>{OPEN}{apply("<sin/>", symbol)}{CLOSE}</semantics></math>'
    assert parse_to_text(source) == "F!sin(V!ε)"


def test_foreign_symbols_are_parsed_as_they_are_presented():
    presentation = (
        '<msub id="s"><mi id="w">ω</mi><mi>k</mi></msub><mover id="v"><mi>F</mi><mo>→</mo></mover><mo id="o">∑</mo>'
    )
    wikidata = '<csymbol cd="latexml" xref="{}">Q1</csymbol>'
    bounds = '<csymbol cd="dlmf" xref="o">semantic-sum</csymbol><ci>k</ci><cn>1</cn><ci>n</ci>'

    def parse_foreign(source: str) -> str:
        return parse_to_text(f"<math><semantics><mrow>{presentation}</mrow>{OPEN}{source}{CLOSE}</semantics></math>")

    call = f"<apply>{wikidata.format('w')}<ci>k</ci></apply>"
    assert parse_foreign(call) == "F!ω(V!k)"
    assert parse_foreign(call.replace("<apply>", '<apply xref="s">')) == "O!SUB(V!ω, V!k)", "presented as a subscript"
    assert parse_foreign(wikidata.format("v")) == "F!→(V!F)"
    assert parse_foreign(wikidata.format("o")) == "O!Q1", "a sign is no name"
    assert parse_foreign(f"<apply><apply>{bounds}</apply>{A}</apply>") == (
        "+!O!SUB(O!SUP(O!SUB(O!sum, U!eq(V!k, N!1)), V!n), V!a)"
    )
    derived = apply(latexml("derivative"), A, X, "<cn>2</cn>")
    assert parse_to_text(derived) == parse_to_text(
        apply("<diff/>", f"<bvar>{X}<degree><cn>2</cn></degree></bvar>", A)
    )


def test_formulas_are_extracted_from_a_page_that_is_no_xml():
    page = (
        "<p>a < b & <math alttext='1 > 0'><ci>a</ci></math> <br> <m:math xmlns:m='u'><m:ci>b</m:ci></m:math> <math>"
    )
    formulas = list(mathml.find_formulas(page))
    assert [parse_to_text(source) for _, source in formulas] == ["V!a", "V!b"]
    assert all(page.startswith(source, offset) for offset, source in formulas)


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
            result = mathml.parse(source, as_published=as_published)
            assert isinstance(result, Tree) or 0 <= result.at <= len(source)


def test_queries_of_ntcir_are_parsed_or_refused_with_a_reason(real_data):
    """Files in the format of the pre-training corpus: each formula is a tree, or an error with its reason."""
    errors = {}
    for path in sorted(real_data("ntcir12_queries").glob("*.html")):
        trees = [mathml.parse(source) for _, source in mathml.find_formulas(path.read_text())]
        assert len(trees) == 1, path
        if isinstance(trees[0], Unreadable):
            errors[path.name] = trees[0].error
    assert errors.pop("9.html").startswith("not well-formed"), "it holds an unescaped <"
    # The queries lack the ids that the shares name.
    assert set(errors.values()) == {"<share> names nothing: '#.cmml'"} and len(errors) == 3


def test_both_parsers_agree_on_mathmlben(real_data):
    """Hand-checked content MathML and the LaTeX parser give the same notation (`experiments.mathgpt.notation`)."""
    with gzip.open(real_data("mathmlben") / "gold.jsonl.gz", "rt") as file:
        rows = list(map(json.loads, file))
    n_equal = 0
    for row in rows:
        content_tree, tex_tree = mathml.parse(row["correct_mml"]), latex.parse(row["correct_tex"])
        if isinstance(content_tree, Tree) and isinstance(tex_tree, Tree):
            n_equal += normalize_notation(content_tree) == normalize_notation(tex_tree)
    assert n_equal >= 0.7 * len(rows)
