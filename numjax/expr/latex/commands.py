"""The meaning of LaTeX's commands: letters, functions, big operators, accents, fences, fonts, skipped commands."""

from __future__ import annotations

import functools
import unicodedata

from numjax.expr.tree import Tree


def _parse_pairs(table: str) -> dict[str, str]:
    words = table.split()
    return dict(zip(words[::2], words[1::2], strict=True))


# Commands that are one character: a variable of that name.
CHARACTERS = _parse_pairs(r"""
\alpha α \beta β \gamma γ \delta δ \epsilon ϵ \varepsilon ε \zeta ζ \eta η \theta θ \vartheta ϑ \iota ι \kappa κ
\varkappa ϰ \lambda λ \mu μ \nu ν \xi ξ \omicron ο \pi π \varpi ϖ \rho ρ \varrho ϱ \sigma σ \varsigma ς \tau τ
\upsilon υ \phi ϕ \varphi φ \chi χ \psi ψ \omega ω \digamma ϝ
\Gamma Γ \Delta Δ \Theta Θ \Lambda Λ \Xi Ξ \Pi Π \Sigma Σ \Upsilon Υ \Phi Φ \Psi Ψ \Omega Ω
\varGamma Γ \varDelta Δ \varTheta Θ \varLambda Λ \varXi Ξ \varPi Π \varSigma Σ \varUpsilon Υ \varPhi Φ \varPsi Ψ
\varOmega Ω \Alpha Α \Beta Β \Epsilon Ε \Zeta Ζ \Eta Η \Iota Ι \Kappa Κ \Mu Μ \Nu Ν \Omicron Ο \Rho Ρ \Tau Τ \Chi Χ
\ell ℓ \imath ı \jmath ȷ \aleph ℵ \beth ℶ \gimel ℷ \daleth ℸ \eth ð \mho ℧ \Finv Ⅎ \Game ⅁
\prime ′ \backprime ‵ \angle ∠ \measuredangle ∡ \sphericalangle ∢ \triangle △ \vartriangle △ \triangledown ▽ \Box □
\square □ \blacksquare ■ \Diamond ◇ \lozenge ◊ \blacklozenge ⧫ \diamondsuit ♢ \heartsuit ♡ \clubsuit ♣ \spadesuit ♠
\sharp ♯ \flat ♭ \natural ♮ \checkmark ✓ \bigstar ★ \maltese ✠ \blacktriangle ▲ \blacktriangledown ▼
\S § \P ¶ \copyright © \pounds £ \yen ¥ \circledR ® \circledS Ⓢ \complement ∁ \Bbbk 𝕜 \hslash ℏ
\AA Å \aa å \AE Æ \ae æ \OE Œ \oe œ \O Ø \o ø \L Ł \l ł \ss ß \i ı \j ȷ \# # \_ _ \& & \lq ‘ \rq ’
\ldots … \dots … \dotsc … \dotsb ⋯ \dotsm ⋯ \dotsi ⋯ \dotso … \cdots ⋯ \vdots ⋮ \ddots ⋱ \iddots ⋰ \textellipsis …
\ulcorner ⌜ \urcorner ⌝ \llcorner ⌞ \lrcorner ⌟ \diagup ╱ \diagdown ╲ \degree ° \textdegree ° \infin ∞
\llbracket ⟦ \rrbracket ⟧ \lgroup ⟮ \rgroup ⟯ \lmoustache ⎰ \rmoustache ⎱
\LaTeX LaTeX \TeX TeX \KaTeX KaTeX
""")
del CHARACTERS["\\degree"], CHARACTERS["\\textdegree"], CHARACTERS["\\infin"]

