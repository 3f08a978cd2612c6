"""WebSockets on which both sides prove that they know a key (`agent/security/key_proof.py`).

The server proves it first, so a page or client reveals nothing useful to another program that now
listens at the address.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from aiohttp import WSMsgType, web

from agent.errors import KoreError, PolicyDenied
from agent.i18n import t
from agent.security.key_proof import SUBPROTOCOL, KeyClaim, KeyProof, new_proof
from agent.serialization import dumps
from gateway.control.protocol import error_to_json
from gateway.server.call_routes import json_object, set_language
from gateway.server.guard import LOGIN_PATH, Guard, TooManyTries, local_address
from gateway.server.host_names import HostNames, with_port

# Kore's own close code: the key or the address was rejected.
DENIED = 4401
_PROOF_TIMEOUT_S = 10.0
_HEARTBEAT_INTERVAL_S = 30.0
_FIRST_FRAME_LIMIT_BYTES = 1024

Holder = TypeVar("Holder")


class KeyHandshake:
    """Handshake for connections of clients that prove a key."""

    def __init__(self, guard: Guard, hosts: HostNames) -> None:
        self._guard = guard
        self._hosts = hosts

    async def open(
        self,
        request: web.Request,
        find: Callable[[str], tuple[bytes, Holder] | None],
        size_limit: Callable[[Holder], int] = lambda _: _FIRST_FRAME_LIMIT_BYTES,
    ) -> tuple[web.WebSocketResponse, tuple[KeyProof, Holder] | None]:
        """Open the connection; return it with its proofs and the holder of the key.

        The latter are None if the connection was refused and closed. `find` looks up a key by its
        id.
        """
        set_language(request)
        claim = KeyClaim.parse(request.headers.get("Sec-WebSocket-Protocol", ""))
        if claim is None:
            words = t("a token is needed, in the header Authorization: Bearer TOKEN")
            raise web.HTTPUnauthorized(text=f"{words}\n")
        try:
            key, holder = self._find(request, claim, find)
        except KoreError as exc:
            socket = new_socket(_FIRST_FRAME_LIMIT_BYTES)
            await socket.prepare(request)
            await refuse(socket, exc)
            return socket, None
        socket = new_socket(size_limit(holder))
        await socket.prepare(request)
        proof = new_proof(key, request.headers["Host"], claim)
        await socket.send_str(dumps(proof.opening()))
        # A limit per key would let anyone who knows its public id lock the owner out. Instead, the
        # oldest unproven connection makes room (`connection_ranks.py`).
        if not await _is_proven(socket, proof):
            self._guard.count_failure(request.remote or "")
            await socket.close(code=DENIED, message=b"wrong proof")
            return socket, None
        return socket, (proof, holder)

    def _find(
        self,
        request: web.Request,
        claim: KeyClaim,
        find: Callable[[str], tuple[bytes, Holder] | None],
    ) -> tuple[bytes, Holder]:
        """Return the key and its holder. Raises `KoreError`."""
        address, host = request.remote or "", request.headers.get("Host", "")
        entry = find(claim.id)
        if entry is None:
            self._guard.check_failures(address)
            self._guard.count_failure(address)
            if request.path == LOGIN_PATH:
                raise PolicyDenied(
                    t("This link or token is wrong, was used before, or has expired."),
                    hint=t("`kore web` makes a new link."),
                )
            raise PolicyDenied(
                t("this token is wrong, was revoked, or has expired"),
                hint=t("make one: kore token add NAME"),
            )
        local = local_address(request)
        if not self._hosts.leads_here(host, request.scheme, local):
            raise PolicyDenied(
                t(
                    "this server listens at {address}, and was asked for at {host}",
                    address=with_port(*local),
                    host=host,
                ),
                hint=t(
                    "ask for that address, or add the one of your tunnel or proxy to server.hosts"
                ),
            )
        return entry


def new_socket(limit: int) -> web.WebSocketResponse:
    """Return a WebSocket response that accepts frames up to this size in bytes."""
    return web.WebSocketResponse(
        heartbeat=_HEARTBEAT_INTERVAL_S,
        max_msg_size=limit,
        compress=False,
        protocols=(SUBPROTOCOL,),
    )


async def refuse(socket: web.WebSocketResponse, error: KoreError) -> None:
    """Send the error and close the connection."""
    await socket.send_str(dumps({"error": error_to_json(error)}))
    code = 1013 if isinstance(error, TooManyTries) else DENIED
    await socket.close(code=code, message=b"refused")


async def _is_proven(socket: web.WebSocketResponse, proof: KeyProof) -> bool:
    try:
        async with asyncio.timeout(_PROOF_TIMEOUT_S):
            message = await socket.receive()
    except TimeoutError:
        return False
    if message.type is not WSMsgType.TEXT or len(message.data) > _FIRST_FRAME_LIMIT_BYTES:
        return False
    try:
        return proof.is_proven_by(json_object(message.data))
    except KoreError:
        return False
