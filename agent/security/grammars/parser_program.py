"""Program that parses untrusted texts with tree-sitter, confined before it reads the first text.

Run as a file with `python -I -S`; it imports nothing from Kore. A frame on standard input or output
is four bytes of length and the content: `marshal` from Kore, JSON to Kore. The first frame is the
setup, every further frame a request (see `parser_process`).
"""

import ctypes
import json
import marshal
import os
import resource
import sys

# `signal` takes a millisecond to import.
from _signal import ITIMER_PROF, ITIMER_REAL, setitimer  # type: ignore[import-not-found]
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from time import thread_time
from typing import Any

HEADER_BYTES = 4
_CHUNK_BYTES = 65_536
_MAX_DESCRIPTORS = 65_536
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _MODE_FILTER = 38, 22, 2  # prctl(2)


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def main() -> None:
    """Answer requests until the input ends or stays silent for a while."""
    os.closerange(3, _MAX_DESCRIPTORS)
    setup = _receive()
    sys.path += setup["folders"]
    grammars = _Grammars(setup["grammars"])
    _send({"missing": _confine(setup)})
    while True:
        # Neither signal has a handler: the kernel ends the process when a timer runs out.
        setitimer(ITIMER_REAL, setup["idle_s"])
        request = _receive()
        setitimer(ITIMER_REAL, 0)
        setitimer(ITIMER_PROF, request["cpu_s"])
        answer = grammars.answer(request)
        setitimer(ITIMER_PROF, 0)
        _send(answer)


