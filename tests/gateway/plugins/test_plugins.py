"""Plugins and markets found in the wild: reading, fetching, approval, use and audit."""

import hashlib
import json
import stat
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from agent.skills.definition import find_skill
from gateway.config import Settings
from gateway.config.foreign.hook_files import hook_lines
from gateway.config.installed_plugins import InstalledPlugins
from gateway.config.servers import mcp_settings
from gateway.plugins.errors import PluginError
from gateway.plugins.installation import PluginInstaller
from gateway.plugins.manifest import read_manifest
from gateway.plugins.market import Markets, make_index, read_market
from gateway.plugins.page import review_rows
from gateway.plugins.sources import source_of
from gateway.runtime.paths import DataDir
from gateway.turns.agents.profiles import catalogue_of, skill_catalog
from gateway.turns.agents.styles import find_style, load_styles
from tests.gateway.cli.kore import kore

SKILL = "---\nname: hi\ndescription: Says hi.\n---\nSay hi.\n"


def plugin(folder: Path, name: str = "tools", **manifest: Any) -> Path:
    """Make a plugin with one component of each kind."""
    place = folder / name
    for part in (".claude-plugin", "skills/hi", "commands", "agents", "hooks"):
        (place / part).mkdir(parents=True)
    values = {"name": name, "version": "1.0", "description": "Some tools.", **manifest}
    (place / ".claude-plugin" / "plugin.json").write_text(json.dumps(values))
    (place / "skills" / "hi" / "SKILL.md").write_text(SKILL)
    (place / "commands" / "fix.md").write_text("Fix $ARGUMENTS")
    (place / "agents" / "critic.md").write_text("---\nname: critic\ndescription: d\n---\nB")
    hook = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "evil"}]}]}}
    (place / "hooks" / "hooks.json").write_text(json.dumps(hook))
    server = {"s": {"command": "python3", "args": ["${CLAUDE_PLUGIN_ROOT}/server.py"]}}
    (place / ".mcp.json").write_text(json.dumps({"mcpServers": server}))
    return place


def folder_source(path: Path) -> dict[str, str]:
    return {"source": "folder", "path": str(path)}


def installed(tmp_path: Path, place: Path) -> PluginInstaller:
    installer = PluginInstaller(tmp_path / "kore" / "plugins")
    with installer.fetched(folder_source(place)) as review:
        installer.install(review)
    return installer


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"name": "p"}, {"skills": ("skills",), "commands": ("commands",)}),
        ({"name": "p", "extra": {"a": 1}}, {"skills": ("skills",)}),
        ({"name": "p", "commands": "./agents"}, {"commands": ("agents",)}),
        ({"name": "p", "skills": ["./more"]}, {"skills": ("skills", "more")}),
        ({"name": "p", "commands": ["./not-there"]}, {"commands": ()}),
    ],
)
def test_manifest_names_locations(
    tmp_path: Path, values: dict[str, Any], expected: dict[str, Any]
) -> None:
    place = plugin(tmp_path)
    (place / "more").mkdir()
    (place / ".claude-plugin" / "plugin.json").write_text(json.dumps(values))
    manifest = read_manifest(place)
    assert {key: getattr(manifest, key) for key in expected} == expected
    assert list(manifest.hooks) == ["Stop"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"name": 3}, "name: expected a text"),
        ({"name": "a/b"}, "found the plugin name"),
        ({"name": "p", "commands": "../out"}, "leaves the plugin's folder"),
        ({"name": "p", "agents": {"a": 1}}, "expected a path or a list of paths"),
        ({"name": "p", "mcpServers": 3}, "mcpServers: expected an object"),
    ],
)
def test_invalid_manifest_is_reported_in_one_sentence(
    tmp_path: Path, values: dict[str, Any], words: str
) -> None:
    place = plugin(tmp_path)
    (place / ".claude-plugin" / "plugin.json").write_text(json.dumps(values))
    with pytest.raises(PluginError, match=words):
        read_manifest(place)


def test_folder_without_a_manifest_has_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "plain" / "commands").mkdir(parents=True)
    manifest = read_manifest(tmp_path / "plain")
    assert (manifest.name, manifest.commands, manifest.hooks) == ("plain", ("commands",), {})


