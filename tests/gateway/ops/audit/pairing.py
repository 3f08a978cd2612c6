"""Pairing code of a stranger."""

import re

from gateway.core.messages import Sender
from tests.gateway.parts import Parts, accept_messages, chat_message

CODE = re.compile(r"[A-Z2-9]{4}-[A-Z2-9]{4}")


async def code_for(parts: Parts, person: str) -> str:
    await accept_messages(parts, chat_message("hello?", person, sender=Sender(person, "Bob")))
    (reply,) = await parts.platform.answers(person, 1)
    (code,) = CODE.findall(reply)
    return str(code)
