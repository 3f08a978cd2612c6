"""Calls of bare models, built from requests of either API."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.errors import KoreError
from agent.providers.model_settings import ModelSettings
from gateway.core.records import ModelCall, ModelTool
from gateway.server.openai_api.conversation import ClientConversation
from gateway.server.openai_api.errors import ApiError, bad_field
from gateway.server.openai_api.fields import object_field, objects_field

# Settings that have the same name in the API and in `ModelSettings`.
_SAME = ("temperature", "top_p", "frequency_penalty", "presence_penalty", "parallel_tool_calls")
_SAME_IN_CHAT = (*_SAME, "seed", "reasoning_effort")
_PASSED_ON = ("logit_bias", "prompt_cache_key", "service_tier")


def chat_call(model: str, body: Mapping[str, Any], conversation: ClientConversation) -> ModelCall:
    """Return the call for a chat completion. Raises `ApiError`."""
    stop = body.get("stop")
    settings = _settings(
        **{name: body.get(name) for name in _SAME_IN_CHAT},
        max_tokens=body.get("max_completion_tokens") or body.get("max_tokens"),
        stop_sequences=[stop] if isinstance(stop, str) else stop,
        tool_choice=_tool_choice(body),
        response_format=object_field(body, "response_format") or None,
        verbosity=body.get("verbosity"),
        extra_body=_passed_on(body),
    )
    return _model_call(model, conversation, _tools(body), settings)


def response_call(
    model: str, body: Mapping[str, Any], conversation: ClientConversation
) -> ModelCall:
    """Return the call for a response. Raises `ApiError`."""
    text = object_field(body, "text")
    settings = _settings(
        **{name: body.get(name) for name in _SAME},
        max_tokens=body.get("max_output_tokens"),
        reasoning_effort=object_field(body, "reasoning").get("effort"),
        tool_choice=_tool_choice(body),
        response_format=_response_format(object_field(text, "format")),
        verbosity=text.get("verbosity"),
        extra_body=_passed_on(body),
    )
    return _model_call(model, conversation, _tools(body), settings)


def _response_format(form: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the format of a response as the field of a chat completion."""
    if form.get("type", "text") == "text":
        return None
    if form["type"] != "json_schema":
        return dict(form)
    schema = {name: value for name, value in form.items() if name != "type"}
    return {"type": "json_schema", "json_schema": schema}


def _passed_on(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the model's server gets as they are."""
    return {name: body[name] for name in _PASSED_ON if body.get(name) is not None}


def _model_call(
    model: str,
    conversation: ClientConversation,
    tools: Sequence[ModelTool],
    settings: ModelSettings,
) -> ModelCall:
    return ModelCall(
        model,
        conversation.system,
        conversation.messages,
        tuple(tools),
        settings.temperature,
        settings.max_tokens,
        settings.options(),
    )


def _tools(body: Mapping[str, Any]) -> list[ModelTool]:
    """Return the functions in the format of either API. Raises `ApiError`."""
    tools = []
    for number, tool in enumerate(objects_field(body, "tools")):
        function = tool.get("function", tool)
        match tool.get("type"), function:
            case "function", {"name": str(name)}:
                description = str(function.get("description") or "")
                parameters = function.get("parameters") or {"type": "object", "properties": {}}
                if not isinstance(parameters, dict):
                    raise bad_field(f"tools[{number}].parameters", "a JSON schema")
                tools.append(ModelTool(name, description, parameters))
            case _:
                raise bad_field(f"tools[{number}]", "a function with a name")
    return tools


def _tool_choice(body: Mapping[str, Any]) -> str | None:
    """Return the tool choice in the form of `ModelSettings`. Raises `ApiError`."""
    match body.get("tool_choice"):
        case None:
            return None
        case str(choice) if choice in ("auto", "none", "required"):
            return choice
        case {"type": "function", "function": {"name": str(name)}}:
            return name
        case {"type": "function", "name": str(name)}:
            return name
    raise bad_field("tool_choice", "auto, none, required or a function")


def _settings(**values: Any) -> ModelSettings:
    """Return the settings. Raises `ApiError` for an invalid value."""
    try:
        return ModelSettings(**values)
    except KoreError as exc:
        raise ApiError(400, str(exc)) from exc
