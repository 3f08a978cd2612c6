"""File search with ripgrep, or with our fallback program if it is missing.

The program's output is not trusted, because a folder may be replaced with a link during the walk.
The output only names candidates; the caller reads each file in a safe way (see `find`).
"""

import asyncio
import base64
import json
import os
import re
import select
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import IO, Any, TypeVar

from agent.errors import ToolError
from agent.records import frozen
from agent.security.sandbox.trusted_programs import find_trusted_program
from agent.text.text_document import MAX_BYTES
from agent.tools.child_process import ENVIRONMENT, program

T = TypeVar("T")

_RECORD_LIMIT_BYTES = 4_000_000
_RECORD_BEGINNING_BYTES = 65_536
_MAX_ERROR_CHARS = 300
# No personal settings, from files or from the environment. `.gitignore` files in the searched
# folder apply; those above it are read by `Ignores`. `--no-ignore-dot` disables `.ignore`, and
# since ripgrep 14 also `.rgignore`.
_RG = ("--no-config", "--no-messages", "--hidden", "--glob=!.git", "--color=never",
       "--no-require-git", "--no-ignore-parent", "--no-ignore-dot", "--no-ignore-exclude",
       "--no-ignore-global")  # fmt: skip
_FIRST_WITHOUT_RGIGNORE = 14

# A program silent for this long is checked, up to this number of times.
_SILENCE_TIMEOUT_S = 0.3
_CHECK_INTERVAL_S = 0.05
_MAX_CHECKS = 5
_VERSION_TIMEOUT_S = 5.0


class SearchFailed(ToolError):
    """Abnormal end of the search program: its output so far is incomplete."""


@frozen
class Query:
    """Regular expression to search for, in one file of the folder or (empty name) in all files."""

    pattern: str
    ignore_case: bool = False
    name: str = ""
    most: int = 1000


@frozen
class MatchLine:
    """Candidate: its path relative to the searched folder, its line number from 1 and its text."""

    path: str
    number: int
    text: str


class SearchBackend:
    """Search in `folder`, a real path below the workspace `root`.

    `program` is ripgrep's path, None for the fallback.
    """

    def __init__(self, folder: Path, root: Path, program: str | None) -> None:
        self._folder = folder
        self._root = root
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self.stopped = False
        # Part of the tree could not be searched; set at the end.
        self.is_cut = False
        # Files with a matching line that is too long to be passed on.
        self.long_lines: set[str] = set()
        self._lock = Lock()

    def use_stand_in(self) -> bool:
        """Switch to the fallback program; return whether that is a change."""
        is_other, self._program = self._program is not None, None
        return is_other

    def files(self) -> Generator[str]:
        """Yield the files below the folder, unordered. Blocks; ends early after `stop`."""
        self._check_ignore_files()
        own = ("files", str(self._root))
        for record in self._records(("--files", "--null"), own, b"\0"):
            yield os.fsdecode(record).removeprefix("./")

    def lines(self, query: Query) -> Generator[MatchLine]:
        """Yield matching lines by file, sorted by path. Raises ToolError for a bad pattern."""
        if not query.name:
            self._check_ignore_files()
        rg = ["--json", "--sort=path", "--crlf", f"--max-filesize={MAX_BYTES}"]
        rg += [f"--max-count={query.most + 1}", f"--regexp={query.pattern}"]
        rg += ["--ignore-case"] if query.ignore_case else ["--case-sensitive"]
        folding = "i" if query.ignore_case else "-"
        own = ("lines", str(self._root), query.pattern, folding, query.name)
        where = f"./{query.name}" if query.name else "./"
        for record in self._records((*rg, "--", where), own, b"\n"):
            if (line := _line(record)) is not None:
                yield line

    def stop(self) -> None:
        """End the program, from any thread, even before it starts."""
        with self._lock:
            self.stopped = True
            if self._process is not None:
                self._process.kill()

    def _check_ignore_files(self) -> None:
        """Raise `SearchFailed` if ripgrep would obey a `.rgignore` file. Blocks."""
        if self._program is None or _major_version(self._program) >= _FIRST_WITHOUT_RGIGNORE:
            return
        # Before version 14, only a flag that also drops `.gitignore` files covers them.
        argv = [self._program, *_RG, "--files", "--null", "--glob=.rgignore"]
        if next(self._run(argv, b"\0"), None) is not None:
            raise SearchFailed("This version of ripgrep obeys .rgignore files.")

    def _records(self, rg: tuple[str, ...], own: tuple[str, ...], end: bytes) -> Generator[bytes]:
        if self._program is None:
            yield from self._run(program("agent.tools.files.search_fallback", *own), end)
        else:
            yield from self._run([self._program, *_RG, *rg], end)

    def _run(self, argv: list[str], end: bytes) -> Generator[bytes]:
        with self._lock:
            if self.stopped:
                return
            self._process = process = _start_search(argv, self._folder)
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            has_records = False
            pid = process.pid if argv[0] == self._program else None
            for record in _split_records(process.stdout, end, pid):
                has_records = True
                if record.is_cut:
                    self._record_long_line(record.data)
                else:
                    yield record.data
            errors = process.stderr.read(4 * _MAX_ERROR_CHARS).decode("utf-8", "replace")
            code = process.wait()
            if code == 2 and errors and not has_records:
                raise ToolError(_pattern_error(errors))
            self.is_cut = code == 2
            if code not in (0, 1, 2) and not self.stopped:
                raise SearchFailed(
                    f"The search ended early (code {code}); narrow the pattern or path."
                )
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def _record_long_line(self, beginning: bytes) -> None:
        """Record the file of a match of which only the beginning was stored."""
        if (path := _path_in_beginning(beginning)) is not None:
            self.long_lines.add(path)


