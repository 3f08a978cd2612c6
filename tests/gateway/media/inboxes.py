"""Inboxes in the workspace or a shared store."""

from pathlib import Path

from gateway.core.messages import InboundMessage


class Inboxes:
    """Inboxes of all people in one folder."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace

    def inbox(self, message: InboundMessage) -> Path:
        return self.workspace / "inbox"
