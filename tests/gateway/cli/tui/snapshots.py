"""Snapshots of `kore tui` as text: the character of each cell, and below it the styles.

A screen that differs from the stored snapshot fails with a diff. `KORE_UPDATE_SNAPSHOTS=1` stores
the current screen instead; `KORE_SNAPSHOT_SVG=FOLDER` also writes each as an SVG file.
"""

import asyncio
import difflib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.cells import cell_len
from rich.style import Style
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from gateway.cli.tui.feed import Feed

FOLDER = Path(__file__).parent / "snapshots"
# Only a screen that differs waits this long; on a busy machine, a matching screen may appear late.
_DEADLINE_S = 60
_SAME = 12
_PREFIX = "kore-picture-"
# Durations appear on calls of a second or longer, which happens on a busy machine.
_DURATION = re.compile(r" \(?\d+(\.\d)? s\b\)?")
_NAMES = re.compile(rf"{_PREFIX}\w{{8}}")


@contextmanager
def same_length_folder() -> Iterator[Path]:
    """Yield a folder whose path wraps at the same places in every run."""
    with TemporaryDirectory(prefix=_PREFIX, dir="/tmp") as folder:
        yield Path(folder)


async def check(pilot: Pilot[None], name: str) -> None:
    """Wait until the screen matches the stored snapshot of this name."""
    app = pilot.app
    stored = FOLDER / f"{name}.txt"
    if os.environ.get("KORE_UPDATE_SNAPSHOTS"):
        stored.parent.mkdir(exist_ok=True)
        stored.write_text(await _settled_picture(pilot), "utf-8")
    if svg_folder := os.environ.get("KORE_SNAPSHOT_SVG"):
        Path(svg_folder, f"{name}.svg").write_text(app.export_screenshot(), "utf-8")
    before = stored.read_text("utf-8") if stored.exists() else ""
    with suppress(TimeoutError):
        async with asyncio.timeout(_DEADLINE_S):
            while picture_of(app) != before:
                _calm(app)
                await pilot.pause()
    picture = picture_of(app)
    diff = difflib.unified_diff(
        before.splitlines(), picture.splitlines(), "stored", "seen", lineterm="", n=1
    )
    assert before == picture, "\n".join(
        [f"{name} differs; KORE_UPDATE_SNAPSHOTS=1 stores what is seen", *diff]
    )


def _calm(app: App[None]) -> None:
    """Freeze the parts of the screen that vary from moment to moment.

    These are the cursor, and estimated heights, which move the scroll bar of the feed.
    """
    for area in app.screen.query(TextArea):
        area.cursor_blink = False
        # The text area caches its lines, including a line without the cursor.
        area.notify_style_update()
        area.refresh()
    for line in app.screen.query(Input):
        line.cursor_blink = False
        line._cursor_visible = line.has_focus
    for feed in app.query(Feed):
        feed.typeset_all()


async def _settled_picture(pilot: Pilot[None]) -> str:
    """Return the snapshot once it no longer changes."""
    picture, same = "", 0
    while same < _SAME:
        _calm(pilot.app)
        await pilot.pause()
        seen = picture_of(pilot.app)
        picture, same = seen, same + 1 if seen == picture else 0
    return picture


def picture_of(app: App[None]) -> str:
    """Return the cells, the number of cells per style in each line, and a legend of the styles.

    Style names are derived from their contents, so that a new style changes no other line.
    """
    looks: dict[str, str] = {}
    # Without the style of durations, which only a busy machine shows.
    used = set[str]()
    shown, styles = [], []
    for strip in app.screen._compositor.render_strips():
        text = "".join(segment.text for segment in strip)
        durations = [
            tuple(cell_len(text[:at]) for at in match.span()) for match in _DURATION.finditer(text)
        ]
        text = _DURATION.sub(lambda match: " " * len(match[0]), text)
        shown.append(_NAMES.sub(f"{_PREFIX}xxxxxxxx", text).rstrip())
        cells: list[str] = []
        for segment in strip:
            look = _look(segment.style or Style.null())
            name = sha256(look.encode()).hexdigest()[:3]
            looks[name] = look
            cells += [name] * segment.cell_length
        for begin, end in durations:
            cells[begin:end] = [cells[end]] * (end - begin)
        used.update(cells)
        styles.append(" ".join(f"{name}x{len(list(run))}" for name, run in groupby(cells)))
    legend = sorted(f"{name} {look}" for name, look in looks.items() if name in used)
    return "\n".join([*shown, "", *styles, "", *legend, ""])


def _look(style: Style) -> str:
    colors = [
        color.get_truecolor().hex if color is not None else "default"
        for color in (style.color, style.bgcolor)
    ]
    flags = [
        name for name in ("bold", "dim", "italic", "underline", "reverse") if getattr(style, name)
    ]
    return " ".join([f"{colors[0]} on {colors[1]}", *flags])
