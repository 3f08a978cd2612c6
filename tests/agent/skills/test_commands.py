"""Custom commands: found, filled in, and not read through links that lead elsewhere."""

from pathlib import Path

import pytest

from agent.security.taint.file_marks import mark_tainted
from agent.skills.commands import (
    BUILT_IN,
    CommandFolder,
    CustomCommand,
    CustomCommands,
    Invocation,
)
from agent.skills.definition import Skill


def custom(body: str) -> CustomCommand:
    return CustomCommand("x", "", body, Path("x.md"), True)


@pytest.mark.parametrize(
    ("body", "arguments", "text"),
    [
        ("Mend $ARGUMENTS.", "issue 7", "Mend issue 7."),
        ("Mend {args}.", "issue 7", "Mend issue 7."),
        ("From $0 to $1, not $2", "a b", "From a to b, not $2"),
        ("It costs $10 or $ARGUMENTS", "", "It costs $10 or "),
        ("Look.", "at this", "Look.\n\nARGUMENTS: at this"),
        ("Look.", "", "Look."),
        ("Say $ARGUMENTS", "$1 {args}", "Say $1 {args}"),
    ],
)
def test_arguments_fill_their_placeholders(body: str, arguments: str, text: str) -> None:
    assert custom(body).fill(arguments) == text


def shelf(tmp_path: Path, name: str, *, project: bool, trusted: bool) -> CommandFolder:
    (tmp_path / name).mkdir()
    return CommandFolder(tmp_path / name, project, trusted)


def test_personal_command_precedes_a_project_command_of_the_same_name(tmp_path: Path) -> None:
    theirs = shelf(tmp_path, "theirs", project=True, trusted=False)
    mine = shelf(tmp_path, "mine", project=False, trusted=True)
    (theirs.folder / "fix.md").write_text("theirs")
    (mine.folder / "fix.md").write_text(
        "---\ndescription: mend it\nargument-hint: [issue]\n---\nmine"
    )
    (mine.folder / "git").mkdir()
    (mine.folder / "git" / "commit.md").write_text("# Commit all\nmore")
    customs = CustomCommands([theirs, mine])
    assert [(item.name, item.summary) for item in customs.all()] == [
        ("fix", "mend it"),
        ("git:commit", "Commit all"),
    ]
    commands = [customs.find(name) for name in ("fix", "project:fix", "user:fix", "fixes")]
    assert [item and (item.body, item.is_trusted) for item in commands] == [
        ("mine", True),
        ("theirs", False),
        ("mine", True),
        None,
    ]


@pytest.mark.parametrize("name", ["review", "Review"])
def test_own_command_replaces_a_built_in_one(tmp_path: Path, name: str) -> None:
    mine = shelf(tmp_path, "mine", project=False, trusted=True)
    (mine.folder / f"{name}.md").write_text("Look at it.")
    theirs = shelf(tmp_path, "theirs", project=True, trusted=False)
    (theirs.folder / "review.md").write_text("theirs")
    customs = CustomCommands([mine, theirs])
    invocation = customs.invocation_in(f"/{name} now")
    assert invocation is not None
    assert invocation.command == customs.find(name)
    assert invocation.arguments == "now"
    assert [command.name for command in customs.menu()] == ["init", name]
    for typed in ("/review", "/REVIEW", "/project:review"):
        invocation = customs.invocation_in(typed)
        assert invocation is not None
        is_theirs = typed.startswith("/project")
        assert (invocation.command == customs.find(name)) is not is_theirs


def test_exact_name_of_a_command_precedes_another_spelling(tmp_path: Path) -> None:
    mine = shelf(tmp_path, "mine", project=False, trusted=True)
    for name in ("Fix", "fix"):
        (mine.folder / f"{name}.md").write_text(name)
    customs = CustomCommands([mine], lambda: {"FIX": Skill("FIX", "Mends.", "skill", tmp_path)})
    assert [command.name for command in customs.menu()[2:]] == ["Fix", "fix"]
    for name in ("Fix", "fix"):
        command = customs.find(name)
        assert command is not None
        assert command.body == name


