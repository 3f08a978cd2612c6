"""`apply_patch`: its format and its effect on files."""

import os
import stat
from pathlib import Path

import pytest

from agent.approvals import FolderAccess
from agent.errors import ToolError
from agent.security.taint.file_marks import mark_level, mark_tainted
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.built_in import default_tools
from agent.tools.files.patch import ApplyPatch
from agent.tools.registry import ToolRegistry
from tests.agent.undo.scene import Scene

CART = """class Cart:
    def total(self):
        x = 1
        return x

class Order:
    def total(self):
        x = 1
        return x
"""


def patch(*lines: str) -> dict[str, str]:
    return {"input": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}


async def apply(call: CallContext, *lines: str) -> str:
    return (await ApplyPatch(ToolSettings()).run(patch(*lines), call)).for_model


async def test_files_are_added_changed_moved_and_deleted(
    call: CallContext, workspace: Path
) -> None:
    (workspace / "a.sh").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    (workspace / "a.sh").chmod(0o755)
    (workspace / "old.txt").write_text("old\n")
    text = await apply(
        call,
        "*** Update File: a.sh", "*** Move to: bin/b.sh", "@@", " one", "-two", "+2", " three",
        "*** Add File: new/c.txt", "+c", "+", "+d",
        "*** Delete File: old.txt",
    )  # fmt: skip
    assert (workspace / "bin" / "b.sh").read_bytes() == b"one\r\n2\r\nthree\r\n"
    assert stat.S_IMODE((workspace / "bin" / "b.sh").stat().st_mode) == 0o755
    assert (workspace / "new" / "c.txt").read_text() == "c\n\nd\n"
    assert not (workspace / "a.sh").exists()
    assert not (workspace / "old.txt").exists()
    assert "deleted" in text


async def test_anchors_distinguish_equal_places(call: CallContext, workspace: Path) -> None:
    (workspace / "cart.py").write_text(CART)
    await apply(
        call, "*** Update File: cart.py", "@@ class Order:", "-        x = 1", "+        x = 2"
    )
    assert (workspace / "cart.py").read_text() == CART[:-30] + CART[-30:].replace("1", "2")
    (workspace / "cart.py").write_text(CART)
    await apply(
        call,
        "*** Update File: cart.py",
        "@@ class Cart:", "-        x = 1", "+        x = 8",
        "@@ class Order:", "-        x = 1", "+        x = 9",
        "@@", "+# end", "*** End of File",
    )  # fmt: skip
    text = (workspace / "cart.py").read_text()
    assert text.index("x = 8") < text.index("class Order") < text.index("x = 9")
    assert text.endswith("return x\n# end\n")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["*** Update File: a.txt", "@@", "-nothing like it", "+x"], "Hunk 1 of 1 was not found"),
        (["*** Update File: b.txt", "@@", "-one", "+x"], "does not exist"),
        (["*** Add File: a.txt", "+x"], "already exists"),
        (["*** Update File: a.txt", "*** Move to: taken.txt"], "already exists"),
        (["*** Add File: n.txt", "x"], "begin with '\\+'"),
        (["*** Update File: a.txt", "@@", "?one"], "lines begin with"),
        (["*** Update File: a.txt"], "changes nothing"),
        (["nonsense"], "names no file"),
        ([], "names no file"),
        (["*** Delete File: a.txt", "*** Update File: a.txt", "@@", "-one", "+x"], "twice"),
    ],
)
async def test_patch_that_does_not_apply_changes_nothing(
    call: CallContext, workspace: Path, lines: list[str], words: str
) -> None:
    (workspace / "a.txt").write_text("one\n")
    (workspace / "taken.txt").write_text("x\n")
    tool = ApplyPatch(ToolSettings())
    result = patch("*** Add File: first.txt", "+x", *lines) if lines[:1] != ["nonsense"] else None
    result = result if lines and result else patch(*lines)
    for act in (tool.plan, tool.run):
        with pytest.raises(ToolError, match=words):
            await act(result, call)
    assert not (workspace / "first.txt").exists()
    assert (workspace / "a.txt").read_text() == "one\n"


async def test_patch_outside_the_workspace_needs_consent(
    call: CallContext, workspace: Path
) -> None:
    args = patch("*** Add File: ../out.txt", "+x")
    plan = await ApplyPatch(ToolSettings()).plan(args, call)
    assert plan.folder_access == FolderAccess(workspace.parent, is_writable=True)
    with pytest.raises(ToolError, match="outside the workspace"):
        await ApplyPatch(ToolSettings()).run(args, call)
    assert not (workspace.parent / "out.txt").exists()


@pytest.mark.parametrize("text", ["", "*** Begin Patch", "diff --git a b\n", "*** End Patch"])
async def test_invalid_patch_is_an_error(call: CallContext, text: str) -> None:
    with pytest.raises(ToolError, match=r"The patch must begin with|The patch is incomplete"):
        await ApplyPatch(ToolSettings()).plan({"input": text}, call)


