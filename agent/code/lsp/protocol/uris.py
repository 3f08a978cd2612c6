"""`file:` URIs of language servers."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes, urlsplit

# Characters that RFC 3986 allows in a path; servers compare URIs literally.
_SAFE = "/~!$&'()*+,;=@"
# Longer than any encoded path.
_MAX_CHARS = 3 * 4_096


def uri_of(path: Path) -> str:
    """Return the URI of a file by its absolute path."""
    return "file://" + quote(os.fsencode(path), safe=_SAFE)


def path_of(uri: Any) -> Path | None:
    """Return the normalized path of a URI, or None when it is not a local file."""
    if not isinstance(uri, str) or len(uri) > _MAX_CHARS:
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
