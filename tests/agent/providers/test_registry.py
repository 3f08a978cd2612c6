"""Resolution of model names to providers."""

import re
import tomllib

import pytest

from agent.errors import ConfigError
from agent.providers.base import Provider
from agent.providers.custom import CustomProvider
from agent.providers.model_facts import TABLE, listed_row
from agent.providers.opening import open_provider
from agent.providers.registry import (
    ModelConfig,
    default_model,
    normalise_base,
    register_provider,
    resolve_model,
)
from agent.providers.scripted import EchoProvider, ScriptedProvider
from agent.providers.vendors import ALIASES, VENDORS

KEYS = {"OPENAI_API_KEY": "sk-o", "MINE": "sk-m"}


def test_vendor_and_model_suffice() -> None:
    config = resolve_model("openai/gpt-5", [], KEYS)
    assert (config.vendor, config.model_id) == ("openai", "gpt-5")
    assert config.api_base == "https://api.openai.com/v1"
    assert config.api_key == "sk-o"
    assert config.context_tokens == 272_000
    assert (config.images, config.reasoning, config.reply_tokens) == (True, True, 128_000)


def test_unknown_model_gets_the_window_of_its_vendor_or_a_default() -> None:
    unknown = resolve_model("openai/gpt-99", [], KEYS)
    assert unknown.context_tokens == VENDORS["openai"].context_tokens > 128_000
    assert (unknown.images, unknown.reasoning, unknown.reply_tokens) == (None, None, None)
    entry = ModelConfig("mine", "openai/gpt-99", "http://localhost:1/v1")
    assert resolve_model("mine", [entry], {}).context_tokens == 128_000


def test_configured_model_facts_override_known_facts() -> None:
    entry = ModelConfig("mine", "openai/gpt-4", context_tokens=5000, images=True, reasoning=True)
    config = resolve_model("mine", [entry], KEYS)
    assert (config.context_tokens, config.images, config.reasoning) == (5000, True, True)
    assert resolve_model("openai/gpt-4", [], KEYS).images is False
    snapshot = resolve_model("openai/gpt-4o-2024-08-06", [], KEYS)
    assert (snapshot.context_tokens, snapshot.reasoning) == (128_000, False)


def test_model_name_may_contain_slashes() -> None:
    config = resolve_model("openrouter/openai/gpt-5", [], {"OPENROUTER_API_KEY": "k"})
    assert (config.vendor, config.model_id) == ("openrouter", "openai/gpt-5")


def test_configured_entry_overrides_its_vendor() -> None:
    entry = ModelConfig("mine", "openai/gpt-4", "https://proxy.example/", "${MINE}", "sdk", 9000)
    config = resolve_model("mine", [entry], KEYS)
    assert config.api_base == "https://proxy.example/v1"
    assert config.api_key == "sk-m"
    assert config.context_tokens == 9000
    assert config.transport == "sdk"


def test_configured_name_wins_over_a_vendor() -> None:
    entry = ModelConfig("openai/gpt-5", "ollama/llama3.2")
    assert resolve_model("openai/gpt-5", [entry], {}).vendor == "ollama"


def test_resolving_is_idempotent() -> None:
    entry = ModelConfig("mine", "openai/gpt-4", "https://proxy.example")
    once = resolve_model("mine", [entry], KEYS)
    assert resolve_model("mine", [once], {}) == once


def test_entry_address_overrides_the_environment() -> None:
    environ = {**KEYS, "OPENAI_BASE_URL": " https://proxy.example/openai/ "}
    assert resolve_model("openai/gpt-5", [], environ).api_base == "https://proxy.example/openai/v1"
    entry = ModelConfig("mine", "openai/gpt-5", "https://own.example/v2")
    assert resolve_model("mine", [entry], environ).api_base == "https://own.example/v2"
    assert resolve_model("groq/x", [], {**environ, "GROQ_API_KEY": "k"}).api_base == (
        VENDORS["groq"].api_base
    )
    assert resolve_model("openai/gpt-5", [], {**KEYS, "OPENAI_BASE_URL": ""}).api_base == (
        VENDORS["openai"].api_base
    )


def test_invalid_address_in_the_environment_is_named() -> None:
    with pytest.raises(ConfigError, match=r"environment variable OPENAI_BASE_URL: found 'nowhere'"):
        resolve_model("openai/gpt-5", [], {**KEYS, "OPENAI_BASE_URL": "nowhere"})


