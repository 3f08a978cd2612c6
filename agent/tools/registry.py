"""Registry of an agent's tools: fixed order, lookup by name and argument checks."""

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from agent.errors import ToolError
from agent.prompts import load_prompt
from agent.providers.base import ToolSpec, is_plain_name, plain_name
from agent.security.policy.base import SERVER_TOOLS
from agent.security.taint.taint import NOTHING
from agent.text.similar_names import folded, similar_names
from agent.tools.base import (
    BackgroundTask,
    CallContext,
    CommandFiles,
    HasBackgroundWork,
    SessionScoped,
    SharesFiles,
    StandsForOthers,
    SupportsClose,
    TaskOutput,
    Tool,
    ToolSource,
    TracksFileViews,
)
from agent.tools.call_arguments import canonical, without_namespace
from agent.tools.file_views import FileViews
from agent.tools.schema import ArgumentSchema, properties_of
from agent.tools.traits import UNKNOWN, ToolTraits, traits_of
from agent.types import Effect, JsonSchema, Taint, ToolCall, ToolPurpose

# Packages of the built-in tools.
_ROOMS = (
    *(f"agent.tools.{room}." for room in ("assistant", "files", "shell", "web")),
    "agent.code.",
)


@dataclass
class ToolHelp:
    """Additional help on one tool for models that work in a project.

    It explains when to use the tool and, by name, the meaning of its parameters. A plain
    conversation omits it to save tokens.
    """

    text: str = ""
    parameters: dict[str, str] = field(default_factory=dict)

    def describe(self, description: str) -> str:
        """Return a description extended with this text."""
        return f"{description} {self.text}".strip()

    def annotate(self, schema: JsonSchema) -> JsonSchema:
        """Return a schema with these descriptions of its own properties."""
        properties = {
            name: {**kind, "description": self.parameters[name]}
            if name in self.parameters
            else kind
            for name, kind in properties_of(schema).items()
        }
        return {**schema, "properties": properties} if properties else schema


NO_HELP = ToolHelp()


def project_help_on(tool: Tool) -> ToolHelp:
    """Return the help on a tool; empty for a program's tool with the name of a built-in one."""
    is_built_in = type(tool).__module__.startswith(_ROOMS)
    return project_help().get(tool.name, NO_HELP) if is_built_in else NO_HELP


@cache
def project_help() -> dict[str, ToolHelp]:
    """Return the help on each built-in tool that has one: `# NAME`, a text, `- PARAMETER: …`."""
    helps: dict[str, ToolHelp] = {}
    for line in load_prompt("tools/in_project").splitlines():
        if line.startswith("# "):
            help = helps[line.removeprefix("# ")] = ToolHelp()
        elif line.startswith("- "):
            name, _, text = line.removeprefix("- ").partition(": ")
            help.parameters[name] = text
        else:
            help.text = f"{help.text} {line}".strip()
    return helps


# Share of the model's window that tools of a source may take in each request.
_SOURCED_SHARE = 0.1
# Add the source of a session's tools to the existing source.
JoinSource = Callable[[ToolSource | None], ToolSource]


