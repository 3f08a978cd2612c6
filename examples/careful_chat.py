"""A terminal chat that resumes where it ended, and rejects card numbers.

python examples/careful_chat.py
"""

import asyncio
import re

import kore

CARD = re.compile(r"\b(?:\d[ -]?){13,16}\b")


@kore.input_guardrail
def no_cards(run: kore.RunContext, message: kore.Message) -> str | None:
    return "it holds a card number" if CARD.search(message.text) else None


class Counter(kore.Hooks):
    """A counter of model calls."""

    calls = 0

    async def before_model(self, run: kore.RunContext, request: kore.ModelRequest) -> None:
        self.calls += 1


async def main() -> None:
    counter = Counter()
    agent = kore.Agent(
        history=kore.JsonlHistory("chats"),
        builtin_tools=["web_search", "web_fetch"],
        input_guardrails=[no_cards],
        hooks=[counter],
    )
    async with agent:
        while line := await asyncio.to_thread(read):
            try:
                print((await agent.run(line, session="careful")).text)
            except kore.GuardrailTripped as trip:
                print(f"Not sent: {trip.reason}.")
    print(f"The model was asked {counter.calls} times.")


def read() -> str:
    try:
        return input("> ")
    except EOFError:
        return ""


if __name__ == "__main__":
    asyncio.run(main())
