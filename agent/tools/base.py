"""Port for tools, with the environment and context of their calls."""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from agent.approvals import FolderAccess, VisibleEffects
from agent.errors import KoreError
from agent.events import Event
from agent.providers.usage import UsageMeter
from agent.records import frozen
from agent.security.files.folder_identity import FolderIdentity
from agent.security.files.reading_rights import ReadingRights
from agent.security.local_services import LocalService
from agent.security.policy.base import Decision, Deletion, ToolRequest
from agent.security.redaction import Redactor
from agent.security.shell.path_scope import NO_SANDBOX, SandboxScope
from agent.security.taint.origin import TrustedOrigins
from agent.tools.elicitation import Elicitation, ElicitationAnswer
from agent.tools.file_views import FileViews
from agent.tools.traits import traits_of
from agent.types import Effect, JsonSchema, Taint, ToolCall, ToolResult
from agent.undo.recorder import Recorder, RecorderFactory

log = logging.getLogger(__name__)


class EditorFiles(Protocol):
    """Files of the working folder as the person's editor shows them.

    Both methods raise `KoreError` if the editor does not answer in time or answers with something
    unusable; `write_text` raises `EditorRefused` if it answers that it did not save the text.
    """

    async def read_text(self, path: Path) -> str | None:
        """Return the text of a file with unsaved changes; None if the editor does not show it."""
        ...

    async def write_text(self, path: Path, text: str) -> bool:
        """Show this text and save it; return False if the editor accepts no texts."""
        ...


# Record whether something was allowed, the reason, and its details. The record is stored when this
# returns.
Record = Callable[[bool, str, Mapping[str, Any]], Awaitable[None]]


@frozen
class MemoryHit:
    """Earlier note or message: its place, its text and the taint of its conversation.

    `place` begins with an id: a file and a line, or a session and a message number.
    """

    place: str
    text: str
    taint: frozenset[Taint] = frozenset()


# Return up to this many messages that contain these words, newest first. Raises `KoreError`.
Recall = Callable[[str, int], Awaitable[Sequence[MemoryHit]]]
# Return the messages around and including the message with this number in a session, in order; none
# if the session is not the speaker's. Raises `KoreError`.
RecallAround = Callable[[str, int], Awaitable[Sequence[MemoryHit]]]
# Return the semantic similarity of a question to each text (-1 to 1). Raises `KoreError`.
Similarity = Callable[[str, Sequence[str]], Awaitable[Sequence[float]]]


async def _record_nothing(allowed: bool, reason: str, what: Mapping[str, Any]) -> None:
    """Record nothing, for a call without an audit log."""


async def _to_nobody(event: Event) -> None:
    """Discard the event, for a call whose events are not read."""


@frozen
class SubagentRequest:
    """Request for a sub-agent: a `title` for people and a `prompt` for the sub-agent.

    If `background` is None, the sub-agent's definition decides. `resume` names an earlier task to
    continue. `isolation` is "worktree", "none", or None for the default.
    """

    title: str
    prompt: str
    agent: str
    model: str | None = None
    background: bool | None = None
    resume: str | None = None
    isolation: str | None = None


# Start a sub-agent. Raises `ToolError`, or `AnswerPending` when the result comes later.
Spawn = Callable[[SubagentRequest, "CallContext"], Awaitable[ToolResult]]


@frozen
class FileDelivery:
    """Files for the person in the conversation, by real path, and their caption."""

    paths: tuple[Path, ...]
    caption: str = ""


# Send files to the person and return the text for the model. Raises `ToolError`.
Send = Callable[[FileDelivery, "CallContext"], Awaitable[str]]


# Ask the person a question of a server that it needs to answer a call.
ElicitInCall = Callable[[Elicitation, "CallContext"], Awaitable[ElicitationAnswer]]


@frozen
class ScheduleRequest:
    """Request to the scheduler.

    `action` is add, list, remove, pause, resume or run. With `prompt`, `text` is not sent as is,
    but answered as a turn. `id` is a job's number.
    """

    action: str
    when: str = ""
    text: str = ""
    prompt: bool = False
    id: int | None = None


