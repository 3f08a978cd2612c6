"""Browser login with a one-time code from `kore web` or with a typed token.

The page proves that it knows the code or the token, and both sides derive the browser's own key
from it. Neither the code nor any key is ever sent.
"""

import secrets
import time

from aiohttp import web

from agent.errors import KoreError, PolicyDenied
from agent.i18n import t
from agent.records import frozen
from agent.security.key_proof import key_id, key_of
from agent.serialization import dumps
from gateway.server.budgets import CallLimiter, RateLimit
from gateway.server.call_routes import set_language
from gateway.server.guard import (
    LOGIN_PATH,
    LOGOUT_PATH,
    access_of,
    is_local,
    refusal,
)
from gateway.server.handshake import KeyHandshake, refuse
from gateway.server.tokens import AccessToken, TokenFile

_MAX_CODES = 20
# Limit per parent, because each login writes the token file.
LOGINS = RateLimit(10, 0.2)


@frozen
class LoginCode:
    """One-time code, without its secret.

    `parent` is the token that created it, None for the owner; `until` is monotonic time.
    """

    id: str
    key: bytes
    parent: AccessToken | None
    until: float


class Login:
    """Login routes. Codes are only in memory, so a restart invalidates them."""

    def __init__(self, tokens: TokenFile, handshake: KeyHandshake, code_ttl_s: float) -> None:
        self._tokens = tokens
        self._handshake = handshake
        self._code_ttl_s = code_ttl_s
        self._codes: dict[str, LoginCode] = {}
        self._logins = CallLimiter(LOGINS)

    def add_to(self, app: web.Application) -> None:
        app.router.add_get(LOGIN_PATH, self._login)
        app.router.add_get(LOGOUT_PATH, self._logout)
        app.router.add_post("/v1/login-codes", self._make_code)

    async def _make_code(self, request: web.Request) -> web.Response:
        set_language(request)
        if not access_of(request).allows("admin"):
            return refusal(403, PolicyDenied(t("codes need a token with the scope admin")))
        self._forget_old()
        if len(self._codes) >= _MAX_CODES:
            return refusal(429, KoreError(t("too many codes; wait a few minutes")))
        code = secrets.token_urlsafe(24)
        parent = None if is_local(request) else access_of(request)
        id_, key = key_id(key_of(code)), key_of(code)
        self._codes[id_] = LoginCode(id_, key, parent, time.monotonic() + self._code_ttl_s)
        return web.json_response({"value": {"code": code, "valid_s": self._code_ttl_s}})

    async def _login(self, request: web.Request) -> web.StreamResponse:
        self._forget_old()
        socket, proven = await self._handshake.open(request, self._find)
        if proven is None:
            return socket
        proof, holder = proven
        try:
            parent = self._parent(holder)
            browser = self._tokens.add_browser(proof.derived_key(), parent, proof.host)
        except KoreError as exc:
            await refuse(socket, exc)
            return socket
        await socket.send_str(dumps({"value": {"name": browser.name}}))
        await socket.close()
        return socket

    async def _logout(self, request: web.Request) -> web.StreamResponse:
        socket, proven = await self._handshake.open(request, self._tokens.find_key)
        if proven is not None:
            _, token = proven
            if token.parent is not None:
                self._tokens.revoke(token.name)
            await socket.close()
        return socket

    def _find(self, id_: str) -> tuple[bytes, LoginCode | AccessToken] | None:
        if (code := self._codes.get(id_)) is not None:
            return code.key, code
        return self._tokens.find_key(id_)

    def _parent(self, holder: LoginCode | AccessToken) -> AccessToken | None:
        """Return the parent for a browser that has proven a code or token. Raises `KoreError`."""
        if isinstance(holder, LoginCode):
            if self._codes.pop(holder.id, None) is None:
                raise PolicyDenied(
                    t("This link or token is wrong, was used before, or has expired."),
                    hint=t("`kore web` makes a new link."),
                )
            return holder.parent
        if holder.role is not None or holder.parent is not None:
            raise PolicyDenied(t("a token with a role is for programs, not for this page"))
        if not self._logins.take(holder.name):
            raise KoreError(t("too many calls; wait a second"))
        return holder

    def _forget_old(self) -> None:
        now = time.monotonic()
        self._codes = {id_: code for id_, code in self._codes.items() if code.until > now}
