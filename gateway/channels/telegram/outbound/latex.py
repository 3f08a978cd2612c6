"""Conversion of LaTeX formulas to Unicode text."""

import re
from collections.abc import Mapping
from functools import cache
from itertools import chain
from unicodedata import combining, decomposition, lookup, name, normalize

# Longer formulas are seldom readable in one line.
_MAX_CHARS = 600
_LATEX = re.compile(r"[\\^_]")
_COMMAND = re.compile(r"\\[a-zA-Z]")
# A formula must not become an unchecked address.
_ADDRESS = re.compile(r"\w\.\w*[^\W\d]|://|@|www", re.IGNORECASE)
_SIGN = re.compile(r"\\[a-zA-Z]+\*?|\\.|\s+|.", re.DOTALL)

# Pairs of a command and its characters.
_PAIRS = r"""
alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι
kappa κ varkappa ϰ lambda λ mu μ nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ
varsigma ς tau τ upsilon υ phi φ varphi ϕ chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ
Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω aleph ℵ beth ℶ hbar ℏ ell ℓ wp ℘ Re ℜ Im ℑ
partial ∂ nabla ∇ infty ∞ imath ı jmath ȷ eth ð mho ℧ angle ∠ measuredangle ∡ triangle △ square □
Box □ blacksquare ■ Diamond ◇ bigcirc ○ lozenge ◊ blacklozenge ◆ blacktriangle ▲
blacktriangledown ▼ bigstar ★ diamond ⋄ clubsuit ♣ diamondsuit ♢ heartsuit ♡ spadesuit ♠ flat ♭
natural ♮ sharp ♯ checkmark ✓ degree ° prime ′ backprime ‵ emptyset ∅ varnothing ∅ forall ∀
exists ∃ nexists ∄ neg ¬ lnot ¬ top ⊤ bot ⊥ surd √ complement ∁ pm ± mp ∓ times × div ÷ cdot ⋅
ast ∗ star ⋆ circ ∘ bullet ∙ oplus ⊕ ominus ⊖ otimes ⊗ oslash ⊘ odot ⊙ cap ∩ cup ∪ uplus ⊎ sqcap ⊓
sqcup ⊔ vee ∨ lor ∨ wedge ∧ land ∧ setminus ∖ wr ≀ amalg ⨿ dagger † ddagger ‡ ltimes ⋉ rtimes ⋊
bowtie ⋈ Join ⋈ boxplus ⊞ boxminus ⊟ boxtimes ⊠ boxdot ⊡ Cap ⋒ Cup ⋓ curlywedge ⋏ curlyvee ⋎
barwedge ⊼ veebar ⊻ dotplus ∔ smallsetminus ∖ centerdot ⋅ intercal ⊺ divideontimes ⋇ circledast ⊛
circledcirc ⊚ circleddash ⊝ dag † ddag ‡ triangleleft ◁ triangleright ▷ triangledown ▽
vartriangle △ bigtriangleup △ bigtriangledown ▽ leq ≤ le ≤ geq ≥ ge ≥ leqslant ⩽ geqslant ⩾ ll ≪
gg ≫ lll ⋘ ggg ⋙ neq ≠ ne ≠ equiv ≡ sim ∼ simeq ≃ approx ≈ cong ≅ doteq ≐ propto ∝ asymp ≍ prec ≺
succ ≻ preceq ≼ succeq ≽ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇ subsetneq ⊊ supsetneq ⊋
sqsubset ⊏ sqsupset ⊐ sqsubseteq ⊑ sqsupseteq ⊒ in ∈ ni ∋ owns ∋ notin ∉ mid ∣ nmid ∤ parallel ∥
nparallel ∦ perp ⊥ vdash ⊢ dashv ⊣ models ⊨ vDash ⊨ Vdash ⊩ lesssim ≲ gtrsim ≳ lessgtr ≶ gtrless ≷
triangleq ≜ coloneqq ≔ eqqcolon ≕ nleq ≰ ngeq ≱ nless ≮ ngtr ≯ nsubseteq ⊈ nsupseteq ⊉ therefore ∴
because ∵ smile ⌣ frown ⌢ between ≬ leqq ≦ geqq ≧ lessdot ⋖ gtrdot ⋗ lesseqgtr ⋚ gtreqless ⋛
precsim ≾ succsim ≿ preccurlyeq ≼ succcurlyeq ≽ varpropto ∝ thicksim ∼ thickapprox ≈ approxeq ≊
circeq ≗ doteqdot ≑ fallingdotseq ≒ risingdotseq ≓ bumpeq ≏ Subset ⋐ Supset ⋑ Vvdash ⊪
vartriangleleft ⊲ vartriangleright ⊳ trianglelefteq ⊴ trianglerighteq ⊵ lhd ⊲ rhd ⊳ unlhd ⊴
unrhd ⊵ pitchfork ⋔ multimap ⊸ shortparallel ∥ to → rightarrow → gets ← leftarrow ←
leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ implies ⟹ impliedby ⟸ iff ⟺
longrightarrow ⟶ longleftarrow ⟵ longleftrightarrow ⟷ Longrightarrow ⟹ Longleftarrow ⟸
Longleftrightarrow ⟺ mapsto ↦ longmapsto ⟼ hookrightarrow ↪ hookleftarrow ↩ uparrow ↑ downarrow ↓
updownarrow ↕ Uparrow ⇑ Downarrow ⇓ Updownarrow ⇕ nearrow ↗ searrow ↘ swarrow ↙ nwarrow ↖
rightharpoonup ⇀ rightharpoondown ⇁ leftharpoonup ↼ leftharpoondown ↽ rightleftharpoons ⇌
leadsto ⇝ rightsquigarrow ⇝ twoheadrightarrow ↠ rightrightarrows ⇉ circlearrowright ↻
circlearrowleft ↺ nrightarrow ↛ nleftarrow ↚ nRightarrow ⇏ leftrightarrows ⇆ rightleftarrows ⇄
leftrightharpoons ⇋ upuparrows ⇈ downdownarrows ⇊ leftleftarrows ⇇ twoheadleftarrow ↞
dashrightarrow ⇢ dashleftarrow ⇠ curvearrowright ↷ curvearrowleft ↶ looparrowright ↬
looparrowleft ↫ rightarrowtail ↣ leftarrowtail ↢ Lsh ↰ Rsh ↱ Rrightarrow ⇛ Lleftarrow ⇚ sum ∑
prod ∏ coprod ∐ int ∫ iint ∬ iiint ∭ oint ∮ oiint ∯ bigcap ⋂ bigcup ⋃ bigsqcup ⨆ bigvee ⋁
bigwedge ⋀ bigoplus ⨁ bigotimes ⨂ bigodot ⨀ biguplus ⨄ lbrace { rbrace } { { } } langle ⟨ rangle ⟩
lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ lvert | rvert | vert | lVert ‖ rVert ‖ Vert ‖ | ‖ lbrack [
rbrack ] backslash \ ulcorner ⌜ urcorner ⌝ llcorner ⌞ lrcorner ⌟ ldots … dots … cdots ⋯ vdots ⋮
ddots ⋱ dotsc … dotsb ⋯ dotsm ⋯ colon : lt < gt > S § P ¶ textless < textgreater > textbar |
textbackslash \ textasciitilde ~ textasciicircum ^ textunderscore _ textendash – textemdash —
textminus − texttrademark ™ textregistered ® lgroup ( rgroup ) hslash ℏ copyright © pounds £
euro € AA Å aa å AE Æ ae æ OE Œ oe œ O Ø o ø ss ß L Ł l ł i ı % % $ $ & & # # _ _
"""
# Commands rendered as their own names in upright letters.
_WORDS = (
    "arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf ker lg lim ln log "
    "max min Pr sec sin sinh sup tan tanh"
)
# Commands for layout and spacing.
_SILENT = (
    "limits nolimits displaystyle textstyle scriptstyle scriptscriptstyle big Big bigg Bigg bigl "
    "bigr Bigl Bigr biggl biggr Biggl Biggr middle nonumber notag ! / -"
)
_BLANKS = ("quad", "qquad", ",", ";", ":", " ", ">", "enspace", "thinspace", "space")

