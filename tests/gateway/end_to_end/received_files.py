"""Files that a person sends, and their messages for the model."""

import json
import os
import struct
import zlib
from pathlib import Path

from tests.gateway.end_to_end.gateway_process import GatewayProcess


def png(shade: int, extra: int = 0) -> bytes:
    """Return a PNG of a single pixel, with `extra` bytes of ignored data."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checked)

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    dot = zlib.compress(bytes([0, shade]))
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", dot), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts) + b"\0" * extra


def last_user_message(gateway: GatewayProcess) -> str:
    """Return the newest user message, as the model received it."""
    return json.dumps(gateway.model.requests[-1].body["messages"][-1], ensure_ascii=False)


def inbox(gateway: GatewayProcess, chat: int) -> list[Path]:
    """Return the files received in this chat, oldest first."""
    folder = gateway.workspace / "inbox" / "telegram" / str(chat)
    return sorted(folder.iterdir(), key=os.path.getmtime) if folder.is_dir() else []
