"""Formulas as operator trees in one sequence with text: nothing is lost, and one automaton knows what is complete."""

from __future__ import annotations

import functools
import pickle
import random
from decimal import Decimal

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
from numjax.text.vocab.symbols import SPELL
from numjax.types import Formula, Mark, Number, Text

TEXTS = ["Question: 12 birds and 30 cats? [SEP] Equation: ", "the sum of alpha and beta"] * 20


SAMPLE = Tree(
    "U",
    "eq",
    [
        Tree("V", "x"),
        Tree("O", "SUP", [Tree("U", "plus", [Tree("V", "y"), Tree("N", "12.5")]), Tree("N", "2")]),
        Tree("+", "O!SUB", [Tree("O", "SUB", [Tree("O", "int"), Tree("C", "infinity")]), Tree("W", "")]),
        Tree("M", "M-1x2", [Tree("M", "R!", [Tree("V", ""), Tree("E", "")])]),
        Tree("O", "divide", [Tree("T", "if"), Tree("F", "sin", [Tree("-", "?")])]),
        Tree("O", "int"),
        Tree("E", "cerror", [Tree("E", "unexpected"), Tree("V", "x")]),
    ],
)


@functools.cache
def make_scheme(arity: bool = False) -> trees.Scheme:
    """Returns a scheme with few symbols, so that most drawn ones are spelled, and without arities by default."""
    vocabulary = vocab.build({"name": "sentencepiece", "size": 320}, TEXTS, trees.Scheme.marks_of({}, [SAMPLE]))
    return trees.Scheme(vocabulary, arity=arity)


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


def make_nodes(children):
    return st.one_of(
        st.builds(Tree, st.sampled_from("UOFMTWE+"), SYMBOLS, st.lists(children, max_size=4)),
        st.builds(
            lambda first, others: Tree("+", f"{first.type}!{first.symbol}", [first, *others]),
            children,
            st.lists(children, max_size=2),
        ),
        st.builds(lambda children: Tree("E", "cerror", children), st.lists(children, min_size=1, max_size=2)),
    )


LEAVES = st.one_of(st.builds(Tree, st.sampled_from("VC-UOFMTWE+"), SYMBOLS), st.builds(Tree, st.just("N"), NUMBERS))
ANY_TREE = st.recursive(LEAVES, make_nodes, max_leaves=12)


def is_spellable(tree):
    return all(files.replace_surrogates(node.symbol) == node.symbol for node in tree.walk())


@pytest.mark.parametrize(
    "formula",
    [
        r"\sum_{i=1}^n i",
        r"\sin^2 x",
        r"a \otimes_{R} b",
        r"\begin{cases} 1 \\ 2 & x \end{cases}",
        r"\begin{pmatrix} a & b \\ c \end{pmatrix}",
    ],
)
def test_what_readers_write_can_be_generated(formula):
    """Compounds are named after their operators, and padding is a token: nothing of them is spelled."""
    tree = latex.parse(formula)
    vocabulary = vocab.build({"name": "sentencepiece", "size": 320}, TEXTS, trees.Scheme.marks_of({}, [tree]))
    scheme = trees.Scheme(vocabulary)
    ids = tokens.encode(tree, scheme.symbols)
    assert tokens.decode(ids, scheme.symbols) == tree
    spelling = {scheme.symbols.special_id(name) for name in SPELL.values()}
    assert not spelling & set(ids)
    automaton = grammars.Automaton(scheme.grammar())
    state = automaton.start()
    for token in [scheme.symbols.start, *ids, scheme.symbols.stop]:
        assert automaton.allowed(state, 1000)[token], (formula, token)
        state = automaton.step(state, token)


