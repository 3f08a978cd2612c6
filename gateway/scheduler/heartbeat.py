"""Heartbeat: a periodic check of HEARTBEAT.md, without a model call while it is empty."""

import logging
import os
import re
from pathlib import Path

from agent.prompts import load_prompt
from agent.security.taint.prompt_file import read_prompt_file
from gateway.config.sections import ScheduleSection
from gateway.core.messages import InboundMessage, MessageOptions, Sender
from gateway.store.port import Transaction
from gateway.store.repositories import jobs
from gateway.store.repositories.delivery import chats
from gateway.store.repositories.jobs import Job

log = logging.getLogger(__name__)
FILE = "HEARTBEAT.md"
_MADE_BY = "heartbeat"
# Headings, comments, rules, quotes, and list items that are empty or ticked off.
_NOTHING = re.compile(r"\s*(#.*|>.*|[-*_=]{3,}|[-*+]\s*(\[[ xX]?\])?|[-*+]\s*\[[xX]\].*)?\s*")
_COMMENT = re.compile(r"<!--.*?(-->|$)", re.DOTALL)


def has_work(workspace: Path) -> bool:
    """Return whether the file lists work in text that a person has seen.

    Text that a command wrote after reading untrusted content is not carried out.
    """
    path = workspace / FILE
    try:
        prompt_text = read_prompt_file(Path(os.path.realpath(workspace), FILE))
    except FileNotFoundError:
        return False
    except OSError as exc:
        if path.is_symlink():
            log.warning("%s is a link, and is ignored; put a file in its place", path)
        else:
            log.warning("%s is ignored: %s", path, exc.strerror)
        return False
    if prompt_text.level == "unseen":
        log.warning(
            "%s was changed by a command that may have read untrusted text, and is ignored"
            " until you trust it with `kore trust`",
            path,
        )
        return False
    lines = _COMMENT.sub("", prompt_text.text).splitlines()
    return any(not _NOTHING.fullmatch(line) for line in lines)


def ensure_heartbeat_job(
    tx: Transaction, schedule: ScheduleSection, owner: str | None, zone: str, now: float
) -> None:
    """Create, update or remove the heartbeat job according to the settings.

    The job needs a chat that the owner reads.
    """
    existing = jobs.made(tx, _MADE_BY)
    minutes = schedule.heartbeat_minutes
    route = chats.private_route(tx, owner) if owner and minutes else None
    if existing is not None and (
        route is None or (existing.rule, existing.route) != (f"every {(minutes or 0) * 60}", route)
    ):
        jobs.remove(tx, existing)
        existing = None
    if route is None or existing is not None or owner is None or minutes is None:
        return
    message = InboundMessage(
        *(route.channel, route.account, route.chat_id),
        sender=Sender(owner.partition(":")[2]),
        event_id=_MADE_BY,
        content=load_prompt("heartbeat"),
        received_at=now,
        thread_id=route.thread_id,
        options=MessageOptions(by_model=True),
    )
    began = int(now)
    first = began + minutes * 60
    jobs.put(
        tx,
        Job(
            id=0,
            made_by=_MADE_BY,
            kind="heartbeat",
            message=message,
            principal=owner,
            rule=f"every {minutes * 60}",
            zone=zone,
            catch_up="skip",
            has_own_session=True,
            slot_at=first,
            due_at=first,
            created_at=began,
        ),
    )
