"""Loopback pages for supervisors: `/livez`, `/readyz`, `/healthz` and `/metrics`.

The server writes HTTP/1.0 itself, like the control socket (ADR 0005), because a web framework would
occupy 2 MB while the gateway runs.
"""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any

from agent.errors import ConfigError
from agent.i18n import t
from gateway.control.runtime_status import resident_bytes
from gateway.control.service import Service
from gateway.turns.usage.turn_log import metric_lines

log = logging.getLogger(__name__)

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
_STATES = {"starting", "running", "polling", "webhook", "retrying"}
_JSON = "application/json; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_PHRASES = {
    200: "OK",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}
_HEAD_LIMIT_BYTES = 8_192
_MAX_CONNECTIONS = 32
_REQUEST_TIMEOUT_S = 5.0
# After this time a page reports that the database does not answer.
STATUS_TIMEOUT_S = 3.0
Counts = Callable[[], Mapping[str, float]]
# Status, content type and body.
Page = tuple[int, str, str]
# Returns the page of a path; None for an unknown path.
Pages = Callable[[str], Awaitable[Page | None]]
ALIVE: Page = (200, _TEXT, "ok\n")


class StatusReader:
    """Reader that reads the status once for all requests that arrive meanwhile.

    While the database is unreachable, the reading waits and cannot be cancelled, but requests give
    up after a timeout. Call `close` at the end.
    """

    def __init__(self, service: Service, timeout_s: float) -> None:
        self._service = service
        self._timeout_s = timeout_s
        self._reading: asyncio.Task[Mapping[str, Any]] | None = None

    async def read(self) -> Mapping[str, Any] | None:
        """Return the status; None when it takes too long."""
        if self._reading is None:
            self._reading = asyncio.create_task(_status(self._service), name="status")
        reading = self._reading
        await asyncio.wait({reading}, timeout=self._timeout_s)
        if not reading.done():
            return None
        if self._reading is reading:
            self._reading = None
        return reading.result()

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})


async def _status(service: Service) -> Mapping[str, Any]:
    return await service.status()


@asynccontextmanager
async def gateway_pages(
    service: Service,
    counts: Counts,
    turns: Callable[[], Mapping[str, Any]],
    status_timeout_s: float = STATUS_TIMEOUT_S,
) -> AsyncIterator[Pages]:
    """Return the pages of a gateway.

    `counts` are the monotonic counters and `turns` the counts of turns; the other metrics come from
    `service.status`. A database that does not answer within `status_timeout_s` counts as broken.
    """
    reader = StatusReader(service, status_timeout_s)

    async def answer(path: str) -> Page | None:
        match path:
            case "/livez" | "/readyz":
                return ALIVE
            case "/healthz" | "/healthz?deep":
                status = await reader.read()
                if status is None:
                    return health_page("degraded", ["database"])
                return _health(status, is_deep=path.endswith("?deep"))
            case "/metrics":
                status = await reader.read()
                lines = counter_lines(counts()) if status is None else _lines(status, counts())
                return metrics_page(chain(lines, metric_lines(_turn_logs(status, turns()))))
        return None

    try:
        yield answer
    finally:
        await reader.close()


async def standby_pages(path: str) -> Page | None:
    """Return the pages of a standby gateway, which is ready to take over."""
    match path:
        case "/livez" | "/readyz":
            return ALIVE
        case "/healthz" | "/healthz?deep":
            return health_page("standby", [])
        case "/metrics":
            return metrics_page(gauge_lines({"standby": 1}))
    return None


@asynccontextmanager
async def serve_health(host: str, port: int, pages: Pages) -> AsyncIterator[None]:
    """Serve the pages while the context is open. Raises `ConfigError` for an unusable address."""
    check_host(host)
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(tasks) >= _MAX_CONNECTIONS:
            writer.close()
            return
        # This context is the parent of these tasks and ends them before it ends itself.
        task = asyncio.get_running_loop().create_task(_serve(reader, writer, pages))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    try:
        server = await asyncio.start_server(connected, host, port, limit=_HEAD_LIMIT_BYTES)
    except OSError as exc:
        reason = os.strerror(exc.errno) if exc.errno else str(exc)
        raise ConfigError(
            t(
                "http.port: {host}:{port} cannot be used: {reason}",
                host=host,
                port=port,
                reason=reason,
            ),
            hint=t("Choose another port (KORE_HTTP_PORT), or 0 for any."),
        ) from None
    at = server.sockets[0].getsockname()
    log.info("health and metrics at http://%s:%d", host, at[1])
    try:
        yield
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def check_host(host: str) -> None:
    """Raise `ConfigError` for a host that other machines can reach."""
    if host not in _LOOPBACK:
        raise ConfigError(
            t(
                "http.host: found {host!r}, expected a loopback address such as 127.0.0.1",
                host=host,
            ),
            hint=t("This page has no login; use a reverse proxy to reach it from elsewhere."),
        )


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pages: Pages) -> None:
    """Answer one request."""
    try:
        async with asyncio.timeout(_REQUEST_TIMEOUT_S):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            status, kind, body = await answer(head, pages)
            content = body.encode()
            lines = (
                f"HTTP/1.0 {status} {_PHRASES[status]}",
                f"Content-Type: {kind}",
                f"Content-Length: {len(content)}",
                "Connection: close",
            )
            writer.write("\r\n".join((*lines, "", "")).encode())
            writer.write(b"" if head[0].startswith("HEAD ") else content)
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
        pass  # the caller is gone, or never finished its request
    finally:
        writer.close()


