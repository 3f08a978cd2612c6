import asyncio
import json
import os
import resource
import signal
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.security.audit import AuditLevel
from gateway.ops.audit.log import AuditLog
from gateway.ops.audit.trail import CURRENT, GENESIS, HEAD, AuditError, entries, numbered_files
from gateway.ops.audit.verify import verify
from tests import fork_server
from tests.gateway.ops.audit.entries import entry, write


@asynccontextmanager
async def open_log(folder: Path, **more: Any) -> AsyncIterator[AuditLog]:
    log = AuditLog(folder, **more)
    await log.open()
    yield log
    await log.close()


def lines(folder: Path, name: str = CURRENT) -> list[bytes]:
    return (folder / name).read_bytes().splitlines(keepends=True)


def faults(folder: Path) -> list[tuple[str, int]]:
    return [(fault.file, fault.line) for fault in verify(folder).faults]


async def test_entry_has_the_documented_fields_and_a_verifiable_hash(
    tmp_path: Path,
) -> None:
    async with open_log(tmp_path) as log:
        await write(log, 2)
    first, second = [json.loads(line) for line in lines(tmp_path)]
    assert list(first) == [
        *("ts", "agent_id", "role", "tool", "allowed", "reason", "params", "session_id"),
        *("prev_hash", "hash"),
    ]
    assert first["prev_hash"] == GENESIS
    assert second["prev_hash"] == first["hash"]
    result = second.pop("hash")
    body = json.dumps(second, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert sha256(body.encode()).hexdigest() == result


async def test_files_are_private(tmp_path: Path) -> None:
    async with open_log(tmp_path / "audit", limit_bytes=1_000) as log:
        await write(log, 9)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "audit").iterdir()}
    assert len(modes) > 2
    assert set(modes.values()) == {0o600}


async def test_chain_continues_across_files_and_starts(tmp_path: Path) -> None:
    for _ in range(3):
        async with open_log(tmp_path, limit_bytes=1_500) as log:
            await write(log, 7)
    assert len(numbered_files(tmp_path)) > 2
    rows = list(entries(tmp_path))
    assert len(rows) == 21
    assert all(a["hash"] == b["prev_hash"] for a, b in pairwise(rows))
    assert verify(tmp_path).faults == []


async def test_number_of_full_files_is_limited_and_the_rest_verifies(tmp_path: Path) -> None:
    async with open_log(tmp_path, limit_bytes=1_000, keep=2) as log:
        await write(log, 40)
    assert len(numbered_files(tmp_path)) == 2
    report = verify(tmp_path)
    assert report.faults == []
    assert 0 < report.entries < 40


def cut_middle(folder: Path) -> None:
    results = lines(folder)
    (folder / CURRENT).write_bytes(b"".join(results[:2] + results[3:]))


def cut_end(folder: Path) -> None:
    (folder / CURRENT).write_bytes(b"".join(lines(folder)[:-1]))


def edit(folder: Path) -> None:
    data = (folder / CURRENT).read_bytes()
    (folder / CURRENT).write_bytes(data.replace(b"notes/3.md", b"notes/9.md"))


def edit_and_hash_anew(folder: Path) -> None:
    from gateway.ops.audit.trail import chain_line

    results = lines(folder)
    changed = json.loads(results[2]) | {"allowed": False}
    results[2], _ = chain_line(changed, changed["prev_hash"])
    (folder / CURRENT).write_bytes(b"".join(results))


def hide_a_second_key(folder: Path) -> None:
    results = lines(folder)
    results[2] = results[2].replace(b'"allowed":true', b'"allowed":false,"allowed":true')
    (folder / CURRENT).write_bytes(b"".join(results))


def reorder(folder: Path) -> None:
    results = lines(folder)
    results[1], results[2] = results[2], results[1]
    (folder / CURRENT).write_bytes(b"".join(results))


def repeat(folder: Path) -> None:
    results = lines(folder)
    (folder / CURRENT).write_bytes(b"".join([*results[:2], results[1], *results[2:]]))


def insert_garbage(folder: Path) -> None:
    results = lines(folder)
    (folder / CURRENT).write_bytes(b"".join([*results[:2], b"hello\n", *results[2:]]))


def rechain_from_the_middle(folder: Path) -> None:
    """Recompute the hash chain from an edited entry on, except for the head."""
    from gateway.ops.audit.trail import chain_line

    result, previous = lines(folder)[:2], json.loads(lines(folder)[1])["hash"]
    for line in lines(folder)[2:]:
        line_made, previous = chain_line(json.loads(line) | {"role": "plan"}, previous)
        result.append(line_made)
    (folder / CURRENT).write_bytes(b"".join(result))


def cut_end_inside_a_line(folder: Path) -> None:
    (folder / CURRENT).write_bytes((folder / CURRENT).read_bytes()[:-30])


