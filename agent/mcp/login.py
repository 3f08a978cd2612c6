"""OAuth login to an MCP server over HTTP.

It uses the SDK's flow, asks a person only through a dialog, and continues after a restart with the
stored tokens.
"""

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

# The SDK logs a traceback for every required login; the caller reports failures itself.
logging.getLogger("mcp.client.auth.oauth2").setLevel(logging.CRITICAL)


class ServerLogin(OAuthClientProvider):
    """Authentication that adds a token to each request.

    With a dialog, it starts a new login. Without a dialog, `failure` explains what a person has to
    do.
    """

    def __init__(self, server: McpServerSettings, file: LoginFile, options: LoginOptions) -> None:
        assert server.url is not None
        self.failure = ""
        self._server = server
        self._file = file
        self._dialog = dialog = options.dialog
        self._stamp: tuple[int, int] | None = None
        redirect_uri = dialog.redirect_uri if dialog is not None else "http://127.0.0.1/callback"
        # True while the lock of the file is held for a renewal.
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
        """Load the stored login, including the token endpoint and the expiry time."""
        self._stamp = self._file.stamp()
        record = self._file.read()
        context = self.context
        try:
            context.client_info = _model(OAuthClientInformationFull, record.get("client"))
            context.current_tokens = _model(OAuthToken, record.get("tokens"))
            context.oauth_metadata = _model(OAuthMetadata, record.get("metadata"))
            resource = _model(ProtectedResourceMetadata, record.get("resource"))
        except ValidationError:
            # Written by another version of the SDK: treat it as no login.
            context.client_info = context.current_tokens = context.oauth_metadata = None
            resource = None
        context.protected_resource_metadata = resource
        context.auth_server_url = record.get("issuer")
        context.token_expiry_time = record.get("expires_at_s")
        if self._dialog is not None:
            context.clear_tokens()
            uris = [] if context.client_info is None else context.client_info.redirect_uris or []
            if self._dialog.redirect_uri not in map(str, uris):
                # The client was registered with another redirect URI.
                context.client_info = None
        if self._registration is not None:
            context.client_info = self._registration
        self._initialized = True

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self._stamp != self._file.stamp():
            # Another process has logged in or out or renewed the token.
            self._initialized = False
        if not self._initialized:
            await self._initialize()
        if self._dialog is None and self.context.current_tokens is None:
            response = yield request
            if response.status_code == 401:
                self._refuse()
            return
        # A rejected token is renewed once, by this or another process.
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
                        # The token expired while the request waited for the renewal of another
                        # call.
                        continue
                    while True:
                        connect_to(step, await self._judge(str(step.url)))
                        response = yield step
                        is_refused = step is request and response.status_code == 401
                        if is_refused and not is_last and self._can_renew():
                            # Another call may have renewed the token in the meantime.
                            header = request.headers.get("Authorization", "")
                            refused, is_last = header.removeprefix("Bearer "), True
                            break
                        step = await flow.asend(response)
                    continue
            self.failure = ""
            return

    def _must_renew(self, refused: str) -> bool:
        """Return whether the token has expired or is the rejected one, and can be renewed."""
        tokens = self.context.current_tokens
        is_refused = tokens is not None and tokens.access_token == refused
        return (is_refused or not self.context.is_token_valid()) and self._can_renew()

    async def _renew(self, refused: str) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Renew the token, unless another process has already done so."""
        try:
            async with self._file.lock():
                await self._initialize()
                if not self._must_renew(refused):
                    return
                step = await self._refresh_token()
                connect_to(step, await self._judge(str(step.url)))
                await self._store_renewed((yield step))
        except ToolError as exc:
            self.failure = str(exc)
            raise OAuthFlowError(self.failure) from None

    async def _store_renewed(self, response: httpx2.Response) -> None:
        self._is_renewing = True
        try:
            if not await self._handle_refresh_response(response):
                # The failure may be temporary: the next request reads the file again.
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
        """Return whether the token can be renewed without a new login."""
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
        values = {name: items[0] for name, items in query.items()}
        if "code" not in values:
            reason = values.get("error_description") or values.get("error") or "no code came back"
            raise OAuthFlowError(f"the login was refused: {reason}")
        return AuthorizationCodeResult(
            code=values["code"], state=values.get("state"), iss=values.get("iss")
        )

    def _refuse(self) -> None:
        name = self._server.name
        self.failure = (
            f"It requires a login: `kore mcp login {name}`, or `/mcp login {name}` in a chat."
            if self._server.is_configured
            else "It requires a login, which only a configured server can have: add it to Kore "
            f"with `kore mcp add {name} URL`, then `kore mcp login {name}`."
        )
        raise OAuthFlowError(self.failure)

    async def _save(self) -> None:
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
    """The SDK's storage port; a change of any part stores the whole login."""

    def __init__(self, login: ServerLogin) -> None:
        self._login = login

    async def get_tokens(self) -> OAuthToken | None:
        return self._login.context.current_tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._login.context.current_tokens = tokens
        await self._login._save()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._login.context.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._login.context.client_info = client_info
        await self._login._save()


def _plain(model: Any) -> Any:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


def _model(kind: Any, value: Any) -> Any:
    return None if value is None else kind.model_validate(value)
