"""`python -m tests.crash.longwork --kills 100`: long tasks of a team, killed at random moments.

Half of the tasks run through a gateway, which is killed too. After each kill the same command runs
again. A task is complete when its checklist never changed except for the `passes` flags, every item
passes in the end, and nothing is left running.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.fakes.model import ModelServer
from tests.fork_server import PipedProcess
from tests.gateway.cli.chat.long_task_scene import FEATURES, Place

_COMMAND = ("--auto-continue", "an account page", "--team", "general")
_LONGEST_S = 6.0


class LongWorkLoop:
    """Loop over kills: `await LongWorkLoop(kills, seed).run()` returns their number.

    Raise AssertionError for a task that is incomplete.
    """

    def __init__(self, kills: int, seed: int) -> None:
        self.kills = kills
        self.killed = 0
        self._random = random.Random(seed)

    async def run(self) -> int:
        works = 0
        async with ModelServer() as server:
            server.latency_s = 0.15
            while self.killed < self.kills:
                with tempfile.TemporaryDirectory(prefix="kore-long-") as folder:
                    place = Place(Path(folder), server)
                    place.mind.member_s = 0.2
                    await self._run_task(place, has_gateway=works % 2 == 1)
                works += 1
        return works

    async def _run_task(self, place: Place, *, has_gateway: bool) -> None:
        """Run one task, next to a running gateway if `has_gateway` is set."""
        gateway = await place.serve() if has_gateway else None
        code: int | None = None
        while code is None:
            process = await place.start(*_COMMAND)
            code, result = await self._until_killed(process, gateway)
            assert "Traceback" not in result, result
            if gateway is not None and gateway.returncode is not None:
                gateway = await place.serve()
            if (place.work / "feature_list.json").exists():
                assert [feature["description"] for feature in place.mind.features()] == FEATURES
        assert code == 0, f"ended with {code}"
        assert all(feature["passes"] for feature in place.mind.features())
        assert not list(place.home.glob("long/*.json"))
        _, listed = await place.run_verb("sessions", "list", "--json")
        assert "running" not in {load["status"] for load in json.loads(listed)}, listed
        if gateway is not None:
            gateway.terminate()
            await gateway.communicate()

    async def _until_killed(
        self, process: PipedProcess, gateway: PipedProcess | None
    ) -> tuple[int | None, str]:
        """Return the process's exit code (None if it was killed) and its error output."""
        reading = asyncio.create_task(process.communicate())
        done, _ = await asyncio.wait({reading}, timeout=self._random.uniform(0.3, _LONGEST_S))
        killed = not done
        if killed:
            self.killed += 1
            terminal = gateway is None or self._random.random() < 0.6
            if gateway is not None and not terminal:
                gateway.kill()
                await gateway.communicate()
            if (terminal or self._random.random() < 0.7) and process.returncode is None:
                process.kill()
        _, err = await reading
        return (None if killed else process.returncode), err.decode()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    loop = LongWorkLoop(options.kills, options.seed)
    works = asyncio.run(loop.run())
    took = f"seed {options.seed}, {time.monotonic() - began:.0f} s"
    print(f"long work: {loop.killed} kills over {works} works, all came to their end; {took}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
