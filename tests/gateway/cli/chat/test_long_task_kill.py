"""Long tasks whose processes are killed."""

import asyncio
import itertools
import json
from dataclasses import replace
from pathlib import Path

from gateway.cli.chat.long_task import LongTaskOptions, LongTaskRunner
from gateway.cli.chat.long_task_progress import LongTaskProgress, open_progress
from gateway.cli.chat.one_shot import OneShotRequest
from gateway.cli.chat.service_connection import ServiceConnection
from gateway.core.messages import ONCE, InboundMessage
from gateway.runtime.paths import DataDir
from tests.fakes.memory_service import MemoryService
from tests.fork_server import PipedProcess
from tests.gateway.cli.chat.long_task_scene import FEATURES, Place, checklist


async def kill_after(lines: int, process: PipedProcess) -> int | None:
    """Kill the process after this many lines of stderr; return its exit code if it ends before."""
    async with asyncio.timeout(60):
        for _ in range(lines):
            if not await process.stderr.readline():
                return await process.wait()
    process.kill()
    await process.wait()
    return None


async def test_repeated_command_completes_after_a_kill_at_any_step(place: Place) -> None:
    place.server.latency_s = 0.05
    lines, code = -2, None
    while code is None:
        lines += 3
        code = await kill_after(lines, await place.start("--auto-continue", "an account page"))
        if (place.work / "feature_list.json").exists():
            assert [feature["description"] for feature in place.mind.features()] == FEATURES
    assert code == 0
    assert lines > 3
    assert all(feature["passes"] for feature in place.mind.features())
    # No progress file, partly written file or running session is left behind.
    assert not [*place.home.glob("long/*.json"), *place.home.glob("long/*.new")]
    names = {path.name for path in place.work.iterdir() if path.suffix != ".kore-new"}
    assert names == {"feature_list.json", "PROGRESS.md", ".kore"}
    _, sessions = await place.run_verb("sessions", "list", "--json")
    assert "running" not in {load["status"] for load in json.loads(sessions)}


async def test_repeatedly_interrupted_session_is_abandoned(place: Place) -> None:
    with open_progress(DataDir(place.home), place.work) as progress_file:
        progress_file.write(LongTaskProgress(lane=f"{ONCE}1", cuts=2))
    code, err = await place.run("--auto-continue", "an account page", "--max-sessions", "1")
    assert code == 5
    assert "session 1 was interrupted 3 times; counting it as done" in err


class Slow(MemoryService):
    """Service that works on every message until it is stopped."""

    async def submit(self, message: InboundMessage) -> None:
        await super().submit(replace(message, content="slow"))


async def test_time_of_a_session_is_saved_while_it_runs(place: Place) -> None:
    place.plan()
    plan = LongTaskOptions(OneShotRequest(""), place.work)
    with open_progress(DataDir(place.home), place.work) as progress_file:
        async with Slow() as service, asyncio.timeout(30):
            work = LongTaskRunner(
                ServiceConnection(service), plan, progress_file, None, save_interval_s=0.01
            )
            task = asyncio.create_task(work.run(asyncio.Event()))
            while progress_file.read().worked_s == 0:
                await asyncio.sleep(0)
            # The progress record after a kill: with its lane and the time so far.
            progress = progress_file.read()
            task.cancel()
            await asyncio.wait({task})
    assert progress.lane is not None
    assert progress.done == 0


async def test_killed_planning_does_not_count_as_an_interruption(place: Place) -> None:
    plan = LongTaskOptions(OneShotRequest(""), place.work, "an account page")
    worked_s = 0.0
    with open_progress(DataDir(place.home), place.work) as progress_file:
        for _ in range(3):
            async with Slow() as service, asyncio.timeout(30):
                work = LongTaskRunner(
                    ServiceConnection(service), plan, progress_file, None, save_interval_s=0.01
                )
                task = asyncio.create_task(work.run(asyncio.Event()))
                while not (progress_file.read().lane and progress_file.read().worked_s > worked_s):
                    await asyncio.sleep(0)
                worked_s = progress_file.read().worked_s
                task.cancel()
                await asyncio.wait({task})
        progress = progress_file.read()
    assert (progress.done, progress.cuts) == (0, 0)
    assert progress.planning


class Planner(MemoryService):
    """Service that writes the checklist in response to every message."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    async def submit(self, message: InboundMessage) -> None:
        (self.folder / "feature_list.json").write_text(checklist([False] * len(FEATURES)))
        await super().submit(message)


async def test_planning_time_counts_towards_the_limit(place: Place) -> None:
    plan = LongTaskOptions(OneShotRequest(""), place.work, "an account page", max_hours=1)
    hours = itertools.count()
    with open_progress(DataDir(place.home), place.work) as progress_file:
        async with Planner(place.work) as service, asyncio.timeout(30):
            work = LongTaskRunner(
                ServiceConnection(service),
                plan,
                progress_file,
                None,
                clock=lambda: next(hours) * 3600.0,
            )
            assert await work.run(asyncio.Event()) == 5
    assert len(service.submitted) == 1


async def test_unfinished_turn_of_a_killed_terminal_ends_first(place: Place) -> None:
    place.plan()
    gateway = await place.serve()
    place.server.latency_s = 60
    process = await place.start("--auto-continue")
    await place.wait_for_request(process)
    process.kill()
    await process.communicate()
    place.server.latency_s = 0
    code, err = await place.run("--auto-continue")
    assert code == 0, err
    assert place.server.abandoned == 1
    assert "all 3 features pass, after 3 sessions" in err
    gateway.terminate()
    await gateway.communicate()


async def test_killed_team_does_not_run_during_the_next_session(place: Place) -> None:
    place.plan()
    place.mind.member_s = 60
    process = await place.start("--auto-continue", "--team", "general")
    async with asyncio.timeout(30):
        while sum(message.startswith("Build: ") for message in place.first_messages()) < 2:
            await place.server.news(10)
    process.kill()
    await process.communicate()
    place.mind.member_s = 0
    code, err = await place.run("--auto-continue", "--team", "general")
    assert code == 0, err
    assert "all 3 features pass, after 2 sessions" in err
    # Two killed sessions, and one session for each feature.
    assert sum(message.startswith("Build: ") for message in place.first_messages()) == 5


async def test_command_continues_after_the_gateway_is_killed(place: Place) -> None:
    place.plan()
    gateway = await place.serve()
    place.server.latency_s = 60
    process = await place.start("--auto-continue", "--max-sessions", "2")
    await place.wait_for_request(process)
    place.server.latency_s = 0
    gateway.kill()
    await gateway.communicate()
    async with asyncio.timeout(30):
        _, err = await process.communicate()
    assert process.returncode == 5, err
    assert b"2 sessions are done; 2 of 3 features pass" in err