@settings(max_examples=200, deadline=None)
@given(ANY_TREE, st.text("ab 1,.", max_size=5))
def test_nothing_is_lost(tree, text):
    """Any types, symbols, numbers and hints, whatever the vocabulary holds."""
    document = (
        Mark("[CLS]"),
        *make_scheme().parse("of " + text),
        Formula("", tree),
        Formula("", tree),
        Mark("[EOS]"),
    )
    if not is_spellable(tree):
        with pytest.raises(DataError, match="cannot be spelled"):
            make_scheme().encode(document)
        return
    features = make_scheme().encode(document)
    assert make_scheme().decode(features.ids.tolist(), features.numbers) == document
    assert features.ids.max() < make_scheme().vocab.size
    types, positions = features.channels["types"], features.channels["tree_positions"]
    assert types is not None and positions is not None
    # Text and the two brackets are in no tree; all other tokens are.
    np.testing.assert_array_equal(positions[:, 0] == 0, types > 2)
    # Positions are those of the tree: children in order, then END.
    begin = features.starts[-4]
    expected = list(list_positions(features.ids[begin + 1 : features.starts[-3] - 1].tolist()))
    formula_positions = [
        tuple(int(i) for i in row if i >= 0) for row in positions[begin + 1 : features.starts[-3] - 1]
    ]
    assert formula_positions == expected


def opens_node(token: int) -> bool:
    kind, type, name = make_scheme().symbols.names.get(token, ("", "", ""))
    return kind == "OP" and (type != "!" or name != "UNK")


def list_positions(ids):
    """Yields the child indices of every token, from the tokens alone."""
    path = [0]
    for token in ids:
        yield tuple(path)
        if opens_node(token):
            path.append(0)
        elif token == make_scheme().symbols.end:
            path.pop()
            path[-1] += 1
        elif len(path) > 1:
            path[-1] += 1


def is_formula(ids, leaf_types) -> bool:
    """Whether the tokens are one formula, by recursive descent without the automaton's tables."""
    symbols, index = make_scheme().symbols, 0
    special_names = {
        symbols.special_id(n): n for n in (names.ANON, names.ERROR, names.NUMBER, names.TEXT, names.PADDING)
    }
    spelled_types = {symbols.special_id(n): kind for kind, n in names.SPELL.items()}
    base = make_scheme().vocab.base

    def take_token():
        nonlocal index
        index += 1
        return ids[index - 1]

    def parse_node(level):
        nonlocal index
        token = take_token()
        name = special_names.get(token)
        if name == names.PADDING or (token in symbols.names and symbols.names[token][:2] in leaf_types):
            return
        if level >= 31:
            raise ValueError
        if name == names.NUMBER:
            digits = ""
            while ids[index] != symbols.end:
                kind, type, digit = symbols.names.get(take_token(), ("", "", ""))
                if kind != "NUM" or type == "!":
                    raise ValueError
                digits += digit
            index += 1
            if len(digits) < 2 or not tokens.WRITTEN.fullmatch(digits):
                raise ValueError
            return
        if name == names.TEXT:
            while take_token() < base:
                pass
            if ids[index - 1] != symbols.end:
                raise ValueError
            return
        count = 0
        if token in spelled_types:
            if ids[index] != symbols.special_id(names.TEXT):
                raise ValueError
        elif name is None and not (token in symbols.names and symbols.names[token][0] == "OP"
                                   and symbols.names[token][1] != "!"):  # fmt: skip
            raise ValueError
        while ids[index] != symbols.end:
            parse_node(level + 1)
            count += 1
        index += 1
        minimum, maximum = (1, 63) if name in (names.ANON, names.ERROR) else (0, 63)
        if spelled_types.get(token, "U") in names.LEAVES:
            maximum = 1
        if not minimum <= count <= maximum:
            raise ValueError

    try:
        parse_node(0)
    except (ValueError, IndexError):
        return False
    return index == len(ids)


def test_the_automaton_agrees_with_an_independent_validator():
    """On formulas, and on formulas with tokens that are changed, dropped, doubled and swapped."""
    rng = random.Random(5)
    symbols = make_scheme().symbols
    leaves = {("VAR", "V"), ("VAR", "C"), ("VAR", "-"), ("NUM", "N")}
    pool = [tokens.encode(child, symbols) for child in SAMPLE.walk()]
    pool += [tokens.encode(Tree("N", n), symbols) for n in ("12.50", "-3", "1e-7", ".5", "+1.0E+10")]
    pool += [tokens.encode(Tree(kind, "zq"), symbols) for kind in TYPES]
    all_tokens = sorted({token for row in pool for token in row} | {*symbols.names, 5, 9})
    n_legal = 0
    for _ in range(4000):
        ids = list(rng.choice(pool))
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            index = rng.randrange(len(ids))
            change = rng.randrange(5)
            ids[index : index + 1] = [
                [rng.choice(all_tokens)],
                [],
                [ids[index], ids[index]],
                [*rng.choice(pool)],
                [rng.choice(all_tokens), ids[index]],
            ][change]
            if not ids:
                ids = [symbols.end]
        if any(i == symbols.start for i in ids):
            continue
        sequence = [symbols.start, *ids, symbols.stop]
        is_legal = grammars.validate(make_scheme().grammar(), sequence) is None
        assert is_legal == is_formula(ids, leaves), ids
        if is_legal:
            n_legal += 1
            assert tokens.decode(ids, symbols) is not None
    assert 1000 < n_legal < 3500