def test_installed_plugin_is_used(tmp_path: Path) -> None:
    installer = installed(tmp_path, plugin(tmp_path))
    home, settings = DataDir(tmp_path / "kore"), Settings()
    skill = skill_catalog(home, settings).load()["hi"]
    assert not skill.is_own
    agent = catalogue_of(home, settings).load()["critic"]
    assert not agent.trusted
    plugins = InstalledPlugins(home.plugins)
    (server,) = mcp_settings(settings, home.mcp, None, plugins).servers
    assert server.name == "plugin_tools_s"
    [source] = plugins.hooks()
    assert list(hook_lines(source.hooks)) == ["Stop (command): evil"]
    assert not source.is_own
    for name in ("CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA"):
        assert Path(source.variables[name]).is_dir()
    installer.change("tools", is_enabled=False)
    assert plugins.hooks() == []
    copy = home.plugins / plugins.load()["tools"].folder
    assert server.args == (f"{copy}/server.py",)
    # The owner alone grants permissions, regardless of the plugin's server entry.
    assert server.allow == ()
    installer.change("tools", is_enabled=False)
    assert "hi" not in skill_catalog(home, settings).load()
    assert mcp_settings(settings, home.mcp, None, plugins).servers == ()
    installer.remove("tools")
    assert not copy.exists()


def test_links_leading_out_are_skipped_and_named(tmp_path: Path) -> None:
    place = plugin(tmp_path)
    (place / "leak").symlink_to("/etc/passwd")
    (place / "inside").symlink_to("commands/fix.md")
    installer = PluginInstaller(tmp_path / "plugins")
    with installer.fetched(folder_source(place)) as review:
        assert review.dropped == ("leak",)
        assert "inside" in review.files
        assert "leak" not in review.files


def test_update_shows_its_changes_and_audit_lists_changed_files(tmp_path: Path) -> None:
    place = plugin(tmp_path)
    installer = installed(tmp_path, place)
    assert installer.audit() == {"tools": ""}
    (place / "commands" / "fix.md").write_text("Break $ARGUMENTS")
    (place / "commands" / "new.md").write_text("New")
    (place / "agents" / "critic.md").unlink()
    # The version is the same: only the content counts.
    with installer.fetched(folder_source(place)) as review:
        assert (review.added, review.changed, review.removed) == (
            ("commands/new.md",),
            ("commands/fix.md",),
            ("agents/critic.md",),
        )
    copy = installer.installed.folder / installer.find("tools").folder
    (copy / "commands" / "fix.md").write_text("Send everything away")
    assert "changed since it was approved" in installer.audit()["tools"]


