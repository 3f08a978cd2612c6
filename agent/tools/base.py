"""The port to a tool, and what a tool is told about its call."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from agent.approvals import CommandPrefix
from agent.elicitation import Elicitation, ElicitationAnswer
from agent.events import Event
from agent.records import frozen
from agent.security.files.folder_identity import FolderIdentity
from agent.security.policy.base import Decision, Deletion, ToolRequest
from agent.security.redaction import Redactor
from agent.security.taint.origin import TrustedOrigins
from agent.tools.editor_files import EditorFiles
from agent.tools.file_views import FileViews
from agent.tools.traits import traits_of
from agent.types import Effect, JsonSchema, Taint, ToolCall, ToolResult
from agent.undo.recorder import Recorder, RecorderFactory
from agent.usage import UsageMeter

# Whether something was let through, why, and what it was; it is on record when this returns.
Record = Callable[[bool, str, Mapping[str, Any]], Awaitable[None]]


@frozen
class MemoryHit:
    """Something said or noted before: where, its words, and what its conversation had taken in.

    `place` begins with an id: a file and a line, or a session and the number of a message.
    """

    place: str
    text: str
    taint: frozenset[Taint] = frozenset()


# Up to so many messages that hold these words, the newest first. Raises `KoreError`.
Recall = Callable[[str, int], Awaitable[Sequence[MemoryHit]]]
# What stands around the message of a session that has this number, itself included, in order;
# nothing when it is not theirs. Raises `KoreError`.
RecallAround = Callable[[str, int], Awaitable[Sequence[MemoryHit]]]
# How alike a question and each text are in what they mean (-1 to 1). Raises `KoreError`.
Similarity = Callable[[str, Sequence[str]], Awaitable[Sequence[float]]]


async def _record_nothing(allowed: bool, reason: str, what: Mapping[str, Any]) -> None:
    """For a call without an audit log."""


async def _to_nobody(event: Event) -> None:
    """For a call whose events are not read."""


@frozen
class SubagentRequest:
    """A piece of work for a sub-agent: for people a `title`, for the sub-agent the `prompt`.

    `background` None is as its definition says; `resume` names an earlier task to continue.
    """

    title: str
    prompt: str
    agent: str
    model: str | None = None
    background: bool | None = None
    resume: str | None = None


# Starts a sub-agent. Raises `ToolError`, or `AnswerPending` when the result comes later.
Spawn = Callable[[SubagentRequest, "CallContext"], Awaitable[ToolResult]]


@frozen
class FileDelivery:
    """Files for the person in the conversation, by their real paths, and what stands below."""

    paths: tuple[Path, ...]
    caption: str = ""


# Hands files to the person; returns what the model is told of it. Raises `ToolError`.
Send = Callable[[FileDelivery, "CallContext"], Awaitable[str]]


# Asks the person of a call what a server wants to know before it answers.
ElicitInCall = Callable[[Elicitation, "CallContext"], Awaitable[ElicitationAnswer]]


@frozen
class ScheduleRequest:
    """A request to the timetable: `action` is add, list, remove, pause, resume or run. With
    `prompt`, `text` is not sent as it is, but answered as a turn; `id` is a job's number."""

    action: str
    when: str = ""
    text: str = ""
    prompt: bool = False
    id: int | None = None


class Schedule(Protocol):
    """The jobs of the person who speaks."""

    async def check(self, request: ScheduleRequest, call: "CallContext") -> None:
        """Raise `KoreError` for what would be refused."""

    async def __call__(self, request: ScheduleRequest, call: "CallContext") -> ToolResult:
        """Change or show them. Raises `KoreError`."""


class EndedCommand(Protocol):
    """A background command that has ended by itself. `is_news`: the model does not know it yet."""

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
        """The end of what it said; it counts as not read."""
        ...

    def set_told(self, withdraw: Callable[[], Awaitable[None]]) -> None:
        """The model will be told; `withdraw` is awaited when it reads the end before that."""
        ...

    def take_back(self) -> bool:
        """The model was not told after all; False when it has read the end."""
        ...


