"""Paths of sockets in `security.exec_local`."""

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from gateway.config.sections import SecuritySection


def test_links_owned_by_root_are_followed() -> None:
    target = os.path.realpath("/var/run")
    assert target != "/var/run", "a link of root on every distribution"
    section = SecuritySection(exec_local=("unix:/var/run/docker.sock",))
    assert section.exec_local == (f"unix:{target}/docker.sock",)


def test_links_owned_by_others_are_refused(tmp_path: Path) -> None:
    """A command could redirect such a link to another service before the settings are read again.

    The files of commands belong to root if Kore runs as root.
    """
    link = tmp_path / "link"
    link.symlink_to("/run")
    with pytest.raises(ValidationError, match="the path of the socket itself"):
        SecuritySection(exec_local=(f"unix:{link}/docker.sock",))
