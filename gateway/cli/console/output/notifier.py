"""Notifications of a terminal: bell, desktop notification and a mark in the window title."""

import os
from collections.abc import Callable, Mapping

from agent.events import AttentionNeeded
from agent.i18n import mark_for_translation, t

_BELL = "\a"
_SENTENCES = {
    "question": mark_for_translation("Kore asks something"),
    "ended": mark_for_translation("Kore has finished"),
}
_MARKS = {"question": "?", "ended": "•"}
# XTWINOPS: the terminal stores its title, and restores it.
_PUSH_TITLE, _POP_TITLE = "\x1b[22;0t", "\x1b[23;0t"
# Variables of terminals that show a notification for OSC 9; they also reach programs in tmux.
_OSC_9_VARIABLES = ("KITTY_WINDOW_ID", "ITERM_SESSION_ID", "WEZTERM_PANE", "GHOSTTY_RESOURCES_DIR")
_OSC_777_TERMS = ("foot", "rxvt")


class TerminalNotifier:
    """Notifies through a terminal; `write` writes control sequences to it.

    `clear` removes the mark once the person is there.
    """

    def __init__(
        self, write: Callable[[str], None], environ: Mapping[str, str] = os.environ
    ) -> None:
        self._write = write
        self._environ = environ
        self._is_marked = False

    def notify(self, event: AttentionNeeded) -> None:
        text = t(_SENTENCES[event.reason])
        title = f"\x1b]2;{_MARKS[event.reason]} {text}{_BELL}"
        push = "" if self._is_marked else _PUSH_TITLE
        self._is_marked = True
        self._write(f"{push}{title}{desktop_notification(text, self._environ)}{_BELL}")

    def clear(self) -> None:
        if self._is_marked:
            self._is_marked = False
            self._write(_POP_TITLE)


def desktop_notification(text: str, environ: Mapping[str, str]) -> str:
    """Return the sequence of this terminal for a desktop notification, or ''.

    tmux passes it on if its option `allow-passthrough` is on. GNU screen would show it as text.
    """
    if environ.get("STY"):
        return ""
    if any(map(environ.get, _OSC_9_VARIABLES)):
        sequence = f"\x1b]9;{text}{_BELL}"
    elif environ.get("VTE_VERSION") or environ.get("TERM", "").startswith(_OSC_777_TERMS):
        sequence = f"\x1b]777;notify;Kore;{text}{_BELL}"
    else:
        return ""
    if environ.get("TMUX"):
        return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\"
    return sequence
