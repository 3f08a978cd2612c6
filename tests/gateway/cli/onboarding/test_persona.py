"""Answers are inserted in the starter's files and in files that people wrote."""

from pathlib import Path

import pytest

from gateway.cli.onboarding.persona import Persona, known_zone, machine_zone, write_persona
from gateway.runtime.workspace import ensure_workspace


def test_every_answer_has_its_place_in_the_templates(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    ensure_workspace(workspace)
    write_persona(workspace, Persona("Jarvis", "Curt.", r"Ada \1", "Asia/Taipei", "繁體中文"))
    identity = (workspace / "IDENTITY.md").read_text()
    assert "You are Jarvis, a personal assistant. You live" in identity
    soul = (workspace / "SOUL.md").read_text()
    assert "\nCurt.\n" in soul
    assert "Warm, plain" not in soul
    user = (workspace / "USER.md").read_text().splitlines()
    assert r"- Name, and how to address them: Ada \1" in user
    assert "- Language: 繁體中文" in user
    assert "- Place and time zone: Asia/Taipei" in user


def test_second_answer_replaces_the_first(tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    ensure_workspace(workspace)
    for name in ("Ada", "Grace"):
        write_persona(workspace, Persona(name=name, person=name))
    assert (workspace / "IDENTITY.md").read_text().count("You are ") == 1
    assert "You are Grace," in (workspace / "IDENTITY.md").read_text()
    assert "Ada" not in (workspace / "USER.md").read_text()


def test_file_without_a_placeholder_gets_a_line(tmp_path: Path) -> None:
    (tmp_path / "SOUL.md").write_text("Mine.\n")
    write_persona(tmp_path, Persona(manner="Curt.", person="Ada"))
    assert (tmp_path / "SOUL.md").read_text() == "Mine.\n\nCurt.\n"
    assert (tmp_path / "USER.md").read_text() == "- Name, and how to address them: Ada\n"
    assert not (tmp_path / "IDENTITY.md").exists()


def test_default_time_zone_is_the_zone_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TZ", raising=False)
    assert machine_zone(tmp_path) == "UTC"
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/Europe/Berlin")
    assert machine_zone(tmp_path) == "Europe/Berlin"
    (tmp_path / "timezone").write_text("Asia/Taipei\n")
    assert machine_zone(tmp_path) == "Asia/Taipei"
    monkeypatch.setenv("TZ", "America/Lima")
    assert machine_zone(tmp_path) == "America/Lima"
    assert not known_zone("../../etc/passwd")