def write_text(rng, automaton, budget, token_weights):
    """Returns a random text of the tokens that the automaton allows."""
    state, ids = automaton.start(), []
    while len(ids) < budget:
        legal = np.flatnonzero(automaton.allowed(state, budget - len(ids)))
        if not len(legal):
            break
        weights = token_weights[legal]
        ids.append(int(rng.choice(legal, p=weights / weights.sum())))
        state = automaton.step(state, ids[-1])
    return ids


@pytest.mark.parametrize("arity", [False, True])
def test_random_texts_are_always_complete(arity, rng):
    """With any budget, trees close, numbers are numbers, and no symbol is unknown or unprintable."""
    scheme = make_scheme() if not arity else trees.Scheme(make_scheme().vocab, arity=True)
    grammar = scheme.grammar()
    automaton = grammars.Automaton(grammar)
    banned = [scheme.vocab.mark(name) for name in names.UNKNOWN] + [scheme.symbols.find_token("V", "")]
    n_formulas = 0
    for budget in [*rng.integers(1, 60, 80)]:
        token_weights = rng.dirichlet(np.full(scheme.vocab_size, 0.05)) + 1e-9
        token_weights[[scheme.symbols.start, scheme.symbols.special_id(names.NUMBER)]] += 0.2
        ids = write_text(rng, automaton, int(budget), token_weights)
        assert grammars.validate(grammar, ids) is None
        assert not set(ids) & set(banned)
        for segment in scheme.decode(ids):
            if isinstance(segment, Formula):
                n_formulas += 1
                assert segment.tree is not None
                for node in segment.tree.walk():
                    assert node.symbol.isprintable()
                    if node.type == "N":
                        assert tokens.WRITTEN.fullmatch(node.symbol)
                    if arity and (node.type, node.symbol) == ("O", "divide"):
                        assert node.children is None or len(node.children) == 2
    assert n_formulas > 40


def test_numbers_of_the_text_may_be_trees():
    """Numbers that a formula can hold as they are written; a formula that is one number is one."""
    scheme = trees.Scheme(make_scheme().vocab, number_trees=True)
    surfaces = ["12", "-3.50", "7", "1e-7", "+1.0E+10", ".5", "5.", "1,200", "50%", "007", "12.5e3"]
    numbers = [s for text in surfaces for s in scheme.parse(text) if isinstance(s, Number)]
    assert len(numbers) == len(surfaces)
    for number in numbers:
        document = (Mark("[CLS]"), Text("pay "), number, Text(" or "), number, Mark("[EOS]"))
        row = scheme.encode(document)
        assert scheme.decode(row.ids) == document
        is_tree = number.surface not in ("1,200", "50%", "5.")
        assert (scheme.symbols.start in row.ids) == is_tree
        count = len(tokens.encode(Tree("N", number.surface), scheme.symbols)) + 2
        assert not is_tree or (row.numeral_index >= 0).sum() == 2 * count
    apart = trees.Scheme(make_scheme().vocab, apart=True).encode((Text("pay "), Number("12", Decimal(12))))
    assert scheme.symbols.start not in apart.ids, "without the option numbers are text"
    endless = Formula("", Tree("N", "1e" + "9" * 19))
    assert isinstance(scheme.decode(scheme.encode((endless,)).ids)[0], Formula), "no Decimal has this exponent"
    lone = scheme.encode((Formula("", Tree("N", "12")),))
    assert scheme.decode(lone.ids) == (Number("12", Decimal(12)),)
    plain = (Formula("", SAMPLE),)
    assert scheme.decode(scheme.encode(plain).ids)[0].tree == SAMPLE
    with pytest.raises(UsageError, match="pointers follow numbers that are text"):
        trees.Scheme(make_scheme().vocab, number_trees=True, pointers=3)


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
def make_grouped_scheme() -> trees.Scheme:
    """Returns a scheme with groups of many sizes, numbers as single tokens, operators, and the true arities."""
    symbols_of_type = {
        "M": GROUPS,
        "O": ("SUP", "evaluated-at", "int"),
        "U": ("minus", "eq"),
        "V": "xy",
        "F": ("sin",),
    }
    symbol_counts = {kind: dict.fromkeys(symbols, 1) for kind, symbols in symbols_of_type.items()} | {
        "N": {"12": 1, "1,000": 1, "+3": 1}
    }
    marks = names.list_marks(symbol_counts, numbers=3)
    return trees.Scheme(vocab.build({"name": "sentencepiece", "size": 320}, TEXTS, marks), arity=True)


