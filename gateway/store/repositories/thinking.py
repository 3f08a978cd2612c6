"""What somebody chose about a conversation's thinking."""

import json
from sqlite3 import Connection
from typing import Any

from agent.events import Event, ThinkingDelta, ThinkingEnd
from agent.records import frozen


@frozen
class ThinkingChoice:
    """`wanted` is None where nobody chose; `shown` says whether screens get to see it."""

    wanted: bool | None = None
    shown: bool = True

    def hides(self, event: Event) -> bool:
        return not self.shown and isinstance(event, ThinkingDelta | ThinkingEnd)


def thinking_of_session(connection: Connection, session: str) -> ThinkingChoice:
    (text,) = connection.execute(
        "SELECT metadata -> 'thinking' FROM session WHERE id = ?", (session,)
    ).fetchone()
    data: dict[str, Any] = json.loads(text) if text else {}
    return ThinkingChoice(data.get("wanted"), data.get("shown", True))


def choose_thinking(connection: Connection, session: str, thinking: ThinkingChoice) -> None:
    data = json.dumps({"wanted": thinking.wanted, "shown": thinking.shown})
    connection.execute(
        "UPDATE session SET metadata = json_set(metadata, '$.thinking', json(?)) WHERE id = ?",
        (data, session),
    )
