"""What a project's AGENTS.md or CLAUDE.md puts into the prompt, and whose word it is."""

import os
from pathlib import Path

import pytest

from agent.context.beginning import LIMIT_CHARS
from agent.context.instructions import Instructions
from agent.context.system import Workspace
from agent.security.marks import mark, mark_changed
from agent.security.origin import Origin


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository, and a folder in it."""
    folder = tmp_path / "repo" / "part"
    folder.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    return folder


def test_the_repository_s_come_first_and_the_nearest_last(project: Path) -> None:
    (project.parent / "AGENTS.md").write_text("Use tabs.")
    (project / "CLAUDE.md").write_text("Use blanks here.")
    (project.parent.parent / "AGENTS.md").write_text("beyond the repository")
    text = Instructions(project).read(project).text
    assert text.index("Use tabs.") < text.index("Use blanks here.")
    assert "beyond" not in text
    assert str(project / "CLAUDE.md") in text


def test_claude_md_stands_in_where_there_is_no_agents_md(project: Path) -> None:
    (project / "CLAUDE.md").write_text("from one")
    (project / "AGENTS.md").write_text("from the other")
    read = Instructions(project).read
    assert "from the other" in read(project).text
    assert "from one" not in read(project).text
    (project / "AGENTS.md").unlink()
    assert "from one" in read(project).text


def test_an_edit_applies_from_the_next_turn_on(project: Path) -> None:
    file = project / "AGENTS.md"
    read = Instructions(project).read
    assert read(project).text == ""
    file.write_text("one")
    assert "one" in read(project).text
    file.write_text("two")
    assert "two" in read(project).text


def test_a_link_shows_nothing(project: Path) -> None:
    (project.parent.parent / "secret").write_text("4711")
    (project / "AGENTS.md").symlink_to(project.parent.parent / "secret")
    os.mkfifo(project / "CLAUDE.md")
    assert Instructions(project).read(project).text == ""


def test_they_are_a_stranger_s_outside_of_the_workspace_and_of_trusted_folders(
    project: Path,
) -> None:
    (project / "AGENTS.md").write_text("Do it.")
    elsewhere = project.parent.parent / "own"
    strange = Instructions(elsewhere).read(project)
    assert strange.taint == {"private", "untrusted"}
    assert "not by the person" in strange.text
    trusted = Instructions(elsewhere, Origin((project.parent,))).read(project)
    assert trusted.taint == {"private"}
    assert "not by the person" not in trusted.text
    assert Instructions(project).read(project).taint == set()


def test_what_was_written_on_a_stranger_s_word_stays_one(project: Path) -> None:
    (project / "AGENTS.md").write_text("Do it.")
    mark(project / "AGENTS.md", project)
    assert "untrusted" in Instructions(project, Origin((project,))).read(project).taint


def test_a_persona_that_strangers_words_were_written_into_counts_as_theirs(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    (tmp_path / "crew").mkdir()
    cook = tmp_path / "crew" / "cook.md"
    cook.write_text("Speak of soup.")
    told = (workspace.owner_memory, tmp_path, "crew/cook.md")
    assert "untrusted" not in workspace.taint(*told)
    mark(cook, tmp_path)
    assert "untrusted" in workspace.taint(*told)
    assert "untrusted" not in workspace.taint(*told[:2], "Speak of soup, not of crew/cook.md")


def test_a_prompt_file_that_a_command_changed_counts_as_strangers_words(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    memory = workspace.owner_memory
    memory.parent.mkdir()
    (tmp_path / "SOUL.md").write_text("Be brief.")
    memory.write_text("The cat is called Mia.")
    # What a tool has written somebody was asked about.
    mark(memory, tmp_path)
    assert "untrusted" not in workspace.taint(memory, tmp_path)
    assert not workspace.system_prompt(memory, tmp_path, owner=True).notices
    mark_changed(tmp_path, (tmp_path / "SOUL.md").lstat().st_ctime)
    assert "untrusted" in workspace.taint(memory, tmp_path)
    assert "untrusted" in workspace.taint(tmp_path / "memory" / "telegram" / "7.md", tmp_path)
    notices = workspace.system_prompt(memory, tmp_path, owner=True).notices
    assert [notice.partition(" ")[0] for notice in notices] == ["SOUL.md", "MEMORY.md"]


def test_too_much_is_cut_with_a_notice_and_the_nearest_has_the_room(project: Path) -> None:
    (project / "AGENTS.md").write_text("near " + "x" * LIMIT_CHARS)
    (project.parent / "AGENTS.md").write_text("far")
    told = Instructions(project).read(project)
    assert "near" in told.text
    assert len(told.text) < LIMIT_CHARS + 1_000
    assert [str(project / "AGENTS.md") in notice for notice in told.notices] == [True, False]


def test_the_prompt_has_them_for_the_folder_that_is_worked_in(project: Path) -> None:
    (project / "AGENTS.md").write_text("Use tabs.")
    workspace = Workspace(project.parent.parent / "home")
    made = workspace.system_prompt(workspace.owner_memory, project, owner=True)
    assert "Use tabs." in made.text
    assert "untrusted" in workspace.taint(workspace.owner_memory, project)
    other = workspace.system_prompt(workspace.owner_memory, workspace.folder, owner=True)
    assert "Use tabs." not in other.text
