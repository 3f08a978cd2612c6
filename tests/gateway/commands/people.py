"""Messages from other people."""

from typing import Any

from gateway.core.messages import InboundMessage, Sender
from tests.gateway.parts import chat_message


def other(text: str, **more: Any) -> InboundMessage:
    return chat_message(text, sender=Sender("8"), **more)
