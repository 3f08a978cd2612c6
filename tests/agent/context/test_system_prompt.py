"""The system prompt, built from workspace files and stable while these do not change."""

import os
import tracemalloc
from pathlib import Path

import pytest

from agent.context.system_prompt import Workspace
from agent.security.taint.prompt_file import MAX_CHARS

FILES = ("IDENTITY.md", "AGENT.md", "SOUL.md", "USER.md")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    for name in FILES:
        (tmp_path / name).write_text(f"I am {name}.\n")
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "MEMORY.md").write_text("The cat is called Mia.")
    return Workspace(tmp_path)


def prompt(workspace: Workspace) -> str:
    return workspace.system_prompt(workspace.owner_memory, workspace.folder, owner=True).text


def test_prompt_contains_the_files_in_order(workspace: Workspace) -> None:
    text = prompt(workspace)
    places = [text.index(f"I am {name}.") for name in FILES]
    assert places == sorted(places)
    assert text.index("Mia") > places[-1]
    assert str(workspace.folder) in text


def test_prompt_is_identical_in_every_turn(workspace: Workspace) -> None:
    first = prompt(workspace)
    for name in FILES:
        path = workspace.folder / name
        os.utime(path, (1, 1))
    assert prompt(workspace) == first
    assert prompt(Workspace(workspace.folder)) == first


def test_edit_applies_from_the_next_turn(workspace: Workspace) -> None:
    prompt(workspace)
    (workspace.folder / "SOUL.md").write_text("Be brief.")
    assert "Be brief." in prompt(workspace)
    assert "I am SOUL.md." not in prompt(workspace)
    (workspace.folder / "SOUL.md").unlink()
    assert "Be brief." not in prompt(workspace)
    (workspace.folder / "SOUL.md").write_text("Be kind.")
    assert "Be kind." in prompt(workspace)


def test_edit_of_equal_length_is_noticed(workspace: Workspace) -> None:
    prompt(workspace)
    path = workspace.folder / "SOUL.md"
    stat = path.stat()
    path.write_text("I am S0UL.md.\n")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert "S0UL" in prompt(workspace)


def test_missing_empty_and_odd_files_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "IDENTITY.md").write_text("  \n\n")
    (tmp_path / "AGENT.md").mkdir()
    (tmp_path / "SOUL.md").symlink_to(tmp_path / "nowhere")
    workspace = Workspace(tmp_path)
    made = workspace.system_prompt(workspace.owner_memory, tmp_path, owner=True)
    assert str(tmp_path) in made.text
    (notice,) = made.notices
    assert "SOUL.md is a link" in notice
    assert made.text == made.text.strip()
    assert prompt(Workspace(tmp_path / "missing"))


def test_pipe_instead_of_a_file_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "SOUL.md")
    assert str(tmp_path) in prompt(Workspace(tmp_path))


def test_huge_file_is_cut_with_a_notice(workspace: Workspace) -> None:
    path = workspace.folder / "USER.md"
    path.write_text("start " + "x" * MAX_CHARS + "END")
    made = workspace.system_prompt(workspace.owner_memory, workspace.folder, owner=True)
    assert "start xxx" in made.text
    assert "END" not in made.text
    (notice,) = made.notices
    assert "USER.md is longer than 20,000 characters" in notice


@pytest.mark.parametrize("is_snapshot", [False, True])
def test_too_long_memory_keeps_its_newest_lines(workspace: Workspace, is_snapshot: bool) -> None:
    memory = workspace.owner_memory
    lines = [f"- 2026-01-01: fact {number} of many" for number in range(1_000)]
    memory.write_text("\n".join([*lines, "- 2026-02-02: the newest", ""]))
    text = workspace.memory_snapshot(memory) if is_snapshot else None
    made = workspace.system_prompt(memory, workspace.folder, owner=True, memory_text=text)
    assert "the newest" in made.text
    assert "…\n- 2026-01-01: fact " in made.text
    assert "fact 0 of" not in made.text
    (notice,) = made.notices
    assert "MEMORY.md is longer than 20,000 characters; only its newest lines" in notice
    assert workspace.text_of(memory).endswith("the newest")


def test_file_with_a_blank_at_the_limit_is_cut_with_a_notice(workspace: Workspace) -> None:
    path = workspace.folder / "USER.md"
    path.write_text("x" * MAX_CHARS + "\nEND")
    made = workspace.system_prompt(workspace.owner_memory, workspace.folder, owner=True)
    assert "END" not in made.text
    assert len(made.notices) == 1


def test_invalid_bytes_and_windows_line_ends_are_read(workspace: Workspace) -> None:
    (workspace.folder / "SOUL.md").write_bytes(b"caf\xe9\r\nnext $root ${HOME} $")
    text = prompt(workspace)
    assert "caf\ufffd\nnext $root ${HOME} $" in text


def test_guest_prompt_contains_nothing_about_the_owner(workspace: Workspace) -> None:
    guest = workspace.folder / "memory" / "telegram" / "7" / "MEMORY.md"
    guest.parent.mkdir(parents=True)
    guest.write_text("The guest likes tea.")
    text = workspace.system_prompt(guest, workspace.folder, owner=False).text
    assert "I am SOUL.md." in text
    assert "The guest likes tea." in text
    assert "USER.md" not in text
    assert "Mia" not in text
    assert "tea" not in prompt(workspace)


def test_cached_memories_of_many_people_are_bounded(
    workspace: Workspace,
) -> None:
    people = [workspace.folder / "memory" / "telegram" / f"{n}" / "MEMORY.md" for n in range(100)]
    for number, path in enumerate(people):
        path.parent.mkdir(parents=True)
        path.write_text(f"- number {number} " + "x" * 10_000)
    tracemalloc.start()
    try:
        for _ in range(2):
            for number, path in enumerate(people):
                made = workspace.system_prompt(path, path, owner=False)
                assert f"- number {number} " in made.text
        assert tracemalloc.get_traced_memory()[0] < 900_000
    finally:
        tracemalloc.stop()


def test_link_out_of_the_workspace_is_not_in_the_prompt(
    workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A sandboxed command may write only the workspace, but Kore can read more."""
    outside = tmp_path_factory.mktemp("outside") / "secrets.json"
    outside.write_text("canary")
    soul = workspace.folder / "SOUL.md"
    soul.unlink()
    soul.symlink_to(outside)
    made = workspace.system_prompt(workspace.owner_memory, workspace.folder, owner=True)
    assert "canary" not in made.text
    (notice,) = made.notices
    assert "SOUL.md is a link" in notice


def test_memory_that_is_a_link_is_left_out_with_a_notice(workspace: Workspace) -> None:
    memory = workspace.owner_memory
    memory.rename(workspace.folder / "mine.md")
    memory.symlink_to(workspace.folder / "mine.md")
    snapshot = workspace.memory_snapshot(memory)
    made = workspace.system_prompt(memory, workspace.folder, owner=True, memory_text=snapshot)
    assert "MEMORY.md is a link" in made.notices[0]


def test_link_inside_the_workspace_is_not_used(workspace: Workspace) -> None:
    """A command that cannot write the target can still choose it."""
    soul = workspace.folder / "SOUL.md"
    soul.rename(workspace.folder / "mine.md")
    soul.symlink_to("mine.md")
    made = workspace.system_prompt(workspace.owner_memory, workspace.folder, owner=True)
    assert "I am SOUL.md." not in made.text
    assert "SOUL.md is a link" in made.notices[0]
