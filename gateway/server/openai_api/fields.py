"""Typed access to the fields of a request."""

from collections.abc import Mapping
from typing import Any

from agent.i18n import t
from gateway.server.openai_api.errors import ApiError, bad_field


def text_field(body: Mapping[str, Any], name: str) -> str | None:
    """Return a string field. Raises `ApiError` for another type."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise bad_field(name, "a string", value)
    return value


def flag_field(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value not in (None, True, False):
        raise bad_field(name, "true or false", value)
    return bool(value)


def object_field(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise bad_field(name, "an object", value)
    return value or {}


def list_field(body: Mapping[str, Any], name: str) -> list[Any]:
    value = body.get(name)
    if value is not None and not isinstance(value, list):
        raise bad_field(name, "a list", value)
    return value or []


def objects_field(body: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a list of objects. Raises `ApiError` for another type."""
    values = list_field(body, name)
    if not all(isinstance(value, dict) for value in values):
        raise bad_field(name, "a list of objects")
    return values


def check_tools(body: Mapping[str, Any]) -> None:
    """Accept the tools of a client, which the agent does not use because it has its own.

    Raises `ApiError` if the request requires a call.
    """
    if list_field(body, "tools") and body.get("tool_choice") not in (None, "auto", "none"):
        raise ApiError(
            400,
            t("Kore's agent has tools of its own; tools can be given to a model by its name"),
            param="tools",
        )
