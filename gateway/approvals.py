"""Questions to a person that a running turn waits for."""

import asyncio
import json
import secrets
from dataclasses import dataclass

from agent.events import ApprovalAnswered, ApprovalAsked
from agent.security.policy import Answer, ApprovalRequest
from gateway.watchers import Watchers

EXPIRES_S = 300.0


@dataclass(frozen=True, slots=True)
class _Question:
    lane: str
    answer: "asyncio.Future[Answer]"


class Approvals:
    """The questions that are open now. One that nobody answers in time is a "no"."""

    def __init__(self, watchers: Watchers, *, expires_s: float = EXPIRES_S) -> None:
        self._watchers = watchers
        self._expires_s = expires_s
        self._open: dict[str, _Question] = {}
        # What a person allowed for a session: the exact arguments, never a tool's name.
        self._granted: set[tuple[str, str, str]] = set()

    def approver(self, lane: str, session: str) -> "SessionApprover":
        return SessionApprover(self, lane, session)

    def answer(self, nonce: str, answer: Answer, by: str) -> bool:
        """False when the question has expired or was answered already."""
        question = self._open.get(nonce)
        if question is None or question.answer.done():
            return False
        question.answer.set_result(answer)
        self._watchers.publish(question.lane, ApprovalAnswered(nonce, by, answer))
        return True

    async def ask(self, lane: str, session: str, request: ApprovalRequest) -> Answer:
        key = (session, request.tool, json.dumps(dict(request.arguments), sort_keys=True))
        if key in self._granted:
            return "once"
        if not self._watchers.is_watched(lane):
            return "deny"
        nonce = secrets.token_urlsafe(12)
        question = _Question(lane, asyncio.get_running_loop().create_future())
        self._open[nonce] = question
        asked = ApprovalAsked(
            nonce,
            request.tool,
            request.arguments,
            request.reason,
            request.diff,
            self._expires_s,
        )
        self._watchers.publish(lane, asked)
        try:
            async with asyncio.timeout(self._expires_s):
                answer = await question.answer
        except TimeoutError:
            self._watchers.publish(lane, ApprovalAnswered(nonce, "the clock", "deny"))
            return "deny"
        finally:
            del self._open[nonce]
        if answer == "session":
            self._granted.add(key)
        return answer


@dataclass(frozen=True, slots=True)
class SessionApprover:
    """Asks whoever watches a lane."""

    approvals: Approvals
    lane: str
    session: str

    async def ask(self, request: ApprovalRequest) -> Answer:
        return await self.approvals.ask(self.lane, self.session, request)
