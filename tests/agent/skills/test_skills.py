"""Skills from their files to the prompt of the model."""

from pathlib import Path

import pytest

from agent.agent import Agent
from agent.context.compaction.compactor import shorten_old_result
from agent.providers.scripted import ScriptedProvider
from agent.security.taint.command_marks import TaintingCommand
from agent.security.taint.file_marks import mark_tainted
from agent.skills.authoring import find_skill_request, writing_request
from agent.skills.catalog import SkillCatalog, SkillPaths
from agent.skills.commands import BUILT_IN, Invocation
from agent.skills.definition import files_of, find_skill, read_skill
from agent.skills.substitution import fill_in, skill_text
from agent.types import Message, Result, Text
from tests.agent.props import calls
from tests.agent.skills.skill_files import catalog, skill_call, write


@pytest.mark.parametrize(
    ("text", "name", "description", "remark"),
    [
        ("---\nname: x\ndescription: Does it.\n---\nB", "x", "Does it.", None),
        ("---\r\nname: x\r\ndescription: Does it.\r\n---\r\nB", "x", "Does it.", None),
        ("\ufeff---\nname: x\ndescription: Does it.\n---\nB", "x", "Does it.", None),
        ("---\nname: x\ndescription: Use when: a, b\n---\nB", "x", "Use when: a, b", ""),
        ("---\nname: X Y\ndescription: d\n---\nB", "X Y", "d", "single hyphens"),
        ("---\ndescription: d\n---\nB", "x", "d", None),
        ("---\nname: x\ndescription: d\nwhen_to_use: at noon\n---\nB", "x", "d at noon", None),
        ("---\nname: x\ndescription: " + "d" * 2000 + "\n---\nB", "x", "d" * 1023 + "…", "longer"),
    ],
)
def test_published_skill_is_read(
    tmp_path: Path, text: str, name: str, description: str, remark: str | None
) -> None:
    skill = read_skill(text.encode(), tmp_path / "x")
    assert skill is not None
    assert (skill.name, skill.description, skill.body) == (name, description, "B")
    if remark is None:
        assert skill.remarks == ()
    else:
        assert any(remark in line for line in skill.remarks) or not remark


@pytest.mark.parametrize(
    ("field", "note"),
    [
        ("name: other", "not that of its folder"),
        ("mood: good", "mood"),
        ("allowed-tools: Bash(*)", "never grants"),
    ],
)
def test_harmless_oddity_is_a_note(tmp_path: Path, field: str, note: str) -> None:
    skill = read_skill(f"---\ndescription: d\n{field}\n---\nB".encode(), tmp_path / "x")
    assert skill is not None
    assert skill.remarks == ()
    assert [note in line for line in skill.notes] == [True]


@pytest.mark.parametrize("text", [b"", b"# Only a text", b"---\nname: x\n---\nB", b"\xff\x00\xfe"])
def test_file_without_a_description_is_not_a_skill(tmp_path: Path, text: bytes) -> None:
    assert read_skill(text, tmp_path / "x") is None


@pytest.mark.parametrize(
    ("body", "arguments", "names", "text"),
    [
        ("Fix $0 in $1.", "a 'b c'", (), "Fix a in b c."),
        ("Fix $ARGUMENTS[1] and $ARGUMENTS", "a b", (), "Fix b and a b"),
        ("Fix $2", "a b", (), "Fix $2"),
        ("Fix $file by $who", "a", ("file", "who"), "Fix a by "),
        ("Costs \\$1 for $0", "a b", (), "Costs $1 for a"),
        ("Say $0", "$1 b", (), "Say $1"),
        ("No place", "a b", (), "No place\n\nARGUMENTS: a b"),
        ("No place", "", (), "No place"),
        ("echo $HOME", "", (), "echo $HOME"),
        ("Open 'quote $0", "it's", (), "Open 'quote it's"),
    ],
)
def test_arguments_are_filled_in(
    body: str, arguments: str, names: tuple[str, ...], text: str
) -> None:
    assert fill_in(body, arguments, names) == text


