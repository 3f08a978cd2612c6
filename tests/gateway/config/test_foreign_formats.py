import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ConfigError
from gateway.config import Settings, load_settings
from gateway.config.folder_trust import trust
from gateway.config.foreign.formats import ForeignConfig, read_foreign
from tests.gateway.config.foreign_files import DESIGN, REAL


def load(root: Path, cwd: Path | None = None, **environ: str) -> Settings:
    home = root / "kore"
    home.mkdir(exist_ok=True)
    return load_settings(
        config=None,
        home=home,
        cwd=cwd or root,
        environ={"HOME": str(root), **environ},
        overrides={},
    )


def models_by_name(settings: Settings) -> dict[str, str]:
    return {item.model_name: item.model for item in settings.model_list}


def test_format_written_by_kode_is_read(tmp_path: Path) -> None:
    (tmp_path / ".kode.json").write_text(REAL)
    settings = load(tmp_path)
    assert models_by_name(settings) == {
        "Main": "anthropic/claude-sonnet-4",
        "Fast": "openai/glm-4/air",
    }
    assert (settings.profiles.default, settings.profiles.quick) == ("Main", "Fast")
    assert settings.model_list[0].context_tokens == 200_000
    assert settings.mcp_servers["files"].command == "npx"
    assert settings.security.modes == {"cli": "ask"}
    assert tmp_path / ".kode.json" in settings.files


def test_documented_format_of_kode_is_read(tmp_path: Path) -> None:
    (tmp_path / ".kode.json").write_text(json.dumps(DESIGN))
    settings = load(tmp_path)
    assert models_by_name(settings) == {"gpt": "openai/gpt-5", "near": "ollama/llama3.2"}
    assert (settings.profiles.default, settings.profiles.quick) == ("gpt", "near")
    assert settings.mcp_servers["files"].args == ("files",)


def test_profiles_by_id_with_a_nested_config_are_read(tmp_path: Path) -> None:
    content = {
        "modelProfiles": [
            {
                "id": "m1",
                "type": "alibaba",
                "config": {"model": "qwen-max", "apiKey": "sk-canary", "temperature": 0.2},
            },
            {
                "id": "m2",
                "name": "Near",
                "provider": "own",
                "adapt": "anthropic",
                "config": {"modelName": "claude", "baseURL": "http://localhost:9"},
            },
            {"id": "m3", "name": "odd", "provider": "groq", "model": "x", "adapt": "grpc"},
        ],
        "modelPointers": {"main": "m1", "task": "m2", "compact": "m2"},
    }
    (tmp_path / ".kode.json").write_text(json.dumps(content))
    settings = load(tmp_path)
    assert models_by_name(settings) == {
        "m1": "qwen/qwen-max",
        "Near": "anthropic/claude",
        "odd": "groq/x",
    }
    assert settings.model_list[0].temperature == 0.2
    profiles = settings.profiles
    assert (profiles.default, profiles.task, profiles.quick) == ("m1", "Near", "Near")
    left = read_foreign(tmp_path / ".kode.json")
    assert left is not None
    assert any("adapt 'grpc'" in line for line in left.notes)


def test_ignored_profile_keys_are_reported(tmp_path: Path) -> None:
    content = {
        "modelProfiles": [
            {"name": "a", "provider": "openai", "modelName": "x", "reasoningEffort": "high"},
            {"name": "b", "provider": "openai", "modelName": "y", "createdAt": 1},
        ],
        "modelPointers": {"quick": "a", "compact": "b", "vision": "a"},
    }
    (tmp_path / ".kode.json").write_text(json.dumps(content))
    config = read_foreign(tmp_path / ".kode.json")
    assert config is not None
    assert config.notes == (
        "modelProfiles.a.reasoningEffort: no equivalent in Kore",
        "modelPointers.compact: no equivalent in Kore",
        "modelPointers.vision: no equivalent in Kore",
    )
    assert config.values["profiles", "quick"] == "a"


