"""aiohttp application: guard, calls, connections and login."""

from aiohttp import web
from aiohttp.typedefs import Handler

from agent.errors import KoreError
from agent.serialization import dumps
from agent.version import VERSION
from gateway.control.protocol import PROTOCOL, REQUEST_LIMIT_BYTES
from gateway.control.service import Service
from gateway.server.budgets import TokenBudgets
from gateway.server.call_routes import add_call_routes, set_language
from gateway.server.connection_ranks import ConnectionRanks
from gateway.server.guard import Guard, is_openai_path, refusal
from gateway.server.handshake import KeyHandshake
from gateway.server.host_names import HostNames
from gateway.server.login import Login
from gateway.server.openai_api.errors import error_body, error_response, unknown_path, with_status
from gateway.server.openai_api.routes import add_openai_routes
from gateway.server.revocation import RevocationWatch
from gateway.server.timeouts import ServerTimeouts
from gateway.server.tokens import TokenFile
from gateway.server.web.pages import add_web_routes
from gateway.server.websocket import Connections

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


def build_application(
    service: Service,
    tokens: TokenFile,
    hosts: HostNames,
    ranks: ConnectionRanks,
    timeouts: ServerTimeouts,
) -> web.Application:
    """Return the application.

    `hosts` are the names by which the server is reached. `ranks` is notified of the owner of each
    connection.
    """
    budgets = TokenBudgets()
    guard = Guard(tokens, hosts, ranks, budgets)
    handshake = KeyHandshake(guard, hosts)
    app = web.Application(
        client_max_size=REQUEST_LIMIT_BYTES,
        middlewares=[guard.middleware(_refusal_at), _name_paths],
    )
    app.router.add_get("/v1/hello", _hello)
    add_call_routes(app, service, budgets)
    revocations = RevocationWatch(tokens, timeouts.revocation_s)
    revocations.add_to(app)
    add_openai_routes(app, service, revocations)
    Connections(service, tokens, guard, handshake, revocations, budgets).add_to(app)
    Login(tokens, handshake, timeouts.code_s).add_to(app)
    add_web_routes(app)
    app.on_response_prepare.append(_add_headers)
    return app


def _refusal_at(path: str, status: int, error: KoreError) -> web.Response:
    """Return the refusal in the format that clients of this path expect."""
    response = refusal(status, error)
    if is_openai_path(path):
        response.text = dumps(error_body(with_status(error, status)))
    return response


@web.middleware
async def _name_paths(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer requests for unknown paths below `/v1/` with JSON, like every other error."""
    try:
        return await handler(request)
    except (web.HTTPNotFound, web.HTTPMethodNotAllowed) as exc:
        if not request.path.startswith("/v1/"):
            raise
        set_language(request)
        response = error_response(unknown_path(request.method, request.path))
        response.set_status(exc.status)
        if isinstance(exc, web.HTTPMethodNotAllowed):
            response.headers["Allow"] = exc.headers["Allow"]
        return response


async def _hello(_: web.Request) -> web.Response:
    return web.json_response({"protocol": PROTOCOL, "version": VERSION})


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    if "Content-Security-Policy" not in response.headers:
        response.headers["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'"
    response.headers.setdefault("Cache-Control", "no-store")
