"""An aiohttp connector over a SOCKS proxy, of the optional package aiohttp-socks."""

from asyncio import Transport
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp_socks import ProxyConnectionError, ProxyConnector, ProxyError, ProxyTimeoutError


class SocksConnector(ProxyConnector):
    """Raises aiohttp's `ClientProxyConnectionError` for every refusal of the proxy."""

    async def _wrap_create_connection(
        self, *args: Any, req: aiohttp.ClientRequest, **kwargs: Any
    ) -> tuple[Transport, ResponseHandler]:
        try:
            connection: tuple[Transport, ResponseHandler] = await super()._wrap_create_connection(
                *args, req=req, **kwargs
            )
        except (ProxyError, ProxyConnectionError, ProxyTimeoutError) as exc:
            error = OSError(str(exc))
            raise aiohttp.ClientProxyConnectionError(req.connection_key, error) from exc
        return connection
