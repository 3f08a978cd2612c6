"""Who speaks in this terminal, and how their words become messages."""

import getpass
import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from agent.i18n import current_locale
from agent.records import frozen
from agent.security.policy.base import is_mode
from agent.serialization import safe_text
from gateway.cli.console.chat.workdir import ConsoleWorkdir, media_of
from gateway.commands import find_command
from gateway.core.messages import InboundMessage, Media, MessageOptions, Route, Sender

if TYPE_CHECKING:
    from agent.context.project.context import ProjectContext
    from gateway.cli.console.chat.workdir import UserLine
    from gateway.cli.console.input.file_mentions import FileMention

CHANNEL = "cli"
ACCOUNT = "local"
# The latest commands that the model is told of, each bounded by itself.
_KEPT_RUNS = 8


@frozen
class MessageBuilder:
    """One chat of the console channel.

    `options` go with every message (see `InboundMessage`). With the next one go what is new in
    `project`, and the `user_commands` that were run with `!` since the last. Files of the
    `workdir` go along where they are named.
    """

    chat_id: str
    options: MessageOptions = MessageOptions()
    project: "ProjectContext | None" = None
    workdir: ConsoleWorkdir | None = None
    user_commands: deque[Mapping[str, Any]] = field(
        default_factory=lambda: deque(maxlen=_KEPT_RUNS)
    )

    @property
    def lane(self) -> str:
        return Route(CHANNEL, ACCOUNT, self.chat_id).lane

    def mentions(self, text: str, pasted: Sequence[tuple[int, int]]) -> "FileMention | None":
        """What the line points at with `@`."""
        return self.workdir.mentions(text, pasted) if self.workdir is not None else None

    def expand_command(self, text: str) -> "UserLine | None":
        """What is sent for a command that is a prompt."""
        return self.workdir.expand_command(text) if self.workdir is not None else None

    def build(
        self, text: str, mentions: "FileMention | None" = None, order: "UserLine | None" = None
    ) -> InboundMessage:
        return InboundMessage(
            channel=CHANNEL,
            account=ACCOUNT,
            chat_id=self.chat_id,
            sender=Sender(str(os.getuid()), _login()),
            event_id=os.urandom(16).hex(),
            content=safe_text(text),
            received_at=time.time(),
            options=replace(self.options, **_with(order, self._extras(text, mentions))),
            media=self._pictures(text, mentions),
            language=current_locale(),
        )

    def take_back(self, message: InboundMessage) -> None:
        """It was refused: what it was to bring along goes with the next one."""
        runs = [*message.options.run, *self.user_commands]
        self.user_commands.clear()
        self.user_commands.extend(runs)
        if message.options.project is not None or message.media:
            self.forget()

    def without_options_of(self, text: str) -> "MessageBuilder":
        """From a command on that chooses it, the conversation's own choice counts."""
        unset = MessageOptions()
        values = {name: getattr(unset, name) for name in _options_replaced_by(text)}
        return replace(self, options=replace(self.options, **values))

    def forget(self) -> None:
        """What was told of the folder may have left the window: it is told again."""
        if self.project is not None:
            self.project.forget()
        if self.workdir is not None:
            self.workdir.forget()

    def _pictures(self, text: str, mentions: "FileMention | None") -> tuple[Media, ...]:
        pictures = mentions.pictures if mentions is not None else []
        if self.project is not None and not text.startswith("/"):
            pictures = [*pictures, *self.project.new_pictures()]
        return media_of(dict.fromkeys(pictures)) if pictures else ()

    def _extras(self, text: str, mentions: "FileMention | None") -> dict[str, Any]:
        if text.startswith("/"):
            command = find_command(text.split()[0].removeprefix("/"))
            if command is not None and command.replaces_window:
                self.forget()
            return {}
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


def _with(order: "UserLine | None", news: dict[str, Any]) -> dict[str, Any]:
    """What a command says of itself goes along with what is told of the folder."""
    context = order.context if order is not None else {}
    if not context:
        return news
    project = news.get("project", {"text": "", "taint": [], "evicted": 0})
    text = "\n\n".join(part for part in (context["text"], project["text"]) if part)
    taint = sorted({*context["taint"], *project["taint"]})
    parts = [part for part in (context["text"], *project.get("parts", ())) if part]
    return {**news, "project": {**project, "text": text, "taint": taint, "parts": parts}}


def _options_replaced_by(text: str) -> tuple[str, ...]:
    """The options of the command line whose place a command of the conversation takes."""
    match text.split():
        case ["/model", _, *_]:
            return ("model",)
        case ["/agent", _, *_]:
            return ("agent",)
        case ["/thinking", "on" | "off" | "default", *_]:
            return ("thinking",)
        case ["/plan" | "/auto", *_]:
            return ("mode", "auto", "full_access")
        case ["/mode", mode, *_] if is_mode(mode.casefold()):
            return ("mode", "auto", "full_access")
    return ()


def _login() -> str:
    # A user id without an account, as containers have it.
    with suppress(KeyError, OSError):
        return getpass.getuser()
    return ""
