"""Conversion of LaTeX formulas to Unicode text."""

import pytest

from gateway.channels.telegram.outbound.latex import readable


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        ("E = mc^2", "E = mc²"),
        (r"\frac{1}{2}", "½"),
        (r"2\frac{1}{2}", "2 ½"),
        (r"\frac{a+b}{c}", "(a+b)/c"),
        (r"\frac12", "½"),
        (r"\dfrac{x}{y}", "x/y"),
        (r"x_1^2 + y_{ij}", "x₁² + yᵢⱼ"),
        (r"a_{n+1}", "aₙ₊₁"),
        (r"x^{(n)}", "x⁽ⁿ⁾"),
        (r"10^{-3}", "10⁻³"),
        (r"90^\circ", "90°"),
        (r"x_{\max}", "xₘₐₓ"),
        (r"x^{\alpha+1}", "x^(α+1)"),
        (r"a \ne b \leq c", "a ≠ b ≤ c"),
        (r"\sqrt[3]{x}", "∛x̅"),
        (r"\sqrt{16}", "√1̅6̅"),
        (r"\sqrt[5]{x}", "⁵√x̅"),
        (r"\lim_{x \to 0} \frac{\sin x}{x}", "lim_(x → 0) (sin x)/x"),
        (r"e^{i\pi} + 1 = 0", "e^(iπ) + 1 = 0"),
        (r"\{x \in \mathbb{R}\}", "{x ∈ ℝ}"),
        (r"\mathbf{E} \mathcal{L} \mathfrak{g} \mathrm{d}", "𝐄 ℒ 𝔤 d"),
        (r"\hat{x} \vec v \overline{AB}", "x̂ v⃗ A̅B̅"),
        (r"\not= \not\in", "≠ ∉"),
        (r"\left( \frac{a}{b} \right)", "( a/b )"),
        (r"\left.f\right|_0", "f|₀"),
        (r"\binom{n}{k}", "C(n,k)"),
        (r"a \equiv b \pmod{n}", "a ≡ b (mod n)"),
        (r"\text{if } x", "if x"),
        (r"\xrightarrow{f}", "→(f)"),
        (r"\overset{n}{\to}", "→ⁿ"),
        (r"\underset{x}{\min}", "minₓ"),
        (r"50\%", "50%"),
        (r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}", "(a b\nc d)"),
        (r"\begin{array}{cc} a & b \end{array}", "a b"),
        (r"\begin{cases} x & x > 0 \\ -x & x \le 0 \end{cases}", "⎧ x, x > 0\n⎩ -x, x ≤ 0"),
        (r"\begin{align*} a &= b \\ c &= d \end{align*}", "a = b\nc = d"),
        ("f'(x)", "f'(x)"),
    ],
)
def test_formula_is_shown_in_plain_characters(latex: str, text: str) -> None:
    assert readable(latex) == text


@pytest.mark.parametrize(
    "latex",
    [
        r"\unknown{x}",
        r"\frac{\unknown}{2}",
        r"\begin{tikzpicture} \draw (0,0); \end{tikzpicture}",
        r"evil\mathrm{.}com/x",
        r"\text{https}://x",
        "x" * 601,
        r"\phantom{x}",
        "",
    ],
)
def test_other_formulas_have_no_plain_text(latex: str) -> None:
    assert readable(latex) is None


@pytest.mark.parametrize(
    "latex",
    ["^", "_", "x^{" * 200, "{" * 600, "\\", "{", "}", r"\frac", r"\sqrt[", r"\not", r"\left"],
)
def test_unfinished_formula_is_accepted(latex: str) -> None:
    readable(latex)


@pytest.mark.parametrize("command", ["sqrt", "sqrt[3]", "overline", "underline", "vec", "frac1"])
def test_nested_commands_do_not_multiply_the_text(command: str) -> None:
    depth = 580 // (len(command) + 3)
    text = readable(f"\\{command}{{" * depth + "x" + "}" * depth)
    assert text is None or len(text) < 20_000
