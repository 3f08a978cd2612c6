"""Pairing codes in messages."""

import re

from tests.gateway.end_to_end.gateway_process import GatewayProcess

CODE = re.compile(r"\b[A-HJ-NP-Z2-9]{4}-[A-HJ-NP-Z2-9]{4}\b")


async def code_for(gateway: GatewayProcess, person: int) -> str:
    """Return the code that this person receives."""
    answer = (await gateway.answers_to(person, "hello?"))[-1]
    (code,) = CODE.findall(answer)
    return str(code)
