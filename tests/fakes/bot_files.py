"""Files in a fake Bot API, from people and from the bot.

https://core.telegram.org/bots/api#getfile https://core.telegram.org/bots/api#sending-files
"""

import hashlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.bot_text import Refusal, bad_request, utf16_units

GIVEN_BYTES = 20 * 2**20
TAKEN_BYTES = 50 * 2**20
PHOTO_BYTES = 10 * 2**20
CAPTION_UNITS = 1024
_KINDS = ("document", "photo", "video", "audio", "voice", "animation")
METHODS = {f"send{kind}": kind for kind in _KINDS}


@dataclass(frozen=True, slots=True)
class Upload:
    """A file in a form."""

    filename: str
    data: bytes


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file that the bot has sent."""

    kind: str
    name: str
    data: bytes


class BotFiles:
    """Downloadable files by id.

    With `folder`, act as a server started with --local: return paths on its disk and apply no
    limits.
    """

    def __init__(self, token: str) -> None:
        self.folder: Path | None = None
        self._token = token
        self._data: dict[str, bytes] = {}
        self._paths: dict[str, str] = {}
        self._numbers = itertools.count(1)

    def field(self, kind: str, data: bytes, name: str | None, size: int | None) -> Any:
        """Return the value of the message field for this kind of file."""
        digest = hashlib.sha256(data).hexdigest()
        number = next(self._numbers)
        file_id = f"file-{number}-{digest[:6]}"
        self._data[file_id] = data
        self._paths[file_id] = f"{kind}s/file_{number}"
        result: dict[str, Any] = {
            "file_id": file_id,
            "file_unique_id": f"u{digest[:12]}",
            "file_size": len(data) if size is None else size,
        }
        if kind == "photo":
            thumb = {**result, "file_id": f"{file_id}-small", "width": 90, "height": 60}
            return [thumb, {**result, "width": 1280, "height": 853}]
        if name is not None:
            result["file_name"] = name
        if kind in ("voice", "audio", "video", "video_note"):
            result["duration"] = 3
        return result

    def get_file(self, params: Mapping[str, Any]) -> dict[str, Any]:
        file_id = str(params.get("file_id"))
        if file_id not in self._data:
            raise bad_request("wrong file_id or the file is temporarily unavailable")
        path = self._paths[file_id]
        if self.folder is None and len(self._data[file_id]) > GIVEN_BYTES:
            raise bad_request("file is too big")
        if self.folder is not None:
            where = self.folder / self._token / path
            where.parent.mkdir(parents=True, exist_ok=True)
            where.write_bytes(self._data[file_id])
            path = str(where)
        return {"file_id": file_id, "file_path": path}

    def content(self, path: str) -> bytes | None:
        """Return the content of a path from getFile."""
        result = next((outcome for outcome, known in self._paths.items() if known == path), None)
        return None if result is None else self._data[result]

    def sent(self, method: str, params: Mapping[str, Any]) -> list[tuple[SentFile, str]]:
        """Return the files of a call with their captions. Raise Refusal as Telegram would."""
        if method == "sendmediagroup":
            media = json.loads(params["media"])
            if not 2 <= len(media) <= 10:
                raise bad_request("wrong number of items in the media group")
        else:
            kind = METHODS[method]
            media = [{"type": kind, "media": params.get(kind), "caption": params.get("caption")}]
        for item in media:
            if utf16_units(item.get("caption") or "") > CAPTION_UNITS:
                raise bad_request("message caption is too long")
        return [(self._taken(item, params), item.get("caption") or "") for item in media]

    def _taken(self, entry: Mapping[str, Any], params: Mapping[str, Any]) -> SentFile:
        source = entry["media"]
        if isinstance(source, str) and source.startswith("attach://"):
            source = params.get(source.removeprefix("attach://"))
        if not isinstance(source, Upload):
            raise bad_request("there is no file in the request")
        data = source.data
        if not data:
            raise bad_request("file must be non-empty")
        if len(data) > (PHOTO_BYTES if entry["type"] == "photo" else TAKEN_BYTES):
            raise Refusal(413, "Request Entity Too Large")
        return SentFile(entry["type"], source.filename, data)
