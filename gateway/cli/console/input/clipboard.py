"""Reading the clipboard through the programs of the desktop."""

import asyncio
import base64
import binascii
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agent.errors import KoreError
from agent.i18n import t
from agent.records import frozen
from agent.text.media_types import MAX_PICTURE_BYTES, sniff_image_type
from gateway.cli.console.input.keys import plain_lines
from gateway.cli.console.input.pastes import Pastes

_TIMEOUT_S = 10.0
_MAX_BYTES = 20_000_000
KEEP_DAYS = 30
_PREFIX = "kore-clipboard-"
_HEX = re.compile(rb"[0-9A-Fa-f]+(?=\xc2?\xbb|$)")
_WINDOWS_PICTURE = (
    "Add-Type -AssemblyName System.Windows.Forms,System.Drawing;"
    "$picture=[Windows.Forms.Clipboard]::GetImage();"
    "if($picture){$bytes=New-Object IO.MemoryStream;"
    "$picture.Save($bytes,[Drawing.Imaging.ImageFormat]::Png);"
    "[Convert]::ToBase64String($bytes.ToArray())}"
)
_POWERSHELL = ("powershell.exe", "-NoProfile", "-STA", "-Command")


def _from_applescript(output: bytes) -> bytes:
    """Return the data in `«data PNGf8950…»`."""
    digits = _HEX.search(output.rpartition(b"PNGf")[2].strip())
    return bytes.fromhex(digits[0].decode()) if digits else b""


def _from_base64(output: bytes) -> bytes:
    with suppress(binascii.Error):
        return base64.b64decode(b"".join(output.split()), validate=True)
    return b""


@frozen
class _ClipboardProgram:
    """Commands that print the clipboard: as a picture, whose output `decode` reads, and as text."""

    picture: Sequence[str]
    text: Sequence[str]
    decode: Callable[[bytes], bytes] = bytes


_WAYLAND = _ClipboardProgram(
    ("wl-paste", "--no-newline", "--type", "image/png"), ("wl-paste", "--no-newline")
)
_X11 = _ClipboardProgram(
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("xclip", "-selection", "clipboard", "-out"),
)
_MACOS = _ClipboardProgram(
    ("osascript", "-e", "the clipboard as «class PNGf»"), ("pbpaste",), _from_applescript
)
_WSL = _ClipboardProgram(
    (*_POWERSHELL, _WINDOWS_PICTURE), (*_POWERSHELL, "Get-Clipboard -Raw"), _from_base64
)


def _programs(environ: Mapping[str, str], platform: str) -> list[_ClipboardProgram]:
    """Return the programs for this desktop, the best first."""
    candidates = (
        (_MACOS, platform == "darwin"),
        (_WSL, bool(environ.get("WSL_DISTRO_NAME"))),
        (_WAYLAND, bool(environ.get("WAYLAND_DISPLAY"))),
        (_X11, bool(environ.get("DISPLAY"))),
    )
    path = environ.get("PATH")
    return [
        program
        for program, is_here in candidates
        if is_here and shutil.which(program.text[0], path=path)
    ]


async def read_clipboard(
    environ: Mapping[str, str] = os.environ, platform: str = sys.platform
) -> bytes | str:
    """Return the picture in the clipboard (PNG, JPEG, GIF or WebP), or its text.

    Raises `KoreError` without a program that reads it, and for an empty clipboard.
    """
    programs = _programs(environ, platform)
    if not programs:
        raise KoreError(
            t("no program reads the clipboard here"),
            hint=t(
                "install wl-clipboard (Wayland) or xclip (X11); over ssh, paste the path of a "
                "file of this machine instead"
            ),
        )
    for program in programs:
        picture = program.decode(await _output(program.picture, environ))
        if picture and sniff_image_type(picture[:16]) is not None:
            if len(picture) > MAX_PICTURE_BYTES:
                raise KoreError(
                    t(
                        "the picture in the clipboard is larger than {size_bytes:,} bytes",
                        size_bytes=MAX_PICTURE_BYTES,
                    )
                )
            return picture
        text = (await _output(program.text, environ)).decode(errors="replace")
        if text.strip():
            return text
    raise KoreError(t("the clipboard is empty"))


async def pasted_input(pastes: Pastes) -> str:
    """Return the text that represents the clipboard in a line: the mention of a picture, or a
    paste.

    Raises `KoreError` like `read_clipboard`.
    """
    content = await read_clipboard()
    if isinstance(content, str):
        return pastes.fold(plain_lines(content))
    return f'@"{store_picture(content)}" '


def store_picture(picture: bytes, folder: Path | None = None) -> str:
    """Store a picture in a temporary file of this user; return its path.

    The session shows the file to the model again with each request, even when it is resumed. The
    file therefore remains after the message is sent; a later paste deletes it after `KEEP_DAYS`.
    `folder` defaults to the folder for temporary files.
    """
    folder = folder or Path(tempfile.gettempdir())
    _delete_expired(folder)
    kind = sniff_image_type(picture[:16]) or ""
    ending = kind.removeprefix("image/")
    with tempfile.NamedTemporaryFile(
        prefix=_PREFIX, suffix=f".{ending}", dir=folder, delete=False
    ) as file:
        file.write(picture)
    return file.name


def _delete_expired(folder: Path) -> None:
    """Delete this user's pasted pictures that are older than `KEEP_DAYS`."""
    before = time.time() - KEEP_DAYS * 86_400
    for path in folder.glob(f"{_PREFIX}*"):
        # Another terminal may delete it at the same time.
        with suppress(FileNotFoundError):
            info = path.lstat()
            if info.st_uid == os.geteuid() and info.st_mtime < before:
                path.unlink()


async def _output(command: Sequence[str], environ: Mapping[str, str]) -> bytes:
    """Return the output of a command; empty if it fails or takes too long."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=dict(environ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return b""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            output = bytearray()
            while chunk := await process.stdout.read(65_536):
                output += chunk
                if len(output) > _MAX_BYTES:
                    return b""
            return bytes(output) if await process.wait() == 0 else b""
    except TimeoutError:
        return b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
