"""Host names in a normal form for comparison."""

import re
from collections.abc import Iterable
from ipaddress import ip_address

from agent.security.policy.roles import in_hosts

_LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NAME_CHARS = 253


def host_name(text: str) -> str:
    """Return a name as in DNS (IDNA, lower case, no last dot), or an address in its short form.

    `*.example.org` covers all names below a domain. Raises ValueError for anything else, such as an
    address in another spelling.
    """
    below, name = ("*.", text[2:]) if text.startswith("*.") else ("", text)
    if ":" in name or name.replace(".", "").isdigit():
        if below:
            raise ValueError("an address has nothing below it")
        return str(ip_address(name.removeprefix("[").removesuffix("]")))
    plain = name.encode("idna").decode().lower().removesuffix(".")
    last = plain.rpartition(".")[2]
    # A resolver would read it as the number of an address: 0x7f.1
    if not _NAME.fullmatch(plain) or len(plain) > _NAME_CHARS or re.match(r"\d|0x", last):
        raise ValueError("no name of a machine")
    return below + plain


def shared_hosts(mine: Iterable[str], theirs: Iterable[str]) -> tuple[str, ...]:
    """Return the names that both lists allow; an invalid name allows nothing."""
    one, other = _normalize_hosts(mine), _normalize_hosts(theirs)
    return tuple(
        dict.fromkeys(
            [
                *(name for name in one if in_hosts(name, other)),
                *(name for name in other if in_hosts(name, one)),
            ]
        )
    )


def _normalize_hosts(names: Iterable[str]) -> tuple[str, ...]:
    hosts = []
    for name in names:
        try:
            hosts.append(name if name == "*" else host_name(name))
        except ValueError:
            continue
    return tuple(hosts)