LEAVES: dict[str, Tree] = {
    **{command: Tree("V", character) for command, character in CHARACTERS.items()},
    **{command: Tree("C", "infinity") for command in (r"\infty", r"\infin", "∞")},
    **{command: Tree("C", "emptyset") for command in (r"\emptyset", r"\varnothing", r"\O/", "∅")},
    r"\hbar": Tree("C", "hbar"),
    r"\wp": Tree("O", "weierstrass-p"),
    r"\top": Tree("O", "top"),
    r"\bot": Tree("O", "bottom"),
    r"\$": Tree("O", "currency-dollar"),
    "...": Tree("V", "…"),
}
# Names of functions that have a command of their own.
FUNCTIONS: dict[str, Tree] = {
    **{
        "\\" + name: Tree("F", name)
        for name in (
            "sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan log ln lg exp det gcd arg min max Pr"
        ).split()
    },
    r"\hom": Tree("F", "Hom"),
    r"\dim": Tree("O", "dimension"),
    r"\ker": Tree("O", "kernel"),
    r"\deg": Tree("F", "deg"),
    r"\Re": Tree("F", "real"),
    r"\Im": Tree("F", "imaginary"),
    r"\nabla": Tree("F", "∇"),
    "∇": Tree("F", "∇"),
}

# Operators that take everything up to the next sum: sums, integrals, limits.
BIG: dict[str, Tree] = {
    sign: Tree(kind, symbol)
    for kind, symbol, signs in (
        ("O", "sum", r"\sum ∑"),
        ("O", "product", r"\prod ∏"),
        ("O", "coproduct", r"\coprod ∐"),
        ("U", "union", r"\bigcup ⋃"),
        ("U", "intersect", r"\bigcap ⋂"),
        ("U", "and", r"\bigwedge ⋀"),
        ("U", "or", r"\bigvee ⋁"),
        ("O", "direct-sum", r"\bigoplus"),
        ("O", "tensor-product", r"\bigotimes"),
        ("O", "square-union", r"\bigsqcup"),
        ("F", "⊎", r"\biguplus"),
        ("F", "⊙", r"\bigodot"),
        ("O", "limit", r"\lim"),
        ("O", "limit-supremum", r"\limsup \varlimsup"),
        ("O", "limit-infimum", r"\liminf \varliminf"),
        ("O", "injective-limit", r"\injlim \varinjlim"),
        ("O", "projective-limit", r"\projlim \varprojlim"),
        ("O", "supremum", r"\sup"),
        ("O", "infimum", r"\inf"),
    )
    for sign in signs.split()
}
INTEGRALS: dict[str, Tree] = {
    sign: Tree("O", symbol)
    for symbol, signs in (
        ("int", r"\int \intop \smallint ∫"),
        ("double-integral", r"\iint ∬"),
        ("triple-integral", r"\iiint ∭"),
        ("quadruple-integral", r"\iiiint"),
        ("contour-integral", r"\oint ∮ \oiint \oiiint \varointclockwise"),
    )
    for sign in signs.split()
}
QUANTIFIERS: dict[str, Tree] = {
    sign: Tree("O", symbol)
    for symbol, signs in (
        ("forall", r"\forall ∀"),
        ("exists", r"\exists ∃"),
        ("not-exists", r"\nexists ∄"),
        ("not", r"\neg \lnot ¬"),
    )
    for sign in signs.split()
}

# Command -> symbol of the function that the accent becomes.
ACCENTS = _parse_pairs(r"""
\bar ¯ \overline ¯ \hat ^ \widehat ^ \tilde ~ \widetilde ~ \vec → \overrightarrow → \dot ˙ \ddot ¨ \check ˇ
\widecheck ˇ \breve ˘ \acute ´ \grave ` \mathring ˚ \overleftarrow ← \overleftrightarrow ↔ \Overrightarrow ⇒
\overbrace ⏞ \underbrace ⏟ \dddot ⃛ \ddddot ⃜ \overparen ⏜ \underparen ⏝ \overgroup ⏠ \undergroup ⏡ \overlinesegment ⎴
\underlinesegment ⎵ \underline _ \underbar _ \underleftarrow ←_ \underrightarrow →_ \underleftrightarrow ↔_ \utilde ~_
\overleftharpoon ↼ \overrightharpoon ⇀ \phase ⦟ \angl ⦞ \textcircled ⃝ \' ´ \` ` \^ ^ \" ¨
""")
# LaTeXML's own symbols for some; it does not tell what is below from what is above.
PUBLISHED_ACCENTS = ACCENTS | {
    r"\underline": "¯", r"\underbar": "¯", r"\underleftarrow": "←", r"\underrightarrow": "→",
    r"\underleftrightarrow": "↔", r"\utilde": "~",
}  # fmt: skip
ACCENT_COMMANDS: dict[str, str] = {}
for _command, _symbol in ACCENTS.items():
    ACCENT_COMMANDS.setdefault(_symbol, _command)
