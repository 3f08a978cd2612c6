import asyncio
import gc
import os
import threading
from dataclasses import replace
from pathlib import Path

from agent.security.files import file_io
from agent.security.files.file_io import exclusive_file
from agent.settings import ToolSettings
from agent.tools.assistant.remember import Remember
from agent.tools.base import CallContext
from agent.tools.files.edit import EditFile
from agent.tools.files.read_write import AppendFile

TIMES = 24
SETTINGS = ToolSettings()


async def test_concurrent_changes_to_a_file_are_all_kept(
    call: CallContext, workspace: Path
) -> None:
    """Sub-agents and conversations run concurrently.

    None of them may overwrite another's change with a version that it read before.
    """
    call.memory.parent.mkdir()
    call.memory.write_text("".join(f"- old {n}\n" for n in range(TIMES)))
    others = [
        replace(call, environment=replace(call.environment, session=f"s{n}")) for n in range(TIMES)
    ]
    path = str(call.memory.relative_to(workspace))

    def edited(n: int) -> dict[str, str]:
        return {"path": path, "old_string": f"- old {n}\n", "new_string": f"- new {n}\n"}

    await asyncio.gather(
        *(EditFile(SETTINGS).run(edited(n), result) for n, result in enumerate(others)),
        *(
            AppendFile(SETTINGS).run({"path": path, "content": f"- added {n}\n"}, result)
            for n, result in enumerate(others)
        ),
        *(Remember(SETTINGS).run({"text": f"fact {n}"}, result) for n, result in enumerate(others)),
    )
    lines = call.memory.read_text().splitlines()
    assert len(lines) == 3 * TIMES
    assert {f"- new {n}" for n in range(TIMES)} < set(lines)
    assert {f"- added {n}" for n in range(TIMES)} < set(lines)
    assert {line.split(": ")[1] for line in lines if ": " in line} == {
        f"fact {n}" for n in range(TIMES)
    }


def test_lock_is_shared_by_all_spellings_of_a_path(tmp_path: Path) -> None:
    busy = threading.Lock()
    met: list[str] = []

    def enter(name: str) -> None:
        for _ in range(2_000):
            with exclusive_file(tmp_path / name):
                if not busy.acquire(blocking=False):
                    met.append(name)
                    continue
                os.sched_yield()
                busy.release()

    threads = [threading.Thread(target=enter, args=(name,)) for name in ("notes.md", "NOTES.md")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert met == []


def test_other_files_do_not_wait(tmp_path: Path) -> None:
    inside = threading.Event()

    def enter() -> None:
        with exclusive_file(tmp_path / "other"):
            inside.set()

    with exclusive_file(tmp_path / "notes.md"):
        thread = threading.Thread(target=enter)
        thread.start()
        assert inside.wait(10)
    thread.join(10)


def test_unused_file_locks_are_dropped(tmp_path: Path) -> None:
    for n in range(100):
        with exclusive_file(tmp_path / str(n)):
            pass
    gc.collect()
    assert not [path for path in file_io._file_locks if path.is_relative_to(tmp_path)]
