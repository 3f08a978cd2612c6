"""What became of a prompt: noted with the end of its turn; one that fails too often is off."""

import logging
from sqlite3 import Connection

from agent.i18n import plural
from gateway.core.markdown import escape_markdown
from gateway.core.messages import InboundMessage
from gateway.scheduler.job_text import title
from gateway.scheduler.service import JobContext
from gateway.store.repositories import jobs, outbox
from gateway.store.repositories.outbox import OutgoingReply

log = logging.getLogger(__name__)

# What a model says that has nothing to say; and what it may put around it.
SILENT = "HEARTBEAT_OK"
_AROUND = " \n\t*_`.!"
_NOTE_CHARS = 200


def is_silent(text: str) -> bool:
    """Whether a job's answer need not reach anybody."""
    return text.strip(_AROUND) in ("", SILENT.strip(_AROUND))


def record_result(
    connection: Connection, house: JobContext, message: InboundMessage, failed: str, now: float
) -> None:
    assert message.job is not None, "the message of a job"
    slot = int(message.event_id.rpartition(":")[2])
    note = " ".join(failed.split())[:_NOTE_CHARS]
    jobs.ended(connection, message.job, slot, "failed" if failed else "ran", note)
    failures = jobs.count_failure(connection, message.job, failed=bool(failed))
    job = jobs.find(connection, message.job)
    most = house.schedule.max_failures
    if job is None or job.state != "on" or failures < most:
        return
    log.warning("job %d is switched off: it has failed %d times in a row", job.id, failures)
    jobs.set_state(
        connection, job.id, "failed", plural(failures, "it failed", "it failed {n} times in a row")
    )
    text = plural(
        failures,
        "⚠️ Job {job}, {title}, has failed and is switched off. `/cron resume {job}` tries again.",
        "⚠️ Job {job}, {title}, has failed {n} times in a row and is switched off. "
        "`/cron resume {job}` tries again.",
        job=job.id,
        title=escape_markdown(title(job)),
    )
    parts = house.delivery.render(message.route, text)
    name = f"{message.event_id}:off"
    letter = OutgoingReply(name, message.route, parts, "notice", taint=job.taint)
    outbox.put(connection, None, [letter], now)
