"""Whether and how a turn is shown in its chat while it runs."""

from collections.abc import Sequence

from agent.security.taint.taint import TaintState
from gateway.channels.base import ability
from gateway.core.link_defusing import defuse_answer
from gateway.delivery.preview import (
    FIRST_AFTER_S,
    GROUP_EVERY_S,
    PRIVATE_EVERY_S,
    PreviewTiming,
    StreamingPreview,
    SupportsPreview,
)
from gateway.delivery.renderer import ReplyRenderer
from gateway.store.port import Store
from gateway.store.repositories.delivery.outbox import OutgoingReply
from gateway.store.repositories.execution.claims import TurnClaim


def preview_for_turn(
    database: Store,
    renderer: ReplyRenderer,
    claim: TurnClaim,
    exposure: TaintState,
    earlier_texts: Sequence[str],
) -> StreamingPreview | None:
    """None where nothing can be shown, and for a job, whose answer comes whole.

    `earlier_texts` are what an earlier run of the turn has said.
    """
    message = claim.messages[-1]
    channel = ability(renderer.channel(message.route), SupportsPreview)
    if channel is None or message.job is not None:
        return None
    every_s = PRIVATE_EVERY_S if message.private else GROUP_EVERY_S
    reply = OutgoingReply(
        f"t{claim.turn}", message.route, (), "final", claim.reply_to, message.event_id
    )
    timing = PreviewTiming(
        FIRST_AFTER_S,
        every_s,
        clean=renderer.clean,
        defuse=lambda text: defuse_answer(text, exposure),
    )
    return StreamingPreview(
        database=database,
        channel=channel,
        turn=claim.turn,
        reply=reply,
        timing=timing,
        earlier_texts=earlier_texts,
    )