@frozen
class ToolEnvironment:
    """Where the tools of a turn work, and for whom: made once for a turn, read by each call.

    `workspace` is where relative paths start, a real path; `identity` tells whether it is still the
    same folder. `memory` is the long-term memory file of the speaker. `owner` says that the owner
    speaks and no other person reads along: only then are other people's memories shown. `recording`
    is for what happens to files. `spawn` sends out sub-agents, None where none may be sent.
    `recall` searches what the speaker said before, and `recall_around` reads on there; None without
    a record. `similarity` is None without embeddings. `send` hands files to the person; None where
    the channel cannot. `schedule` keeps their jobs; None without a scheduler. `places` are the
    owner's own folders; without any the workspace is one. `on_command_end` hears of background
    commands that end, and tells the conversation. `deps` are the program's own, for its tools;
    `agent` is the name of who speaks. `elicit` asks the person for a server, None where nobody can
    be asked. `meter` counts what a tool's own requests cost. `editor` shows files to the person.
    """

    session: str
    workspace: Path
    memory: Path
    owner: bool = False
    identity: FolderIdentity | None = None
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

    @property
    def origin(self) -> TrustedOrigins:
        return self.places or TrustedOrigins((self.workspace,))

    def for_subagent(
        self, session: str, agent: str, recording: RecorderFactory, send: Send | None = None
    ) -> "ToolEnvironment":
        """Return the environment of a sub-agent that works for this turn.

        It knows nothing that the person said before, and writes to nobody. Every inherited field
        is named, so that a new one is not inherited by accident.
        """
        return ToolEnvironment(
            session=session,
            workspace=self.workspace,
            memory=self.memory,
            owner=self.owner,
            identity=self.identity,
            recording=recording,
            similarity=self.similarity,
            send=send,
            places=self.places,
            deps=self.deps,
            agent=agent,
            elicit=self.elicit,
            meter=self.meter,
            editor=self.editor,
        )


@frozen
class CallContext:
    """One call, and the environment of its turn.

    `output` reports live output (text, stream) to screens. `taint` is what the session has
    taken in before the call. `redactor` is for what a tool writes down of its output: the result
    is cleaned anyway. `hosts` are those that the policy lets the tool reach, None without a limit;
    a file that it shows must fit each of `paths`, which are globs; `record` is for what a call
    reaches on its way, and raises `KoreError` when that cannot be kept. `changes` records changes
    of files for undo. `tell` shows an event to the screens, which may miss it. `read_only` is what
    the call's plan said. `resumed`: it was prepared before a restart or a person's answer. Without
    `may_write` commands may change no file. A person allowed this call or its prefix: `is_allowed`.
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
    read_only: bool = False
    resumed: bool = False
    may_write: bool = True
    is_allowed: bool = False

    @property
    def session(self) -> str:
        return self.environment.session

    @property
    def workspace(self) -> Path:
        return self.environment.workspace

    @property
    def memory(self) -> Path:
        return self.environment.memory

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

    @property
    def origin(self) -> TrustedOrigins:
        return self.environment.origin


@frozen
class EffectPlan:
    """What a call is about to do, told before it does it; the policy and the person judge this.

    `reads` lists files and folders that would be shown, `changes` files that exist and would be
    changed, `creates` those that would be new, `deletion` what undo would bring back; `command` is
    the exact shell command and `folder` where it would run; `hosts` are the machines that would be
    reached and `sends` the text that would leave for them; `diff` has 3 lines of context.
    `read_only`: the command would run with the workspace read-only, as `CallContext` tells `run`.
    `contents` is a hash of the scripts that the command runs, None when it names none; `unbound`
    names a program of it that may run others. `confinement` describes what confines the command,
    `home_settings` earlier commands' files that may steer it. `outside_reason` says why it is to
    run outside of the sandbox. `prefix` is what a person may allow of it with any arguments,
    `network` those of `hosts` that they have to allow, `executables` programs in `creates`.
    """

    reads: tuple[Path, ...] = ()
    changes: tuple[Path, ...] = ()
    creates: tuple[Path, ...] = ()
    command: str | None = None
    folder: Path | None = None
    hosts: tuple[str, ...] = ()
    sends: str | None = None
    diff: str | None = None
    read_only: bool = False
    contents: str | None = None
    unbound: str | None = None
    confinement: str | None = None
    home_settings: tuple[str, ...] = ()
    outside_reason: str | None = None
    prefix: CommandPrefix | None = None
    network: tuple[str, ...] = ()
    executables: tuple[Path, ...] = ()
    deletion: Deletion | None = None

    def request(
        self,
        tool: "Tool",
        arguments: Mapping[str, Any],
        workspace: Path,
        taint: frozenset[Taint] = frozenset(),
        origin: TrustedOrigins | None = None,
    ) -> ToolRequest:
        """The call as the policy judges it; without `origin` the workspace counts as personal."""
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
            hosts=self.hosts,
            sends=self.sends,
            read_only=self.read_only,
            outside_reason=self.outside_reason,
            network=self.network,
            deletion=self.deletion,
            taint=taint,
            traits=traits,
            executables=self.executables,
            foreign=creates_files and origin is not None and origin.is_foreign(workspace, taint),
        )


class ToolSource(Protocol):
    """Tools that come and go while an agent lives, such as those of servers.

    `load` gets to know them before a turn, and returns what a person should be told. `tools` are
    known now: the same tuple until they change. `taint_of` is what telling a model of these brings
    into the conversation. `search_tools` find and call some of them where they are too many.
    `starting` names what brings tools in a moment.
    """

    def taint_of(self, names: Collection[str]) -> frozenset[Taint]: ...
    async def load(self) -> Sequence[str]: ...
    def tools(self) -> "tuple[Tool, ...]": ...
    def starting(self) -> Sequence[str]: ...
    def search_tools(self, names: Collection[str]) -> "tuple[Tool, ...]": ...
    async def aclose(self) -> None: ...


class Tool(Protocol):
    """Something the model can do.

    `effect` decides what happens after a crash: `read` and `idempotent` calls run again, an
    `unsafe` one that had started is reported as "outcome unknown". `run` raises `ToolError` for
    failures that the model should read; anything else is a bug.
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
    """Optional ability of a tool: say what its results bring into a session, whatever they hold.

    A tool without it brings both: where its words come from is unknown.
    """

    @property
    def brings(self) -> frozenset[Taint]: ...


