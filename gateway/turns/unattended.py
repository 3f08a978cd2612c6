"""Denies approvals while a scheduled job runs, and lists them afterwards."""

from agent.approvals import Answer, ApprovalRequest
from agent.errors import KoreError
from agent.i18n import t
from agent.prompts import load_prompt
from agent.tools.runner import Permissions
from gateway.core.approval import title_of


class UnattendedApprover:
    """An `agent.security.policy.base.Approver` for the turn of a job."""

    def __init__(self) -> None:
        self.denied_titles: list[str] = []

    async def ask(self, request: ApprovalRequest) -> Answer:
        """Raises `KoreError`."""
        title = title_of(request).replace("`", "'")
        if title not in self.denied_titles:
            self.denied_titles.append(title)
        raise KoreError(load_prompt("scheduled_no"))


def denied_summary(permissions: Permissions) -> str:
    """What the person is told that was not done; '' for nothing."""
    approver = permissions.approver
    if not isinstance(approver, UnattendedApprover) or not approver.denied_titles:
        return ""
    titles = ", ".join(f"`{title}`" for title in approver.denied_titles)
    return t("⏸ Not done, because nobody was available to approve it: {titles}", titles=titles)
