"""Every format in which Kore sends requests to a model, as rows of one table."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from agent.providers.anthropic.provider import AnthropicProvider, anthropic_endpoint
from agent.providers.base import ClosingProvider
from agent.providers.http.openai_sdk_transport import SdkTransport
from agent.providers.http.transport import Deadlines, Endpoint
from agent.providers.ollama import PATH, OllamaProvider
from agent.providers.openai.provider import OpenAICompatibleProvider
from agent.providers.openai.responses.provider import PATH as RESPONSES_PATH
from agent.providers.openai.responses.provider import OpenAIResponsesProvider
from agent.providers.text_tools.provider import TextToolProvider
from tests.fakes.model_script import ReplyScript

KEY = "sk-very-secret-key"


def _same(script: ReplyScript) -> ReplyScript:
    return script


def _in_text(script: ReplyScript) -> ReplyScript:
    """Write calls as a model without native tool calls does."""
    texts = [
        f'<tool name="{call.name}">{_argument_text(call.arguments)}</tool>'
        for call in script.tool_calls
    ]
    return replace(script, text="\n".join(filter(None, [script.text, *texts])), tool_calls=())


def _argument_text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Format:
    """An API format; `open` takes root, deadlines and key, `word` adapts a script to the format.

    `retells_ids`: calls retain the ids that the server assigned.
    """

    open: Callable[[str, Deadlines, str], ClosingProvider]
    word: Callable[[ReplyScript], ReplyScript] = _same
    retells_ids: bool = True
    key_variable: str = "OPENAI_API_KEY"


def _openai(root: str, deadlines: Deadlines, key: str) -> OpenAICompatibleProvider:
    endpoint = Endpoint("openai", f"{root}/v1", key, "OPENAI_API_KEY")
    return OpenAICompatibleProvider(endpoint, deadlines=deadlines)


def _sdk(root: str, deadlines: Deadlines, key: str) -> OpenAICompatibleProvider:
    endpoint = Endpoint("openai", f"{root}/v1", key, "OPENAI_API_KEY")
    return OpenAICompatibleProvider(
        endpoint, SdkTransport(endpoint, deadlines), deadlines=deadlines
    )


def _responses(root: str, deadlines: Deadlines, key: str) -> OpenAIResponsesProvider:
    endpoint = Endpoint("openai", f"{root}/v1", key, "OPENAI_API_KEY", RESPONSES_PATH)
    return OpenAIResponsesProvider(endpoint, deadlines=deadlines)


def _responses_sdk(root: str, deadlines: Deadlines, key: str) -> OpenAIResponsesProvider:
    endpoint = Endpoint("openai", f"{root}/v1", key, "OPENAI_API_KEY", RESPONSES_PATH)
    return OpenAIResponsesProvider(endpoint, SdkTransport(endpoint, deadlines), deadlines=deadlines)


def _anthropic(root: str, deadlines: Deadlines, key: str) -> AnthropicProvider:
    endpoint = anthropic_endpoint("anthropic", f"{root}/v1", key, "ANTHROPIC_API_KEY")
    return AnthropicProvider(endpoint, deadlines=deadlines)


def _ollama(root: str, deadlines: Deadlines, key: str) -> OllamaProvider:
    endpoint = Endpoint("ollama", root, key, path=PATH)
    return OllamaProvider(endpoint, context_tokens=8192, deadlines=deadlines)


def _xml(root: str, deadlines: Deadlines, key: str) -> TextToolProvider:
    return TextToolProvider(_openai(root, deadlines, key))


FORMATS: Mapping[str, Format] = {
    "openai": Format(_openai),
    "openai by sdk": Format(_sdk),
    "responses": Format(_responses),
    "responses by sdk": Format(_responses_sdk),
    "anthropic": Format(_anthropic, key_variable="ANTHROPIC_API_KEY"),
    "ollama": Format(_ollama, key_variable="api_key"),
    "xml": Format(_xml, _in_text, retells_ids=False),
    "xml in ollama": Format(lambda *to: TextToolProvider(_ollama(*to)), _in_text, False, "api_key"),
}
