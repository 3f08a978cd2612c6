"""Only a channel's own package and the table of channels name the channel."""

from pathlib import Path

import pytest

from gateway.channels.table import built_in_specs
from gateway.core.channel_table import CHANNELS
from tests.house.tree import PACKAGES, ROOT, python_files

TABLE = ROOT / "gateway" / "core" / "channel_table.py"
SCRIPTS = (ROOT / "gateway" / "server" / "web" / "static" / "app").glob("*.mjs")
PROMPTS = (ROOT / "agent" / "prompts").rglob("*.md")


def package_of(channel: str) -> Path:
    module = CHANNELS[channel].partition(":")[0]
    return ROOT.joinpath(*module.split(".")).parent


@pytest.mark.parametrize("channel", CHANNELS)
def test_channel_is_named_only_by_its_package(channel: str) -> None:
    own = package_of(channel)
    naming = [
        str(path.relative_to(ROOT))
        for path in (*python_files(*PACKAGES), *SCRIPTS, *PROMPTS)
        if not path.is_relative_to(own) and path != TABLE
        if channel in path.read_text("utf-8").lower()
    ]
    assert naming == []


@pytest.mark.parametrize("channel", CHANNELS)
def test_spec_has_the_name_of_its_row(channel: str) -> None:
    assert built_in_specs()[channel].name == channel


@pytest.mark.parametrize("channel", CHANNELS)
def test_setup_steps_request_every_credential(channel: str) -> None:
    spec = built_in_specs()[channel]
    assert {step.key for step in spec.steps} >= set(spec.section.credentials)


@pytest.mark.parametrize("channel", CHANNELS)
def test_channel_is_disabled_until_configured(channel: str) -> None:
    assert not built_in_specs()[channel].section().enabled
