"""Who speaks in this terminal, and how their words become messages."""

import getpass
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent.codec import safe_text
from gateway.messages import InboundMessage, Route, Sender

if TYPE_CHECKING:
    from agent.context.project import Project

CHANNEL = "cli"
ACCOUNT = "local"
# From here on another conversation is spoken in, which was told nothing yet.
_ELSEWHERE = frozenset({"/new", "/resume", "/fork", "/compact"})


@dataclass(frozen=True, slots=True)
class Speaker:
    """One chat of the console channel. `options` go with every message (see `InboundMessage`),
    and what is new in `project` with the next one."""

    chat_id: str
    options: Mapping[str, Any] = field(default_factory=dict)
    project: "Project | None" = None

    @property
    def lane(self) -> str:
        return Route(CHANNEL, ACCOUNT, self.chat_id).lane

    def say(self, text: str) -> InboundMessage:
        return InboundMessage(
            channel=CHANNEL,
            account=ACCOUNT,
            chat_id=self.chat_id,
            sender=Sender(str(os.getuid()), _login()),
            event_id=os.urandom(16).hex(),
            content=safe_text(text),
            received_at=time.time(),
            options={**self.options, **self._news(text)},
        )

    def _news(self, text: str) -> dict[str, Any]:
        if self.project is None:
            return {}
        if text.startswith("/"):
            if text.split()[0] in _ELSEWHERE:
                self.project.forget()
            return {}
        news = self.project.news()
        if news is None:
            return {}
        told = {"text": safe_text(news.text), "taint": sorted(news.taint)}
        return {"project": {**told, "evicted": news.evicted}}


def principal() -> str:
    """The console's user, as approvals and sessions name them."""
    return f"{CHANNEL}:{os.getuid()}"


def _login() -> str:
    # A user id without an account, as containers have it.
    with suppress(KeyError, OSError):
        return getpass.getuser()
    return ""
