"""How a browser comes in: by a code of one use from `kore web`, or by a token that is typed in.

Either way it keeps a token of its own: half of it in a cookie that no script can read, half of it
in the storage of the page, which no other port of this machine can.
"""

import secrets
import time
from collections.abc import Mapping

from aiohttp import web

from agent.errors import KoreError, PolicyDenied
from agent.i18n import t
from gateway.server.call_routes import json_object, set_language
from gateway.server.guard import Guard, TooManyTries, access_of, cookie_name, refusal
from gateway.server.tokens import TokenFile

CODE_S = 300.0
_MOST_CODES = 20
# Where a token is cut: the cookie holds what is before it, the page what is behind it.
HALF = 26
# The names of tokens that browsers were given.
_BROWSER = "browser-"
_COOKIE_S = 30 * 24 * 3600


class Login:
    """Codes live in memory; a restart forgets them."""

    def __init__(self, tokens: TokenFile, guard: Guard) -> None:
        self._tokens = tokens
        self._guard = guard
        self._codes: dict[str, float] = {}

    def add_to(self, app: web.Application) -> None:
        app.router.add_post("/v1/login", self._login)
        app.router.add_post("/v1/logout", self._logout)
        app.router.add_post("/v1/login-codes", self._make_code)

    async def _make_code(self, request: web.Request) -> web.Response:
        set_language(request)
        if not access_of(request).allows("admin"):
            return refusal(403, PolicyDenied(t("codes need a token with the scope admin")))
        self._forget_old()
        if len(self._codes) >= _MOST_CODES:
            return refusal(429, KoreError(t("too many codes; wait a few minutes")))
        code = secrets.token_urlsafe(24)
        self._codes[code] = time.monotonic() + CODE_S
        return web.json_response({"value": {"code": code, "valid_s": CODE_S}})

    async def _login(self, request: web.Request) -> web.Response:
        set_language(request)
        try:
            secret = self._secret_for(json_object(await request.read()), request.remote or "")
        except TooManyTries as exc:
            return refusal(429, exc)
        except KoreError as exc:
            return refusal(401, exc)
        cookie, key = secret[:HALF], secret[HALF:]
        response = web.json_response({"value": {"key": key}})
        response.set_cookie(
            cookie_name(request.headers.get("Host", "")),
            cookie,
            max_age=_COOKIE_S,
            path="/",
            httponly=True,
            samesite="Strict",
            secure=request.secure,
        )
        return response

    async def _logout(self, request: web.Request) -> web.Response:
        response = web.json_response({"value": {}})
        response.del_cookie(cookie_name(request.headers.get("Host", "")), path="/")
        if access_of(request).name.startswith(_BROWSER):
            self._tokens.revoke(access_of(request).name)
        return response

    def _secret_for(self, data: Mapping[str, object], address: str) -> str:
        """A token of the browser's own. Raises `KoreError` for a wrong code or token."""
        code, token = data.get("code"), data.get("token")
        name = f"{_BROWSER}{secrets.token_hex(4)}"
        if isinstance(token, str):
            access = self._guard.token_of(token.strip(), address)
            if access is not None and access.role is None:
                return self._tokens.add(name, access.scopes)
            if access is not None:
                raise KoreError(t("a token with a role is for programs, not for this page"))
        self._forget_old()
        if isinstance(code, str) and self._codes.pop(code, None) is not None:
            return self._tokens.add(name, ("admin",))
        if isinstance(code, str):
            self._guard.check_failures(address)
            self._guard.count_failure(address)
        raise KoreError(
            t("This link or token is wrong, was used before, or has expired."),
            hint=t("`kore web` makes a new link."),
        )

    def _forget_old(self) -> None:
        now = time.monotonic()
        self._codes = {code: until for code, until in self._codes.items() if until > now}
