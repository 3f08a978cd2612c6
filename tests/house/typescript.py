"""Generator of the protocol's TypeScript types, based on the table of calls and the event types.

`make schema` writes them to `protocol.d.mts`, next to the client `protocol.mjs` that they describe.
"""

import inspect
import json
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from agent.types import Message
from gateway.control.calls import Call, call_names, find_call
from gateway.control.protocol import PROTOCOL
from gateway.core.records import SessionEvent, WatchEvent
from tests.house.tree import ROOT

FILE = ROOT / "gateway/server/web/static/app/protocol.d.mts"
_SIMPLE = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
    Path: "string",
    Any: "any",
}
_UNIONS = {WatchEvent: "WatchEvent", SessionEvent: "SessionEvent", Message: "Message"}
_HEAD = """\
// Made by `make schema` from the table of calls (protocol {protocol}); not for changing by hand.

export class CallError extends Error {{
  code: string
  hint: string | null
  constructor(error: {{ code?: string; message?: string; hint?: string | null }})
}}

export type State = "open" | "closed" | "foreign" | "denied"

export interface Key {{
  id: string
  key: CryptoKey
}}

export function keyOf(secret: string): Promise<Key>

// How a person is shown an event, in the client's language: a call, or a line of its own.
export type Block =
  | {{
      kind: "call"
      id: string
      title: [text: string, argument: string][]
      detail: string
      elapsed: string
      diff: string | null
      files: string[]
    }}
  | {{
      kind: "note" | "verdict" | "step"
      style: "plain" | "dim" | "warning" | "error"
      mark: string
      text: string
    }}

export class Connection {{
  constructor(options: {{
    address: string
    token?: string
    key?: () => Promise<Key>
    onState?: (state: State) => void
    blocks?: boolean
  }})
  call<N extends keyof Calls>(name: N, ...args: Arguments<N>): Promise<Calls[N]["result"]>
  until<N extends keyof Calls>(name: N, ...args: Arguments<N>): Promise<Calls[N]["result"]>
  say(
    session: string | null,
    text: string,
    more?: Partial<Calls["send_message"]["arguments"]>,
  ): Promise<string>
  follow<N extends keyof Streams>(
    name: N,
    args: () => Streams[N]["arguments"],
    onItem: (item: Streams[N]["item"], blocks: Block[]) => void,
    onError?: (error: CallError) => void,
    onReady?: () => void,
  ): () => void
  followSession(
    args: Streams["follow_session"]["arguments"],
    onItem: (event: SessionEvent, blocks: Block[]) => void,
    onError?: (error: CallError) => void,
    onReady?: () => void,
  ): () => void
  close(): void
}}

export function newId(): string

// The arguments may be left out where all of them may.
type Arguments<N extends keyof Calls> = {{}} extends Calls[N]["arguments"]
  ? [args?: Calls[N]["arguments"]]
  : [args: Calls[N]["arguments"]]

export interface Message {{
  role: "system" | "user" | "assistant" | "tool"
  content: {{ type: string; text?: string; [field: string]: any }}[]
  tool_calls?: {{ id: string; name: string; arguments: any; [field: string]: any }}[]
  tool_call_id?: string
  is_error?: boolean
  taint?: string[]
}}
"""


def typescript() -> str:
    """Return the text of the file."""
    records: dict[str, str] = {}
    calls, streams = [], []
    for name in call_names():
        call = find_call(name)
        assert call is not None
        (streams if call.shape == "stream" else calls).append(_call(call, records))
    unions = [_union(name, kind, records) for kind, name in _UNIONS.items() if kind is not Message]
    parts = [
        _HEAD.format(protocol=PROTOCOL),
        *unions,
        "export interface Calls {\n" + "".join(calls) + "}\n",
        "export interface Streams {\n" + "".join(streams) + "}\n",
        *(records[name] for name in sorted(records)),
    ]
    return "\n".join(parts)


def _call(call: Call, records: dict[str, str]) -> str:
    parameters = call.signature.parameters
    fields_ = [
        f"{name}{'' if parameters[name].default is inspect.Parameter.empty else '?'}: "
        f"{_type_text(kind, records)}"
        for name, kind in call.arguments.items()
    ]
    result = _type_text(call.result, records)
    if call.shape == "list":
        result = _list(result)
    key = "item" if call.shape == "stream" else "result"
    arguments = f"{{ {'; '.join(fields_)} }}" if fields_ else "{}"
    return f"  // {call.summary}\n  {call.name}: {{ arguments: {arguments}; {key}: {result} }}\n"


def _union(name: str, kind: Any, records: dict[str, str]) -> str:
    members = []
    for cls in get_args(kind):
        member = f"{cls.__name__}Event"
        members.append(member)
        records[member] = _interface(member, cls, records, f"  type: {json.dumps(cls.type)}\n")
    return f"export type {name} =\n" + "".join(f"  | {item}\n" for item in members)


def _interface(name: str, cls: Any, records: dict[str, str], tag: str = "") -> str:
    hints = get_type_hints(cls)
    event_fields = [part for part in fields(cls) if part.metadata.get("in_events", True)]
    lines = []
    for part in event_fields:
        required = part.default is MISSING and part.default_factory is MISSING
        lines.append(
            f"  {part.name}{'' if required else '?'}: {_type_text(hints[part.name], records)}\n"
        )
    return f"export interface {name} {{\n{tag}{''.join(lines)}}}\n"


def _type_text(kind: Any, records: dict[str, str]) -> str:
    """Return the TypeScript form of a type."""
    if kind in _UNIONS:
        return _UNIONS[kind]
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if isinstance(kind, type) and is_dataclass(kind):
        if kind.__name__ not in records:
            records[kind.__name__] = ""
            records[kind.__name__] = _interface(kind.__name__, kind, records)
        return kind.__name__
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " | ".join(json.dumps(part) for part in parts)
    if origin in (Union, types.UnionType):
        return " | ".join(_type_text(part, records) for part in parts)
    if origin in (Sequence, list, frozenset) or (origin is tuple and parts[-1] is ...):
        return _list(_type_text(parts[0], records))
    if origin is tuple:
        return f"[{', '.join(_type_text(part, records) for part in parts)}]"
    if origin in (Mapping, dict):
        return f"{{ [key: string]: {_type_text(parts[1], records)} }}"
    raise TypeError(f"{kind} has no form in TypeScript")


def _list(item: str) -> str:
    return f"({item})[]" if "|" in item else f"{item}[]"


if __name__ == "__main__":
    sys.stdout.write(typescript())
