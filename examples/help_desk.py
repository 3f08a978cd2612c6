"""A help desk: a receptionist hands conversations over to a specialist.

python examples/help_desk.py "I was charged twice."
"""

import asyncio
import sys
from dataclasses import dataclass

import kore


@dataclass
class Matter:
    """Facts that a colleague needs at once."""

    summary: str
    is_urgent: bool = False


@kore.tool
def refund(invoice: str) -> str:
    """Start the refund of an invoice."""
    return f"The refund of {invoice} has begun."


billing = kore.Agent(
    name="billing",
    handoff_description="Invoices, payments, refunds.",
    instructions="You answer questions about invoices, and refund what was paid by mistake.",
    tools=[refund],
    builtin_tools=[],
)
technician = kore.Agent(
    name="technician",
    handoff_description="Everything that does not work.",
    instructions="You find out what is broken, one question at a time.",
    builtin_tools=[],
)


def note(run: kore.RunContext, matter: Matter) -> None:
    print(f"[{run.agent}: {matter.summary}{', urgent' if matter.is_urgent else ''}]")


receptionist = kore.Agent(
    name="receptionist",
    instructions="Hand over to the right colleague; answer nothing yourself.",
    builtin_tools=[],
    handoffs=[
        kore.Handoff(billing, input_type=Matter, on_handoff=note),
        kore.Handoff(technician, input_type=Matter, on_handoff=note),
    ],
)


async def main(question: str) -> None:
    async with receptionist:
        result = await receptionist.run(question)
    print(f"{result.agent}: {result.text}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1]))