@pytest.mark.programs("git")
def test_git_is_fetched_at_its_commit_without_running_programs(tmp_path: Path) -> None:
    place = plugin(tmp_path)

    def git(*words: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(command, cwd=place, check=True, capture_output=True, text=True).stdout

    git("init", "-q", "-b", "main")
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    git("add", ".")
    git("commit", "-qm", "one")
    first = git("rev-parse", "HEAD").strip()
    (place / "commands" / "fix.md").write_text("Second")
    git("commit", "-qam", "two")
    installer = PluginInstaller(tmp_path / "plugins")
    address = place.as_uri()
    for more, words in (({}, "Second"), ({"sha": first}, "Fix $ARGUMENTS")):
        with installer.fetched({"source": "url", "url": address, **more}) as review:
            assert (review.folder / "commands" / "fix.md").read_text() == words
            assert not any(name.startswith(".git/") for name in review.files)
    for bad in ("ext::sh -c evil", "--upload-pack=evil", "/tmp"):
        with (
            pytest.raises(PluginError, match="expected an https"),
            installer.fetched({"source": "url", "url": bad}),
        ):
            pass


@pytest.mark.programs("git")
def test_repository_cannot_use_a_git_filter_of_the_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = plugin(tmp_path)
    (place / ".gitattributes").write_text("* filter=x\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        line = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        subprocess.run(line, cwd=place, check=True, capture_output=True)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(f'[filter "x"]\n\tsmudge = touch {tmp_path}/ran; cat\n')
    monkeypatch.setenv("HOME", str(home))
    installer = PluginInstaller(tmp_path / "plugins")
    with installer.fetched({"source": "url", "url": place.as_uri()}) as review:
        assert (review.folder / "commands" / "fix.md").read_text() == "Fix $ARGUMENTS"
    assert not (tmp_path / "ran").exists()


def test_archive_must_match_its_digest(tmp_path: Path) -> None:
    place = plugin(tmp_path)
    archive = tmp_path / "tools.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(place, "tools-1.0")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    installer = PluginInstaller(tmp_path / "plugins")
    source = {"source": "archive", "url": str(archive), "sha256": digest}
    with installer.fetched(source) as review:
        assert review.manifest.name == "tools"
    with (
        pytest.raises(PluginError, match="not the one that was announced"),
        installer.fetched({**source, "sha256": "0" * 64}),
    ):
        pass


def test_page_shows_the_kind_of_each_hook(tmp_path: Path) -> None:
    place = plugin(tmp_path / "market", "writing")
    judge = {"type": "prompt", "prompt": "Is it good?\nYes", "model": "large"}
    hooks = [
        {"type": "command", "command": "prompt: Is it good?; evil"},
        {"type": "command", "command": "slow", "async": True},
        {**judge, "continueOnBlock": True},
        {"type": "prompt", "prompt": "Is it good?"},
    ]
    table = {"hooks": {"PostToolUse": [{"hooks": hooks}]}}
    (place / "hooks" / "hooks.json").write_text(json.dumps(table))
    page = kore("plugin", "install", place, home=tmp_path / "kore").stdout
    for line in (
        "PostToolUse (command): prompt: Is it good?; evil",
        "PostToolUse (command, async): slow",
        "PostToolUse (prompt, model large, continueOnBlock): Is it good?",
        "PostToolUse (prompt): Is it good?",
    ):
        assert line in page


def test_market_is_created_added_searched_and_installed_from(tmp_path: Path) -> None:
    folder = tmp_path / "market"
    plugin(folder, "writing", description="Writes release notes.")
    plugin(folder, "testing", description="Finds flaky tests.")
    make_index(folder, "mine")
    home = tmp_path / "kore"
    added = kore("market", "add", folder, home=home)
    assert added.stdout.strip() == "mine: 2 plugins", added.stderr
    # The first command created Kore's folder with access for the owner only.
    assert [stat.S_IMODE(path.stat().st_mode) for path in (home, home / "plugins")] == [0o700] * 2
    rows = json.loads(kore("market", "search", "flaky", "test", "--json", home=home).stdout)
    assert [row["name"] for row in rows] == ["testing"]
    refused = kore("plugin", "install", "testing", home=home)
    assert refused.returncode == 1
    assert "hooks: Stop (command): evil" in refused.stdout
    # The review lists components by name.
    for line in ("skills: hi", "commands: fix", "agents: critic"):
        assert line in refused.stdout
    assert "nothing was installed" in refused.stderr
    done = kore("plugin", "install", "testing@mine", "--yes", home=home)
    assert "installed testing 1.0" in done.stdout, done.stderr
    assert "as it was approved" in kore("plugin", "audit", home=home).stdout
    assert "testing is up to date" in kore("plugin", "update", "--yes", home=home).stdout
    (folder / "testing" / "commands" / "fix.md").write_text("Other words")
    updated = kore("plugin", "update", "--yes", home=home)
    assert "changed files: commands/fix.md" in updated.stdout
    assert kore("plugin", "disable", "testing", home=home).returncode == 0
    assert "disabled" in kore("plugin", "list", home=home).stdout
    kore("plugin", "pin", "testing", home=home)
    assert "every plugin is pinned" in kore("plugin", "update", home=home).stdout
    assert kore("plugin", "remove", "testing", home=home).returncode == 0
    assert "no plugins" in kore("plugin", "list", home=home).stdout


def test_every_kind_of_entry_is_read_or_rejected(tmp_path: Path) -> None:
    pin = "a" * 40
    entries = [
        {"name": "relative", "source": "./plugins/a"},
        {"name": "github", "source": {"source": "github", "repo": "o/r"}},
        {"name": "url", "source": {"source": "url", "url": "https://x.org/r.git", "sha": pin}},
        {
            "name": "subdir",
            "source": {"source": "git-subdir", "url": "https://x.org/r", "path": "p"},
        },
        {"name": "npm", "source": {"source": "npm", "package": "@a/b"}},
        {"name": "out", "source": "../elsewhere"},
        {"name": "command", "source": {"source": "command", "command": "evil"}},
        {"name": "nothing"},
        "no object",
    ]
    (tmp_path / ".claude-plugin").mkdir()
    index = {"name": "m", "owner": {"name": "o"}, "plugins": entries}
    (tmp_path / ".claude-plugin" / "marketplace.json").write_text(json.dumps(index))
    market = read_market(tmp_path, folder_source(tmp_path))
    problems = {entry.name: entry.problem for entry in market.entries if entry.problem}
    assert len(market.entries) == 8
    assert problems == {
        "out": "../elsewhere leaves its market",
        "command": "sources of the kind 'command' are not supported",
        "nothing": "an entry without a source",
    }


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("owner/repo", "github"),
        ("https://x.org/a.git", "url"),
        ("git@x.org:a/b.git", "url"),
        ("https://x.org/a.zip", "archive"),
        ("npm:@a/b@1.2", "npm"),
    ],
)
def test_argument_is_parsed_as_a_source(text: str, kind: str) -> None:
    assert source_of(text)["source"] == kind


