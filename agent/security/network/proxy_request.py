"""Strict parser for the first lines of a program's proxy request.

RFC 9112: anything that two readers could understand differently (a bare line end, a folded line,
two lengths, a coded body) is refused, so that a server behind the proxy cannot see another request.
"""

import base64
import hmac
import re
from urllib.parse import urlsplit

from agent.records import frozen
from agent.security.network.hosts import host_name

HEADERS_LIMIT = 100
_METHOD = re.compile(rb"[A-Z]{1,20}")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\x80-\xff\t]*)")
_TARGET = re.compile(rb"[\x21-\x7e]+")
_LENGTH = re.compile(rb"\d{1,15}")
# Of this connection only (RFC 9110, 7.6.1), and headers that Kore writes itself.
_DROPPED = frozenset(
    {b"connection", b"host", b"keep-alive", b"te", b"trailer", b"upgrade", b"http2-settings"}
    | {b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"}
)
_METHODS = frozenset({b"DELETE", b"GET", b"HEAD", b"OPTIONS", b"PATCH", b"POST", b"PUT"})


class ProxyRefusal(Exception):
    """Reason why a request is refused; `status` is the HTTP status of the answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@frozen
class ProxyRequest:
    """A program's request: a tunnel when `head` is None, else this head and `length` bytes sent.

    `host` is a name in its normal form or an address.
    """

    host: str
    port: int
    head: bytes | None = None
    length: int = 0

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_head(data: bytes) -> ProxyRequest:
    """Parse the head, including its empty line. Raises `ProxyRefusal`."""
    first, *lines = data.removesuffix(b"\r\n\r\n").split(b"\r\n")
    parts = first.split(b" ")
    if len(parts) != 3 or parts[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise ProxyRefusal(400, "this is no HTTP/1 request")
    method, target, _ = parts
    fields = _fields(lines)
    if not _METHOD.fullmatch(method) or not _TARGET.fullmatch(target):
        raise ProxyRefusal(400, "this is no HTTP/1 request")
    if method == b"CONNECT":
        return _authority(target.decode(), None)
    if method not in _METHODS:
        raise ProxyRefusal(405, "this method is not passed on")
    return _plain(method, target.decode(), fields)


def brings_password(data: bytes, password: str) -> bool:
    """Return whether a head contains this password of the user "kore" (RFC 7617)."""
    expected = b"Basic " + base64.b64encode(f"kore:{password}".encode())
    for line in data.split(b"\r\n")[1 : HEADERS_LIMIT + 1]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"proxy-authorization":
            return hmac.compare_digest(value.strip(), expected)
    return False


def _plain(method: bytes, target: str, fields: list[tuple[bytes, bytes]]) -> ProxyRequest:
    try:
        url = urlsplit(target)
    except ValueError as exc:
        raise ProxyRefusal(400, "the address cannot be read") from exc
    if url.scheme != "http" or not url.netloc or not target.startswith("http://"):
        raise ProxyRefusal(400, "only http:// addresses, and CONNECT for all others")
    target_host = _authority(url.netloc, 80)
    lengths = [value for name, value in fields if name == b"content-length"]
    if any(name == b"transfer-encoding" for name, _ in fields):
        raise ProxyRefusal(411, "a body needs a Content-Length here")
    if len(lengths) > 1 or not all(map(_LENGTH.fullmatch, lengths)):
        raise ProxyRefusal(400, "the length of the body is not clear")
    path = target.removeprefix("http://")[len(url.netloc) :].partition("#")[0]
    path = path if path.startswith("/") else f"/{path}"
    host = str(target_host).removesuffix(":80")
    hop_headers = {
        header.strip().lower()
        for name, value in fields
        if name == b"connection"
        for header in value.split(b",")
    }
    forwarded = [
        b"%s: %s" % field
        for field in fields
        if field[0] not in _DROPPED
        and (field[0] == b"content-length" or field[0] not in hop_headers)
    ]
    head = [b"%s %s HTTP/1.1" % (method, path.encode()), b"host: " + host.encode(), *forwarded]
    text = b"\r\n".join([*head, b"connection: close", b"", b""])
    return ProxyRequest(target_host.host, target_host.port, text, int(lengths[0]) if lengths else 0)


def _fields(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
    if len(lines) > HEADERS_LIMIT:
        raise ProxyRefusal(431, "there are too many headers")
    headers = []
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise ProxyRefusal(400, "a header cannot be read")
        headers.append((field[1].lower(), field[2].strip(b" \t")))
    return headers


def _authority(text: str, default: int | None) -> ProxyRequest:
    """Parse `host` or `host:port`; nothing else."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::(\d{1,5}))?", text)
    port = int(match[2]) if match and match[2] else default
    if match is None or port is None or not 0 < port < 65_536:
        raise ProxyRefusal(400, "the address must be HOST:PORT, without a user name")
    try:
        return ProxyRequest(host_name(match[1]), port)
    except (ValueError, UnicodeError) as exc:
        raise ProxyRefusal(400, "the address holds no name of a machine") from exc