_ACCENTS = {
    **{"hat": "\u0302", "widehat": "\u0302", "tilde": "\u0303", "widetilde": "\u0303"},
    **{"bar": "\u0304", "vec": "\u20d7", "overrightarrow": "\u20d7", "overleftarrow": "\u20d6"},
    **{"dot": "\u0307", "ddot": "\u0308", "dddot": "\u20db", "acute": "\u0301", "grave": "\u0300"},
    **{"breve": "\u0306", "check": "\u030c", "mathring": "\u030a"},
}
_OVER, _UNDER, _STRUCK = "\u0305", "\u0332", "\u0336"
# Accents of each character.
_LINES = {
    **{"overline": _OVER, "overbrace": _OVER, "underline": _UNDER, "underbrace": _UNDER},
    **dict.fromkeys(("cancel", "bcancel", "xcancel", "sout"), _STRUCK),
}
_STYLES = {
    **{"mathbf": "BOLD", "bm": "BOLD", "boldsymbol": "BOLD", "textbf": "BOLD"},
    **{"mathbb": "DOUBLE-STRUCK", "mathcal": "SCRIPT", "mathscr": "SCRIPT", "mathfrak": "FRAKTUR"},
    **{"mathit": "ITALIC", "textit": "ITALIC", "mathsf": "SANS-SERIF", "textsf": "SANS-SERIF"},
    **{"mathtt": "MONOSPACE", "texttt": "MONOSPACE"},
}
_FRACTIONS = ("frac", "dfrac", "tfrac", "cfrac")
# Number of arguments, and their replacement.
_TEMPLATES = {
    **dict.fromkeys(("text", "mathrm", "operatorname", "mbox", "textrm", "textup"), (1, "{}")),
    **dict.fromkeys(("mathop", "mathnormal"), (1, "{}")),
    **dict.fromkeys(("binom", "tbinom", "dbinom"), (2, "C({},{})")),
    **dict.fromkeys(("phantom", "hphantom", "vphantom"), (1, " ")),
    **{"boxed": (1, "[{}]"), "pmod": (1, " (mod {})"), "color": (1, "")},
}
_BRACKET_SIZES = ("left", "right")
_BRACKETS = {
    "pmatrix": ("(", ")"),
    "bmatrix": ("[", "]"),
    "Bmatrix": ("{", "}"),
    "vmatrix": ("|", "|"),
    "Vmatrix": ("‖", "‖"),
}


