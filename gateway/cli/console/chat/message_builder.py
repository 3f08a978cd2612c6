"""Builder for the messages of a terminal conversation."""

import getpass
import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from agent.i18n import current_locale
from agent.providers.effort import EFFORTS
from agent.records import frozen
from agent.security.policy.base import is_mode
from agent.serialization import safe_text
from gateway.cli.console.chat.workdir import ConsoleWorkdir, media_of
from gateway.commands import command_in, find_command
from gateway.core.messages import InboundMessage, Media, MessageOptions, QueueMode, Route, Sender

if TYPE_CHECKING:
    from agent.context.project.context import ProjectContext
    from agent.skills.commands import CustomCommands, Invocation
    from gateway.cli.console.input.file_mentions import FileMention

CHANNEL = "cli"
ACCOUNT = "local"
# Number of recent commands to report to the model. Each has its own size limit.
_MAX_RUNS = 8


@frozen
class MessageBuilder:
    """Builder for the messages of one chat of the console channel.

    `options` apply to every message (see `InboundMessage`). The next message also carries the
    changes in `project` and the `user_commands` that ran with `!` since the previous message. Files
    of the `workdir` are attached if the text mentions them. `commands` are the prompts that a
    message can invoke.
    """

    chat_id: str
    options: MessageOptions = MessageOptions()
    project: "ProjectContext | None" = None
    workdir: ConsoleWorkdir | None = None
    user_commands: deque[Mapping[str, Any]] = field(default_factory=lambda: deque(maxlen=_MAX_RUNS))
    commands: "CustomCommands | None" = None

    @property
    def lane(self) -> str:
        return Route(CHANNEL, ACCOUNT, self.chat_id).lane

    def mentions(self, text: str, pasted: Sequence[tuple[int, int]]) -> "FileMention | None":
        """Return the files that a line, or the text of the command in it, mentions with `@`."""
        if self.workdir is None:
            return None
        if text.startswith("/"):
            invocation = self.invocation_in(text)
            if invocation is None:
                return None
            text = invocation.prompt()
            pasted = () if invocation.is_trusted else [(0, len(text))]
        return self.workdir.mentions(text, pasted)

    def invocation_in(self, text: str) -> "Invocation | None":
        """Return the prompt that a line invokes, whose text Kore adds to the message."""
        commands = self.commands if self.workdir is None else self.workdir.custom_commands
        word = next(iter(text.split()), "")
        if commands is None or not word.startswith("/") or find_command(word[1:].lower()):
            return None
        return commands.invocation_in(text)

    def build(
        self,
        text: str,
        mentions: "FileMention | None" = None,
        *,
        queue: QueueMode | None = None,
    ) -> InboundMessage:
        """Return the message to send; `queue` selects its handling during a turn."""
        is_command = text.startswith("/") and self.invocation_in(text) is None
        if is_command and (command := command_in(text)) is not None and command.replaces_window:
            self.forget()
        return InboundMessage(
            channel=CHANNEL,
            account=ACCOUNT,
            chat_id=self.chat_id,
            sender=Sender(str(os.getuid()), _login()),
            event_id=os.urandom(16).hex(),
            content=safe_text(text),
            received_at=time.time(),
            options=replace(
                self.options, queue=queue, **({} if is_command else self._extras(mentions))
            ),
            media=() if is_command else self._pictures(mentions),
            language=current_locale(),
        )

    def take_back(self, message: InboundMessage) -> None:
        """Queue the extras of a rejected message for the next message."""
        runs = [*message.options.run, *self.user_commands]
        self.user_commands.clear()
        self.user_commands.extend(runs)
        if message.options.project is not None or message.media:
            self.forget()

    def without_options_of(self, text: str) -> "MessageBuilder":
        """Drop options of the command line that a command in `text` replaces."""
        unset = MessageOptions()
        values = {name: getattr(unset, name) for name in _options_replaced_by(text)}
        return replace(self, options=replace(self.options, **values))

    def forget(self) -> None:
        """Send the project context again, because it may no longer be in the context window."""
        if self.project is not None:
            self.project.forget()
        if self.workdir is not None:
            self.workdir.forget()

    def _pictures(self, mentions: "FileMention | None") -> tuple[Media, ...]:
        pictures = mentions.pictures if mentions is not None else []
        if self.project is not None:
            pictures = [*pictures, *self.project.new_pictures()]
        return media_of(dict.fromkeys(pictures)) if pictures else ()

    def _extras(self, mentions: "FileMention | None") -> dict[str, Any]:
        extras: dict[str, Any] = {}
        if self.user_commands:
            extras["run"] = tuple(self.user_commands)
            self.user_commands.clear()
        project = self.project
        files = [*mentions.files, *mentions.binary] if mentions is not None else []
        if project is None and files and self.workdir is not None:
            project = self.workdir.project()
        news = project.news(files) if project is not None else None
        if news is not None:
            update = {"text": safe_text(news.text), "taint": sorted(news.taint)}
            parts = [safe_text(part) for part in news.parts]
            extras["project"] = {**update, "evicted": news.evicted, "parts": parts}
        return extras


def _options_replaced_by(text: str) -> tuple[str, ...]:
    """Return the command-line options that a conversation command replaces."""
    match text.split():
        case ["/model", _, *_]:
            return ("model",)
        case ["/agent", _, *_]:
            return ("agent",)
        case ["/effort", level, *_] if level.casefold() in (*EFFORTS, "default"):
            return ("effort",)
        case ["/plan" | "/auto", *_]:
            return ("mode", "auto", "full_access")
        case ["/mode", mode, *_] if is_mode(mode.casefold()):
            return ("mode", "auto", "full_access")
    return ()


def _login() -> str:
    # Containers may use a user id without an account.
    with suppress(KeyError, OSError):
        return getpass.getuser()
    return ""
