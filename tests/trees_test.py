"""Formulas as operator trees in one sequence with text: nothing is lost, and one automaton decides what is whole."""

from __future__ import annotations

import functools
import pickle
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numjax.decode import grammar as device
from numjax.errors import DataError, UsageError
from numjax.expr import canonical, latex
from numjax.expr.tree import TYPES, Tree
from numjax.nn import cross_entropy
from numjax.nn import grammar as masks
from numjax.runtime import files
from numjax.text import trees, trees_published, vocab
from numjax.text.grammar import automaton as grammars
from numjax.text.trees import tokens
from numjax.text.vocab import symbols as names
from numjax.types import Formula, Mark, Text

TEXTS = ["Question: 12 birds and 30 cats? [SEP] Equation: ", "the sum of alpha and beta"] * 20


SAMPLE = Tree(
    "U",
    "eq",
    [
        Tree("V", "x"),
        Tree("O", "SUP", [Tree("U", "plus", [Tree("V", "y"), Tree("N", "12.5")]), Tree("N", "2")]),
        Tree("+", "O!SUB", [Tree("O", "SUB", [Tree("O", "int"), Tree("C", "infinity")]), Tree("W", "")]),
        Tree("M", "M-1x2", [Tree("M", "R!", [Tree("V", ""), Tree("E", "E")])]),
        Tree("O", "divide", [Tree("T", "if"), Tree("F", "sin", [Tree("-", "?")])]),
        Tree("O", "int"),
        Tree("E", "E", [Tree("E", "unexpected"), Tree("V", "x")]),
    ],
)


@functools.cache
def scheme(arity: bool = False) -> trees.Scheme:
    """Few symbols, so that most of what is drawn is spelled; no arities but the structure's own."""
    built = vocab.build({"name": "sentencepiece", "size": 320}, TEXTS, trees.Scheme.marks_of({}, [SAMPLE]))
    return trees.Scheme(built, arity=arity)


SYMBOLS = st.one_of(
    st.sampled_from(["x", "eq", "plus", "SUP", "divide", "", "E", "O!SUB", "U!eq", "infinity", "7", "12"]),
    st.text(max_size=6).filter(lambda s: "\r" not in s and s.isprintable()),
    st.text(max_size=4),
)
NUMBERS = st.one_of(
    st.integers(-10, 10**12).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
    st.sampled_from(["", "-", ".", "1,000", "1e-7", "2.5E+10", ".5", "5.", "½", "1.2.3", "0x1f", "+3", "e"]),
)


def nodes(below):
    return st.one_of(
        st.builds(Tree, st.sampled_from("UOFMTWE+"), SYMBOLS, st.lists(below, max_size=4)),
        st.builds(lambda c, more: Tree("+", f"{c.type}!{c.symbol}", [c, *more]), below, st.lists(below, max_size=2)),
        st.builds(lambda below: Tree("E", "E", below), st.lists(below, min_size=1, max_size=2)),
    )


LEAVES = st.one_of(st.builds(Tree, st.sampled_from("VC-UOFMTWE+"), SYMBOLS), st.builds(Tree, st.just("N"), NUMBERS))
ANY_TREE = st.recursive(LEAVES, nodes, max_leaves=12)


def spellable(tree):
    return all(files.replace_surrogates(node.symbol) == node.symbol for node in tree.walk())


@settings(max_examples=200, deadline=None)
@given(ANY_TREE, st.text("ab 1,.", max_size=5))
def test_nothing_is_lost(tree, text):
    """Any types, symbols, numbers and hints, whatever the vocabulary holds."""
    document = (Mark("[CLS]"), *scheme().parse("of " + text), Formula("", tree), Formula("", tree), Mark("[EOS]"))
    if not spellable(tree):
        with pytest.raises(DataError, match="cannot be spelled"):
            scheme().encode(document)
        return
    features = scheme().encode(document)
    assert scheme().decode(features.ids.tolist(), features.numbers) == document
    assert features.ids.max() < scheme().vocab.size
    types, places = features.channels["types"], features.channels["tree_positions"]
    assert types is not None and places is not None
    # Text and the two brackets stand in no tree; all else does.
    np.testing.assert_array_equal(places[:, 0] == 0, types > 2)
    # Positions are those of the tree: children in order, END behind them.
    begin = features.starts[-4]
    wanted = list(positions_of(features.ids[begin + 1 : features.starts[-3] - 1].tolist()))
    found = [tuple(int(i) for i in row if i >= 0) for row in places[begin + 1 : features.starts[-3] - 1]]
    assert found == wanted