def test_random_texts_with_arities_are_canonical(rng):
    """Lists have the stated length, matrices whole rows, numbers no plus, and no symbol with an arity is spelled."""
    scheme, groups = make_grouped_scheme(), set()
    grammar = scheme.grammar()
    automaton = grammars.Automaton(grammar)
    for _ in range(120):
        token_weights = rng.dirichlet(np.full(scheme.vocab_size, 0.03)) + 1e-9
        token_weights[[scheme.symbols.start, scheme.symbols.special_id(names.NUMBER), scheme.symbols.end]] += 0.1
        token_weights[[scheme.symbols.find_token("M", group) for group in rng.choice(GROUPS, 3)]] += 0.1
        for segment in scheme.decode(write_text(rng, automaton, int(rng.integers(2, 80)), token_weights)):
            if isinstance(segment, Formula):
                assert segment.tree is not None and canonical.find_problem(segment.tree) is None, segment.tree
                assert latex.parse(segment.surface) == segment.tree
                groups |= {node.symbol for node in segment.tree.walk() if node.type == "M"}
    assert {"L-0", "L-1", "L-2", "L-3", "L-8", "S-2", "V-4", "M-2x3", "M-1x1", "M-4x2"} <= groups
    assert not {"L-12", "M-6x2"} & groups, "large groups are decoded, not generated"


@pytest.mark.parametrize("group", GROUPS)
def test_groups_of_any_size_are_decoded(group):
    children = [Tree("V", "x")] * int(group[2:]) if group[0] in "LSV" else [Tree("V", "x")]
    if group.startswith("M-"):
        rows, columns = map(int, group[2:].split("x"))
        children = [Tree("M", "R!", [Tree("N", "12")] * columns)] * rows
    tree = Tree("U", "minus", [Tree("M", group, children or None)])
    assert canonical.find_problem(tree) is None
    (formula,) = make_grouped_scheme().decode(make_grouped_scheme().encode((Formula("", tree),)).ids.tolist())
    assert isinstance(formula, Formula) and formula.tree == tree
    if children and group[:2] in ("L-", "M-") and group != "L-12":
        with pytest.raises(DataError):
            make_grouped_scheme().encode((Formula("", Tree("M", group, children[1:] or None)),))


def test_positions_on_device_are_the_hosts_at_every_depth(rng):
    """A formula closes to every level at both parities."""
    tree = Tree("V", "x")
    for depth in range(30):
        tree = Tree("U", "plus", [Tree("V", "y")] * (depth % 3) + [tree] + [Tree("N", "12")] * (depth % 29 == 0))
    features = make_scheme().encode((Formula("", tree), Formula("", SAMPLE)))
    tables = jax.tree.map(jnp.asarray, make_scheme().grammar())

    def body(state, token):
        outputs = device.tree_positions(tables, state), device.token_types(tables, state, token[None])
        return device.step(tables, state, token[None]), (*outputs, device.accepts(tables, state))

    _, (positions, types, _) = jax.jit(lambda ids: jax.lax.scan(body, device.init(tables, 1), ids))(features.ids)
    np.testing.assert_array_equal(np.asarray(positions)[:, 0], features.channels["tree_positions"])
    np.testing.assert_array_equal(np.asarray(types)[:, 0], features.channels["types"])
    assert (features.channels["tree_positions"] >= 0).sum(axis=1).max() == 32, "the deepest level is reached"


