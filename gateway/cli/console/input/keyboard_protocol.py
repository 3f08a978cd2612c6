"""Keyboard protocols of terminals, by which Shift-Enter differs from Enter.

XTMODKEYS (xterm, tmux) is enabled without a query, because it does not change keys that already
have a code. Kitty's protocol also changes the codes of Ctrl and Escape, so it is enabled only once
the terminal has answered its query.
"""

from collections.abc import Callable, Iterator
from itertools import product
from string import ascii_lowercase

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

_MODIFIED_KEYS_ON, _MODIFIED_KEYS_OFF = "\x1b[>4;1m", "\x1b[>4m"
_KITTY_QUERY = "\x1b[?u"
# Only the codes of ambiguous keys change; the terminal stores the previous state.
_KITTY_ON, _KITTY_OFF = "\x1b[>1u", "\x1b[<u"
_KITTY_REPLIES = frozenset(f"\x1b[?{flags}u" for flags in range(32))
_SHIFT, _ALT, _CTRL = 1, 2, 4
# Caps Lock and Num Lock count as modifiers.
_LOCKS = (0, 64, 128, 192)
_ENTER, _TAB, _ESCAPE, _BACKSPACE = 13, 9, 27, 127

_Sequence = Keys | tuple[Keys | str, ...]


class KeyboardProtocol:
    """Protocol of one terminal, between `begin` and `end`; `write` writes to the terminal."""

    def __init__(self, parser: Vt100Parser, write: Callable[[str], None]) -> None:
        self._write = write
        self._is_begun = False
        self._has_kitty = False
        self._feed_key = parser.feed_key_callback
        parser.feed_key_callback = self._feed

    def begin(self) -> None:
        self._is_begun = True
        self._write(_MODIFIED_KEYS_ON + _KITTY_QUERY)

    def end(self) -> None:
        """Restore the state before `begin`."""
        self._write((_KITTY_OFF if self._has_kitty else "") + _MODIFIED_KEYS_OFF)
        self._is_begun = self._has_kitty = False

    def _feed(self, pressed: KeyPress) -> None:
        if pressed.data not in _KITTY_REPLIES:
            self._feed_key(pressed)
        elif self._is_begun and not self._has_kitty:
            self._has_kitty = True
            self._write(_KITTY_ON)


def _kitty_keys() -> Iterator[tuple[int, int, _Sequence]]:
    """Yield code, modifiers and meaning of the keys that kitty's protocol writes differently."""
    for letter in ascii_lowercase:
        control = Keys(f"c-{letter}")
        yield ord(letter), _CTRL, control
        yield ord(letter), _CTRL | _SHIFT, control
        yield ord(letter), _ALT, (Keys.Escape, letter)
    for modifiers in (0, _SHIFT, _ALT, _CTRL):
        yield _ESCAPE, modifiers, Keys.Escape
    for modifiers in (_SHIFT, _CTRL):
        yield _ENTER, modifiers, Keys.ControlJ
    yield _ENTER, _ALT, (Keys.Escape, Keys.ControlM)
    yield _TAB, _SHIFT, Keys.BackTab
    yield _BACKSPACE, _SHIFT, Keys.ControlH
    yield _BACKSPACE, _CTRL, Keys.ControlW
    yield _BACKSPACE, _ALT, (Keys.Escape, Keys.ControlH)
    yield ord(" "), _CTRL, Keys.ControlAt
    yield ord("["), _CTRL, Keys.Escape
    yield ord("\\"), _CTRL, Keys.ControlBackslash
    yield ord("]"), _CTRL, Keys.ControlSquareClose
    yield ord("/"), _CTRL, Keys.ControlUnderscore
    yield ord("_"), _CTRL | _SHIFT, Keys.ControlUnderscore


def _with_locks(sequence: str, meaning: _Sequence) -> Iterator[tuple[str, _Sequence]]:
    """Yield an arrow or function key of the table with Caps Lock and Num Lock."""
    body = sequence.removeprefix("\x1b[")
    parameters, final = body[:-1].split(";"), body[-1:]
    is_numbered = all(part.isdecimal() for part in parameters if part)
    if body == sequence or not is_numbered or not (final.isalpha() or final == "~"):
        return
    if len(parameters) == 1:
        parameters = [parameters[0] or "1", "1"]
    if len(parameters) == 2:
        number, modifiers = parameters
        for lock in _LOCKS[1:]:
            yield f"\x1b[{number};{int(modifiers) + lock}{final}", meaning


def _sequences() -> Iterator[tuple[str, _Sequence]]:
    # Shift-Enter in XTMODKEYS; prompt_toolkit reads it as Enter.
    yield f"\x1b[27;2;{_ENTER}~", Keys.ControlJ
    yield from dict.fromkeys(_KITTY_REPLIES, Keys.Ignore).items()
    for sequence, meaning in list(ANSI_SEQUENCES.items()):
        yield from _with_locks(sequence, meaning)
    for (code, modifiers, key), lock in product(list(_kitty_keys()), _LOCKS):
        yield f"\x1b[{code};{1 + modifiers + lock}u", key
    yield f"\x1b[{_ESCAPE}u", Keys.Escape


ANSI_SEQUENCES.update(_sequences())  # type: ignore[arg-type]  # letters are keys as well