CUT = "… (left out: paths that are too deep or unreadable)"


def ripgrep(workspace: Path) -> str | None:
    """Return the path of the installed `rg`, unless it is in the workspace."""
    return find_trusted_program("rg", (workspace,))


async def run_search(seeker: SearchBackend, work: Callable[[], T], timeout_s: float) -> T:
    """Run `work`, which reads from the seeker in a thread, and return its result.

    If ripgrep fails, `work` is repeated with the fallback program: ripgrep 13 aborts at a line that
    ends in two carriage returns and obeys `.rgignore` files, and every ripgrep blocks on a pipe
    named `.gitignore`. After `timeout_s`, or when the caller is cancelled, the program is ended
    (`stop`); `work` then returns the results found so far.
    """

    def work_to_end() -> T:
        try:
            return work()
        except SearchFailed:
            if not seeker.use_stand_in():
                raise
            return work()

    task = asyncio.ensure_future(asyncio.to_thread(work_to_end))
    timer = asyncio.get_running_loop().call_later(timeout_s, seeker.stop)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        seeker.stop()
        await asyncio.wait([task])
        raise
    finally:
        timer.cancel()


@cache
def _major_version(ripgrep: str) -> int:
    """Return the major version; 0 if it is unknown."""
    try:
        output = subprocess.run(
            [ripgrep, "--version"], env=ENVIRONMENT, capture_output=True, timeout=_VERSION_TIMEOUT_S
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.match(rb"ripgrep (\d+)\.", output)
    return int(match[1]) if match else 0


def _start_search(argv: list[str], folder: Path) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            cwd=folder,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as exc:
        raise ToolError(f"The search could not be started: {exc}.") from exc


@frozen
class _Record:
    """Record of a program's output, cut to its beginning if it is far too long."""

    data: bytes
    is_cut: bool = False


def _split_records(stream: IO[bytes], end: bytes, pid: int | None) -> Iterator[_Record]:
    """Yield records without their terminators.

    Raises `SearchFailed` if the process `pid` waits for something that never arrives.
    """
    rest = b""
    skipping = False
    while data := _read(stream.fileno(), pid):
        *records, rest = (rest + data).split(end)
        for record in records:
            if not skipping:
                yield _Record(record)
            skipping = False
        if len(rest) > _RECORD_LIMIT_BYTES:
            if not skipping:
                yield _Record(rest[:_RECORD_BEGINNING_BYTES], is_cut=True)
            rest, skipping = b"", True


def _read(stream: int, pid: int | None) -> bytes:
    # Unlike `select`, it takes descriptors above 1023.
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    remaining_checks, timeout_s = _MAX_CHECKS, _SILENCE_TIMEOUT_S
    while pid is not None and not poll.poll(1000 * timeout_s):
        # A searching program either runs or waits for the disk.
        remaining_checks = remaining_checks - 1 if _sleeps(pid) else _MAX_CHECKS
        timeout_s = _CHECK_INTERVAL_S
        if not remaining_checks:
            raise SearchFailed("The search is blocked by a file that is not an ordinary one.")
    return os.read(stream, 65_536)


def _sleeps(pid: int) -> bool:
    """Return whether all threads of a process sleep; False where there is no /proc."""
    folder = f"/proc/{pid}/task"
    try:
        states = [Path(folder, thread, "stat").read_bytes() for thread in os.listdir(folder)]
    except OSError:
        return False
    return all(state.rpartition(b")")[2].split()[0] == b"S" for state in states)


def _line(record: bytes) -> MatchLine | None:
    try:
        message: Any = json.loads(record)
        if message["type"] != "match":
            return None
        data = message["data"]
        text = _decode_text(data["lines"]).decode("utf-8", "replace")
        path = os.fsdecode(_decode_text(data["path"])).removeprefix("./")
        return MatchLine(path, int(data["line_number"]), text.removesuffix("\n").removesuffix("\r"))
    except (ValueError, LookupError, TypeError):
        return None


def _path_in_beginning(beginning: bytes) -> str | None:
    """Return the path of a match whose JSON is incomplete; it is written before the line."""
    _, _, rest = beginning.decode("utf-8", "replace").partition('"path":')
    with suppress(ValueError, LookupError, TypeError):
        data, _ = json.JSONDecoder().raw_decode(rest.lstrip())
        return os.fsdecode(_decode_text(data)).removeprefix("./")
    return None


def _decode_text(data: dict[str, str]) -> bytes:
    """Return a text of ripgrep's JSON; bytes that are not UTF-8 are base64."""
    if "text" in data:
        return data["text"].encode("utf-8", "surrogateescape")
    return base64.b64decode(data["bytes"])


def _pattern_error(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines()]
    message = " ".join(line for line in lines if line.strip("^ ") and not line.startswith("(?:"))
    with suppress(ValueError):
        message = message[message.index("error:") + len("error:") :]
    reason = " ".join(message.split())[:_MAX_ERROR_CHARS]
    return f"The pattern is not a valid regular expression: {reason}"
