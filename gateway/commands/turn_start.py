"""Messages with which a command begins a turn."""

from dataclasses import replace

from gateway.commands.dispatcher import CommandCall
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import session_folders
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry


def begin_turn(
    call: CommandCall, tx: Transaction, session: str, text: str, plan: str | None = None
) -> None:
    """Send a message on behalf of the person who called the command, to be handled after the
    command.

    The model reads the `plan` as a model's text, not as the person's.
    """
    message = call.message
    begin = message.derive(
        "message",
        message.begun_event_id(call.name),
        text.strip(),
        call.now,
        # The conversation's mode counts, not the initial mode of the person's screen.
        options=replace(
            message.options.lasting, mode=None, auto=False, full_access=None, plan=plan
        ),
    )
    begin = session_folders.in_folder_of(tx, session, begin)
    inbox.accept(tx, InboxBatch(message.channel, message.account, call.now), [InboxEntry(begin)])
