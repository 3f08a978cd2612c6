"""What every request must bring: our own name as Host, no foreign Origin, and a token.

A page on another site reaches a server on this machine through the person's browser, and so does a
host name that is made to point here: Host and Origin are looked at before the token is.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from yarl import URL

from agent.errors import ConfigError, KoreError, PolicyDenied
from agent.i18n import t
from agent.records import frozen
from gateway.control.protocol import error_to_json, is_own_user
from gateway.server.connection_ranks import ConnectionRanks
from gateway.server.tokens import AccessToken, TokenFile

# A browser has a token in two halves: cookies go to every port of a host, so that another server on
# this machine may see one, and what a page stores belongs to its port alone.
_COOKIE = "kore_token"
KEY_HEADER = "X-Kore-Key"
# A WebSocket has no headers of its own: there the key stands behind this.
SUBPROTOCOL = "kore"
ACCESS = web.RequestKey("access", AccessToken)
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
# Pages and calls that anyone may ask for: they tell nothing.
_OPEN_CALLS = frozenset({"/v1/hello", "/v1/login"})
# All that a token with a role may ask for.
_ROLE_PATHS = frozenset({"/v1/models", "/v1/chat/completions", "/v1/responses"})
_METHODS_THAT_READ = frozenset({"GET", "HEAD"})


@frozen
class RateLimit:
    """So many at once, and so many a second from then on."""

    burst: float
    per_s: float


CALLS = RateLimit(300, 50)
# Wrong tokens and codes, for each address.
FAILURES = RateLimit(10, 0.1)
_MOST_NAMES = 1_000


class TooManyTries(KoreError):
    """Somebody guesses."""

    code = "too-many-tries"


class CallLimiter:
    """A bucket of tokens for each name; the names used longest ago leave."""

    def __init__(self, limit: RateLimit, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> bool:
        """Whether there is one left."""
        left = self._left(name)
        is_left = left >= 1
        self._buckets[name] = (left - is_left, self._clock())
        self._buckets.move_to_end(name)
        if len(self._buckets) > _MOST_NAMES:
            self._buckets.popitem(last=False)
        return is_left

    def is_empty(self, name: str) -> bool:
        return self._left(name) < 1

    def _left(self, name: str) -> float:
        left, at = self._buckets.get(name, (self._limit.burst, self._clock()))
        return min(self._limit.burst, left + (self._clock() - at) * self._limit.per_s)


class Guard:
    """`hosts` are the names that this server is reached by; on a Unix socket (None) whoever can
    open it may, and no browser comes."""

    def __init__(
        self, tokens: TokenFile, hosts: Collection[str] | None, ranks: ConnectionRanks
    ) -> None:
        self._tokens = tokens
        self._ranks = ranks
        self._hosts = hosts
        self._calls = CallLimiter(CALLS)
        self._failures = CallLimiter(FAILURES)

    def middleware(self, refuse: Callable[[str, int, KoreError], web.Response]) -> Middleware:
        """`refuse` makes the answer for a path, a status and an error."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                self._check_origin(request)
                if needs_token(request.path):
                    request[ACCESS] = access = self._access(request)
                    self._ranks.note(request.transport, access)
                    _check_role(access, request.path)
            except _Refused as refused:
                return refuse(request.path, refused.status, refused.error)
            except TooManyTries as exc:
                return refuse(request.path, 429, exc)
            except ConfigError as exc:
                return refuse(request.path, 500, exc)
            return await handler(request)

        return check

    def token_of(self, secret: str, address: str) -> AccessToken | None:
        """Whose this is; None for a wrong one, of which there are only so many tries. Raises
        `TooManyTries` after those. A right one always counts: nobody can shut others out."""
        token = self._tokens.find(secret)
        if token is None:
            self.check_failures(address)
            self._failures.take(address)
        return token

    def check_failures(self, address: str) -> None:
        """Raises `KoreError` where there were too many wrong tokens and codes."""
        if self._failures.is_empty(address):
            raise TooManyTries(t("too many wrong tokens; wait a minute"))

    def count_failure(self, address: str) -> None:
        self._failures.take(address)

    def _check_origin(self, request: web.Request) -> None:
        if self._hosts is None:
            return
        host = request.headers.get("Host", "")
        if _host_name(host) not in self._hosts or len(request.headers.getall("Host", [])) != 1:
            raise _Refused(403, PolicyDenied(t("this server is not called {host!r}", host=host)))
        origin = request.headers.get("Origin")
        # A proxy in front may be the one that has TLS.
        own = {f"{scheme}://{host}".casefold() for scheme in (request.scheme, "https")}
        if origin is not None and origin.casefold() not in own:
            raise _Refused(403, PolicyDenied(t("a page of another site may not ask here")))
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            # A link from elsewhere may open the page itself.
            is_page = request.path == "/" and request.method in _METHODS_THAT_READ
            if not is_page:
                raise _Refused(403, PolicyDenied(t("a page of another site may not ask here")))

    def _access(self, request: web.Request) -> AccessToken:
        if self._hosts is None:
            return _access_of_own_user(request)
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        is_cookie = not secret
        if is_cookie:
            secret = _joined_halves(request)
        elif scheme.casefold() != "bearer":
            secret = ""
        address = request.remote or ""
        token = self.token_of(secret.strip(), address) if secret else None
        if token is None:
            words = (
                t("this token is wrong, was revoked, or has expired")
                if secret
                else t("a token is needed, in the header Authorization: Bearer TOKEN")
            )
            raise _Refused(401, PolicyDenied(words, hint=t("make one: kore token add NAME")))
        if is_cookie and not self._is_own_page(request):
            raise _Refused(403, PolicyDenied(t("a page of another site may not ask here")))
        if not self._calls.take(token.name):
            raise _Refused(429, KoreError(t("too many calls; wait a second")))
        return token

    def _is_own_page(self, request: web.Request) -> bool:
        """A cookie comes along by itself: what changes something must come from our page."""
        is_upgrade = request.headers.get("Upgrade", "").casefold() == "websocket"
        if request.method in _METHODS_THAT_READ and not is_upgrade:
            return True
        return "Origin" in request.headers and (
            is_upgrade or request.content_type == "application/json"
        )