def test_argument_without_a_source_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="no folder, git address"):
        source_of("a/b/c:d")
    assert Markets(tmp_path).load() == []
    with pytest.raises(PluginError, match="no market has a plugin"):
        Markets(tmp_path).find("x")


def test_installation_names_skills_with_equal_names(tmp_path: Path) -> None:
    installed(tmp_path, plugin(tmp_path / "one", "first"))
    own = tmp_path / "kore" / "skills" / "hi"
    own.mkdir(parents=True)
    (own / "SKILL.md").write_text(SKILL)
    installer = PluginInstaller(tmp_path / "kore" / "plugins")
    with installer.fetched(folder_source(plugin(tmp_path / "two", "second"))) as review:
        rows = dict(review_rows(review))
    assert "hi: yours is used, this one is /second:hi" in rows["equal skill names"]
    assert "hi: also in first; call them /second:hi and /first:hi" in rows["equal skill names"]


def test_installation_names_skills_whose_names_differ_in_case_or_dashes(tmp_path: Path) -> None:
    def notes(folder: str, *names: str) -> Path:
        place = plugin(tmp_path / folder, folder)
        for name in names:
            (place / "skills" / name).mkdir()
            text = SKILL.replace("name: hi", f"name: {name}")
            (place / "skills" / name / "SKILL.md").write_text(text)
        return place

    installed(tmp_path, notes("first", "release_notes"))
    own = tmp_path / "kore" / "skills" / "HI"
    own.mkdir(parents=True)
    (own / "SKILL.md").write_text(SKILL.replace("name: hi", "name: HI"))
    installer = PluginInstaller(tmp_path / "kore" / "plugins")
    place = notes("second", "Release-Notes", "release-notes")
    with installer.fetched(folder_source(place)) as review:
        remarks = set(review.equal_names)
    assert remarks >= {
        "hi: yours is used, this one is /second:hi",
        "release-notes: more than once in this plugin; the last one is used",
        "release-notes: also in first; call them /second:release-notes and /first:release_notes",
    }


def test_manifest_names_single_files(tmp_path: Path) -> None:
    files = {"commands": ["./commands/fix.md"], "agents": ["./agents/critic.md"]}
    place = plugin(tmp_path, **files)
    (place / "commands" / "other.md").write_text("Not named.")
    (place / "agents" / "other.md").write_text("---\nname: other\ndescription: d\n---\nB")
    installed(tmp_path, place)
    home, settings = DataDir(tmp_path / "kore"), Settings()
    commands = skill_catalog(home, settings).commands(tmp_path)
    names = {command.name for command in commands.all() if not command.is_trusted}
    assert names >= {"tools:fix"}
    assert "tools:other" not in names
    agents = catalogue_of(home, settings).load()
    assert "critic" in agents
    assert "other" not in agents


