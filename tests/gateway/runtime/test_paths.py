from pathlib import Path

import pytest

from agent.errors import ConfigError
from gateway.runtime.paths import DataDir, find_data_dir, write_private
from gateway.runtime.workspace import ensure_workspace


def test_home_is_chosen_by_flag_then_environment(tmp_path: Path) -> None:
    assert find_data_dir({"KORE_HOME": "/a/../b"}).root == Path("/b")
    assert find_data_dir({"KORE_HOME": "/a"}, tmp_path).root == tmp_path
    assert find_data_dir({}).root == Path("~/.kore").expanduser()


def test_home_is_private(tmp_path: Path) -> None:
    home = DataDir(tmp_path / "h")
    home.ensure()
    home.ensure()
    assert all(p.stat().st_mode & 0o777 == 0o700 for p in (home.root, home.logs, home.audit))


def test_private_file_is_never_overwritten(tmp_path: Path) -> None:
    write_private(tmp_path / "f", "one")
    with pytest.raises(FileExistsError):
        write_private(tmp_path / "f", "two")
    assert (tmp_path / "f").read_text() == "one"


def test_workspace_is_created_once_from_the_templates(tmp_path: Path) -> None:
    workspace = tmp_path / "a" / "ws"
    assert ensure_workspace(workspace)
    assert {"IDENTITY.md", "AGENT.md", "SOUL.md", "USER.md", "memory"} <= {
        path.name for path in workspace.iterdir()
    }
    (workspace / "USER.md").unlink()
    assert not ensure_workspace(workspace)
    assert not (workspace / "USER.md").exists()


def test_uncreatable_workspace_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"agent\.workspace: .*cannot be created"):
        ensure_workspace(tmp_path / "file" / "ws")
