"""Timeouts of the server."""

from agent.records import frozen


@frozen
class ServerTimeouts:
    """Timeouts and intervals of the server, in seconds.

    Attributes:
        idle_s: Time for the head of a request, and between two requests of a connection.
        handshake_s: Time for the TLS handshake.
        code_s: Lifetime of a login code.
        revocation_s: Interval between checks for connections of revoked tokens.
    """

    idle_s: float = 30.0
    handshake_s: float = 10.0
    code_s: float = 300.0
    revocation_s: float = 5.0
