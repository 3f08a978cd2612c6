"""A link that nobody wrote before is shown, but nothing follows it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.security.taint import link_defusing
from agent.security.taint.link_defusing import defuse_links

KNOWN = "https://ok.example/a"


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
        ("[r]: https://evil.example/x", "`https://evil.example/x`"),
        ('<img src="https://evil.example/x">', '<img src="`https://evil.example/x`">'),
    ],
)
def test_links_become_code(markdown: str, shown: str) -> None:
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


# What each of these showed as a link before; S stands for the secret.
@pytest.mark.parametrize(
    ("markdown", "hidden"),
    [
        # Marks of code that are none where the text is shown.
        ("see ~~~ https://evil.example/S", "https://evil.example/S"),
        ("x ` y\nhttps://evil.example/S", "https://evil.example/S"),
        ("`\nhttps://evil.example/S\n`", "https://evil.example/S"),
        ("\\`https://evil.example/S\\`", "https://evil.example/S"),
        ("[a] `https://evil.example/S`", "https://evil.example/S"),
        ("| `a | https://evil.example/S | b` |", "https://evil.example/S"),
        ("- ```\n  x\n  ```\n\nhttps://evil.example/S", "https://evil.example/S"),
        ("- a\n  ```\n  x\nhttps://evil.example/S", "https://evil.example/S"),
        ("> ```\n> x\nhttps://evil.example/S", "https://evil.example/S"),
        ("---\n```\n---\nhttps://evil.example/S", "https://evil.example/S"),
        ("```\r\nx\r\n```\r\nhttps://evil.example/S", "https://evil.example/S"),
        ("```\nx\n\x0c```\nhttps://evil.example/S", "https://evil.example/S"),
        # Addresses of other shapes.
        ("é.evil.example/S", "é.evil.example/S"),
        ("a.b.c.d.e.f.g.h.i.evil.example/S", "a.b.c.d.e.f.g.h.i.evil.example/S"),
        ("S.evil.example", "S.evil.example"),
        ("evil.example?d=S", "evil.example?d=S"),
        ("evil.xn--p1ai/S", "evil.xn--p1ai/S"),
        ("S@evil.example", "S@evil.example"),
        ("192.0.2.1/S", "192.0.2.1/S"),
        ("[here](https://evil.example/(x)S)", "https://evil.example/(x)S"),
        ("see [here](https://evil.example/S", "https://evil.example/S"),
        (f"[here](<{KNOWN} S>)", f"{KNOWN} S"),
    ],
)
def test_no_spelling_of_a_link_stays_one(markdown: str, hidden: str) -> None:
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
        "e<b></b>vil.<i>example/S",
        "evil\u200b.example/S",
        "[evil](https://ok.example/a).example/S",
        "https://ok.example/a\\?d=S",
        "https://ok.example/a[?d=S](https://ok.example/a)",
        "[https://ok.example/a](https://ok.example/a)?d=S",
        "https://ok.example/a||?d=S||",
        "[r]:\nhttps://evil.example/S\n\n[r]",
        "> [r]: https://evil.example/S",
        "[here](\n\n  https://evil.example/S)",
        "[here](    <https://ok.example/a S>)",
    ],
)
def test_an_address_that_marks_put_together_makes_code_of_all(markdown: str) -> None:
    shown = defuse_links(markdown, lambda address: address == KNOWN)
    assert shown == f"```\n{markdown}\n```"


@given(st.text(alphabet="[]()<>`!ahtps:/. \n", max_size=400))
def test_any_text_passes_and_keeps_its_letters(text: str) -> None:
    kept = defuse_links(text, lambda address: True)
    assert kept == text or (text in kept and kept.startswith("```"))
    defuse_links(text, lambda address: False)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece",
    ["[", "a.", "`", "https://", "![](", "<", "\n", "a@", "[a]:", "](a", "~~~\n", "+a", "*"],
)
def test_hostile_text_does_not_hang(piece: str) -> None:
    text = piece * 20_000
    assert text in defuse_links(text, lambda address: True)


def test_a_run_of_marks_is_read_in_one_go() -> None:
    """A repeat that can give marks back is tried anew for each of them: 100,000 tildes took five
    seconds. A possessive one cannot."""
    for mark in ("`", "~"):
        assert f"{mark}{{3,}}+)" in link_defusing._BLOCK.pattern
        assert f"{mark}{{3,}})" not in link_defusing._BLOCK.pattern
        run = mark * 100_000
        assert run in defuse_links(run, lambda address: False)
