"""Self-hosted servers that support only part of OpenAI's format."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from agent.events import Reply
from agent.providers.base import ModelRequest, ToolSpec
from agent.providers.opening import dialect_of
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig, resolve_model
from agent.providers.vendors import VENDORS
from agent.types import Message, Text, ToolCall, assistant, user
from tests.fakes.model import ModelServer
from tests.fakes.model_mind import echo
from tests.fakes.model_script import ReplyScript, refusal

TOOL = ToolSpec("exec", "Run.", {"type": "object", "properties": {"command": {"type": "string"}}})
CALLED = assistant("", (ToolCall("c1", "exec", {}, "{}"),))
RESULT = Message("tool", (Text("ok"),), (), "c1")


@pytest.fixture
async def models(model_server: ModelServer) -> AsyncIterator[ModelPool]:
    """Return the models as docs/models.md recommends for a self-hosted server."""
    config = ModelConfig("m", "openai/llama", model_server.base_url, "sk-key")
    models = ModelPool("m", [config])
    yield models
    await models.aclose()


async def reply_of(models: ModelPool, *messages: Message) -> str:
    opened = models.open()
    request = ModelRequest(opened.model, "", messages, (TOOL,), max_tokens=50)
    last = [event async for event in opened.provider.stream(request)][-1]
    assert isinstance(last, Reply)
    return last.message.text


@pytest.mark.counterpart("llama.cpp")
async def test_unsupported_limit_is_not_sent(models: ModelPool, model_server: ModelServer) -> None:
    def llama(body: Mapping[str, Any]) -> ReplyScript:
        """Ignore unknown fields; without a limit the reply is very long."""
        return ReplyScript(text="short" if body.get("max_tokens") == 50 else "endless " * 200)

    model_server.mind = llama  # type: ignore[assignment]
    assert await reply_of(models, user("hi")) == "short"


@pytest.mark.counterpart("llama.cpp")
@pytest.mark.parametrize(
    "complaint",
    [
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead.",
        "[{'type': 'extra_forbidden', 'loc': ('body', 'max_tokens'), 'msg': 'Extra inputs are not "
        "permitted'}]",
    ],
)
async def test_limit_is_renamed_after_the_first_rejection(
    models: ModelPool, model_server: ModelServer, complaint: str
) -> None:
    def strict(body: Mapping[str, Any]) -> ReplyScript:
        return refusal(400, complaint) if "max_tokens" in body else echo(dict(body))

    model_server.mind = strict  # type: ignore[assignment]
    for text in ("one", "two"):
        assert await reply_of(models, user(text)) == f"echo: {text}"
    limits = [request.body.get("max_completion_tokens") for request in model_server.requests]
    assert limits == [None, 50, 50]


@pytest.mark.counterpart("llama.cpp")
async def test_chat_template_that_fails_on_null_gets_text(
    models: ModelPool, model_server: ModelServer
) -> None:
    def template(body: Mapping[str, Any]) -> ReplyScript:
        """llama.cpp: https://github.com/ggml-org/llama.cpp, `common_chat_msgs_parse_oaicompat`."""
        if any(message.get("content") is None for message in body["messages"]):
            return refusal(500, "Failed to parse messages: content is null")
        return ReplyScript(text="fine")

    model_server.mind = template  # type: ignore[assignment]
    assert await reply_of(models, user("hi"), CALLED, RESULT, user("go on")) == "fine"


def test_openai_gets_the_name_required_by_new_models() -> None:
    config = resolve_model("openai/gpt-5-mini", (), {"OPENAI_API_KEY": "k"})
    dialect = dialect_of(config, VENDORS["openai"])
    assert (dialect.max_tokens_name, dialect.null_content) == ("max_completion_tokens", True)
