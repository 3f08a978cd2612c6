"""Line endings of files that tools read, replace and extend."""

from pathlib import Path
from typing import Any

import pytest

from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.file_views import FileViews, stamp
from agent.tools.files.read_write import AppendFile, ReadFile, WriteFile


async def write(call: CallContext, path: Path, content: str) -> str:
    views = FileViews()
    tool = WriteFile(ToolSettings(), views)
    views.record_view(call.session, path, stamp(path))
    args = {"path": str(path), "content": content}
    await tool.plan(args, call)
    return (await tool.run(args, call)).for_model


async def append(call: CallContext, path: Path, content: str) -> tuple[str, str]:
    tool, args = AppendFile(ToolSettings()), {"path": str(path), "content": content}
    plan = await tool.plan(args, call)
    return (await tool.run(args, call)).for_model, plan.diff or ""


async def read(call: CallContext, path: Path, **lines: Any) -> str:
    return (await ReadFile(ToolSettings()).run({"path": str(path), **lines}, call)).for_model


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "c\nd\n", b"c\r\nd\r\n"),
        (b"a\r\nb\r\n", "c\r\nd", b"c\r\nd"),
        (b"a\r\nb\nc\r\n", "x\n", b"x\r\n"),
        (b"a\nb\nc\r\n", "x\n", b"x\n"),
        (b"a\n", "c\r\n", b"c\r\n"),
        (b"a", "c\n", b"c\n"),
        ("a\r\n".encode("utf-16"), "c\n", "c\r\n".encode("utf-16")),
    ],
)
async def test_replaced_file_keeps_crlf(
    call: CallContext, workspace: Path, before: bytes, content: str, after: bytes
) -> None:
    path = workspace / "a.txt"
    path.write_bytes(before)
    text = await write(call, path, content)
    assert path.read_bytes() == after
    assert ("end in CRLF, as before" in text) == ("\r" not in content and b"\r" in after)


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\n", "b\nc\n", b"a\r\nb\r\nc\r\n"),
        (b"a\n", "b\r\n", b"a\nb\n"),
        (b"a\r\nb", "c\n", b"a\r\nb\r\nc\r\n"),
        (b"a\nb", "c", b"a\nb\nc"),
        (b"a", "b\n", b"a\nb\n"),
        (b"a", "\nb\n", b"a\nb\n"),
        (b"a", "", b"a"),
        (b"", "b", b"b"),
    ],
)
async def test_appended_text_has_the_line_endings_of_the_file(
    call: CallContext, workspace: Path, before: bytes, content: str, after: bytes
) -> None:
    path = workspace / "a.txt"
    path.write_bytes(before)
    text, shown = await append(call, path, content)
    assert path.read_bytes() == after
    is_joined = content and before and not before.endswith(b"\n") and content[0] != "\n"
    assert ("a line break was added" in text) == bool(is_joined)
    # The approved text is written.
    assert content == "" or "+" in shown


async def test_read_file_notes_line_endings(call: CallContext, workspace: Path) -> None:
    path = workspace / "a.txt"
    path.write_bytes(b"a\r\nb\r\n")
    assert await read(call, path) == "1\ta\n2\tb\n… (the lines end in CRLF)"
    path.write_bytes(b"a\r\nb\nc")
    noted = await read(call, path)
    assert noted.endswith("\n… (1 of 2 lines end in CRLF; the last line has no newline at its end)")
    assert "newline" not in await read(call, path, line_end=2)
    path.write_bytes(b"a\nb\n")
    assert await read(call, path) == "1\ta\n2\tb"
