"""Open approvals, and the turn that asks for them."""

from pathlib import Path

from agent.types import ToolCall
from gateway.core.approval import ApprovalPrompt, buttons_for
from gateway.core.messages import OutboundFile, OutboundPart
from gateway.core.question_view import approval_event
from tests.fakes.platform import Platform
from tests.gateway.parts import (
    Parts,
    tool_call,
)

OWNER = "chat:7"


class Asking(Platform):
    """Platform with buttons."""

    def render_approval(self, question: ApprovalPrompt, decided: str | None = None) -> OutboundPart:
        text = decided or f"{question.number} {question.title}"
        return OutboundPart(
            text,
            (),
            () if decided else buttons_for(question.nonce, approval_event(question).view.options),
        )

    def render_details(self, question: ApprovalPrompt) -> OutboundFile | None:
        return None

    async def acknowledge(self, event_id: str, sentence: str) -> None:
        self.calls.append(("told", "", sentence))
        self._wake_waiting()


def change(id_: str, path: str = "a.txt", content: str = "new\n") -> ToolCall:
    return tool_call(id_, "edit_file", path=path, old_string="old\n", new_string=content)


async def question(parts: Parts) -> ApprovalPrompt:
    await parts.until_stored("approval", state="open")
    (result,) = await parts.service.list_approvals()
    return result


def seed(folder: Path) -> Path:
    file = folder / "workspace" / "a.txt"
    file.parent.mkdir(exist_ok=True)
    file.write_text("old\n")
    return file
