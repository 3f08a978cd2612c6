"""Syntax trees from a child process, so that Kore's own process loads no grammar."""

import atexit
import json
import logging
import marshal
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agent.errors import ToolError
from agent.records import frozen
from agent.security.sandbox.seccomp.bpf import PARSER_CALLS, allow_only

log = logging.getLogger(__name__)

_NUMBERS = 6


class SyntaxNode:
    """Node of a syntax tree, with its type, source range and children."""

    __slots__ = (
        "_source", "children", "end_byte", "field", "is_named", "parent_type", "start_byte", "type"
    )  # fmt: skip

    def __init__(self, source: bytes, kind: str, start_byte: int, end_byte: int) -> None:
        self._source, self.type = source, kind
        self.start_byte, self.end_byte = start_byte, end_byte
        self.is_named = False
        self.field: str | None = None
        self.parent_type: str | None = None
        self.children: list[SyntaxNode] = []

    @property
    def text(self) -> bytes:
        return self._source[self.start_byte : self.end_byte]

    def children_by_field_name(self, name: str) -> "list[SyntaxNode]":
        return [child for child in self.children if child.field == name]


@frozen
class SyntaxTree:
    """Syntax tree; `has_error` is true if the source does not match the grammar."""

    root: SyntaxNode
    has_error: bool


def decode_tree(data: Mapping[str, Any], source: bytes) -> SyntaxTree:
    """Return the tree that the parser sent.

    Raises ValueError, LookupError or TypeError for data that does not describe this source.
    """
    names, numbers = data["names"], data["nodes"]
    # From the last node to the first, so that the children of each node are on the stack.
    stack: list[SyntaxNode] = []
    for at in range(len(numbers) - _NUMBERS, -1, -_NUMBERS):
        kind, start, end, is_named, field, count = numbers[at : at + _NUMBERS]
        if not (0 <= start <= end <= len(source) and 0 <= count <= len(stack)):
            raise ValueError("not a tree of this source")
        node = SyntaxNode(source, str(names[kind]), start, end)
        node.is_named, node.field = bool(is_named), names[field]
        if count:
            node.children = stack[: -count - 1 : -1]
            del stack[-count:]
            for child in node.children:
                child.parent_type = node.type
        stack.append(node)
    (root,) = stack
    return SyntaxTree(root, bool(data["has_error"]))


_PROGRAM = Path(__file__).with_name("parser_program.py")
_HEADER_BYTES = 4
_MAX_ANSWER_BYTES = 16_000_000
_CHUNK_BYTES = 65_536
_STOP_TIMEOUT_S = 0.5
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


@frozen
class ParserLimits:
    """Resource limits of the parser process.

    The process exits after `idle_s` without a request. `wait_s` limits the wait for an answer; the
    kernel limits the processor time of each text, so only a suspended process takes that long.
    """

    memory_bytes: int = 512_000_000
    idle_s: float = 300.0
    start_s: float = 20.0
    wait_s: float = 10.0


