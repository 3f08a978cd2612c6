"""`/add-dir`: folders outside the workspace of this conversation."""

from agent.errors import ConfigError
from agent.i18n import t
from gateway.access.added_folders import FolderOwner, add_folder, named_folder
from gateway.commands.declaration import PERMISSIONS, chat_command
from gateway.commands.dispatcher import CommandCall
from gateway.core.errors import CommandRefused
from gateway.core.markdown import code
from gateway.store.port import Transaction
from gateway.store.repositories.access import grants


@chat_command(
    "add-dir",
    "add a folder outside the workspace, or list them (owner only)",
    group=PERMISSIONS,
    position=40,
    aliases=("add_dir",),
    audience="owner",
)
def answer_add_dir(call: CommandCall, tx: Transaction) -> str:
    """Add a folder to this conversation, or list the folders that it may use."""
    message, root, name = call.message, call.folder, call.argument.strip()
    if not call.services.access.is_private_owner(message):
        raise CommandRefused(t("Only the owner can add folders, in a private conversation."))
    if not name:
        return _listing(call, tx)
    base = call.services.access.start_folder(root, message) or root
    try:
        access = named_folder(name, base)
    except ConfigError as exc:
        raise CommandRefused(f"⚠️ {call.reason(exc)}") from exc
    if access.path.is_relative_to(root):
        return t("{folder} is part of the workspace already.", folder=code(str(access.path)))
    owner = FolderOwner(message.principal, call.begun_session(tx), root)
    add_folder(tx, access, owner, call.now)
    return t(
        "Added to this conversation: {folder}. I may read and change files there, and so may "
        "commands.",
        folder=code(str(access.path)),
    )


def _listing(call: CommandCall, tx: Transaction) -> str:
    sessions = () if call.session is None else (call.session,)
    folders = grants.folders(tx, call.message.principal, sessions, call.folder)
    if not folders:
        return t(
            "No folders outside {root} are added. `/add-dir DIR` adds one.",
            root=code(str(call.folder)),
        )
    lines = [
        t(
            "- {folder}: read and change" if folder.is_writable else "- {folder}: read",
            folder=code(str(folder.path)),
        )
        for folder in folders
    ]
    head = t(
        "Folders outside {root} (`kore policy revoke` takes one back):", root=code(str(call.folder))
    )
    return "\n".join([head, *lines])
