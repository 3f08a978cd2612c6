"""Recorder of the changes of a tool call; records nothing without a log."""

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.records import frozen
from agent.security.files.file_io import in_thread
from agent.types import ToolResult
from agent.undo.change_log import ChangeLog
from agent.undo.command_diff import CommandChangeDetector
from agent.undo.coverage import UndoCoverage
from agent.undo.records import ChangeOrigin
from agent.undo.snapshot import IsHidden

# Opens the log shared by all sessions; always returns the same one.
OpenChangeLog = Callable[[], ChangeLog]
_NONE: Mapping[Path, IsHidden] = {}


@dataclass(slots=True)
class Recorder:
    """Recorder of the changes of one call.

    `notes` are messages for the person; `changed_paths` are the known files that its command has
    changed.
    """

    open_log: OpenChangeLog | None = None
    origin: ChangeOrigin | None = None
    notes: list[str] = field(default_factory=list)
    changed_paths: list[str] = field(default_factory=list)

    @property
    def changes(self) -> ChangeLog | None:
        return self.open_log() if self.open_log is not None else None

    @contextmanager
    def file(self, path: Path, data: bytes) -> Iterator[None]:
        """Record a write in a thread, after which `path` contains `data`.

        Raises `ToolError` if it cannot be recorded, before anything is written.
        """
        with self.files({path: data}):
            yield

    @contextmanager
    def files(self, contents: Mapping[Path, bytes]) -> Iterator[None]:
        """Record writes of several files, which are undone together."""
        if self.open_log is not None and self.origin is not None:
            self.notes += self.open_log().files(self.origin, contents)
        yield

    @contextmanager
    def folder(self, path: Path) -> Iterator[None]:
        """Record the creation of a folder and its missing parents."""
        if self.open_log is not None and self.origin is not None:
            self.open_log().folder(self.origin, path)
        yield

    @asynccontextmanager
    async def command(
        self, closed: Collection[Path], added: Mapping[Path, IsHidden] = _NONE
    ) -> AsyncIterator[None]:
        """Record a command in the folder, so that its changes can be undone.

        `closed` are paths to ignore. Changes in `added` folders outside are recorded, too, except
        of what is hidden there.
        """
        if self.open_log is None or self.origin is None:
            yield
            return
        changes = self.open_log()
        # The log may be inside the folder; its files are not changes of the command.
        own = changes.blobs.folder.resolve()
        detectors = [CommandChangeDetector(self.origin, changes, [*closed, own])]
        for folder, is_hidden in added.items():
            origin = replace(self.origin, root=folder)
            detectors.append(CommandChangeDetector(origin, changes, [own], is_hidden=is_hidden))
        try:
            for detector in detectors:
                await in_thread(detector.begin)
            yield
        finally:
            for detector in detectors:
                await in_thread(detector.end)
                self.notes += detector.notes
                self.changed_paths += detector.changed_paths

    def coverage(
        self, root: Path, closed: Collection[Path], added: Mapping[Path, IsHidden] = _NONE
    ) -> "UndoCoverage":
        """Return the judge of deletions in the folder, and in `added` ones outside."""
        if self.open_log is None:
            return UndoCoverage(root, None, added=[UndoCoverage(folder, None) for folder in added])
        blobs = self.open_log().blobs
        own = blobs.folder.resolve()
        outside = [
            UndoCoverage(folder, blobs, [own], is_hidden=is_hidden)
            for folder, is_hidden in added.items()
        ]
        return UndoCoverage(root, blobs, [*closed, own], added=outside)

    @contextmanager
    def background_command(self) -> Iterator[None]:
        """Note a command that runs in the background.

        It is not recorded, so changes attributed to others during its run may be its work.
        """
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
        """Return the result with the notes for the person."""
        if not self.notes:
            return result
        text = result.for_model if result.for_user is None else result.for_user
        return replace(result, for_user="\n".join([text, *(f"({note})" for note in self.notes)]))


@frozen
class RecorderFactory:
    """Creates the recorders for the calls of one turn.

    `turn` grows with each turn of a session. Changes of a sub-agent belong to the turn that it
    works for: `session` is the session of that turn, and `prefix` distinguishes the sub-agent's
    calls.
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
