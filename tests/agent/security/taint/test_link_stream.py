"""Link defusing in a streamed answer: no delay, and the same result as in the stored answer."""

import time
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.security.taint.link_stream import LinkStream, defuse_links
from tests.agent.security.taint.link_spellings import CANARY, OFFERED, spelled_texts
from tests.agent.security.taint.rendered_links import leaks, pictures_of, targets_of_links

KNOWN = "https://ok.example/a"
EVIL = "https://evil.example/S"
PIECES = [
    *("`", "``", "```", "~~~", "[", "](", ")", "[a](", "[r]: ", "[r]", "]:", "(", "!"),
    *(EVIL, "www.evil.example", "x@evil.example", f"<{EVIL}>"),
    *("e**vil.**example/S", "evil&#46;example/S", "https&#58;//evil.example/S"),
    *("<a href=", "<a href='", "'>", "</a>", "<pre>", "<!--", "-->", "<script>", "<div>\n"),
    *("\n", "\n", "\n\n", "- ", "1. ", "> ", "    ", "  ", "|", "---", "+++", "$", "\\", "\r"),
    *("a", "word ", "<", ">", "*", "_", "~~", "||", "\t", ":", " "),
]
texts = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


def stream_of(*earlier: str) -> LinkStream:
    return LinkStream(lambda address: address == KNOWN, earlier)


def whole(text: str, *earlier: str) -> str:
    stream = stream_of(*earlier)
    return stream.feed(text) + stream.end()


def released(*pieces: str) -> list[str]:
    stream = stream_of()
    return [*(stream.feed(piece) for piece in pieces), stream.end()]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"See [here]({EVIL}) now", f"See here (`{EVIL}`) now"),
        (f"See ![]({EVIL})\nnow", f"See (`{EVIL}`)\nnow"),
        (f"See {EVIL}, then", f"See `{EVIL}`, then"),
        (f"[a]({KNOWN}) {KNOWN}", f"[a]({KNOWN}) {KNOWN}"),
        (f"```\n{EVIL}\n```\nmore", f"```\n{EVIL}\n```\nmore"),
        (f"see `{EVIL}` there", f"see `{EVIL}` there"),
        ("see e**vil.**example/S there", "see \n```\ne**vil.**example/S\n```\n there"),
        (f"- ```\n  x\n  ```\n\n{EVIL}", f"- ```\n  x\n  ```\n\n````{EVIL}````"),
        ("- ```\n  x\n\nevil&#46;example/S", "- ```\n  x\n\nevil& # 46;example/ S"),
        ("```\nx", "```\nx\n```"),
        ("a\r\nb\rc", "a\nb\nc"),
    ],
)
def test_links_become_code(text: str, shown: str) -> None:
    assert whole(text) == shown


@given(st.lists(texts, min_size=1, max_size=3))
def test_reply_never_completes_a_link_of_earlier_replies(said: Sequence[str]) -> None:
    shown: list[str] = []
    for text in said:
        shown.append(whole(text, *shown))
    for text in (*shown, "\n\n".join(shown), "".join(shown)):
        assert not targets_of_links(text)


@given(st.lists(st.sampled_from([*PIECES, "![", f"]({KNOWN})", f"![x]({KNOWN})"]), max_size=14))
def test_picture_of_an_untrusted_address_is_never_shown(pieces: Sequence[str]) -> None:
    assert not pictures_of(whole("".join(pieces)))