class ParserProcess:
    """Child process that parses texts, started on first use and restarted after it exits.

    `grammars` maps each language to a package and the function that returns its grammar. Texts are
    parsed one at a time; callers may be in any thread. The process exits with Kore, even if Kore is
    killed, because no other process has the other end of its socket.
    """

    def __init__(
        self, grammars: Mapping[str, tuple[str, str]], limits: ParserLimits | None = None
    ) -> None:
        self._grammars = dict(grammars)
        self._limits = limits or ParserLimits()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._is_busy = False
        self._is_registered = False

    @property
    def pid(self) -> int | None:
        """Process id of the child, or None if it is not running."""
        return self._process.pid if self._process is not None else None

    def parse(self, language: str, text: bytes, cpu_s: float, **parts: Any) -> dict[str, Any]:
        """Parse a text within `cpu_s` seconds of processor time and return the requested parts.

        Raises `ToolError` if the text crashes the process or takes too long, if the grammar is not
        installed, or if no process can be started.
        """
        request = {"language": language, "text": text, "cpu_s": cpu_s, **parts}
        with self._lock:
            answer = self._exchange(request)
            if answer is None:
                # The process exited on its idle timeout just before this request.
                answer = self._exchange(request)
        match answer:
            case None:
                raise ToolError("It could not be parsed: the parser did not start.")
            case {"failure": "grammar"}:
                raise ToolError(
                    f"{language} needs the extra code: pip install 'kore-assistant[code]'"
                )
            case {"failure": _}:
                raise ToolError("It could not be parsed in time.")
        return answer

    def close(self) -> None:
        """Stop the process; the next text starts a new one."""
        if self._lock.acquire(timeout=_STOP_TIMEOUT_S):
            try:
                self._end()
            finally:
                self._lock.release()

    def _exchange(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Send a request and return the answer, or None if the process exited when idle."""
        if self._is_busy or (self._process is not None and self._process.poll() is not None):
            # A late answer must not be taken for the answer to the next request.
            self._end()
        if self._process is None:
            self._start()
        try:
            return self._call(request, self._limits.wait_s)
        except (OSError, ValueError, RecursionError) as exc:
            code = self._end()
            if code == -signal.SIGALRM:
                return None
            log.warning("the parser ended while parsing a text (%s): %s", request["language"], exc)
            is_late = code == -signal.SIGPROF or isinstance(exc, TimeoutError)
            reason = "it took too long" if is_late else "its parser failed"
            raise ToolError(f"It could not be parsed: {reason}.") from exc

    def _start(self) -> None:
        """Start the process and wait until it is confined. Raises `ToolError`."""
        if not self._is_registered:
            self._is_registered = True
            atexit.register(self.close)
            os.register_at_fork(after_in_child=self._forget)
        ours, theirs = socket.socketpair()
        self._socket = ours
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(_PROGRAM)],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.DEVNULL,
                    env=_ENVIRONMENT,
                    cwd="/",
                    start_new_session=True,
                )
            ready = self._call(self._setup(), self._limits.start_s)
        except (OSError, ValueError, RecursionError) as exc:
            self._end()
            raise ToolError(f"The parser could not be started: {exc}") from exc
        if missing := ready.get("missing"):
            log.warning("the parser runs without %s", missing)

    def _setup(self) -> dict[str, Any]:
        packages = ["tree_sitter", *(package for package, _ in self._grammars.values())]
        specs = [find_spec(package) for package in packages]
        folders = [str(Path(spec.origin).parents[1]) for spec in specs if spec and spec.origin]
        return {
            "folders": list(dict.fromkeys(folders)),
            "grammars": self._grammars,
            "filter": allow_only(PARSER_CALLS),
            "memory_bytes": self._limits.memory_bytes,
            "idle_s": self._limits.idle_s,
        }

    def _call(self, request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        """Return the answer. Raises OSError or ValueError if there is no valid answer in time."""
        deadline = time.monotonic() + limit_s
        data = marshal.dumps(dict(request))
        assert self._socket is not None
        self._is_busy = True
        self._socket.settimeout(limit_s)
        self._socket.sendall(len(data).to_bytes(_HEADER_BYTES, "little") + data)
        size = int.from_bytes(self._receive(_HEADER_BYTES, deadline), "little")
        if size > _MAX_ANSWER_BYTES:
            raise ValueError("the answer is too large")
        answer = json.loads(self._receive(size, deadline))
        if not isinstance(answer, dict):
            raise ValueError("the answer has no parts")
        self._is_busy = False
        return answer

    def _receive(self, size: int, deadline: float) -> bytes:
        assert self._socket is not None
        data = bytearray()
        while len(data) < size:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            chunk = self._socket.recv(min(size - len(data), _CHUNK_BYTES))
            if not chunk:
                raise ConnectionError("it ended")
            data += chunk
        return bytes(data)

    def _end(self) -> int | None:
        """Stop the process and return its exit code, or None if there is no process."""
        process, self._process = self._process, None
        if self._socket is not None:
            self._socket.close()
        self._socket, self._is_busy = None, False
        if process is None:
            return None
        try:
            return process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _forget(self) -> None:
        """Forget the process in a fork of Kore, because it belongs to the parent."""
        self._lock = threading.Lock()
        if self._process is not None:
            # Only the parent can wait for it.
            self._process.returncode = 0
        if self._socket is not None:
            self._socket.close()
        self._process, self._socket, self._is_busy = None, None, False