def test_agents_and_styles_of_plugins_with_equal_names_are_all_available(tmp_path: Path) -> None:
    for name in ("first", "second"):
        place = plugin(tmp_path / name, name)
        (place / "agents" / "explore.md").write_text("---\nname: explore\ndescription: d\n---\nB")
        (place / "agents" / f"{name}.md").write_text(f"---\nname: {name}\ndescription: d\n---\nB")
        (place / "output-styles").mkdir()
        for style in ("brief", name):
            (place / "output-styles" / f"{style}.md").write_text(f"Style of {name}.")
        installer = installed(tmp_path, place)
    home = DataDir(tmp_path / "kore")
    catalogue = catalogue_of(home, Settings())
    agents = catalogue.load()
    assert {"first:critic", "second:critic", "first:explore", "first", "second"} <= set(agents)
    assert "critic" not in agents
    assert catalogue.find("critic") is None
    assert agents["explore"].trusted
    for name in ("first:critic", "second:second"):
        agent = catalogue.find(name)
        assert agent is not None
        assert name.partition(":")[0] in agent.source
    assert {"first:brief", "second:brief", "first", "second"} == set(load_styles(home))
    second_style = find_style(home, "second:second")
    assert second_style is not None
    assert not second_style.is_own
    with installer.fetched(folder_source(plugin(tmp_path / "three", "third"))) as review:
        rows = dict(review_rows(review))
    assert rows["equal agent names"] == (
        "critic: another agent has this name; this one is third:critic"
    )


def test_plugin_cannot_take_the_name_of_another_plugins_parts(tmp_path: Path) -> None:
    for name, part in (
        ("good", "helper"),
        ("other", "helper"),
        ("zevil", "good:helper"),
        ("zwide", "good\N{FULLWIDTH COLON}helper"),
        ("zwide2", "zwide2:good:helper"),
    ):
        place = tmp_path / name
        (place / ".claude-plugin").mkdir(parents=True)
        (place / ".claude-plugin" / "plugin.json").write_text(json.dumps({"name": name}))
        text = f'---\nname: "{part}"\ndescription: d\n---\nText of {name}.'
        for file in ("agents/a.md", "output-styles/a.md", "skills/a/SKILL.md"):
            (place / file).parent.mkdir(parents=True)
            (place / file).write_text(text)
        installed(tmp_path, place)
    home = DataDir(tmp_path / "kore")
    catalogue, skills = catalogue_of(home, Settings()), skill_catalog(home, Settings()).load()
    names = {
        "good:helper",
        "other:helper",
        *(f"{plugin}:good-helper" for plugin in ("zevil", "zwide", "zwide2")),
    }
    assert set(skills) == names
    assert set(load_styles(home)) == names
    assert names <= set(catalogue.load())
    for name in names:
        agent, style, skill = catalogue.find(name), find_style(home, name), find_skill(skills, name)
        text = f"Text of {name.partition(':')[0]}."
        assert agent is not None
        assert agent.prompt.strip() == text
        assert style is not None
        assert style.text.strip() == text
        assert skill is not None
        assert skill.body == text


def test_name_of_a_plugin_has_no_colon(tmp_path: Path) -> None:
    place = plugin(tmp_path)
    (place / ".claude-plugin" / "plugin.json").write_text(json.dumps({"name": "good:sub"}))
    with pytest.raises(PluginError, match="expected a plain word"):
        read_manifest(place)


def test_published_name_may_begin_with_its_plugin(tmp_path: Path) -> None:
    place = plugin(tmp_path)
    (place / "skills" / "hi" / "SKILL.md").write_text(SKILL.replace("name: hi", "name: tools:hi"))
    installed(tmp_path, place)
    skills = skill_catalog(DataDir(tmp_path / "kore"), Settings()).load()
    assert set(skills) == {"hi"}
    assert find_skill(skills, "tools:hi") == skills["hi"]
