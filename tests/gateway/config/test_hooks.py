"""The key `hooks`: which are there, and whose."""

from pathlib import Path

import pytest

from agent.errors import ConfigError
from gateway.config.folder_trust import trust
from tests.gateway.config.loading import load

HOOKS = {
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "check"}]}]
    }
}


def test_they_are_read_in_the_shape_of_claude_code(tmp_path: Path) -> None:
    [matcher] = load(tmp_path, HOOKS).hooks["PreToolUse"]
    assert (matcher.matcher, matcher.hooks[0].command) == ("Bash", "check")


def test_those_of_a_project_count_once_it_is_trusted_and_until_it_changes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot set this"):
        load(tmp_path, project=HOOKS)
    trust([tmp_path / "work" / ".kore" / "config.json"], tmp_path / "home")
    assert "PreToolUse" in load(tmp_path, project=HOOKS).hooks
    changed = {"hooks": {"PreToolUse": [{"hooks": [{"command": "worse"}]}]}}
    with pytest.raises(ConfigError, match="cannot set this"):
        load(tmp_path, project=changed)


@pytest.mark.parametrize(
    "hooks",
    [
        {"BeforeLunch": []},
        {"PreToolUse": [{"matcher": "(", "hooks": []}]},
        {"PreToolUse": [{"hooks": [{"command": "x", "timeout": 601}]}]},
        {"PreToolUse": [{"hooks": [{"type": "prompt", "command": "x"}]}]},
    ],
)
def test_what_cannot_be_a_hook_is_an_error(tmp_path: Path, hooks: object) -> None:
    with pytest.raises(ConfigError, match="hooks"):
        load(tmp_path, {"hooks": hooks})
