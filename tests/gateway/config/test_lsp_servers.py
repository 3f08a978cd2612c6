"""Language servers in the settings, in plugins and in `kore doctor`."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ConfigError
from gateway.config import Settings
from gateway.config.installed_plugins import InstalledPlugins
from gateway.config.servers import lsp_settings
from gateway.ops.doctor.configuration import check_language_servers
from gateway.runtime.paths import DataDir
from tests.gateway.config.loading import load


def _settings(tmp_path: Path, **values: Any) -> Settings:
    return load(tmp_path, {"agent": {"workspace": str(tmp_path)}, **values})


def test_entry_overrides_only_its_fields_of_a_known_server(tmp_path: Path) -> None:
    settings = _settings(
        tmp_path,
        lsp_servers={
            "pyright": {"settings": {"python": {}}, "args": ["--stdio", "--verbose"]},
            "ty": {"enabled": False},
            "zls": {"command": "zls", "extensions": [".zig"], "env": {"A": "b"}},
        },
    )
    servers = lsp_settings(settings, tmp_path)
    pyright, zls = servers.servers
    assert pyright.command == ("pyright-langserver", "--stdio", "--verbose")
    assert pyright.extensions == (".py", ".pyi")
    assert "pyproject.toml" in pyright.root_files
    assert (zls.command, zls.extensions, zls.variables) == (("zls",), (".zig",), {"A": "b"})
    assert servers.without == {"ty"}


@pytest.mark.parametrize("entry", [{}, {"command": "zls"}, {"extensions": [".zig"]}])
def test_incomplete_server_is_rejected(tmp_path: Path, entry: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"lsp_servers\.zls: expected"):
        lsp_settings(_settings(tmp_path, lsp_servers={"zls": entry}), tmp_path)


def test_plugin_servers_are_read(tmp_path: Path) -> None:
    described = {
        "go": {"command": "gopls", "args": ["serve"], "extensionToLanguage": {".go": "go"}},
        "own": {"command": "${CLAUDE_PLUGIN_ROOT}/bin/ls", "extensionToLanguage": {".X": "x"}},
        "wrong": {"command": 3},
        "far": {"command": "x", "extensionToLanguage": {".y": "y"}, "transport": "socket"},
    }
    row = {
        **{"name": "p", "version": "", "description": "", "source": {}, "digest": "d"},
        **{"folder": "copies/d", "languages": described},
    }
    (tmp_path / "installed.json").write_text(json.dumps({"version": 1, "plugins": [row]}))
    servers = lsp_settings(_settings(tmp_path), tmp_path, InstalledPlugins(tmp_path)).servers
    assert [server.name for server in servers] == ["plugin_p_go", "plugin_p_own"]
    assert servers[0].command == ("gopls", "serve")
    assert servers[1].command == (f"{tmp_path}/copies/d/bin/ls",)
    assert servers[1].extensions == (".x",)
    # Servers of a plugin are not started automatically without a sandbox.
    assert not any(server.configured for server in servers)


def test_doctor_lists_installed_and_missing_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, programs = tmp_path / "project", tmp_path / "programs"
    own = project / ".venv" / "bin"
    for folder in (programs, own):
        folder.mkdir(parents=True)
        for name in ("ty", "clangd"):
            path = folder / name
            path.write_text("#!/bin/sh\n")
            path.chmod(stat.S_IRWXU)
    (programs / "clangd").unlink()
    monkeypatch.setenv("PATH", f"{own}:{programs}")
    home = DataDir(tmp_path / "home")
    check = check_language_servers(_settings(project), home)
    # Programs from the project's own folder are not found.
    assert (check.state, check.detail) == ("ok", f"ty ({programs / 'ty'})")
    missing = _settings(project, lsp_servers={"zls": {"command": "zls", "extensions": [".zig"]}})
    check = check_language_servers(missing, home)
    assert (check.state, check.detail) == ("warn", "not installed: zls")
    off = check_language_servers(_settings(project, lsp={"enabled": False}), home)
    assert off.detail == "switched off"
