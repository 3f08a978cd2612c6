"""Repository for answers of the OpenAI-compatible API, sealed and limited in number.

Each token has its own answers: an id is meaningless with another token.
"""

import json
from collections.abc import Sequence
from typing import Any

from agent.records import frozen
from agent.serialization import dumps, message_from_json, message_to_json
from gateway.core.records import ApiAnswer, ApiRequest
from gateway.store.port import Transaction

KEEP_S = 30 * 86_400
_REQUEST = "api_answer.request"
_ANSWER = "api_answer.answer"
_CONVERSATION = "api_answer.conversation"


@frozen
class AnswerLimits:
    """Limits per token; the newest answers are retained."""

    answers: int = 1_000
    chars: int = 64_000_000


LIMITS = AnswerLimits()


def begin(tx: Transaction, request: ApiRequest, principal: str, now: float) -> ApiAnswer | None:
    """Return the answer of this key, created if needed; None if another request has the key."""
    _forget_old(tx, now)
    row = tx.first(
        "SELECT id, made_at, is_complete, request, answer FROM api_answer"
        " WHERE token = ? AND request_key = ?",
        (request.token, request.key),
    )
    if row is None:
        digest = tx.seal(request.digest, _REQUEST, request.token, request.id)
        tx.run(
            "INSERT INTO api_answer (token, id, principal, request_key, made_at, is_complete, size,"
            " request) VALUES (?, ?, ?, ?, ?, 0, 0, ?)",
            (request.token, request.id, principal, request.key, now, digest),
        )
        _forget_surplus(tx, request.token, LIMITS)
        return ApiAnswer(request.token, request.id, now, request.key)
    id_, made_at, is_complete, digest, answer = row
    if tx.unseal(digest, _REQUEST, request.token, id_) != request.digest:
        return None
    stored = tx.unseal(answer, _ANSWER, request.token, id_)
    content = None if stored is None else json.loads(stored)
    return ApiAnswer(request.token, id_, made_at, request.key, bool(is_complete), content)


def keep(
    tx: Transaction,
    answer: ApiAnswer,
    principal: str,
    now: float,
    limits: AnswerLimits = LIMITS,
) -> bool:
    """Store an answer; return False if its key has received another answer meanwhile."""
    _forget_old(tx, now)
    token, id_ = answer.token, answer.id
    if answer.key:
        row = tx.first(
            "SELECT id, is_complete FROM api_answer WHERE token = ? AND request_key = ?",
            (token, answer.key),
        )
        if row is not None and (row[0] != id_ or row[1]):
            return False
    content = None if answer.answer is None else dumps(answer.answer)
    messages = None
    if answer.conversation is not None:
        messages = dumps([message_to_json(message) for message in answer.conversation])
    tx.run(
        "INSERT INTO api_answer (token, id, principal, request_key, made_at, is_complete, size,"
        " answer, conversation) VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?)"
        " ON CONFLICT (token, id) DO UPDATE SET is_complete = 1, size = excluded.size,"
        " answer = excluded.answer, conversation = excluded.conversation",
        (
            *(token, id_, principal, answer.key or None, answer.made_at),
            len(content or "") + len(messages or ""),
            tx.seal(content, _ANSWER, token, id_),
            tx.seal(messages, _CONVERSATION, token, id_),
        ),
    )
    _forget_surplus(tx, token, limits)
    return True


def find(tx: Transaction, token: str, id_: str, now: float) -> ApiAnswer | None:
    """Return an answer whose conversation can be continued."""
    row = tx.first(
        "SELECT made_at, conversation FROM api_answer"
        " WHERE token = ? AND id = ? AND is_complete = 1"
        " AND conversation IS NOT NULL AND made_at >= ?",
        (token, id_, now - KEEP_S),
    )
    if row is None:
        return None
    messages = json.loads(tx.unseal(row[1], _CONVERSATION, token, id_))
    conversation = tuple(message_from_json(message) for message in messages)
    return ApiAnswer(token, id_, row[0], is_complete=True, conversation=conversation)


def unsealed(tx: Transaction, token: str, id_: str, texts: Sequence[str | None]) -> dict[str, Any]:
    """Return the contents of a row's columns `answer` and `conversation`."""
    columns = zip((_ANSWER, _CONVERSATION), texts, strict=True)
    opened = {place: tx.unseal(text, place, token, id_) for place, text in columns}
    return {
        place.partition(".")[2]: json.loads(text)
        for place, text in opened.items()
        if text is not None
    }


def _forget_old(tx: Transaction, now: float) -> None:
    tx.run("DELETE FROM api_answer WHERE made_at < ?", (now - KEEP_S,))


def _forget_surplus(tx: Transaction, token: str, limits: AnswerLimits) -> None:
    rows = tx.all(
        "SELECT id, size FROM api_answer WHERE token = ? ORDER BY made_at DESC, id DESC", (token,)
    )
    chars = 0
    for number, (id_, size) in enumerate(rows):
        chars += size
        if number >= limits.answers or (chars > limits.chars and number > 0):
            tx.run("DELETE FROM api_answer WHERE token = ? AND id = ?", (token, id_))
