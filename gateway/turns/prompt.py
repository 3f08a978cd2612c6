"""An inbound message as the model reads it."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from agent.context.focused_files import describe_eviction
from agent.context.project.context import ContextUpdate
from agent.context.system_prompt import Workspace, volatile_facts
from agent.events import Evicted, SessionCreated
from agent.prompts import render_prompt
from agent.turn.context_usage import PromptAudience
from agent.types import Context, Message, Part, Taint, Text
from gateway.core.messages import CONSOLE, InboundMessage
from gateway.store.repositories.conversations.session_marks import taint_of_text
from gateway.store.repositories.execution.claims import TurnClaim

_QUOTE_LIMIT = 500
_NAME_LIMIT = 80
# Joined messages that came within this time have no times of their own.
_SAME_TIME_S = 60
_BRACKETS = str.maketrans({"[": "(", "]": ")", '"': "'"})


def build_user_message(
    messages: Sequence[InboundMessage],
    mode: str | None = None,
    *,
    steering: bool = False,
    work: str = "",
) -> Message:
    """One user message made of the inbound ones that a turn joins, with their moving facts.

    Facts that all of them share come once, at the end; otherwise each message has its own in front.
    `mode` is the permission mode that holds for them: it may change at any time, so it is told here
    and not in the system prompt. `steering`: they arrived while that turn ran.
    `work` tells of the long work in its folder.
    """
    last = messages[-1]
    personal = [message for message in messages if not _is_nobodys(message)]
    own_facts = _differing_facts(personal) if len(personal) > 1 else None
    facts = [last.channel]
    if not last.private:
        facts.append("group" if own_facts else f"group, from {_name(last)}")
    if mode is not None:
        facts.append(f"permission mode {mode}")
    if last.channel == CONSOLE and last.options.unattended:
        facts.append("nobody can be asked")
    if steering:
        facts.append("written while you worked on this")
    if own_facts is None:
        facts += _facts_of_text(last)
    if last.job is not None:
        facts.append(f"scheduled job {last.job}: nobody is there to answer or to allow anything")
    when = Context(volatile_facts(datetime.fromtimestamp(last.received_at), *facts))
    # Not written by a person, so nothing in them counts as a person's word.
    reports = (Context(message.content) for message in messages if _is_nobodys(message))
    updates = (Context(text) for news in _news(messages) for text in news.parts or (news.text,))
    more = (Context(work),) if work else ()
    if own_facts:
        words = _numbered(personal, own_facts)
        return Message("user", (*words, *reports, *more, when, *updates))
    text = "\n\n".join(message.content for message in personal)
    first = [Text(text)] if text else ()
    return Message("user", (*first, *reports, *more, *_attached(messages), when, *updates))


def _numbered(messages: Sequence[InboundMessage], facts: Sequence[str]) -> list[Part]:
    """Each message behind a line with its own facts, and its files behind it."""
    # Where words have begun, a context keeps its place.
    parts: list[Part] = [Text("")]
    for number, (message, its_facts) in enumerate(zip(messages, facts, strict=True), 1):
        listed = f": {its_facts}" if its_facts else ""
        head = render_prompt("messages/joined", number=number, count=len(messages), facts=listed)
        text = message.content if number == 1 else f"\n\n{message.content}"
        parts += (Context(head), Text(text), *_attached([message]))
    return parts


def _differing_facts(messages: Sequence[InboundMessage]) -> list[str] | None:
    """Return the facts of each message; None when all of them have the same."""
    last = messages[-1]
    is_same_sender = all(one.sender.id == last.sender.id for one in messages)
    is_same_time = last.received_at - messages[0].received_at < _SAME_TIME_S
    texts = [_facts_of_text(one) for one in messages]
    if is_same_sender and is_same_time and not any(texts):
        return None
    names = [_name(one) for one in messages]
    ids = {(name, one.sender.id) for name, one in zip(names, messages, strict=True)}
    facts: list[str] = []
    for message, name, its_facts in zip(messages, names, texts, strict=True):
        own: list[str] = []
        if not is_same_time:
            own.append(datetime.fromtimestamp(message.received_at).strftime("%A %Y-%m-%d %H:%M"))
        if not message.private:
            is_shared = sum(name == other for other, _ in ids) > 1
            own.append(f"from {name} ({message.sender.id})" if is_shared else f"from {name}")
        facts.append(", ".join([*own, *its_facts]))
    return facts


def _facts_of_text(message: InboundMessage) -> list[str]:
    """Return the facts about one message's words: an edit, a quote, the source of a forward."""
    facts = ["edited after it was first sent"] if message.edited else []
    source = _label(message.quoted_from) if message.quoted_from else None
    if message.quoted:
        is_cut = len(message.quoted) > _QUOTE_LIMIT
        text = message.quoted[:_QUOTE_LIMIT] + ("…" if is_cut else "")
        facts.append(
            render_prompt("messages/reply_to", source=source, text=text)
            if source
            else render_prompt("messages/reply", text=text)
        )
    elif source:
        facts.append(render_prompt("messages/reply_unseen", source=source))
    if message.forwarded and (message.forwarded_from or not source):
        whose = _label(message.forwarded_from) if message.forwarded_from else "somebody else"
        facts.append(render_prompt("messages/forwarded", source=whose))
    return facts


def _name(message: InboundMessage) -> str:
    return _label(message.sender.name) or message.sender.id


def _label(name: str) -> str:
    """A name that closes no bracket and no quotation around it."""
    return " ".join(name.split()).translate(_BRACKETS)[:_NAME_LIMIT]


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