def delete_current(folder: Path) -> None:
    (folder / CURRENT).unlink()


def delete_head(folder: Path) -> None:
    (folder / HEAD).unlink()


def damage_head(folder: Path) -> None:
    (folder / HEAD).write_text('{"hash": 1}')


ATTACKS = [
    (cut_middle, (CURRENT, 3)),
    (cut_end, (CURRENT, 0)),
    (cut_end_inside_a_line, (CURRENT, 5)),
    (edit, (CURRENT, 4)),
    (edit_and_hash_anew, (CURRENT, 4)),
    (hide_a_second_key, (CURRENT, 3)),
    (reorder, (CURRENT, 2)),
    (repeat, (CURRENT, 3)),
    (insert_garbage, (CURRENT, 3)),
    (rechain_from_the_middle, (CURRENT, 5)),
    (delete_current, (HEAD, 0)),
    (delete_head, (HEAD, 0)),
    (damage_head, (HEAD, 0)),
]


@pytest.mark.parametrize(
    ("attack", "place"), ATTACKS, ids=lambda value: getattr(value, "__name__", "")
)
async def test_attack_is_located(
    tmp_path: Path, attack: Callable[[Path], None], place: tuple[str, int]
) -> None:
    async with open_log(tmp_path) as log:
        await write(log, 5)
    assert faults(tmp_path) == []
    attack(tmp_path)
    assert place in faults(tmp_path)


@pytest.mark.parametrize("which", [0, 1, -1])
async def test_missing_full_file_is_detected(tmp_path: Path, which: int) -> None:
    async with open_log(tmp_path, limit_bytes=1_000) as log:
        await write(log, 12)
    path = list(numbered_files(tmp_path).values())[which]
    path.unlink()
    assert (path.name, 0) in faults(tmp_path)


@pytest.mark.parametrize(
    "attack", [cut_middle, cut_end, cut_end_inside_a_line, edit, reorder, delete_current]
)
async def test_tampering_during_downtime_is_detected_after_new_entries(
    tmp_path: Path, attack: Callable[[Path], None]
) -> None:
    async with open_log(tmp_path) as log:
        await write(log, 5)
    attack(tmp_path)
    async with open_log(tmp_path) as log:
        await write(log, 5)
    assert faults(tmp_path)
    newest = list(entries(tmp_path))[-5:]
    assert [item["params"]["path"] for item in newest] == [f"notes/{n}.md" for n in range(5)]


async def test_tampering_while_kore_runs_is_detected(tmp_path: Path) -> None:
    for attack in (cut_end, delete_current):
        async with open_log(tmp_path / attack.__name__) as log:
            await write(log, 3)
            attack(tmp_path / attack.__name__)
            await write(log, 3)
        assert faults(tmp_path / attack.__name__)


async def test_lost_head_is_recreated_and_noted(tmp_path: Path) -> None:
    async with open_log(tmp_path) as log:
        await write(log, 3)
    delete_head(tmp_path)
    async with open_log(tmp_path) as log:
        await write(log, 1)
    report = verify(tmp_path)
    assert report.faults == []
    assert report.repairs == ["head.json was missing; it was recreated from the entries"]


async def test_line_truncated_by_a_crash_is_removed_and_noted(tmp_path: Path) -> None:
    async with open_log(tmp_path) as log:
        await write(log, 3)
    with (tmp_path / CURRENT).open("ab") as file:
        file.write(b'{"ts":1,"agent')
    assert faults(tmp_path) == []
    async with open_log(tmp_path):
        pass
    report = verify(tmp_path)
    assert (report.entries, report.faults) == (4, [])
    assert report.repairs == ["14 bytes of an unfinished entry were removed from audit.jsonl"]


async def test_kill_loses_no_acknowledged_entry_and_leaves_a_valid_log(
    tmp_path: Path,
) -> None:
    """Entries reported by a killed process exist; the next process continues over many files."""
    promised = 0
    for round_ in range(6):
        process = await fork_server.start_piped(
            ["python", "-m", "tests.gateway.ops.audit.writing", tmp_path, "3000"],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"]},
        )
        text = b"0"
        for _ in range(3 + 7 * round_):
            text = await process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        rest = (await process.stdout.read()).split()
        await process.wait()
        promised += int(rest[-1] if rest else text)
    report = verify(tmp_path)
    assert report.faults == []
    head = json.loads((tmp_path / HEAD).read_text())
    assert head["count"] + report.newer_entries >= promised
    assert len(numbered_files(tmp_path)) == 3


async def test_earlier_head_must_still_exist(tmp_path: Path) -> None:
    async with open_log(tmp_path) as log:
        await write(log, 2)
        earlier = verify(tmp_path).head
        await write(log, 2)
    assert verify(tmp_path, earlier).contains_hash is True
    for path in tmp_path.iterdir():
        path.unlink()
    async with open_log(tmp_path) as log:
        await log.record(entry(ts=1.0))
        await write(log, 3)
    report = verify(tmp_path, earlier)
    assert (report.faults, report.contains_hash) == ([], False)


