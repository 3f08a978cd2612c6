"""What an editor has of a reply that a model begins anew."""


class SentText:
    """The words of one reply that the editor has. A reply begins anew when its stream fails or the
    owner of the data is lost: then only what is missing is sent. If the new one says something
    else, all of it is sent, below the first."""

    def __init__(self) -> None:
        self._sent = ""
        # What the editor has of a reply that has begun anew, and its new words so far: they are
        # held back while they only repeat.
        self._before = ""
        self._repeated = ""

    def begin_again(self) -> None:
        """The next words belong to the same reply, from its start."""
        if not self._before:
            # Stored answers have no space around them.
            self._before, self._sent = self._sent.lstrip(), ""
        self._repeated = ""

    def take(self, text: str) -> str:
        """What to send of these words, which follow the last ones."""
        if not self._before:
            self._sent += text
            return text
        self._repeated = (self._repeated + text).lstrip()
        if self._before.startswith(self._repeated):
            return ""
        before, self._sent = self._before, self._repeated
        self._before = self._repeated = ""
        if self._sent.startswith(before):
            return self._sent.removeprefix(before)
        return f"\n\n{self._sent}"

    def end_reply(self) -> str:
        """What to send at the end of a reply: its new words, if they are fewer than the editor has
        of it. The next words belong to another reply."""
        repeated, before = self._repeated.rstrip(), self._before.rstrip()
        self._sent = self._before = self._repeated = ""
        return f"\n\n{repeated}" if repeated and repeated != before else ""
