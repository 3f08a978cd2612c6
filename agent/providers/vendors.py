"""Known vendors: addresses, key variables and dialects."""

from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any, Literal

from agent.records import frozen
from agent.types import ReasoningEffort

CONTEXT_TOKENS = 128_000


@frozen
class Dialect:
    """Differences between a vendor's endpoint and OpenAI's own.

    `replay_reasoning` sends the thinking of replies back as `reasoning_content`, and a blank for
    replies of models that did not think: without it, some vendors refuse the whole conversation.
    `signs_calls`: the first tool call of a reply needs a signature, also when another model made it
    (Gemini). `efforts` are the supported levels of reasoning; empty for all. A vendor that only
    switches reasoning on and off has the body fields for it in `thinking` and `no_thinking`
    instead. `nests_effort` places the effort in an object. `null_content` allows null as the text
    of a reply that only calls tools; the chat templates of some servers fail on it.
    `takes_cache_key`: requests with the same `prompt_cache_key` reach the server that holds their
    common beginning in its cache.
    """

    max_tokens_name: str = "max_tokens"
    null_content: bool = True
    stream_usage: bool = True
    replay_reasoning: bool = False
    signs_calls: bool = False
    efforts: tuple[ReasoningEffort, ...] = ()
    nests_effort: bool = False
    thinking: Mapping[str, Any] = field(default_factory=dict)
    no_thinking: Mapping[str, Any] = field(default_factory=dict)
    takes_cache_key: bool = False

    @property
    def key(self) -> str:
        """The name under which a message stores its encoding in this dialect."""
        flags = "+reasoning" * self.replay_reasoning + "+signed" * self.signs_calls
        flags += "+empty" * (not self.null_content)
        return f"openai{flags}"


@frozen
class Vendor:
    """Vendor of models: its address, `protocol` and `dialect` of OpenAI's format.

    `responses` selects the Responses API for its models. `version` is the path appended to an
    address that names none. A vendor without `key_variables` needs no key. The variable
    `address_variable` overrides `api_base`. `default_model` is a current model that is cheap and
    good with tools; a vendor without one is never chosen automatically.
    """

    name: str
    api_base: str
    key_variables: tuple[str, ...] = ()
    default_model: str | None = None
    context_tokens: int = CONTEXT_TOKENS
    version: str | None = "v1"
    protocol: Literal["openai", "anthropic", "ollama"] = "openai"
    responses: bool = False
    dialect: Dialect = field(default_factory=Dialect)
    address_variable: str | None = None


_EFFORTS = Dialect(efforts=("none", "low", "medium", "high"))
_THINKING = Dialect(
    replay_reasoning=True,
    thinking={"thinking": {"type": "enabled"}},
    no_thinking={"thinking": {"type": "disabled"}},
)

# Order in which a key in the environment selects the user's vendor.
_TABLE = (
    # https://platform.openai.com/docs/models
    Vendor(
        "openai",
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        "gpt-6-luna",
        400_000,
        responses=True,
        dialect=Dialect(max_tokens_name="max_completion_tokens", takes_cache_key=True),
        address_variable="OPENAI_BASE_URL",
    ),
    # https://platform.claude.com/docs/en/api/overview
    Vendor(
        "anthropic",
        "https://api.anthropic.com/v1",
        ("ANTHROPIC_API_KEY",),
        "claude-haiku-5-5",
        200_000,
        protocol="anthropic",
    ),
    # https://ai.google.dev/gemini-api/docs/openai
    Vendor(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "gemini-3.6-flash",
        1_000_000,
        version="v1beta/openai",
        dialect=Dialect(signs_calls=True, efforts=("none", "minimal", "low", "medium", "high")),
    ),
    # https://api-docs.deepseek.com/quick_start/your_first_api_call
    Vendor(
        "deepseek",
        "https://api.deepseek.com/v1",
        ("DEEPSEEK_API_KEY",),
        "deepseek-flash",
        dialect=_THINKING,
    ),
    Vendor(
        "openrouter",
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        "openrouter/auto",
        dialect=Dialect(
            nests_effort=True,
            no_thinking={"reasoning": {"enabled": False}},
        ),
    ),
    # https://platform.kimi.ai/docs/models
    Vendor(
        "moonshot",
        "https://api.moonshot.ai/v1",
        ("MOONSHOT_API_KEY", "KIMI_API_KEY"),
        "kimi-k2.6",
        256_000,
        # https://platform.kimi.ai/docs/api/chat
        dialect=replace(_THINKING, takes_cache_key=True),
    ),
    Vendor(
        "zhipu",
        "https://open.bigmodel.cn/api/paas/v4",
        ("ZHIPU_API_KEY", "ZHIPUAI_API_KEY"),
        "glm-5.3",
        version=None,
        dialect=_THINKING,
    ),
    Vendor(
        "qwen",
        "https://dashscope.aliyuncs.com/compatible-mode/v1",
        ("DASHSCOPE_API_KEY", "QWEN_API_KEY"),
        "qwen-plus",
        dialect=Dialect(thinking={"enable_thinking": True}, no_thinking={"enable_thinking": False}),
    ),
    Vendor(
        "mistral",
        "https://api.mistral.ai/v1",
        ("MISTRAL_API_KEY",),
        "mistral-small-latest",
        dialect=Dialect(stream_usage=False),
    ),
    Vendor(
        "groq",
        "https://api.groq.com/openai/v1",
        ("GROQ_API_KEY",),
        "openai/gpt-oss-120b",
        dialect=_EFFORTS,
    ),
    Vendor("xai", "https://api.x.ai/v1", ("XAI_API_KEY",), "grok-4.3", dialect=_EFFORTS),
    Vendor(
        "together",
        "https://api.together.xyz/v1",
        ("TOGETHER_API_KEY",),
        "openai/gpt-oss-120b",
        dialect=_EFFORTS,
    ),
    Vendor(
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        ("FIREWORKS_API_KEY",),
        "accounts/fireworks/models/gpt-oss-120b",
        dialect=_EFFORTS,
    ),
    # The window uses the machine's memory, where a model's full window would seldom fit.
    # https://docs.ollama.com/context-length
    Vendor(
        "ollama",
        "http://localhost:11434",
        context_tokens=32_768,
        version=None,
        protocol="ollama",
    ),
    # https://docs.vllm.ai/en/latest/features/reasoning_outputs/
    Vendor(
        "vllm",
        "http://localhost:8000/v1",
        dialect=Dialect(
            null_content=False,
            thinking={"chat_template_kwargs": {"enable_thinking": True}},
            no_thinking={"chat_template_kwargs": {"enable_thinking": False}},
        ),
    ),
    Vendor("lmstudio", "http://localhost:1234/v1", dialect=Dialect(null_content=False)),
    Vendor("llamacpp", "http://localhost:8080/v1", dialect=Dialect(null_content=False)),
)

VENDORS: Mapping[str, Vendor] = MappingProxyType({vendor.name: vendor for vendor in _TABLE})

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "kimi": "moonshot",
        "google": "gemini",
        "dashscope": "qwen",
        "claude": "anthropic",
        "llama.cpp": "llamacpp",
    }
)


def find_vendor(name: str) -> Vendor | None:
    return VENDORS.get(ALIASES.get(name, name))
