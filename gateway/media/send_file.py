"""`send_file` in a chat: copies files into the outbox, in the order of the conversation."""

import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from agent.errors import ToolError
from agent.prompts import load_prompt, render_prompt
from agent.security.taint.taint import TaintState
from agent.tools.base import CallContext, FileDelivery, Send
from gateway.channels.base import SupportsMedia
from gateway.core.link_defusing import defuse_answer
from gateway.core.messages import FileKind, OutboundFile, OutboundPart
from gateway.core.platform_limits import FileLimits
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender
from gateway.store.port import Store
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply
from gateway.store.repositories.execution.claims import TurnClaim


def file_sender(
    database: Store,
    renderer: ReplyRenderer,
    sender: OutboxSender,
    claim: TurnClaim,
    exposure: TaintState,
) -> Send:
    """Return the `send` function of a turn, which puts files into the outbox.

    Captions count as the model's text, like any answer.
    """
    message = claim.messages[-1]
    route = message.route

    async def send(request: FileDelivery, call: CallContext) -> str:
        channel = renderer.channel(route)
        if channel is None or not isinstance(channel, SupportsMedia):
            return load_prompt("sent_nowhere")
        limits = channel.file_limits
        files: list[OutboundFile] = []
        try:
            for path in request.paths:
                snapshot = await sender.outgoing.snapshot(path, limits)
                files.append(replace(snapshot, name=renderer.clean(snapshot.name)))
        except BaseException:
            await sender.outgoing.delete(files)
            raise
        caption = defuse_answer(renderer.clean(request.caption), exposure)
        reply = OutgoingReply(
            delivery_id=f"file:{claim.turn}:{secrets.token_hex(8)}",
            route=route,
            parts=_parts(files, renderer.render(route, caption) if caption else (), limits),
            reply_to=claim.reply_to,
            event_id=message.event_id,
            taint=exposure.taint,
            is_read=True,
        )
        await database.transact(outbox.put, None, [reply], time.time())
        sender.wake(route.lane)
        return render_prompt("sent_files", names=", ".join(file.name for file in files))

    return send


async def nowhere(request: FileDelivery, call: CallContext) -> str:
    """Refuse to send: a sub-agent has no chat."""
    raise ToolError("Sub-agents cannot send files: name them in your result.")


def _parts(
    files: Sequence[OutboundFile], caption: Sequence[OutboundPart], limits: FileLimits
) -> Sequence[OutboundPart]:
    """Return one message per album.

    The caption is below the first album or, if it is long, after all of them.
    """
    groups = _albums(files, limits)
    below = len(caption) == 1 and limits.caption.allows(caption[0].text)
    first = caption[0] if below else OutboundPart("")
    parts = [OutboundPart(first.text, first.entities, files=groups[0])]
    parts += [OutboundPart("", files=group) for group in groups[1:]]
    return parts if below else [*parts, *caption]


def _albums(files: Sequence[OutboundFile], limits: FileLimits) -> list[tuple[OutboundFile, ...]]:
    def kinds_of(file: OutboundFile) -> frozenset[FileKind] | None:
        return next((kinds for kinds in limits.album_kinds if file.kind in kinds), None)

    albums: list[tuple[OutboundFile, ...]] = []
    for kinds, group in groupby(files, kinds_of):
        members = list(group)
        size = limits.album_files if kinds else 1
        albums += [tuple(members[at : at + size]) for at in range(0, len(members), size)]
    return albums
