"""Typed access to the fields of a request."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.i18n import t
from gateway.server.openai_api.errors import ApiError, bad_field

# Unsupported fields that would change the answer, with the values that change nothing.
_UNSUPPORTED: Mapping[str, Sequence[Any]] = {
    "n": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "conversation": (),
    "functions": ([],),
    "function_call": ("auto", "none"),
    "audio": (),
    "modalities": (["text"],),
    "web_search_options": (),
    "prompt": (),
}
# Further fields of models that Kore's agent does not support.
_UNSUPPORTED_BY_AGENT: Mapping[str, Sequence[Any]] = {
    "logit_bias": ({},),
    "verbosity": ("medium",),
    "response_format": ({}, {"type": "text"}),
}
_LOGPROBS = "message.output_text.logprobs"


def check_supported(body: Mapping[str, Any]) -> None:
    """Raise `ApiError` for a field that Kore would have to ignore, though it changes the answer."""
    for name, harmless in _UNSUPPORTED.items():
        if body.get(name) is not None and body[name] not in harmless:
            raise ApiError(400, t("{name} is not supported", name=name), param=name)
    if _LOGPROBS in list_field(body, "include"):
        raise ApiError(400, t("{name} is not supported", name=_LOGPROBS), param="include")


def check_supported_by_agent(body: Mapping[str, Any]) -> None:
    """Raise `ApiError` for a field of models that would have no effect on the agent."""
    text = object_field(body, "text")
    values = dict(body)
    for name, field in (("response_format", "format"), ("verbosity", "verbosity")):
        values.setdefault(name, text.get(field))
    for name, harmless in _UNSUPPORTED_BY_AGENT.items():
        if values.get(name) is not None and values[name] not in harmless:
            words = t("Kore's agent does not support {name}; a model does by its name", name=name)
            raise ApiError(400, words, param=name if name in body else "text")


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
