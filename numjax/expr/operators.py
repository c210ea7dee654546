"""The precedence table of all operators between operands, loosest first.

A row is (power, type, the signs of each symbol). Juxtaposition is as strong as a product and, like it, reads from
left to right: a / b c is (a / b) c, as LaTeXML and most programming languages have it. Looser than META are only
separators (commas, semicolons, wide space), tighter than PRODUCT functions, scripts and fences; a sign in front
(-a b) takes the product that follows. Connectives join statements, and so do a | b and, tighter, the signs of logic.
"""

from __future__ import annotations

from typing import NamedTuple

META, CONNECTIVE, CONDITIONAL, OR, AND, RELATION, SUM, PRODUCT = 10, 14, 15, 16, 17, 20, 40, 50
LOGIC = (OR, AND)


class Infix(NamedTuple):
    """An operator between operands.

    Attributes:
      power: how strongly it binds. type, symbol: of its node. flat: a row of it is one node of many operands.
      published: (type, symbol) of the node under LaTeXML's conventions.
    """

    power: int
    type: str
    symbol: str
    flat: bool
    published: tuple[str, str]


# Each line: a symbol, then its signs. The first sign is the one that is printed.
_ROWS: list[tuple[int, str, str]] = [
    (
        META,
        "F",
        r"""
        : : \colon
        """,
    ),
    # Between statements, looser than the relations in them; LaTeXML treats them as relations.
    (
        CONNECTIVE,
        "O",
        r"""
        implies \implies
        iff \iff
        proves \vdash ⊢
        does-not-prove \nvdash
        models \models ⊨
        forces \Vdash
        not-models \nvDash
        not-forces \nVdash
        therefore \therefore
        because \because
        """,
    ),
    (
        CONNECTIVE,
        "F",
        r"""
        ⇒ \Rightarrow ⇒
        ⇐ \Leftarrow
        ⇔ \Leftrightarrow ⇔
        ⟹ \Longrightarrow
        ⟸ \Longleftarrow
        ⟺ \Longleftrightarrow
        ⇏ \nRightarrow \not\Rightarrow \not\Longrightarrow \not\implies ⇏
        ⇍ \nLeftarrow \not\Leftarrow \not\Longleftarrow ⇍
        ⇎ \nLeftrightarrow \not\Leftrightarrow \not\Longleftrightarrow \not\iff ⇎
        ⊣ \dashv
        ⊨ \vDash
        """,
    ),
    (
        RELATION,
        "U",
        r"""
        eq =
        neq \neq \ne ≠
        approx \approx \cong ≈ ≅
        equivalent \equiv ≡
        """,
    ),
    (
        RELATION,
        "O",
        r"""
        lt < \lt
        gt > \gt
        leq \leq \le \leqslant \leqq ≤
        geq \geq \ge \geqslant \geqq ≥
        much-less-than \ll ≪
        much-greater-than \gg ≫
        very-much-less-than \lll \llless
        very-much-greater-than \ggg \gggtr
        in \in ∈
        notin \notin ∉
        contains \ni \owns
        subset \subseteq \subset ⊂ ⊆
        prsubset \subsetneq \varsubsetneq \subsetneqq \varsubsetneqq
        superset-of \supset ⊃
        superset-of-or-equals \supseteq ⊇
        superset-of-and-not-equals \supsetneq \supsetneqq
        double-subset-of \Subset
        double-superset-of \Supset
        not-subset-of-nor-equals \nsubseteq \nsubseteqq
        not-superset-of-nor-equals \nsupseteq \nsupseteqq
        similar-to \sim \thicksim ∼
        similar-to-or-equals \simeq ≃
        asymptotically-equals \asymp
        proportional-to \propto \varpropto
        perpendicular-to \perp ⟂
        parallel-to \parallel \shortparallel ∥
        not-parallel-to \nparallel \nshortparallel
        not-divides \nmid \nshortmid
        maps-to \mapsto ↦
        assign := \assign
        precedes \prec
        precedes-or-equals \preceq \preccurlyeq
        precedes-or-equivalent-to \precsim
        succeeds \succ
        succeeds-or-equals \succeq \succcurlyeq
        succeeds-or-equivalent-to \succsim
        not-precedes \nprec
        not-succeeds \nsucc
        less-than-or-similar-to \lesssim
        greater-than-or-equivalent-to \gtrsim
        less-than-or-approximately-equals \lessapprox
        greater-than-or-approximately-equals \gtrapprox
        less-than-or-greater-than \lessgtr
        greater-than-or-less-than \gtrless
        less-than-and-not-equals \lneq \lneqq
        greater-than-and-not-equals \gneq \gneqq
        not-less-than \nless
        not-greater-than \ngtr
        not-less-than-or-equals \nleq \nleqslant \nleqq
        not-greater-than-or-equals \ngeq \ngeqslant \ngeqq
        not-similar-to \nsim
        not-approximately-equals \ncong
        square-image-of \sqsubset
        square-image-of-or-equals \sqsubseteq
        square-original-of \sqsupset
        square-original-of-or-equals \sqsupseteq
        approaches-limit \doteq
        geometrically-equals \doteqdot \Doteq
        approximately-equals-or-equals \approxeq
        subgroup-of \vartriangleleft
        contains-as-subgroup \vartriangleright
        between \between
        """,
    ),
    # Signs without a name of their own: the node is a function of that name.
    (
        RELATION,
        "F",
        r"""
        → \to \rightarrow →
        ← \leftarrow \gets ←
        ↔ \leftrightarrow
        ⟶ \longrightarrow
        ⟵ \longleftarrow
        ⟷ \longleftrightarrow
        ⟼ \longmapsto
        ↪ \hookrightarrow
        ↩ \hookleftarrow
        ↠ \twoheadrightarrow
        ↣ \rightarrowtail
        ↛ \nrightarrow \not\rightarrow \not\to ↛
        ↚ \nleftarrow \not\leftarrow ↚
        ↮ \nleftrightarrow \not\leftrightarrow ↮
        ↑ \uparrow
        ↓ \downarrow
        ↕ \updownarrow
        ⇑ \Uparrow
        ⇓ \Downarrow
        ↗ \nearrow
        ↘ \searrow
        ↙ \swarrow
        ↖ \nwarrow
        ⇀ \rightharpoonup
        ⇁ \rightharpoondown
        ↼ \leftharpoonup
        ↽ \leftharpoondown
        ⇌ \rightleftharpoons
        ⇋ \leftrightharpoons
        ⇝ \rightsquigarrow \leadsto
        ⇢ \dashrightarrow
        ⇉ \rightrightarrows
        ⇄ \rightleftarrows
        ⇆ \leftrightarrows
        ↾ \upharpoonright \restriction
        ≜ \triangleq
        ≔ \coloneqq \coloneq
        ≕ \eqqcolon
        ≗ \circeq
        ≑ \fallingdotseq
        ∽ \backsim
        ⋍ \backsimeq
        ⪕ \eqslantless
        ⋈ \bowtie \Join
        ≍ \bumpeq
        ≬ \Bumpeq
        ⌢ \frown
        ⌣ \smile
        ⊵ \trianglerighteq \unrhd
        ⊴ \trianglelefteq \unlhd
        """,
    ),
    (
        SUM,
        "U",
        r"""
        plus + ＋
        union \cup ∪
        intersect \cap ∩
        and \wedge ∧
        or \vee ∨
        """,
    ),
    (
        SUM,
        "O",
        r"""
        minus - − –
        plus-or-minus \pm ±
        minus-or-plus \mp ∓
        direct-sum \oplus ⊕
        setdiff \setminus \smallsetminus ∖
        square-union \sqcup
        square-intersection \sqcap
        """,
    ),
    (
        SUM,
        "F",
        r"""
        ⊎ \uplus
        ⊖ \ominus \minuso
        ⊞ \boxplus
        ⨿ \amalg
        ⊻ \veebar
        ⋏ \curlywedge
        ⋎ \curlyvee
        ⊼ \barwedge
        \ \backslash
        """,
    ),
    (
        PRODUCT,
        "U",
        r"""
        times \times \cdot * ×
        """,
    ),
    (
        PRODUCT,
        "O",
        r"""
        divide / \div ÷ \slash ∕
        compose \circ ∘
        tensor-product \otimes ⊗
        rem \bmod
        right-factor-semidirect-product \rtimes
        left-factor-semidirect-product \ltimes
        """,
    ),
    (
        PRODUCT,
        "F",
        r"""
        ⋅ \cdotp \centerdot
        ∙ \bullet
        ⋆ \star
        ⋄ \diamond
        ⊙ \odot
        ⊘ \oslash
        ⊠ \boxtimes
        ⊡ \boxdot
        ⊛ \circledast
        ⊚ \circledcirc
        ≀ \wr
        ∗ \ast ∗
        † \dagger \dag
        ‡ \ddagger \ddag
        ◁ \triangleleft \lhd
        ▷ \triangleright \rhd
        △ \bigtriangleup
        ▽ \bigtriangledown
        ○ \bigcirc
        ⊺ \intercal
        """,
    ),
]