class ToolRegistry:
    """Tools by name, in the order given. A later tool replaces an earlier one of the same name."""

    def __init__(
        self,
        tools: Sequence[Tool],
        source: ToolSource | None = None,
        is_chosen: Callable[[str], bool] | None = None,
        wishes: Collection[str] = (),
    ) -> None:
        """Register the tools.

        `source` provides further tools, filtered by name. `wishes` are tools requested by name:
        models are offered all of them.
        """
        self._own_tools = tuple(tools)
        self._source, self._is_chosen = source, is_chosen
        self._wishes = frozenset(wishes)
        # Computed once: checking each tool's abilities costs more than most calls.
        self._lingering = [tool for tool in tools if isinstance(tool, HasBackgroundWork)]
        self._seeing = next((tool for tool in tools if isinstance(tool, TracksFileViews)), None)
        self._sharing = next((tool for tool in tools if isinstance(tool, SharesFiles)), None)
        self._nothing_seen = FileViews()
        self._aliases = {alias: tool.name for tool in tools for alias in traits_of(tool).aliases}
        self._index()

    def _index(self) -> None:
        """Index the current tools by their names."""
        self._sourced = self._source.tools() if self._source is not None else ()
        offers = {
            tool.name: tool
            for tool in self._sourced
            if self._is_chosen is None or self._is_chosen(tool.name)
        }
        own_by_name = {tool.name: tool for tool in self._own_tools}
        searching = self._source.search_tools(offers) if self._source is not None else ()
        self._searching = {tool.name: tool for tool in searching}
        self._tools = {**own_by_name, **offers, **self._searching, **own_by_name}
        # Approximate number of tokens in each request.
        self._sourced_tokens = sum(map(_tokens, offers.values()))
        self._sourced_names = frozenset(offers)
        # Taint that a list of all these tools brings into a conversation.
        self.taint = self._source.taint_of(offers) if self._source is not None else NOTHING
        self._folded = {folded(name): name for name in self._tools}
        self._traits = {name: traits_of(tool) for name, tool in self._tools.items()}
        self._purposes = {traits.purpose for traits in self._traits.values()}
        self.runs_commands = any(traits.runs_commands for traits in self._traits.values())
        self._sent_names = _assign_sent_names(self._tools)
        self._called = {sent_name: name for name, sent_name in self._sent_names.items()}
        self._schemas: dict[str, ArgumentSchema] = {}
        self._specs: dict[tuple[bool, bool, bool, bool], tuple[ToolSpec, ...]] = {}

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every tool, also those that a model is not offered now."""
        return tuple(self._tools.values())

    @property
    def starting(self) -> Sequence[str]:
        """Names of sources whose tools will appear shortly."""
        return () if self._source is None else self._source.starting()

    async def refresh(self) -> Sequence[str]:
        """Load the source's tools before a turn; return messages for the person."""
        if self._source is None:
            return ()
        notices = await self._source.load()
        if self._source.tools() is not self._sourced:
            self._index()
        return notices

    def specs(
        self,
        *,
        in_project: bool = False,
        window: int | None = None,
        skills: bool = True,
        patches: bool = False,
    ) -> tuple[ToolSpec, ...]:
        """Return the tools as the model sees them.

        Every call returns the same objects, so that a provider encodes them once, until a
        description changes: the description of `task` lists the available agents. In a project the
        built-in tools have longer descriptions, and tools that understand code are included. Tools
        of the source are listed by name only if they would take a tenth of the `window` (tokens).
        Without `skills` the tool for skills is omitted. With `patches`, the tool that edits files
        by patches replaces the tool that edits by strings.
        """
        by_name = window is not None and self._sourced_tokens > window * _SOURCED_SHARE
        hidden = {*(self._sourced_names if by_name else self._searching)}
        if not skills:
            hidden |= {name for name, each in self._traits.items() if each.purpose == "skills"}
        hidden |= self._other_editors(patches)
        listed_tools = [
            tool
            for tool in self._tools.values()
            if self._is_listed(tool, in_project) and tool.name not in hidden
        ]
        helps = [project_help_on(tool) if in_project else NO_HELP for tool in listed_tools]
        pairs = list(zip(listed_tools, helps, strict=True))
        descriptions = [help.describe(tool.description) for tool, help in pairs]
        key = (in_project, by_name, skills, patches)
        before = self._specs.get(key, ())
        if descriptions != [spec.description for spec in before]:
            before = self._specs[key] = tuple(
                ToolSpec(
                    self._sent_names[tool.name],
                    description,
                    help.annotate(tool.parameters),
                    getattr(tool, "grammar", None),
                    self._traits[tool.name].aliases,
                )
                for (tool, help), description in zip(pairs, descriptions, strict=True)
            )
        return before

    @property
    def views(self) -> FileViews:
        """File views of all conversations."""
        return self._seeing.views if self._seeing is not None else self._nothing_seen

    def tasks(self, session: str) -> list[BackgroundTask]:
        """Return the background tasks of a session."""
        return [task for tool in self._lingering for task in tool.tasks(session)]

    def kill(self, session: str, id: str) -> bool:
        """End a background task; return False if it does not exist."""
        return any(tool.kill(session, id) for tool in self._lingering)

    def output(self, session: str, id: str, position: int) -> TaskOutput | None:
        """Return the output of a background task after a position; None if it does not exist."""
        outputs = (tool.output(session, id, position) for tool in self._lingering)
        return next((task_output for task_output in outputs if task_output is not None), None)

    def shared_files(self, call: CallContext) -> CommandFiles | None:
        """Return the files that the owner's calls share with commands; None if there are none."""
        if self._sharing is None or not call.owner:
            return None
        return self._sharing.shared_files(call)

    async def facts(self, session: str) -> list[str]:
        """Return facts for the beginning of a turn: background work and changed files.

        Reading the disk may take time.
        """
        lingering = [fact for tool in self._lingering for fact in tool.facts(session)]
        if not self.views.has_any(session):
            return lingering
        return [*lingering, *await asyncio.to_thread(self.views.facts, session)]

    def mark_reported(self, session: str) -> None:
        """Record that the turn with the facts has begun."""
        self.views.mark_reported(session)
        for tool in self._lingering:
            tool.mark_reported(session)

    def background_taint(self, workspace: Path) -> frozenset[Taint]:
        """Return the taint that background work may bring into any file of a workspace."""
        return NOTHING.union(*(tool.background_taint(workspace) for tool in self._lingering))

    async def end(self, session: str) -> None:
        """Release the resources of a session."""
        self.views.end(session)
        for tool in self._tools.values():
            if isinstance(tool, SessionScoped):
                await tool.end(session)

    async def aclose(self) -> None:
        """Release all resources. A failure prevents no other release and is raised at the end."""
        async with AsyncExitStack() as stack:
            if self._source is not None:
                stack.push_async_callback(self._source.aclose)
            for tool in self._tools.values():
                if isinstance(tool, SupportsClose):
                    stack.push_async_callback(tool.aclose)

    def _other_editors(self, patches: bool) -> set[str]:
        """Return the editing tools of the other kind, if there are both kinds."""
        names: dict[bool | None, set[str]] = {True: set(), False: set(), None: set()}
        for name, traits in self._traits.items():
            names[traits.edits_by_patch].add(name)
        return names[not patches] if names[patches] else set()

    def _is_listed(self, tool: Tool, in_project: bool) -> bool:
        """Return whether models are offered the tool."""
        if not getattr(tool, "is_listed", True):
            return False
        if getattr(tool, "only_when_named", False):
            return tool.name in self._wishes
        is_general = not getattr(tool, "only_in_project", False)
        return in_project or is_general or tool.name in self._wishes

    def only(
        self, is_chosen: Callable[[str], bool], wishes: Collection[str] = ()
    ) -> "ToolRegistry":
        """Return a registry restricted to the tools chosen by name."""
        before = self._is_chosen

        def is_chosen_twice(name: str) -> bool:
            return is_chosen(name) and (before is None or before(name))

        own = [tool for tool in self._own_tools if is_chosen(tool.name)]
        return ToolRegistry(own, self._source, is_chosen_twice, wishes)

    def joined(self, join: JoinSource) -> "ToolRegistry":
        """Return a registry whose source is extended by `join`."""
        return ToolRegistry(self._own_tools, join(self._source), self._is_chosen, self._wishes)

    def effect(self, name: str) -> Effect:
        """Return the effect that the tool declares.

        An unknown tool has none ("read"), unless it belongs to a server: it may still appear, or
        may have disappeared with its session.
        """
        tool = self.find(name)
        if tool is not None:
            return tool.effect
        is_sourced = self._source is not None or name.startswith(SERVER_TOOLS)
        return "unsafe" if is_sourced else "read"

    def find(self, name: str) -> Tool | None:
        """Return the tool with this name or alias, with or without a namespace, or None."""
        return self._find(name) or self._find(without_namespace(name))

    def _find(self, name: str) -> Tool | None:
        if name in self._tools:
            return self._tools[name]
        if name in self._called:
            return self._tools[self._called[name]]
        spelled = folded(name)
        return self._tools.get(self._folded.get(spelled) or self._aliases.get(spelled, ""))

    def edits_text(self, is_chosen: Callable[[str], bool]) -> bool:
        """Return whether one of the tools that are chosen by name may edit text."""
        return any(each.edits_text and is_chosen(name) for name, each in self._traits.items())

    def traits(self, name: str) -> ToolTraits:
        """Return the traits of the tool with this name or alias, or `UNKNOWN`."""
        tool = self.find(name)
        return UNKNOWN if tool is None else self._traits[tool.name]

    def paths(self, call: ToolCall) -> Sequence[str]:
        """Return the files that a call touches, according to its arguments."""
        tool = self.find(call.name)
        if tool is None:
            return ()
        return self._traits[tool.name].paths(canonical(tool, call.arguments or {}))

    @property
    def file_reader(self) -> Tool | None:
        """Tool that shows the text of files."""
        tools = (self._tools[name] for name, each in self._traits.items() if each.shows_file)
        return next(tools, None)

    def has(self, purpose: ToolPurpose) -> bool:
        """Return whether a tool serves a purpose."""
        return purpose in self._purposes

    def resolved(self, call: ToolCall) -> ToolCall:
        """Return the call with the actual tool's name, and the arguments as the tool reads them.

        All judges of a call must see what the tool gets.
        """
        caller = self.find(call.name)
        target = caller.stands_for(call) if isinstance(caller, StandsForOthers) else call
        tool = self.find(target.name)
        if tool is None:
            # The agent may lack the other tool; the calling tool then reports the error.
            return call
        call = target
        arguments = call.arguments
        if arguments is not None:
            # A failure here occurs again when the call runs, and is reported there.
            with suppress(Exception):
                arguments = self.read(tool, arguments)
        return replace(call, name=tool.name, arguments=arguments)

    def name(self, called: str) -> str:
        """Return the name of the tool that a call means; an unknown name is unchanged."""
        tool = self.find(called)
        return tool.name if tool else called

    def get(self, name: str) -> Tool:
        """Return the tool. Raises ToolError with the closest name, or all names."""
        if (tool := self.find(name)) is not None:
            return tool
        close = similar_names(name.casefold(), self._tools)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(self._tools)}."
        raise ToolError(f"There is no tool {name[:80]!r}; {hint}")

    def validate(self, tool: Tool, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments under their canonical names.

        Raises ToolError for an invalid argument.
        """
        arguments = self.read(tool, args)
        self.check(tool, arguments)
        return arguments

    def read(self, tool: Tool, args: Mapping[str, Any]) -> dict[str, Any]:
        """Like `validate`, but without the check against the tool's schema."""
        return self._schema(tool).read(canonical(tool, args))

    def check(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        """Raise ToolError unless arguments from `read` fit the tool's schema."""
        self._schema(tool).check(arguments)

    def _schema(self, tool: Tool) -> ArgumentSchema:
        if (schema := self._schemas.get(tool.name)) is None:
            schema = self._schemas[tool.name] = ArgumentSchema(tool.name, tool.parameters)
        return schema


def _tokens(tool: Tool) -> int:
    """Return the approximate number of tokens of a tool in each request."""
    return len(json.dumps([tool.name, tool.description, tool.parameters], default=str)) // 4


def _assign_sent_names(names: Iterable[str]) -> dict[str, str]:
    """Return each tool's name in the form that vendors accept.

    If two names become equal, a digest that is stable across runs distinguishes them.
    """
    sent_names = {name: name for name in names if is_plain_name(name)}
    for name in names:
        if name in sent_names:
            continue
        plain = plain_name(name)
        if plain in sent_names.values():
            digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            plain = f"{plain[:55]}_{digest}"
        sent_names[name] = plain
    return sent_names
