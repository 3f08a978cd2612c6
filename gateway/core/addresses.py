"""Addresses of the database server and the file storage, and connection settings of the former."""

import os
import re
import socket
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from agent.records import frozen

_CONNECT_TIMEOUT_S = 10
# An unresponsive server is noticed after about this time.
TIMEOUTS: dict[str, Any] = {
    "connect_timeout": _CONNECT_TIMEOUT_S,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
# The server releases the lock of an owner whose machine does not answer any more.
SERVER_TIMEOUTS = (
    " -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_REGION = re.compile(r"[a-z0-9-]{1,40}")


def own_name() -> str:
    return f"{socket.gethostname()}, process {os.getpid()}"


def application_name(owner: str) -> str:
    """Return the server's name for connections of this process: at most 63 printable characters."""
    return f"kore {owner}".encode("ascii", "replace").decode()[:63]


def public_address(address: str) -> str:
    """Return the address of a server without its password and options."""
    parts = urlsplit(address)
    user, at, host = parts.netloc.rpartition("@")
    return urlunsplit((parts.scheme, f"{user.partition(':')[0]}{at}{host}", parts.path, "", ""))


@frozen
class BucketAddress:
    """Address of a bucket, and a prefix in it.

    `prefix` is empty or ends with a slash. Without an `endpoint`, the bucket is on AWS.
    """

    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None

    def __str__(self) -> str:
        at = f" ({self.endpoint})" if self.endpoint else ""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/") + at


def parse_file_address(text: str) -> Path | BucketAddress:
    """Return the full path of a folder, or the bucket of an S3 address.

    The form is `s3://BUCKET/PREFIX?endpoint=URL&region=NAME`. Raises `ValueError`, also for an
    address with keys: everyone who sees the configuration would see them.
    """
    if text.startswith("/"):
        if not text.strip("/") or ".." in Path(text).parts or "\0" in text:
            raise ValueError("not the full path of a folder")
        return Path(text)
    parts = urlsplit(text)
    path = parts.path.strip("/")
    options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    is_bucket = (
        parts.scheme == "s3"
        and _BUCKET.fullmatch(parts.netloc)
        and (not path or _PREFIX.fullmatch(path))
        and not parts.fragment
        and options.keys() <= {"endpoint", "region"}
    )
    if not is_bucket:
        raise ValueError("not a bucket")
    endpoint, region = options.get("endpoint"), options.get("region")
    if endpoint is not None:
        server = urlsplit(endpoint)
        is_server = server.scheme in ("http", "https") and server.hostname
        if not is_server or "@" in server.netloc or server.query or server.fragment:
            raise ValueError("not the address of a server")
    if region is not None and not _REGION.fullmatch(region):
        raise ValueError("not the name of a region")
    return BucketAddress(parts.netloc, f"{path}/" if path else "", endpoint, region)
