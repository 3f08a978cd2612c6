"""SVG drawings of a chat on a phone, from messages that were really sent."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from xml.sax.saxutils import escape

from tests.fakes.bot_chats import ChatMessage

Run = tuple[str, str]
Line = list[Run]

_WIDTH = 420
_FRAME = 14
_HEAD = 62
_FONT = 15.0
_CODE_FONT = 12.5
_LINE = 21
_PADDING = 12
_LONGEST = 300.0
_BUTTON = 36
_SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
_MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_KINDS = {
    "bold": "bold", "italic": "italic", "code": "code", "pre": "pre",
    "text_link": "link", "url": "link", "bot_command": "link",
}  # fmt: skip
_STYLES = {
    "": "",
    "bold": 'font-weight="600"',
    "italic": 'font-style="italic"',
    "code": f'font-family="{_MONO}" font-size="{_CODE_FONT}" fill="#3a4a5a"',
    "pre": f'font-family="{_MONO}" font-size="{_CODE_FONT}" fill="#2b3a48"',
    "added": f'font-family="{_MONO}" font-size="{_CODE_FONT}" fill="#1a7f37"',
    "removed": f'font-family="{_MONO}" font-size="{_CODE_FONT}" fill="#c03540"',
    "link": 'fill="#2f7fc4"',
}
_CODE = ("code", "pre", "added", "removed")


def draw(shown: Sequence[ChatMessage], name: str) -> str:
    """Draw the entire chat with the bot `name`."""
    parts: list[str] = []
    top = _FRAME + _HEAD + 14.0
    for one in shown:
        drawn, height = _bubble(one, top)
        parts.append(drawn)
        top += height + 10
    height = top + _FRAME + 8
    inside = f'x="{_FRAME}" width="{_WIDTH - 2 * _FRAME}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}"'
            f' width="{_WIDTH}" font-family="{_SANS}" font-size="{_FONT}">',
            f'<rect width="{_WIDTH}" height="{height:.0f}" rx="34" fill="#1c2128"/>',
            f'<rect {inside} y="{_FRAME}" height="{height - 2 * _FRAME:.0f}" rx="22"'
            ' fill="#dfe7ee"/>',
            f'<path d="M{_FRAME} {_FRAME + _HEAD} v-{_HEAD - 22} q0 -22 22 -22'
            f' h{_WIDTH - 2 * _FRAME - 44} q22 0 22 22 v{_HEAD - 22} z" fill="#ffffff"/>',
            f'<circle cx="{_FRAME + 38}" cy="{_FRAME + 31}" r="19" fill="#3d7ea6"/>',
            f'<text x="{_FRAME + 38}" y="{_FRAME + 37}" text-anchor="middle" fill="#fff"'
            f' font-weight="600" font-size="17">{escape(name[0])}</text>',
            f'<text x="{_FRAME + 70}" y="{_FRAME + 28}" font-weight="600">{escape(name)}</text>',
            f'<text x="{_FRAME + 70}" y="{_FRAME + 46}" font-size="12.5" fill="#7a8794">bot</text>',
            *parts,
            "</svg>\n",
        ]
    )


def _bubble(shown: ChatMessage, top: float) -> tuple[str, float]:
    """Draw a message at this height, with its buttons; return the drawing and its height."""
    lines = list(_lines(shown))
    widest = max(sum(_width(*run) for run in line) for line in lines)
    buttons: list[list[Mapping[str, str]]] = (shown.reply_markup or {}).get("inline_keyboard", [])
    width = min(_LONGEST, widest) + 2 * _PADDING if not buttons else _LONGEST + 2 * _PADDING
    height = len(lines) * _LINE + 2 * _PADDING - 4
    left = _FRAME + 10 if shown.from_bot else _WIDTH - _FRAME - 10 - width
    fill = "#ffffff" if shown.from_bot else "#cfe8fb"
    parts = [
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height}" rx="14"'
        f' fill="{fill}"/>'
    ]
    for number, line in enumerate(lines):
        y = top + _PADDING + number * _LINE
        if line and line[0][1] in ("pre", "added", "removed"):
            parts.append(
                f'<rect x="{left + 7:.1f}" y="{y - 2:.1f}" width="{width - 14:.1f}"'
                f' height="{_LINE + 0.5}" fill="#f0f3f6"/>'
            )
        spans = "".join(
            f"<tspan {_STYLES[kind]}>{escape(text)}</tspan>" if kind else escape(text)
            for text, kind in line
        )
        parts.append(
            f'<text x="{left + _PADDING:.1f}" y="{y + 14:.1f}" xml:space="preserve"'
            f' fill="#17212b">{spans}</text>'
        )
    for row in buttons:
        each = (width - 6 * (len(row) - 1)) / len(row)
        for number, button in enumerate(row):
            x = left + number * (each + 6)
            parts.append(
                f'<rect x="{x:.1f}" y="{top + height + 6:.1f}" width="{each:.1f}"'
                f' height="{_BUTTON}" rx="10" fill="#8fa9be"/>'
                f'<text x="{x + each / 2:.1f}" y="{top + height + 29:.1f}" fill="#fff"'
                f' text-anchor="middle" font-size="14">{escape(button["text"])}</text>'
            )
        height += _BUTTON + 6
    return "\n".join(parts), height


def _lines(shown: ChatMessage) -> Iterator[Line]:
    """Yield the lines of the text that fit into a bubble, each in runs of a single kind."""
    kinds = [""] * len(shown.text)
    units = shown.text.encode("utf-16-le")
    for entity in shown.entities:
        start = len(units[: 2 * entity["offset"]].decode("utf-16-le"))
        end = len(units[: 2 * (entity["offset"] + entity["length"])].decode("utf-16-le"))
        kind = _KINDS.get(entity["type"], "")
        is_diff = kind == "pre" and shown.text.startswith("---", start)
        kinds[start:end] = [f"diff {kind}" if is_diff else kind] * (end - start)
    at = 0
    for text in shown.text.split("\n"):
        of_line = kinds[at : at + len(text)]
        at += len(text) + 1
        if of_line and of_line[0].startswith("diff"):
            is_head = text.startswith(("---", "+++"))
            sign = "pre" if is_head else {"+": "added", "-": "removed"}.get(text[:1], "pre")
            of_line = [sign] * len(text)
        yield from _wrapped(list(zip(text, of_line, strict=True)))


def _wrapped(characters: list[tuple[str, str]]) -> Iterator[Line]:
    if not characters:
        yield []
        return
    words = re.findall(r"\S+\s*|\s+", "".join(one for one, _ in characters))
    line: list[tuple[str, str]] = []
    at = 0
    for word in words:
        piece = characters[at : at + len(word)]
        at += len(word)
        if line and _extent([*line, *piece]) > _LONGEST:
            yield _joined(line)
            line = []
        line += piece
    yield _joined(line)


def _joined(characters: list[tuple[str, str]]) -> Line:
    groups = groupby(characters, key=lambda one: one[1])
    return [("".join(letter for letter, _ in group), kind) for kind, group in groups]


def _extent(characters: list[tuple[str, str]]) -> float:
    return sum(_width(*run) for run in _joined(characters))


def _width(text: str, kind: str) -> float:
    """Estimate the width, slightly more than in the usual fonts."""
    if kind in _CODE:
        return len(text) * _CODE_FONT * 0.605
    return sum(map(_share, text)) * _FONT * (1.08 if kind == "bold" else 1.03)


def _share(letter: str) -> float:
    if letter in "iljtfrI.,:;'|!()[] ":
        return 0.34
    if letter in "mwMW@%" or ord(letter) > 0x2E80:
        return 0.95
    return 0.7 if letter.isupper() else 0.6
