import json
from pathlib import Path

from tests.gateway.cli.kore import kore


def test_agents_are_listed_shown_and_created(tmp_path: Path) -> None:
    home = tmp_path / "kore"
    creation = kore(
        "agents", "new", "critic", "--tools", "Read,Foo", "--description", "a: b", home=home
    )
    assert creation.returncode == 0
    assert Path(creation.stdout.strip()) == home / "agents" / "critic.md"
    assert "kore agent --agent critic" in creation.stderr
    listed = kore("agents", "list", home=home).stdout
    assert [line.split()[0] for line in listed.splitlines()[1:]] == [
        "build",
        "explore",
        "general",
        "plan",
        "review",
        "critic",
    ]
    output = kore("agents", "show", "Critic", home=home).stdout
    assert "read_file, Foo" in output
    assert "unknown tools: Foo" in output
    assert "skills" not in output
    path = home / "agents" / "critic.md"
    path.write_text(path.read_text().replace("---\n", "---\nskills: a, b\ncolor: red\n", 1))
    output = kore("agents", "show", "critic", home=home).stdout
    assert [line.split()[1:] for line in output.splitlines()[8:10]] == [["a,", "b"], ["red"]]
    data = json.loads(kore("agents", "show", "critic", "--json", home=home).stdout)
    assert (data["description"], data["model"], data["trusted"]) == ("a: b", "inherit", True)
    again = kore("agents", "new", "critic", home=home)
    assert again.returncode == 1
    assert "already exists" in again.stderr


def test_agent_of_the_folder_is_marked(tmp_path: Path) -> None:
    home = tmp_path / "home" / "kore"
    home.parent.mkdir()
    folder = home.parent / ".claude" / "agents"
    creation = kore(
        "agents", "new", "near", "--project", home=home, environ={"HOME": str(tmp_path)}
    )
    assert creation.returncode == 0, creation.stderr
    assert not folder.exists()
    listed = kore("agents", "list", "--json", home=home, environ={"HOME": str(tmp_path)})
    trusted = {load["name"]: load["trusted"] for load in json.loads(listed.stdout)}
    assert trusted["near"] is False
    assert trusted["explore"] is True


def test_unknown_agent_and_invalid_name_are_reported_in_one_sentence(tmp_path: Path) -> None:
    home = tmp_path / "kore"
    for words in (("show", "nobody"), ("new", "../evil"), ("new", "Big Name")):
        result = kore("agents", *words, home=home)
        assert result.returncode == 1
        assert result.stderr.startswith("kore: ")
        assert len(result.stderr.splitlines()) <= 2


def test_tools_are_listed_with_aliases_effects_and_roles(tmp_path: Path) -> None:
    listing = json.loads(kore("tools", "list", "--json", home=tmp_path / "kore").stdout)
    tools = {item["name"]: item for item in listing}
    assert "bash" in tools["exec"]["aliases"]
    assert tools["exec"]["effect"] == "unsafe"
    assert "build" in tools["exec"]["roles"]
    assert "guest" not in tools["exec"]["roles"]
    assert kore("tools", "list", home=tmp_path / "kore").stdout.startswith("name")