def _check_role(access: AccessToken, path: str) -> None:
    """Raises `_Refused` where a token with a role has no business."""
    if access.role is None or is_openai_path(path):
        return
    error = PolicyDenied(
        t("the token {name} has a role, and can only talk with Kore", name=access.name),
        hint=t("its addresses: {paths}", paths=", ".join(sorted(_ROLE_PATHS))),
    )
    raise _Refused(403, error)


def is_openai_path(path: str) -> bool:
    """Whether a client of OpenAI's API asks."""
    return path in _ROLE_PATHS or path.startswith("/v1/models/")


def _access_of_own_user(request: web.Request) -> AccessToken:
    transport = request.transport
    if transport is None or not is_own_user(transport.get_extra_info("socket")):
        raise _Refused(403, PolicyDenied(t("this Kore belongs to another user")))
    return AccessToken("local", frozenset(["admin"]), 0.0)


def cookie_name(host: str) -> str:
    """Two servers on ports of one host have cookies of their own."""
    port = host.rpartition(":")[2]
    return f"{_COOKIE}_{port}" if port.isdecimal() else _COOKIE


def _joined_halves(request: web.Request) -> str:
    """What a browser's cookie and its page's key make together; '' where one is missing."""
    cookie, key = (
        request.cookies.get(cookie_name(request.headers.get("Host", "")), ""),
        request.headers.get(KEY_HEADER, ""),
    )
    names = request.headers.get("Sec-WebSocket-Protocol", "").split(",")
    if not key and names[0].strip() == SUBPROTOCOL:
        key = names[-1].strip()
    return cookie + key if cookie and key else ""


def needs_token(path: str) -> bool:
    return path.startswith("/v1/") and path not in _OPEN_CALLS


def access_of(request: web.Request) -> AccessToken:
    """Whose request it is."""
    return request[ACCESS]


def refusal(status: int, error: KoreError) -> web.Response:
    """The answer that tells an error."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return web.json_response({"error": error_to_json(error)}, status=status, headers=headers)


def _host_name(host: str) -> str:
    try:
        return (URL(f"http://{host}").host or "").casefold()
    except ValueError:
        return ""


class _Refused(Exception):
    def __init__(self, status: int, error: KoreError) -> None:
        super().__init__(str(error))
        self.status, self.error = status, error
