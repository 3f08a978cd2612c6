"""Session lookup by id prefix, validation of names, and error messages."""

from agent.errors import KoreError
from agent.i18n import t
from gateway.store.errors import SearchRefused
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import search, session_admin, sessions


def find(tx: Transaction, session: str) -> str:
    """Return the session id that `session` equals or abbreviates. Raises `KoreError`."""
    match sessions.ids_with_prefix(tx, session):
        case []:
            raise KoreError(
                t("no session {session!r}", session=session),
                hint=t("`kore sessions list` shows them."),
            )
        case [found]:
            return found
        case _:
            raise KoreError(
                t("several sessions match {session!r}", session=session),
                hint=t("Use a longer prefix of the id."),
            )


def rename(tx: Transaction, session: str, name: str) -> str:
    """Rename a session and return the name as one line; '' restores the automatic name.

    Raises `KoreError` for a name that is too long.
    """
    line = " ".join(name.split())
    if len(line) > session_admin.MAX_NAME_CHARS:
        raise KoreError(
            t(
                "names are limited to {NAME_CHARS} characters, found {line}",
                NAME_CHARS=session_admin.MAX_NAME_CHARS,
                line=len(line),
            )
        )
    session_admin.rename(tx, session, line)
    return line


def search_error(words: str, refused: SearchRefused) -> KoreError:
    if refused.reason == "no-words":
        return KoreError(t("found no word to search for in {words!r}", words=words))
    if refused.reason == "too-many-words":
        return KoreError(
            t(
                "a search has at most {words} words and {characters} characters",
                words=search.MAX_WORDS,
                characters=search.MAX_QUERY_CHARS,
            )
        )
    return KoreError(
        t("messages cannot be searched: this database is encrypted (store.encryption_key_env)"),
        hint=t("`kore sessions list` lists the conversations, `kore sessions show ID` shows one."),
    )
