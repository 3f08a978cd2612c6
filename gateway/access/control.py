"""Who may speak, who owns the place, and whose memory a message may see."""

import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from agent.records import frozen
from agent.security.files.paths import user_inbox_dir
from gateway.channels.chat_settings import ChatSettingsIndex
from gateway.core.messages import CONSOLE, InboundMessage
from gateway.core.token_routes import API

log = logging.getLogger(__name__)

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARS = 120


@lru_cache(maxsize=8)
def owner_memory(workspace: Path) -> Path:
    """The owner's memory file; each turn asks several times."""
    return workspace / "memory" / "MEMORY.md"


@frozen
class PairedMembers:
    """Who was let in by pairing: (channel, account, sender id), and the owner among them."""

    owner: str | None = None
    people: frozenset[tuple[str, str, str]] = frozenset()


def _no_role(_: str) -> str | None:
    return None


@dataclass(slots=True)
class AccessControl:
    """`allow` lists sender ids by channel and account; `"*"` is everybody.

    `roles` names a role for a person ("CHANNEL:ID"), a chat ("CHANNEL:chat:ID") or a
    channel. `circle` is replaced as a whole when a person is paired or revoked. The
    console is always the owner's: only the owner's user id can open its socket and files.
    `token_role` names the role of an access token; None for one that has none, or is revoked.
    """

    owner: str | None
    allow: Mapping[tuple[str, str], Sequence[str]]
    roles: Mapping[str, str] = field(default_factory=dict)
    members: PairedMembers = field(default_factory=PairedMembers)
    chat_settings: ChatSettingsIndex = field(default_factory=ChatSettingsIndex)
    token_role: Callable[[str], str | None] = _no_role

    @property
    def owner_id(self) -> str | None:
        """The owner: the configured one beats the one that pairing has made."""
        return self.owner or self.members.owner

    def is_allowed(self, message: InboundMessage) -> bool:
        if message.channel == API:
            return self._is_known(message)
        allowed = self.allow.get((message.channel, message.account), ())
        return self.is_owner(message) or self._is_known(message) or "*" in allowed

    def is_owner(self, message: InboundMessage) -> bool:
        if message.channel == API:
            return False
        return message.channel == CONSOLE or message.principal == self.owner_id

    def is_private_owner(self, message: InboundMessage) -> bool:
        """The owner, in a private chat or the terminal."""
        return message.private and self.is_owner(message)

    def is_untrusted(self, message: InboundMessage) -> bool:
        """Whether what is said here may come from anybody: in a group, from people who are let in
        like everybody, and in what a person passes on. Who is known speaks for themselves, in
        private."""
        if message.is_report:
            return "untrusted" in message.options.taint
        is_known = self.is_owner(message) or self._is_known(message)
        return message.forwarded or not (message.private and is_known)

    def role(self, message: InboundMessage) -> str:
        """The sender's role, in groups too: the owner has `build` everywhere.

        A person's role beats that of the topic, that one the chat's, and that one the channel's.
        Without any, people who were let in by name are `general`, and those who are let in like
        everybody `guest`. An access token has the role that it was made with.
        """
        if message.channel == API:
            return self.token_role(message.sender.id) or "guest"
        if self.is_owner(message):
            return "build"
        if message.principal not in self.roles and (
            role := self.chat_settings.of(message.route).role
        ):
            return role
        names = self.chat_settings.names(message.route)
        chats = (f"{message.channel}:chat:{name}" for name in names)
        for key in (message.principal, *chats, message.channel):
            if key in self.roles:
                return self.roles[key]
        return "general" if self._is_known(message) else "guest"

    def memory(self, workspace: Path, message: InboundMessage) -> Path:
        """The memory file for this message.

        The owner's own is for private talk only: in a group, whatever Kore remembers could be
        read back by everybody there, so a group has its own memory.
        """
        if self.is_private_owner(message):
            return owner_memory(workspace)
        folder = workspace / "memory"
        whose = message.sender.id if message.private else message.chat_id
        return folder / message.channel / folder_name(whose) / "MEMORY.md"

    def inbox(self, workspace: Path, message: InboundMessage) -> Path:
        """The folder for files that come with this message; who sees the memory sees them."""
        return user_inbox_dir(workspace, self.memory(workspace, message))

    def folder(self, workspace: Path, message: InboundMessage) -> Path:
        """Where relative paths start: the console may choose another folder, and the configuration
        may give a chat one."""
        if message.channel == CONSOLE and message.options.cwd is not None:
            # Not resolved again: a client has done that when the person chose the folder.
            return Path(os.path.abspath(message.options.cwd))
        return self.chat_settings.of(message.route).folder or workspace

    def _is_known(self, message: InboundMessage) -> bool:
        """On the list by number, or paired; an access token as long as it counts."""
        if message.channel == API:
            return self.token_role(message.sender.id) is not None
        where = message.channel, message.account
        return message.sender.id in self.allow.get(where, ()) or (
            (*where, message.sender.id) in self.members.people
        )


def folder_name(id_: str) -> str:
    """A plain name for a platform's id; two ids never share one."""
    name = _UNSAFE.sub(lambda match: f"%{ord(match[0]):x}.", id_)
    if 0 < len(name) <= _NAME_CHARS:
        return name
    return f"%{hashlib.sha256(id_.encode(errors='surrogatepass')).hexdigest()}"


def log_paired_members(channels: Iterable[tuple[str, str]], access: AccessControl) -> None:
    """Warnings at each start: about a bot that anyone, or no one, can use."""
    for channel, account in channels:
        allowed = access.allow.get((channel, account), ())
        name = f"{channel}:{account}"
        if channel in (CONSOLE, API):
            continue
        if "*" in allowed:
            log.warning('%s: allow_from is ["*"]: anyone can use this bot', name)
        elif access.owner_id is None:
            log.warning(
                "%s: this Kore has no owner yet: message the bot in private, then run "
                "`kore pair approve CODE` with the code in its reply",
                name,
            )
        elif not allowed:
            log.info("%s: allow_from is empty: strangers get a code for the owner", name)
