import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ConfigError
from agent.i18n import use_locale
from gateway.channels.table import check_channels
from gateway.channels.telegram.spec import SPEC as TELEGRAM
from gateway.config import Settings, load_settings, require_model
from gateway.config.model_entries import chosen_model, model_list
from tests.gateway.config.loading import load

EXAMPLE = Path(__file__).parents[3] / "config.example.json"
CANARY = "sk-CANARY-8f3a1c"

any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)
keys = st.sampled_from(
    [
        f"{name}.{key}"
        for name, info in Settings.model_fields.items()
        for key in getattr(info.annotation, "model_fields", [""])
    ]
)


def complaint(act: Callable[[], object]) -> str | None:
    """Return the text of the configuration error, if any; other exceptions propagate."""
    try:
        act()
    except ConfigError as exc:
        return str(exc)
    return None


def test_example_is_a_valid_configuration(tmp_path: Path) -> None:
    load(tmp_path, json.loads(EXAMPLE.read_text()), environ={"OPENAI_API_KEY": "k"})


def test_documented_empty_values_are_accepted(tmp_path: Path) -> None:
    config = {"telegram": {"long_answer_messages": 0}, "media": {"keep_days": None}}
    settings = load(tmp_path, config)
    assert TELEGRAM.section_of(settings).long_answer_messages == 0
    assert settings.media.keep_days is None


