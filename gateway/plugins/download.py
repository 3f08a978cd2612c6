"""Bounded downloads of plugin archives over https, verified by their hash."""

import hashlib
import http.client
import urllib.request
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from agent.i18n import t
from gateway.plugins.errors import PluginError

_TIMEOUT_S = 60
_PIECE_BYTES = 65_536


class _HttpsOnly(urllib.request.HTTPRedirectHandler):
    """Follow redirects to https addresses only."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        _require_https(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(url: str, path: Path, max_bytes: int) -> None:
    """Save the content of an https address. Raises `PluginError`."""
    _require_https(url)
    opener = urllib.request.build_opener(_HttpsOnly)
    try:
        with opener.open(url, timeout=_TIMEOUT_S) as response, path.open("wb") as file:
            size = 0
            while chunk := response.read(_PIECE_BYTES):
                size += len(chunk)
                if size > max_bytes:
                    raise PluginError(t("{path} is too large", path=url[:200]))
                file.write(chunk)
    except (OSError, http.client.HTTPException, ValueError) as exc:
        raise PluginError(f"{url[:200]}: {exc}") from None


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file of any size."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _require_https(url: str) -> None:
    if urlsplit(url).scheme != "https":
        raise PluginError(t("{url}: expected an https:// address", url=url[:200]))
