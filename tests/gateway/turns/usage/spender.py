"""Process that spends in parallel with another one: `python -m … ADDRESS TASKS CALLS`.

It calls no model. It prints "ready", waits for a line, then prints allowed calls and warnings.
"""

import asyncio
import sys
from typing import cast

from agent.errors import LimitReached
from agent.providers.usage import Charge, UsageTotals
from agent.security.redaction import Redactor
from agent.types import Usage
from gateway.access.control import AccessControl
from gateway.config.sections import LimitsSection
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender
from gateway.delivery.user_language import UserLanguages
from gateway.store.port import Store
from gateway.store.repositories.execution import turns
from gateway.store.repositories.usage import Payer
from gateway.turns.usage.meter import StoreUsageMeter, TurnMeter
from gateway.turns.usage.reservations import Reservations, StoredReservations
from tests.gateway.connection_store import ConnectionStore

# A call costs a cent, and a day's limit is a dollar.
CENT = Charge("v/m", Usage(1, 1), 10_000_000)
DAY = LimitsSection(cost_per_day_usd=1.0)
AT = 1_800_000_000.0


def usage_meter(database: Store, reservations: Reservations) -> StoreUsageMeter:
    renderer, languages = ReplyRenderer({}, Redactor()), UserLanguages()
    return StoreUsageMeter(
        database=database,
        renderer=renderer,
        sender=OutboxSender(
            database=database,
            renderer=renderer,
            languages=languages,
            record_unreachable=lambda *_: (0, None),
            when_given_up=lambda tx, delivery_id: lambda: None,
        ),
        languages=languages,
        access=AccessControl(None, {}),
        reservations=reservations,
        limits=DAY,
        clock=lambda: AT,
    )


async def turn_meter(usage: StoreUsageMeter) -> tuple[TurnMeter, Payer]:
    """Return the meter and the payer of a new turn."""
    turn = await usage.database.transact(turns.add_model_call, "cli:local:x", AT)
    payer = Payer(turn, f"s{turn}", "cli:local:x", "cli:local", "cli:0", turn)
    return TurnMeter(usage, payer, None, None, UsageTotals()), payer


async def spend(usage: StoreUsageMeter, tasks: int, calls: int) -> tuple[int, int]:
    """Run `tasks` parallel turns with `calls` calls each.

    Return the number of allowed calls and the number of warnings.
    """

    async def run() -> tuple[int, int]:
        allowed = warned = 0
        meter, _ = await turn_meter(usage)
        for _ in range(calls):
            try:
                await meter.before(CENT)
            except LimitReached:
                continue
            receipt = await meter.after(CENT)
            allowed, warned = allowed + 1, warned + len(receipt.warnings)
        return allowed, warned

    results = await asyncio.gather(*(run() for _ in range(tasks)))
    return sum(result for result, _ in results), sum(result for _, result in results)


async def main(address: str, tasks: int, calls: int) -> None:
    database = ConnectionStore(address)
    store = cast(Store, database)
    usage = usage_meter(store, StoredReservations(store))
    print("ready", flush=True)
    sys.stdin.readline()
    print(*await spend(usage, tasks, calls), flush=True)
    database.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
