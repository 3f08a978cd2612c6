"""Agent: a model, tools and rules, with `stream` and `run` as its entry points."""

import os
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack, get_origin, overload

from agent import events
from agent.approvals import FolderAccess
from agent.code.services import CodeServices
from agent.context.goal_judge import GoalJudge
from agent.context.project.session_projects import SessionProjects
from agent.context.system_prompt import Workspace
from agent.context.token_budget import TokenCalibration
from agent.errors import (
    BadOutput,
    ConfigError,
    GuardrailTripped,
    of_code,
)
from agent.events import Event
from agent.i18n import t
from agent.mcp.settings import McpServerSettings, McpSettings
from agent.per_loop import run_blocking
from agent.prompts import render_prompt
from agent.providers.base import Provider
from agent.providers.model_settings import ModelSettings, is_forced
from agent.providers.pool import ModelPool
from agent.run.content import Prompt, message_of
from agent.run.goals import GoalLimits, GoalResult, GoalRun
from agent.run.history import History, MemoryHistory, change_log_of
from agent.run.library import LibraryRun, reachable_agents
from agent.run.options import (
    ParallelOptions,
    RunOptions,
    built_in_names,
    last_words,
    new_session,
    with_earlier,
)
from agent.run.parallel import ParallelResults, run_parallel
from agent.run.permissions import permissions_of, with_full_access
from agent.security.policy.base import Approver, Ask, PermissionMode
from agent.security.redaction import Redactor
from agent.security.taint.worktree_record import WorktreeRecord
from agent.settings import AgentSettings
from agent.skills.tool import SkillTool
from agent.subagents.catalog import SubagentCatalog
from agent.subagents.definition import SubagentDefinition
from agent.subagents.handoff import Handoff, HandoffTool
from agent.subagents.profile import as_profile, roster
from agent.tools.base import AddedFolders, Tool, ToolEnvironment
from agent.tools.built_in import RegistryDefaults, default_tools
from agent.tools.file_views import FileViews
from agent.tools.function_tool import FunctionTool, read_tools
from agent.tools.registry import ToolRegistry
from agent.tools.run_context import DepsT
from agent.tools.runner import Permissions
from agent.turn.background_hooks import BackgroundHooks
from agent.turn.guardrails import Guardrails, InputGuardrail, OutputGuardrail
from agent.turn.hooks import Hooks
from agent.turn.offered_tools import OfferedTools
from agent.turn.request import TurnRequest
from agent.turn.tracing import Tracing
from agent.types import Message, OutputT, Result
from agent.undo.recorder import OpenChangeLog

if TYPE_CHECKING:
    from agent.code.watch.project_watches import ProjectWatches
    from agent.mcp.servers import McpServers
    from agent.skills.catalog import SkillCatalog
    from agent.subagents.in_process import InProcessSubagents
    from agent.turn.structured_output import StructuredOutput


# Number of retries for an answer that does not match `output_type`.
_MAX_SHAPE_RETRIES = 2


