"""Names and titles appear verbatim in replies of commands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.channels.telegram.outbound.render import render
from gateway.core.markdown import code, escape_markdown, unescape_markdown

TITLES = [
    "app/[id].txt", "[x] done", "a\\[b\\]c", "\\(x^2\\)", "$5 and $6", "$x^2$", "||secret||",
    "**b**",
    "__init__.py", "~/x~", "<Button>", "&lt;b&gt;", "&#91;", "- a", "1. a", "1) a", "# a", "`code`",
    "a|b|c", "![i](u)", "[w](https://example.org)", "+ a", "==", "---", "字 [名] （一）", "> q",
    "a*b*c",
]  # fmt: skip
ODD = st.text(st.sampled_from("[]()$|*_~`<>#&;\\!-+=.:1x a/^{}\"'?%@,é字"), min_size=1, max_size=40)


def in_telegram(markdown: str) -> str:
    return "\n".join(part.text for part in render(markdown))


@pytest.mark.parametrize("title", TITLES)
def test_title_is_shown_unchanged(title: str) -> None:
    reply = f"- `1` {escape_markdown(title)}: idle\n- `2` {escape_markdown(title)}: idle"
    assert in_telegram(reply) == f"• 1 {title}: idle\n• 2 {title}: idle"
    assert in_telegram(escape_markdown(title)) == title


@given(ODD)
def test_any_title_and_path_are_shown_unchanged(text: str) -> None:
    title = " ".join(text.split()) or "x"
    assert (
        in_telegram(f"Back to {escape_markdown(title)}, it says.") == f"Back to {title}, it says."
    )
    assert in_telegram(f"1. `7` {escape_markdown(title)}.\n2. x") == f"1. 7 {title}.\n2. x"
    assert in_telegram(f"`7` {escape_markdown(title)}\n`8` x") == f"7 {title}\n8 x"
    assert in_telegram(escape_markdown(title)) == title


@given(st.text())
def test_escapes_are_removed_for_readers_of_plain_text(text: str) -> None:
    assert unescape_markdown(escape_markdown(text)) == text


def test_code_has_no_escapes_to_remove() -> None:
    path = code(r"a\-b")
    assert unescape_markdown(rf"{path} \-\-turns ``c`\*`` \*") == rf"{path} --turns ``c`\*`` *"
