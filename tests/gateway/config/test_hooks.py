"""The `hooks` key: its hooks and their origin."""

import json
from pathlib import Path

import pytest

from agent.errors import ConfigError
from gateway.config.folder_trust import project_files_in, trust
from gateway.config.foreign.hook_files import hook_lines, hooks_in
from gateway.config.sections import HookCommand
from tests.gateway.config.loading import load

HOOKS = {
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "check"}]}]
    }
}


def test_hooks_are_read_in_the_format_of_claude_code(tmp_path: Path) -> None:
    [matcher] = load(tmp_path, HOOKS).hooks["PreToolUse"]
    assert (matcher.matcher, matcher.hooks[0].command) == ("Bash", "check")


def test_project_hooks_apply_while_trusted_and_unchanged(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot set this"):
        load(tmp_path, project=HOOKS)
    trust([tmp_path / "work" / ".kore" / "config.json"], tmp_path / "home")
    own = {"hooks": {"PreToolUse": [{"hooks": [{"command": "mine"}]}]}}
    settings = load(tmp_path, own, project=HOOKS)
    assert [hook.command for hook in settings.hooks["PreToolUse"][0].hooks] == ["mine"]
    [source] = settings.project_hooks
    assert list(hook_lines(source.hooks)) == ["PreToolUse (command): check"]
    changed = {"hooks": {"PreToolUse": [{"hooks": [{"command": "worse"}]}]}}
    with pytest.raises(ConfigError, match="cannot set this"):
        load(tmp_path, project=changed)


def test_project_cannot_configure_python_hooks(tmp_path: Path) -> None:
    project = {"python_hooks": ["anything"]}
    trust_after(tmp_path, ".kore/config.json", project)
    settings = load(tmp_path, project=project)
    assert settings.python_hooks == ()
    assert any("python_hooks" in note for note in settings.notes)


def trust_after(root: Path, name: str, content: object) -> Path:
    """Write a file of the project and trust it."""
    file = root / "work" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))
    trust([file], root / "home")
    return file


@pytest.mark.parametrize("name", [".kore/hooks.json", ".claude/settings.json"])
def test_hook_files_apply_once_trusted(tmp_path: Path, name: str) -> None:
    content = {
        "permissions": {"allow": ["Bash(*)"]},
        "hooks": {
            "Stop": [
                {
                    "hooks": [
                        {"type": "command", "command": "done", "timeout": 9999, "async": True},
                        {"type": "prompt", "prompt": "Is it done?"},
                    ]
                }
            ],
            "WorktreeCreate": [{"hooks": [{"type": "command", "command": "x"}]}],
            "PreToolUse": [{"matcher": "(", "hooks": [{"command": "y"}]}],
        },
    }
    file = tmp_path / "work" / name
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(content))
    settings = load(tmp_path)
    assert settings.project_hooks == ()
    assert any("ignored until you trust" in note for note in settings.notes)
    assert project_files_in(tmp_path / "work") == [file]
    trust([file], tmp_path / "home")
    settings = load(tmp_path)
    [source] = settings.project_hooks
    lines = ["Stop (command, async): done", "Stop (prompt): Is it done?"]
    assert list(hook_lines(source.hooks)) == lines
    done = source.hooks["Stop"][0].hooks[0]
    assert isinstance(done, HookCommand)
    assert done.timeout == 600
    assert done.is_async
    assert any("WorktreeCreate" in note for note in settings.notes)
    assert any("a hook at PreToolUse is ignored" in note for note in settings.notes)
    assert not settings.model_list
    file.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [{"command": "worse"}]}]}}))
    assert load(tmp_path).project_hooks == ()


def test_foreign_settings_without_hooks_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "work" / ".claude" / "settings.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"permissions": {"allow": ["Bash(*)"]}}')
    assert load(tmp_path).notes == ()
    assert project_files_in(tmp_path / "work") == []


@pytest.mark.parametrize(
    "hooks",
    [
        {"BeforeLunch": []},
        {"PreToolUse": [{"matcher": "(", "hooks": []}]},
        {"PreToolUse": [{"hooks": [{"command": "x", "timeout": 601}]}]},
        {"PreToolUse": [{"hooks": [{"type": "prompt", "command": "x"}]}]},
        {"PreToolUse": [{"hooks": [{"type": "http", "url": "x"}]}]},
        {"PreCompact": [{"hooks": [{"type": "prompt", "prompt": "Now?"}]}]},
    ],
)
def test_invalid_hook_is_an_error(tmp_path: Path, hooks: object) -> None:
    with pytest.raises(ConfigError, match="hooks"):
        load(tmp_path, {"hooks": hooks})


@pytest.mark.parametrize(
    "matcher",
    [
        "(.*)*x",
        "(a|a|a|a|a|a|a|a)+x",
        "((a{1,60}){1,60})x",
        "(a|a)(a|a)(a|a)(a|a)x",
        ".*.*.*.*x",
        "(.*|a)(.*|a)(.*|a)(.*|a)x",
        "a?a?a?a?aaaa",
        r"(a*)(\1)x",
        "(?=(a+)+)x",
        "(" * 900 + ")" * 900,
    ],
)
def test_exponential_matcher_is_ignored(tmp_path: Path, matcher: str) -> None:
    """Matching blocks everything else, including stops and other sessions."""
    table, notes = hooks_in(
        {"hooks": {"PreToolUse": [{"matcher": matcher, "hooks": [{"command": "x"}]}]}}, "plugin p"
    )
    assert (dict(table), len(notes)) == ({}, 1)
    assert "simpler" in notes[0]


@pytest.mark.parametrize(
    "matcher",
    [
        "*",
        "",
        "Bash",
        "^(Edit|Write|MultiEdit)$",
        "mcp__.*",
        "mcp__a__.*|mcp__b__.*|Notebook.*|E?x",
        "mcp__.*__write.*",
        "(?:Read|Edit).*",
        "[A-Z][a-z]+",
        "|".join(f"tool_{n}" for n in range(80)),
    ],
)
def test_common_matchers_are_read(matcher: str) -> None:
    table, notes = hooks_in(
        {"hooks": {"PreToolUse": [{"matcher": matcher, "hooks": [{"command": "x"}]}]}}, "plugin p"
    )
    assert (list(table), notes) == (["PreToolUse"], [])


def test_unsupported_hook_type_is_reported() -> None:
    command = {"type": "command", "command": "true"}
    hooks = {"Stop": [{"hooks": [{"type": "http", "url": "x"}, command]}]}
    table, notes = hooks_in({"hooks": hooks}, "f")
    assert list(hook_lines(table)) == ["Stop (command): true"]
    assert notes == ["f: hooks of type http are not run"]


def test_prompt_of_a_plugin_is_left_out_where_only_commands_run() -> None:
    hooks = {"PreCompact": [{"hooks": [{"type": "prompt", "prompt": "Now?"}]}]}
    table, notes = hooks_in({"hooks": hooks}, "f")
    assert (dict(table), notes) == ({}, ["f: hooks of type prompt are not run"])


@pytest.mark.parametrize("name", [".mcp.json", ".kode.json", ".kore/hooks.json"])
def test_only_the_users_own_files_are_private(tmp_path: Path, name: str) -> None:
    """Tools may read a trusted project's files; git in the project needs them."""
    file = trust_after(tmp_path, name, {"hooks": {}, "mcpServers": {}})
    settings = load(tmp_path, {"agent": {"max_tokens": 100}})
    assert file in settings.files
    assert settings.private_files == (tmp_path / "home" / "config.json",)
