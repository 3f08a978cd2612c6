"""Context of jobs at run time, and the receiver of notices about their changes."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agent.records import frozen
from gateway.access.control import AccessControl
from gateway.access.roles import RoleRegistry
from gateway.config.sections import ScheduleSection
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.user_language import UserLanguages
from gateway.turns.permissions import TurnPermissions


@frozen
class JobContext:
    """Permissions, delivery and limits that apply to a job when it runs."""

    access: AccessControl
    roles: RoleRegistry
    permissions: TurnPermissions
    workspace: Path
    schedule: ScheduleSection
    renderer: ReplyRenderer
    languages: UserLanguages

    @property
    def open_channels(self) -> list[str]:
        return [f"{name}:{account}" for name, account in self.renderer.channels]


@dataclass(slots=True)
class FiredJobs:
    """Lanes with new input (`lanes`) or output (`mail_lanes`); `has_more` if more jobs are due."""

    lanes: set[str] = field(default_factory=set)
    mail_lanes: set[str] = field(default_factory=set)
    has_more: bool = False


class JobNotifier(Protocol):
    """Receiver of committed changes to jobs; implemented by `JobService`."""

    @property
    def context(self) -> JobContext: ...
    def notify_changed(self) -> None: ...
    def notify_fired(self, fired: FiredJobs) -> None: ...