def opens(token: int) -> bool:
    kind, type, name = scheme().symbols.names.get(token, ("", "", ""))
    return kind == "OP" and (type != "!" or name != "UNK")


def positions_of(ids):
    """Child indices of every token, from the tokens alone."""
    path = [0]
    for token in ids:
        yield tuple(path)
        if opens(token):
            path.append(0)
        elif token == scheme().symbols.end:
            path.pop()
            path[-1] += 1
        elif len(path) > 1:
            path[-1] += 1


def readable(ids, types_of) -> bool:
    """Whether the tokens are one formula: recursive descent that shares nothing with the tables."""
    symbols, at = scheme().symbols, 0
    special = {symbols.special_id(n): n for n in (names.ANON, names.ERROR, names.NUMBER, names.TEXT, names.PADDING)}
    spells = {symbols.special_id(n): kind for kind, n in names.SPELL.items()}
    base = scheme().vocab.base

    def take():
        nonlocal at
        at += 1
        return ids[at - 1]

    def node(level):
        nonlocal at
        token = take()
        name = special.get(token)
        if name == names.PADDING or (token in symbols.names and symbols.names[token][:2] in types_of):
            return
        if level >= 31:
            raise ValueError
        if name == names.NUMBER:
            digits = ""
            while ids[at] != symbols.end:
                kind, type, digit = symbols.names.get(take(), ("", "", ""))
                if kind != "NUM" or type == "!":
                    raise ValueError
                digits += digit
            at += 1
            if len(digits) < 2 or not tokens.WRITTEN.fullmatch(digits):
                raise ValueError
            return
        if name == names.TEXT:
            while take() < base:
                pass
            if ids[at - 1] != symbols.end:
                raise ValueError
            return
        count = 0
        if token in spells:
            if ids[at] != symbols.special_id(names.TEXT):
                raise ValueError
        elif name is None and not (token in symbols.names and symbols.names[token][0] == "OP"
                                   and symbols.names[token][1] != "!"):  # fmt: skip
            raise ValueError
        while ids[at] != symbols.end:
            node(level + 1)
            count += 1
        at += 1
        least, most = (1, 63) if name in (names.ANON, names.ERROR) else (0, 63)
        if spells.get(token, "U") in names.LEAVES:
            most = 1
        if not least <= count <= most:
            raise ValueError

    try:
        node(0)
    except (ValueError, IndexError):
        return False
    return at == len(ids)


def test_the_automaton_reads_what_a_validator_of_another_make_reads():
    """On true formulas and on ones with tokens changed, dropped, doubled and swapped."""
    rng = random.Random(5)
    symbols = scheme().symbols
    leaves = {("VAR", "V"), ("VAR", "C"), ("VAR", "-"), ("NUM", "N")}
    pool = [tokens.encode(child, symbols) for child in SAMPLE.walk()]
    pool += [tokens.encode(Tree("N", n), symbols) for n in ("12.50", "-3", "1e-7", ".5", "+1.0E+10")]
    pool += [tokens.encode(Tree(kind, "zq"), symbols) for kind in TYPES]
    every = sorted({token for row in pool for token in row} | {*symbols.names, 5, 9})
    right = 0
    for _ in range(4000):
        ids = list(rng.choice(pool))
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            at = rng.randrange(len(ids))
            change = rng.randrange(5)
            ids[at : at + 1] = [
                [rng.choice(every)],
                [],
                [ids[at], ids[at]],
                [*rng.choice(pool)],
                [rng.choice(every), ids[at]],
            ][change]
            if not ids:
                ids = [symbols.end]
        if any(i == symbols.start for i in ids):
            continue
        whole = [symbols.start, *ids, symbols.stop]
        found = grammars.validate(scheme().grammar(), whole) is None
        assert found == readable(ids, leaves), ids
        if found:
            right += 1
            assert tokens.decode(ids, symbols) is not None
    assert 1000 < right < 3500


