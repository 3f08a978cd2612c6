"""What counts as secret in a process."""

import json
from pathlib import Path

from gateway.runtime.secrets import describe, redactor_of, secret_values
from tests.gateway.config.loading import load

TOKEN = "123456:AAcanary-token-of-the-bot"


def test_every_place_that_holds_a_secret_is_known(tmp_path: Path) -> None:
    file = tmp_path / "home" / "secrets.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"NEVER_NAMED": "canary-of-secrets-json"}))
    file.chmod(0o600)
    environ = {
        "DEEPSEEK_API_KEY": "canary-of-a-vendor",
        "MY_KEY": "canary-behind-a-reference",
        "MY_PASSWORD": "canary-in-an-address",
        "STORE_KEY": "canary-of-the-store",
        "HOME": "/home/somebody",
    }
    settings = load(
        tmp_path,
        {
            "telegram": {"token": TOKEN, "webhook_secret": "canary-of-the-webhook"},
            "model_list": [
                {"model_name": "a", "model": "openai/gpt-5", "api_key": "${MY_KEY}"},
                {
                    "model_name": "b",
                    "model": "openai/gpt-5",
                    "api_base": "https://me:${MY_PASSWORD}@host/v1",
                    "api_key": "ollama",
                },
            ],
            "mcp_servers": {"s": {"command": "x", "env": {"K": "canary-of-a-server"}}},
            "store": {"encryption_key_env": "STORE_KEY"},
            "agent": {"workspace": "${HOME}/work"},
        },
        environ=environ,
    )
    assert secret_values(settings, environ) == {
        TOKEN,
        "AAcanary-token-of-the-bot",
        "canary-of-secrets-json",
        "canary-of-the-webhook",
        "canary-of-a-vendor",
        "canary-behind-a-reference",
        "canary-in-an-address",
        "canary-of-the-store",
        "canary-of-a-server",
    }
    shown = redactor_of(settings, environ).clean(json.dumps(describe(settings)))
    assert "canary" not in shown
    assert "/home/somebody/work" in shown


def test_a_password_inside_any_text_is_known_in_both_spellings(tmp_path: Path) -> None:
    server = {
        "command": "x",
        "args": ["--from=ftp://me:first-canary@a --to=ftp://me:se%2Fcond@b", "http://[no@address"],
    }
    settings = load(tmp_path, {"mcp_servers": {"s": server}})
    found = secret_values(settings, {})
    assert {"first-canary", "se%2Fcond", "se/cond"} <= found


def test_a_placeholder_for_a_key_is_an_ordinary_word(tmp_path: Path) -> None:
    entry = {"model_name": "m", "model": "ollama/llama3.2", "api_key": "ollama"}
    settings = load(tmp_path, {"model_list": [entry]})
    assert redactor_of(settings, {}).clean("ollama/llama3.2") == "ollama/llama3.2"
