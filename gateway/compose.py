"""An inbound message as the model reads it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from agent.context.moment import moment
from agent.context.project import News
from agent.events import Evicted, SessionCreated
from agent.types import Context, Message, Taint, Text
from gateway.messages import InboundMessage
from gateway.store.claims import Claim

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
    shown = (Context(news.text) for news in _news(messages))
    return Message("user", (*([Text(text)] if text else ()), *reports, when, *shown))


def shown_taint(messages: Sequence[InboundMessage]) -> frozenset[Taint]:
    """What the terminal's folder and files bring along."""
    return frozenset().union(*(news.taint for news in _news(messages)))


def opening(claim: Claim) -> list[SessionCreated | Evicted]:
    """What watchers are told before a turn: that its session is new, and of files that did not
    fit."""
    begun = [] if claim.begins is None else [SessionCreated(claim.session, claim.begins)]
    counts = [news.evicted for news in _news(claim.messages) if news.evicted]
    return [*begun, *(Evicted(n, f"Context full, {n} files evicted") for n in counts)]


def _news(messages: Sequence[InboundMessage]) -> list[News]:
    """What the terminal told with these messages: of its folder, and of what was run there."""
    told: list[Any] = []
    for one in messages:
        if one.channel == "cli":
            told += [*one.options.get("run", ()), one.options.get("project")]
    return [
        News(str(one["text"]), frozenset(one["taint"]), int(one.get("evicted", 0)))
        for one in told
        if isinstance(one, dict)
    ]
