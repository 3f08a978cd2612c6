"""Who speaks in this terminal, and how their words become messages."""

import getpass
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from agent.codec import safe_text
from gateway.messages import InboundMessage, Route, Sender

CHANNEL = "cli"
ACCOUNT = "local"


@dataclass(frozen=True, slots=True)
class Speaker:
    """One chat of the console channel. `options` go with every message (see `InboundMessage`)."""

    chat_id: str
    options: Mapping[str, Any] = field(default_factory=dict)

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
            options=dict(self.options),
        )


def principal() -> str:
    """The console's user, as approvals and sessions name them."""
    return f"{CHANNEL}:{os.getuid()}"


def _login() -> str:
    # A user id without an account, as containers have it.
    with suppress(KeyError, OSError):
        return getpass.getuser()
    return ""
