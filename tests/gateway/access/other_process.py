"""Second process with its own view of people.

Run as `python -m … ADDRESS`, it prints that view as JSON after each line that it reads.
"""

import asyncio
import json
import sys
from typing import Any, cast

from gateway.access.control import AccessControl
from gateway.access.pairing import PairingCodes
from gateway.access.people import PeopleDirectory
from gateway.core.messages import Route
from gateway.delivery.user_language import UserLanguages
from gateway.store.port import Store
from tests.gateway.connection_store import ConnectionStore


class OtherProcess:
    """Parts of a process that receives no messages."""

    def __init__(self, database: ConnectionStore) -> None:
        self.access = AccessControl(None, {})
        self.languages = UserLanguages()
        self.people = PeopleDirectory(
            database=cast(Store, database),
            codes=PairingCodes(self.access),
            languages=self.languages,
            chat_settings=self.access.chat_settings,
            on_changed=lambda: None,
        )

    def facts(self) -> dict[str, Any]:
        return {
            "owner": self.access.owner_id,
            "people": sorted(sender for *_, sender in self.access.members.people),
            "language": self.languages.of_person("chat:8"),
            "names": list(self.access.chat_settings.names(Route("chat", "bot", "-1"))),
        }


async def main(address: str) -> None:
    database = ConnectionStore(address)
    other = OtherProcess(database)
    while await asyncio.to_thread(sys.stdin.readline):
        await other.people.refresh()
        print(json.dumps(other.facts()), flush=True)
    database.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
