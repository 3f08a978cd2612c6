"""Parser of terminal input that reads a paste of any size in linear time."""

from collections.abc import Callable

from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

_END = "\x1b[201~"


class PasteParser(Vt100Parser):
    """Parser that searches for the end of a paste only in new input.

    The library's parser joins and searches the whole paste for every kilobyte, so that five
    megabytes take minutes.
    """

    def __init__(self, feed_key_callback: Callable[[KeyPress], None]) -> None:
        self._pieces: list[str] = []
        # Last characters of the earlier pieces, because the end mark may be split.
        self._seam = ""
        super().__init__(feed_key_callback)

    def feed(self, data: str) -> None:
        for at, letter in enumerate(data):
            if self._in_bracketed_paste:
                self._feed_paste(data[at:])
                return
            self._input_parser.send(letter)

    def _feed_paste(self, data: str) -> None:
        searched = self._seam + data
        self._pieces.append(data)
        at = searched.find(_END)
        if at < 0:
            self._seam = searched[1 - len(_END) :]
            return
        content = "".join(self._pieces)
        end = len(content) - len(searched) + at
        self._pieces, self._seam, self._in_bracketed_paste = [], "", False
        self.feed_key_callback(KeyPress(Keys.BracketedPaste, content[:end]))
        self.feed(content[end + len(_END) :])