async def test_summary_level_omits_contents(tmp_path: Path) -> None:
    params = {"path": "a.txt", "command": "x" * 500, "content": "SECRET TEXT", "depth": 3}
    async with open_log(tmp_path) as log:
        await log.record(entry(params={**params, "edits": [{"old_string": "SECRET TEXT"}]}))
    (result,) = entries(tmp_path)
    assert result["params"] == {
        "path": "a.txt",
        "command": "x" * 200 + "…",
        "content": "(11 characters)",
        "depth": 3,
        "edits": "(1 items)",
    }


async def test_full_level_redacts_only_secrets(tmp_path: Path) -> None:
    def clean(text: str) -> str:
        return text.replace("sk-123", "***")

    params = {"content": "key sk-123", "list": ["sk-123", {"deep": "sk-123"}], "sk-123": 1.5}
    async with open_log(tmp_path, level=lambda: "full", clean=clean) as log:
        await log.record(entry(params=params, reason="asked about sk-123"))
    assert b"sk-123" not in (tmp_path / CURRENT).read_bytes()
    (result,) = entries(tmp_path)
    assert result["params"] == {"content": "key ***", "list": ["***", {"deep": "***"}], "***": 1.5}


async def test_none_level_writes_nothing(tmp_path: Path) -> None:
    async with open_log(tmp_path / "audit", level=lambda: "none") as log:
        await log.record(entry())
    assert not (tmp_path / "audit").exists()


async def test_level_may_change_while_kore_runs(tmp_path: Path) -> None:
    levels: list[AuditLevel] = ["none", "full", "none", "summary"]
    async with open_log(tmp_path, level=lambda: levels[0]) as log:
        for level in list(levels):
            levels[0] = level
            await log.record(entry(params={"content": level}))
    contents = [item["params"]["content"] for item in entries(tmp_path)]
    assert contents == ["full", "(7 characters)"]
    assert verify(tmp_path).faults == []


async def test_unserializable_entry_is_rejected_without_affecting_others(
    tmp_path: Path,
) -> None:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    odd = [{"n": 10**5_000}, {"deep": deep}]
    async with open_log(tmp_path, level=lambda: "full") as log:
        entries_to_write = [
            entry("1"),
            *(entry(params=item) for item in odd),
            entry("2"),
            entry("3"),
        ]
        # Entries that arrive during the first write wait and are written together.
        results = await asyncio.gather(*map(log.record, entries_to_write), return_exceptions=True)
    assert [type(item) for item in results] == [
        type(None),
        AuditError,
        AuditError,
        *[type(None)] * 2,
    ]
    paths = [item["params"]["path"] for item in entries(tmp_path)]
    assert paths == ["notes/1.md", "notes/2.md", "notes/3.md"]
    assert verify(tmp_path).faults == []


async def test_odd_values_keep_the_chain_valid(tmp_path: Path) -> None:
    params = {"a": float("nan"), "b": "\ud800", "c": "\u2028", "d": None, "e": {"f": (1,)}}
    async with open_log(tmp_path, level=lambda: "full") as log:
        await log.record(entry(params=params))
        await log.record(entry())
    assert verify(tmp_path).faults == []


async def test_concurrent_entries_are_all_written(tmp_path: Path) -> None:
    async with open_log(tmp_path) as log:
        await asyncio.gather(*(log.record(entry(str(n))) for n in range(50)))
    assert verify(tmp_path).faults == []
    assert {item["params"]["path"] for item in entries(tmp_path)} == {
        f"notes/{n}.md" for n in range(50)
    }


async def test_cancelled_call_has_its_complete_entry(tmp_path: Path) -> None:
    async with open_log(tmp_path) as log:
        task = asyncio.create_task(log.record(entry("gone")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await log.record(entry("next"))
    assert [item["params"]["path"] for item in entries(tmp_path)] == [
        "notes/gone.md",
        "notes/next.md",
    ]
    assert verify(tmp_path).faults == []


async def test_unwritable_log_is_reported_and_resumed(tmp_path: Path) -> None:
    async with open_log(tmp_path) as log:
        await write(log, 3)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        # Leave room for only a part of the next line.
        room = (tmp_path / CURRENT).stat().st_size + 50
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            with pytest.raises(AuditError):
                await log.record(entry("lost"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await log.record(entry("kept"))
    assert verify(tmp_path).faults == []
    assert [item["params"]["path"] for item in entries(tmp_path)][3:] == ["notes/kept.md"]


async def test_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / CURRENT).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AuditError):
        await AuditLog(tmp_path / "audit").open()
    assert not (tmp_path / "elsewhere").exists()
