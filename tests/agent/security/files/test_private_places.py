"""Names of files and folders with keys, tokens and logins."""

from pathlib import Path

import pytest

from agent.security.files.private_places import private_place


@pytest.mark.parametrize(
    "path",
    [
        "/home/ann/.ssh/id_ed25519",
        "/home/ann/.SSH",
        "/home/ann/.ssh./x",
        "/home/ann/.aws",
        "/home/ann/.config/gh/hosts.yml",
        "/home/ann/.m2/settings.xml",
        "/srv/project/.env",
        "/etc/shadow",
    ],
)
def test_places_with_secrets_are_private(path: str) -> None:
    assert private_place(Path(path)) is not None


@pytest.mark.parametrize(
    "path",
    ["/home/ann/ssh", "/home/ann/.config", "/home/ann/.config/htop", "/home/ann/.m2/repository"],
)
def test_ordinary_places_are_not_private(path: str) -> None:
    assert private_place(Path(path)) is None