class Schedule(Protocol):
    """Scheduled jobs of the current speaker."""

    async def check(self, request: ScheduleRequest, call: "CallContext") -> None:
        """Raise `KoreError` if the request would be rejected."""

    async def __call__(self, request: ScheduleRequest, call: "CallContext") -> ToolResult:
        """Change or list the jobs. Raises `KoreError`."""


class EndedCommand(Protocol):
    """Background command that ended without being killed.

    `is_news`: the model does not know yet that it ended.
    """

    number: int

    @property
    def title(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def taint(self) -> frozenset[Taint]: ...
    @property
    def is_news(self) -> bool: ...

    def last_output(self, limit_chars: int) -> str:
        """Return the end of the output, without marking it as read."""
        ...

    def set_told(self, withdraw: Callable[[], Awaitable[None]]) -> None:
        """Record that the model will be notified.

        `withdraw` is awaited if the model reads the end of the output before that.
        """
        ...

    def take_back(self) -> bool:
        """Record that the model was not notified; return False if it has read the end."""
        ...


class AddedFolders:
    """Folders outside the workspace that a person has added to a conversation."""

    def __init__(self, folders: Sequence[FolderAccess] = ()) -> None:
        self._folders = tuple(folders)

    def __iter__(self) -> Iterator[FolderAccess]:
        return iter(self._folders)

    def add(self, access: FolderAccess) -> None:
        """Add a folder for later calls."""
        if not any(folder.covers(access) for folder in self._folders):
            self._folders = (*self._folders, access)


@frozen
class ToolEnvironment:
    """Environment of the tools of a turn: created once for a turn and read by each call.

    `workspace` is the real path of the folder that tools may change; `identity` detects whether it
    is still the same folder. Commands and relative paths start in `start_folder`, a folder inside
    it; None for the workspace itself. `memory` is the long-term memory file of the speaker.
    `owner`: the owner is the speaker and nobody else can read the conversation; only then are other
    people's memories shown. `recording` records changes of files. `spawn` starts sub-agents, None
    if they are not allowed. `recall` searches earlier messages of the speaker, and `recall_around`
    reads the messages around a hit; None without a record. `similarity` is None without embeddings.
    `send` sends files to the person; None if the channel cannot. `schedule` manages the person's
    jobs; None without a scheduler. `places` are the owner's own folders; if there are none, the
    workspace counts as such. `on_command_end` is called with background commands that end, and
    notifies the conversation. `deps` are dependencies of the program for its tools; `agent` is the
    name of the agent. `elicit` asks the person on behalf of a server, None if no person can be
    asked. `meter` counts the cost of a tool's own requests. `editor` shows files to the person.
    `folders` are the folders outside the workspace that the person has added.
    """

    session: str
    workspace: Path
    memory: Path
    owner: bool = False
    identity: FolderIdentity | None = None
    start_folder: Path | None = None
    recording: RecorderFactory = field(default_factory=RecorderFactory)
    spawn: Spawn | None = None
    recall: Recall | None = None
    recall_around: RecallAround | None = None
    similarity: Similarity | None = None
    send: Send | None = None
    schedule: Schedule | None = None
    places: TrustedOrigins | None = None
    on_command_end: Callable[[EndedCommand], None] | None = None
    deps: Any = None
    agent: str = "main"
    elicit: ElicitInCall | None = None
    meter: UsageMeter | None = None
    editor: EditorFiles | None = None
    folders: AddedFolders = field(default_factory=AddedFolders)

    @property
    def base(self) -> Path:
        """Folder where commands and relative paths start."""
        return self.start_folder or self.workspace

    @property
    def origin(self) -> TrustedOrigins:
        return self.places or TrustedOrigins((self.workspace,))

    def for_subagent(
        self, session: str, agent: str, recording: RecorderFactory, send: Send | None = None
    ) -> "ToolEnvironment":
        """Return the environment of a sub-agent that works for this turn.

        The sub-agent has no access to earlier messages of the person and cannot send messages.
        Every inherited field is named, so that a new field is not inherited by accident.
        """
        return ToolEnvironment(
            session=session,
            workspace=self.workspace,
            memory=self.memory,
            owner=self.owner,
            identity=self.identity,
            start_folder=self.start_folder,
            recording=recording,
            similarity=self.similarity,
            send=send,
            places=self.places,
            deps=self.deps,
            agent=agent,
            elicit=self.elicit,
            meter=self.meter,
            editor=self.editor,
            folders=self.folders,
        )


class CommandFiles(Protocol):
    """Files outside the workspace that the owner's commands can read or change without asking."""

    def readable(self) -> Sequence[Path]:
        """Return the real files and folders that every command can read. Blocks."""
        ...

    def rights(self, path: Path) -> ReadingRights | None:
        """Return the rights of commands for a real path outside the workspace.

        None if commands run as the same user as Kore, or for a path that they cannot see. Blocks.
        """
        ...

    def temporary(self) -> "TemporaryFolder | None":
        """Return the folder of temporary files of the conversation, created if missing. Blocks."""
        ...

    def real_path(self, path: str, added: Iterable[FolderAccess] = ()) -> str:
        """Return the path of a file on this machine, because commands have their own /tmp.

        A file in an `added` folder, or that exists only in the machine's /tmp, keeps its path.
        Blocks.
        """
        ...

    def holds(self, path: Path) -> bool:
        """Return whether a path refers to programs of the machine or into the temporary folder.

        Blocks.
        """
        ...

    def display(self, text: str) -> str:
        """Return a text with the paths of the temporary folder as commands see them."""
        ...


@frozen
class TemporaryFolder:
    """Real `path` of the folder for temporary files, and its path for commands.

    Files in `home` influence later commands. Only commands change them, and questions mention them.
    """

    path: Path
    command_path: Path
    home: Path


@frozen
class CallContext:
    """One call and the environment of its turn.

    `output` reports live output (text, stream) to screens. `taint` is the taint of the session
    before the call. `redactor` is for output that a tool writes to disk; the result is cleaned
    anyway. `hosts` are the hosts that the policy lets the tool reach, None without a limit; a file
    that it shows must match each of `paths`, which are globs. `record` records resources that a
    call reaches while it runs, and raises `KoreError` if the record cannot be stored. `changes`
    records changes of files for undo. `tell` shows an event to the screens, without a guarantee.
    `plan` is the plan as it was judged: `run` uses its contents, because the disk may have changed
    since. `resumed`: the call was prepared before a restart or a person's answer. Without
    `may_write`, commands may not change files. `is_allowed`: a person allowed this call or its
    prefix. `shared_files` are the files of commands, or None. `folder_access` is the access that a
    person allowed for this call. `same_calls` is the number of calls of the tool in the reply,
    including this one.
    """

    call: ToolCall
    environment: ToolEnvironment
    output: Callable[[str, Literal["stdout", "stderr"]], None]
    taint: frozenset[Taint] = frozenset()
    redactor: Redactor = field(default_factory=Redactor)
    hosts: tuple[str, ...] | None = None
    paths: tuple[tuple[str, ...], ...] = ()
    record: Record = _record_nothing
    changes: Recorder = field(default_factory=Recorder)
    tell: Callable[[Event], Awaitable[None]] = _to_nobody
    plan: "EffectPlan | None" = None
    resumed: bool = False
    may_write: bool = True
    same_calls: int = 1
    is_allowed: bool = False
    shared_files: CommandFiles | None = None
    folder_access: FolderAccess | None = None

    @property
    def session(self) -> str:
        return self.environment.session

    @property
    def workspace(self) -> Path:
        return self.environment.workspace

    @property
    def base(self) -> Path:
        return self.environment.base

    @property
    def memory(self) -> Path:
        return self.environment.memory

    @property
    def folders(self) -> Sequence[FolderAccess]:
        """Folders outside the workspace that the call may use, because a person allowed it."""
        own = () if self.folder_access is None else (self.folder_access,)
        return (*self.environment.folders, *own)

    @property
    def owner(self) -> bool:
        return self.environment.owner

    @property
    def spawn(self) -> Spawn | None:
        return self.environment.spawn

    @property
    def recall(self) -> Recall | None:
        return self.environment.recall

    @property
    def recall_around(self) -> RecallAround | None:
        return self.environment.recall_around

    @property
    def similarity(self) -> Similarity | None:
        return self.environment.similarity

    @property
    def send(self) -> Send | None:
        return self.environment.send

    @property
    def schedule(self) -> Schedule | None:
        return self.environment.schedule

    @property
    def elicit(self) -> ElicitInCall | None:
        return self.environment.elicit

    @property
    def places(self) -> TrustedOrigins | None:
        return self.environment.places

    def error_text(self, error: KoreError) -> str:
        """Return the text of an error: `public`, unless only the owner reads along.

        The log then has the full text.
        """
        if self.owner or error.public is None:
            return str(error)
        log.warning("withheld: %s (%s)", error, error.code)
        return error.public

    @property
    def origin(self) -> TrustedOrigins:
        return self.environment.origin


@frozen
class EffectPlan(VisibleEffects):
    """Effects of a call before it runs, as the policy judges them; a person sees a part of them.

    `reads` lists files and folders that would be shown, `changes` existing files that would be
    changed, `creates` new files, `executables` programs in `creates`, and `deletion` the files that
    undo would bring back. `hosts` are the machines that would be reached; `network` is the part of
    them that a person has to allow, and `services` are the local services in `network`, with the
    identities of their sockets. `read_only`: the command would run with a read-only workspace.
    `outside_reason` is the reason to run it outside of the sandbox. In the `writable_folders`,
    changes count as changes of the workspace. `sandbox_scope` is what commands of the conversation
    have for themselves in the sandbox. `is_recipient_trusted`: the owner trusts the recipient with
    private data. `CallContext` passes the plan to `run`.
    """

    reads: tuple[Path, ...] = ()
    changes: tuple[Path, ...] = ()
    creates: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()
    services: tuple[LocalService, ...] = ()
    read_only: bool = False
    outside_reason: str | None = None
    sandbox_scope: SandboxScope = NO_SANDBOX
    is_recipient_trusted: bool = False
    executables: tuple[Path, ...] = ()
    deletion: Deletion | None = None
    writable_folders: tuple[Path, ...] = ()

    def request(
        self,
        tool: "Tool",
        arguments: Mapping[str, Any],
        workspace: Path,
        taint: frozenset[Taint] = frozenset(),
        origin: TrustedOrigins | None = None,
        start_folder: Path | None = None,
    ) -> ToolRequest:
        """Return the request for the policy; without `origin` the workspace counts as personal."""
        creates_files = bool(self.creates or self.command)
        traits = traits_of(tool)
        return ToolRequest(
            tool=tool.name,
            effect=tool.effect,
            arguments=arguments,
            workspace=workspace,
            reads=self.reads,
            changes=self.changes,
            creates=self.creates,
            command=self.command,
            folder=self.folder,
            start_folder=start_folder,
            hosts=self.hosts,
            sends=self.sends,
            read_only=self.read_only,
            outside_reason=self.outside_reason,
            network=self.network,
            sandbox_scope=self.sandbox_scope,
            recipient=self.recipient,
            is_recipient_trusted=self.is_recipient_trusted,
            deletion=self.deletion,
            taint=taint,
            traits=traits,
            executables=self.executables,
            writable_folders=self.writable_folders,
            foreign=creates_files and origin is not None and origin.is_foreign(workspace, taint),
        )


class ToolSource(Protocol):
    """Tools that appear and disappear during an agent's life, such as tools of servers.

    `load` discovers them before a turn and returns messages for the person. `tools` are the known
    tools: the same tuple until they change. `taint_of` is the taint that a list of these tools
    brings into the conversation. `search_tools` find and call tools if there are too many to list.
    `starting` names sources whose tools will appear shortly.
    """

    def taint_of(self, names: Collection[str]) -> frozenset[Taint]: ...
    async def load(self) -> Sequence[str]: ...
    def tools(self) -> "tuple[Tool, ...]": ...
    def starting(self) -> Sequence[str]: ...
    def search_tools(self, names: Collection[str]) -> "tuple[Tool, ...]": ...
    async def aclose(self) -> None: ...


class Tool(Protocol):
    """Capability of the model.

    `effect` decides the handling after a crash: `read` and `idempotent` calls run again; an
    `unsafe` call that had started is reported as "outcome unknown". `run` raises `ToolError` for
    failures that the model should read; any other exception is a bug.
    """

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> JsonSchema: ...
    @property
    def effect(self) -> Effect: ...

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult: ...


@runtime_checkable
class DeclaresTaint(Protocol):
    """Optional ability of a tool: declare the taint of its results, for any content.

    Other tools bring both kinds of taint, because the origin of their text is unknown.
    """

    @property
    def brings(self) -> frozenset[Taint]: ...


@runtime_checkable
class ChoosesToAsk(Protocol):
    """Tool whose author decides whether its calls need a person's consent."""

    asks: bool


@runtime_checkable
class HasForeignSchema(Protocol):
    """Tool with a schema from another program, checked only for calls that the policy allows."""

    has_foreign_schema: bool


@runtime_checkable
class SettlesConsent(Protocol):
    """Tool whose settings decide whether its calls need consent.

    The policy cannot see what these calls do. The settings apply in every mode except `plan`, in
    which none of these tools run.
    """

    @property
    def consent(self) -> Decision: ...


@runtime_checkable
class StandsForOthers(Protocol):
    """Tool whose calls are calls of other tools, which it names."""

    def stands_for(self, call: ToolCall) -> ToolCall: ...


@runtime_checkable
class LimitsOutput(Protocol):
    """Tool with its own limit for the length of results."""

    output_limit_bytes: int


@runtime_checkable
class LongRunning(Protocol):
    """Optional ability of a tool: run longer than other calls, within limits of its own."""

    @property
    def lasts(self) -> bool: ...


@runtime_checkable
class SupportsClose(Protocol):
    """Optional ability of a tool: release all resources; no calls follow."""

    async def aclose(self) -> None: ...


@runtime_checkable
class SessionScoped(Protocol):
    """Optional ability of a tool: release the resources of a session that has ended."""

    async def end(self, session: str) -> None: ...


@frozen
class BackgroundTask:
    """Running or finished background work, with a name for people and its state.

    `began_at` is a Unix time; `last_line` is the last line of output.
    """

    id: str
    title: str
    state: str
    is_running: bool
    began_at: float = 0.0
    last_line: str = ""


@frozen
class TaskOutput:
    """Output of a task between the byte offsets `begin` and `end`."""

    text: str
    begin: int
    end: int


@runtime_checkable
class HasBackgroundWork(Protocol):
    """Optional ability of a tool: run work between turns.

    `tasks` are the tasks of a session. `kill` ends a task, or returns False for an unknown task.
    `facts` are short texts for the model at the beginning of a session's next turn. These three may
    be called from any thread. `output` is the stored output after a position; None if there is no
    such task. `mark_reported` confirms that the turn with the facts has begun. `background_taint`
    is the taint that this work may bring into any file of a workspace while it runs.
    """

    def tasks(self, session: str) -> Sequence[BackgroundTask]: ...
    def kill(self, session: str, id: str) -> bool: ...
    def output(self, session: str, id: str, position: int) -> TaskOutput | None: ...
    def facts(self, session: str) -> Sequence[str]: ...
    def mark_reported(self, session: str) -> None: ...
    def background_taint(self, workspace: Path) -> frozenset[Taint]: ...


@runtime_checkable
class SharesFiles(Protocol):
    """Optional ability of a tool that runs commands: share their files with file tools."""

    def shared_files(self, call: CallContext) -> CommandFiles | None:
        """Return the files of commands in the conversation of a call."""
        ...


@runtime_checkable
class TracksFileViews(Protocol):
    """Optional ability of a tool: show files and track which parts were seen."""

    @property
    def views(self) -> FileViews: ...


@runtime_checkable
class DescribesEffects(Protocol):
    """Optional ability of a tool: plan the effects of a call. Raises `ToolError` if it cannot."""

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan: ...
