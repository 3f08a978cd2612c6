"""Addresses of files as language servers write them."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes, urlsplit

# What RFC 3986 lets stand in a path; servers compare addresses as they were told them.
_KEPT = "/~!$&'()*+,;=@"
# No path is longer.
_MOST_CHARS = 3 * 4_096


def uri_of(path: Path) -> str:
    """The address of a file by its absolute path."""
    return "file://" + quote(os.fsencode(path), safe=_KEPT)


def path_of(uri: Any) -> Path | None:
    """The path behind an address, without `..` and the like; None for what is no file of this
    machine."""
    if not isinstance(uri, str) or len(uri) > _MOST_CHARS:
        return None
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme.lower() != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = os.fsdecode(unquote_to_bytes(parts.path))
    if not path.startswith("/") or "\0" in path:
        return None
    return Path(os.path.normpath(path))
