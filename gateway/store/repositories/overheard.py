"""What was said in a group, not to us: kept until the next answer there, as context."""

from collections.abc import Iterable
from sqlite3 import Connection

from agent.prompts import render_prompt
from gateway.core.messages import InboundMessage

# The newest of a lane; of each so many characters, and of all together.
KEPT = 50
LINE_CHARS = 1_000
SHOWN_CHARS = 8_000
_TEXT = "unseal(text, 'overheard.text', channel, account, event_id)"


def add_group_context(connection: Connection, messages: Iterable[InboundMessage]) -> None:
    """Store them; an edit changes the line that is there. Telling one twice changes nothing."""
    lanes = set()
    for message in messages:
        lane = message.route.lane
        text = _line(message)
        if message.edited:
            connection.execute(
                "UPDATE overheard SET text = seal(?, 'overheard.text', channel, account, event_id)"
                " WHERE lane = ? AND message_id = ?",
                (text, lane, message.message_id),
            )
            continue
        key = (message.channel, message.account, message.event_id)
        connection.execute(
            "INSERT OR IGNORE INTO overheard (channel, account, event_id, lane, message_id, text)"
            " VALUES (?, ?, ?, ?, ?, seal(?, 'overheard.text', ?, ?, ?))",
            (*key, lane, message.message_id, text, *key),
        )
        lanes.add(lane)
    for lane in lanes:
        connection.execute(
            "DELETE FROM overheard WHERE lane = ? AND n NOT IN"
            " (SELECT n FROM overheard WHERE lane = ? ORDER BY n DESC LIMIT ?)",
            (lane, lane, KEPT),
        )


def take_group_context(connection: Connection, lane: str) -> str | None:
    """What the model is told of it, once: it is gone then. The newest lines, oldest first."""
    rows = connection.execute(
        f"SELECT {_TEXT} FROM overheard WHERE lane = ? ORDER BY n DESC", (lane,)
    ).fetchall()
    if not rows:
        return None
    connection.execute("DELETE FROM overheard WHERE lane = ?", (lane,))
    lines: list[str] = []
    room = SHOWN_CHARS
    for (line,) in rows:
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    return render_prompt("overheard", lines="\n".join(reversed(lines))).strip()


def _line(message: InboundMessage) -> str:
    """One line: nobody can make theirs look like somebody else's."""
    words = " ".join(message.content.split())
    name = " ".join(message.sender.name.split()).replace(":", "") or message.sender.id
    return f"{name[:80]}: {words if len(words) <= LINE_CHARS else words[:LINE_CHARS] + '…'}"
