"""Normalisation of model server addresses."""

import re
from urllib.parse import SplitResult, urlsplit

from agent.errors import ConfigError
from agent.i18n import t

_VERSION_PART = re.compile(r"v\d+\w*")

# API paths that people leave at the end of an address.
_METHODS = ("/chat/completions", "/responses", "/messages", "/api/chat")


def normalise_base(address: str, version: str | None) -> str:
    """Return the address without a trailing slash or API path, and with a version.

    `version` is appended when the address names none. Raises `ConfigError` unless the address is a
    plain http address without user name and password.
    """
    if "@" in address.partition("//")[2].partition("/")[0]:
        raise ConfigError(
            t("api_base contains a user name or password; use the plain address and set api_key")
        )
    parts = _parts(address.strip())
    if parts is None:
        raise ConfigError(
            t(
                "api_base: found {address!r}, expected a URL such as https://example.com/v1",
                address=address,
            )
        )
    path = parts.path.rstrip("/")
    for method in _METHODS:
        path = path.removesuffix(method).rstrip("/")
    if version and not any(map(_VERSION_PART.fullmatch, path.split("/"))):
        path = f"{path}/{version}"
    return f"{parts.scheme}://{parts.netloc}{path}"


def _parts(address: str) -> SplitResult | None:
    """Return the parts of an http address that a client can connect to, else None."""
    try:
        parts = urlsplit(address)
        host = (parts.hostname or "").encode("idna")
        usable = parts.scheme in ("http", "https") and host and parts.port != 0
    except ValueError:
        return None
    return parts if usable and not host.split()[1:] else None
