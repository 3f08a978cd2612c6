"""The clipboard, read through stand-ins for the programs of a desktop."""

import base64
import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.errors import KoreError
from gateway.cli.console.input.clipboard import (
    KEEP_DAYS,
    pasted_input,
    read_clipboard,
    store_picture,
)
from gateway.cli.console.input.pastes import Pastes

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
WAYLAND = {"WAYLAND_DISPLAY": "wayland-0"}


def stand_in(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def environ_of(folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    return {"PATH": f"{folder}:/usr/bin:/bin", **variables}


@pytest.mark.parametrize(
    ("name", "script", "variables", "platform"),
    [
        ("wl-paste", 'case "$*" in *image/png*) cat "$PICTURE";; esac', WAYLAND, "linux"),
        ("xclip", 'case "$*" in *image/png*) cat "$PICTURE";; esac', {"DISPLAY": ":0"}, "linux"),
        (
            "powershell.exe",
            'case "$*" in *GetImage*) base64 -w 60 "$PICTURE";; esac',
            {"WSL_DISTRO_NAME": "Debian"},
            "linux",
        ),
        (
            "osascript",
            "printf '\\302\\253data PNGf'; od -An -tx1 -v \"$PICTURE\" | tr -d ' \\n';"
            " printf '\\302\\273\\n'",
            {},
            "darwin",
        ),
    ],
)
async def test_picture_is_read(
    tmp_path: Path, name: str, script: str, variables: Mapping[str, str], platform: str
) -> None:
    (tmp_path / "picture.png").write_bytes(PNG)
    stand_in(tmp_path, name, script)
    stand_in(tmp_path, "pbpaste", "true")
    environ = {**environ_of(tmp_path, variables), "PICTURE": str(tmp_path / "picture.png")}
    assert await read_clipboard(environ, platform) == PNG


@pytest.mark.parametrize(
    ("name", "variables", "platform"),
    [
        ("wl-paste", WAYLAND, "linux"),
        ("xclip", {"DISPLAY": ":0"}, "linux"),
        ("powershell.exe", {"WSL_DISTRO_NAME": "Debian"}, "linux"),
        ("pbpaste", {}, "darwin"),
    ],
)
async def test_text_is_read_if_there_is_no_picture(
    tmp_path: Path, name: str, variables: Mapping[str, str], platform: str
) -> None:
    stand_in(
        tmp_path, name, 'case "$*" in *image/png*|*GetImage*) exit 1;; *) echo "some text";; esac'
    )
    environ = environ_of(tmp_path, variables)
    assert await read_clipboard(environ, platform) == "some text\n"


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [({}, "no program reads the clipboard"), (WAYLAND, "the clipboard is empty")],
)
async def test_reason_is_given_if_nothing_can_be_read(
    tmp_path: Path, variables: Mapping[str, str], sentence: str
) -> None:
    stand_in(tmp_path, "wl-paste", "exit 1")
    with pytest.raises(KoreError, match=sentence):
        await read_clipboard(environ_of(tmp_path, variables), "linux")


async def test_picture_becomes_a_mention_of_a_private_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "picture.png").write_bytes(PNG)
    stand_in(tmp_path, "wl-paste", f"cat {tmp_path / 'picture.png'}")
    for key, value in environ_of(tmp_path, WAYLAND).items():
        monkeypatch.setenv(key, value)
    monkeypatch.delenv("WSL_DISTRO_NAME", raising=False)
    mention = await pasted_input(Pastes())
    path = Path(mention.strip().removeprefix('@"').removesuffix('"'))
    assert path.read_bytes() == PNG
    assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()


def test_expired_pictures_are_deleted_by_the_next_paste(tmp_path: Path) -> None:
    expired, recent = (Path(store_picture(PNG, tmp_path)) for _ in range(2))
    (other := tmp_path / "kore-notes.png").write_bytes(PNG)
    for path, days in ((expired, KEEP_DAYS + 1), (other, KEEP_DAYS + 1), (recent, KEEP_DAYS - 1)):
        written_at = time.time() - days * 86_400
        os.utime(path, (written_at, written_at))
    new = Path(store_picture(PNG, tmp_path))
    assert set(tmp_path.iterdir()) == {recent, other, new}