def readable(latex: str) -> str | None:
    """Return the formula in plain characters, or None if only its source can be shown."""
    text = latex.strip()
    if len(text) > _MAX_CHARS:
        return None
    if _LATEX.search(text):
        try:
            text = _Formula(text).read()
        except RecursionError:
            return None
    text = re.sub(r"[^\S\n]+", " ", text).strip()
    return None if not text or _COMMAND.search(text) or _ADDRESS.search(text) else text


class _Formula:
    """Reader of the tokens of a formula; unknown commands are unchanged."""

    def __init__(self, latex: str) -> None:
        self._signs = _SIGN.findall(latex)
        self._at = 0

    def read(self, end: str | None = None) -> str:
        """Convert the tokens before `end`, or all of them."""
        text = ""
        while (sign := self._next()) not in ("", end):
            text += self._piece(sign, text)
        return text

    def _next(self) -> str:
        """Return the next token; empty at the end."""
        self._at += 1
        return self._signs[self._at - 1] if self._at <= len(self._signs) else ""

    def _peek(self) -> str:
        return self._signs[self._at] if self._at < len(self._signs) else ""

    def _argument(self) -> str:
        """Convert a group, or the single token in its place."""
        while self._peek().isspace():
            self._at += 1
        first = self._next()
        return self._piece(first, "") if first else ""

    def _option(self) -> str:
        """Convert an argument in square brackets, if there is one."""
        if self._peek() != "[":
            return ""
        self._at += 1
        return self.read("]").strip()

    def _piece(self, sign: str, before: str) -> str:
        """Convert a token with its arguments; `before` is the text in front of it."""
        if sign == "{":
            return self.read("}")
        if sign in "^_":
            return _script(sign, self._argument().strip())
        if sign.isspace() or sign == "~":
            return " "
        if not sign.startswith("\\"):
            return sign
        command = sign[1:].removesuffix("*")
        symbol = _symbols().get(command)
        return self._command(sign, command, before) if symbol is None else symbol

    def _command(self, sign: str, command: str, before: str) -> str:
        """Convert a command that is not a symbol, with its arguments."""
        if command in _FRACTIONS:
            gap = " " if before[-1:].isdigit() else ""
            return gap + _fraction(self._argument().strip(), self._argument().strip())
        if command in _ACCENTS:
            argument = self._argument()
            return argument[:1] + _ACCENTS[command] + argument[1:]
        if command in _LINES:
            return _marked(self._argument(), _LINES[command])
        if command in _STYLES:
            return "".join(_styled(char, _STYLES[command]) for char in self._argument())
        if command in _TEMPLATES:
            count, template = _TEMPLATES[command]
            return template.format(*[self._argument() for _ in range(count)])
        return self._special(command) or ("" if command in _BRACKET_SIZES else sign)

    def _special(self, command: str) -> str:
        """Convert a command with special syntax; empty for other commands."""
        match command:
            case "sqrt":
                return _root(self._option(), self._argument().strip())
            case "overset" | "stackrel" | "underset":
                script, base = self._argument().strip(), self._argument()
                return base + _script("_" if command == "underset" else "^", script)
            case "xrightarrow" | "xleftarrow":
                label = self._argument().strip()
                arrow = "→" if command == "xrightarrow" else "←"
                return f"{arrow}({label})" if label else arrow
            case "not":
                symbol = self._argument().strip()
                return normalize("NFC", f"{symbol[:1]}\u0338{symbol[1:]}")
            case "left" | "right" if self._peek() == ".":  # an invisible bracket
                self._next()
            case "begin":
                return self._environment()
            case "\\":
                return "\n"
        return ""

    def _environment(self) -> str:
        """Convert an environment after its `\\begin`, row by row."""
        environment = self._argument().removesuffix("*")
        if environment == "array":
            self._argument()  # the alignment of its columns
        rows = [[""]]
        while (sign := self._next()) not in ("", "\\end"):
            if sign == "&":
                rows[-1].append("")
            elif sign == "\\\\":
                rows.append([""])
            else:
                rows[-1][-1] += self._piece(sign, rows[-1][-1])
        self._argument()
        cells = [[cell.strip() for cell in row] for row in rows if "".join(row).strip()]
        if environment == "cases":
            lines = [", ".join(filter(None, row)) for row in cells]
            edges = ["⎧", *"⎨" * (len(lines) - 2), "⎩"]
            return "\n".join(f"{edge} {line}" for edge, line in zip(edges, lines, strict=False))
        is_matrix = environment.endswith("matrix") or environment == "array"
        text = "\n".join(("  " if is_matrix else " ").join(row) for row in cells)
        left, right = _BRACKETS.get(environment, ("", ""))
        return f"{left}{text}{right}"


