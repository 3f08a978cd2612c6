"""Who may speak, who owns the place, and whose memory a message may see."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.messages import InboundMessage

CONSOLE = "cli"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARS = 120


@dataclass(frozen=True, slots=True)
class Access:
    """`allow` lists sender ids by channel and account; `"*"` is everybody.

    The console is always the owner's: only the owner's user id can open its socket and files.
    """

    owner: str | None
    allow: Mapping[tuple[str, str], Sequence[str]]

    def is_allowed(self, message: InboundMessage) -> bool:
        if message.channel == CONSOLE or message.principal == self.owner:
            return True
        allowed = self.allow.get((message.channel, message.account), ())
        return "*" in allowed or message.sender.id in allowed

    def is_owner(self, message: InboundMessage) -> bool:
        return message.channel == CONSOLE or message.principal == self.owner

    def memory(self, workspace: Path, message: InboundMessage) -> Path:
        """The memory file for this message.

        The owner's own is for private talk only: in a group, whatever Kore remembers could be
        read back by everybody there, so a group has its own memory.
        """
        folder = workspace / "memory"
        if message.private and self.is_owner(message):
            return folder / "MEMORY.md"
        whose = message.sender.id if message.private else message.chat_id
        return folder / message.channel / _folder_name(whose) / "MEMORY.md"


def _folder_name(id_: str) -> str:
    """A plain name for a platform's id; two ids never share one."""
    name = _UNSAFE.sub(lambda found: f"%{ord(found[0]):x}.", id_)
    if 0 < len(name) <= _NAME_CHARS:
        return name
    return f"%{hashlib.sha256(id_.encode(errors='surrogatepass')).hexdigest()}"


def sole_owner(owner: str | None, telegram_allow: Sequence[str]) -> str | None:
    """The configured owner; without one, somebody who is alone on the allow-list."""
    if owner is None and len(telegram_allow) == 1 and telegram_allow[0] != "*":
        return f"telegram:{telegram_allow[0]}"
    return owner
