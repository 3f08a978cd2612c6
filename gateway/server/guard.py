"""Admission of requests: own name as Host, no foreign Origin, and a token.

A page on another site, or under a host name that resolves to this machine, can reach a server on
this machine through the person's browser. Host and Origin are therefore checked before the token.
Cookies are not used, because browsers automatically send them to every port of a host.
"""

import socket
from collections.abc import Callable

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from agent.errors import ConfigError, KoreError, PolicyDenied
from agent.i18n import t
from gateway.control.protocol import error_to_json, is_own_user
from gateway.server.budgets import (
    BodyTooLarge,
    BudgetExceeded,
    CallLimiter,
    RateLimit,
    TokenBudgets,
)
from gateway.server.connection_ranks import ConnectionRanks
from gateway.server.host_names import HostNames
from gateway.server.tokens import AccessToken, TokenFile

ACCESS = web.RequestKey("access", AccessToken)
# Calls that need no token because they reveal nothing.
_OPEN_CALLS = frozenset({"/v1/hello"})
# WebSockets on which a client proves that it knows a key, after they are open (`handshake.py`). The
# first accepts a token as well.
CONNECT_PATH = "/v1/connect"
LOGIN_PATH = "/v1/login"
LOGOUT_PATH = "/v1/logout"
_PROVEN_PATHS = frozenset({CONNECT_PATH, LOGIN_PATH, LOGOUT_PATH})
# The only paths that a token with a role may use.
_ROLE_PATHS = frozenset({"/v1/models", "/v1/chat/completions", "/v1/responses"})
_METHODS_THAT_READ = frozenset({"GET", "HEAD"})


# Limit on wrong tokens and codes per address.
FAILURES = RateLimit(10, 0.1)


class TooManyTries(KoreError):
    """Error for an address that has tried too many wrong tokens or codes."""

    code = "too-many-tries"


class Guard:
    """Admission check for requests.

    `hosts` are the names by which this server is reached. On a Unix socket, its own user needs no
    token, and there are no browsers.
    """

    def __init__(
        self, tokens: TokenFile, hosts: HostNames, ranks: ConnectionRanks, budgets: TokenBudgets
    ) -> None:
        self._tokens = tokens
        self._ranks = ranks
        self._hosts = hosts
        self._budgets = budgets
        self._failures = CallLimiter(FAILURES)

    def middleware(self, refuse: Callable[[str, int, KoreError], web.Response]) -> Middleware:
        """Return the middleware; `refuse` makes the response for a path, a status and an error."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                self._check_origin(request)
                error = self.admit(request, self._access(request)) if needs_token(request) else None
                if error is not None:
                    raise _Refused(403, error)
            except _Refused as refused:
                return refuse(request.path, refused.status, refused.error)
            except (TooManyTries, BudgetExceeded) as exc:
                return refuse(request.path, 429, exc)
            except BodyTooLarge as exc:
                return refuse(request.path, 413, exc)
            except ConfigError as exc:
                return refuse(request.path, 500, exc)
            return await handler(request)

        return check

    def admit(self, request: web.Request, access: AccessToken) -> KoreError | None:
        """Record the token of a request; return an error if the token is not allowed here."""
        self._ranks.note(request.transport, access)
        request[ACCESS] = access
        # A page that another program serves at a former address could use the browser's key there.
        if access.host is not None and access.host != request.headers.get("Host"):
            return PolicyDenied(
                t("this browser has logged in at {host}", host=access.host),
                hint=t("`kore web` makes a new link."),
            )
        if access.role is None or is_openai_path(request.path):
            return None
        return PolicyDenied(
            t("the token {name} has a role, and can only talk with Kore", name=access.name),
            hint=t("its addresses: {paths}", paths=", ".join(sorted(_ROLE_PATHS))),
        )

    def token_of(self, secret: str, address: str) -> AccessToken | None:
        """Return the token with this secret, or None for a wrong secret.

        Raises `TooManyTries` after too many wrong secrets from the address. A correct secret always
        works, so that no client can lock others out.
        """
        token = self._tokens.find(secret)
        if token is None:
            self.check_failures(address)
            self._failures.take(address)
        return token

    def check_failures(self, address: str) -> None:
        """Raise `TooManyTries` if there were too many wrong tokens and codes."""
        if self._failures.is_empty(address):
            raise TooManyTries(t("too many wrong tokens; wait a minute"))

    def count_failure(self, address: str) -> None:
        self._failures.take(address)

    def _check_origin(self, request: web.Request) -> None:
        if is_local(request):
            return
        host = request.headers.get("Host", "")
        if not self._hosts.knows(host) or len(request.headers.getall("Host", [])) != 1:
            raise _Refused(403, PolicyDenied(t("this server is not called {host!r}", host=host)))
        origin = request.headers.get("Origin")
        # TLS may end at a proxy in front of the server.
        own = {f"{scheme}://{host}".casefold() for scheme in (request.scheme, "https")}
        if origin is not None and origin.casefold() not in own:
            raise _Refused(403, PolicyDenied(t("requests from other sites are not allowed")))
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            # A link on another site may open the page itself.
            is_page = request.path == "/" and request.method in _METHODS_THAT_READ
            if not is_page:
                raise _Refused(403, PolicyDenied(t("requests from other sites are not allowed")))

    def _access(self, request: web.Request) -> AccessToken:
        if is_local(request):
            return _access_of_own_user(request)
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme.casefold() != "bearer":
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
        self._budgets.check_call(token)
        if request.body_exists:
            self._budgets.check_body(token, request.content_length)
        return token


def is_openai_path(path: str) -> bool:
    """Return whether the path belongs to the OpenAI-compatible API."""
    return path in _ROLE_PATHS or path.startswith("/v1/models/")


def _access_of_own_user(request: web.Request) -> AccessToken:
    transport = request.transport
    if transport is None or not is_own_user(transport.get_extra_info("socket")):
        raise _Refused(403, PolicyDenied(t("this Kore belongs to another user")))
    return AccessToken("local", frozenset(["admin"]), 0.0)


def is_local(request: web.Request) -> bool:
    """Return whether a request arrived over a Unix socket."""
    if request.transport is None:
        return False
    return bool(request.transport.get_extra_info("socket").family == socket.AF_UNIX)


def local_address(request: web.Request) -> tuple[str, int]:
    """Return the address and port that accepted the connection; '' and 0 for a Unix socket."""
    if request.transport is None or is_local(request):
        return "", 0
    host, port, *_ = request.transport.get_extra_info("sockname")
    return host, port


def needs_token(request: web.Request) -> bool:
    if request.path in _PROVEN_PATHS and not is_local(request):
        return request.path == CONNECT_PATH and hdrs.AUTHORIZATION in request.headers
    return request.path.startswith("/v1/") and request.path not in _OPEN_CALLS


def access_of(request: web.Request) -> AccessToken:
    """Return the token of a request."""
    return request[ACCESS]


def refusal(status: int, error: KoreError) -> web.Response:
    """Return the response for an error."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return web.json_response({"error": error_to_json(error)}, status=status, headers=headers)


class _Refused(Exception):
    def __init__(self, status: int, error: KoreError) -> None:
        super().__init__(str(error))
        self.status, self.error = status, error
