"""Options of a run, their checks, and merging of results."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypedDict

from agent.context.history_validation import is_valid
from agent.errors import ConfigError
from agent.i18n import t
from agent.providers.model_settings import ModelSettings
from agent.security.policy.base import KnownTools
from agent.turn.tool_catalog import built_in_tools
from agent.types import Message, OutputT, Result


class ParallelOptions(TypedDict, total=False):
    """Options of each of several parallel runs."""

    model: str | None
    model_settings: ModelSettings | None
    tool_choice: str | None
    initial_messages: Sequence[Message]


class RunOptions(ParallelOptions, total=False):
    """Options of one run."""

    session: str | None


def new_session() -> str:
    return datetime.now().strftime("%Y%m%d_%H%M%S_%f")


def check_beginning(messages: Sequence[Message]) -> list[Message]:
    """Return the messages as a list. Raise `ConfigError` if no conversation can begin like this."""
    if not is_valid(messages):
        raise ConfigError(
            t("initial_messages: each tool call must be followed directly by its result")
        )
    if any(message.role == "system" for message in messages):
        raise ConfigError(t("initial_messages: use instructions= instead of system messages"))
    return list(messages)


def last_words(result: Result[Any]) -> str:
    """Return the newest reply, without the text between earlier calls."""
    replies = (message for message in reversed(result.messages) if message.role == "assistant")
    return next((message.text for message in replies), "")


def with_earlier(earlier: Result[Any], later: Result[OutputT]) -> Result[OutputT]:
    """Return the later result with the messages and the usage of the earlier one."""
    costs = (earlier.cost_usd, later.cost_usd)
    return replace(
        later,
        messages=(*earlier.messages, *later.messages),
        usage=earlier.usage + later.usage,
        cost_usd=None if None in costs else sum(filter(None, costs)),
    )


def built_in_names(names: Collection[str]) -> frozenset[str]:
    """Return the built-in tools with these names or aliases. Raise `ConfigError` if unknown."""
    if isinstance(names, str):
        raise ConfigError(
            t("builtin_tools: expected a list of names, found {value!r}", value=names[:80])
        )
    available = KnownTools(built_in_tools())
    tools_by_name = {name: available.canonical(name) for name in names}
    for name, tool in tools_by_name.items():
        if tool is None or tool not in available.names:
            raise ConfigError(
                t(
                    "there is no built-in tool {name!r}; available: {names}",
                    name=name[:80],
                    names=", ".join(available.names),
                )
            )
    return available.with_companions({tool for tool in tools_by_name.values() if tool is not None})
