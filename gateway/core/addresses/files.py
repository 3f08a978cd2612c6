"""Addresses of file storage that several machines share (`store.files`)."""

import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from agent.records import frozen

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_REGION = re.compile(r"[a-z0-9-]{1,40}")


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
