"""aiohttp connector over a SOCKS proxy, based on the optional package aiohttp-socks."""

from asyncio import Transport
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp_socks import ProxyConnectionError, ProxyConnector, ProxyError, ProxyTimeoutError


class SocksConnector(ProxyConnector):
    """Connector that raises aiohttp's `ClientProxyConnectionError` if no connection is made.

    In this case nothing was sent, regardless of the reason.
    """

    async def _wrap_create_connection(
        self, *args: Any, req: aiohttp.ClientRequest, **kwargs: Any
    ) -> tuple[Transport, ResponseHandler]:
        try:
            connection: tuple[Transport, ResponseHandler] = await super()._wrap_create_connection(
                *args, req=req, **kwargs
            )
        # A proxy that closes the connection without a reply, such as `ssh -D`, causes an EOFError.
        except (ProxyError, ProxyConnectionError, ProxyTimeoutError, OSError, EOFError) as exc:
            error = OSError(str(exc))
            raise aiohttp.ClientProxyConnectionError(req.connection_key, error) from exc
        return connection
