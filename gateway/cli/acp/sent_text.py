"""Text that an editor has received of a restarted reply."""


class SentText:
    """Tracks the text of a reply that the editor has received.

    A reply restarts when its stream fails or the owner of the data is lost: then only the missing
    part is sent. If the new reply differs, all of it is sent below the first.
    """

    def __init__(self) -> None:
        self._sent = ""
        # Text that the editor has of a restarted reply, and the new text so far, which is held back
        # while it only repeats.
        self._before = ""
        self._repeated = ""

    def begin_again(self) -> None:
        """Restart the reply: the next text belongs to it from its beginning."""
        if not self._before:
            # Stored answers are stripped of surrounding space.
            self._before, self._sent = self._sent.lstrip(), ""
        self._repeated = ""

    def take(self, text: str) -> str:
        """Return the part of the next text that has to be sent."""
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
        """End the reply and return the text to send.

        That is the new text, if it is shorter than the text that the editor has. The next text
        belongs to another reply.
        """
        repeated, before = self._repeated.rstrip(), self._before.rstrip()
        self._sent = self._before = self._repeated = ""
        return f"\n\n{repeated}" if repeated and repeated != before else ""
