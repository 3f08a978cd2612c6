"""Why nothing is taken in: for the log, and for whoever would wait in vain."""

from agent.errors import KoreError
from agent.i18n import mark_for_translation, t
from agent.records import frozen

NO_DISK = mark_for_translation("less than {n} MB of disk are free")
CROWDED = mark_for_translation("{n} messages wait already")


@frozen
class IngestBlocked:
    """One of the texts above, and the number in it."""

    text: str
    n: int

    def __str__(self) -> str:
        return self.text.format(n=self.n)

    def refusal(self) -> KoreError:
        """For a source that keeps no message until there is room."""
        why = t("nothing is taken in: {why}", why=t(self.text, n=self.n))
        return KoreError(why, hint=t("It was not stored: send it again when there is room."))
