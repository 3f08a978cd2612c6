"""Routes of access tokens with a role.

Each such token counts as a separate person with separate conversations.
"""

from gateway.core.messages import Route

# The channel's name; the principal of the token NAME is `api:NAME`.
API = "api"
ACCOUNT = "local"

# Limit of waiting and running messages per token, to leave room for all others.
MAX_UNFINISHED = 16


def token_route(token: str, conversation: str) -> Route:
    """Return the route of a token's conversation: its private chat, and a thread in it."""
    return Route(API, ACCOUNT, token, conversation)


def token_principal(token: str) -> str:
    return f"{API}:{token}"


def token_of_lane(lane: str) -> str | None:
    """Return the token that a lane belongs to; None for a lane of another channel."""
    channel, _, rest = lane.partition(":")
    return rest.split(":")[1] if channel == API else None