@given(texts, st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_chunking_does_not_change_the_result(text: str, sizes: Sequence[int]) -> None:
    stream, at, shown = stream_of(), 0, ""
    while at < len(text):
        for size in sizes:
            shown += stream.feed(text[at : at + size])
            at += size
    assert shown + stream.end() == whole(text)


def test_generated_spellings_are_rendered_as_links() -> None:
    texts = spelled_texts(0, 100)
    assert sum(any(leaks(text, CANARY)) for text in texts) > 30


@pytest.mark.parametrize("seed", range(4))
def test_generated_spellings_leak_no_link(seed: int) -> None:
    for text in spelled_texts(seed, 150):
        shown = defuse_links(text, lambda address: address == OFFERED)
        assert not list(leaks(shown, CANARY)), text


@pytest.mark.parametrize("seed", range(4, 8))
def test_chunking_of_generated_spellings_does_not_change_the_result(seed: int) -> None:
    random = Random(seed)
    for text in spelled_texts(seed, 300):
        stream, at, shown = LinkStream(lambda address: address == OFFERED), 0, ""
        while at < len(text):
            size = random.choice((1, 2, 3, 7, 20))
            shown += stream.feed(text[at : at + size])
            at += size
        assert shown + stream.end() == defuse_links(text, lambda address: address == OFFERED)


def test_text_is_released_word_by_word() -> None:
    assert released("Hello **wor", "ld** and", " more.", "\n\nNext") == [
        *("Hello ", "**world** ", "and ", "more.\n\n"),
        "Next",
    ]


def test_code_is_released_unchanged() -> None:
    assert released("```py\nx", " = 1", "\n``", "`\nok ") == [
        *("```py\nx", " = 1", "\n", "```\nok "),
        "",
    ]


def test_link_is_held_until_its_line_or_paragraph_ends() -> None:
    assert released("- see `a` ", "b\n", "- [x", "](y\n", "\nend ") == [
        *("- see ", "`a` b\n", "- ", ""),
        "[x]\\(y\n\nend ",
        "",
    ]


@pytest.mark.parametrize("earlier", ["```\nopen", "- ```\n  open", "<pre>", "~~~\nopen"])
def test_code_is_not_trusted_behind_an_open_block(earlier: str) -> None:
    """An answer sent before the conversation was tainted may have left a block open."""
    assert f"`{EVIL}`" in whole(f"```\n{EVIL}\n```", earlier)


ORDINARY = """# Title

Some *text*, **bold** and `code`; 见 `x`.

**Steps:**
1. First: `pip install x`
2) Second
- [ ] to do
* item
> quote
>> deeper
***both*** and __this__

---

| a | b |
|---|---|
| `x<y>` | 1 |

"Quoted" (perhaps) ~~no~~
'q' [x](#a)
@me #tag
-5 and +1
.env and /etc/x
(see) ✅ done
✅ done — at once

Regex `\\d+` and `a\\(b`.

"""
CODE = f"""```py
x = "{EVIL}"
a[0](b.c)
```

End `List<int>`.
"""


def test_code_behind_ordinary_lines_is_unchanged() -> None:
    assert whole(f"{ORDINARY}{CODE}") == f"{ORDINARY}{CODE}"


@pytest.mark.parametrize(
    "start",
    [
        *("\\[\n```\n\\]", "\\begin{equation}\n```\n\\end{equation}", "x \\(\n\n```\n\\)"),
        *(
            ":::x\n```\n:::",
            "- :::x\n```\n:::",
            "> :::x\n```\n:::",
            "%%\n```\n%%",
            "a\n---\n```\n---",
        ),
        *("{% raw %}\n```\n{% endraw %}", "///\n```\n///", "!!! a\n```\n!!!", "==\n```\n=="),
        *("a\n\n---\nx: |\n```\n---", "+++\n```\n+++", ";;;\n```\n;;;"),
    ],
)
def test_code_is_not_trusted_behind_a_block_of_another_dialect(start: str) -> None:
    """Some renderers end a block where others begin one, and vice versa."""
    shown = whole(f"{start}\n![x]({EVIL})\n[a]({EVIL})\n```\n")
    assert f"]({EVIL})" not in shown


@pytest.mark.parametrize(
    "text",
    [
        *("\\ce{{`}} ![x]({})` is", "\\pu{{`}} ![x]({})`", "a \\(`\\) ![x]({})`"),
        *("\\[a\n\n`\\] ![x]({})`", "f[0](x.y) and `\\) ` ![x]({})`"),
    ],
)
def test_span_of_code_is_not_trusted_within_a_formula(text: str) -> None:
    assert f"]({EVIL})" not in whole(text.format(EVIL))


@pytest.mark.parametrize(
    ("earlier", "pieces", "shown"),
    [
        (("One.",), ("Two.",), "\n\nTwo."),
        (("One.\n",), ("\n", " Two."), "\n Two."),
        (("One.\n\n",), ("Two.",), "Two."),
        (("One.",), ("\n", "\nTwo."), "\n\nTwo."),
        (("One.",), (" ", " Two."), "\n\n  Two."),
        (("One.\n", "\nTwo."), ("Three.",), "\n\nThree."),
        (("One.",), (" \n",), " \n"),
        (("",), ("Two.",), "Two."),
    ],
)
def test_reply_after_another_begins_with_a_blank_line(
    earlier: Sequence[str], pieces: Sequence[str], shown: str
) -> None:
    stream = stream_of(*earlier)
    assert "".join(map(stream.feed, pieces)) + stream.end() == shown
    assert whole("".join(pieces), *earlier) == shown


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece", ["[", "a.", "`", "https://", "![](", "<", "\n", "a@", "[a]:", "](a", "~~~\n", "[a\nb "]
)
def test_hostile_text_does_not_hang(piece: str) -> None:
    stream = stream_of()
    for _ in range(2_000):
        stream.feed(piece)
    stream.end()
    assert whole(piece * 10_000)


def test_ordinary_text_costs_little() -> None:
    text = "An ordinary sentence with **marks**, e.g. `code`, and a list:\n- one\n- two\n\n" * 200
    stream, began = stream_of(), time.process_time()
    for at in range(0, len(text), 4):
        stream.feed(text[at : at + 4])
    stream.end()
    # Microseconds per token.
    assert (time.process_time() - began) / (len(text) / 4) < 300e-6
