"""Undo and redo of file tools, with changes of others in between."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.tools.built_in import RegistryDefaults, default_tools
from agent.tools.files.draft_check import Draft, NoDraftCheck
from agent.tools.registry import ToolRegistry
from agent.undo.blob_store import BlobStore
from agent.undo.change_log import ChangeLog
from agent.undo.reversal import UndoRequest
from tests.agent.undo.scene import Scene, Torn, TornLedger


def test_edit_is_undone_and_redone(scene: Scene) -> None:
    scene.write("a.txt", "one\n")
    scene.call("edit_file", path="a.txt", old_string="one", new_string="two")
    scene.undo()
    assert scene.text("a.txt") == "one\n"
    scene.redo()
    assert scene.text("a.txt") == "two\n"


def test_created_file_is_undone_with_its_folders(scene: Scene) -> None:
    scene.write("x/y/a.txt", "one")
    scene.undo()
    assert list(scene.root.iterdir()) == []
    scene.redo()
    assert scene.text("x/y/a.txt") == "one"


def test_folder_in_use_stays(scene: Scene) -> None:
    scene.write("x/a.txt", "one")
    (scene.root / "x" / "theirs.txt").write_text("theirs")
    scene.undo()
    assert [path.name for path in (scene.root / "x").iterdir()] == ["theirs.txt"]


def test_file_changed_by_others_is_skipped(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.write("a.txt", "two")
    (scene.root / "a.txt").write_text("theirs")
    assert scene.undo().paths("kept") == [scene.root / "a.txt"]
    assert scene.undo().paths("kept") == [scene.root / "a.txt"]
    assert scene.text("a.txt") == "theirs"


def test_forced_undo_stores_the_overwritten_content(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.write("a.txt", "two")
    (scene.root / "a.txt").write_text("theirs")
    scene.undo()
    scene.undo(force=True)
    assert scene.text("a.txt") == "one"
    scene.redo()
    assert scene.text("a.txt") == "theirs"


def test_created_file_changed_by_others_is_not_deleted(scene: Scene) -> None:
    scene.write("a.txt", "one")
    (scene.root / "a.txt").write_text("one and more")
    scene.undo()
    assert scene.text("a.txt") == "one and more"


def test_new_change_discards_redo(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.undo()
    scene.write("b.txt", "two")
    assert scene.redo().moves == ()
    assert scene.text("a.txt") is None


def test_undo_is_limited_to_the_path(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.write("b.txt", "two")
    scene.undo(path=scene.root / "a.txt")
    assert (scene.text("a.txt"), scene.text("b.txt")) == (None, "two")


def test_several_steps_are_undone_at_once(scene: Scene) -> None:
    for text in ("one", "two", "three"):
        scene.write("a.txt", text)
    scene.undo(steps=2)
    assert scene.text("a.txt") == "one"


def test_everything_since_a_turn_is_undone(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.turn = 2
    scene.write("a.txt", "two")
    scene.write("b.txt", "new")
    scene.turn = 3
    scene.write("a.txt", "three")
    scene.undo(since=2)
    assert (scene.text("a.txt"), scene.text("b.txt")) == ("one", None)


def test_steps_of_other_sessions_are_not_undone(scene: Scene) -> None:
    scene.write("a.txt", "one", session="s2")
    assert scene.undo().moves == ()
    assert scene.text("a.txt") == "one"


def test_mode_is_restored_unless_others_changed_it(scene: Scene) -> None:
    script = scene.root / "run.sh"
    script.write_text("one")
    script.chmod(0o750)
    scene.write("run.sh", "two")
    script.unlink()
    script.write_text("two")
    script.chmod(0o600)
    scene.undo()
    assert (scene.text("run.sh"), script.stat().st_mode & 0o777) == ("one", 0o600)
    scene.write("run.sh", "three")
    scene.undo()
    assert script.stat().st_mode & 0o777 == 0o600


def test_binary_content_is_restored(scene: Scene) -> None:
    data = bytes(range(256)) * 3
    (scene.root / "a.bin").write_bytes(data)
    scene.write("a.bin", "text")
    scene.undo()
    assert (scene.root / "a.bin").read_bytes() == data


def test_link_in_the_path_is_not_followed(scene: Scene, tmp_path: Path) -> None:
    scene.write("x/a.txt", "one")
    scene.write("x/a.txt", "two")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.txt").write_text("two")
    (scene.root / "x").rename(scene.root / "y")
    (scene.root / "x").symlink_to(elsewhere)
    scene.undo(force=True)
    assert (elsewhere / "a.txt").read_text() == "two"


def test_closed_path_is_skipped(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.write("b.txt", "two")

    def check(path: Path) -> None:
        if path.name == "b.txt":
            raise ToolError("not yours")

    scene.reverse(UndoRequest(steps=2), check=check)
    assert (scene.text("a.txt"), scene.text("b.txt")) == (None, "two")


def test_failed_write_does_not_count_as_a_step(scene: Scene) -> None:
    scene.write("a.txt", "one")
    origin = scene.context().changes.origin
    assert origin is not None
    scene.changes.files(origin, {scene.root / "a.txt": b"never written"})
    scene.undo()
    assert scene.text("a.txt") is None
    scene.redo()
    assert scene.text("a.txt") == "one"


def test_same_key_undoes_once(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.write("a.txt", "two")
    first = scene.reverse(key="k")
    again = scene.reverse(key="k")
    assert scene.text("a.txt") == "one"
    assert again.paths("undone") == first.paths("undone")


@pytest.mark.parametrize("at", ["begun", "before the end"])
def test_interrupted_undo_is_completed_by_repeating_it(scene: Scene, at: str) -> None:
    for text in ("one", "two", "three"):
        scene.write("a.txt", text)
    torn = TornLedger(scene.store)
    torn.at = at
    scene.changes = ChangeLog(torn, BlobStore(scene.store))
    with pytest.raises(Torn):
        scene.reverse(key="k")
    scene.changes = scene.reopened()
    scene.reverse(key="k")
    assert scene.text("a.txt") == "two"
    scene.redo()
    assert scene.text("a.txt") == "three"


def test_abandoned_interrupted_undo_loses_no_step(scene: Scene) -> None:
    for text in ("one", "two"):
        scene.write("a.txt", text)
    torn = TornLedger(scene.store)
    torn.at = "before the end"
    scene.changes = ChangeLog(torn, BlobStore(scene.store))
    with pytest.raises(Torn):
        scene.undo()
    scene.changes = scene.reopened()
    scene.undo()
    assert scene.text("a.txt") is None


def test_missing_content_is_not_restored(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.write("a.txt", "two")
    scene.changes.blobs.clear()
    assert scene.undo().paths("kept") == [scene.root / "a.txt"]
    assert scene.text("a.txt") == "two"


def test_damaged_content_is_not_restored(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.write("a.txt", "two")
    for blob in (scene.store / "blobs").rglob("*"):
        if blob.is_file():
            blob.write_bytes(blob.read_bytes()[:-3])
    scene.undo()
    assert scene.text("a.txt") == "two"


def test_log_is_private_to_its_owner(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.write("a.txt", "two")
    paths = [scene.store, *scene.store.rglob("*")]
    assert {os.stat(path).st_mode & 0o077 for path in paths} == {0}


def test_tool_reports_its_changes(scene: Scene) -> None:
    scene.write("a.txt", "one\n")
    scene.write("a.txt", "two\n")
    result = scene.call("undo")
    assert result.for_model == "Restored a.txt."
    assert "-two" in result.artifacts[0].content
    assert "+one" in result.artifacts[0].content


class _RecordedWrites(NoDraftCheck):
    """A `DraftCheck` that records the writes reported to language servers."""

    def __init__(self) -> None:
        self.paths: list[Path] = []

    async def after_write(self, drafts: Sequence[Draft]) -> None:
        self.paths += [draft.path for draft in drafts]


def test_restored_files_are_reported_to_language_servers(scene: Scene) -> None:
    scene.write("a.txt", "one\n")
    drafts = _RecordedWrites()
    scene.toolbox = ToolRegistry(
        default_tools(scene.settings, defaults=RegistryDefaults(drafts=drafts))
    )
    scene.call("undo")
    assert drafts.paths == [scene.root.resolve() / "a.txt"]


def test_tool_without_steps_reports_nothing_to_undo(scene: Scene) -> None:
    with pytest.raises(ToolError, match="nothing to undo"):
        scene.call("undo")


def test_person_learns_of_changes_that_cannot_be_undone(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "workspace", tmp_path / "undo", limit_bytes=10)
    (scene.root / "a.txt").write_text("old and far too long to be kept in so small a store")
    scene.call("read_file", path="a.txt")
    result = scene.call("write_file", path="a.txt", content="new")
    assert "cannot be undone" in (result.for_user or "")
    scene.undo()
    assert scene.text("a.txt") == "new"