class _Grammars:
    """Parsers of the languages whose grammars are installed."""

    def __init__(self, grammars: Mapping[str, tuple[str, str]]) -> None:
        import tree_sitter

        self._tree_sitter = tree_sitter
        self._languages: dict[str, Any] = {}
        for name, (package, function) in grammars.items():
            try:
                module = import_module(package)
            except ImportError:
                continue
            self._languages[name] = tree_sitter.Language(getattr(module, function)())
        self._parsers = {
            name: tree_sitter.Parser(language) for name, language in self._languages.items()
        }
        self._queries: dict[tuple[str, str], Any] = {}

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Parse a text and return the requested parts."""
        began = thread_time()
        language = request["language"]
        if language not in self._languages:
            return {"failure": "grammar"}
        tree = self._parse(request, began)
        answer: dict[str, Any] = {} if tree is not None else {"failure": "unfinished"}
        if tree is not None and request.get("tree"):
            answer["tree"] = _flat_tree(tree)
        if tree is not None and (source := request.get("definitions")):
            answer["definitions"] = self._definitions(language, source, tree)
        if tree is not None and (source := request.get("names")):
            answer["names"] = self._names(language, source, tree, request["max_names"])
        if tree is not None and (limit := request.get("max_faults")):
            answer["faults"] = _faults(tree, limit)
        answer["seconds"] = thread_time() - began
        return answer

    def _parse(self, request: Mapping[str, Any], began: float) -> Any:
        """Return the tree, or None if parsing was aborted."""
        text, parser = request["text"], self._parsers[request["language"]]
        limit_s = request.get("limit_s")
        if limit_s is None:
            return parser.parse(text)
        is_strict = request.get("is_strict", False)

        def read(offset: int, _: object) -> Any:
            return text[offset : offset + _CHUNK_BYTES]

        def give_up(_: int, has_error: bool) -> bool:
            return (is_strict and has_error) or thread_time() - began > limit_s

        try:
            return parser.parse(read, progress_callback=give_up)
        except ValueError:
            parser.reset()
            return None

    def _query(self, language: str, source: str) -> Any:
        query = self._queries.get((language, source))
        if query is None:
            query = self._tree_sitter.Query(self._languages[language], source)
            self._queries[language, source] = query
        return self._tree_sitter.QueryCursor(query)

    def _definitions(self, language: str, source: str, tree: Any) -> list[list[Any]]:
        """Return the definitions in order of position: kind, first byte, end byte, first row, end
        row and column, and first byte, end byte and row of the name. Of several matches at the same
        position, the first counts.
        """
        spans: dict[tuple[int, int], list[Any]] = {}
        for _, captures in self._query(language, source).matches(tree.root_node):
            (name,) = captures["name"][:1]
            kind, node = next(
                (kind, nodes[0]) for kind, nodes in captures.items() if kind != "name"
            )
            rows = (node.start_point[0], *node.end_point)
            definition = [kind, *node.byte_range, *rows, *name.byte_range, name.start_point[0]]
            spans.setdefault((node.start_byte, -node.end_byte), definition)
        return [definition for _, definition in sorted(spans.items(), key=lambda item: item[0])]

    def _names(self, language: str, source: str, tree: Any, limit: int) -> list[tuple[str, int]]:
        """Return the most used names with their counts."""
        captures = self._query(language, source).captures(tree.root_node)
        counts = Counter(node.text for node in captures.get("name", ()))
        # `most_common` imports a module, which is no longer possible.
        most = sorted(counts.items(), key=lambda item: -item[1])[:limit]
        return [(text.decode("utf-8", "replace"), n) for text, n in most]


def _flat_tree(tree: Any) -> dict[str, Any]:
    """Return the tree in preorder, six numbers for each node: kind, first byte, end byte, 1 if it
    is named, field, number of children. Kinds and fields are indexes into `names`.
    """
    names: dict[str | None, int] = {None: 0}
    numbers: list[int] = []
    for cursor in _walk(tree, lambda _: True):
        node = cursor.node
        kind = names.setdefault(node.type, len(names))
        field = names.setdefault(cursor.field_name, len(names))
        numbers += (kind, *node.byte_range, int(node.is_named), field, node.child_count)
    return {"names": list(names), "nodes": numbers, "has_error": tree.root_node.has_error}


def _walk(tree: Any, enters: Callable[[Any], bool]) -> Iterator[Any]:
    """Yield a cursor at each node in preorder, below the nodes that `enters` accepts.

    It does not recurse, because a hostile text may exceed Python's recursion limit.
    """
    cursor = tree.walk()
    while True:
        yield cursor
        if enters(cursor.node) and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def _faults(tree: Any, limit: int) -> list[tuple[int, int, str]]:
    """Return row, column and the missing token, if any, of the first outermost faulty nodes."""
    faults: list[tuple[int, int, str]] = []
    if not tree.root_node.has_error:
        return faults
    for cursor in _walk(tree, lambda node: node.has_error and not _is_fault(node)):
        node = cursor.node
        if _is_fault(node):
            faults.append((*node.start_point, node.type if node.is_missing else ""))
            if len(faults) == limit:
                break
    return faults


def _is_fault(node: Any) -> bool:
    return bool(node.is_error or node.is_missing)


def _confine(setup: Mapping[str, Any]) -> list[str]:
    """Limit memory and block all ways to open, write or start anything; return a description of
    failures.
    """
    memory_bytes = setup["memory_bytes"]
    limits = {"AS": memory_bytes, "CORE": 0, "FSIZE": 0, "NPROC": 0, "NOFILE": 0}
    missing = []
    libc = ctypes.CDLL(None)
    for name, value in limits.items():
        try:
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
        except (OSError, ValueError):
            missing.append(f"RLIMIT_{name}")
    if not _install_filter(libc, setup["filter"]):
        missing.append("seccomp")
    return missing


def _install_filter(libc: ctypes.CDLL, instructions: bytes) -> bool:
    prctl = getattr(libc, "prctl", None)
    if prctl is None or not instructions:
        return False
    code = ctypes.create_string_buffer(instructions, len(instructions))
    program = _FilterProgram(len(instructions) // 8, ctypes.cast(code, ctypes.c_void_p))
    return bool(
        prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
        and prctl(_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0) == 0
    )


def _receive() -> Any:
    stream = sys.stdin.buffer
    data = stream.read(int.from_bytes(stream.read(HEADER_BYTES), "little"))
    if not data:
        sys.exit(0)
    return marshal.loads(data)  # noqa: S302 - from Kore, through a socket of its own


def _send(answer: Mapping[str, Any]) -> None:
    data = json.dumps(answer).encode()
    sys.stdout.buffer.write(len(data).to_bytes(HEADER_BYTES, "little") + data)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
