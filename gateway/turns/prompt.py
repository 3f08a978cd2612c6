"""User messages for the model, built from inbound messages and their attachments."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agent.context.focused_files import describe_eviction
from agent.context.project.context import ContextUpdate
from agent.events import Evicted, SessionCreated
from agent.prompts import load_prompt, render_prompt
from agent.run.prompt import PromptDraft, PromptEntry, compose_prompt
from agent.security.files.folder_identity import FolderIdentity
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.types import Context, ImageFile, Message, Part, ReasoningEffort, Taint, Text
from gateway.core.messages import CONSOLE, InboundMessage, Media
from gateway.media.storage import format_size
from gateway.store.repositories.conversations.session_marks import taint_of_text
from gateway.store.repositories.execution.claims import TurnClaim

_QUOTE_LIMIT = 500
_NAME_LIMIT = 80
# Joined messages within this time have no individual timestamps.
_SAME_TIME_S = 60
_BRACKETS = str.maketrans({"[": "(", "]": ")", '"': "'"})
# Kinds whose content the sender chose; all others may contain text of other people.
_OWN = frozenset({"location", "dice", "voice", "video_note"})
_LOUD = frozenset({"voice", "audio", "video_note", "video"})


@dataclass(slots=True, kw_only=True)
class TurnDraft(PromptDraft):
    """Prompt of a turn that the gateway runs; `effort` is None for the model's default."""

    claim: TurnClaim
    folder: FolderIdentity
    effort: ReasoningEffort | None = None


def build_user_message(
    messages: Sequence[InboundMessage],
    mode: str | None = None,
    *,
    steering: bool = False,
    work: str = "",
) -> Message:
    """Return the user message for the joined inbound messages, with their facts.

    `mode` is the current permission mode; it may change at any time, so it is not in the system
    prompt. `steering` means that the messages arrived during the turn. `work` describes the long
    task in the folder.
    """
    last = messages[-1]
    personal = [message for message in messages if not _is_from_kore(message)]
    own_facts = _own_facts(personal) if len(personal) > 1 else None
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
    reports = [message.content for message in messages if _is_from_kore(message)]
    plans = (message.options.plan for message in messages)
    reports += [render_prompt("plan_to_carry_out", plan=plan) for plan in plans if plan]
    if any(message.kind == "goal" for message in messages):
        reports.append(load_prompt("goal_begin"))
    return compose_prompt(
        list(map(_entry, personal, own_facts or [()] * len(personal))),
        datetime.fromtimestamp(last.received_at),
        facts,
        notes=[*reports, work] if work else reports,
        updates=[text for news in _news(messages) for text in news.parts or (news.text,)],
    )


def _entry(message: InboundMessage, facts: Sequence[str]) -> PromptEntry:
    files: Sequence[Part] = ()
    if message.media:
        files = attachment_parts([message])
    words = (Text(message.content),) if message.content else ()
    return PromptEntry(words, files, facts)


def _own_facts(messages: Sequence[InboundMessage]) -> Sequence[Sequence[str]] | None:
    """Return the facts of each message, or None if all messages share them."""
    last = messages[-1]
    is_same_sender = all(message.sender.id == last.sender.id for message in messages)
    is_same_time = last.received_at - messages[0].received_at < _SAME_TIME_S
    texts = [_facts_of_text(message) for message in messages]
    if is_same_sender and is_same_time and not any(texts):
        return None
    names = [_name(message) for message in messages]
    ids = {(name, message.sender.id) for name, message in zip(names, messages, strict=True)}
    facts: list[list[str]] = []
    for message, name, facts_of_text in zip(messages, names, texts, strict=True):
        own: list[str] = []
        if not is_same_time:
            own.append(datetime.fromtimestamp(message.received_at).strftime("%A %Y-%m-%d %H:%M"))
        if not message.private:
            is_shared = sum(name == other for other, _ in ids) > 1
            own.append(f"from {name} ({message.sender.id})" if is_shared else f"from {name}")
        facts.append([*own, *facts_of_text])
    return facts