# A row of these is one node: the order of evaluation does not matter, or the operands are only listed.
_FLAT = frozenset("plus times union intersect and or compose direct-sum tensor-product".split())

INFIX: dict[str, Infix] = {}
# (type, symbol) -> the sign that is printed between the operands.
SIGN: dict[tuple[str, str], str] = {}
for _power, _type, _table in _ROWS:
    for _line in _table.strip().splitlines():
        _symbol, _main_sign, *_aliases = _line.split()
        _infix = Infix(_power, _type, _symbol, _symbol in _FLAT, (_type, _symbol))
        SIGN[_type, _symbol] = _main_sign
        for _sign in (_main_sign, *_aliases):
            INFIX[_sign] = _infix

# The same nodes from the signs of logic, x = 1 \\lor x = 2; the lattice's a = b \\vee c are terms.
INFIX["\\land"] = INFIX["\\wedge"]._replace(power=AND)
INFIX["\\lor"] = INFIX["\\vee"]._replace(power=OR)
LOGICAL = {("U", "and"): "\\land", ("U", "or"): "\\lor"}
EQUALITIES = frozenset(["eq", "neq", "approx", "equivalent"])  # between ratios, a : b = c : d
# Beside the signs of logic these are connectives too; elsewhere limits, maps, congruences: x_n → x ≤ y.
ARROWS = frozenset("→ ← ↔ ⟶ ⟵ ⟷ equivalent".split())
TERMS = {"\\land": "\\wedge", "\\lor": "\\vee"}  # LaTeXML treats them as equal
# What LaTeXML reads between whole formulas; all other connectives are relations to it.
META_RELATIONS = frozenset(": iff ⇔ ⟺ ↔ ⟷ ⇌ proves does-not-prove therefore because".split())

JUXTAPOSED = Infix(PRODUCT, "U", "times", True, ("U", "times"))
# The same symbol from another sign: under the published conventions these do not join one row.
INFIX["*"] = INFIX["*"]._replace()
INFIX["\\div"] = INFIX["\\div"]._replace()
INFIX["\\cdot"] = INFIX["\\cdot"]._replace(published=("F", "⋅"))
for _sign, _symbol in [
    ("\\dashv", "does-not-prove"), ("\\nvdash", "not-proves"), ("\\odot", "direct-product"),
    ("\\ominus", "symmetric-difference"),
]:  # fmt: skip
    INFIX[_sign] = INFIX[_sign]._replace(published=("O", _symbol))
INFIX["·"] = INFIX["⋅"] = INFIX["\\cdot"]
