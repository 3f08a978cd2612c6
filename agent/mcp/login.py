"""Logging in to an MCP server over HTTP with OAuth: the SDK's flow, which asks a person only when
one is there, and goes on after a restart with the tokens that are stored."""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, ValidationError

from agent.errors import ToolError
from agent.mcp.login_addresses import UnsafeAddress, connect_to, judge_address
from agent.mcp.login_file import LoginFile, LoginOptions
from agent.mcp.settings import McpServerSettings
from agent.security.network.urls import Address

# The SDK writes a traceback for every login that is needed; what fails is reported by its caller.
logging.getLogger("mcp.client.auth.oauth2").setLevel(logging.CRITICAL)


class ServerLogin(OAuthClientProvider):
    """What adds a token to each request. With a dialog it begins a new login, without one nobody
    is asked: `failure` then says what a person has to do."""

    def __init__(self, server: McpServerSettings, file: LoginFile, options: LoginOptions) -> None:
        assert server.url is not None
        self.failure = ""
        self._server = server
        self._file = file
        self._dialog = dialog = options.dialog
        self._stamp: tuple[int, int] | None = None
        redirect_uri = dialog.redirect_uri if dialog is not None else "http://127.0.0.1/callback"
        # It holds the lock of its file.
        self._is_renewing = False
        self._registration: OAuthClientInformationFull | None = None
        is_document = options.client_id.startswith("https://")
        if options.client_id and not is_document:
            secret = options.client_secret
            self._registration = OAuthClientInformationFull(
                client_id=options.client_id,
                client_secret=secret or None,
                redirect_uris=[AnyUrl(redirect_uri)],
                token_endpoint_auth_method="client_secret_basic" if secret else "none",
            )
        super().__init__(
            server.url,
            OAuthClientMetadata(
                client_name="Kore",
                redirect_uris=[AnyUrl(redirect_uri)],
                grant_types=["authorization_code", "refresh_token"],
                response_types=["code"],
            ),
            _Storage(self),
            self._ask,
            self._answer,
            client_metadata_url=options.client_id if is_document else None,
        )

    async def _initialize(self) -> None:
        """Take what is stored: with it also where tokens are renewed, and until when one holds."""
        self._stamp = self._file.stamp()
        record = self._file.read()
        context = self.context
        try:
            context.client_info = _model(OAuthClientInformationFull, record.get("client"))
            context.current_tokens = _model(OAuthToken, record.get("tokens"))
            context.oauth_metadata = _model(OAuthMetadata, record.get("metadata"))
            resource = _model(ProtectedResourceMetadata, record.get("resource"))
        except ValidationError:
            # Of another version of the SDK: as if nobody had logged in.
            context.client_info = context.current_tokens = context.oauth_metadata = None
            resource = None
        context.protected_resource_metadata = resource
        context.auth_server_url = record.get("issuer")
        context.token_expiry_time = record.get("expires_at_s")
        if self._dialog is not None:
            context.clear_tokens()
            uris = [] if context.client_info is None else context.client_info.redirect_uris or []
            if self._dialog.redirect_uri not in map(str, uris):
                # It was registered for another way back.
                context.client_info = None
        if self._registration is not None:
            context.client_info = self._registration
        self._initialized = True

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self._stamp != self._file.stamp():
            # Somebody has logged in or out, or another process has renewed the token.
            self._initialized = False
        if not self._initialized:
            await self._initialize()
        if self._dialog is None and self.context.current_tokens is None:
            response = yield request
            if response.status_code == 401:
                self._refuse()
            return
        # A token that the server no longer takes is renewed once, by this process or another.
        refused, is_last = "", False
        while True:
            if is_renewed := self._must_renew(refused):
                async with aclosing(self._renew(refused)) as renewal:
                    with suppress(StopAsyncIteration):
                        step = await anext(renewal)
                        while True:
                            step = await renewal.asend((yield step))
            async with aclosing(super()._auth_flow(request)) as flow:
                with suppress(StopAsyncIteration):
                    step = await anext(flow)
                    if step is not request and self._dialog is None and not is_renewed:
                        # The token has expired while the request waited for another.
                        continue
                    while True:
                        connect_to(step, await self._judge(str(step.url)))
                        response = yield step
                        is_refused = step is request and response.status_code == 401
                        if is_refused and not is_last and self._can_renew():
                            # By now another call may have renewed the one that is known here.
                            header = request.headers.get("Authorization", "")
                            refused, is_last = header.removeprefix("Bearer "), True
                            break
                        step = await flow.asend(response)
                    continue
            self.failure = ""
            return

    def _must_renew(self, refused: str) -> bool:
        """Whether the token has expired, or is the one that the server refused."""
        tokens = self.context.current_tokens
        is_refused = tokens is not None and tokens.access_token == refused
        return (is_refused or not self.context.is_token_valid()) and self._can_renew()

    async def _renew(self, refused: str) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Renew the token, unless another process has done so meanwhile."""
        try:
            async with self._file.lock():
                await self._initialize()
                if not self._must_renew(refused):
                    return
                step = await self._refresh_token()
                connect_to(step, await self._judge(str(step.url)))
                await self._take_renewed((yield step))
        except ToolError as exc:
            self.failure = str(exc)
            raise OAuthFlowError(self.failure) from None

    async def _take_renewed(self, response: httpx2.Response) -> None:
        self._is_renewing = True
        try:
            if not await self._handle_refresh_response(response):
                # Perhaps for a moment: the next request reads what is stored again.
                self._stamp = None
        finally:
            self._is_renewing = False

    async def _judge(self, address: str) -> Address | None:
        try:
            return await judge_address(self._server.url or "", address)
        except UnsafeAddress:
            url = urlsplit(address)
            self.failure = f"Its login leads to {url.scheme}://{url.hostname}."
            raise OAuthFlowError(self.failure) from None

    def _can_renew(self) -> bool:
        """Whether there is another way than a new login."""
        return self._dialog is None and self.context.can_refresh_token()

    async def _ask(self, url: str) -> None:
        if self._dialog is None:
            self._refuse()
            return
        await self._judge(url)
        await self._dialog.show(url)

    async def _answer(self) -> AuthorizationCodeResult:
        assert self._dialog is not None
        query = parse_qs(urlsplit(await self._dialog.answer()).query)
        values = {name: each[0] for name, each in query.items()}
        if "code" not in values:
            reason = values.get("error_description") or values.get("error") or "no code came back"
            raise OAuthFlowError(f"the login was refused: {reason}")
        return AuthorizationCodeResult(
            code=values["code"], state=values.get("state"), iss=values.get("iss")
        )

    def _refuse(self) -> None:
        name = self._server.name
        self.failure = (
            f"It wants a login: `kore mcp login {name}`, or `/mcp login {name}` in a chat."
            if self._server.is_configured
            else "It wants a login, which only a configured server can have: add it to Kore with "
            f"`kore mcp add {name} URL`, then `kore mcp login {name}`."
        )
        raise OAuthFlowError(self.failure)

    async def _keep(self) -> None:
        if self._is_renewing:
            self._write()
            return
        async with self._file.lock():
            self._write()

    def _write(self) -> None:
        context = self.context
        record: dict[str, Any] = {
            "client": _plain(context.client_info),
            "tokens": _plain(context.current_tokens),
            "metadata": _plain(context.oauth_metadata),
            "resource": _plain(context.protected_resource_metadata),
            "issuer": context.auth_server_url,
            "expires_at_s": context.token_expiry_time,
        }
        self._file.write(record)
        self._stamp = self._file.stamp()


class _Storage:
    """The SDK's port: everything is kept together, whenever a part of it changes."""

    def __init__(self, login: ServerLogin) -> None:
        self._login = login

    async def get_tokens(self) -> OAuthToken | None:
        return self._login.context.current_tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._login.context.current_tokens = tokens
        await self._login._keep()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._login.context.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._login.context.client_info = client_info
        await self._login._keep()


def _plain(model: Any) -> Any:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


def _model(kind: Any, value: Any) -> Any:
    return None if value is None else kind.model_validate(value)