def written(rng, host, budget, skew):
    """One text written at random, by the classes that the automaton leaves."""
    place, out = host.start(), []
    while len(out) < budget:
        may = np.flatnonzero(host.allowed(place, budget - len(out)))
        if not len(may):
            break
        weights = skew[may]
        out.append(int(rng.choice(may, p=weights / weights.sum())))
        place = host.step(place, out[-1])
    return out


@pytest.mark.parametrize("arity", [False, True])
def test_what_is_written_at_random_is_always_whole(arity, rng):
    """Any budget: trees close, numbers are numbers, no unknown or unprintable symbol is written."""
    of = scheme() if not arity else trees.Scheme(scheme().vocab, arity=True)
    grammar = of.grammar()
    host = grammars.Automaton(grammar)
    banned = [of.vocab.mark(name) for name in names.UNKNOWN] + [of.symbols.find_token("V", "")]
    formulas = 0
    for budget in [*rng.integers(1, 60, 80)]:
        skew = rng.dirichlet(np.full(of.vocab_size, 0.05)) + 1e-9
        skew[[of.symbols.start, of.symbols.special_id(names.NUMBER)]] += 0.2
        ids = written(rng, host, int(budget), skew)
        assert grammars.validate(grammar, ids) is None
        assert not set(ids) & set(banned)
        for segment in of.decode(ids):
            if isinstance(segment, Formula):
                formulas += 1
                assert segment.tree is not None
                for node in segment.tree.walk():
                    assert node.symbol.isprintable()
                    if node.type == "N":
                        assert tokens.WRITTEN.fullmatch(node.symbol)
                    if arity and (node.type, node.symbol) == ("O", "divide"):
                        assert node.children is None or len(node.children) == 2
    assert formulas > 40


GROUPS = (
    "L-0",
    "L-1",
    "L-2",
    "L-3",
    "L-8",
    "L-12",
    "S-2",
    "V-4",
    "M-2x3",
    "M-1x1",
    "M-4x2",
    "M-6x2",
    "M-0x0",
    "R!",
    "D-|",
)


@functools.cache
def grouped() -> trees.Scheme:
    """Groups of many sizes, numbers of their own tokens, and operators, under the true arities."""
    counts = {"M": GROUPS, "O": ("SUP", "evaluated-at", "int"), "U": ("minus", "eq"), "V": "xy", "F": ("sin",)}
    found = {kind: dict.fromkeys(of, 1) for kind, of in counts.items()} | {"N": {"12": 1, "1,000": 1, "+3": 1}}
    marks = names.list_marks(found, numbers=3)
    return trees.Scheme(vocab.build({"name": "sentencepiece", "size": 320}, TEXTS, marks), arity=True)


def test_what_is_written_under_arities_is_canonical(rng):
    """Lists as long as they say, matrices of whole rows, numbers without a plus, no arity that is spelled."""
    of, seen = grouped(), set()
    grammar = of.grammar()
    host = grammars.Automaton(grammar)
    for _ in range(120):
        skew = rng.dirichlet(np.full(of.vocab_size, 0.03)) + 1e-9
        skew[[of.symbols.start, of.symbols.special_id(names.NUMBER), of.symbols.end]] += 0.1
        skew[[of.symbols.find_token("M", group) for group in rng.choice(GROUPS, 3)]] += 0.1
        for segment in of.decode(written(rng, host, int(rng.integers(2, 80)), skew)):
            if isinstance(segment, Formula):
                assert segment.tree is not None and canonical.find_problem(segment.tree) is None, segment.tree
                assert latex.parse(segment.surface) == segment.tree
                seen |= {node.symbol for node in segment.tree.walk() if node.type == "M"}
    assert {"L-0", "L-1", "L-2", "L-3", "L-8", "S-2", "V-4", "M-2x3", "M-1x1", "M-4x2"} <= seen
    assert not {"L-12", "M-6x2"} & seen, "large ones are read, not written"


