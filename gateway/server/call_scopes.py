"""Checks of calls and their arguments against the scopes of an access token."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent.errors import PolicyDenied
from agent.i18n import t
from agent.security.policy.base import PermissionMode
from agent.serialization import safe_text
from gateway.commands import command_name
from gateway.control.calls import Call
from gateway.control.service import Service
from gateway.core.messages import CONSOLE, InboundMessage, console_principal
from gateway.media.uploads import is_inbox_path
from gateway.server.tokens import AccessToken


def check_call(token: AccessToken, call: Call, arguments: Mapping[str, Any]) -> None:
    """Raise `PolicyDenied` for a call that the token does not allow."""
    if token.role is not None:
        raise PolicyDenied(
            t("the token {name} has a role, and can only talk with Kore", name=token.name)
        )
    scope = call.declaration.scope
    if not token.allows(scope):
        raise PolicyDenied(
            t("{call} needs a token with the scope {scope}", call=call.name, scope=scope)
        )
    if token.allows("admin"):
        return
    if call.name == Service.send_message.__name__:
        check_message(token, arguments)
    for name in call.admin_arguments(arguments):
        raise PolicyDenied(
            t(
                "{argument} of {call} needs a token with the scope admin",
                argument=name,
                call=call.name,
            )
        )


def mode_limit(token: AccessToken) -> PermissionMode | None:
    """Return the most permissive mode of a token's messages; None without a limit.

    It also limits the mode that was chosen for the conversation.
    """
    return None if token.allows("approve") or token.allows("admin") else "ask"


def as_owner(token: AccessToken, call: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with the owner as the sender, limited to what the token may grant.

    An admin's client knows only the user of its machine. Raises `PolicyDenied` for a message in
    another person's name.
    """
    if call == Service.send_message.__name__ and (limit := mode_limit(token)) is not None:
        return {**values, "mode_limit": limit}
    if call == Service.submit.__name__:
        message: InboundMessage = values["message"]
        if message.channel != CONSOLE:
            raise PolicyDenied(t("only a console's messages can be submitted"))
        options = replace(message.options, full_access=None)
        sender = replace(message.sender, id=str(os.getuid()))
        return {**values, "message": replace(message, sender=sender, options=options)}
    if call == Service.answer_approval.__name__:
        return {**values, "by": console_principal()}
    return values


def check_message(token: AccessToken, arguments: Mapping[str, Any]) -> None:
    """Raise `PolicyDenied` for a message that grants more than its token may.

    This applies to commands, modes that ask for fewer approvals, and files by path. Prompts such as
    skills grant nothing, and another word with a slash is no command.
    """
    if command_name(safe_text(str(arguments.get("text", "")))):
        raise PolicyDenied(t("commands need a token with the scope admin"))
    if arguments.get("mode") not in (None, "plan", "ask") and not token.allows("approve"):
        raise PolicyDenied(
            t(
                "the mode {mode} needs a token with the scope approve",
                mode=arguments.get("mode"),
            )
        )
    if any(_has_foreign_path(media) for media in arguments.get("media", ())):
        raise PolicyDenied(t("files by their paths need a token with the scope admin"))


def _has_foreign_path(media: Any) -> bool:
    """Return whether the path is outside the inbox, where uploaded files are."""
    path = media.get("path") if isinstance(media, Mapping) else None
    return bool(path) and not (isinstance(path, str) and is_inbox_path(path))