async def test_result_quotes_the_changed_lines(call: CallContext, workspace: Path) -> None:
    (workspace / "cart.py").write_text(CART)
    (workspace / "min.js").write_text(f"a=1;{'x' * 30_000}\nb=2;\n")
    text = await apply(
        call,
        "*** Update File: cart.py",
        "@@ class Cart:", "-        x = 1", "+        x = 8",
        "*** Update File: min.js", "@@", "-b=2;", "+b=3;",
    )  # fmt: skip
    assert f"{workspace / 'cart.py'} reads now:\n1\tclass Cart:\n2\t    def total" in text
    assert "\n3\t        x = 8\n" in text
    assert "… (30,004 characters)\n2\tb=3;" in text
    assert len(text) < 2_000


@pytest.mark.parametrize("is_inside", [True, False])
async def test_deletion_of_a_link_keeps_its_target(
    call: CallContext, workspace: Path, is_inside: bool
) -> None:
    target = (workspace if is_inside else workspace.parent) / "target.txt"
    target.write_text("keep\n")
    (workspace / "link.txt").symlink_to(target)
    lines = ["*** Delete File: link.txt"]
    plan = await ApplyPatch(ToolSettings()).plan(patch(*lines), call)
    assert plan.changes == (workspace / "link.txt",)
    assert f"link to {target}" in (plan.diff or "")
    await apply(call, *lines)
    assert not os.path.lexists(workspace / "link.txt")
    assert target.read_text() == "keep\n"


async def test_move_of_a_link_moves_the_link(call: CallContext, workspace: Path) -> None:
    (workspace / "target.txt").write_text("keep\n")
    (workspace / "link.txt").symlink_to("target.txt")
    await apply(call, "*** Update File: link.txt", "*** Move to: new.txt")
    assert os.readlink(workspace / "new.txt") == "target.txt"
    assert not os.path.lexists(workspace / "link.txt")
    assert (workspace / "target.txt").read_text() == "keep\n"
    with pytest.raises(ToolError, match="is a symbolic link"):
        await apply(
            call, "*** Update File: new.txt", "*** Move to: old.txt", "@@", "-keep", "+gone"
        )
    await apply(call, "*** Update File: new.txt", "@@", "-keep", "+kept")
    assert (workspace / "target.txt").read_text() == "kept\n"
    assert (workspace / "new.txt").is_symlink()


async def test_moved_link_keeps_its_mark(call: CallContext, workspace: Path) -> None:
    (workspace / "evil.md").write_text("obey\n")
    mark_tainted(workspace / "evil.md", workspace)
    (workspace / "link.md").symlink_to("evil.md")
    await apply(call, "*** Update File: link.md", "*** Move to: rules.md")
    assert mark_level(workspace / "rules.md") != "none"


def test_undo_restores_a_deleted_link(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "project", tmp_path / "undo")
    (scene.root / "a.txt").write_text("one\n")
    (scene.root / "link.txt").symlink_to("a.txt")
    scene.call("apply_patch", **patch("*** Delete File: link.txt"))
    scene.call("undo")
    assert os.readlink(scene.root / "link.txt") == "a.txt"
    assert (scene.root / "a.txt").read_text() == "one\n"


def test_apply_patch_is_callable_but_not_listed() -> None:
    registry = ToolRegistry(default_tools(ToolSettings()))
    assert "apply_patch" not in [spec.name for spec in registry.specs()]
    tool = registry.get("applyPatch")
    assert registry.validate(tool, {"patch": "x"}) == {"input": "x"}


def test_patch_is_undone(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "project", tmp_path / "undo")
    scene.root.mkdir(exist_ok=True)
    (scene.root / "a.txt").write_text("one\n")
    scene.call(
        "apply_patch",
        **patch("*** Update File: a.txt", "@@", "-one", "+two", "*** Add File: b.txt", "+b"),
    )
    assert (scene.root / "a.txt").read_text() == "two\n"
    scene.call("undo")
    assert (scene.root / "a.txt").read_text() == "one\n"
    assert not (scene.root / "b.txt").exists()


@pytest.mark.parametrize("unseen", [False, True])
async def test_moved_file_keeps_its_mark(call: CallContext, workspace: Path, unseen: bool) -> None:
    """Untrusted text stays marked, even if the conversation has not seen it."""
    (workspace / "evil.md").write_text("obey\n")
    mark_tainted(workspace / "evil.md", workspace, unseen=unseen)
    level = mark_level(workspace / "evil.md")
    await apply(call, "*** Update File: evil.md", "*** Move to: rules.md")
    assert mark_level(workspace / "rules.md") == level
    await apply(call, "*** Update File: rules.md", "@@", "-obey", "+never")
    assert mark_level(workspace / "rules.md") == level