def _facts_of_text(message: InboundMessage) -> list[str]:
    """Return the facts about a message's text: an edit, a quote, the source of a forward."""
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
    """Return a name without brackets and quotation marks, which could end the quotation."""
    return " ".join(name.split()).translate(_BRACKETS)[:_NAME_LIMIT]


def shown_taint(messages: Sequence[InboundMessage]) -> frozenset[Taint]:
    """Return the taint of attached files, of the terminal's folder and of scheduled jobs."""
    planned = (taint_of_text(",".join(message.options.taint)) for message in _jobs(messages))
    taint = frozenset[Taint]().union(*(news.taint for news in _news(messages)), *planned)
    if any(message.media for message in messages):
        taint |= attached_taint(messages)
    return taint


def opening_events(claim: TurnClaim) -> list[SessionCreated | Evicted]:
    """Return the events before a turn: a new session, and files that did not fit."""
    begun = [] if claim.begins is None else [SessionCreated(claim.session, claim.begins)]
    counts = [news.evicted for news in _news(claim.messages) if news.evicted]
    return [*begun, *(Evicted(n, describe_eviction(n)) for n in counts)]


def is_said(message: InboundMessage) -> bool:
    """Return whether a person sent the message, directly or through a job."""
    return message.task is None and not _is_from_kore(message) and bool(message.content)


def _is_from_kore(message: InboundMessage) -> bool:
    """Return whether Kore or the model wrote the message: a report, a job, a turn for a goal."""
    is_own_job = message.job is not None and message.options.by_model
    return message.is_report or is_own_job or message.kind == "goal_step"


def _jobs(messages: Sequence[InboundMessage]) -> list[InboundMessage]:
    return [message for message in messages if message.kind == "job"]


def _news(messages: Sequence[InboundMessage]) -> list[ContextUpdate]:
    """Return the terminal's context in messages: folder updates and output of commands."""
    reports: list[Any] = []
    for message in messages:
        if message.channel == CONSOLE:
            reports += [*message.options.run, message.options.project]
    return [
        ContextUpdate(
            str(report["text"]),
            frozenset(report["taint"]),
            int(report.get("evicted", 0)),
            tuple(map(str, report.get("parts", ()))),
        )
        for report in reports
        if isinstance(report, dict)
    ]


def attachment_parts(messages: Sequence[InboundMessage]) -> list[Part]:
    """Return a line for each file, place or contact, and the pictures, loaded when shown."""
    lines = "\n".join(_attachment_line(media) for message in messages for media in message.media)
    return [*_pictures(messages), *([Context(lines)] if lines else [])]


def attached_taint(messages: Sequence[InboundMessage]) -> frozenset[Taint]:
    """Return the taint of the attachments: untrusted if any may contain text of other people."""
    strange = any(
        media.kind not in _OWN or media.quoted for message in messages for media in message.media
    )
    return UNTRUSTED if strange else NOTHING


def _pictures(messages: Sequence[InboundMessage]) -> Iterator[ImageFile]:
    for message in messages:
        for media in message.media:
            # An edit changes the caption; the picture was shown with the original message.
            if media.digest and media.path and not (message.edited and not media.quoted):
                yield ImageFile(media.path, media.media_type or "", media.digest)


def _attachment_line(media: Media) -> str:
    what = media.kind.replace("_", " ")
    if media.quoted:
        what = f"in the message replied to: {what}"
    if media.name:
        what += f' "{media.name}"'
    if media.seconds:
        what += f", {media.seconds} s"
    if media.path:
        size = f" ({format_size(media.size_bytes)})" if media.size_bytes is not None else ""
        what += f" in {media.path}{size}"
    if media.trouble:
        what += f"; it cannot be {'used' if not media.path else 'heard'}: {media.trouble}"
    if media.words:
        is_spoken = media.kind in _LOUD
        what += f'; transcription: "{media.words}"' if is_spoken else f": {media.words}"
    return f"[{what}]"
