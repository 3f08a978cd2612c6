"""Answer questions about a shop's orders: custom tools, and a database that the model never sees.

python examples/shop.py "Which orders of Ada are open?"
"""

import sqlite3
import sys
from dataclasses import dataclass

import kore


@dataclass
class Shop:
    orders: sqlite3.Connection


@kore.tool
def orders_of(run: kore.RunContext[Shop], customer: str, only_open: bool = False) -> list[str]:
    """List a customer's orders: number, article, state."""
    rows = run.deps.orders.execute(
        "SELECT number, article, state FROM orders WHERE customer = ?", [customer]
    )
    return [f"{n}: {what}, {state}" for n, what, state in rows if not only_open or state == "open"]


@kore.tool
def cancel(run: kore.RunContext[Shop], number: int) -> str:
    """Cancel an open order."""
    changed = run.deps.orders.execute(
        "UPDATE orders SET state = 'cancelled' WHERE number = ? AND state = 'open'", [number]
    )
    if changed.rowcount == 0:
        raise kore.ToolError(f"There is no open order {number}.")
    return f"Order {number} is cancelled."


agent = kore.Agent(
    instructions="You answer for a shop. Say only what the tools tell you.",
    tools=[orders_of, cancel],
    builtin_tools=[],
    deps_type=Shop,
)


def open_shop() -> Shop:
    # A plain function runs in a separate thread.
    orders = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    orders.execute("CREATE TABLE orders (number INTEGER, customer TEXT, article TEXT, state TEXT)")
    orders.executemany(
        "INSERT INTO orders VALUES (?, ?, ?, ?)",
        [(1, "Ada", "tea", "sent"), (2, "Ada", "a pot", "open"), (3, "Bob", "cups", "open")],
    )
    return Shop(orders)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(agent.run_sync(sys.argv[1], deps=open_shop()).text)
