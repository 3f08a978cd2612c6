"""Revocation of a login's tokens at the server that issued them (RFC 7009)."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx2

from agent.errors import ToolError
from agent.i18n import t
from agent.mcp.http import bounded_client
from agent.mcp.login_addresses import UnsafeAddress, connect_to, judge_address
from agent.mcp.login_file import LoginFile
from agent.records import frozen

_TIMEOUT_S = 10.0


@frozen
class Revocation:
    """Result of a revocation."""

    is_done: bool = False
    failure: str = ""

    @property
    def sentence(self) -> str:
        if self.is_done:
            return t("the server has revoked the tokens")
        if self.failure:
            return t("the server did not revoke the tokens: {reason}", reason=self.failure)
        return t("the server cannot revoke tokens: they end when they expire")


async def end_login(file: LoginFile) -> tuple[bool, Revocation]:
    """Revoke and remove a login. Return whether there was one, and the result of the revocation.

    The login is removed even if the revocation fails.
    """
    # Without the lock, a process that renews the tokens would store them again.
    async with file.lock():
        login = file.read()
        try:
            revocation = Revocation(await revoke(file.url, login))
        except ToolError as exc:
            revocation = Revocation(failure=str(exc))
        # A registration alone does not count as a login; an unreadable file may contain one.
        return file.remove() and bool(login.get("tokens") or not login), revocation


async def revoke(server_url: str, login: Mapping[str, Any]) -> bool:
    """Return whether the tokens were revoked; False without an endpoint or token.

    Raises `ToolError` if the server refuses or cannot be reached.
    """
    metadata, tokens = login.get("metadata") or {}, login.get("tokens") or {}
    address = str(metadata.get("revocation_endpoint") or "")
    # Revoke the refresh token first: many servers then revoke its access tokens as well.
    kinds = [kind for kind in ("refresh_token", "access_token") if tokens.get(kind)]
    if not address or not kinds:
        return False
    try:
        revocation_address = await judge_address(server_url, address)
    except UnsafeAddress:
        raise ToolError("its address for that is not safe to send tokens to") from None
    form, auth = _client_of(login.get("client") or {})
    try:
        async with asyncio.timeout(_TIMEOUT_S), bounded_client(auth=auth) as client:
            for kind in kinds:
                request = client.build_request(
                    "POST",
                    address,
                    data={"token": tokens[kind], "token_type_hint": kind, **form},
                )
                connect_to(request, revocation_address)
                response = await client.send(request, follow_redirects=False)
                if response.status_code != 200:
                    raise ToolError(f"it answered with status {response.status_code}")
    except TimeoutError as exc:
        raise ToolError(f"it did not answer within {_TIMEOUT_S:g} s") from exc
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as exc:
        raise ToolError(f"it cannot be reached ({type(exc).__name__})") from exc
    return True


def _client_of(client: Mapping[str, Any]) -> tuple[dict[str, str], httpx2.BasicAuth | None]:
    """Return the form fields and authentication of the client, as used for the token request."""
    name, secret = str(client.get("client_id") or ""), str(client.get("client_secret") or "")
    if secret and client.get("token_endpoint_auth_method") != "client_secret_post":
        return {}, httpx2.BasicAuth(name, secret)
    return {"client_id": name, **({"client_secret": secret} if secret else {})}, None
