"""How settings name people, chats and roles: by numeric id, never by a name."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from agent.i18n import t


def _sender(value: Any) -> Any:
    """A numeric id, or "*" for everybody; a name can be taken over by somebody else."""
    if value == "*" or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}", value):
        return value
    raise ValueError(t('a numeric id (never a name), or "*" for everybody'))


def _principal(value: Any) -> Any:
    """An owner given by number alone is a Telegram id."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"telegram:{value}"
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return f"telegram:{value}"
    if isinstance(value, str) and value.partition(":")[0] and value.partition(":")[2]:
        return value
    raise ValueError(t('a numeric Telegram id, or "channel:id" such as "telegram:123456"'))


def _audience(value: str) -> str:
    """Whom a role is for: a person, a chat or a channel; the console is always the owner's."""
    if re.fullmatch(r"telegram(:[0-9]{1,20}|:chat:-?[0-9]{1,20})?", value):
        return value
    raise ValueError(t('"telegram:123" (a person), "telegram:chat:-100123" (a chat) or "telegram"'))


def _chat(text: str) -> str:
    if not re.fullmatch(r"-?[0-9]{1,20}(/[0-9]{1,20})?", text):
        raise ValueError(t('"-100123" (a chat) or "-100123/45" (a topic in it)'))
    return text


def _role(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,39}", text):
        raise ValueError(t('the name of a role, such as "general"'))
    return text


SenderId = Annotated[str, BeforeValidator(_sender)]
Principal = Annotated[str, BeforeValidator(_principal)]
Audience = Annotated[str, AfterValidator(_audience)]
ChatPlace = Annotated[str, AfterValidator(_chat)]
RoleName = Annotated[str, AfterValidator(_role)]
