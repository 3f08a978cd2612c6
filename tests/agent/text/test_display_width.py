import subprocess
import sys

import pytest
import wcwidth

from agent.text.display_width import display_width, padded, shortened, wrap_paragraphs, wrapped

FAMILY = "👨‍👩‍👧"
ACCENT = "e\u0301"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("abc", 3),
        ("你好", 4),
        (FAMILY, 2),
        (ACCENT, 1),
        ("❤️", 2),
        ("🇨🇳", 2),
        ("ｈａｌｆ", 8),
        ("", 0),
    ],
)
def test_width_matches_the_display(text: str, columns: int) -> None:
    assert display_width(text) == columns
    assert display_width(padded(text, 10)) == 10


def test_long_text_is_cut_at_a_character_with_an_ellipsis() -> None:
    assert shortened("文件已恢复", 10) == "文件已恢复"
    assert shortened("文件已恢复", 9) == "文件已恢…"
    assert shortened("文件已恢复", 8) == "文件已…"
    assert shortened(f"ab{FAMILY}cd", 4) == "ab…"
    assert shortened(f"ab{FAMILY}cd", 5) == f"ab{FAMILY}…"
    assert shortened(ACCENT * 5, 3) == ACCENT * 2 + "…"
    assert shortened("abc", 0) == ""


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 8, 20])
@pytest.mark.parametrize(
    "text",
    [
        "the quick brown fox jumps over the lazy dog",
        "什么都没有丢失，也没有重复：已恢复的消息会再次发送。",
        "打开 https://example.org/很长的路径 然后等待",
        f"{FAMILY}{FAMILY} {ACCENT * 9} ok",
        "x" * 50,
        "",
        FAMILY,
    ],
)
def test_wrapped_lines_fit_and_lose_only_spaces(text: str, columns: int) -> None:
    lines = wrapped(text, columns)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(display_width(line) <= max(columns, 2) for line in lines)


def test_words_stay_whole_and_no_line_begins_with_closing_punctuation() -> None:
    assert wrapped("one two three", 8) == ["one two", "three"]
    assert wrapped("one two", 7) == ["one two"]
    lines = wrapped("回答是空的。请再问一次，或者换个说法。", 10)
    assert not any(line.startswith(("，", "。")) for line in lines)


def test_latin_punctuation_does_not_begin_a_chinese_line() -> None:
    lines = wrapped("打开设置(高级),然后保存.完成!", 6)
    assert not any(line.startswith((")", ",", ".", "!")) for line in lines)
    assert not any(line.endswith("(") for line in lines)


def test_paragraphs_break_between_words() -> None:
    message = "kore: this is too long for it\n      and a hint that is\n\nshort"
    assert wrap_paragraphs(message, 26) == (
        "kore: this is too long for\nit\n      and a hint that is\n\nshort"
    )
    assert wrap_paragraphs("  open this one and that one", 24) == "  open this one and that\n  one"
    address = "  open https://example.org/a/very/long/address now"
    alone = "  open\n  https://example.org/a/very/long/address\n  now"
    assert wrap_paragraphs(address, 24) == alone
    assert wrap_paragraphs("narrow as it is", 10) == "narrow as it is"


@pytest.mark.parametrize("block", [" ~", "\xa0\u02ff", "\u2010\u2027", "\u2190\u21ff"])
def test_narrow_characters_have_the_width_that_wcwidth_gives(block: str) -> None:
    first, last = map(ord, block)
    text = "".join(map(chr, range(first, last + 1)))
    assert display_width(text) == wcwidth.width(text)
    assert list(wcwidth.iter_graphemes(text)) == list(text)


def test_latin_text_does_not_import_wcwidth() -> None:
    probe = (
        "import agent.text.display_width as w, sys; w.wrapped('“plain” text → here…', 4); "
        "print('wcwidth' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
