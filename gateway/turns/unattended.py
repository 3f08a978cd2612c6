"""Approver for scheduled jobs: denies all requests and lists them."""

from agent.approvals import Answer, ApprovalRequest
from agent.errors import KoreError
from agent.i18n import t
from agent.prompts import load_prompt
from agent.tools.runner import Permissions
from gateway.core.approval import title_of


class UnattendedApprover:
    """Implements `agent.security.policy.base.Approver` for the turn of a job."""

    def __init__(self) -> None:
        self.denied_titles: list[str] = []

    async def ask(self, request: ApprovalRequest) -> Answer:
        """Record the request and raise `KoreError`."""
        title = title_of(request).replace("`", "'")
        if title not in self.denied_titles:
            self.denied_titles.append(title)
        raise KoreError(load_prompt("scheduled_no"))


def denied_summary(permissions: Permissions) -> str:
    """Return the sentence about denied actions for the person, or ''."""
    approver = permissions.approver
    if not isinstance(approver, UnattendedApprover) or not approver.denied_titles:
        return ""
    titles = ", ".join(f"`{title}`" for title in approver.denied_titles)
    return t("⏸ Not done, because nobody was available to approve it: {titles}", titles=titles)