# The wide forms, since the argument may be long.
ACCENT_COMMANDS.update({"¯": r"\overline", "^": r"\widehat", "~": r"\widetilde"})

# Opening delimiter -> the closing ones that may end it.
FENCES: dict[str, tuple[str, ...]] = {
    "(": (")", "]"),
    "[": ("]", ")", "["),
    r"\{": (r"\}",),
    r"\langle": (r"\rangle",),
    r"\lfloor": (r"\rfloor",),
    r"\lceil": (r"\rceil",),
    r"\lvert": (r"\rvert",),
    r"\lVert": (r"\rVert",),
}
ALIASES = {
    r"\lbrace": r"\{",
    r"\rbrace": r"\}",
    r"\lbrack": "[",
    r"\rbrack": "]",
    r"\vert": "|",
    r"\mvert": "|",
    r"\Vert": r"\|",
    "‖": r"\|",
    "⟨": r"\langle",
    "⟩": r"\rangle",
    "⌊": r"\lfloor",
    "⌋": r"\rfloor",
    "⌈": r"\lceil",
    "⌉": r"\rceil",
    r"\lang": r"\langle",
    r"\rang": r"\rangle",
    r"\sp": "^",
    r"\sb": "_",
    r"\bgroup": "{",
    r"\begingroup": "{",
    r"\egroup": "}",
    r"\endgroup": "}",
    r"\lparen": "(",
    r"\rparen": ")",
    r"\newline": r"\\",
    "°": r"\degree",
    r"\textdegree": r"\degree",
    r"\angln": r"\angl",
    r"\cr": r"\\",
    r"\tabularnewline": r"\\",
    r"\brace": r"\atop",
    r"\brack": r"\atop",
    "’": "'",
    "′": "'",
    "…": r"\ldots",
    "⋯": r"\cdots",
    "，": ",",
    "；": ";",
    "（": "(",
    "）": ")",
    "＝": "=",
    "＜": "<",
    "＞": ">",
    "：": ":",
    "√": r"\sqrt",
    "∂": r"\partial",
    r"\not\exists": r"\nexists",
    r"\*": r"\times",
}

# Fonts: command -> name of the alphabet; "" is the upright one, whose letters form one name.
FONTS = {
    r"\mathrm": "",
    r"\rm": "",
    r"\mathup": "",
    r"\textup": "",
    r"\mathnormal": "math",
    r"\mit": "math",
    r"\mathit": "italic",
    r"\it": "italic",
    r"\sl": "italic",
    r"\mathbf": "BOLD",
    r"\bf": "BOLD",
    r"\bold": "BOLD",
    r"\boldsymbol": "BOLD",
    r"\boldmath": "BOLD",
    r"\pmb": "BOLD",
    r"\bm": "BOLD",
    r"\mathbb": "DOUBLE-STRUCK",
    r"\Bbb": "DOUBLE-STRUCK",
    r"\Bdd": "DOUBLE-STRUCK",
    r"\mathcal": "SCRIPT",
    r"\cal": "SCRIPT",
    r"\mathscr": "SCRIPT",
    r"\scr": "SCRIPT",
    r"\mathfrak": "FRAKTUR",
    r"\frak": "FRAKTUR",
    r"\mathsf": "SANS-SERIF",
    r"\sf": "SANS-SERIF",
    r"\mathsfit": "SANS-SERIF",
    r"\mathtt": "MONOSPACE",
    r"\tt": "MONOSPACE",
    r"\sc": "",
}
# These hold until the group ends; the others take an argument.
SWITCHES = frozenset(r"\rm \mit \it \sl \bf \cal \frak \sf \tt \sc \boldmath \scr".split())
# Alphabets whose letters are separate variables.
SEPARATE_FONTS = frozenset({"DOUBLE-STRUCK", "SCRIPT", "FRAKTUR", "math"})


