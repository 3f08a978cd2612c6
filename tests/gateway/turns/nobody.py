"""Interface that answers no question."""

from gateway.access.approvals import ApprovalContext


class Nobody:
    """Stand-in for the approvals, since these tests ask no questions."""

    def approver(self, asking: ApprovalContext) -> ApprovalContext:
        return asking
