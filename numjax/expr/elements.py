"""Names of content MathML's elements and of LaTeXML's symbols, by the type of node that they become."""

from __future__ import annotations

from numjax.expr.tree import Tree

COMMUTATIVE = frozenset("eq neq approx equivalent union intersect plus times and or".split())
# Elements that are operators under their own names. A symbol that is in no list here is ordered too.
ORDERED = frozenset(
    "lt gt leq geq minus divide subset prsubset notsubset notprsubset setdiff in notin forall exists int sum product "
    "partialdiff diff limit factorial compose root rem quotient implies not xor tendsto factorof grad divergence "
    "curl laplacian transpose scalarproduct vectorproduct outerproduct cartesianproduct selector "
    "tensor-product".split()
)
FUNCTIONS = frozenset(
    "sin cos tan sec csc cot sinh cosh tanh sech csch coth arcsin arccos arctan arccosh arcsinh arctanh arccot "
    "arccoth arccsc arccsch arcsec arcsech exp ln log min max gcd lcm abs floor ceiling real imaginary arg conjugate "
    "inverse ident domain codomain image card mean sdev variance median mode moment det".split()
)
CONSTANTS = frozenset("infinity emptyset imaginaryi hbar".split())
RENAMED = {
    "power": "SUP",
    "determinant": "det",
    "for-all": "forall",
    "superscript": "SUP",
    "subscript": "SUB",
    "formulae-sequence": "form-seq",
    "Planck-constant-over-2-pi": "hbar",
    "reln": "apply",
    "diff": "differential-d",
    "modulo": "rem",
}
# Constants of MathML that a reader of LaTeX sees as letters.
LETTERS = {
    "pi": "π",
    "exponentiale": "e",
    "eulergamma": "γ",
    "naturalnumbers": "ℕ",
    "integers": "ℤ",
    "rationals": "ℚ",
    "reals": "ℝ",
    "complexes": "ℂ",
    "primes": "ℙ",
    "true": "true",
    "false": "false",
    "notanumber": "NaN",
}
MISSING = frozenset(("absent", "missing-subexpression", "empty"))
# Fonts before a symbol, as older LaTeXML writes them.
FONTS = ("normal-", "sans-serif-", "bold-", "italic-")
CLOSURES = {"open": "O-O", "closed": "C-C", "open-closed": "O-C", "closed-open": "C-O"}
FOLDED = frozenset(("minus", "divide"))
QUALIFIERS = frozenset("bvar lowlimit uplimit condition domainofapplication degree logbase".split())
# Signs that take what is below and above them as bounds.
BIG = frozenset("sum product int limit union intersect".split())
SEMANTIC = {"semantic-sum": Tree("O", "sum"), "semantic-product": Tree("O", "product")}
DERIVATIVES = {"derivative": "differential-d", "partial-derivative": "partialdiff"}
