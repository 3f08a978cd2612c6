"""`kore skills`: create, list, show and check."""

import json
from pathlib import Path

from tests.gateway.cli.kore import kore


def test_skill_is_created_listed_shown_and_checked(tmp_path: Path) -> None:
    home = tmp_path / "kore"
    assert "no skills here" in kore("skills", "list", home=home).stdout
    created = kore("skills", "new", "notes", "--description", "Writes: notes.", home=home)
    assert created.returncode == 0, created.stderr
    path = Path(created.stdout.strip())
    assert path == home / "skills" / "notes" / "SKILL.md"
    (path.parent / "example.md").write_text("x")
    (row,) = json.loads(kore("skills", "list", "--json", home=home).stdout)
    assert (row["name"], row["description"], row["files"]) == (
        "notes",
        "Writes: notes.",
        ["example.md"],
    )
    output = kore("skills", "show", "notes", home=home).stdout
    assert "example.md" in output
    assert "step by step" in output
    assert kore("skills", "validate", path.parent, home=home).returncode == 0
    path.write_text("---\nname: Notes\ndescription: d\n---\n")
    checked = kore("skills", "validate", path, home=home)
    assert checked.returncode == 1
    assert "lowercase letters" in checked.stdout
    path.write_text("no front matter")
    refused = kore("skills", "validate", path, home=home)
    assert "no description" in refused.stderr
    again = kore("skills", "new", "notes", home=home)
    assert "already exists" in again.stderr
    assert "there is no skill 'nope'" in kore("skills", "show", "nope", home=home).stderr


def test_new_project_skill_explains_trust(tmp_path: Path) -> None:
    home = tmp_path / "kore"
    created = kore("skills", "new", "notes", "--project", home=home, environ={"HOME": "/nowhere"})
    assert "it counts once you trust this folder" in created.stderr


def test_folder_of_skills_is_checked(tmp_path: Path) -> None:
    texts = {
        "plain": "---\nname: plain\ndescription: d\n---\nB",
        "odd": "---\nname: other\ndescription: d\nallowed-tools: Bash(*)\n---\nB",
    }
    for name, text in texts.items():
        (tmp_path / "skills" / name).mkdir(parents=True)
        (tmp_path / "skills" / name / "SKILL.md").write_text(text)
    home = tmp_path / "kore"
    checked = kore("skills", "validate", tmp_path / "skills", home=home)
    assert checked.returncode == 0, checked.stdout
    assert "note: allowed-tools has no effect" in checked.stdout
    assert 'note: the name "other" is not that of its folder' in checked.stdout
    assert checked.stdout.endswith("2 skills, 0 with problems\n")
    (tmp_path / "skills" / "plain" / "SKILL.md").write_text("no front matter")
    faulty = kore("skills", "validate", tmp_path / "skills", home=home)
    assert faulty.returncode == 1
    assert "no description" in faulty.stdout
    facts = json.loads(kore("skills", "validate", "--json", tmp_path / "skills", home=home).stdout)
    assert [len(skill["warnings"]) for skill in facts] == [0, 1]