@pytest.mark.parametrize("group", GROUPS)
def test_groups_of_any_size_are_read(group):
    below = [Tree("V", "x")] * int(group[2:]) if group[0] in "LSV" else [Tree("V", "x")]
    if group.startswith("M-"):
        rows, columns = map(int, group[2:].split("x"))
        below = [Tree("M", "R!", [Tree("N", "12")] * columns)] * rows
    tree = Tree("U", "minus", [Tree("M", group, below or None)])
    assert canonical.find_problem(tree) is None
    (formula,) = grouped().decode(grouped().encode((Formula("", tree),)).ids.tolist())
    assert isinstance(formula, Formula) and formula.tree == tree
    if below and group[:2] in ("L-", "M-") and group != "L-12":
        with pytest.raises(DataError):
            grouped().encode((Formula("", Tree("M", group, below[1:] or None)),))


def test_positions_on_device_are_the_hosts_at_every_depth(rng):
    """Both parities of every level that a formula closes to."""
    tree = Tree("V", "x")
    for depth in range(30):
        tree = Tree("U", "plus", [Tree("V", "y")] * (depth % 3) + [tree] + [Tree("N", "12")] * (depth % 29 == 0))
    features = scheme().encode((Formula("", tree), Formula("", SAMPLE)))
    tables = jax.tree.map(jnp.asarray, scheme().grammar())

    def body(place, token):
        at = device.tree_positions(tables, place), device.token_types(tables, place, token[None])
        return device.step(tables, place, token[None]), (*at, device.accepts(tables, place))

    _, (places, types, _) = jax.jit(lambda ids: jax.lax.scan(body, device.init(tables, 1), ids))(features.ids)
    np.testing.assert_array_equal(np.asarray(places)[:, 0], features.channels["tree_positions"])
    np.testing.assert_array_equal(np.asarray(types)[:, 0], features.channels["types"])
    assert (features.channels["tree_positions"] >= 0).sum(axis=1).max() == 32, "the deepest level is reached"


def test_the_training_mask_is_the_automatons(rng):
    """By state and by what the stack forbids: depth, width and the least number of children."""
    wide = Tree("U", "plus", [Tree("V", "y")] * 63)
    deep = functools.reduce(lambda below, _: Tree("U", "plus", [below]), range(31), Tree("V", "y"))
    pair = Tree("+", "V!x", [Tree("V", "x"), Tree("V", "y")])
    grammar = scheme().grammar()
    host = grammars.Automaton(grammar)
    for tree in (wide, deep, pair, SAMPLE):
        features = scheme().encode((Formula("", tree), Mark("[EOS]")))
        allowed = np.asarray(masks.allowed_tokens(grammar, jnp.asarray(features.grammar_state[:-1])).classes)
        place = host.start()
        for t, token in enumerate(features.ids):
            legal = []
            for c in range(len(allowed[t])):
                try:
                    host._step_class(place, c)
                    legal.append(True)
                except grammars.Illegal:
                    legal.append(False)
            np.testing.assert_array_equal(allowed[t], legal, err_msg=str(t))
            place = host.step(place, int(token))


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        (functools.reduce(lambda below, _: Tree("U", "plus", [below]), range(32), Tree("V", "y")), "31 deep"),
        (Tree("U", "plus", [Tree("V", "y")] * 64), "63 children already"),
        (Tree("V", "x", [Tree("V", "y")]), "children already"),
    ],
)
def test_what_has_no_place_is_refused_in_one_line(tree, says):
    with pytest.raises(DataError, match=says) as error:
        scheme().encode((Formula("", tree),))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "document",
    [
        (Formula("", Tree("V", "x")), Text(""), Formula("", Tree("V", "y")), Text(" so "), Formula("", SAMPLE)),
        (Formula("", Tree("U", "plus", [Tree("V", "x"), Tree("N", "-")])), Text(" "), Formula("", Tree("N", ""))),
    ],
    ids=["nothing between two formulas", "numbers without a digit"],
)
def test_the_loss_is_finite_where_the_released_codes_is_not(document):
    """The third of its infinite losses, a start token left by a formula that is too deep, has no input here: such a
    formula is refused whole."""
    features = scheme().encode((*document, Mark("[EOS]")))
    grammar = scheme().grammar()
    # The state before each token, and one more behind the last.
    targets, codes = jnp.asarray(features.ids[None]), jnp.asarray(features.grammar_state[None, :-1])
    hidden = jax.random.normal(jax.random.key(0), (*targets.shape, 8))
    kernel = jax.random.normal(jax.random.key(1), (scheme().vocab_size, 8))

    def loss(kernel):
        allowed = masks.allowed_tokens(grammar, codes)
        return -cross_entropy.log_prob(hidden, kernel, targets, size=scheme().vocab.size, allowed=allowed).sum()

    value, gradient = jax.value_and_grad(loss)(kernel)
    # A masked token costs far more, if not infinitely much.
    assert 0 < value < 100 * targets.size and np.isfinite(gradient).all() and (gradient != 0).any()


