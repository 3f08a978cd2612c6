"""Server with Kore's models for benchmarks of tool use: tau-bench, tau2, BFCL.

    python evals/adapters/kore_tools_only.py --model anthropic/claude-sonnet-4-5 --port 8377
    OPENAI_BASE_URL=http://127.0.0.1:8377/v1 OPENAI_API_KEY=none tau2 run …

It answers chat completions with `kore.ToolCaller`: the model receives the benchmark's instructions
and tools and nothing from Kore, and the benchmark runs the calls. Only this machine has access.
"""

import argparse
import asyncio
import json
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import kore
from agent.errors import ContextTooLong, RateLimited, Rejected
from agent.providers.base import plain_name
from kore import (
    ConfigError,
    KoreError,
    Message,
    ModelSettings,
    Text,
    ToolCall,
    ToolCaller,
    ToolStep,
)

_BODY_LIMIT_BYTES = 64 * 1024 * 1024
_KEPT = 10_000
# Fields of a request that are passed to the model.
_SETTINGS = ("temperature", "top_p", "seed", "parallel_tool_calls", "reasoning_effort")


class Replies:
    """The newest replies of the model, including thoughts, by the parts that benchmarks quote."""

    def __init__(self) -> None:
        self._messages: OrderedDict[str, Message] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, message: Message) -> None:
        with self._lock:
            self._messages[_key(message)] = message
            while len(self._messages) > _KEPT:
                self._messages.popitem(last=False)

    def find(self, quoted: Message) -> Message:
        with self._lock:
            return self._messages.get(_key(quoted), quoted)


def _key(message: Message) -> str:
    return json.dumps([message.text, *(call.id for call in message.tool_calls)])


async def complete(body: Mapping[str, Any], model: str | None, replies: Replies) -> dict[str, Any]:
    """Return the chat completion. Raise `KoreError`, or `ConfigError` for an invalid request."""
    instructions, messages = _conversation(body.get("messages"), replies)
    tools = [] if body.get("tool_choice") == "none" else body.get("tools") or []
    new = len(messages)
    while new and messages[new - 1].role == "tool":
        new -= 1
    if new == len(messages):
        new -= 1
    if new < 0 or messages[-1].role not in ("user", "tool"):
        raise ConfigError("messages: expected a message of the user or of a tool at the end")
    caller = ToolCaller(
        model,
        tools,
        instructions=instructions,
        model_settings=_settings(body),
        messages=messages[:new],
    )
    async with caller:
        if messages[-1].role == "user":
            step = await caller.ask(messages[-1])
        else:
            step = await caller.answer(
                {str(message.tool_call_id): message.text for message in messages[new:]}
            )
    replies.add(step.message)
    return _completion(step, str(body.get("model") or model))


def _settings(body: Mapping[str, Any]) -> ModelSettings:
    values = {name: body[name] for name in _SETTINGS if body.get(name) is not None}
    choice = body.get("tool_choice")
    if isinstance(choice, Mapping):
        choice = plain_name(str(choice.get("function", choice).get("name")))
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    return ModelSettings(
        max_tokens=limit, tool_choice=None if choice == "none" else choice, **values
    )


def _conversation(quoted: Any, replies: Replies) -> tuple[str, list[Message]]:
    """Return the instructions at the beginning, and the messages that follow."""
    if not isinstance(quoted, list) or not all(isinstance(item, Mapping) for item in quoted):
        raise ConfigError("messages: expected a list of messages")
    instructions: list[str] = []
    messages: list[Message] = []
    for item in quoted:
        role, content = item.get("role"), (Text(_text(item.get("content"))),)
        if role in ("system", "developer") and not messages:
            instructions.append(content[0].text)
        elif role in ("system", "developer", "user"):
            messages.append(Message("user", content))
        elif role == "tool":
            messages.append(Message("tool", content, tool_call_id=str(item.get("tool_call_id"))))
        elif role == "assistant":
            calls = tuple(map(_call, item.get("tool_calls") or ()))
            result = content if content[0].text else ()
            messages.append(replies.find(Message("assistant", result, calls)))
        else:
            raise ConfigError(f"messages: there is no role {role!r}")
    return "\n\n".join(instructions), messages


def _text(content: Any) -> str:
    """Return a text, or the joined texts of a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return "" if content is None else str(content)


def _call(quoted: Mapping[str, Any]) -> ToolCall:
    function = quoted["function"]
    raw = str(function["arguments"])
    try:
        arguments = json.loads(raw)
    except json.JSONDecodeError:
        arguments = None
    is_object = isinstance(arguments, dict)
    name = plain_name(str(function["name"]))
    return ToolCall(str(quoted["id"]), name, arguments if is_object else None, raw)


def _completion(step: ToolStep, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": step.text or None}
    if step.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": call.raw
                    if call.arguments is None
                    else json.dumps(dict(call.arguments), ensure_ascii=False),
                },
            }
            for call in step.calls
        ]
    finish = "length" if step.finish_reason in ("length", "max_tokens") else "stop"
    usage = step.usage
    return {
        "id": f"chatcmpl-{time.time_ns():x}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": "tool_calls" if step.calls else finish,
            }
        ],
        "usage": {
            "prompt_tokens": usage.input,
            "completion_tokens": usage.output,
            "total_tokens": usage.input + usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
        },
    }


def server(port: int, model: str | None) -> ThreadingHTTPServer:
    """Return a server for this machine only that answers each request in a thread."""
    replies = Replies()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            if not self.path.rstrip("/").endswith("/chat/completions"):
                return self._send(404, _error("only /v1/chat/completions is here"))
            if not 0 < length <= _BODY_LIMIT_BYTES:
                return self._send(413, _error("the body has no length, or is too long"))
            try:
                body = json.loads(self.rfile.read(length))
                if body.get("stream"):
                    raise ConfigError("stream: only whole answers are given here")
                return self._send(200, asyncio.run(complete(body, model, replies)))
            except (ValueError, KeyError, TypeError, AttributeError) as exc:
                return self._send(400, _error(f"the request is no chat completion: {exc!r}"))
            except KoreError as exc:
                return self._send(_status(exc), _error(str(exc), exc.code))

        def _send(self, status: int, body: Mapping[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing; the benchmark lists the requests."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def _status(exc: KoreError) -> int:
    if isinstance(exc, RateLimited):
        return 429
    return 400 if isinstance(exc, (ConfigError, Rejected, ContextTooLong)) else 502


def _error(message: str, code: str = "config") -> dict[str, Any]:
    return {"error": {"message": message, "type": "kore", "code": code}}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", help="VENDOR/MODEL (default: the environment's)")
    parser.add_argument("--port", type=int, default=8377, help="0: any that is free")
    arguments = parser.parse_args(words)
    try:
        kore.ToolCaller(arguments.model).models.open()
    except KoreError as exc:
        print(exc, file=sys.stderr)
        return 2
    with server(arguments.port, arguments.model) as listening:
        print(f"http://127.0.0.1:{listening.server_address[1]}/v1", flush=True)
        try:
            listening.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
