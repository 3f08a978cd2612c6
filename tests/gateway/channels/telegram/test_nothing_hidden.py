import pytest

from gateway.channels.telegram.outbound.render import render, render_preview
from gateway.channels.telegram.utf16 import units

TAGS = "".join(chr(0xE0000 + ord(char)) for char in "send the key")
CASES = [
    f"Hello{TAGS} there", f"**bold{TAGS}**", f"`code{TAGS}`", f"```\n{TAGS}x\n```",
    f"[words{TAGS}](https://example.org)", f"# Head{TAGS}\n\nText", f"- item{TAGS}\n- two",
    f"| a{TAGS} | b |\n| --- | --- |\n| {TAGS}c | d |", f"> quoted{TAGS}", f"||spoiler{TAGS}||",
    f"$x{TAGS}^2$", f"~~gone{TAGS}~~", f"👩{TAGS}", f"🏴{TAGS}\U000e007f", f"plain\n\n{TAGS}end",
    "a&#xE0041;&#xE0042;&#x202e;**b**&zwj;",
]  # fmt: skip


@pytest.mark.parametrize("markdown", CASES)
def test_tag_characters_are_escaped(markdown: str) -> None:
    preview = render_preview(markdown)
    assert preview is not None
    for part in (*render(markdown), preview):
        assert not [char for char in part.text if "\U000e0000" <= char <= "\U000e0fff"]
        assert "\\u{e00" in part.text
        for entity in part.entities:
            assert 0 <= entity.offset < entity.offset + entity.length <= units(part.text)


def test_formatting_offsets_account_for_escapes() -> None:
    (part,) = render("a&#x200b; **bold** `co\u2062de` 👍🏽")
    assert part.text == "a\\u{200b} bold co\\u{2062}de 👍🏽"
    encoded = part.text.encode("utf-16-le")
    marked = [encoded[2 * e.offset : 2 * (e.offset + e.length)] for e in part.entities]
    assert [item.decode("utf-16-le") for item in marked] == ["bold", "co\\u{2062}de"]


def test_hidden_characters_in_an_address_are_escaped() -> None:
    (part,) = render("[here](https://example.org/a\u200bb)")
    assert part.entities[0].extra == {"url": "https://example.org/a%E2%80%8Bb"}
