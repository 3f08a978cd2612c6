"""Detection of secrets in a process."""

import json
from pathlib import Path

from gateway.runtime.secrets import describe, redactor_of, secret_values, unredacted_settings
from tests.gateway.config.loading import load

TOKEN = "123456:AAcanary-token-of-the-bot-4f9Qx2z7"


def test_secrets_from_every_source_are_redacted(tmp_path: Path) -> None:
    file = tmp_path / "home" / "secrets.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"NEVER_NAMED": "canary-of-secrets-json-4f9Qx2z7"}))
    file.chmod(0o600)
    environ = {
        "DEEPSEEK_API_KEY": "canary-of-a-vendor-4f9Qx2z7",
        "MY_KEY": "canary-behind-a-reference-4f9Qx2z7",
        "MY_PASSWORD": "canary-in-an-address-4f9Qx2z7",
        "STORE_KEY": "canary-of-the-store-4f9Qx2z7",
        "HOME": "/home/somebody",
    }
    server = {"command": "x", "env": {"K_TOKEN": "canary-of-a-server-4f9Qx2z7"}}
    settings = load(
        tmp_path,
        {
            "telegram": {"token": TOKEN, "webhook_secret": "canary-of-the-webhook-4f9Qx2z7"},
            "model_list": [
                {"model_name": "a", "model": "openai/gpt-5", "api_key": "${MY_KEY}"},
                {
                    "model_name": "b",
                    "model": "openai/gpt-5",
                    "api_base": "https://me:${MY_PASSWORD}@host/v1",
                    "api_key": "ollama",
                },
            ],
            "mcp_servers": {"s": server},
            "store": {"encryption_key_env": "STORE_KEY"},
            "agent": {"workspace": "${HOME}/work"},
        },
        environ=environ,
    )
    assert secret_values(settings, environ) == {
        TOKEN,
        "AAcanary-token-of-the-bot-4f9Qx2z7",
        "canary-of-secrets-json-4f9Qx2z7",
        "canary-of-the-webhook-4f9Qx2z7",
        "canary-of-a-vendor-4f9Qx2z7",
        "canary-behind-a-reference-4f9Qx2z7",
        "canary-in-an-address-4f9Qx2z7",
        "canary-of-the-store-4f9Qx2z7",
        "canary-of-a-server-4f9Qx2z7",
    }
    shown = redactor_of(settings, environ).clean(json.dumps(describe(settings)))
    assert "canary" not in shown
    assert "/home/somebody/work" in shown


def test_password_inside_a_text_is_redacted_in_both_spellings(tmp_path: Path) -> None:
    server = {
        "command": "x",
        "args": [
            "--from=ftp://me:first-4f9Qx2z7@a --to=ftp://me:se%2F4f9Qx2z7@b",
            "http://[no@address",
        ],
    }
    settings = load(tmp_path, {"mcp_servers": {"s": server}})
    values = secret_values(settings, {})
    assert {"first-4f9Qx2z7", "se%2F4f9Qx2z7", "se/4f9Qx2z7"} <= values


def test_path_of_a_secret_is_not_redacted(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "client-4f9Qx2z7bWq8.json"
    key = "/4f9Qx2z7/bWq8Lk3vTn5"
    path.parent.mkdir()
    env = {"CREDENTIALS": str(path), "API_KEY": key}
    settings = load(tmp_path, {"mcp_servers": {"s": {"command": "x", "env": env}}})
    redactor = redactor_of(settings, {})
    assert redactor.clean(f"cannot open {path}") == f"cannot open {path}"
    assert key not in redactor.clean(f"invalid key {key}")


def test_placeholder_key_is_not_redacted(tmp_path: Path) -> None:
    entry = {"model_name": "m", "model": "ollama/llama3.2", "api_key": "ollama"}
    settings = load(tmp_path, {"model_list": [entry]})
    assert redactor_of(settings, {}).clean("ollama/llama3.2") == "ollama/llama3.2"


def test_secret_settings_whose_value_is_a_common_word_are_named(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        {
            "store": {"url": "postgresql://kore:kore@127.0.0.1/kore"},
            "model_list": [{"model_name": "m", "model": "vllm/qwen", "api_key": "not-needed"}],
            "mcp_servers": {
                "s": {"command": "x", "env": {"API_TOKEN": "changeme", "STAGE": "production"}}
            },
            "telegram": {"token": TOKEN},
        },
    )
    names = {"store.url", "model_list.0.api_key", "mcp_servers.s.env.API_TOKEN"}
    assert set(unredacted_settings(settings)) == names
