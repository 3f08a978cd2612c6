"""An inbound message as the model reads it."""

from collections.abc import Sequence
from datetime import datetime

from agent.context.moment import moment
from agent.types import Context, Message, Text
from gateway.messages import InboundMessage

_QUOTE_LIMIT = 500


def compose(messages: Sequence[InboundMessage], *, steering: bool = False) -> Message:
    """One user message made of the inbound ones that a turn joins, with their moving facts.

    `steering`: they arrived while that turn ran.
    """
    last = messages[-1]
    facts = [last.channel]
    if not last.private:
        facts.append(f"group, from {last.sender.name or last.sender.id}")
    if steering:
        facts.append("written while you worked on this")
    if last.edited:
        facts.append("edited after it was first sent")
    if last.quoted:
        facts.append(f'in reply to "{last.quoted[:_QUOTE_LIMIT]}"')
    text = "\n\n".join(message.content for message in messages if not message.is_report)
    when = Context(moment(datetime.fromtimestamp(last.received_at), *facts))
    # Nobody has said these, so nothing in them counts as a person's word.
    reports = (Context(message.content) for message in messages if message.is_report)
    return Message("user", (*([Text(text)] if text else ()), *reports, when))
