"""Roles in force: from the current role file, or from its last valid version."""

import logging
import os
from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.i18n import use_locale
from agent.security.policy.base import BLOCKED_COMMANDS
from agent.security.policy.roles import Grants
from agent.turn.tool_catalog import known_tools
from gateway.access.roles import PolicySettings, RoleRegistry
from gateway.config import Settings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text("default: {audit_level: full}\nroles: {helper: {tools: {read_file: {}}}}")
    return path


def tools(policies: RoleRegistry, name: str) -> set[str]:
    role = policies.role(name)
    assert role is not None
    return set(role.tools)


def test_roles_of_the_file_are_added_to_the_built_in_ones(file: Path) -> None:
    policies = RoleRegistry(PolicySettings(file))
    assert tools(policies, "helper") == {"read_file"}
    assert tools(policies, "build") == {"*"}
    assert policies.role("nobody") is None
    assert policies.audit_level == "full"
    assert RoleRegistry(PolicySettings()).audit_level == "summary"


def test_role_of_the_file_replaces_a_built_in_one(file: Path) -> None:
    file.write_text("roles: {build: {tools: {list_dir: {}}}}")
    assert tools(RoleRegistry(PolicySettings(file)), "build") == {"list_dir"}


def test_tool_aliases_are_canonicalized(file: Path) -> None:
    file.write_text("roles: {helper: {tools: {Bash: {}, FileRead: {}, mcp__x__y: {}}}}")
    assert tools(RoleRegistry(PolicySettings(file)), "helper") == {"exec", "read_file", "mcp__x__y"}
    assert known_tools().canonical("ReadFile") == "read_file"
    assert known_tools().canonical("deploy") is None


def test_default_blocked_commands_are_those_of_the_policy() -> None:
    assert Settings().security.blocked_commands == BLOCKED_COMMANDS


def test_unknown_tool_in_a_role_is_logged(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text("roles:\n  helper:\n    tools: [read_file, crystal_ball]\n    scopes: {}\n")
    with caplog.at_level(logging.WARNING):
        assert "read_file" in tools(RoleRegistry(PolicySettings(file)), "helper")
    (result,) = caplog.messages
    assert 'line 3: roles.helper.tools: unknown tool "crystal_ball"' in result
    assert result.endswith("; the entry has no effect")


def test_invalid_file_is_rejected_at_startup(file: Path) -> None:
    file.write_text("roles: {helper: {tols: {}}}")
    with pytest.raises(ConfigError, match=r"policy\.yaml: line 1: roles\.helper\.tols"):
        RoleRegistry(PolicySettings(file))
    with pytest.raises(ConfigError, match="policy file not found"):
        RoleRegistry(PolicySettings(file.with_name("missing.yaml")))


def test_changed_file_is_reloaded(file: Path) -> None:
    policies = RoleRegistry(PolicySettings(file))
    file.write_text("roles: {helper: {tools: {list_dir: {}}}}")
    assert tools(policies, "helper") == {"list_dir"}


def test_change_of_equal_length_is_reloaded(file: Path) -> None:
    policies = RoleRegistry(PolicySettings(file))
    before = file.stat()
    file.write_text(
        file.read_text().replace("read_file", "undo_file").replace("undo_file", "edit_file")
    )
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert tools(policies, "helper") == {"edit_file"}


def test_last_valid_file_stays_in_effect_and_is_logged_once(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policies = RoleRegistry(PolicySettings(file))
    file.write_text("roles: {helper: {tols: {}}}\nx: 1")
    # The person reads the error in their own language; the log has it in English.
    with caplog.at_level(logging.ERROR), use_locale("zh-Hans"):
        for _ in range(3):
            assert tools(policies, "helper") == {"read_file"}
        with pytest.raises(ConfigError, match="第 1 行"):
            RoleRegistry(PolicySettings(file))
    assert len(caplog.records) == 1
    assert "last valid policy" in caplog.text
    assert "line 1: " in caplog.text
    assert "line 1: roles.helper" in caplog.text

    file.write_text("roles: {helper: {tools: {list_dir: {}}}}")
    assert tools(policies, "helper") == {"list_dir"}


def test_roles_of_a_deleted_file_stay_in_effect(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policies = RoleRegistry(PolicySettings(file))
    file.unlink()
    with caplog.at_level(logging.ERROR):
        assert tools(policies, "helper") == {"read_file"}
        assert tools(policies, "helper") == {"read_file"}
    assert len(caplog.records) == 1


@pytest.mark.parametrize("rest", ["", "\n", "# to be written\n"])
def test_partly_written_file_grants_nothing(file: Path, rest: str) -> None:
    """Many editors empty a file before they fill it."""
    file.write_text("roles: {general: {tools: {list_dir: {}}}}")
    policies = RoleRegistry(PolicySettings(file))
    file.write_text(rest)
    assert tools(policies, "general") == {"list_dir"}
    file.write_text("roles: {general: {tools: {grep: {}}}}")
    assert tools(policies, "general") == {"grep"}


def test_grants_restrict_a_role(file: Path) -> None:
    grants = Grants(allow_command=False)
    policies = RoleRegistry(PolicySettings(file, {"build": grants}))
    role, helper = policies.role("build"), policies.role("helper")
    assert role is not None
    assert role.grants == grants
    assert helper is not None
    assert helper.grants == Grants()


def test_setting_with_an_unknown_role_is_rejected_with_a_suggestion(file: Path) -> None:
    policies = RoleRegistry(PolicySettings(file))
    policies.check("helper", "access.roles")
    with pytest.raises(
        ConfigError, match=r'access\.roles: unknown role "gest".*did you mean "guest"'
    ):
        policies.check("gest", "access.roles")


def test_channel_has_its_own_default_mode() -> None:
    policies = RoleRegistry(PolicySettings(modes={"telegram": "plan"}))
    assert policies.default_mode("telegram") == "plan"
    assert policies.default_mode("cli") == "ask"
