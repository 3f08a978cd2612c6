"""`kore audit`, run as a program next to a writer."""

import asyncio
import json
import os
import shutil
import signal
from pathlib import Path

from gateway.ops.audit.log import AuditLog
from gateway.ops.audit.trail import GENESIS, chain_line, seconds_of
from tests import fork_server
from tests.gateway.cli.kore import kore
from tests.gateway.ops.audit.entries import entry


async def fill_log(home: Path) -> AuditLog:
    log = AuditLog(home / "audit", mark=home / "audit-mark.json")
    await log.open()
    await log.record(entry("a"))
    await log.record(entry("b", tool="exec", allowed=False, session_id="2027", ts=1_900_000_000.0))
    return log


async def test_entries_are_shown_searched_and_verified_next_to_a_writer(tmp_path: Path) -> None:
    home = tmp_path / "h"
    log = await fill_log(home)

    async def out(*words: str) -> str:
        return (await asyncio.to_thread(kore, "audit", *words, home=home)).stdout

    first, second = (await out("tail")).splitlines()
    assert "allowed  read_file" in first
    assert "DENIED   exec" in second
    assert (await out("tail", "-n", "1")).splitlines() == [second]
    for words in (["--tool", "exec"], ["--denied"], ["--session", "20270"[:4]], ["NOTES/B"]):
        assert (await out("search", *words)).splitlines() == [second]
    assert (await out("search", "--since", "2030-01-01")).splitlines() == [second]
    assert await out("search", "--tool", "exec", "nothing") == ""
    (line,) = (await out("search", "--denied", "--json")).splitlines()
    assert json.loads(line)["tool"] == "exec"
    assert "2 entries in 1 file: intact" in await out("verify")
    await log.close()


async def test_lines_with_unix_seconds_are_still_read(tmp_path: Path) -> None:
    home = tmp_path / "h"
    await (await fill_log(home)).close()
    path = home / "audit" / "audit.jsonl"
    previous, lines = GENESIS, b""
    for raw in path.read_bytes().splitlines():
        fields = json.loads(raw)
        line, previous = chain_line(fields | {"ts": seconds_of(fields["ts"])}, previous)
        lines += line
    path.write_bytes(lines)
    (line,) = kore("audit", "search", "--since", "2030-01-01", home=home).stdout.splitlines()
    assert line.startswith("2030-03-1")


async def test_verify_names_the_damaged_entry_and_fails(tmp_path: Path) -> None:
    home = tmp_path / "h"
    await (await fill_log(home)).close()
    path = home / "audit" / "audit.jsonl"
    path.write_bytes(path.read_bytes().replace(b"notes/a.md", b"notes/c.md"))
    ran = kore("audit", "verify", home=home)
    assert ran.returncode == 1
    assert "audit.jsonl, line 1: the entry was changed" in ran.stdout
    report = json.loads(kore("audit", "verify", "--json", home=home).stdout)
    assert report["ok"] is False
    assert report["faults"][0]["line"] == 1
    forged = kore("audit", "verify", "--head", "f" * 64, home=home)
    assert "no entry has the hash" in forged.stdout


async def test_removed_log_is_detected_after_the_next_start(tmp_path: Path) -> None:
    home = tmp_path / "h"
    await (await fill_log(home)).close()
    shutil.rmtree(home / "audit")
    ran = kore("audit", "verify", home=home)
    assert (ran.returncode, "newest of 2 written entries is missing" in ran.stdout) == (1, True)

    await (await fill_log(home)).close()
    for _ in range(2):
        ran = kore("audit", "verify", home=home)
        assert (ran.returncode, "2 entries of an earlier log are missing" in ran.stdout) == (
            1,
            True,
        )
        await (await fill_log(home)).close()
    # The owner deletes the mark deliberately.
    (home / "audit-mark.json").unlink()
    assert kore("audit", "verify", home=home).returncode == 0


async def test_damaged_mark_is_a_fault(tmp_path: Path) -> None:
    home = tmp_path / "h"
    await (await fill_log(home)).close()
    assert kore("audit", "verify", home=home).returncode == 0
    (home / "audit-mark.json").write_text("{}")
    assert "damaged" in kore("audit", "verify", home=home).stdout


def test_missing_log_is_not_an_error(tmp_path: Path) -> None:
    ran = kore("audit", "verify", home=tmp_path / "h")
    assert (ran.returncode, ran.stdout.splitlines()[0]) == (0, "0 entries in 0 files: intact")
    assert kore("audit", "search", "--since", "soon", home=tmp_path / "h").returncode == 2


async def test_follow_shows_entries_across_files(tmp_path: Path) -> None:
    home = tmp_path / "h"
    log = AuditLog(home / "audit", limit_bytes=1_000)
    await log.open()
    await log.record(entry("first"))
    process = await fork_server.start_piped(
        ["audit", "tail", "--follow", "--json"],
        cwd=home,
        env={"PATH": os.environ["PATH"], "KORE_HOME": str(home)},
    )
    seen = [json.loads(await process.stdout.readline())["params"]["path"]]
    for n in range(8):
        await log.record(entry(str(n)))
        seen.append(json.loads(await process.stdout.readline())["params"]["path"])
    assert seen == ["notes/first.md", *(f"notes/{n}.md" for n in range(8))]
    process.send_signal(signal.SIGINT)
    _, complaints = await process.communicate()
    assert (process.returncode, complaints) == (130, b"")
    await log.close()


def test_empty_log_is_reported_and_prints_no_entries(tmp_path: Path) -> None:
    for words, message in ((("tail",), "no entries yet"), (("search", "x"), "no matching entries")):
        result = kore("audit", *words, home=tmp_path / "h")
        assert (result.returncode, result.stdout) == (0, "")
        assert message in result.stderr
    result = kore("audit", "tail", "--json", home=tmp_path / "h")
    assert (result.stdout, result.stderr) == ("", "")
