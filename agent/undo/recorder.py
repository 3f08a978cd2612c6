"""What a tool is given to record its changes with; without a journal it records nothing."""

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent.records import frozen
from agent.security.files.file_io import in_thread
from agent.types import ToolResult
from agent.undo.change_log import ChangeLog
from agent.undo.command_diff import CommandChangeDetector
from agent.undo.records import ChangeOrigin

if TYPE_CHECKING:
    from agent.undo.coverage import UndoCoverage

# Opens the journal that all sessions share; always the same one.
OpenChangeLog = Callable[[], ChangeLog]


@dataclass(slots=True)
class Recorder:
    """For one call. `notes` are what a person has to be told of its changes, `changed_paths` the
    files that its command has changed, as far as they are known."""

    open_log: OpenChangeLog | None = None
    origin: ChangeOrigin | None = None
    notes: list[str] = field(default_factory=list)
    changed_paths: list[str] = field(default_factory=list)

    @property
    def changes(self) -> ChangeLog | None:
        return self.open_log() if self.open_log is not None else None

    @contextmanager
    def file(self, path: Path, data: bytes) -> Iterator[None]:
        """Around a write in a thread, after which `path` holds `data`.

        Raises ToolError when it cannot be recorded, before anything is written.
        """
        with self.files({path: data}):
            yield

    @contextmanager
    def files(self, contents: Mapping[Path, bytes]) -> Iterator[None]:
        """The same around the writes of several files, which are undone as one."""
        if self.open_log is not None and self.origin is not None:
            self.notes += self.open_log().files(self.origin, contents)
        yield

    @contextmanager
    def folder(self, path: Path) -> Iterator[None]:
        """Around the making of a folder, with those above it that are missing."""
        if self.open_log is not None and self.origin is not None:
            self.open_log().folder(self.origin, path)
        yield

    @asynccontextmanager
    async def command(self, closed: Collection[Path]) -> AsyncIterator[None]:
        """Around a command that works in the folder: what it changes there can be undone.

        `closed` are paths that are not looked at.
        """
        if self.open_log is None or self.origin is None:
            yield
            return
        changes = self.open_log()
        # The journal may lie in the folder; what it writes is no change of the command's.
        own = changes.blobs.folder.resolve()
        detector = CommandChangeDetector(self.origin, changes, [*closed, own])
        try:
            await in_thread(detector.begin)
            yield
        finally:
            await in_thread(detector.end)
            self.notes += detector.notes
            self.changed_paths += detector.changed_paths

    def coverage(self, root: Path, closed: Collection[Path]) -> "UndoCoverage":
        """Return the judge of deletions in the folder: which of them can be undone."""
        from agent.undo.coverage import UndoCoverage

        if self.open_log is None:
            return UndoCoverage(root, None)
        blobs = self.open_log().blobs
        return UndoCoverage(root, blobs, [*closed, blobs.folder.resolve()])

    @contextmanager
    def background_command(self) -> Iterator[None]:
        """Around a command that runs beside the conversation: it is not recorded, and what others
        change meanwhile may be its work."""
        if self.open_log is None or self.origin is None:
            yield
            return
        changes = self.open_log()
        window = changes.open(self.origin)
        try:
            yield
        finally:
            changes.close(window)

    def with_notes(self, result: ToolResult) -> ToolResult:
        """The result, with what a person has to be told."""
        if not self.notes:
            return result
        text = result.for_model if result.for_user is None else result.for_user
        return replace(result, for_user="\n".join([text, *(f"({note})" for note in self.notes)]))


@frozen
class RecorderFactory:
    """The journal, if there is one, as the calls of one turn see it. `turn` grows from turn to
    turn of a session.

    What a sub-agent does is a part of the turn that it works for: then `session` is that turn's,
    and `prefix` tells its calls from those of others.
    """

    open_log: OpenChangeLog | None = None
    turn: int = 0
    session: str = ""
    prefix: str = ""

    def recorder(self, session: str, call_id: str, tool: str, root: Path) -> Recorder:
        if self.open_log is None:
            return Recorder()
        origin = ChangeOrigin(
            self.session or session, self.turn, self.prefix + call_id, tool, root.resolve()
        )
        return Recorder(self.open_log, origin)