@pytest.mark.parametrize("name", ["ollama/llama3.2", "vllm/x", "lmstudio/x", "offline/echo"])
def test_local_models_need_no_key(name: str) -> None:
    assert resolve_model(name, [], {}).api_key is None


def test_aliases_resolve_to_their_vendors() -> None:
    assert resolve_model("kimi/k", [], {"MOONSHOT_API_KEY": "k"}).vendor == "moonshot"
    assert set(ALIASES.values()) <= set(VENDORS)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("openai/gpt-5", ["OPENAI_API_KEY", "api_key"]),
        ("qick", ["did you mean 'quick'?"]),
        ("opnai/gpt-5", ["did you mean 'openai/gpt-5'?"]),
        ("locla", ["'locla'", "did you mean 'local'?", "model_list (local)"]),
        ("openai/", ["'openai/'"]),
        ("offline/ecko", ["did you mean 'offline/echo'?"]),
        ("", ["unknown model ''"]),
    ],
)
def test_error_names_the_fix(name: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_model(name, [ModelConfig("local", "ollama/llama3.2")], {})
    for word in words:
        assert word in str(caught.value)


def test_unset_variable_is_named() -> None:
    entry = ModelConfig("mine", "openai/gpt-4", api_key="${NOT_SET}")
    with pytest.raises(ConfigError, match="NOT_SET"):
        resolve_model("mine", [entry], KEYS)


def test_repr_contains_no_key() -> None:
    assert "sk-o" not in repr(resolve_model("openai/gpt-5", [], KEYS))


@pytest.mark.parametrize(
    ("address", "version", "expected"),
    [
        ("https://a.example", "v1", "https://a.example/v1"),
        ("https://a.example/v1/", "v1", "https://a.example/v1"),
        ("https://a.example/v1/chat/completions", "v1", "https://a.example/v1"),
        ("https://a.example/openai", "v1", "https://a.example/openai/v1"),
        ("https://a.example/v1/acct/openai", "v1", "https://a.example/v1/acct/openai"),
        ("https://a.example/v1beta/openai/", "v1", "https://a.example/v1beta/openai"),
        ("http://localhost:11434", "v1", "http://localhost:11434/v1"),
        ("https://a.example/api/paas/v4", None, "https://a.example/api/paas/v4"),
        ("https://a.example/", None, "https://a.example"),
        ("https://a.example/anthropic/v1/messages", "v1", "https://a.example/anthropic/v1"),
        ("http://localhost:11434/api/chat", None, "http://localhost:11434"),
    ],
)
def test_addresses_are_normalised(address: str, version: str | None, expected: str) -> None:
    assert normalise_base(address, version) == expected
    assert normalise_base(expected, version) == expected


@pytest.mark.parametrize(
    "address",
    [
        "localhost:11434", "ftp://a", "https://", "words", "http://[::1", "http://a:99999/v1",
        "http://a..b/v1", "http://a b/v1",
    ],
)  # fmt: skip
def test_invalid_address_is_rejected(address: str) -> None:
    with pytest.raises(ConfigError, match=r"'mine'.*api_base"):
        resolve_model("mine", [ModelConfig("mine", "ollama/x", address)], {})


def test_password_in_an_address_is_rejected_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="api_key") as caught:
        resolve_model("mine", [ModelConfig("mine", "ollama/x", "http://me:hidden@host/v1")], {})
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("key", ["sk-a\nb", "sk a", "sk-€"])
def test_key_invalid_in_a_header_is_rejected_and_not_repeated(key: str) -> None:
    for entry in (
        ModelConfig("mine", "openai/x", api_key=key),
        ModelConfig("mine", "openai/x", api_key="${MINE}"),
        ModelConfig("mine", "openai/x"),
    ):
        with pytest.raises(ConfigError, match=r"'mine'.*key") as caught:
            resolve_model("mine", [entry], {"MINE": key, "OPENAI_API_KEY": key})
        assert key not in str(caught.value)


def test_blanks_around_a_key_are_stripped() -> None:
    for entry in (
        ModelConfig("mine", "openai/x", api_key=" k\n"),
        ModelConfig("mine", "openai/x", api_key="${MINE}"),
        ModelConfig("mine", "openai/x"),
    ):
        config = resolve_model("mine", [entry], {"MINE": "k\n", "OPENAI_API_KEY": " k\n"})
        assert config.api_key == "k"


