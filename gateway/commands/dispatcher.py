"""Dispatcher of chat commands, and the records that a command receives."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from agent.agent import Agent
from agent.errors import ConfigError, KoreError, ProviderError
from agent.i18n import t
from agent.records import frozen
from agent.security.policy.base import PermissionMode
from agent.tools.runner import Permissions
from agent.turn.context_usage import PromptAudience
from gateway.access.control import AccessControl
from gateway.access.pairing_service import PairingService
from gateway.commands import argument_of, command_named, command_of
from gateway.commands.declaration import Answer, ChatCommand
from gateway.commands.skill_calls import CommandReader
from gateway.core import keyboard
from gateway.core.errors import WITHHELD, CommandRefused
from gateway.core.markdown import escape_markdown
from gateway.core.messages import Button, InboundMessage
from gateway.core.platform_limits import ButtonLimits
from gateway.core.records import CommandAnswer, TypedCommand
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.user_language import UserLanguages
from gateway.runtime.paths import DataDir
from gateway.store.port import Store, Transaction
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.execution.claims import CommandClaim
from gateway.turns.goals import GoalService

log = logging.getLogger(__name__)


class MessagePermissions(Protocol):
    """Folders and permissions of people: `gateway.turns.permissions`."""

    def audience(self, message: InboundMessage) -> PromptAudience: ...
    def memory(self, message: InboundMessage) -> Path: ...
    def working_dir(self, message: InboundMessage) -> Path: ...
    def permissions(
        self, messages: Sequence[InboundMessage], session: str, mode: str | None, *, turn: int
    ) -> Permissions: ...


class JobCommands(Protocol):
    """Commands about scheduled jobs: `gateway.scheduler.service.JobService`."""

    def handle_chat(
        self, tx: Transaction, message: InboundMessage, argument: str, session: str | None
    ) -> str: ...

    def choices(self, tx: Transaction, message: InboundMessage) -> list[tuple[str, str]]: ...


@frozen
class CommandServices:
    """Services that all commands share.

    `status` describes the running process for /status; only the owner sees it. `default_mode`
    returns a channel's initial mode. `compact` compacts a conversation and returns a sentence about
    it.
    """

    home: DataDir
    agent: Agent
    database: Store
    access: AccessControl
    pairing: PairingService
    permissions: MessagePermissions
    status: Callable[[], dict[str, Any]]
    default_mode: Callable[[str], PermissionMode]
    compact: Callable[[CommandClaim, str], Awaitable[str]]
    renderer: ReplyRenderer
    languages: UserLanguages
    jobs: JobCommands
    goals: GoalService


@frozen
class CommandCall:
    """A command as it was typed; `argument` is the text after its name."""

    name: str
    argument: str
    claim: CommandClaim
    now: float
    services: CommandServices

    @property
    def message(self) -> InboundMessage:
        return self.claim.message

    def reason(self, exc: KoreError) -> str:
        """Return the reason why a command failed, as markdown."""
        is_internal = isinstance(exc, ProviderError | ConfigError)
        if is_internal and not self.services.access.is_private_owner(self.message):
            log.warning("a command failed: %s (%s)", exc, exc.code)
            return t(WITHHELD)
        # The message may quote names and paths.
        return escape_markdown(f"{exc}\n{exc.hint}" if exc.hint else str(exc))

    @property
    def is_owner(self) -> bool:
        return self.services.access.is_owner(self.claim.message)

    @property
    def session(self) -> str | None:
        """The chat's current conversation; None before its first one."""
        return self.claim.session

    @property
    def folder(self) -> Path:
        """Folder that this chat works in."""
        return self.services.access.folder(self.services.agent.workspace.folder, self.message)

    def begun_session(self, tx: Transaction) -> str:
        """Return the chat's current conversation, creating one if needed."""
        return self.session or sessions.create_session(
            tx, self.message.principal, self.now, lane=self.message.session_key
        )


@frozen
class CommandDispatcher:
    """Dispatcher that runs the functions of commands."""

    services: CommandServices
    reader: CommandReader

    def read(self, message: InboundMessage) -> TypedCommand | None:
        return self.reader.read(message)

    def is_command(self, message: InboundMessage) -> bool:
        return self.reader.is_command(message)

    def takes_time(self, claim: CommandClaim) -> bool:
        return self._command(claim).takes_time

    def carry_out(self, tx: Transaction, claim: CommandClaim, now: float) -> CommandAnswer:
        """Run a quick command in the transaction that stores its answer; return the answer."""
        call = self._call(claim, now)
        try:
            return _as_answer(_function(self._command(claim).answer)(call, tx))
        except CommandRefused as exc:
            return CommandAnswer(str(exc), "refused")

    def buttons(
        self, tx: Transaction, claim: CommandClaim, now: float, limits: ButtonLimits
    ) -> tuple[Button, ...]:
        """Return the buttons with the choices of a command typed without arguments."""
        call, choices = self._call(claim, now), self._command(claim).choices
        if call.argument or choices is None:
            return ()
        return keyboard.buttons(_function(choices)(call, tx), claim.session, limits)

    async def work(self, claim: CommandClaim, now: float) -> CommandAnswer:
        """Run a slow command; return the answer."""
        call = self._call(claim, now)
        try:
            return _as_answer(await _function(self._command(claim).answer)(call))
        except CommandRefused as exc:
            return CommandAnswer(str(exc), "refused")
        except KoreError as exc:
            return CommandAnswer(f"⚠️ {call.reason(exc)}", "refused")

    def _call(self, claim: CommandClaim, now: float) -> CommandCall:
        name = command_of(claim.message)
        assert name is not None, "only commands are claimed as commands"
        return CommandCall(
            name=name,
            argument=argument_of(claim.message),
            claim=claim,
            now=now,
            services=self.services,
        )

    def _command(self, claim: CommandClaim) -> ChatCommand:
        return command_named(command_of(claim.message) or "")


def _as_answer(answer: Answer) -> CommandAnswer:
    return CommandAnswer(answer) if isinstance(answer, str) else answer


def _function(path: str) -> Any:
    """Import a function that the table names as "module.function"."""
    module, name = path.split(".")
    return getattr(import_module(f"gateway.commands.{module}"), name)
