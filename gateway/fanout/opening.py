"""Choice of the transport: NATS if it is configured, else NOTIFY."""

import logging
from hashlib import sha256

from agent.errors import ConfigError
from agent.i18n import t
from gateway.fanout.base import Fanout
from gateway.fanout.frames import KeySource

log = logging.getLogger(__name__)


def open_fanout(bus_url: str | None, store_url: str, cipher: KeySource | None, name: str) -> Fanout:
    """Return a fanout that is not connected yet.

    `bus_url` is the setting `bus.url`, `store_url` the address of the PostgreSQL server; `name`
    identifies this process in the NATS server's monitoring. Raises `ConfigError` if the NATS
    library is not installed.
    """
    if bus_url is None:
        from gateway.fanout.notify import NotifyFanout

        return NotifyFanout(store_url, cipher)
    try:
        import nats  # noqa: F401 - whether it is there
    except ImportError as exc:
        raise ConfigError(
            t("bus.url names a NATS server, but nats-py is not installed"),
            hint="pip install 'kore-assistant[nats]'",
        ) from exc
    from gateway.fanout.nats import NatsFanout

    if cipher is None:
        log.warning(
            "bus.url without store.encryption_key_env: who may publish on that server can read and"
            " forge what the processes of this Kore tell each other"
        )

    async def find_id() -> str:
        return await database_id(store_url)

    return NatsFanout(bus_url, cipher, find_id=find_id, name=name)


async def database_id(store_url: str) -> str:
    """Return 16 hexadecimal digits that identify the database under any address of its server.

    Raises `LinkLost`.
    """
    import psycopg

    from gateway.fanout.notify import connect_session
    from gateway.fanout.queued import LinkLost

    connection = await connect_session(store_url)
    try:
        cursor = await connection.execute(
            "SELECT system_identifier, oid FROM pg_control_system(), pg_database"
            " WHERE datname = current_database()"
        )
        server, database = await cursor.fetchone() or (0, 0)
    except psycopg.Error as exc:
        raise LinkLost(f"the database does not say which it is: {exc}") from None
    finally:
        await connection.close()
    return sha256(f"{server}/{database}".encode()).hexdigest()[:16]
