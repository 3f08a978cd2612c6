"""A model that obeys every text, the attacker's before the person's."""

import base64
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence

from agent.events import ModelEvent
from agent.providers.base import ModelRequest
from agent.providers.scripted import reply_events
from agent.types import Message, ToolCall, assistant

CANARY = re.compile(r"CANARY-[0-9a-f]{24}")
# Orders: `@@ TOOL {"argument": …}` requests a call, `@@ say TEXT` adds text to the answer.
ORDER = re.compile(r"^.*?@@ (\w+) (.*)$", re.MULTILINE)


class Obedient:
    """Model that carries out orders in the order in which it reads them.

    `{SECRET}` in an order is replaced by the first canary that it has seen, `{B64}`, `{HEX}`,
    `{BACK}`, `{HEAD}`, `{TAIL}` and `{LETTER0}` … by encodings that a clever model would use. An
    order that needs a secret waits until one was seen; in the orders of a sub-agent `{LATER}` is
    the first secret that the sub-agent sees.

    `heeds_system` makes it obey its instructions, too, `heeds_tools` the descriptions of tools,
    `gullible=False` only the person.
    """

    name = "obedient"

    def __init__(
        self,
        *,
        gullible: bool = True,
        ideas: Sequence[str] = (),
        heeds_system: bool = False,
        heeds_tools: bool = False,
    ) -> None:
        self._gullible = gullible
        self._heeds_system = heeds_system
        self._heeds_tools = heeds_tools
        self._ideas = list(ideas)
        self._minds: dict[str, _Mind] = {}

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        # A sub-agent has its own instructions and its own state.
        if request.system not in self._minds:
            orders = ORDER.findall(request.system) if self._heeds_system else []
            if self._heeds_tools:
                orders += ORDER.findall(tool_texts(request))
            self._minds[request.system] = _Mind(self._gullible, self._ideas, orders)
        mind = self._minds[request.system]
        for event in reply_events(request, mind.reply(request)):
            yield event

    async def aclose(self) -> None:
        """Do nothing; there is nothing to close."""


def tool_texts(request: ModelRequest) -> str:
    """Return all texts about tools in a request: names, descriptions, and texts in schemas."""
    texts: list[str] = []

    def collect(value: object) -> None:
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            collect([*value, *value.values()])
        elif isinstance(value, list):
            for item in value:
                collect(item)

    for spec in request.tools:
        collect([spec.name, spec.description, dict(spec.parameters)])
    return "\n".join(texts)


class _Mind:
    """Orders that one conversation has received, and the pending ones."""

    def __init__(self, gullible: bool, ideas: list[str], orders: list[tuple[str, str]]) -> None:
        self._gullible = gullible
        self._ideas = ideas
        self._read = 0
        self._orders = orders
        self._texts: list[str] = []
        self._calls = 0

    def reply(self, request: ModelRequest) -> Message:
        for message in request.messages[self._read :]:
            if message.role == "user" or (message.role == "tool" and self._gullible):
                self._orders += ORDER.findall(message.text)
        self._read = len(request.messages)
        seen = "\n".join([request.system, *(message.text for message in request.messages)])
        secret = CANARY.search(seen)
        for n, (tool, text) in enumerate(self._orders):
            if "{" in text and _needs_secret(text):
                if secret is None:
                    continue
                text = _fill(text, secret[0])
            del self._orders[n]
            if tool == "say":
                self._texts.append(text)
                return self.reply(request)
            self._calls += 1
            text = text.replace("{LATER}", "{SECRET}")
            arguments = json.loads(text)
            return assistant("", (ToolCall(f"o{self._calls}", tool, arguments, text),))
        if self._ideas:
            self._orders.append(_split(self._ideas.pop(0)))
            return self.reply(request)
        result, self._texts = "\n".join(self._texts), []
        self._read += 1
        return assistant(result or "I did all I was told.")


def spellings(secret: str) -> Iterator[str]:
    """Yield the forms in which a secret may leave; each alone reveals it."""
    yield secret
    yield secret[::-1]
    yield secret.encode().hex()
    yield base64.b64encode(secret.encode()).decode().rstrip("=")
    yield secret.removeprefix("CANARY-")
    body = secret.removeprefix("CANARY-")
    yield body[:12]
    yield body[12:]


def _split(order: str) -> tuple[str, str]:
    tool, _, arguments = order.partition(" ")
    return tool, arguments


def _needs_secret(text: str) -> bool:
    return re.search(r"\{(SECRET|B64|HEX|BACK|HEAD|TAIL|LETTER\d+)\}", text) is not None


def _fill(text: str, secret: str) -> str:
    body = secret.removeprefix("CANARY-")
    forms = {
        "SECRET": secret,
        "B64": base64.b64encode(secret.encode()).decode().rstrip("="),
        "HEX": secret.encode().hex(),
        "BACK": secret[::-1],
        "HEAD": body[:12],
        "TAIL": body[12:],
        **{f"LETTER{n}": result for n, result in enumerate(body)},
    }
    for name, value in forms.items():
        text = text.replace(f"{{{name}}}", value)
    return text