@runtime_checkable
class ChoosesToAsk(Protocol):
    """A tool whose author says whether its calls need a person's consent."""

    asks: bool


@runtime_checkable
class HasForeignSchema(Protocol):
    """A tool whose schema comes from another program: it is looked at only for calls that the
    policy does not deny."""

    has_foreign_schema: bool


@runtime_checkable
class SettlesConsent(Protocol):
    """A tool whose settings say whether its calls ask, where the policy cannot see what they do:
    in every mode but `plan`, which lets none of them run."""

    @property
    def consent(self) -> Decision: ...


@runtime_checkable
class StandsForOthers(Protocol):
    """A tool whose calls are calls of others, which it names."""

    def stands_for(self, call: ToolCall) -> ToolCall: ...


@runtime_checkable
class LimitsOutput(Protocol):
    """A tool whose results may be longer, or must be shorter, than those of all others."""

    output_limit_bytes: int


@runtime_checkable
class LongRunning(Protocol):
    """Optional ability of a tool: what it does has limits of its own, and may take longer than
    other calls."""

    @property
    def lasts(self) -> bool: ...


@runtime_checkable
class SupportsClose(Protocol):
    """Optional ability of a tool: let go of all that it holds; nothing is called afterwards."""

    async def aclose(self) -> None: ...


@runtime_checkable
class SessionScoped(Protocol):
    """Optional ability of a tool: let go of what belongs to a session that has ended."""

    async def end(self, session: str) -> None: ...


@frozen
class BackgroundTask:
    """Work that goes on in the background, or did: what a person calls it by, and how it is.

    It was begun at `began_at` (Unix time); `last_line` is the last that it has printed.
    """

    id: str
    title: str
    state: str
    is_running: bool
    began_at: float = 0.0
    last_line: str = ""


@frozen
class TaskOutput:
    """What a task has printed from byte `begin` to byte `end` of all its output."""

    text: str
    begin: int
    end: int


@runtime_checkable
class HasBackgroundWork(Protocol):
    """Optional ability of a tool: it has work that goes on between turns.

    `tasks` is that of a session, and `kill` ends one of it; False when none is called so. `facts`
    are short words for the model at the beginning of a session's next turn. Any thread may ask for
    these three. `output` is what one has printed behind a position, as far as that is kept; None
    when none is called so. `mark_reported` says that such a turn has begun. `background_taint` is
    what that work may bring into any file of a workspace, as long as it goes on.
    """

    def tasks(self, session: str) -> Sequence[BackgroundTask]: ...
    def kill(self, session: str, id: str) -> bool: ...
    def output(self, session: str, id: str, position: int) -> TaskOutput | None: ...
    def facts(self, session: str) -> Sequence[str]: ...
    def mark_reported(self, session: str) -> None: ...
    def background_taint(self, workspace: Path) -> frozenset[Taint]: ...


@runtime_checkable
class TracksFileViews(Protocol):
    """Optional ability of a tool: it shows files, and keeps what was seen of them."""

    @property
    def views(self) -> FileViews: ...


@runtime_checkable
class DescribesEffects(Protocol):
    """Optional ability of a tool: say what a call will do. Raises `ToolError` when it cannot."""

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan: ...