def test_models_of_the_own_file_replace_foreign_ones(tmp_path: Path) -> None:
    (tmp_path / ".kode.json").write_text(REAL)
    (tmp_path / "kore").mkdir()
    ours = {"model_list": [{"model_name": "mine", "model": "openai/x"}]}
    (tmp_path / "kore" / "config.json").write_text(json.dumps(ours))
    settings = load(tmp_path)
    assert models_by_name(settings) == {"mine": "openai/x"}
    assert settings.profiles.default == "default"
    assert "files" in settings.mcp_servers


def test_kodax_is_read_without_its_permission_mode(tmp_path: Path) -> None:
    (tmp_path / ".kodax").mkdir()
    content = {
        "provider": "near",
        "model": "big",
        "thinking": True,
        "permissionMode": "auto",
        "alwaysAllowTools": ["Bash(git diff:*)"],
        "customProviders": [
            {
                "name": "near",
                "protocol": "anthropic",
                "baseUrl": "http://localhost:9",
                "apiKeyEnv": "NEAR_KEY",
                "model": "small",
                "models": ["small", {"id": "big"}],
                "contextWindow": 64000,
            }
        ],
    }
    (tmp_path / ".kodax" / "config.json").write_text(json.dumps(content))
    settings = load(tmp_path, NEAR_KEY="sk-canary")
    assert models_by_name(settings) == {"near": "anthropic/small", "near:big": "anthropic/big"}
    assert settings.profiles.default == "near:big"
    assert settings.agent.effort == "high"
    assert settings.model_list[0].api_key is not None
    assert settings.model_list[0].api_key.get_secret_value() == "sk-canary"
    assert settings.security.modes == {"cli": "ask"}


def test_older_yaml_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / ".config" / "kore" / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(
        "llm:\n  provider: openai\n  model: gpt-5\n  api_key: sk-canary\n"
        "  temperature: 0.0\n  flavour: 1\n"
        "context:\n  max_tokens: 64000\n"
        "security:\n  blocked_paths: [.secret, .git]\n  blocked_cmds: [dd]\n"
        "  restrict_to_workspace: false\n"
    )
    settings = load(tmp_path)
    assert models_by_name(settings) == {"llm": "openai/gpt-5"}
    assert settings.model_list[0].temperature == 0.0
    assert "llm.flavour: no equivalent in Kore" in (read_foreign(file) or ForeignConfig()).notes
    assert settings.context.max_tokens == 64_000
    # The default blocked paths remain; a foreign list may only add to them.
    assert settings.security.blocked_paths == (*Settings().security.blocked_paths, ".secret")
    assert {"rm", "sudo", "dd"} <= {*settings.security.blocked_commands}
    assert settings.security.restrict_to_workspace


def write_yaml(root: Path, text: str) -> Path:
    """Write the older YAML file of a person."""
    file = root / ".config" / "kore" / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("section", "variable"),
    [
        ("{encryption: true}", "KORE_STORE_KEY"),
        ("{encryption: aes-256-gcm, encryption_key_env: MY_KEY}", "MY_KEY"),
        ("{encryption: {enabled: true, key_env: MY_KEY}}", "MY_KEY"),
        ("{encrypted: yes, encryption_key: '${MY_KEY}'}", "MY_KEY"),
        ("{encryption: {key: c2VjcmV0}}", "KORE_STORE_KEY"),
        ("{path: ./sessions.db}", None),
        ("{encryption: false, encryption_key_env: MY_KEY}", None),
        ("{encryption: {enabled: false, key_env: MY_KEY}}", None),
    ],
)
def test_encryption_of_an_older_file_applies(
    tmp_path: Path, section: str, variable: str | None
) -> None:
    write_yaml(tmp_path, f"session_db: {section}\n")
    settings = load(tmp_path)
    assert settings.store.encryption_key_env == variable
    assert "c2VjcmV0" not in " ".join(settings.unused)


