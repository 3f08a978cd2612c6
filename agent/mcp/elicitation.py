"""Questions of a server to a person, in the middle of a call: a form to fill in, or a page to
open."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from agent.records import frozen
from agent.text.visible import escape_invisible

if TYPE_CHECKING:
    from mcp.types import ElicitRequestParams, ElicitResult

_MOST_FIELDS = 50


@frozen
class FormField:
    """One value that is asked for, by its JSON Schema: of a plain type, or one of a list."""

    name: str
    schema: Mapping[str, Any]
    is_required: bool = False

    @property
    def title(self) -> str:
        return escape_invisible(str(self.schema.get("title") or self.name))


@frozen
class Elicitation:
    """A question of the server `server`. With `url` a person is to open that page, and nothing
    else is asked."""

    server: str
    message: str
    fields: tuple[FormField, ...] = ()
    url: str | None = None

    def defaults(self) -> dict[str, Any]:
        """The values that the server proposes."""
        return {
            each.name: each.schema["default"] for each in self.fields if "default" in each.schema
        }


@frozen
class ElicitationAnswer:
    """What a person says. What the person leaves out of a form has its default."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] = field(default_factory=dict)


# Asks a person. Nobody is there to ask: `cancel`.
Elicit = Callable[[Elicitation], Awaitable[ElicitationAnswer]]


async def elicit(server: str, params: "ElicitRequestParams", ask: Elicit) -> "ElicitResult":
    """The answer to a server's question, as the protocol has it."""
    from mcp.types import ElicitResult

    schema = getattr(params, "requested_schema", None) or {}
    required = schema.get("required") or ()
    properties = schema.get("properties") or {}
    question = Elicitation(
        server,
        escape_invisible(params.message),
        tuple(
            FormField(name, one, name in required)
            for name, one in list(properties.items())[:_MOST_FIELDS]
            if isinstance(one, Mapping)
        ),
        getattr(params, "url", None),
    )
    answer = await ask(question)
    if answer.action != "accept" or question.url is not None:
        return ElicitResult(action=answer.action)
    names = {each.name for each in question.fields}
    content = {name: value for name, value in answer.content.items() if name in names}
    return ElicitResult(action="accept", content=question.defaults() | content)