@cache
def _symbols() -> Mapping[str, str]:
    words = _PAIRS.split()
    return {
        **dict(zip(words[::2], words[1::2], strict=True)),
        **{word: word for word in _WORDS.split()},
        **dict.fromkeys(_SILENT.split(), ""),
        **dict.fromkeys(_BLANKS, " "),
        **{"liminf": "lim inf", "limsup": "lim sup", "mod": " mod ", "bmod": " mod "},
    }


@cache
def _scripts() -> Mapping[str, Mapping[str, str]]:
    """Return the raised and lowered characters that Unicode has, by "^" and "_"."""
    scripts: dict[str, dict[str, str]] = {"^": {"∘": "°", "′": "′", "*": "*"}, "_": {}}
    ranges = (0xB2, 0xBA), (0x2B0, 0x2B9), (0x2E0, 0x2E4), (0x1D2C, 0x1DC0), (0x2070, 0x209D)
    codes = chain(*(range(*bounds) for bounds in ranges), (0x2C7C, 0x2C7D))
    for char in map(chr, codes):
        kind, _, code = decomposition(char).partition(" ")
        if kind in ("<super>", "<sub>") and " " not in code:
            scripts["^" if kind == "<super>" else "_"].setdefault(chr(int(code, 16)), char)
    for script in scripts.values():
        script["-"] = script["−"]
    return scripts


def _script(mark: str, text: str) -> str:
    """Return a text raised ("^") or lowered ("_")."""
    script = _scripts()[mark]
    if all(char in script for char in text):
        return "".join(script[char] for char in text)
    return f"{mark}{text}" if len(text) == 1 else f"{mark}({text})"


@cache
def _vulgar_fractions() -> Mapping[str, str]:
    return {normalize("NFKC", char): char for char in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒"}


def _fraction(above: str, below: str) -> str:
    if not above and not below:
        return ""
    vulgar = _vulgar_fractions().get(f"{above}⁄{below}")
    return vulgar or f"{_operand(above)}/{_operand(below)}"


def _operand(text: str) -> str:
    """Return a text in brackets unless it is a single name or number."""
    is_single = all(char.isalnum() or combining(char) or char == "_" for char in text)
    return text if is_single else f"({text})"


def _root(degree: str, radicand: str) -> str:
    signs = {"": "√", "2": "√", "3": "∛", "4": "∜"}
    root = signs.get(degree) or f"{_script('^', degree).removeprefix('^')}√"
    return root + _marked(radicand, _OVER)


def _marked(text: str, mark: str) -> str:
    """Add a combining mark to each character that does not combine itself.

    If marks were marked as well, the text would double with every level of nesting.
    """
    return "".join(char if combining(char) else f"{char}{mark}" for char in text)


def _styled(char: str, style: str) -> str:
    """Return the character in a mathematical alphabet, or the character itself if there is none."""
    if not char.isascii() or not char.isalnum():
        return char
    size, letter = ("CAPITAL" if char.isupper() else "SMALL"), char.upper()
    symbol = f"DIGIT {name(char).removeprefix('DIGIT ')}" if char.isdigit() else f"{size} {letter}"
    other = {"FRAKTUR": "BLACK-LETTER"}.get(style, style)
    for candidate in (f"MATHEMATICAL {style} {symbol}", f"{other} {symbol}"):
        try:
            return lookup(candidate)
        except KeyError:
            continue
    return char