def test_what_is_cut_gives_a_formula_without_a_tree():
    ids = scheme().encode((Text("so "), Formula("", SAMPLE))).ids
    text, formula = scheme().decode(ids[:-4].tolist())
    assert text == Text("so ") and isinstance(formula, Formula) and formula.tree is None


def test_the_vocabulary_is_saved_and_read_back(tmp_path):
    scheme().vocab.save(str(tmp_path))
    again = trees.Scheme(vocab.load(str(tmp_path)), arity=False)
    document = (Text("a "), Formula("", SAMPLE))
    np.testing.assert_array_equal(again.encode(document).ids, scheme().encode(document).ids)
    assert grammars.digest(again.grammar()) == grammars.digest(scheme().grammar())
    assert pickle.loads(pickle.dumps(again)).symbol_pieces() == scheme().symbol_pieces()


def test_symbols_keep_their_type_are_capped_and_can_be_numbers(tmp_path):
    found = names.list_marks(
        {"V": {"x": 3, "y": 9}, "U": {"x": 1}, "N": {"12": 5, "7": 9, "10": 2}}, numbers=1, caps={"V": 1}
    )
    assert [n for n in found if " ! " not in n and "NUM" not in n] == [names.START, names.STOP, "VAR V y", "OP U x"]
    assert "NUM N 12" in found and "NUM N 10" not in found and found[-1] == names.END
    of = trees.Scheme(vocab.build({"name": "sentencepiece", "size": 320}, TEXTS, found), arity=False)
    assert len(tokens.encode(Tree("N", "12"), of.symbols)) == 1
    assert len(tokens.encode(Tree("N", "10"), of.symbols)) == 4
    with pytest.raises(UsageError, match="writes numbers as trees"):
        trees_published.Scheme.marks_of({"numbers": 2000})
    (tmp_path / "bad.json").write_text("[1, 2]")
    with pytest.raises(UsageError, match="not of the form"):
        trees.Scheme.marks_of({"path": str(tmp_path / "bad.json")})
    with pytest.raises(UsageError, match="cannot read"):
        trees.Scheme.marks_of({"path": str(tmp_path / "none.json")})


def test_formulas_of_a_plain_scheme_are_as_written():
    from numjax.text import subword

    plain = subword.Scheme(scheme().vocab)
    assert plain.decode(plain.encode((Formula("x^y", SAMPLE),)).ids.tolist()) == (Text("x^y"),)


def test_what_the_released_code_drops():
    built = vocab.build({"name": "sentencepiece", "size": 320}, TEXTS, trees_published.Scheme.marks_of({}, [SAMPLE]))
    of = trees_published.Scheme(built)
    tree = Tree("U", "plus", [Tree("N", "-1,2e3"), Tree("E", "E", [Tree("E", "why"), Tree("V", "x")])])
    (formula,) = of.decode(of.encode((Formula("", tree),)).ids.tolist())
    assert formula == Formula("", Tree("U", "plus", [Tree("N", "123"), Tree("E", "E", [Tree("V", "x")])]))
    deep = functools.reduce(lambda below, _: Tree("U", "plus", [below]), range(32), Tree("V", "y"))
    assert of.encode((Formula("", deep),)).ids.tolist() == [of.symbols.start]


def test_a_grammar_says_what_it_is_made_of():
    grammar = scheme().grammar()
    assert grammar.max_depth == 31 and grammar.max_width == 63
    assert grammar.next_state.shape[1] <= 64, "few classes: the mask of a step is gathered by them"