def test_encryption_applies_if_the_rest_of_the_file_is_invalid(tmp_path: Path) -> None:
    write_yaml(tmp_path, "session_db: {encryption: true}\nagents: {max_parallel: many}\n")
    settings = load(tmp_path)
    assert settings.store.encryption_key_env == "KORE_STORE_KEY"
    assert any("config.yaml: ignored" in note for note in settings.notes)


def test_agents_of_an_older_file_are_read(tmp_path: Path) -> None:
    write_yaml(tmp_path, "agents: {default: build, max_parallel: 2, max_depth: 1, colour: red}\n")
    settings = load(tmp_path)
    assert settings.agent.default_agent == "build"
    assert (settings.subagents.max_parallel, settings.subagents.max_depth) == (2, 1)
    assert [line for line in settings.unused if "agents.colour: no equivalent" in line]


def test_settings_without_effect_are_listed(tmp_path: Path) -> None:
    (tmp_path / ".kode.json").write_text(REAL)
    settings = load(tmp_path, KORE_FLAVOUR="x", KORE_OWN_KEY="y")
    path = tmp_path / ".kode.json"
    assert f"{path}: theme: no equivalent in Kore" in settings.unused
    assert "environment variable KORE_FLAVOUR: unknown" in settings.unused
    assert settings.notes == ()


def test_variable_that_a_setting_names_is_known(tmp_path: Path) -> None:
    write_yaml(tmp_path, "session_db: {encryption_key_env: KORE_OWN_KEY}\n")
    assert load(tmp_path, KORE_OWN_KEY="y", KORE_TOKEN="z").unused == ()


