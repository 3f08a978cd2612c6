"""What a token needs for a call, and what it may not say without being an admin's."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent.errors import PolicyDenied
from agent.i18n import t
from gateway.control.service import Service
from gateway.core.messages import CONSOLE, InboundMessage, console_principal
from gateway.media.uploads import is_inbox_path
from gateway.server.tokens import AccessToken, Scope

# All that is not named here is for admins.
_SCOPES: dict[str, Scope] = {
    Service.watch.__name__: "read",
    Service.follow_session.__name__: "read",
    Service.follow_sessions.__name__: "read",
    Service.list_approvals.__name__: "read",
    Service.list_sessions.__name__: "read",
    Service.bound_session.__name__: "read",
    Service.last_session.__name__: "read",
    Service.preview_session.__name__: "read",
    Service.load_messages.__name__: "read",
    Service.queue_mode.__name__: "read",
    Service.conversation_status.__name__: "read",
    Service.background_tasks.__name__: "read",
    Service.list_tasks.__name__: "read",
    Service.read_task.__name__: "read",
    Service.stop_task.__name__: "chat",
    Service.search_messages.__name__: "read",
    Service.export_session.__name__: "read",
    Service.list_jobs.__name__: "read",
    Service.status.__name__: "read",
    Service.list_commands.__name__: "read",
    Service.list_agents.__name__: "read",
    Service.list_models.__name__: "read",
    Service.message_outcome.__name__: "read",
    Service.read_sent_file.__name__: "read",
    Service.store_picture.__name__: "chat",
    Service.begin_upload.__name__: "chat",
    Service.continue_upload.__name__: "chat",
    Service.send_message.__name__: "chat",
    Service.call_model.__name__: "chat",
    Service.create_session.__name__: "chat",
    Service.stop_session.__name__: "chat",
    Service.fork_session.__name__: "chat",
    Service.rename_session.__name__: "chat",
    Service.set_session_status.__name__: "chat",
    Service.answer_approval.__name__: "approve",
}


def scope_of(call: str) -> Scope:
    return _SCOPES.get(call, "admin")


def check_call(token: AccessToken, call: str, arguments: Mapping[str, Any]) -> None:
    """Raises `PolicyDenied` for a call that this token is not for."""
    if token.role is not None:
        raise PolicyDenied(
            t("the token {name} has a role, and can only talk with Kore", name=token.name)
        )
    scope = scope_of(call)
    if not token.allows(scope):
        raise PolicyDenied(t("{call} needs a token with the scope {scope}", call=call, scope=scope))
    if token.allows("admin"):
        return
    if call == Service.send_message.__name__:
        check_message(token, arguments)
    if call == Service.store_picture.__name__ and arguments.get("token"):
        raise PolicyDenied(t("pictures of others need a token with the scope admin"))
    if call == Service.watch.__name__ and arguments.get("folder") is not None:
        raise PolicyDenied(t("folders of this machine need a token with the scope admin"))


def as_owner(call: str, values: dict[str, Any]) -> dict[str, Any]:
    """What an admin's client says of who speaks is what it knows of its own machine: here it is the
    owner. Raises `PolicyDenied` for words in the name of others."""
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
    """Who may only speak cannot give leave by speaking: no command, no mode that asks less. Raises
    `PolicyDenied`."""
    if str(arguments.get("text", "")).lstrip().startswith("/"):
        raise PolicyDenied(t("commands need a token with the scope admin"))
    if arguments.get("mode") not in (None, "plan", "ask") and not token.allows("approve"):
        raise PolicyDenied(
            t(
                "the mode {mode} needs a token with the scope approve",
                mode=arguments.get("mode"),
            )
        )
    if any(_names_a_path(one) for one in arguments.get("media", ())):
        raise PolicyDenied(t("files by their paths need a token with the scope admin"))


def _names_a_path(media: Any) -> bool:
    """Whether it is a file that was not uploaded: of those, the inbox knows what they are."""
    path = media.get("path") if isinstance(media, Mapping) else None
    return bool(path) and not (isinstance(path, str) and is_inbox_path(path))