@pytest.mark.parametrize(
    "address",
    [
        "http://h:1",
        "http://h:1/",
        "http://h:1/v1",
        "http://h:1/v1/chat/completions",
        "http://h:1/api",
    ],
)
def test_ollama_uses_its_native_api_at_any_address(address: str) -> None:
    entry = ModelConfig("local", "ollama/llama3.2", address)
    assert resolve_model("local", [entry], {}).api_base == "http://h:1"


def test_unsuitable_openai_library_is_rejected() -> None:
    entry = ModelConfig("m", "anthropic/claude-opus-5", transport="sdk", api_key="k")
    with pytest.raises(ConfigError, match="transport"):
        open_provider(resolve_model("m", [entry], {}))


def test_vendor_addresses_are_normalised() -> None:
    for vendor in VENDORS.values():
        assert normalise_base(vendor.api_base, vendor.version) == vendor.api_base


@pytest.mark.parametrize(
    ("environ", "local", "expected"),
    [
        ({}, [], "offline/echo"),
        ({}, ["ollama/llama3.2", "vllm/x"], "ollama/llama3.2"),
        ({"ANTHROPIC_API_KEY": "k"}, ["ollama/llama3.2"], "anthropic/claude-haiku-5-5"),
        ({"GROQ_API_KEY": "k", "OPENAI_API_KEY": ""}, [], "groq/openai/gpt-oss-120b"),
    ],
)
def test_first_key_selects_the_default_model(
    environ: dict[str, str], local: list[str], expected: str
) -> None:
    assert default_model(environ, local) == expected


def test_vendor_alone_means_its_default_model() -> None:
    environ = {"ANTHROPIC_API_KEY": "k"}
    for name in ("anthropic", "claude"):
        assert resolve_model(name, [], environ).model == "anthropic/claude-haiku-5-5"
    entry = ModelConfig("anthropic", "openai/x", api_base="http://localhost:9")
    assert resolve_model("anthropic", [entry], environ).model == "openai/x"
    with pytest.raises(ConfigError, match="unknown model 'ollama'"):
        resolve_model("ollama", [], environ)


def test_every_default_model_resolves() -> None:
    for vendor in VENDORS.values():
        if vendor.default_model:
            environ = {vendor.key_variables[0]: "k"}
            assert default_model(environ).startswith(f"{vendor.name}/")
            assert resolve_model(default_model(environ), [], environ).vendor == vendor.name


@pytest.mark.parametrize("transport", ["aiohttp", "sdk"])
async def test_configs_open_providers(transport: str) -> None:
    entry = ModelConfig("m", "openai/gpt-5", transport=transport)  # type: ignore[arg-type]
    provider = open_provider(resolve_model("m", [entry], KEYS))
    assert provider.name == "openai"
    await provider.aclose()
    assert isinstance(open_provider(resolve_model("offline/echo", [], {})), EchoProvider)


def test_registered_provider_is_found_by_name() -> None:
    made: list[ModelConfig] = []

    def factory(config: ModelConfig) -> Provider:
        made.append(config)
        return ScriptedProvider(["hi"])

    register_provider("my-vendor", factory)
    provider = open_provider(resolve_model("my-vendor/big", [], {}))
    assert isinstance(provider, CustomProvider)
    assert isinstance(provider.provider, ScriptedProvider)
    assert provider.name == "my-vendor"
    assert made[0].model_id == "big"


@pytest.mark.parametrize("name", ["openai", "kimi", "offline", "a/b", ""])
def test_built_in_names_cannot_be_registered(name: str) -> None:
    with pytest.raises(ConfigError):
        register_provider(name, lambda config: ScriptedProvider([]))


_VERSION = re.compile(r"\d+(?:[.-]\d+)*")


def version_of(model: str) -> tuple[int, ...]:
    numbers = _VERSION.search(model)
    return tuple(map(int, re.split("[.-]", numbers[0]))) if numbers else ()


def test_default_models_are_of_the_current_generation() -> None:
    """No newer model of the vendor has a window as large and prices as low."""
    table = tomllib.loads(TABLE.read_text("utf-8"))
    for vendor in VENDORS.values():
        default = listed_row(vendor.name, vendor.default_model or "")
        window = default.get("window_tokens", vendor.context_tokens)
        for model, row in table.get(vendor.name, {}).items() if default else ():
            assert not (
                version_of(model) > version_of(vendor.default_model or "")
                and row.get("window_tokens", vendor.context_tokens) >= window
                and row["input"] <= default["input"]
                and row["output"] <= default["output"]
            ), f"{vendor.name}: {vendor.default_model} is older and not better than {model}"