def test_project_models_are_added_to_the_persons_by_name(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    own = {
        "modelProfiles": {
            "gpt": {"provider": "openai", "model": "gpt-5"},
            "near": {"provider": "ollama", "model": "llama3.2"},
        },
        "defaultModel": "gpt",
        "quickModel": "near",
    }
    theirs = {
        "modelProfiles": {"gpt": {"provider": "openai", "model": "gpt-6"}},
        "taskModel": "near",
    }
    (tmp_path / ".kode.json").write_text(json.dumps(own))
    (work / ".kode.json").write_text(json.dumps(theirs))
    assert models_by_name(load(tmp_path, work))["gpt"] == "openai/gpt-5"
    trust([work / ".kode.json"], tmp_path / "kore")
    settings = load(tmp_path, work)
    assert models_by_name(settings) == {"gpt": "openai/gpt-6", "near": "ollama/llama3.2"}
    profiles = settings.profiles
    assert (profiles.default, profiles.task, profiles.quick) == ("gpt", "near", "near")
    assert settings.unused == ()


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"modelProfiles": [{"name": "x", "provider": "openai", "modelName": 3}]}']
)
def test_unusable_file_is_ignored_with_a_note(tmp_path: Path, text: str) -> None:
    (tmp_path / ".kode.json").write_text(text)
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"x": {"command": 7}}}')
    settings = load(tmp_path)
    assert settings.mcp_servers == {}
    assert any(".mcp.json: ignored" in note for note in settings.notes)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".kode.json", '{"modelPointers": ["main"]}'),
        (".kode.json", '{"modelPointers": {"main": {"name": "x"}}}'),
        (".kode.json", '{"modelProfiles": 5}'),
        (".kode.json", '{"defaultModel": ["x"]}'),
        (".kode.json", '{"mcpServers": "files"}'),
        (".kodax/config.json", '{"customProviders": 5}'),
        (".kodax/config.json", '{"customProviders": [{"name": "a", "models": 7}]}'),
        (".config/kore/config.yaml", "context: [a]"),
        (".config/kore/config.yaml", "security: 5"),
        (".config/kore/config.yaml", "context: {max_tokens: 2020-01-01}"),
        (".config/kore/config.yaml", "context: {2020-01-01: 5}"),
        (".config/kore/config.yaml", "context: &a [*a]"),
        (".config/kore/config.yaml", "context: {max_tokens: .nan}"),
    ],
)
def test_malformed_foreign_file_causes_no_crash(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    settings = load(tmp_path)
    assert settings.model_list == ()
    assert settings.profiles.default == "default"
    assert settings.context.max_tokens is None


@pytest.mark.parametrize("name", [".kode.json", ".mcp.json", ".mcprc"])
def test_project_file_applies_while_trusted_and_unchanged(tmp_path: Path, name: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    file = work / name
    file.write_text('{"mcpServers": {"evil": {"command": "sh"}}}')
    settings = load(tmp_path, work)
    assert settings.mcp_servers == {}
    assert any(f"{file}: ignored until you trust" in note for note in settings.notes)
    trust([file], tmp_path / "kore")
    assert "evil" in load(tmp_path, work).mcp_servers
    file.write_text('{"mcpServers": {"worse": {"command": "sh"}}}')
    assert load(tmp_path, work).mcp_servers == {}


def test_own_servers_of_the_wrong_type_are_reported(tmp_path: Path) -> None:
    (tmp_path / ".kode.json").write_text('{"mcpServers": {"files": {"command": "npx"}}}')
    home = tmp_path / "kore"
    home.mkdir()
    (home / "config.json").write_text('{"mcp_servers": 5}')
    with pytest.raises(ConfigError, match="mcp_servers: found 5, expected an object"):
        load(tmp_path)


def test_project_servers_are_added_to_own_servers(tmp_path: Path) -> None:
    work, home = tmp_path / "work", tmp_path / "kore"
    for folder in (work, home):
        folder.mkdir()
    own = {"mine": {"command": "one"}, "both": {"command": "own"}}
    (home / "config.json").write_text(json.dumps({"mcp_servers": own}))
    theirs = {"mcpServers": {"both": {"command": "x", "args": ["y"]}, "new": {"url": "https://h"}}}
    file = work / ".mcp.json"
    file.write_text(json.dumps(theirs))
    (tmp_path / ".kode.json").write_text('{"mcpServers": {"new": {"command": "z"}}}')
    trust([file], home)
    settings = load(tmp_path, work)
    assert set(settings.mcp_servers) == {"mine", "both", "new"}
    assert (settings.mcp_servers["both"].command, settings.mcp_servers["both"].args) == ("own", ())
    assert (settings.mcp_servers["new"].url, settings.mcp_servers["new"].command) == (
        "https://h",
        None,
    )
    assert settings.places["mcp_servers", "new"] == str(file)
    assert ("mcp_servers", "both") not in settings.places
    alone = load(tmp_path, work, KORE_MCP_SERVERS="{}")
    assert alone.mcp_servers == {}


def test_trusted_project_file_may_set_everything(tmp_path: Path) -> None:
    file = tmp_path / "work" / ".kore" / "config.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"agent": {"model": "openai/x"}}')
    with pytest.raises(Exception, match="cannot set this"):
        load(tmp_path, tmp_path / "work")
    trust([file], tmp_path / "kore")
    assert load(tmp_path, tmp_path / "work").agent.model == "openai/x"


@pytest.mark.parametrize("name", [".mcp.json", ".kore/config.json"])
def test_trusted_file_is_read_only_once(tmp_path: Path, name: str) -> None:
    file, other = tmp_path / "work" / name, tmp_path / "other"
    file.parent.mkdir(parents=True)
    key = "mcpServers" if name == ".mcp.json" else "mcp_servers"
    file.write_text(json.dumps({key: {"good": {"command": "true"}}}))
    other.write_text(json.dumps({key: {"evil": {"command": "sh"}}}))
    trust([file], tmp_path / "kore")
    opened: list[str] = []

    def swap(event: str, args: tuple[Any, ...]) -> None:
        """Replace the file with another when it is opened for the second time."""
        if event == "open" and args[0] in (file, str(file)):
            opened.append(event)
            if len(opened) == 2:
                os.replace(other, file)

    sys.addaudithook(swap)
    assert list(load(tmp_path, tmp_path / "work").mcp_servers) == ["good"]
    assert opened
