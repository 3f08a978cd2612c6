"""Text replacement for messages whose files a chat refuses."""

from collections.abc import Sequence
from dataclasses import replace

from agent.i18n import t
from gateway.channels.base import Channel, ChatUnreachable, SendError, SupportsWholeAnswers
from gateway.core.link_defusing import defuse_part
from gateway.core.messages import OutboundMessage, OutboundPart


def without_files(
    channel: Channel, message: OutboundMessage, error: SendError
) -> Sequence[OutboundPart]:
    """Return the message as text, at least one part.

    A file with the rest of a long answer becomes messages; other files are listed by name.
    """
    content = message.content
    is_answer = message.kind == "final" and len(content.files) == 1
    if is_answer and isinstance(channel, SupportsWholeAnswers):
        (file,) = content.files
        if file.text is not None and (rest := channel.render_whole(file.text)[message.part :]):
            # The text of a file is not a field of a message, so its links were never defused.
            return [defuse_part(part, is_markdown=False, is_read=False) for part in rest]
    names = ", ".join(file.name for file in content.files)
    note = (
        t("📎 Not sent, because this chat does not allow it: {names}.", names=names)
        if isinstance(error, ChatUnreachable)
        else t("📎 Could not be sent: {names}.", names=names)
    )
    text = f"{content.text}\n\n{note}" if content.text else note
    return [replace(content, text=text, files=())]