@pytest.mark.parametrize(
    ("body", "arguments", "text"),
    [
        ("State: !`git status`", "", "State: [output of `git status`]"),
        ("!`git log $0`", "v1", "[output of `git log v1`]"),
        ("a!`no`, x=!`no`", "", "a!`no`, x=!`no`"),
        ("```!\nls\npwd\n```", "", "[output of:]\n```\nls\npwd\n```"),
        ("Say $0", "'!`rm -r x`'", "Say !`rm -r x`"),
    ],
)
def test_commands_in_a_text_are_not_run(
    tmp_path: Path, body: str, arguments: str, text: str
) -> None:
    place = write(tmp_path, "one", f"---\ndescription: d\n---\n{body}")
    skill = read_skill((place / "SKILL.md").read_bytes(), place)
    assert skill is not None
    words = skill_text(skill, arguments)
    assert words.endswith(text)
    assert ("first run that command with `exec`" in words) == ("[output of" in text)


def test_paths_model_and_effort_are_read(tmp_path: Path) -> None:
    skills = catalog(tmp_path)
    fields = "description: d\npaths: ['src/*.ts', docs/**]\neffort: High\nmodel: opus"
    write(tmp_path / "own" / "skills", "one", f"---\n{fields}\n---\nB")
    write(tmp_path / "own" / "skills", "two", "---\ndescription: d\neffort: huge\n---\nB")
    first, second = skills.load().values()
    assert (first.paths, first.effort, first.model) == (("src/*.ts", "docs/**"), "high", "opus")
    assert first.remarks == ()
    assert second.effort is None
    assert "huge" in second.remarks[0]
    assert "- one (only for src/*.ts, docs/**): d" in skills.listing(tmp_path)


def test_nearest_skill_wins_and_project_needs_trust(tmp_path: Path) -> None:
    skills = catalog(tmp_path)
    project = tmp_path / "project"
    write(tmp_path / "user" / ".claude" / "skills", "shared", "---\ndescription: user\n---\n")
    write(tmp_path / "workspace" / "skills", "shared", "---\ndescription: workspace\n---\n")
    write(tmp_path / "own" / "skills", "mine")
    write(project / ".agents" / "skills", "shared", "---\ndescription: project\n---\n")
    (project / ".git").mkdir()
    assert {n: s.description for n, s in skills.load(project).items()} == {
        "mine": "How to do mine.",
        "shared": "workspace",
    }
    trusting = catalog(tmp_path, project)
    assert trusting.load(project)["shared"].description == "project"
    assert trusting.load(tmp_path)["shared"].description == "workspace"


def test_search_depth_is_limited(tmp_path: Path) -> None:
    folder = tmp_path / "own" / "skills"
    write(folder / "a" / "b", "nested")
    write(folder.joinpath(*"abcdefgh"), "deep")
    assert set(catalog(tmp_path).load()) == {"nested"}


@pytest.mark.parametrize("place", ["user/.claude/skills", "own/skills", "workspace/skills"])
def test_links_in_personal_folders_are_followed(tmp_path: Path, place: str) -> None:
    skills = catalog(tmp_path)
    folder = tmp_path / place
    folder.mkdir(parents=True)
    (folder / "one").symlink_to(write(tmp_path / "elsewhere", "one"))
    (folder / "loop").symlink_to(tmp_path)
    (folder / "nowhere").symlink_to(tmp_path / "nowhere")
    assert set(skills.load()) == {"one"}


@pytest.mark.parametrize("link", [".claude/skills/one", ".claude/skills", ".claude"])
def test_link_out_of_a_project_is_ignored(tmp_path: Path, link: str) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    write(tmp_path / "elsewhere/skills", "one")
    target = tmp_path / "elsewhere"
    (project / link).parent.mkdir(parents=True, exist_ok=True)
    (project / link).symlink_to(target if link == ".claude" else target / "skills")
    write(project / ".agents" / "skills", "mine")
    assert set(catalog(tmp_path, project).load(project)) == {"mine"}


