"""Status lines of the sub-agents that work for a conversation."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.text import Text

from agent.events import FromAgent
from agent.text.visible import escape_invisible
from gateway.cli.console.output.text import seconds, shorten, step_line


@dataclass(slots=True)
class _Member:
    name: str
    title: str
    activity: str = ""
    began_at: float = field(default_factory=time.monotonic)


class SubagentLines:
    """Collects events of sub-agents (`take`); `lines` shows the active ones."""

    def __init__(self) -> None:
        self._members: dict[str, _Member] = {}

    def take(self, report: FromAgent) -> None:
        event = report.event
        if event.get("type") in ("done", "error"):
            self._members.pop(report.number, None)
            return
        name = f"{report.agent} ({report.number})"
        member = self._members.setdefault(report.number, _Member(name, report.title))
        if event.get("type") == "tool_start":
            member.activity = step_line(event)

    def lines(self, frame: str) -> Iterator[Text]:
        for member in self._members.values():
            took = seconds(int(time.monotonic() - member.began_at)).replace(".0", "")
            doing = shorten(escape_invisible(member.activity or member.title))
            yield Text.assemble(
                (frame, "cyan"),
                f" {escape_invisible(member.name)} ",
                (f"{doing} · {took}", "dim"),
                no_wrap=True,
                overflow="ellipsis",
            )
