"""`python -m tests.crash.clients`: kill the server repeatedly while clients send and follow.

Nothing may be lost, duplicated or out of order.
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from gateway.server.tokens import TokenFile
from kore.client import Client
from tests.fakes.model import ModelServer
from tests.gateway.server.processes import KEY, Machine, free_port

LATEST_S = 1.0
KEPT_REQUESTS = 20


@dataclass
class Report:
    """Results of the clients."""

    kills: int = 0
    messages: list[list[tuple[int, str]]] = field(default_factory=list)
    texts: list[list[str]] = field(default_factory=list)

    def faults(self) -> list[str]:
        """Describe the faults; the list is empty if every message arrived once and in order."""
        faults = []
        for n, (messages, texts) in enumerate(zip(self.messages, self.texts, strict=True)):
            if [seq for seq, _ in messages] != list(range(1, 2 * len(texts) + 1)):
                faults.append(f"client {n}: numbers {[seq for seq, _ in messages]}")
            own = [text for _, text in messages if text.startswith(f"client {n} ")]
            if own != texts:
                faults.append(f"client {n}: sent {len(texts)} messages, received {own}")
        return faults


async def run(kills: int, clients: int, seed: int) -> Report:
    """Let clients send until the server was killed `kills` times, then wait for all answers."""
    report, chance = Report(), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="kore-crash-") as folder:
        async with ModelServer(api_key=KEY) as model:
            # Each request contains the whole conversation.
            model.keep = KEPT_REQUESTS
            machine, port = Machine(Path(folder), model), free_port()
            token = TokenFile(machine.home / "tokens.json").add("clients", ("chat",))
            address, is_last, is_over = f"http://127.0.0.1:{port}", asyncio.Event(), asyncio.Event()

            async def keep_serving() -> None:
                for _ in range(kills):
                    async with machine.serving("--listen-addr", f"127.0.0.1:{port}") as process:
                        await asyncio.sleep(chance.uniform(0, LATEST_S))
                        process.send_signal(signal.SIGKILL)
                        report.kills += 1
                is_last.set()
                async with machine.serving("--listen-addr", f"127.0.0.1:{port}"):
                    await is_over.wait()

            async def talk(n: int) -> tuple[list[tuple[int, str]], list[str]]:
                async with Client(address, token) as speaker, Client(address, token) as reader:
                    session = str(await speaker.send(None, f"client {n} begins"))
                    texts = [f"client {n} begins"]
                    following = asyncio.create_task(_follow(reader, session, is_last, texts))
                    while not is_last.is_set():
                        texts.append(f"client {n} says {len(texts)}")
                        await speaker.send(session, texts[-1])
                    return await following, texts

            serving = asyncio.create_task(keep_serving())
            try:
                for result, texts in await asyncio.gather(*(talk(n) for n in range(clients))):
                    report.messages.append(result)
                    report.texts.append(texts)
            finally:
                is_over.set()
                await serving
    return report


async def _follow(
    client: Client, session: str, is_last: asyncio.Event, sent_texts: list[str]
) -> list[tuple[int, str]]:
    """Follow a session until all sent texts are answered; return its messages."""
    results: list[tuple[int, str]] = []
    async for event in client.follow(session):
        if event["type"] == "message":
            parts = event["message"]["content"]
            texts = [part["text"] for part in parts if part["type"] == "text"]
            results.append((event["seq"], "".join(texts)))
        is_answered = len(results) >= 2 * len(sent_texts)
        if is_last.is_set() and is_answered and event["type"] in ("turn_end", "idle"):
            break
    return results


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.clients", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    report = asyncio.run(run(options.kills, options.clients, options.seed))
    faults = report.faults()
    count = sum(map(len, report.texts))
    print(
        f"{report.kills} kills, {options.clients} clients, {count} messages,"
        f" {time.monotonic() - began:.0f} s: {len(faults)} faults"
    )
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
