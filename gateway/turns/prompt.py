"""An inbound message as the model reads it."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from agent.context.focused_files import describe_eviction
from agent.context.project.context import ContextUpdate
from agent.context.system_prompt import Workspace, volatile_facts
from agent.events import Evicted, SessionCreated
from agent.turn.context_usage import PromptAudience
from agent.types import Context, Message, Part, Taint, Text
from gateway.core.messages import CONSOLE, InboundMessage
from gateway.store.repositories.conversations.session_marks import taint_of_text
from gateway.store.repositories.execution.claims import TurnClaim

_QUOTE_LIMIT = 500


def build_user_message(
    messages: Sequence[InboundMessage],
    mode: str | None = None,
    *,
    steering: bool = False,
    work: str = "",
) -> Message:
    """One user message made of the inbound ones that a turn joins, with their moving facts.

    `mode` is the permission mode that holds for them: it may change at any time, so it is told here
    and not in the system prompt. `steering`: they arrived while that turn ran.
    `work` tells of the long work in its folder.
    """
    last = messages[-1]
    facts = [last.channel]
    if not last.private:
        facts.append(f"group, from {last.sender.name or last.sender.id}")
    if mode is not None:
        facts.append(f"permission mode {mode}")
    if last.channel == CONSOLE and last.options.unattended:
        facts.append("nobody can be asked")
    if steering:
        facts.append("written while you worked on this")
    if last.edited:
        facts.append("edited after it was first sent")
    if last.quoted:
        facts.append(f'in reply to "{last.quoted[:_QUOTE_LIMIT]}"')
    if last.job is not None:
        facts.append(f"scheduled job {last.job}: nobody is there to answer or to allow anything")
    text = "\n\n".join(message.content for message in messages if not _is_nobodys(message))
    when = Context(volatile_facts(datetime.fromtimestamp(last.received_at), *facts))
    # Not written by a person, so nothing in them counts as a person's word.
    reports = (Context(message.content) for message in messages if _is_nobodys(message))
    updates = (Context(text) for news in _news(messages) for text in news.parts or (news.text,))
    more = (Context(work),) if work else ()
    words = [Text(text)] if text else ()
    return Message("user", (*words, *reports, *more, *_attached(messages), when, *updates))


def _attached(messages: Sequence[InboundMessage]) -> list[Part]:
    if not any(one.media for one in messages):
        return []
    from gateway.media.prompt import attachment_parts

    return attachment_parts(messages)


def initial_taint(workspace: Workspace, speaking: PromptAudience) -> frozenset[Taint]:
    """What a turn has been told before anybody calls a tool."""
    from agent.context.long_task import taint_of

    taint = workspace.taint(speaking.memory, speaking.root, speaking.persona)
    return taint | taint_of(speaking.root) if speaking.owner else taint


def long_task_note(
    message: InboundMessage, speaking: PromptAudience, clean: Callable[[str], str]
) -> str:
    """The long work in the folder of a turn; only for the owner in private."""
    from agent.context.long_task import describe_progress

    # A sub-agent's caller tells it its part.
    return (
        clean(describe_progress(speaking.root)) if speaking.owner and message.task is None else ""
    )


def shown_taint(messages: Sequence[InboundMessage]) -> frozenset[Taint]:
    """What files bring along, and the terminal's folder, and what a job was made in."""
    planned = (taint_of_text(",".join(one.options.taint)) for one in _jobs(messages))
    taint = frozenset[Taint]().union(*(news.taint for news in _news(messages)), *planned)
    if any(one.media for one in messages):
        from gateway.media.prompt import attached_taint

        taint |= attached_taint(messages)
    return taint


def opening_events(claim: TurnClaim) -> list[SessionCreated | Evicted]:
    """What watchers are told before a turn: that its session is new, and of files that did not
    fit."""
    begun = [] if claim.begins is None else [SessionCreated(claim.session, claim.begins)]
    counts = [news.evicted for news in _news(claim.messages) if news.evicted]
    return [*begun, *(Evicted(n, describe_eviction(n)) for n in counts)]


def is_said(message: InboundMessage) -> bool:
    """Whether a person has said it, or keeps having it said by a job."""
    return message.task is None and not _is_nobodys(message) and bool(message.content)


def _is_nobodys(message: InboundMessage) -> bool:
    """What no person has said: a report of background work, and a job in the model's own words."""
    return message.is_report or (message.job is not None and message.options.by_model)


def _jobs(messages: Sequence[InboundMessage]) -> list[InboundMessage]:
    return [message for message in messages if message.kind == "job"]


def _news(messages: Sequence[InboundMessage]) -> list[ContextUpdate]:
    """What the terminal told with these messages: of its folder, and of what was run there."""
    reports: list[Any] = []
    for one in messages:
        if one.channel == "cli":
            reports += [*one.options.run, one.options.project]
    return [
        ContextUpdate(
            str(one["text"]),
            frozenset(one["taint"]),
            int(one.get("evicted", 0)),
            tuple(map(str, one.get("parts", ()))),
        )
        for one in reports
        if isinstance(one, dict)
    ]
