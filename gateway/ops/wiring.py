"""Wiring of the parts for operators: reload of the configuration, data for screens, user data."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agent.agent import Agent
from agent.records import frozen
from agent.security.audit import AuditSink
from gateway.access.wiring import Access, SecurityContext
from gateway.bus.bus import MessageBus
from gateway.channels.base import Channel
from gateway.config import Settings
from gateway.core.channel_table import CHANNELS
from gateway.delivery.wiring import Delivery
from gateway.ops.audit.log import AuditLog
from gateway.ops.audit.relay import AuditRelay
from gateway.ops.config_reload import ConfigReloader, ReloadTargets, WatchedConfig
from gateway.ops.screens import ScreenData
from gateway.runtime.paths import DataDir
from gateway.sessions.window_cache import SessionWindowCache
from gateway.store.port import Store
from gateway.terminals.registry import TerminalRegistry
from gateway.turns.usage.meter import StoreUsageMeter

if TYPE_CHECKING:
    from gateway.ops.user_data import UserDataService
    from gateway.store.files.file_store import SharedFiles


@frozen
class Operations:
    """Parts for operators. `reloader` is set if configuration files are watched."""

    reloader: ConfigReloader | None
    screens: ScreenData
    terminals: TerminalRegistry
    user_data: "Callable[[], UserDataService]"


def wire_audit_relay(database: Store, audit: AuditSink, home: DataDir) -> AuditRelay:
    """Build the relay of stored audit notes, which accepting messages needs too."""
    log = audit if isinstance(audit, AuditLog) else None
    return AuditRelay(database, log, home.audit_pending)


def wire_operations(  # noqa: PLR0913 - the inputs by name
    *,
    settings: Settings,
    home: DataDir,
    security: SecurityContext,
    agent: Agent,
    database: Store,
    channels: Mapping[tuple[str, str], Channel],
    delivery: Delivery,
    access: Access,
    windows: SessionWindowCache,
    usage: StoreUsageMeter,
    bus: MessageBus,
    audit_relay: AuditRelay,
    files: "SharedFiles | None",
    config: WatchedConfig | None,
) -> Operations:
    def user_data() -> "UserDataService":
        """Create the service, which is needed only a few times in an installation's life."""
        from gateway.ops.user_data import UserDataService

        return UserDataService(
            database=database,
            home=home,
            workspace=settings.agent.workspace,
            access=security.access,
            forget=windows.evict,
            reload_people=access.people.reload,
            flush_audit=audit_relay.flush,
            files=files,
            channels=(*CHANNELS, *settings.python_plugins),
        )

    reloader = None
    if config is not None:
        targets = ReloadTargets(
            agent=agent,
            policies=security.roles,
            access=security.access,
            usage=usage,
            sender=delivery.sender,
            renderer=delivery.renderer,
            languages=delivery.languages,
            approvals=access.approval_service,
            channels=channels,
            redactor=security.redactor,
            bus=bus,
        )
        reloader = ConfigReloader(
            targets=targets, database=database, home=home, config=config, settings=settings
        )
    screens = ScreenData(
        settings=settings,
        home=home,
        database=database,
        agent=agent,
        access=security.access,
        policies=security.roles,
        redactor=security.redactor,
        sources=config.sources if config is not None else None,
        reloader=reloader,
        audit=security.audit,
    )
    return Operations(reloader, screens, screens.terminals(), user_data)
