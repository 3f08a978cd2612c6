"""Footer with the active keys that fit in one line."""

from collections.abc import Callable, Iterator

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.widget import Widget
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

# Width of the border before the key of the palette.
_PALETTE_EDGE = 2
_ESCAPE, _PALETTE = "stop", "command_palette"


class KeyFooter(Footer):
    """Footer that shows `actions` in order, dropping the last ones first if space is short.

    Escape and the palette take precedence. `escape_words` returns the current action of Escape; if
    it is empty, Escape is omitted.
    """

    def __init__(self, actions: tuple[str, ...], escape_words: Callable[[], str]) -> None:
        super().__init__(compact=True)
        self._actions = actions
        self._escape_words = escape_words
        self._shown_words = ""
        self._shown_columns = 0

    def compose(self) -> ComposeResult:
        keys = {key.action: key for key in super().compose() if isinstance(key, FooterKey)}
        self._shown_words, self._shown_columns = self._escape_words(), self.size.width
        yield from self._fitting(keys)

    def check_words(self) -> None:
        """Refresh the footer if the action of Escape has changed."""
        if self._escape_words() != self._shown_words:
            self._compose_anew()

    def on_resize(self) -> None:
        if self.size.width != self._shown_columns:
            self._compose_anew()

    def _compose_anew(self) -> None:
        self.refresh(recompose=True)

    def _fitting(self, keys: dict[str, FooterKey]) -> Iterator[Widget]:
        room = self._shown_columns
        escape, palette = keys.get(_ESCAPE), keys.get(_PALETTE)
        if palette is not None:
            palette.compact = True
            room -= _columns(palette) + _PALETTE_EDGE
        if escape is not None and self._shown_words:
            escape.description = self._shown_words
            room -= _columns(escape)
        for action in self._actions:
            if (key := keys.get(action)) is not None:
                if (room := room - _columns(key)) < 0:
                    break
                yield key
        if escape is not None and self._shown_words:
            yield escape
        if palette is not None:
            yield palette


def _columns(key: FooterKey) -> int:
    """Return the width of a key with the spaces after its name and its description."""
    return cell_len(key.key_display) + cell_len(key.description) + 2
