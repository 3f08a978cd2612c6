"""Highlighting of changes within a line, and only of changes."""

import pytest

from gateway.cli.console.output.diff import diff

HEAD = "--- a\n+++ a\n@@ -1 +1 @@\n"


def reversed_words(text: str) -> list[str]:
    shown = diff(text)
    return [shown.plain[span.start : span.end] for span in shown.spans if span.style == "reverse"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("-total = count + 1\n+total = count + 2\n", ["1", "2"]),
        ("-a b c d\n-e f g h\n+a b x d\n+e f g y\n", ["c", "h", "x", "y"]),
        ("-别人的 苹果 在 这里\n+别人的 梨子 在 这里\n", ["苹果", "梨子"]),
        ("-wholly different\n+0123456789 ~ ~ ~\n", []),
        ("-one\n-two\n+only one came back\n", []),
        ("+new line\n", []),
    ],
)
def test_changed_words_are_reversed(change: str, words: list[str]) -> None:
    assert sorted(reversed_words(HEAD + change)) == sorted(words)


def test_file_header_lines_are_not_changes() -> None:
    assert reversed_words("--- old name\n+++ new name\n") == []


def test_removed_line_with_leading_dashes_is_shown() -> None:
    assert "--- x" in diff(HEAD + "--- x\n+-- y\n").plain


def test_long_diff_counts_omitted_lines() -> None:
    text = HEAD + "".join(f"+{n}\n" for n in range(100))
    assert diff(text).plain.endswith("… 43 more lines")
    assert "+99" in diff(text, None).plain