def test_defaults_without_a_file_are_in_the_home(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert settings.agent.workspace == tmp_path / "home" / "workspace"
    assert settings.store.path == tmp_path / "home" / "kore.db"
    assert settings.files == ()


@given(
    given_at=st.lists(st.sampled_from(["user", "project", "environ", "override"]), unique=True),
    start=st.integers(1, 1000),
)
def test_each_layer_overrides_lower_layers(given_at: list[str], start: int) -> None:
    value = {name: start + n for n, name in enumerate(("user", "project", "environ", "override"))}
    content = {name: {"agent": {"max_iterations": n}} for name, n in value.items()}
    with tempfile.TemporaryDirectory() as root:
        settings = load(
            Path(root),
            content["user"] if "user" in given_at else None,
            project=content["project"] if "project" in given_at else None,
            environ={"KORE_AGENT_MAX_ITERATIONS": str(value["environ"])}
            if "environ" in given_at
            else {},
            agent__max_iterations=value["override"] if "override" in given_at else None,
        )
    expected = max((value[name] for name in given_at), default=200)
    assert settings.agent.max_iterations == expected


@given(
    iterations=st.integers(1, 10**6),
    temperature=st.none() | st.floats(0, 2),
    token=st.just("") | st.from_regex(r"[0-9]{1,9}:[!-#%-~]{1,20}", fullmatch=True),
    commands=st.lists(st.from_regex(r"[a-z]{1,8}", fullmatch=True)),
)
def test_written_settings_are_read_back(
    iterations: int, temperature: float | None, token: str, commands: list[str]
) -> None:
    result = {
        "agent": {"max_iterations": iterations, "temperature": temperature},
        "telegram": {"token": token},
        "security": {"blocked_commands": commands},
    }
    with tempfile.TemporaryDirectory() as root:
        settings = load(Path(root), result)
        again = load(Path(root), {**settings.model_dump(mode="json"), "telegram": {"token": token}})
    assert settings.agent.max_iterations == iterations
    assert settings.agent.temperature == temperature
    assert TELEGRAM.section_of(settings).token.get_secret_value() == token
    assert list(settings.security.blocked_commands) == commands
    assert again == settings


@given(any_json)
def test_file_with_any_content_causes_no_crash(content: Any) -> None:
    with tempfile.TemporaryDirectory() as root:
        result = complaint(lambda: load(Path(root), json.dumps(content)))
        assert result is None or str(Path(root) / "home" / "config.json") in result


@given(keys, any_json, st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_any_value_causes_no_crash(key: str, content: Any, text: str) -> None:
    section, _, name = key.partition(".")
    file = {section: {name: content} if name else content}
    variable = f"KORE_{section}_{name}".upper().rstrip("_")
    for user, environ in ((json.dumps(file), {}), (None, {variable: text})):
        with tempfile.TemporaryDirectory() as root:
            assert complaint(lambda: load(Path(root), user, environ=environ)) != ""  # noqa: B023


@given(st.binary(max_size=200))
def test_any_bytes_cause_no_crash(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / "c.json"
        path.write_bytes(content)
        where = {"home": Path(root), "cwd": Path(root)}
        result = complaint(lambda: load_settings(config=path, **where, environ={}, overrides={}))
        assert result is None or str(path) in result


@given(keys)
def test_error_never_repeats_a_secret(key: str) -> None:
    section, _, name = key.partition(".")
    wrong: list[Any] = [CANARY, [CANARY], {CANARY[:2]: CANARY}, {"a": {"api_key": [CANARY]}}]
    if section == "model_list":
        wrong = [[{"model_name": "a", "model": CANARY}], [{"model": "a/b", "api_key": [CANARY]}]]
    for value in wrong:
        with tempfile.TemporaryDirectory() as root:
            result = complaint(
                lambda: load(
                    Path(root),
                    {section: {name: value} if name else value},  # noqa: B023
                    environ={"KORE_HTTP_PORT": CANARY, "KORE_AGENT_THINKING": "${K}", "K": CANARY},
                )
            )
        assert result is not None
        assert CANARY not in result


def test_settings_print_without_secrets(tmp_path: Path) -> None:
    settings = load(tmp_path, {"telegram": {"token": f"1:{CANARY}"}})
    assert CANARY not in repr(settings) + str(settings) + settings.model_dump_json()


@pytest.mark.parametrize("name", ["KORE_TELEGRAM_TOKEN", "KORE_TELEGRAM__TOKEN"])
def test_both_spellings_of_a_variable_are_read(tmp_path: Path, name: str) -> None:
    settings = load(tmp_path, environ={name: "1:a"})
    assert TELEGRAM.section_of(settings).token.get_secret_value() == "1:a"


def test_variable_of_the_store_key_is_not_a_setting(tmp_path: Path) -> None:
    user = {"store": {"encryption_key_env": "KORE_STORE_KEY"}}
    settings = load(tmp_path, user, environ={"KORE_STORE_KEY": "k" * 44})
    assert settings.store.encryption_key_env == "KORE_STORE_KEY"


def test_lists_come_from_the_environment_as_json(tmp_path: Path) -> None:
    entry = {"model_name": "m", "model": "ollama/x"}
    settings = load(
        tmp_path,
        environ={"KORE_MODEL_LIST": json.dumps([entry]), "KORE_TELEGRAM_ALLOW_FROM": '[1, "*"]'},
    )
    assert settings.model_list[0].model == "ollama/x"
    assert TELEGRAM.section_of(settings).allow_from == ("1", "*")


def test_empty_variable_counts_as_unset(tmp_path: Path) -> None:
    assert load(tmp_path, environ={"KORE_HTTP_PORT": ""}).http.port == 8787


def test_other_variables_are_ignored(tmp_path: Path) -> None:
    load(tmp_path, environ={"KORE_HOME": "/x", "KORE_BUILD_NUMBER": "7", "KOREA": "1"})


def test_reference_is_resolved_from_the_environment_then_from_the_secrets(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    secrets = tmp_path / "home" / "secrets.json"
    secrets.write_text('{"A": "1:file", "B": "b"}')
    secrets.chmod(0o600)
    user = {"telegram": {"token": "${A}", "webhook_secret": "x${B}"}, "http": {"port": "${P}"}}
    settings = load(tmp_path, user, environ={"A": "1:outside", "P": "81"})
    assert TELEGRAM.section_of(settings).token.get_secret_value() == "1:outside"
    assert TELEGRAM.section_of(settings).webhook_secret
    assert TELEGRAM.section_of(settings).webhook_secret.get_secret_value() == "xb"
    assert settings.http.port == 81


@pytest.mark.skipif(os.name != "posix", reason="modes mean nothing there")
def test_secrets_readable_by_others_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    secrets = tmp_path / "home" / "secrets.json"
    secrets.write_text("{}")
    secrets.chmod(0o644)
    with pytest.raises(ConfigError, match="mode 0644") as caught:
        load(tmp_path)
    assert caught.value.hint == f"chmod 600 {secrets}"


TWO_MODELS = {
    "agent": {"model": "a"},
    "model_list": [
        {"model_name": "a", "model": "openai/x", "api_key": "${KEY_A}"},
        {"model_name": "b", "model": "openai/y", "api_key": "${KEY_B}", "api_base": "${URL_B}"},
    ],
}


def test_missing_key_of_an_unused_model_is_accepted(tmp_path: Path) -> None:
    settings = load(tmp_path, TWO_MODELS, environ={"KEY_A": "k"})
    require_model(settings)
    first, second = model_list(settings)
    assert (first.api_key, second.api_key, second.api_base) == ("k", "${KEY_B}", "${URL_B}")


def test_missing_key_of_the_selected_model_is_named(tmp_path: Path) -> None:
    settings = load(tmp_path, TWO_MODELS)
    with pytest.raises(ConfigError, match=r"config.json: model_list\[0\].api_key: .*KEY_A"):
        require_model(settings)
    require_model(load(tmp_path, TWO_MODELS, agent__model="offline/echo"))


@pytest.mark.parametrize("token", ["hello", "98765", "bot1:AAF0", "1: 2", "1:"])
def test_invalid_token_is_rejected_without_quoting_it(tmp_path: Path, token: str) -> None:
    with pytest.raises(ConfigError, match=r"telegram\.token: .*BotFather") as caught:
        load(tmp_path, {"telegram": {"token": token}})
    assert token not in str(caught.value)


def test_missing_token_is_an_error_if_telegram_is_enabled(tmp_path: Path) -> None:
    check_channels(load(tmp_path, {"telegram": {"token": "${T}"}}))
    with pytest.raises(ConfigError, match=r"telegram.token: found \$\{T\}"):
        check_channels(load(tmp_path, {"telegram": {"token": "${T}", "enabled": True}}))
    with pytest.raises(ConfigError, match=r"telegram\.token is required"):
        check_channels(load(tmp_path, {"telegram": {"enabled": True}}))


@pytest.mark.parametrize(
    "content",
    [
        {"telegram": {"token": "x"}},
        {"agent": {"workspace": "/"}},
        {"agent": {"model": "evil/model"}},
        {"model_list": []},
        {"security": {"sandbox": "none"}},
        {"mcp_servers": {}},
        {"http": {"host": "0.0.0.0"}},
        {"store": {"url": "sqlite:///x"}},
        {"tools": {"asset_export": True}},
    ],
)
def test_project_file_may_set_only_harmless_keys(tmp_path: Path, content: Any) -> None:
    with pytest.raises(ConfigError, match="a project's own file cannot set this"):
        load(tmp_path, project=content)


def test_roles_apply_to_people_chats_and_channels(tmp_path: Path) -> None:
    roles = {"telegram:1": "plan", "telegram:chat:-1001": "guest", "telegram": "my_own-2"}
    assert load(tmp_path, {"access": {"roles": roles}}).access.roles == roles


@pytest.mark.parametrize(
    "key", ["telegram:bob", "telegram:-1001", "telegram:", "telegram:1:2", "cli", "1", ""]
)
def test_role_with_an_invalid_key_is_reported_in_one_line(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError) as excinfo:
        load(tmp_path, {"access": {"roles": {key: "plan"}}})
    assert str(excinfo.value).endswith(
        f"config.json: access.roles.{key}: expected a key like "
        '"telegram:123" (a person), "telegram:chat:-100123" (a chat) or "telegram"'
    )


@pytest.mark.parametrize("role", ["", "Two words", 7])
def test_role_with_an_invalid_name_is_reported_in_one_line(tmp_path: Path, role: Any) -> None:
    with pytest.raises(ConfigError, match=r"access\.roles\.telegram: found .*, expected"):
        load(tmp_path, {"access": {"roles": {"telegram": role}}})


def test_project_file_may_set_limits(tmp_path: Path) -> None:
    settings = load(
        tmp_path, project={"tools": {"exec_timeout_s": 5}, "context": {"max_tree_depth": 2}}
    )
    assert (settings.tools.exec_timeout_s, settings.context.max_tree_depth) == (5, 2)


def test_kore_home_in_the_user_folder_is_not_a_project(tmp_path: Path) -> None:
    home = tmp_path / ".kore"
    home.mkdir()
    (home / "config.json").write_text('{"http": {"port": 1}}')
    settings = load_settings(config=None, home=home, cwd=tmp_path, environ={}, overrides={})
    assert settings.http.port == 1
    assert settings.files == (home / "config.json",)


def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    settings = load(tmp_path, {"agent": {"workspace": "ws"}, "store": {"url": "sqlite:///d.db"}})
    assert settings.agent.workspace == tmp_path / "home" / "ws"
    assert settings.store.path == tmp_path / "home" / "d.db"
    settings = load(tmp_path, environ={"KORE_AGENT_WORKSPACE": "ws"})
    assert settings.agent.workspace == tmp_path / "work" / "ws"


def test_default_model_depends_on_the_environment(tmp_path: Path) -> None:
    assert chosen_model(load(tmp_path), {}) == "offline/echo"
    assert chosen_model(load(tmp_path), {"OPENAI_API_KEY": "k"}).startswith("openai/")
    assert chosen_model(load(tmp_path, agent__model="ollama/x"), {}) == "ollama/x"


def test_default_profile_selects_the_model(tmp_path: Path) -> None:
    profiles = {"profiles": {"default": "ollama/d", "quick": "ollama/q"}}
    assert chosen_model(load(tmp_path, profiles), {"OPENAI_API_KEY": "k"}) == "ollama/d"
    assert chosen_model(load(tmp_path, profiles, agent__model="quick"), {}) == "ollama/q"
    assert chosen_model(load(tmp_path, profiles, agent__model="ollama/x"), {}) == "ollama/x"
    entry = {"model_list": [{"model_name": "quick", "model": "ollama/named"}]}
    assert chosen_model(load(tmp_path, profiles | entry, agent__model="quick"), {}) == "quick"


def test_numeric_owner_is_a_telegram_id(tmp_path: Path) -> None:
    assert load(tmp_path, {"access": {"owner": 12}}).access.owner == "telegram:12"
    assert load(tmp_path, environ={"KORE_ACCESS_OWNER": "12"}).access.owner == "telegram:12"


def test_bot_server_address_may_include_the_bot_path(tmp_path: Path) -> None:
    for address in ("http://127.0.0.1:8081", "http://127.0.0.1:8081/", "http://127.0.0.1:8081/bot"):
        settings = load(tmp_path, {"telegram": {"base_url": address}})
        assert TELEGRAM.section_of(settings).base_url == "http://127.0.0.1:8081"


def test_configuration_errors_are_translated(tmp_path: Path) -> None:
    wrong = {"agent": {"max_iterations": 0, "modle": "x"}, "model_list": [{"model_name": "a"}]}
    with use_locale("zh-Hans"):
        text = complaint(lambda: load(tmp_path, wrong)) or ""
    assert "agent.modle: 未知的键；你是想写“model”吗？" in text
    assert "agent.max_iterations：实际值：0；应为：不小于 1 的数" in text
    assert "model_list[0]：缺少键“model”" in text


def test_reference_may_have_a_default(tmp_path: Path) -> None:
    servers = {"s": {"command": "${PROGRAM:-python3}", "args": ["${A:-}", "${B:-x:-y}", "${C:-z}"]}}
    user = {"mcp_servers": servers, "http": {"host": "${HOST:-127.0.0.1}"}}
    settings = load(tmp_path, user, environ={"C": "c", "A": ""})
    server = settings.mcp_servers["s"]
    assert (server.command, server.args) == ("python3", ("", "x:-y", "c"))
    assert settings.http.host == "127.0.0.1"
    assert settings.missing == ()


@pytest.mark.parametrize(
    ("value", "language"),
    [("zh", "zh-Hans"), ("zh_CN", "zh-Hans"), ("zh-tw", "zh-Hant"), ("en", "en"), ("auto", "auto")],
)
def test_chinese_has_several_names(tmp_path: Path, value: str, language: str) -> None:
    assert load(tmp_path, {"agent": {"language": value}}).agent.language == language