class Agent(Generic[DepsT]):
    """Agent: a model, tools and rules.

    `model` is a name (`vendor/model`), a `Provider`, or a `ModelPool` of several; without it, the
    model follows from a key in the environment, or is the offline fallback. `instructions` describe
    the agent and its task, and follow the prompt files; `model_settings` are settings of model
    calls. `tools` are added to the built-in tools, of which `builtin_tools` names those to include
    (None: all of them). `approve`, a function or an `Approver`, is asked about calls that need a
    person's consent; without it they are rejected. A `Permissions` object has its own policy.
    `mode` decides how much runs without a question (plan, ask, accept-edits, auto). With
    `full_access`, everything runs without a question, even outside of the workspace and regardless
    of the session's taint. `workspace` contains the prompt files and is the working folder of the
    tools (default: the current folder); files in `add_dirs` may be read and changed, too. The
    model's key and `settings.secrets` never appear in an event, result or message. `subagents` are
    available in addition to the built-in ones; `agent` is the agent that answers, as an object or
    by name; it determines the text, tools, model and mode. `changes` opens the journal of file
    changes that `undo` uses; a `JsonlHistory` has its own, other histories have none. `deps_type`
    is the type of the `deps` that each run passes to the program's own tools. `hooks` run before
    and after each call of a model or tool, guardrails before and after each turn. The conversation
    can be handed over to the agents in `handoffs`, which need a `name` each; `handoff_description`
    tells other agents when to hand over to this agent. `tracing` records spans
    (`kore.otel.OpenTelemetry`). The tools of `mcp_servers` and the catalogue of `skills` are
    available, too.
    """

    def __init__(  # noqa: PLR0913 - named parts of a public face, all of them optional
        self,
        model: str | Provider | ModelPool | None = None,
        *,
        instructions: str | None = None,
        model_settings: ModelSettings | None = None,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        builtin_tools: Collection[str] | None = None,
        history: History | None = None,
        approve: Ask | Approver | Permissions | None = None,
        mode: PermissionMode = "ask",
        full_access: bool = False,
        workspace: str | Path = ".",
        add_dirs: Sequence[str | Path] = (),
        settings: AgentSettings | None = None,
        subagents: Sequence[SubagentDefinition] | SubagentCatalog = (),
        agent: str | SubagentDefinition | None = None,
        changes: OpenChangeLog | None = None,
        name: str | None = None,
        handoffs: "Sequence[Agent[Any] | Handoff[Any]]" = (),
        handoff_description: str = "",
        deps_type: type[DepsT] | None = None,
        hooks: Sequence[Hooks[Any]] = (),
        input_guardrails: Sequence[InputGuardrail] = (),
        output_guardrails: Sequence[OutputGuardrail] = (),
        tracing: Tracing | None = None,
        mcp_servers: Sequence[McpServerSettings] | McpSettings = (),
        skills: "SkillCatalog | None" = None,
    ) -> None:
        """Raises `ConfigError` for an unknown agent or built-in tool, `TypeError` for an invalid
        tool.
        """
        self.settings = settings or AgentSettings()
        if full_access:
            self.settings = with_full_access(self.settings)
        self.models = model if isinstance(model, ModelPool) else ModelPool.of(model, os.environ)
        self.gauge = TokenCalibration()
        self.offered_tools = OfferedTools()
        self.redactor = Redactor(self.settings.secrets | self.models.keys())
        self._tools = read_tools(tools)
        self._instructions = instructions
        self._model_settings = model_settings
        self._builtin_names = None if builtin_tools is None else built_in_names(builtin_tools)
        self._toolbox: ToolRegistry | None = None
        self._tool_defaults = RegistryDefaults()
        self._making = threading.Lock()
        folder = Path(workspace).expanduser().resolve()
        self.workspace = Workspace(
            folder,
            self.settings.trusted_folders,
            is_all_project=self.settings.project,
            worktrees=self.settings.worktrees or WorktreeRecord(),
        )
        self._added = tuple(
            FolderAccess(Path(folder).expanduser().resolve(), is_writable=True)
            for folder in add_dirs
        )
        self._added_by_session: dict[str, AddedFolders] = {}
        catalog = (
            subagents
            if isinstance(subagents, SubagentCatalog)
            else SubagentCatalog(definitions=subagents)
        )
        self.subagents = catalog
        self._speaks = self._resolve_profile(agent)
        self.history = history or MemoryHistory()
        self.changes = changes or change_log_of(self.history)
        self._approve, self._mode, self._full_access = approve, mode, full_access
        self._deps_type = deps_type
        self.name = name or (self._speaks.name if self._speaks else "main")
        self.handoff_description = handoff_description
        # Can be extended before the first run, so that two agents can hand over to each other.
        self.handoffs: list[Agent[Any] | Handoff[Any]] = list(handoffs)
        self.hooks = tuple(hooks)
        self.background_hooks = BackgroundHooks()
        self.tracing = tracing
        self.skills = skills
        self._mcp_settings = mcp_servers
        self._mcp: McpServers | None = None
        self.code: CodeServices | None = None
        self.guardrails: Guardrails | None = None
        if input_guardrails or output_guardrails:
            self.guardrails = Guardrails(tuple(input_guardrails), tuple(output_guardrails))

    @property
    def toolbox(self) -> ToolRegistry:
        """Built-in and given tools, created when the first turn needs them.

        Thread-safe, because with two registries each would know only part of the running work.
        """
        with self._making:
            if self._toolbox is None:
                code = self._code_services()
                own = default_tools(
                    self.settings.tools, self._subagent_listing, self._tool_defaults
                )
                own += code.tools()
                names = self._builtin_names
                own = [tool for tool in own if names is None or tool.name in names]
                ways = [HandoffTool(handoff) for handoff in self.handoffs_by_name.values()]
                if self.skills is not None and names is None:
                    own.append(SkillTool(self.skills))
                self._toolbox = ToolRegistry(
                    [*own, *self._tools, *ways], self._mcp_source(), wishes=names or ()
                )
            return self._toolbox

    def _mcp_source(self) -> "McpServers | None":
        """Return the MCP servers in their current configuration."""
        if not self._mcp_settings and self._mcp is None:
            return None
        from agent.mcp.login_file import LoginOptions
        from agent.mcp.servers import McpServers

        configured = self._mcp_settings
        settings = (
            configured if isinstance(configured, McpSettings) else McpSettings(tuple(configured))
        )
        if self._mcp is None:
            logins = LoginOptions(self.redactor.learn)
            self._mcp = McpServers(settings, self.settings.tools, logins=logins)
        else:
            self._mcp.apply(settings)
        return self._mcp

    def _code_services(self) -> CodeServices:
        """Return language servers and other code services in their current configuration."""
        settings, trusted = self.settings, self.settings.trusted_folders
        if self.code is None or not self.code.is_like(settings.lsp, settings.tools, trusted):
            if self.code is not None:
                self.code.retire()
            parts = (settings.lsp, settings.tools, self._tool_defaults, trusted)
            self.code = CodeServices(*parts, lambda: self.watches)
        return self.code

    @cached_property
    def watches(self) -> "ProjectWatches":
        """Watches of folders, which report changed files to their subscribers."""
        from agent.code.watch.project_watches import ProjectWatches

        return ProjectWatches()

    @cached_property
    def projects(self) -> "SessionProjects":
        """Project information already given to each conversation."""
        return SessionProjects(self.workspace.origin, self.redactor.clean, self.settings.tools)

    @property
    def views(self) -> FileViews:
        """Files seen by conversations, and files written by their tools."""
        return self._tool_defaults.views

    @property
    def mcp(self) -> "McpServers | None":
        """MCP servers, created with the tools; None if there are none."""
        _ = self.toolbox
        return self._mcp

    @property
    def handoffs_by_name(self) -> Mapping[str, Handoff[Any]]:
        """Handoffs to other agents, by name. Raises `ConfigError` for a duplicate name."""
        ways: dict[str, Handoff[Any]] = {}
        for handoff in self.handoffs:
            way: Handoff[Any] = handoff if isinstance(handoff, Handoff) else Handoff(handoff)
            if way.agent.name in (self.name, *ways):
                raise ConfigError(t("two agents have the name {name}", name=way.agent.name))
            ways[way.agent.name] = way
        return ways

    @property
    def handoff_agents(self) -> "list[Agent[Any]]":
        """Agents that this one may hand over to."""
        # `Handoff` does not know the type of its agent.
        agents: list[Any] = [
            handoff.agent if isinstance(handoff, Handoff) else handoff for handoff in self.handoffs
        ]
        return agents

    def added_folders(self, session: str) -> AddedFolders:
        """Return the folders outside the workspace that a session may use."""
        return self._added_by_session.setdefault(session, AddedFolders(self._added))

    def forget_folders(self, session: str) -> None:
        """Forget the folders of a session that has ended."""
        self._added_by_session.pop(session, None)

    @property
    def has_tools(self) -> bool:
        """True once the tools are created; before that, no tool is active."""
        return self._toolbox is not None or self._tool_defaults.has_begun

    def reconfigure(self, other: "Agent[Any]") -> ModelPool | None:
        """Adopt the configuration of another agent, starting with the next turn.

        A running turn is unaffected. The tools keep their state (processes, files seen). Returns
        the previous models if they were replaced: the caller closes them once they are no longer
        used.
        """
        with self._making:
            old = None if other.models.is_like(self.models) else self.models
            self.models = self.models if old is None else other.models
            self.settings, self.subagents = other.settings, other.subagents
            self.workspace = other.workspace
            self._mcp_settings, self.skills = other._mcp_settings, other.skills
            self.hooks, self._tools = other.hooks, other._tools
            self.redactor.learn(other.settings.secrets | other.models.keys())
            self._toolbox = None
        return old

    @cached_property
    def _subagent_runner(self) -> "InProcessSubagents":
        from agent.subagents.in_process import InProcessSubagents

        return InProcessSubagents(self, self.subagents)

    def _subagent_listing(self) -> str:
        return roster(self.subagents.load())

    @overload
    async def run(
        self,
        prompt: Prompt,
        *,
        output_type: None = None,
        deps: DepsT | None = None,
        **options: Unpack[RunOptions],
    ) -> Result[None]: ...

    @overload
    async def run(
        self,
        prompt: Prompt,
        *,
        output_type: type[OutputT],
        deps: DepsT | None = None,
        **options: Unpack[RunOptions],
    ) -> Result[OutputT]: ...

    @overload
    async def run(
        self,
        prompt: Prompt,
        *,
        output_type: Any,
        deps: DepsT | None = None,
        **options: Unpack[RunOptions],
    ) -> Result[Any]: ...

    async def run(
        self,
        prompt: Prompt,
        *,
        output_type: Any = None,
        deps: DepsT | None = None,
        **options: Unpack[RunOptions],
    ) -> Result[Any]:
        """Run a turn and return its result. Raises the `KoreError` that ended the turn, if any.

        With `output_type` (a dataclass, a pydantic model, any type that pydantic supports) the
        answer is JSON of that shape, and `Result.output` the value. If the shape is wrong, the
        model is asked again, twice; then `BadOutput` is raised.
        """
        if output_type is None:
            return await self._run(prompt, deps, options, self.guardrails)
        from agent.turn.structured_output import StructuredOutput

        shape = StructuredOutput(output_type)
        once = options.get("session") is None
        options["session"] = name = options.get("session") or new_session()
        try:
            return await self._run_shaped(shape, await message_of(prompt), deps, options)
        finally:
            if once:
                await self.toolbox.end(name)

    async def run_goal(
        self,
        goal: str,
        *,
        limits: GoalLimits | None = None,
        deps: DepsT | None = None,
        **options: Unpack[RunOptions],
    ) -> GoalResult:
        """Work turn after turn until the model of the profile `quick` finds that the goal is met.

        The check after each turn reads the last messages. The work pauses at one of the `limits`
        (default: `GoalLimits()`), after a question, and after a turn that a person or a limit
        ended. Another call in the same session continues. Raises the `KoreError` that ended a turn
        or a check.
        """
        once = options.get("session") is None
        options["session"] = name = options.get("session") or new_session()

        async def run_turn(message: Message) -> Result[Any]:
            result = await self._run(message, deps, options, self.guardrails)
            self._drop_forced_call(options)
            return result

        work = GoalRun(
            goal,
            limits or GoalLimits(),
            name,
            self.history,
            GoalJudge(self.models, self.redactor),
            run_turn,
            is_plan=self.mode == "plan",
        )
        try:
            return await work.run()
        finally:
            if once:
                await self.toolbox.end(name)

    def _drop_forced_call(self, options: RunOptions) -> None:
        """Let the model choose its calls once the required one has been made."""
        if (settings := self._settings_of(options)) and is_forced(settings.tool_choice):
            options["tool_choice"] = "auto"

    async def _run_shaped(
        self, shape: "StructuredOutput", prompt: Message, deps: DepsT | None, options: RunOptions
    ) -> Result[Any]:
        def read(result: Result[Any]) -> Result[Any]:
            return replace(result, output=shape.read(last_words(result)))

        checks = later_checks = self.guardrails
        if checks is not None:
            checks = replace(checks, prompt=prompt, read_output=read)
            later_checks = replace(checks, input=())
        run = partial(self._run, deps=deps, options=options, is_data=True)
        result = await run(shape.request(prompt), guardrails=checks)
        self._drop_forced_call(options)
        for _ in range(_MAX_SHAPE_RETRIES):
            try:
                return read(result)
            except BadOutput as exc:
                again = render_prompt("output_again", reason=exc)
            result = with_earlier(result, await run(again, guardrails=later_checks))
        return read(result)

    async def _run(
        self,
        prompt: Prompt,
        deps: DepsT | None,
        options: RunOptions,
        guardrails: Guardrails | None,
        *,
        is_data: bool = False,
    ) -> Result:
        error: events.Error | None = None
        run = LibraryRun(self, prompt, deps, options, guardrails, is_data=is_data)
        async with aclosing(run.events()) as stream:
            async for event in stream:
                if isinstance(event, events.Error):
                    error = event
                elif isinstance(event, events.Done) and error is None:
                    return event.result
        assert error is not None, "a turn ends with Done"
        if isinstance(run.failure, GuardrailTripped):
            raise run.failure
        raise of_code(error.code, error.message, error.hint)

    @overload
    def run_sync(
        self,
        prompt: Prompt,
        *,
        output_type: None = None,
        deps: DepsT | None = None,
        **options: Unpack[RunOptions],
    ) -> Result[None]: ...

    @overload
    def run_sync(
        self,
        prompt: Prompt,
        *,
        output_type: type[OutputT],
        deps: DepsT | None = None,
        **options: Unpack[RunOptions],
    ) -> Result[OutputT]: ...

    @overload
    def run_sync(
        self,
        prompt: Prompt,
        *,
        output_type: Any,
        deps: DepsT | None = None,
        **options: Unpack[RunOptions],
    ) -> Result[Any]: ...

    def run_sync(
        self,
        prompt: Prompt,
        *,
        output_type: Any = None,
        deps: DepsT | None = None,
        **options: Unpack[RunOptions],
    ) -> Result[Any]:
        """Run a turn without an event loop. Raises `RuntimeError` within a running loop."""

        async def run() -> Result[Any]:
            try:
                result: Result[Any] = await self.run(
                    prompt, output_type=output_type, deps=deps, **options
                )
                return result
            finally:
                await self.models.release()

        return run_blocking(run)

    @overload
    async def parallel(
        self,
        prompts: Iterable[Prompt],
        *,
        limit: int = 4,
        output_type: None = None,
        deps: DepsT | None = None,
        **options: Unpack[ParallelOptions],
    ) -> ParallelResults[None]: ...

    @overload
    async def parallel(
        self,
        prompts: Iterable[Prompt],
        *,
        limit: int = 4,
        output_type: type[OutputT],
        deps: DepsT | None = None,
        **options: Unpack[ParallelOptions],
    ) -> ParallelResults[OutputT]: ...

    @overload
    async def parallel(
        self,
        prompts: Iterable[Prompt],
        *,
        limit: int = 4,
        output_type: Any,
        deps: DepsT | None = None,
        **options: Unpack[ParallelOptions],
    ) -> ParallelResults[Any]: ...

    async def parallel(
        self,
        prompts: Iterable[Prompt],
        *,
        limit: int = 4,
        output_type: Any = None,
        deps: DepsT | None = None,
        **options: Unpack[ParallelOptions],
    ) -> ParallelResults[Any]:
        """Run each prompt in its own session, up to `limit` at a time.

        A `KoreError` of a run is stored in `ParallelResults.errors` and does not stop other runs.
        """

        async def run(prompt: Prompt) -> Result[Any]:
            result: Result[Any] = await self.run(
                prompt, output_type=output_type, deps=deps, **options
            )
            return result

        return await run_parallel(prompts, run, limit)

    async def stream(
        self, prompt: Prompt, *, deps: DepsT | None = None, **options: Unpack[RunOptions]
    ) -> AsyncGenerator[Event]:
        """Yield the events of one turn; the last is `Done`. A prompt may contain pictures.

        Closing the iterator or cancelling the task stops the turn; the history stays valid. Without
        `session`, the turn is the first and only turn of a new session. `model` is the model of
        this turn, by its name or the name of a profile; `model_settings` and `tool_choice` take
        precedence over the agent's. `initial_messages` begin a new conversation.
        """
        run = LibraryRun(self, prompt, deps, options, self.guardrails)
        async with aclosing(run.events()) as stream:
            async for event in stream:
                yield event

    @property
    def mode(self) -> PermissionMode | None:
        """Permission mode; None if `approve` brings a policy of its own."""
        return None if isinstance(self._approve, Permissions) or self._full_access else self._mode

    def request(
        self, environment: ToolEnvironment, options: RunOptions, **values: Any
    ) -> TurnRequest:
        """Return the request for a turn of this agent; `values` are facts about the run."""
        task = TurnRequest(
            environment=environment,
            permissions=permissions_of(self._approve, self._mode, full_access=self._full_access),
            model=options.get("model"),
            model_settings=self._settings_of(options),
            hooks=self.hooks,
            watches=self.watches if self.settings.watch else None,
            **{"tracing": self.tracing, **values},
            # The newline prevents a text that ends with a file name from being read as a file.
            persona=f"{self._instructions}\n" if self._instructions else None,
        )
        return self._subagent_runner.sending(self._as_speaker(task))

    def check_deps(self, deps: DepsT | None) -> None:
        """Raise `ConfigError` for dependencies that do not fit the agent or one of its tools."""
        expected = self._deps_type
        if expected is not None and not isinstance(deps, get_origin(expected) or expected):
            raise ConfigError(
                t(
                    "deps: expected {expected}, found {value}",
                    expected=expected.__name__,
                    value=type(deps).__name__,
                )
            )
        for tool in self._tools:
            if isinstance(tool, FunctionTool):
                tool.check_deps(deps)

    def _settings_of(self, options: RunOptions) -> ModelSettings | None:
        """Return the settings of the turn, with the agent's settings as fallback."""
        settings = options.get("model_settings")
        if (choice := options.get("tool_choice")) is not None:
            settings = ModelSettings(tool_choice=choice).over(settings)
        return self._model_settings if settings is None else settings.over(self._model_settings)

    def _resolve_profile(self, agent: str | SubagentDefinition | None) -> SubagentDefinition | None:
        """Return the profile of an agent. Raises `ConfigError` for an unknown name."""
        if agent is None or isinstance(agent, SubagentDefinition):
            return agent
        folder = self.workspace.folder
        if (definition := self.subagents.find(agent, folder)) is None:
            names = ", ".join(self.subagents.load(folder))
            raise ConfigError(
                t("there is no agent {agent!r}; available: {names}", agent=agent[:80], names=names)
            )
        return definition

    def _as_speaker(self, task: TurnRequest) -> TurnRequest:
        """Return the turn as a turn of the configured `agent`."""
        if self._speaks is None:
            return task
        return as_profile(task, self._speaks, self)

    def turn(self, task: TurnRequest) -> AsyncGenerator[Event]:
        """Yield the events of a turn; history and durability are the caller's responsibility."""
        from agent.turn.runner import AgentTurn

        return AgentTurn(self, task).events()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End running work of the tools and close the connections to models.

        This includes the agents in `handoffs`. A failure prevents no other close and is raised at
        the end.
        """
        async with AsyncExitStack() as stack:
            for agent in reachable_agents(self):
                stack.push_async_callback(agent.close_own)

    async def close_own(self) -> None:
        """Close the agent as `aclose` does, without the agents in `handoffs`."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.models.aclose)
            stack.push_async_callback(self.background_hooks.aclose)
            if self.has_tools:
                stack.push_async_callback(self.toolbox.aclose)
            if "watches" in vars(self):
                stack.callback(self.watches.close)