def test_link_out_of_a_plugin_is_ignored(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin" / "skills"
    write(plugin, "mine")
    (plugin / "one").symlink_to(write(tmp_path / "elsewhere", "one"))
    places = (tmp_path / "user", tmp_path / "own", tmp_path / "workspace")
    skills = SkillCatalog(SkillPaths(*places, plugins=(("p", plugin),)))
    assert set(skills.load()) == {"mine"}


def test_link_created_by_a_tainted_command_is_ignored(tmp_path: Path) -> None:
    skills = catalog(tmp_path)
    workspace = tmp_path / "workspace"
    other = write(tmp_path / "elsewhere", "other")
    (workspace / "skills").mkdir()
    (workspace / "skills" / "theirs").symlink_to(write(tmp_path / "elsewhere", "one"))
    (workspace / "skills" / "other").symlink_to(other)
    assert set(skills.load()) == {"one", "other"}
    mark_tainted(other / "SKILL.md", tmp_path / "elsewhere")
    assert set(skills.load()) == {"one"}
    command = TaintingCommand(workspace)
    command.start()
    (workspace / "skills" / "theirs").unlink()
    (workspace / "skills" / "theirs").symlink_to(tmp_path / "elsewhere" / "one")
    command.end()
    assert skills.load() == {}


def test_marked_skill_is_ignored(tmp_path: Path) -> None:
    skills = catalog(tmp_path)
    place = write(tmp_path / "workspace" / "skills", "odd")
    assert "odd" in skills.load()
    mark_tainted(tmp_path / "workspace", place / "SKILL.md")
    assert "odd" not in skills.load()


def test_changed_file_is_reloaded(tmp_path: Path) -> None:
    skills = catalog(tmp_path)
    place = write(tmp_path / "own" / "skills", "one")
    assert skills.load()["one"].description == "How to do one."
    (place / "SKILL.md").write_text("---\ndescription: Another way entirely.\n---\n")
    assert skills.load()["one"].description == "Another way entirely."


def test_hundred_skills_take_little_of_the_prompt(tmp_path: Path) -> None:
    skills = catalog(tmp_path)
    assert skills.listing(tmp_path) == ""
    for n in range(100):
        text = f"---\nname: skill-{n:03}\ndescription: {'Does much. ' * 90}\n---\n"
        write(tmp_path / "own" / "skills", f"skill-{n:03}", text)
    listing = skills.listing(tmp_path)
    assert len(skills.load()) == 100
    assert len(listing) < 9_500
    assert "described by `skill` with `query`" in listing.splitlines()[-1]
    assert max(map(len, listing.splitlines()[:-1])) <= 300


def plugin_skills(tmp_path: Path, plugin: str, *names: str) -> tuple[str, Path]:
    folder = tmp_path / "plugins" / plugin
    for name in names:
        write(folder, name, f"---\nname: {name}\ndescription: {plugin} does {name}.\n---\nB")
    return plugin, folder


def with_plugins(tmp_path: Path, *plugins: tuple[str, Path]) -> SkillCatalog:
    places = (tmp_path / "user", tmp_path / "own", tmp_path / "workspace")
    return SkillCatalog(SkillPaths(*places, plugins=plugins))


def test_equal_names_of_plugins_are_all_listed(tmp_path: Path) -> None:
    first = plugin_skills(tmp_path, "first", "commit", "tag", "note")
    second = plugin_skills(tmp_path, "second", "commit")
    write(tmp_path / "own" / "skills", "note")
    skills = with_plugins(tmp_path, first, second)
    by_name = skills.load()
    assert set(by_name) == {"first:commit", "second:commit", "tag", "first:note", "note"}
    assert by_name["note"].is_own
    listing = skills.listing(tmp_path)
    assert "- first:commit: first does commit." in listing
    assert "- second:commit: second does commit." in listing
    assert find_skill(by_name, "first:tag") == by_name["tag"]
    commands = skills.commands(tmp_path)
    assert commands.invocation_in("/commit now") is None
    assert sorted(commands.equal_names("/commit now")) == ["first:commit", "second:commit"]
    invocation = commands.invocation_in("/second:commit now")
    assert invocation is not None
    assert invocation.text().startswith("Skill second:commit, in the folder /")
    assert not invocation.is_trusted


def test_names_of_skills_are_equal_without_case_and_kind_of_dash(tmp_path: Path) -> None:
    first = plugin_skills(tmp_path, "first", "release_notes", "tidy up")
    second = plugin_skills(tmp_path, "second", "release-notes")
    write(tmp_path / "own" / "skills", "Tidy_Up", "---\nname: Tidy_Up\ndescription: d\n---\nOld")
    near = tmp_path / "workspace" / "skills"
    write(near, "tidy-up", "---\nname: tidy-up\ndescription: d\n---\nNew")
    skills = with_plugins(tmp_path, first, second)
    titles = ["first:release_notes", "second:release-notes"]
    assert sorted(skills.load()) == ["first:release_notes", "first:tidy up", titles[1], "tidy-up"]
    commands = skills.commands(tmp_path)
    for typed in ("/release_notes", "/release-notes", "/Release-Notes"):
        assert commands.invocation_in(typed) is None
        assert sorted(commands.equal_names(typed)) == titles
    for typed in ("/Tidy_Up", "/tidy_up"):
        invocation = commands.invocation_in(typed)
        assert invocation is not None
        assert invocation.skill is not None
        assert invocation.skill.body == "New"


def test_plugin_skill_does_not_replace_a_built_in_command(tmp_path: Path) -> None:
    skills = with_plugins(tmp_path, plugin_skills(tmp_path, "theirs", "Review"))
    assert set(skills.load()) == {"theirs:Review"}
    commands = skills.commands(tmp_path)
    assert [command.name for command in commands.menu()] == ["review", "init", "theirs:Review"]
    for typed in ("/review", "/Review"):
        assert commands.invocation_in(typed) == Invocation(BUILT_IN["review"])


def test_listing_puts_own_skills_before_those_of_plugins(tmp_path: Path) -> None:
    plugins = [
        plugin_skills(tmp_path, f"p{n:02}", *(f"does-{n:02}-{each}" for each in range(4)))
        for n in range(92)
    ]
    write(tmp_path / "own" / "skills", "mine")
    skills = with_plugins(tmp_path, *plugins)
    listing = skills.listing(tmp_path)
    assert len(listing) < 4_000
    assert listing.index("- mine:") < listing.index("does-91-3")
    assert str(tmp_path) not in listing
    assert "further skills" in listing
    assert "does-07-2" not in listing
    assert next(iter(skills.search("does 07 2", tmp_path))) == "does-07-2"


async def test_tool_finds_skills_by_a_query(tmp_path: Path) -> None:
    catalog(tmp_path)
    for name, purpose in (("release", "Makes a release."), ("other", "Cooks soup.")):
        write(tmp_path / "own" / "skills", name, f"---\ndescription: {purpose}\n---\nB")
    searches = calls(skill_call("c1", query="soup"), skill_call("c2", query="astronomy"))
    _, model = await ask(tmp_path, searches, "done")
    results = [message for message in model.requests[-1].messages if message.role == "tool"]
    assert results[0].text == "- other: Cooks soup."
    assert results[1].is_error


async def ask(tmp_path: Path, *steps: Message | str) -> tuple[Result, ScriptedProvider]:
    model = ScriptedProvider(list(steps))
    agent = Agent(model, workspace=tmp_path / "workspace", skills=catalog(tmp_path))
    async with agent:
        return await agent.run("go"), model


async def test_model_sees_the_listing_and_reads_a_skill(tmp_path: Path) -> None:
    catalog(tmp_path)
    place = write(
        tmp_path / "own" / "skills",
        "release",
        "---\nname: release\ndescription: Makes a release.\n---\nTag $0.",
        scripts__tag="#!/bin/sh\n",
    )
    read = calls(skill_call("c1", name="release", arguments="v1"))
    file = calls(skill_call("c2", name="release", file="scripts/tag"))
    away = calls(skill_call("c3", name="release", file="../../../../etc/passwd"))
    result, model = await ask(tmp_path, read, file, away, "done")
    assert "- release: Makes a release." in model.requests[0].system
    assert "skill" in [tool.name for tool in model.requests[0].tools]
    text, script, failure = (message for message in result.messages if message.role == "tool")
    assert text.text.startswith(f"Skill release, in the folder {place}:")
    assert "Tag v1." in text.text
    assert "scripts/tag" in text.text
    assert text.taint == frozenset()
    assert script.text == "#!/bin/sh\n"
    assert "has no file" in failure.text
    # The text of the skill survives the shortening of old results.
    long = Message("tool", (Text(text.text + "x" * 5_000),), tool_call_id="c1")
    assert shorten_old_result(long) == long


async def test_prompt_without_skills_does_not_mention_them(tmp_path: Path) -> None:
    catalog(tmp_path)
    _, model = await ask(tmp_path, "done")
    assert "# Skills" not in model.requests[0].system
    assert "skill" not in [tool.name for tool in model.requests[0].tools]


async def test_skill_for_people_only_is_not_listed(tmp_path: Path) -> None:
    catalog(tmp_path)
    write(
        tmp_path / "own" / "skills",
        "secret-plan",
        "---\ndescription: d\ndisable-model-invocation: true\n---\nB",
    )
    result, model = await ask(tmp_path, calls(skill_call("c1", name="secret-plan")), "done")
    assert "There is no skill" in next(
        message.text for message in result.messages if message.role == "tool"
    )
    assert "secret-plan" not in model.requests[0].system
    assert "skill" not in [tool.name for tool in model.requests[0].tools]


async def test_forked_skill_runs_in_a_sub_agent(tmp_path: Path) -> None:
    catalog(tmp_path)
    write(
        tmp_path / "own" / "skills",
        "survey",
        "---\ndescription: d\ncontext: fork\nagent: explore\n---\nCount the $0.",
    )
    fork = calls(skill_call("c1", name="survey", arguments="files"))
    result, model = await ask(tmp_path, fork, "there are three", "done")
    assert "Count the files." in model.requests[1].messages[-1].text
    (report,) = (message for message in result.messages if message.role == "tool")
    assert "there are three" in report.text


def test_hidden_files_and_links_are_not_listed(tmp_path: Path) -> None:
    place = write(tmp_path, "one", a="1", docs__b="2")
    (place / ".env").write_text("X=1")
    (place / "link").symlink_to("/etc/passwd")
    skill = read_skill((place / "SKILL.md").read_bytes(), place)
    assert skill is not None
    assert files_of(skill) == ["a", "docs/b"]
    assert "docs/b" in skill_text(skill)


def test_large_folder_does_not_hide_other_skills(tmp_path: Path) -> None:
    skills = catalog(tmp_path)
    for n in range(2_100):
        (tmp_path / "own" / "skills" / "large" / str(n)).mkdir(parents=True)
    write(tmp_path / "own" / "skills", "zebra")
    assert set(skills.load()) == {"zebra"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/skills new", ""),
        ("/skills@my_bot new of the release", "of the release"),
        ("/skills NEW x", "x"),
        ("/skills", None),
        ("/skills newer", None),
        ("say /skills new", None),
    ],
)
def test_skill_request_is_recognized(text: str, expected: str | None) -> None:
    assert find_skill_request(text) == expected


def test_project_skill_is_written_to_the_project(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    request = writing_request("x", tmp_path, tmp_path / "workspace")
    assert "`.agents/skills/NAME/SKILL.md`" in request
    assert "$ARGUMENTS" in request
    assert "`skills/NAME" in writing_request("", tmp_path / "workspace", tmp_path / "workspace")
