"""Makes every character of a text visible: nothing that a person reads may be hidden."""

_UNSEEN = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(0x7F, 0xA0)) if code not in (9, 10)
}
# What turns the reading order around can make a command look like another one.
_UNSEEN |= {
    code: f"\\u{code:04x}"
    for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
# What takes no room; in plain talk it holds emoji together.
_NO_ROOM = {
    code: f"\\u{code:04x}"
    for code in (0x00AD, 0x034F, 0x180E, *range(0x200B, 0x200E), *range(0x2060, 0x2066), 0xFEFF)
}


def visible(text: str) -> str:
    """Everything in the text that is not plainly visible becomes an escape one can read."""
    return text.replace("\r\n", "\n").translate(_UNSEEN)


def exact(text: str) -> str:
    """The same for what is to be approved: also what takes no room, and every line end."""
    return text.translate(_UNSEEN | _NO_ROOM)
