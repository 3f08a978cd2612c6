"""Wiring of the parts that belong to conversations."""

from collections.abc import Callable

from agent.agent import Agent
from agent.records import frozen
from gateway.config import Settings
from gateway.core.event_hub import EventHub
from gateway.sessions.background_work import BackgroundWork
from gateway.sessions.editor_hub import EditorHub, SessionServers
from gateway.sessions.project_feed import ProjectFeed
from gateway.sessions.service import SessionService
from gateway.sessions.similarity import StoredSimilarity, similarity_of
from gateway.sessions.window_cache import SessionWindowCache
from gateway.store.port import Store


@frozen
class Sessions:
    """Parts that belong to conversations. `similarity` is None without a model for it."""

    background: BackgroundWork
    editors: EditorHub
    feed: ProjectFeed
    service: SessionService
    similarity: StoredSimilarity | None
    windows: SessionWindowCache


def wire_sessions(  # noqa: PLR0913 - the inputs by name
    *,
    settings: Settings,
    agent: Agent,
    database: Store,
    events: EventHub,
    wake: Callable[[str], None],
    process: int | None,
    is_shared: bool,
    end_elsewhere: Callable[[str], None],
) -> Sessions:
    """Build the parts.

    `process` is the number of this process. If others share the database (`is_shared`),
    `end_elsewhere` ends a conversation's background work there.
    """
    servers = SessionServers(lambda: agent.settings.tools, agent.redactor.learn, lambda: agent.mcp)
    background = BackgroundWork(
        agent=agent, database=database, events=events, process=process, on_end=end_elsewhere
    )
    return Sessions(
        background=background,
        editors=EditorHub(servers),
        feed=ProjectFeed(agent, events),
        service=SessionService(
            database=database, wake=wake, publish=events.publish, background=background
        ),
        similarity=similarity_of(settings, agent, database),
        windows=SessionWindowCache(database, is_shared=is_shared),
    )