async def answer(head: list[str], pages: Pages) -> Page:
    """Return the page for the head of a request: its lines without the empty last line."""
    method, _, target = head[0].partition(" ")
    if method not in ("GET", "HEAD"):
        return 405, _TEXT, "only GET\n"
    if not _is_own_host(head[1:]):
        return 403, _TEXT, "ask by a loopback address\n"
    path, _, query = target.split(" ")[0].partition("?")
    is_deep = any(part.partition("=")[0] == "deep" for part in query.split("&"))
    page = await pages(f"{path}?deep" if is_deep and path == "/healthz" else path)
    return page or (404, _TEXT, "there are /livez, /readyz, /healthz and /metrics\n")


def health_page(status: str, broken: Sequence[str], **more: Any) -> Page:
    """Return the page of a status; only `ok` is healthy."""
    body = {"status": status, "broken": list(broken), **more}
    return 200 if status == "ok" else 503, _JSON, json.dumps(body)


def metrics_page(lines: Iterator[str]) -> Page:
    return 200, _PROMETHEUS, "\n".join(lines) + "\n"


def counter_lines(counts: Mapping[str, float]) -> Iterator[str]:
    """Yield counters in the text format of prometheus.io/docs/instrumenting/exposition_formats."""
    for name, value in counts.items():
        yield f"# TYPE kore_{name}_total counter"
        yield f"kore_{name}_total {value}"


def gauge_lines(gauges: Mapping[str, float]) -> Iterator[str]:
    for name, value in gauges.items():
        yield f"# TYPE kore_{name} gauge"
        yield f"kore_{name} {value}"


def _health(status: Mapping[str, Any], *, is_deep: bool) -> Page:
    broken = [name for name, facts in status["channels"].items() if facts["state"] not in _STATES]
    if status["obstacle"]:
        broken.append("intake")
    if is_deep and status["failing_model"] is not None:
        broken.append("model")
    undecoded = status["updates_undecoded"]
    more = {"updates_undecoded": undecoded} if undecoded else {}
    return health_page("degraded" if broken else "ok", broken, **more)


def _is_own_host(fields: list[str]) -> bool:
    """Return whether the host is a loopback address, so that web pages cannot read this through a
    host name that points here."""
    hosts = [line.partition(":")[2].strip() for line in fields if line.lower().startswith("host:")]
    if len(hosts) != 1:
        return not hosts
    name = hosts[0].lower()
    if not name.startswith("["):
        return name.partition(":")[0] in _LOOPBACK
    host, bracket, port = name[1:].partition("]")
    return bool(bracket) and host in _LOOPBACK and (not port or port.startswith(":"))


def _lines(status: Mapping[str, Any], counts: Mapping[str, float]) -> Iterator[str]:
    yield from counter_lines(counts)
    gauges = {
        "uptime_seconds": status["uptime_s"],
        "lanes_busy": status["lanes_busy"],
        "messages_waiting": status["messages_waiting"],
        "updates_undecoded": status["updates_undecoded"] or 0,
        "routes_with_mail": status["routes_with_mail"],
        "resident_memory_bytes": resident_bytes(),
    }
    yield from gauge_lines(gauges)
    if status["workers"] is not None:
        yield from _worker_lines(status["workers"])
    yield "# TYPE kore_channel_up gauge"
    for name, facts in status["channels"].items():
        yield f'kore_channel_up{{channel="{name}"}} {int(facts["state"] in ("polling", "webhook"))}'


def _turn_logs(
    status: Mapping[str, Any] | None, own: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """Return the counts of turns of this process and its workers, by their label."""
    workers = status["workers"]["alive"] if status is not None and status["workers"] else ()
    of_workers = {
        f'worker="{worker["number"]}"': worker["log"]
        for worker in workers
        if worker["log"] is not None
    }
    return {"": own, **of_workers}


def _worker_lines(workers: Mapping[str, Any]) -> Iterator[str]:
    alive = workers["alive"]
    yield from counter_lines(
        {"workers_reaped": workers["reaped"], "hints_dropped": workers["hints_dropped"]}
    )
    yield from gauge_lines(
        {
            "workers_alive": len(alive),
            "workers_turns_running": sum(worker["turns"] or 0 for worker in alive),
            "workers_room": sum(worker["room"] or 0 for worker in alive),
            "lanes_waiting": workers["lanes_waiting"],
            "oldest_waiting_seconds": round(workers["oldest_waiting_s"], 3),
        }
    )
    yield "# TYPE kore_worker_last_beat_seconds gauge"
    for worker in alive:
        yield f'kore_worker_last_beat_seconds{{worker="{worker["number"]}"}} {worker["seen_s"]}'
