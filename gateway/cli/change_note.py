"""Audit notes about changes that the owner makes on the command line."""

import argparse
import time

from agent.errors import KoreError
from agent.i18n import t
from gateway.cli.folders import data_dir_of
from gateway.ops.audit.pending import leave_note
from gateway.store.repositories.audit_outbox import AuditNote


def record_change(args: argparse.Namespace, subject: str, name: str) -> None:
    """Store a note for the audit log: kind and name of the changed item, without values.

    Raises `KoreError`.
    """
    facts = {"who": "command line", "operation": args.action, "name": name}
    path = data_dir_of(args).audit_pending
    if not path.parent.exists():
        # The changed file is elsewhere, and this home has no log yet.
        return
    try:
        leave_note(path, AuditNote(time.time(), subject, "changed by the owner", facts))
    except OSError as exc:
        raise KoreError(
            t("changed, but {path} cannot be written: {reason}", path=path, reason=exc.strerror),
            hint=t("the change is missing from the audit log"),
        ) from exc
