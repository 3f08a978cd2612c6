"""Hosts that a model requests for a command, which a person is asked about."""

from collections.abc import Sequence
from ipaddress import ip_address

from agent.errors import ToolError

_MOST_HOSTS = 8


def wanted_hosts(words: Sequence[str], limit: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the names in their canonical form; `limit` is the role's.

    Raises `ToolError`.
    """
    from agent.security.network.urls import host_name
    from agent.security.policy.roles import in_hosts

    if len(words) > _MOST_HOSTS:
        raise ToolError(f"network lists {len(words)} hosts; the limit is {_MOST_HOSTS}.")
    hosts = []
    for word in words:
        try:
            host = host_name(word)
        except (ValueError, UnicodeError) as exc:
            raise ToolError(
                f"network takes host names such as example.org, found {word[:60]!r}."
            ) from exc
        if host.startswith("*"):
            # `*.com` is nearly everything; only settings name machines by a pattern.
            raise ToolError(f"network takes full host names: list each host of {host}.")
        if _is_own(host):
            raise ToolError(f"{host} is the command's own network; leave it out of network.")
        if limit is not None and not in_hosts(host, limit):
            raise ToolError(f"The role does not let commands reach {host}.")
        hosts.append(host)
    return tuple(dict.fromkeys(hosts))


def _is_own(host: str) -> bool:
    """Return whether the host is in the command's own network, which needs no question."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
