"""Contributors of the gateway to the prompt of a turn."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.agent import Agent
from agent.context.active_skills import SKILL_TOOL
from agent.mcp.settings import tool_names
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.policy.base import ToolRequest
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.skills.authoring import find_skill_request, writing_request
from agent.skills.commands import BuiltInCommand, CustomCommands, Invocation
from agent.skills.definition import Skill
from agent.subagents import profile
from agent.turn.hooks import PromptExpansion
from gateway.core.messages import CONSOLE, InboundMessage
from gateway.store.port import Store
from gateway.store.repositories.conversations.choices import STYLE
from gateway.store.repositories.delivery.inbox import taint_of_quotes
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.turns.agents.styles import OutputStyle
from gateway.turns.permissions import TurnPermissions
from gateway.turns.prompt import TurnDraft, is_said, shown_taint

if TYPE_CHECKING:
    from gateway.media.shared_inbox import SharedInbox


@frozen
class AnswerStyle:
    """Implements `PromptContributor`: the selected style overrides the chat's persona.

    Sub-agents are not affected, because they answer in the form that their caller needs.
    """

    find: Callable[[str], OutputStyle | None]

    async def contribute(self, draft: TurnDraft) -> None:
        name = draft.claim.choices.get(STYLE)
        if name is None or not draft.reads_workspace:
            return
        style = await asyncio.to_thread(self.find, name)
        if style is not None:
            draft.audience = replace(draft.audience, persona=style.text)
            if not style.is_own:
                draft.taint |= UNTRUSTED


@frozen
class MessageTaint:
    """Implements `PromptContributor` for untrusted senders, quotes, files and project context."""

    database: Store
    permissions: TurnPermissions

    async def contribute(self, draft: TurnDraft) -> None:
        messages = draft.claim.messages
        # The taint of a sub-agent already includes its task.
        if draft.reads_workspace and any(map(self.permissions.is_untrusted, messages)):
            draft.taint |= UNTRUSTED
        draft.taint |= shown_taint(messages)
        quoting = [message for message in messages if message.quoted and not message.quoted_own]
        if quoting:
            draft.taint |= await self.database.transact(taint_of_quotes, quoting)


@frozen
class ReceivedFiles:
    """Implements `PromptContributor` for machines that share an inbox.

    The prompt names files that cannot be fetched.
    """

    inbox: "SharedInbox"

    async def contribute(self, draft: TurnDraft) -> None:
        failures = await self.inbox.bring(draft.claim.messages)
        if failures and not draft.is_resumed:
            draft.append("\n".join(f"[{failure}]" for failure in failures))
        await self.inbox.bring_pictures(draft.conversation.messages)


@frozen
class ServerQuoteReader:
    """Implements `PromptContributor` for resources and prompts that people name."""

    agent: Agent
    permissions: TurnPermissions

    async def contribute(self, draft: TurnDraft) -> None:
        servers = self.agent.mcp
        if servers is None:
            return
        from agent.mcp.quotes import named_servers, prompt_call, server_quotes

        for message in filter(is_said, draft.claim.messages):
            names = [
                name
                for name in named_servers(message.content, servers)
                if self._may_read(draft.claim, message, name)
            ]
            if (call := prompt_call(message.content, names)) is not None:
                name = f"{call.server}:{call.prompt}"
                draft.expansions.append(
                    PromptExpansion("mcp_prompt", name, call.arguments, "mcp", message.content)
                )
            if names and not draft.is_resumed:
                quotes = await server_quotes(message.content, servers, names)
                clean = self.agent.redactor.clean
                draft.append(*map(clean, quotes.texts), taint=quotes.taint)

    def _may_read(self, claim: TurnClaim, message: InboundMessage, server: str) -> bool:
        """Return whether the sender may read from this server without approval.

        Otherwise the model may call the server's tool, which requests approval.
        """
        from agent.mcp.resources import NAME

        permissions = self.permissions.permissions(
            (message,), claim.session, claim.mode, turn=claim.turn
        )
        request = ToolRequest(
            tool=tool_names([(server, NAME)])[server, NAME],
            effect="read",
            arguments={},
            workspace=self.permissions.working_dir(message),
        )
        return permissions.policy.decide(request).verdict == "allow"


@frozen
class SkillCalls:
    """Implements `PromptContributor`: the text of an invoked command or skill, and the skill's
    model and effort.

    The message of a resumed turn already contains the text.
    """

    agent: Agent
    permissions: TurnPermissions

    async def contribute(self, draft: TurnDraft) -> None:
        if self.agent.skills is None:
            return
        for message in filter(_may_call, draft.claim.messages):
            if self._may_use_skills(draft.claim, message):
                await self._add_skill(draft, message)

    async def _add_skill(self, draft: TurnDraft, message: InboundMessage) -> None:
        if (wish := find_skill_request(message.content)) is not None:
            if not draft.is_resumed:
                root = self.permissions.working_dir(message)
                is_tainted = "untrusted" in draft.taint
                folder = self.permissions.workspace
                draft.append(writing_request(wish, root, folder, is_tainted=is_tainted))
            return
        assert self.agent.skills is not None, "checked by the caller"
        commands = self.agent.skills.commands(self.permissions.working_dir(message))
        invocation = await asyncio.to_thread(commands.invocation_in, message.content)
        if invocation is None:
            await self._explain(draft, message, commands)
            return
        draft.expansions.append(_expansion(invocation, message.content))
        if invocation.skill is not None:
            self._apply_settings(draft, invocation.skill)
        if not draft.is_resumed:
            text = self.agent.redactor.clean(await asyncio.to_thread(invocation.text))
            draft.append(text, taint=NOTHING if invocation.is_trusted else UNTRUSTED)

    async def _explain(
        self, draft: TurnDraft, message: InboundMessage, commands: CustomCommands
    ) -> None:
        """Tell the model if several plugins have the skill that the message names."""
        names = await asyncio.to_thread(commands.equal_names, message.content)
        if names and not draft.is_resumed:
            listed = ", ".join(f"/{name}" for name in names)
            draft.append(render_prompt("skill_unclear", names=listed))

    def _apply_settings(self, draft: TurnDraft, skill: Skill) -> None:
        """Apply the model and the effort of a skill that belongs to the owner."""
        if not skill.is_own or skill.runs_apart:
            return
        if skill.model is not None and draft.claim.messages[-1].model is None:
            audience = draft.audience
            model, note = profile.model_for(self.agent.models, skill.model, None, audience.model)
            draft.audience = replace(audience, model=model)
            if note:
                self.agent.models.tell(note)
        if skill.effort is not None:
            draft.effort = skill.effort

    def _may_use_skills(self, claim: TurnClaim, message: InboundMessage) -> bool:
        """Return whether the sender may use skills without approval.

        Otherwise the model may call the tool, which requests approval. At the terminal, options may
        limit the tools of the model, but not what the person says.
        """
        if message.channel == CONSOLE:
            return True
        permissions = self.permissions.permissions(
            (message,), claim.session, claim.mode, turn=claim.turn
        )
        root = self.permissions.working_dir(message)
        request = ToolRequest(tool=SKILL_TOOL, effect="read", arguments={}, workspace=root)
        return permissions.policy.decide(request).verdict == "allow"


def _expansion(invocation: Invocation, text: str) -> PromptExpansion:
    """Return the invocation as hooks see it."""
    command, skill = invocation.command, invocation.skill
    if isinstance(command, BuiltInCommand):
        source = "builtin"
    elif skill is not None and not skill.is_own:
        source = "plugin"
    else:
        source = "user" if command.is_trusted else "project"
    return PromptExpansion("slash_command", command.name, invocation.arguments, source, text)


def _may_call(message: InboundMessage) -> bool:
    """Return whether a message contains only a person's own words, without untrusted content.

    A terminal shows the model files and the folder in addition to the words.
    """
    is_typed_here = message.channel == CONSOLE and message.kind == "message"
    return (
        message.content.startswith("/")
        and is_said(message)
        and not message.forwarded
        and (is_typed_here or not shown_taint([message]))
    )
