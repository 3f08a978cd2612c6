"""Access control: permitted senders, the owner, roles, and the memory for a message."""

import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from agent.records import frozen
from agent.security.files.folder_identity import real_start_folder
from agent.security.files.paths import user_inbox_dir
from gateway.channels.chat_settings import ChatSettingsIndex
from gateway.core.messages import CONSOLE, InboundMessage
from gateway.core.token_routes import API

log = logging.getLogger(__name__)

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARS = 120


@lru_cache(maxsize=8)
def owner_memory(workspace: Path) -> Path:
    """Return the owner's memory file; cached, because each turn needs it several times."""
    return workspace / "memory" / "MEMORY.md"


@frozen
class PairedMembers:
    """People admitted by pairing as (channel, account, sender id), and the owner among them."""

    owner: str | None = None
    people: frozenset[tuple[str, str, str]] = frozenset()


def _no_role(_: str) -> str | None:
    return None


@dataclass(slots=True)
class AccessControl:
    """Access rules for messages.

    `allow` lists sender ids by channel and account; `"*"` is everyone. `roles` names a role for a
    person ("CHANNEL:ID"), a chat ("CHANNEL:chat:ID") or a channel. `members` is replaced as a whole
    when a person is paired or revoked. The console is always the owner's: only the owner's user id
    can open its socket and files. `token_role` returns the role of an access token; None for a
    token without a role or a revoked one.
    """

    owner: str | None
    allow: Mapping[tuple[str, str], Sequence[str]]
    roles: Mapping[str, str] = field(default_factory=dict)
    members: PairedMembers = field(default_factory=PairedMembers)
    chat_settings: ChatSettingsIndex = field(default_factory=ChatSettingsIndex)
    token_role: Callable[[str], str | None] = _no_role

    @property
    def owner_id(self) -> str | None:
        """The owner: the configured one overrides the paired one."""
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
        """Return whether the owner writes in a private chat or the terminal."""
        return message.private and self.is_owner(message)

    def is_untrusted(self, message: InboundMessage) -> bool:
        """Return whether the content may come from unknown people.

        This covers groups, people admitted only by a wildcard, and forwarded messages. Known people
        are trusted in private.
        """
        if message.is_report:
            return "untrusted" in message.options.taint
        is_known = self.is_owner(message) or self._is_known(message)
        return message.forwarded or not (message.private and is_known)

    def role(self, message: InboundMessage) -> str:
        """Return the sender's role, also in groups: the owner has `build` everywhere.

        A person's role overrides the topic's, which overrides the chat's, which overrides the
        channel's. Without any of these, people admitted by name are `general`, and people admitted
        by a wildcard are `guest`. An access token has the role that it was created with.
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
        """Return the memory file for this message.

        The owner's own memory is only for private conversations. In a group, everyone could read
        it, so a group has its own memory.
        """
        if self.is_private_owner(message):
            return owner_memory(workspace)
        folder = workspace / "memory"
        whose = message.sender.id if message.private else message.chat_id
        return folder / message.channel / folder_name(whose) / "MEMORY.md"

    def inbox(self, workspace: Path, message: InboundMessage) -> Path:
        """Return the folder for files of this message; readers of the memory can see them."""
        return user_inbox_dir(workspace, self.memory(workspace, message))

    def folder(self, workspace: Path, message: InboundMessage) -> Path:
        """Return the folder of the work.

        The console may choose another folder than the workspace, the configuration may set one for
        a chat, and Kore for a sub-agent.
        """
        if _names_folder(message) and message.options.cwd is not None:
            # Links are not resolved again, because the client did so when the person chose the
            # folder.
            return Path(os.path.abspath(message.options.cwd))
        return self.chat_settings.of(message.route).folder or workspace

    def start_folder(self, workspace: Path, message: InboundMessage) -> Path | None:
        """Return the folder inside `folder` where relative paths start; None for `folder`."""
        if not _names_folder(message) or message.options.start_folder is None:
            return None
        start_folder = Path(os.path.abspath(message.options.start_folder))
        return real_start_folder(self.folder(workspace, message), start_folder)

    def _is_known(self, message: InboundMessage) -> bool:
        """Return whether the sender is listed by id, paired, or a valid access token."""
        if message.channel == API:
            return self.token_role(message.sender.id) is not None
        where = message.channel, message.account
        return message.sender.id in self.allow.get(where, ()) or (
            (*where, message.sender.id) in self.members.people
        )


def _names_folder(message: InboundMessage) -> bool:
    """Return whether the folder in the options of a message counts."""
    # Kore itself writes the options of a sub-agent's task.
    return message.channel == CONSOLE or message.kind == "subagent_task"


def folder_name(id_: str) -> str:
    """Return a plain name for a platform's id; two ids never share a name."""
    name = _UNSAFE.sub(lambda match: f"%{ord(match[0]):x}.", id_)
    if 0 < len(name) <= _NAME_CHARS:
        return name
    return f"%{hashlib.sha256(id_.encode(errors='surrogatepass')).hexdigest()}"


def log_paired_members(channels: Iterable[tuple[str, str]], access: AccessControl) -> None:
    """Log at startup which bots anyone or no one can use."""
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