def test_the_training_mask_is_the_automatons(rng):
    """The mask follows the state and the stack: depth, width and the least number of children."""
    wide = Tree("U", "plus", [Tree("V", "y")] * 63)
    deep = functools.reduce(lambda child, _: Tree("U", "plus", [child]), range(31), Tree("V", "y"))
    pair = Tree("+", "V!x", [Tree("V", "x"), Tree("V", "y")])
    grammar = make_scheme().grammar()
    automaton = grammars.Automaton(grammar)
    for tree in (wide, deep, pair, SAMPLE):
        features = make_scheme().encode((Formula("", tree), Mark("[EOS]")))
        allowed = np.asarray(masks.allowed_tokens(grammar, jnp.asarray(features.grammar_state[:-1])).classes)
        state = automaton.start()
        for t, token in enumerate(features.ids):
            legal = []
            for c in range(len(allowed[t])):
                try:
                    automaton._step_class(state, c)
                    legal.append(True)
                except grammars.Illegal:
                    legal.append(False)
            np.testing.assert_array_equal(allowed[t], legal, err_msg=str(t))
            state = automaton.step(state, int(token))


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (functools.reduce(lambda child, _: Tree("U", "plus", [child]), range(32), Tree("V", "y")), "31 deep"),
        (Tree("U", "plus", [Tree("V", "y")] * 64), "63 children already"),
        (Tree("V", "x", [Tree("V", "y")]), "children already"),
    ],
)
def test_trees_that_are_too_deep_or_too_wide_are_refused_in_one_line(tree, message):
    with pytest.raises(DataError, match=message) as error:
        make_scheme().encode((Formula("", tree),))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "document",
    [
        (Formula("", Tree("V", "x")), Text(""), Formula("", Tree("V", "y")), Text(" so "), Formula("", SAMPLE)),
        (Formula("", Tree("U", "plus", [Tree("V", "x"), Tree("N", "-")])), Text(" "), Formula("", Tree("N", ""))),
    ],
    ids=["nothing between two formulas", "numbers without a digit"],
)
def test_the_loss_is_finite_where_the_loss_of_the_released_code_is_not(document):
    """The released code has a third infinite loss: a formula that is too deep leaves its start token. Here such a
    formula is refused."""
    features = make_scheme().encode((*document, Mark("[EOS]")))
    grammar = make_scheme().grammar()
    # The state before each token, and one more behind the last.
    targets, codes = jnp.asarray(features.ids[None]), jnp.asarray(features.grammar_state[None, :-1])
    hidden = jax.random.normal(jax.random.key(0), (*targets.shape, 8))
    kernel = jax.random.normal(jax.random.key(1), (make_scheme().vocab_size, 8))

    def loss(kernel):
        allowed = masks.allowed_tokens(grammar, codes)
        return -cross_entropy.log_prob(hidden, kernel, targets, size=make_scheme().vocab.size, allowed=allowed).sum()

    value, gradient = jax.value_and_grad(loss)(kernel)
    # A masked token costs far more, if not infinitely much.
    assert 0 < value < 100 * targets.size and np.isfinite(gradient).all() and (gradient != 0).any()


def test_a_truncated_formula_has_no_tree():
    ids = make_scheme().encode((Text("so "), Formula("", SAMPLE))).ids
    text, formula = make_scheme().decode(ids[:-4].tolist())
    assert text == Text("so ") and isinstance(formula, Formula) and formula.tree is None


def test_a_saved_vocabulary_is_loaded_unchanged(tmp_path):
    make_scheme().vocab.save(str(tmp_path))
    loaded = trees.Scheme(vocab.load(str(tmp_path)), arity=False)
    document = (Text("a "), Formula("", SAMPLE))
    np.testing.assert_array_equal(loaded.encode(document).ids, make_scheme().encode(document).ids)
    assert grammars.digest(loaded.grammar()) == grammars.digest(make_scheme().grammar())
    assert pickle.loads(pickle.dumps(loaded)).symbol_pieces() == make_scheme().symbol_pieces()


