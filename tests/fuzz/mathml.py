"""MathML, by itself and in a page."""

from __future__ import annotations

from numjax.expr import mathml
from numjax.expr.rules import Unreadable

SEEDS = (
    b"<math><apply><plus/><ci>x</ci><cn>1</cn></apply></math>",
    rb'<math alttext="\frac{1}{2}"><mfrac><mn>1</mn><mn>2</mn></mfrac></math>',
    b'<math><semantics><mi>x</mi><annotation-xml encoding="MathML-Content"><apply><times/><ci id="a">x</ci>'
    b'<share href="#a"/></apply></annotation-xml></semantics></math>',
    b"<apply><root/><degree><cn>3</cn></degree><cn type='e-notation'>1<sep/>5</cn></apply> &alpha; &#x3b1;",
)


def check(data: bytes) -> None:
    """A formula is a tree, or it is said where it cannot be read; formulas of a page are parts of it."""
    text = data.decode("utf-8", "surrogateescape")
    for as_published in (False, True):
        tree = mathml.parse(text, as_published=as_published)
        assert not isinstance(tree, Unreadable) or (tree.error and 0 <= tree.at <= len(text)), tree
    for offset, source in mathml.find_formulas(text):
        assert text[offset : offset + len(source)] == source
