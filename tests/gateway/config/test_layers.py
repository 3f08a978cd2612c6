import json
from pathlib import Path

import pytest

from agent.errors import ConfigError
from gateway.channels.telegram.spec import SPEC as TELEGRAM
from gateway.config import Settings
from tests.gateway.config.loading import load


def test_only_the_given_layers_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".env").write_text("KORE_HTTP_PORT=2\nHTTP={}\n")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("KORE_HTTP_PORT", "1")
    monkeypatch.setenv("AGENT", '{"model": "evil/model"}')
    assert (Settings().http.port, Settings().agent.model) == (8787, "default")
    settings = load(tmp_path)
    assert (settings.http.port, settings.agent.model) == (8787, "default")


def test_maps_and_lists_are_replaced_and_not_merged(tmp_path: Path) -> None:
    user = {
        "access": {"roles": {"telegram:1": "admin"}},
        "mcp_servers": {"a": {"command": "x", "env": {"K": "v"}}},
        "telegram": {"allow_from": [1]},
    }
    settings = load(
        tmp_path,
        user,
        environ={
            "KORE_ACCESS_ROLES": '{"telegram:2": "guest"}',
            "KORE_MCP_SERVERS": json.dumps({"a": {"url": "https://h"}}),
            "KORE_TELEGRAM_ALLOW_FROM": "[2]",
        },
    )
    assert settings.access.roles == {"telegram:2": "guest"}
    assert (settings.mcp_servers["a"].command, settings.mcp_servers["a"].env) == (None, {})
    assert TELEGRAM.section_of(settings).allow_from == ("2",)


def test_overridden_reference_may_be_unset(tmp_path: Path) -> None:
    user = {"http": {"port": "${GONE}"}}
    assert load(tmp_path, user, environ={"KORE_HTTP_PORT": "1"}).http.port == 1
    with pytest.raises(ConfigError, match=r"config.json: http.port: found \$\{GONE\}"):
        load(tmp_path, user)


def test_unset_reference_does_not_fall_back_to_a_lower_layer(tmp_path: Path) -> None:
    settings = load(
        tmp_path, {"telegram": {"token": "old"}}, environ={"KORE_TELEGRAM_TOKEN": "${GONE}"}
    )
    assert TELEGRAM.section_of(settings).token.get_secret_value() == ""
    assert [lack.name for lack in settings.missing] == ["GONE"]


def test_null_clears_lower_layers(tmp_path: Path) -> None:
    user = {"agent": {"max_tokens": 5}, "logging": {"file": "x.log"}}
    environ = {"KORE_AGENT_MAX_TOKENS": "null", "KORE_LOGGING_FILE": "null"}
    settings = load(tmp_path, user, environ=environ)
    assert (settings.agent.max_tokens, settings.logging.file) == (None, None)


def test_each_error_names_its_layer(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(
            tmp_path,
            {"http": {"port": "x"}, "tools": {"exec_timeout_s": 0}},
            project={"tools": {"web_search_results": 99}},
            environ={"KORE_HTTP_PORT": "99999"},
            agent__temperature=3,
        )
    lines = sorted(line.replace(str(tmp_path), "") for line in str(caught.value).splitlines())
    assert lines == [
        "/home/config.json: tools.exec_timeout_s: found 0, expected more than 0",
        "/work/.kore/config.json: tools.web_search_results: found 99, expected at most 50",
        "command line: agent.temperature: found 3, expected at most 2",
        "environment variable KORE_HTTP_PORT: http.port: found 99999, expected at most 65535",
    ]


def test_plain_lists_are_separated_by_commas(tmp_path: Path) -> None:
    environ = {
        "KORE_TELEGRAM_ALLOW_FROM": "123, 456,",
        "KORE_SECURITY_BLOCKED_PATHS": ".secret",
        "KORE_AGENT_FALLBACK": "offline/echo",
    }
    settings = load(tmp_path, {}, environ=environ)
    assert TELEGRAM.section_of(settings).allow_from == ("123", "456")
    assert settings.security.blocked_paths == (".secret",)
    assert settings.agent.fallback == "offline/echo"


def test_list_of_objects_is_json(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="KORE_MODEL_LIST: model_list: expected JSON such as"):
        load(tmp_path, {}, environ={"KORE_MODEL_LIST": "gpt"})
