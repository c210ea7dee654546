"""How formulas are read: one named option for each ambiguity of mathematical notation."""

from __future__ import annotations

from typing import NamedTuple


class Rules(NamedTuple):
    """How LaTeX is read. Trees of the default rules can be printed and read back. `as_published` gives the trees that
    LaTeXML and Tangent-CFT make of the same formula, as in MathGPT's data.

    Attributes:
      calls: letters that are functions when a parenthesis follows: f(x) is F!f of x, but a(x) a product. Published:
        none.
      thousands: "plain" reads 1,000, 1{,}000 and 1~000 as 1000, "protected" only the last two, "none" reads
        lists of numbers (published). Numbers alone in brackets are a list under "plain" too,
        such as (100,200), unless a member would begin with 0: (1,000) is a number.
      words: "letters" reads abc as a product of three, as TeX sets it; "words" reads letters that touch as one name.
      unknown: "error" reports a macro that is not known at its column; "symbol" reads it as a variable (published).
      nary: a - b - c and a / b / c become one node of three children (published), not two nested ones.
      products: \\times, \\cdot and juxtaposition make one flat product. Published: each makes its own, and \\cdot and
        the like are functions of that name.
      text: \\text{cm} is a text leaf. Published: something missing (W).
      degrees: 40^\\circ is degree of 40. Published: a power whose exponent is the sign of composition.
      bounds: an integral without bounds has one child. Published: two missing bounds beside it.
      differentials: "everywhere" below an integral sign d x is a differential and \\mathrm{d} x anywhere; "integrand"
        (published) only in the integrand itself, not inside its fractions and brackets.
      mixed: a whole number before a fraction of two numbers is added to it, as in 68 5/7; else multiplied.
      orders: f^{(n)} and x_i^{(2)} keep their parentheses: the n-th derivative, the second x_i. Published: powers.
      divides: a | b is as loose as a relation. Published: it takes the last factor before it and all terms after it.
    """

    calls: str = "fgh"
    thousands: str = "plain"
    words: str = "letters"
    unknown: str = "error"
    nary: bool = False
    products: bool = True
    text: bool = True
    degrees: bool = True
    bounds: bool = True
    differentials: str = "everywhere"
    mixed: bool = True
    orders: bool = True
    divides: bool = True

    @classmethod
    def as_published(cls) -> Rules:
        """The conventions of LaTeXML 0.8.7 and Tangent-CFT."""
        return cls(
            calls="",
            thousands="none",
            unknown="symbol",
            nary=True,
            products=False,
            text=False,
            degrees=False,
            bounds=False,
            differentials="integrand",
            orders=False,
            divides=False,
        )


DEFAULT = Rules()


class Unreadable(NamedTuple):
    """Why a formula could not be read, and where.

    Attributes:
      error: one line. at: characters of the formula before the error.
    """

    error: str
    at: int
