import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from agent.errors import ToolError
from agent.security.files.paths import resolve_in_workspace

BLOCKED = (".git", ".env", "node_modules/.cache")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


def find(path: str, workspace: Path, *, restrict: bool = True) -> Path:
    return resolve_in_workspace(path, workspace, restrict=restrict, blocked=BLOCKED)


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("a.txt", "a.txt"),
        ("./a/../b.txt", "b.txt"),
        ("../ws/b.txt", "b.txt"),
        (".", "."),
        (".gitignore", ".gitignore"),
        (".github/workflows/x.yml", ".github/workflows/x.yml"),
        (".env.example", ".env.example"),
        ("node_modules/x.js", "node_modules/x.js"),
        ("~notes.txt", "~notes.txt"),
    ],
)
def test_path_inside_is_resolved(workspace: Path, path: str, inside: str) -> None:
    assert find(path, workspace) == (workspace / inside).resolve()


def test_absolute_path_inside_is_accepted_even_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "link").symlink_to("ws")
    assert find(str(tmp_path / "link" / "a"), tmp_path / "ws") == tmp_path / "ws" / "a"


def test_link_in_place_of_the_workspace_leads_outside(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ws").symlink_to("elsewhere")
    with pytest.raises(ToolError, match="leads outside the workspace"):
        find("a", tmp_path / "ws")


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../other.txt",
        "../ws-evil/a",
        "/etc/passwd",
        "/",
        "a/../../x",
        "~",
        "~/x",
        "/proc/self/root/etc/passwd",
        "/proc/self/environ",
        "/dev/null",
        "",
        "a\0b",
        "\ud800",
        "x" * 5000,
        "a/" * 5000,
    ],
)
def test_path_outside_or_missing_is_rejected(workspace: Path, path: str) -> None:
    with pytest.raises(ToolError) as caught:
        find(path, workspace)
    assert len(str(caught.value)) < 600
    assert "\0" not in str(caught.value)


@pytest.mark.parametrize(
    "path",
    [
        ".git",
        ".git/config",
        "sub/.git/config",
        ".GIT/config",
        ".env",
        "sub/.env",
        "a/../.env",
        "node_modules/.cache/x",
        "web/node_modules/.cache",
    ],
)
def test_blocked_component_is_rejected_anywhere(workspace: Path, path: str) -> None:
    with pytest.raises(ToolError, match="blocked"):
        find(path, workspace)
    with pytest.raises(ToolError, match="blocked"):
        find(path, workspace, restrict=False)


def test_link_out_is_rejected_and_link_inside_is_followed(workspace: Path) -> None:
    (workspace / "out").symlink_to(workspace.parent)
    (workspace / "real").mkdir()
    (workspace / "in").symlink_to("real")
    with pytest.raises(ToolError, match="outside"):
        find("out/x", workspace)
    assert find("in/x", workspace) == workspace / "real" / "x"


def test_dotdot_after_a_link_is_relative_to_its_target(workspace: Path) -> None:
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / "link").symlink_to("a/b")
    assert find("link/../x", workspace) == workspace / "a" / "x"


def test_blocked_folder_is_rejected_through_links_in_both_directions(workspace: Path) -> None:
    (workspace / ".git").mkdir()
    (workspace / "innocent").symlink_to(".git")
    with pytest.raises(ToolError, match="blocked"):
        find("innocent/config", workspace)
    (workspace / "store").mkdir()
    (workspace / ".env").symlink_to("store")
    with pytest.raises(ToolError, match="blocked"):
        find(".env/x", workspace)


def test_circular_links_pipes_and_sockets_are_rejected(workspace: Path) -> None:
    (workspace / "one").symlink_to("two")
    (workspace / "two").symlink_to("one")
    os.mkfifo(workspace / "pipe")
    for path in ("one", "one/x", "pipe"):
        with pytest.raises(ToolError):
            find(path, workspace)


def test_link_to_process_memory_is_rejected_without_restriction(workspace: Path) -> None:
    (workspace / "p").symlink_to("/proc/self")
    up = "../" * 40  # from any working directory to the root
    for path in ("p/environ", "/proc/self/environ", f"/proc/self/cwd/{up}proc/1/environ"):
        with pytest.raises(ToolError):
            find(path, workspace, restrict=False)


def test_home_is_expanded_without_restriction(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(workspace.parent))
    assert find("~/x", workspace, restrict=False) == workspace.parent / "x"


parts = st.sampled_from(["..", ".", "a", "b", "in", "out", "up", "c.txt", "", "ws", ".git"])


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(parts, max_size=8), st.booleans())
def test_resolved_path_is_inside_the_root(
    tmp_path: Path, pieces: list[str], absolute: bool
) -> None:
    root = tmp_path / "ws"
    if not root.exists():
        (root / "a" / "b").mkdir(parents=True)
        (root / "in").symlink_to("a/b")
        (root / "out").symlink_to("/")
        (root / "a" / "up").symlink_to("../..")
    path = "/".join(pieces)
    try:
        result = find(f"{root}/{path}" if absolute else path, root)
    except ToolError:
        return
    assert result.is_relative_to(root)
    assert Path(os.path.realpath(result)) == result
    assert ".git" not in result.relative_to(root).parts
