"""The reference pages of the site are complete."""

import argparse
from pathlib import Path

import pytest

from agent.turn.hook_events import event_table
from gateway.cli.verb_table import VERBS, Verb
from gateway.commands.table import COMMANDS
from pages.reference import PAGES, commands
from tests.house.cli_flags import flags
from tests.house.tree import ROOT


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_and_option_is_in_the_reference(verb: Verb) -> None:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    page = commands()
    text = "\n".join(line for line in page.splitlines() if line.startswith(f"| `kore {verb.name}"))
    short = {flag for flag in flags(parser) if not flag.startswith("-") or flag.startswith("--")}
    assert {flag for flag in short if flag not in text} == set()


def test_every_chat_command_is_in_the_reference() -> None:
    assert all(f"`/{name}`" in commands() for name in COMMANDS)


def test_site_requests_no_other_host() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in settings
    assert "http" not in settings
    pictures = Path(ROOT / "docs" / "pictures").glob("*.svg")
    for picture in pictures:
        text = picture.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http" not in text.replace("http://www.w3.org/1999/xlink", ""), picture.name
    assert set(PAGES) == {"all-commands.md", "all-names.md"}


def test_hook_events_are_in_the_docs() -> None:
    """`agent.turn.hook_events.event_table` returns the table."""
    assert event_table() in (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
