"""Alternative transport based on the openai SDK, which is imported on first use.

The SDK sends the given bytes (`content=`) and returns the raw response, so that body, stream reader
and errors are the same as with aiohttp. Its retries are off; see `retry.py`.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from agent.errors import ProviderError, TimedOut, Unavailable
from agent.i18n import t
from agent.per_loop import PerLoop
from agent.providers.http.transport import Deadlines, Endpoint, HttpResponse, connection_failure
from agent.proxies.outbound import trust_store

if TYPE_CHECKING:
    import httpx2
    import openai


class SdkTransport:
    """Transport with one `openai.AsyncOpenAI` over the SDK's own aiohttp client."""

    def __init__(self, endpoint: Endpoint, deadlines: Deadlines) -> None:
        self._endpoint = endpoint
        self._deadlines = deadlines
        self._clients: PerLoop[openai.AsyncOpenAI] = PerLoop(self._open_client, _close_client)

    @asynccontextmanager
    async def post(self, body: bytes) -> AsyncIterator[HttpResponse]:
        import httpx2
        import openai

        try:
            response = await self._send(body)
        except (openai.APIConnectionError, httpx2.HTTPError) as exc:
            raise self._failure(exc) from exc
        headers = {name.lower(): value for name, value in response.headers.items()}
        try:
            async with aclosing(self._read(response)) as chunks:
                yield HttpResponse(response.status_code, headers, chunks)
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        for client in self._clients.take():
            await client.close()

    async def _send(self, body: bytes) -> "httpx2.Response":
        import httpx2
        import openai

        for client in self._clients.take_closed():
            await client.close()
        # Settings for OpenAI itself from the environment must not reach other vendors.
        omitted = {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
        headers: dict[str, Any] = {"Authorization": openai.Omit(), **omitted}
        try:
            response: Any = await self._clients.get().post(
                self._endpoint.path,
                cast_to=httpx2.Response,
                content=body,
                options={"headers": headers | self._endpoint.headers, "follow_redirects": False},
                stream=True,
                stream_cls=openai.AsyncStream[Any],
            )
        except openai.APIStatusError as exc:
            response = exc.response
        return cast("httpx2.Response", response)

    async def _read(self, response: "httpx2.Response") -> AsyncGenerator[bytes, None]:
        import httpx2

        try:
            async for chunk in response.aiter_bytes():
                yield chunk
        except httpx2.HTTPError as exc:
            raise self._failure(exc) from exc

    def _open_client(self) -> "openai.AsyncOpenAI":
        import httpx2
        import openai

        timeout = httpx2.Timeout(None, connect=self._deadlines.connect_s)
        return openai.AsyncOpenAI(
            api_key=self._endpoint.api_key or "none",
            base_url=self._endpoint.api_base,
            max_retries=0,
            timeout=timeout,
            http_client=openai.DefaultAioHttpClient(
                timeout=timeout,
                trust_env=False,
                verify=trust_store(),
                proxy=self._endpoint.proxy.url if self._endpoint.proxy else None,
            ),
        )

    def _failure(self, exc: BaseException) -> ProviderError:
        """Return the error for the underlying aiohttp error.

        The SDK reports every broken connection as a time-out.
        """
        import aiohttp
        import httpx2

        cause: BaseException | None = exc
        while cause is not None:
            if isinstance(cause, aiohttp.ClientError):
                return connection_failure(cause, self._endpoint)
            if isinstance(cause, httpx2.TimeoutException) and cause.__cause__ is None:
                return TimedOut(
                    t(
                        "{vendor} timed out",
                        vendor=self._endpoint.vendor,
                    )
                )
            cause = cause.__cause__
        return Unavailable(t("the connection to {vendor} was lost", vendor=self._endpoint.vendor))


async def _close_client(client: "openai.AsyncOpenAI") -> None:
    await client.close()