def test_own_skill_replaces_a_built_in_command_and_that_of_an_untrusted_folder(
    tmp_path: Path,
) -> None:
    theirs = shelf(tmp_path, "theirs", project=True, trusted=False)
    for name in ("review", "init"):
        (theirs.folder / f"{name}.md").write_text("theirs")
    skill = Skill("Init", "Begins.", "mine", tmp_path)
    customs = CustomCommands([theirs], lambda: {"Init": skill})
    assert customs.invocation_in("/review") == Invocation(BUILT_IN["review"])
    invocation = customs.invocation_in("/init")
    assert invocation is not None
    assert invocation.skill == skill
    assert [command.name for command in customs.menu()] == ["review", "Init"]
    explicit = customs.invocation_in("/project:review")
    assert explicit is not None
    assert not explicit.is_trusted


def test_own_skill_precedes_a_command_of_an_untrusted_folder(tmp_path: Path) -> None:
    theirs = shelf(tmp_path, "theirs", project=True, trusted=False)
    (theirs.folder / "fix.md").write_text("theirs")
    skill = Skill("fix", "Mends.", "mine", tmp_path)
    customs = CustomCommands([theirs], lambda: {"fix": skill})
    assert [command.skill for command in customs.all()] == [skill]
    found = customs.find("fix")
    assert found is not None
    assert found.skill == skill


def test_summary_separates_description_and_argument_hint(tmp_path: Path) -> None:
    mine = shelf(tmp_path, "mine", project=False, trusted=True)
    head = "---\ndescription: Greet someone.\nargument-hint: NAME [WORDS]\n---\nhi"
    (mine.folder / "greet.md").write_text(head)
    (result,) = CustomCommands([mine]).all()
    assert result.summary == "Greet someone: NAME [WORDS]"


def test_link_in_a_project_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key.md").write_text("secret")
    theirs = shelf(tmp_path, "theirs", project=True, trusted=False)
    (theirs.folder / "leak.md").symlink_to(tmp_path / "secret.md")
    (theirs.folder / "more").symlink_to(tmp_path / "secrets")
    (tmp_path / "linked").symlink_to(tmp_path / "secrets")
    linked = CommandFolder(tmp_path / "linked", True, False)
    assert CustomCommands([theirs, linked]).all() == []


def test_missing_folder_has_no_commands(tmp_path: Path) -> None:
    assert CustomCommands([CommandFolder(tmp_path / "none", True, True)]).all() == []


def test_command_file_written_by_a_tainted_command_is_ignored(tmp_path: Path) -> None:
    mine = shelf(tmp_path, "mine", project=True, trusted=True)
    for name in ("planted", "asked"):
        (mine.folder / f"{name}.md").write_text("Obey.")
    customs = CustomCommands([mine])
    assert [item.is_trusted for item in customs.all()] == [True, True]
    mark_tainted(mine.folder / "planted.md", tmp_path, unseen=True)
    mark_tainted(mine.folder / "asked.md", tmp_path)
    assert [(item.name, item.is_trusted) for item in customs.all()] == [("asked", False)]
    assert customs.find("planted") is None


@pytest.mark.parametrize("plugin", ["", "theirs"])
def test_skill_is_a_command_and_plugin_skill_is_untrusted(tmp_path: Path, plugin: str) -> None:
    body = "Tidy $ARGUMENTS with $tool, for \\$1."
    skill = Skill("tidy", "Tidies.", body, tmp_path, plugin=plugin, arguments=("what", "tool"))
    hidden = Skill("hidden", "Hides.", "B", tmp_path, is_for_people=False)
    commands = CustomCommands((), lambda: {"tidy": skill, "hidden": hidden})
    assert [item.name for item in commands.all()] == ["tidy"]
    assert commands.find("hidden") is None
    command = commands.find("tidy")
    assert command is not None
    assert command.is_trusted is (plugin == "")
    assert "Tidy up care with care, for $1." in command.fill("up care")


def test_command_names_its_arguments(tmp_path: Path) -> None:
    mine = shelf(tmp_path, "mine", project=False, trusted=True)
    (mine.folder / "fix.md").write_text("---\narguments: [what, why]\n---\nFix $what: $why.")
    command = CustomCommands([mine]).find("fix")
    assert command is not None
    assert command.fill("it 'as soon'") == "Fix it: as soon."
