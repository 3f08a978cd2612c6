"""An MCP server over HTTP that requires a login, with its authorization server, on 127.0.0.1."""

import asyncio
import base64
import hashlib
import json
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from tests.fakes.loopback import LoopbackServer


class OauthMcpServer(LoopbackServer):
    """Server for 2025-11-25 with one tool, `whoami`.

    `access` are the tokens that are valid now, `grants` the kinds of token requests so far,
    `registrations` the clients; `expires_in` is the reported lifetime of each token. With
    `issues_refresh` off nothing can be renewed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.access: set[str] = set()
        self.refresh: set[str] = set()
        self.grants: list[str] = []
        self.registrations: list[dict[str, Any]] = []
        self.expires_in = 3600
        self.issues_refresh = True
        # Reuse of a refresh token ends the whole login.
        self.revokes_on_reuse = False
        # Number of requests refused before a token is renewed; `refused` counts them.
        self.renews_after = 0
        self.refused = 0
        self._refusal = asyncio.Condition()
        # Set by tests: an authorization endpoint on another server.
        self.login_page = ""
        # Token revocation endpoint; empty for none.
        self.revocation = ""
        self._codes: dict[str, str] = {}
        self._count = 0
        add = self.app.router.add_route
        add("POST", "/mcp", self._mcp)
        add("GET", "/.well-known/oauth-protected-resource/mcp", self._resource)
        add("GET", "/.well-known/oauth-authorization-server", self._metadata)
        add("POST", "/register", self._register)
        add("GET", "/authorize", self._authorize)
        add("POST", "/token", self._token)
        add("POST", "/revoke", self._revoke)

    @property
    def secrets(self) -> set[str]:
        """Every token issued so far."""
        return {_token(kind, n) for kind in ("access", "renew") for n in range(self._count + 1)}

    async def _mcp(self, request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in self.access:
            async with self._refusal:
                self.refused += 1
                self._refusal.notify_all()
            where = f"{self.url}/.well-known/oauth-protected-resource/mcp"
            challenge = f'Bearer resource_metadata="{where}"'
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        body = json.loads(await request.read())
        if "id" not in body:
            return web.Response(status=202)
        result: dict[str, Any] | None = None
        match body["method"]:
            case "initialize":
                result = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "guarded", "version": "1"},
                }
            case "tools/list":
                result = {"tools": [{"name": "whoami", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                # A server that reveals the token to strangers.
                result = {"content": [{"type": "text", "text": f"you, with {token}"}]}
        answer = {"jsonrpc": "2.0", "id": body["id"]}
        if result is None:
            error = {"code": -32601, "message": "no such method"}
            return web.json_response({**answer, "error": error})
        return web.json_response({**answer, "result": result})

    async def _resource(self, request: web.Request) -> web.Response:
        return web.json_response(
            {"resource": f"{self.url}/mcp", "authorization_servers": [self.url]}
        )

    async def _metadata(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.url,
                "authorization_endpoint": self.login_page or f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "registration_endpoint": f"{self.url}/register",
                **({"revocation_endpoint": self.revocation} if self.revocation else {}),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
                "authorization_response_iss_parameter_supported": True,
            }
        )

    async def _register(self, request: web.Request) -> web.Response:
        registration = json.loads(await request.read())
        self.registrations.append(registration)
        client = {**registration, "client_id": f"client-{len(self.registrations)}"}
        return web.json_response(client, status=201)

    async def _authorize(self, request: web.Request) -> web.Response:
        query = request.query
        assert query["resource"] == f"{self.url}/mcp"
        code = f"code-{len(self._codes)}"
        self._codes[code] = query["code_challenge"]
        answer = {"code": code, "state": query["state"], "iss": self.url}
        raise web.HTTPFound(f"{query['redirect_uri']}?{urlencode(answer)}")

    async def _token(self, request: web.Request) -> web.Response:
        form = await request.post()
        self.grants.append(str(form["grant_type"]))
        if form["grant_type"] == "authorization_code":
            digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            is_right = self._codes.pop(str(form["code"]), None) == challenge
        else:
            async with asyncio.timeout(20), self._refusal:
                await self._refusal.wait_for(lambda: self.refused >= self.renews_after)
            is_right = form["refresh_token"] in self.refresh
            if not is_right and self.revokes_on_reuse:
                self.refresh.clear()
                self.access.clear()
            self.refresh.discard(str(form["refresh_token"]))
        if not is_right:
            return web.json_response({"error": "invalid_grant"}, status=400)
        self._count += 1
        access, renew = _token("access", self._count), _token("renew", self._count)
        self.access = {access}
        answer = {"access_token": access, "token_type": "Bearer", "expires_in": self.expires_in}
        if self.issues_refresh:
            self.refresh.add(renew)
            answer["refresh_token"] = renew
        return web.json_response(answer)

    async def _revoke(self, request: web.Request) -> web.Response:
        form = await request.post()
        if form["client_id"] != f"client-{len(self.registrations)}":
            return web.json_response({"error": "invalid_client"}, status=401)
        self.refresh.discard(str(form["token"]))
        self.access.discard(str(form["token"]))
        return web.Response()


async def open_page(url: str) -> str:
    """Open a login page like a browser that agrees at once; return the redirect target."""
    import aiohttp

    async with (
        asyncio.timeout(20),
        aiohttp.ClientSession() as browser,
        browser.get(url, allow_redirects=False) as response,
    ):
        return response.headers["Location"]


def _token(kind: str, number: int) -> str:
    """Return a token as random as a real one, but equal in each run."""
    return f"{kind}-{hashlib.sha256(f'{kind} {number}'.encode()).hexdigest()[:32]}-{number}"
