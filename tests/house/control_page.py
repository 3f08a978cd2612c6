"""Generator of the page about control calls, based on the table of calls.

`make schema` writes it to docs/control-socket.md.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from gateway.control.calls import Call, call_names, find_call
from gateway.core.records import SessionEvent, WatchEvent

_HEAD = """# Control socket

This page is for contributors: it lists the calls by which `kore` commands talk to the process that
owns the data, on the socket `kore.sock` in the data folder. The socket is internal: client and
server have the same version, and a client refuses another one. Only the same user or root can
connect.

```sh
curl --unix-socket ~/.kore/kore.sock -d '{"limit": 1}' http://kore/list_sessions
```

Each call is one decorated function in `gateway/calls`. The typed methods in
`gateway/control/service.py` are generated from these functions (`make schema`); the client, the
server, the check of arguments, the scopes of tokens and this page are derived from them.
`gateway/control/protocol.py` describes the wire format: a call returns one value, a list (`[]`, a
line for each item) or a stream of events (`…`).

A *lane* is the queue of one chat, such as `telegram:bot:7` or `cli:local:main`; it runs one turn at
a time. A *principal* is a person, such as `telegram:7`. The [glossary](glossary.md) has the other
terms.

| call | arguments | result | what it does |
|---|---|---|---|
"""


def control_page() -> str:
    """Return the text of the page."""
    calls = [call for name in call_names() if (call := find_call(name)) is not None]
    return _HEAD + "".join(f"{_row(call)}\n" for call in calls)


def _row(call: Call) -> str:
    arguments = ", ".join(f"{name}: {_name(kind)}" for name, kind in call.arguments.items())
    result = _name(call.result) + {"value": "", "list": "[]", "stream": " …"}[call.shape]
    cells = [f"`{call.name}`", f"`{arguments}`" if arguments else "", f"`{result}`", call.summary]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _name(kind: Any) -> str:
    """Return a type as the page shows it."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind == WatchEvent:
        return "WatchEvent"
    if kind == SessionEvent:
        return "SessionEvent"
    if kind is type(None):
        return "null"
    if origin is None:
        return str(getattr(kind, "__name__", kind))
    if origin is Mapping:
        return "object"
    if origin is Sequence or (origin is tuple and parts[-1] is ...):
        return f"{_name(parts[0])}[]"
    return " | ".join(map(str, parts) if origin is Literal else map(_name, parts))


if __name__ == "__main__":
    print(control_page(), end="")
