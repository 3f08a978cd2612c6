import os
from pathlib import Path

import pytest

from agent.security.taint.file_marks import mark_tainted, unmark
from agent.subagents.catalog import CatalogPaths, SubagentCatalog, built_in
from agent.subagents.definition import BUILT_IN, SubagentDefinition
from agent.turn.tool_catalog import known_tools


def write(folder: Path, name: str, said: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(f"---\nname: {name}\ndescription: {said}\n---\nYou are {said}.")
    return path


@pytest.fixture
def places(tmp_path: Path) -> CatalogPaths:
    return CatalogPaths(tmp_path / "home", tmp_path / "home" / ".kore")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    return root


def test_built_in_agents_are_complete() -> None:
    assert [item.name for item in built_in()] == ["build", "explore", "general", "plan", "review"]
    for item in built_in():
        assert item.description
        assert item.prompt
        assert item.remarks == ()
        assert item.source == BUILT_IN
        assert all(tool == known_tools().canonical(tool) for tool in item.tools or ())


def test_later_and_nearer_definitions_win(places: CatalogPaths, project: Path) -> None:
    nested = project / "a" / "b"
    order = [
        (places.user / ".claude" / "agents", "home claude"),
        (places.user / ".kode" / "agents", "home kode"),
        (places.own / "agents", "home kore"),
        (project / ".kore" / "agents", "project kore"),
        (nested / ".claude" / "agents", "nearest claude"),
        (nested / ".kode" / "agents", "nearest kode"),
        (nested / ".kore" / "agents", "nearest kore"),
    ]
    catalogue = SubagentCatalog(CatalogPaths(places.user, places.own, (project,)))
    for folder, result in order:
        write(folder, "general", result)
        definition = catalogue.find("general", nested)
        assert definition is not None
        assert definition.description == result
    assert catalogue.load(None)["general"].description == "home kore"


def test_project_agent_is_not_trusted(places: CatalogPaths, project: Path) -> None:
    write(places.user / ".claude" / "agents", "mine", "mine")
    write(project / ".claude" / "agents", "theirs", "theirs")
    result = SubagentCatalog(places).load(project)
    assert result["mine"].trusted
    assert not result["theirs"].trusted


def test_folders_beyond_the_repository_are_ignored(places: CatalogPaths, project: Path) -> None:
    write(project.parent / ".claude" / "agents", "outer", "outer")
    assert "outer" not in SubagentCatalog(places).load(project / "a")


def test_home_folder_is_not_a_project(places: CatalogPaths) -> None:
    write(places.user / ".claude" / "agents", "mine", "mine")
    write(places.user / ".kore" / "workspace" / ".kore" / "agents", "near", "near")
    result = SubagentCatalog(places).load(places.user / ".kore" / "workspace")
    assert result["mine"].trusted
    assert not result["near"].trusted
    assert SubagentCatalog(places).load(places.user)["mine"].trusted


def test_links_in_a_project_are_ignored(places: CatalogPaths, project: Path) -> None:
    secret = write(places.user / "elsewhere", "secret", "secret")
    folder = project / ".claude" / "agents"
    folder.mkdir(parents=True)
    (folder / "secret.md").symlink_to(secret)
    (project / ".kode").mkdir()
    (project / ".kode" / "agents").symlink_to(secret.parent)
    assert "secret" not in SubagentCatalog(places).load(project)


def test_links_of_the_owner_are_followed(places: CatalogPaths, tmp_path: Path) -> None:
    path = write(tmp_path / "dotfiles", "mine", "mine")
    folder = places.own / "agents"
    folder.mkdir(parents=True)
    (folder / "mine.md").symlink_to(path)
    assert "mine" in SubagentCatalog(places).load()


def test_changed_new_and_deleted_files_take_effect_at_once(places: CatalogPaths) -> None:
    catalogue = SubagentCatalog(places)
    path = write(places.own / "agents", "a", "first")
    assert catalogue.load()["a"].description == "first"
    write(places.own / "agents", "a", "second and longer")
    write(places.own / "agents" / "deeper", "b", "b")
    assert catalogue.load()["a"].description == "second and longer"
    assert "b" in catalogue.load()
    path.unlink()
    assert "a" not in catalogue.load()


def test_unchanged_file_is_not_read_again(places: CatalogPaths) -> None:
    catalogue = SubagentCatalog(places)
    path = write(places.own / "agents", "a", "first")
    before = catalogue.load()["a"]
    assert catalogue.load()["a"] is before
    # A command can set every file time except the time of the last change.
    results = path.stat()
    path.write_text(path.read_text().replace("first", "other"))
    os.utime(path, ns=(results.st_atime_ns, results.st_mtime_ns))
    assert catalogue.load()["a"].description == "other"


def test_alternating_folders_are_not_read_again(places: CatalogPaths, tmp_path: Path) -> None:
    catalogue = SubagentCatalog(places)
    roots = [tmp_path / "one", tmp_path / "two"]
    for root in roots:
        write(root / ".kore" / "agents", "near", root.name)
    first = [catalogue.load(root)["near"] for root in roots]
    catalogue.load()
    for root, before in zip(roots, first, strict=True):
        assert catalogue.load(root)["near"] is before


def test_readme_of_the_folder_is_not_an_agent(places: CatalogPaths) -> None:
    folder = places.own / "agents"
    write(folder, "a", "a")
    (folder / "README.md").write_text("About these agents.")
    (folder / "pipe.md").unlink(missing_ok=True)
    os.mkfifo(folder / "pipe.md")
    assert set(SubagentCatalog(places).load()) == {"a", *(item.name for item in built_in())}


def test_aliases_of_built_in_agents_yield_to_own_agents(places: CatalogPaths) -> None:
    catalogue = SubagentCatalog(places)
    definitions = [catalogue.find(name) for name in ("general-purpose", "Explore", "code_reviewer")]
    assert [item and item.name for item in definitions] == ["general", "explore", "review"]
    write(places.own / "agents", "code-reviewer", "mine")
    mine = catalogue.find("CodeReviewer")
    assert mine is not None
    assert mine.description == "mine"


def test_given_agents_win(places: CatalogPaths) -> None:
    write(places.own / "agents", "a", "from a file")
    definition = SubagentDefinition("a", "given", "You are given.")
    assert SubagentCatalog(places, [definition]).find("A") is definition


@pytest.mark.parametrize(
    "name",
    ["main", "Main", "ma-in", "plan\u200b", "pl\u00adan", "\uff50lan", "\u3164plan", "pl\u2800an"],
)
def test_untrusted_agent_with_a_similar_name_is_ignored(
    places: CatalogPaths, project: Path, name: str
) -> None:
    path = write(project / ".kore" / "agents", "theirs", "the attacker's")
    path.write_text(path.read_text().replace("theirs", name))
    catalogue = SubagentCatalog(places)
    assert set(catalogue.load(project)) == {item.name for item in built_in()}
    assert list(catalogue.rejected.values()) == [name]


@pytest.mark.parametrize("name", ["general", "General", "EXPLORE", "code-reviewer", "mine"])
def test_untrusted_folder_replaces_no_agent(places: CatalogPaths, project: Path, name: str) -> None:
    write(places.own / "agents", "mine", "mine")
    write(project / ".kore" / "agents", name, "the attacker's")
    catalogue = SubagentCatalog(places)
    definition = catalogue.find(name, project)
    assert definition is not None
    assert definition.trusted
    assert definition.description != "the attacker's"
    assert list(catalogue.rejected.values()) == [name]
    trusted = SubagentCatalog(CatalogPaths(places.user, places.own, (project,))).find(name, project)
    assert trusted is not None
    assert trusted.description == "the attacker's"


def test_agent_written_after_untrusted_text_is_not_used(
    places: CatalogPaths, project: Path
) -> None:
    catalogue = SubagentCatalog(CatalogPaths(places.user, places.own, (project,)))
    path = write(project / "deep" / ".kore" / "agents", "helper", "a helper")
    result = write(project / ".kore" / "agents", "asked", "another")
    definition = catalogue.find("helper", project / "deep")
    assert definition is not None
    assert definition.trusted
    mark_tainted(path, project, unseen=True)
    mark_tainted(result, project)
    assert catalogue.find("helper", project / "deep") is None
    known = catalogue.find("asked", project)
    assert known is not None
    assert not known.trusted
    unmark(path)
    assert catalogue.find("helper", project / "deep") == definition


def test_agent_of_an_untrusted_project_cannot_take_the_title_of_a_plugins(
    tmp_path: Path, project: Path
) -> None:
    plugin = tmp_path / "plugin"
    write(plugin, "helper", "good")
    catalogue = SubagentCatalog(
        CatalogPaths(tmp_path / "home", tmp_path / "own", plugins=(("good", plugin),))
    )
    for name in ("good:helper", "helper"):
        write(project / ".kore" / "agents", name, "theirs")
    agents = catalogue.load(project)
    assert agents["good:helper"].description == "good"
    assert agents["good-helper"].description == "theirs"