def test_symbols_keep_their_type_are_capped_and_can_be_numbers(tmp_path):
    marks = names.list_marks(
        {"V": {"x": 3, "y": 9}, "U": {"x": 1}, "N": {"12": 5, "7": 9, "10": 2}}, numbers=1, caps={"V": 1}
    )
    assert [n for n in marks if " ! " not in n and "NUM" not in n] == [names.START, names.STOP, "VAR V y", "OP U x"]
    assert "NUM N 12" in marks and "NUM N 10" not in marks and marks[-1] == names.END
    scheme = trees.Scheme(vocab.build({"name": "sentencepiece", "size": 320}, TEXTS, marks), arity=False)
    assert len(tokens.encode(Tree("N", "12"), scheme.symbols)) == 1
    assert len(tokens.encode(Tree("N", "10"), scheme.symbols)) == 4
    with pytest.raises(UsageError, match="writes numbers as trees"):
        trees_published.Scheme.marks_of({"numbers": 2000})
    (tmp_path / "bad.json").write_text("[1, 2]")
    with pytest.raises(UsageError, match="not of the form"):
        trees.Scheme.marks_of({"path": str(tmp_path / "bad.json")})
    with pytest.raises(UsageError, match="cannot read"):
        trees.Scheme.marks_of({"path": str(tmp_path / "none.json")})


def test_formulas_of_a_plain_scheme_are_as_written():
    from numjax.text import subword

    plain = subword.Scheme(make_scheme().vocab)
    assert plain.decode(plain.encode((Formula("x^y", SAMPLE),)).ids.tolist()) == (Text("x^y"),)


def test_the_published_scheme_drops_symbols_as_the_released_code():
    vocabulary = vocab.build(
        {"name": "sentencepiece", "size": 320}, TEXTS, trees_published.Scheme.marks_of({}, [SAMPLE])
    )
    scheme = trees_published.Scheme(vocabulary)
    tree = Tree("U", "plus", [Tree("N", "-1,2e3"), Tree("E", "cerror", [Tree("E", "why"), Tree("V", "x")])])
    (formula,) = scheme.decode(scheme.encode((Formula("", tree),)).ids.tolist())
    assert formula == Formula("", Tree("U", "plus", [Tree("N", "123"), Tree("E", "cerror", [Tree("V", "x")])]))
    deep = functools.reduce(lambda child, _: Tree("U", "plus", [child]), range(32), Tree("V", "y"))
    assert scheme.encode((Formula("", deep),)).ids.tolist() == [scheme.symbols.start]


def test_the_ids_of_symbols_lie_between_the_first_and_the_last():
    symbols = make_scheme().symbols
    ids = [symbols.start, symbols.stop, *symbols.names]
    assert symbols.first == min(ids) > 0 and symbols.first + symbols.size - 1 == max(ids)


def test_published_symbols_have_one_token_for_a_kind_and_matrices_one_for_a_letter():
    marks = trees_published.Scheme.marks_of({}, [SAMPLE])
    assert {name for name in marks if " M " in name} == {"OP M matrix-M", "OP M matrix-R"}
    assert {name for name in trees.Scheme.marks_of({}, [SAMPLE]) if " M M-" in name} == {"OP M M-1x2"}


def test_a_formula_that_no_symbols_spell_keeps_only_its_surface():
    scheme = trees.Scheme(make_scheme().vocab, unfit="text")
    deep = functools.reduce(lambda tree, _: Tree("U", "eq", [tree]), range(200), Tree("V", "x"))
    wide = Tree("U", "eq", [Tree("V", "x")] * 3000)
    for tree in (deep, wide, Tree("V", "\ud800")):
        document = (Text("see "), Formula("f", tree), Text(" and "), Formula("g", SAMPLE))
        assert scheme.decode(scheme.encode(document).ids)[0] == Text("see f and "), tree.type
        with pytest.raises(DataError):
            make_scheme().encode(document)


def test_a_grammar_has_few_classes_and_its_limits():
    grammar = make_scheme().grammar()
    assert grammar.max_depth == 31 and grammar.max_width == 63
    assert grammar.next_state.shape[1] <= 64, "few classes: the mask of a step is gathered by them"