@functools.lru_cache(maxsize=1 << 12)
def style_letter(font: str, character: str) -> str:
    """The letter of a mathematical alphabet: styled("DOUBLE-STRUCK", "R") is ℝ; itself where there is none."""
    if font in ("", "math", "italic"):
        return character
    try:
        name = unicodedata.name(character)
    except ValueError:
        return character
    if name.startswith("LATIN ") and "LETTER" in name:
        case, letter = ("CAPITAL" if character.isupper() else "SMALL"), character.upper()
    elif name.startswith("GREEK ") and "LETTER" in name and font == "BOLD":
        case, letter = ("CAPITAL" if character.isupper() else "SMALL"), name.rpartition("LETTER ")[2]
    else:
        return character
    for start in ("MATHEMATICAL ", ""):
        for style in (font, {"FRAKTUR": "BLACK-LETTER"}.get(font, font)):
            try:
                return unicodedata.lookup(f"{start}{style} {case} {letter}")
            except KeyError:
                pass
    return character


# Commands without meaning for the tree. The second table says how many braced arguments are dropped with each.
SKIPPED = frozenset(
    r"""\, \; \: \! \> \/ \- \thinspace \medspace \thickspace \negthinspace \negmedspace \negthickspace \enspace
    \enskip \space \displaystyle \textstyle \scriptstyle \scriptscriptstyle \limits \nolimits \displaylimits
    \nonumber \notag \tiny
    \scriptsize \footnotesize \small \normalsize \large \Large \LARGE \huge \Huge \big \Big \bigg \Bigg \bigl
    \Bigl \biggl \Biggl \bigr \Bigr \biggr \Biggr \bigm \Bigm \biggm \Biggm \allowbreak \nobreak \hfill \hfil \hss
    \mathstrut \strut \protect \relax \noindent \centering \smallskip \medskip \bigskip \break \null
    \hline \hdashline \mathord \mathbin \mathrel \mathopen \mathclose \mathpunct \mathinner \mathop \em \ensuremath
    \lefteqn \smash \mathsmaller \vcenter \hbox \endgraf \par \unboldmath \noalign \thicklines \goodbreak \qedhere
    \llap     \rlap \mathllap \mathrlap \mathclap \clap \boxed \fbox \framebox \makebox \centerline
    \cancel \bcancel \xcancel \emph \overbracket
    \hskip     \joinrel \leavevmode \mathchoice \restriction@ \underbracket \leqno \eqno \nointerlineskip
    \sout $ \blue \red \green
        """.split()
)
DROPPED = {
    r"\hspace": 1,
    r"\hspace*": 1,
    r"\tag*": 1,
    r"\vspace": 1,
    r"\hphantom": 1,
    r"\vphantom": 1,
    r"\phantom": 1,
    r"\label": 1,
    r"\tag": 1,
    r"\color": 1,
    r"\rule": 2,
    r"\cline": 1,
    r"\ref": 1,
    r"\cite": 1,
    r"\footnote": 1,
    r"\eqref": 1,
    r"\setlength": 2,
    r"\raisebox": 1,
    r"\textcolor": 1,
    r"\colorbox": 1,
    r"\fcolorbox": 2,
    r"\cancelto": 1,
    r"\sideset": 2,
    r"\kern": 0,
    r"\mkern": 0,
    r"\mskip": 0,
}
TEXTS = "text textrm textbf textit textsf texttt textnormal textup textmd textsl textsc mbox hbox emph verb".split()
MATRICES = frozenset("matrix pmatrix bmatrix Bmatrix vmatrix Vmatrix smallmatrix array subarray tabular".split())
CASES = frozenset("cases dcases rcases drcases numcases".split())
ROWS = frozenset(
    "align aligned alignat alignedat split eqnarray gather gathered multline multlined equation flalign math "
    "displaymath CD darray".split()
)
