"""File changes by the owner on the page: judged like tool calls, recorded and undone."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.errors import KoreError, PolicyDenied
from agent.providers.scripted import ScriptedProvider
from agent.settings import ToolSettings
from gateway.access.roles import PolicySettings, RoleRegistry
from gateway.config import Settings
from gateway.config.sections import AgentSection, SecuritySection
from gateway.ops.project_changes import ChangeRules, ProjectChanges
from gateway.ops.project_files import ProjectFiles
from gateway.store.repositories.user_data import erasure
from tests.gateway.commands.writing import OWNER, write_contents, writing
from tests.gateway.parts import Parts, answer_to, chat_message, running


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    (tmp_path / "other").mkdir()
    security = SecuritySection(trusted_folders=(str(tmp_path / "other"),))
    provider = ScriptedProvider([*writing("one")])
    async with running(tmp_path, provider, settings={"security": security}, **OWNER) as parts:
        yield parts


def put(parts: Parts, name: str, text: str) -> Path:
    path = parts.workspace / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "path",
    ["../outside.txt", "/etc/hostname", "link.txt", "linked/secret.txt", "a\0b", ".", ""],
)
async def test_files_outside_are_not_moved_deleted_or_created(parts: Parts, path: str) -> None:
    outside = parts.workspace.parent / "secret.txt"
    outside.write_text("secret")
    put(parts, "a.txt", "words")
    (parts.workspace / "linked").symlink_to(outside.parent)
    service, place = parts.service, str(parts.workspace)
    if path != "link.txt":
        with pytest.raises(KoreError):
            await service.delete_path(place, path)
        if path != ".":
            with pytest.raises(KoreError):
                await service.move_path(place, "a.txt", path)
    else:
        # Deletion removes the link itself, never its target.
        (parts.workspace / path).symlink_to(outside)
        await service.delete_path(place, path)
        assert not (parts.workspace / path).is_symlink()
    with pytest.raises(KoreError):
        await service.make_folder(place, path if path != "link.txt" else "linked/new")
    with pytest.raises(KoreError, match="expected one of"):
        await service.delete_path("/etc", "hostname")
    assert outside.read_text() == "secret"
    assert (parts.workspace / "a.txt").read_text() == "words"


async def test_each_folder_has_its_own_steps_and_files_are_not_overwritten(parts: Parts) -> None:
    service, other = parts.service, parts.workspace.parent / "other"
    put(parts, "a.txt", "one")
    (other / "b.txt").write_text("two")
    await service.delete_path(str(parts.workspace), "a.txt")
    await service.delete_path(str(other), "b.txt")
    assert (await service.undo_change(str(parts.workspace)))["paths"] == ["a.txt"]
    assert not (other / "b.txt").exists()
    with pytest.raises(KoreError, match="nothing to undo"):
        await service.undo_change(str(parts.workspace))
    put(parts, "c.txt", "three")
    with pytest.raises(KoreError, match="already exists"):
        await service.move_path(str(parts.workspace), "a.txt", "c.txt")
    with pytest.raises(KoreError, match="already exists"):
        await service.make_folder(str(parts.workspace), "a.txt")


async def test_undo_skips_files_changed_by_others(parts: Parts) -> None:
    service, place = parts.service, str(parts.workspace)
    await service.write_file(place, "a.txt", "mine")
    put(parts, "a.txt", "theirs")
    undone = await service.undo_change(place)
    assert (undone["paths"], undone["text"]) == (
        [],
        "Skipped a.txt: someone else has changed it since.",
    )
    assert (parts.workspace / "a.txt").read_text() == "theirs"


async def test_undo_in_the_conversation_of_the_owner_includes_page_changes(parts: Parts) -> None:
    file = await write_contents(parts, "one")
    shown = await parts.service.read_file(str(parts.workspace), "a.txt")
    await parts.service.write_file(str(parts.workspace), "a.txt", "two", shown["digest"])
    assert await answer_to(parts, chat_message("/undo")) == "Restored a.txt."
    assert file.read_text() == "one"
    assert await answer_to(parts, chat_message("/undo")) == "Removed a.txt."
    assert await answer_to(parts, chat_message("/redo 2")) == "Restored a.txt."
    assert file.read_text() == "two"


async def test_denial_by_the_policy_applies(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    rules = "write_file: {paths: ['docs/**']}, move_file: {paths: ['docs/**']}"
    policy.write_text(f"roles:\n  build:\n    tools: {{{rules}}}\n")
    (workspace := tmp_path / "workspace").mkdir()
    place, tools = str(workspace), ToolSettings()
    settings = Settings().model_copy(update={"agent": AgentSection(workspace=workspace)})
    registry = RoleRegistry(PolicySettings(policy))
    changes = ProjectChanges(ProjectFiles(settings, tools), ChangeRules(tools, registry, None))
    (workspace / "a.txt").write_text("one")
    await changes.write(place, "docs/a.txt", "one", "")
    await changes.move(place, "docs/a.txt", "docs/b.txt")
    for denied in (
        changes.write(place, "b.txt", "two", ""),
        changes.move(place, "docs/b.txt", "b.txt"),
        changes.move(place, "a.txt", None),
        changes.make_folder(place, "src"),
    ):
        with pytest.raises(PolicyDenied):
            await denied
    assert sorted(path.name for path in workspace.iterdir()) == ["a.txt", "docs"]


async def test_deleting_data_of_the_owner_removes_page_changes(parts: Parts) -> None:
    await parts.service.write_file(str(parts.workspace), "a.txt", "mine")
    assert await parts.stored("file_change", "count(*)") == [(1,)]
    await parts.database.transact(erasure.erase, "cli:0", 1.0)
    assert await parts.stored("file_change", "count(*)") == [(0,)]
