"""Owner, permission mode and taint of a session, which decide the permissions in it.

With a key, the taint is sealed and bound to owner and mode. A row that was changed outside of Kore
gets the strictest values.
"""

from collections.abc import Iterable
from typing import get_args

from agent.records import frozen
from agent.security.taint.taint import BOTH
from agent.types import Taint
from gateway.store.errors import SealBroken
from gateway.store.port import Transaction

_TAINT = "session.taint"
# Mode and taint of a row that cannot be trusted.
STRICTEST = ("ask", BOTH)


@frozen
class SessionMarks:
    """Owner, mode and taint of a session; `mode` is None without a choice.

    `is_broken` means that the row was changed outside of Kore: mode and taint are the strictest,
    and the owner is unknown.
    """

    principal: str
    mode: str | None
    taint: frozenset[Taint]
    is_broken: bool = False


def read(tx: Transaction, session: str) -> SessionMarks:
    """Return the marks of a session."""
    principal, mode, taint = tx.one(
        "SELECT principal, permission_mode, taint FROM session WHERE id = ?", (session,)
    )
    marks = opened(tx, session, principal, mode, taint)
    if marks is None:
        return SessionMarks(principal, *STRICTEST, is_broken=True)
    return SessionMarks(principal, mode, marks)


def put(tx: Transaction, session: str, marks: SessionMarks) -> None:
    """Set the marks of a session.

    Broken marks do not change, because a new seal would make them valid.
    """
    if marks.is_broken:
        return
    text = text_of_taint(marks.taint)
    sealed = sealed_taint(tx, session, marks.principal, marks.mode, text)
    tx.run(
        "UPDATE session SET principal = ?, permission_mode = ?, taint = ? WHERE id = ?",
        (marks.principal, marks.mode, sealed, session),
    )


def of_row(
    tx: Transaction, session: str, principal: str, mode: str | None, taint: str
) -> tuple[str | None, frozenset[Taint]]:
    """Return the mode and the taint in these columns of a row."""
    marks = opened(tx, session, principal, mode, taint)
    return STRICTEST if marks is None else (mode, marks)


def opened(
    tx: Transaction, session: str, principal: str, mode: str | None, taint: str
) -> frozenset[Taint] | None:
    """Return the taint in these columns of a row; None if they were changed outside of Kore."""
    try:
        return taint_of_text(tx.unseal(taint, _TAINT, session, principal, mode))
    except SealBroken:
        return None


def sealed_taint(
    tx: Transaction, session: str, principal: str, mode: str | None, text: str
) -> str | None:
    """Return the column `taint` of a row."""
    return tx.seal(text, _TAINT, session, principal, mode)


def taint_of_text(text: str) -> frozenset[Taint]:
    """Return the taint in the text of a `taint` column."""
    return frozenset(mark for mark in get_args(Taint) if mark in text.split(","))


def text_of_taint(taint: Iterable[Taint]) -> str:
    """Return the text of a `taint` column."""
    return ",".join(sorted(taint))
