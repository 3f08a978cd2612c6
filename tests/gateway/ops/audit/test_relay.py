"""Audited events that are not calls: admitted people and loosened settings."""

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.providers.scripted import ScriptedProvider
from agent.security.audit import AuditEntry
from agent.types import ToolCall, assistant
from gateway.core.approval import ApprovalPrompt
from gateway.core.messages import OutboundFile, OutboundPart
from gateway.ops.audit.log import AuditLog
from gateway.ops.audit.pending import forget_notes, leave_note, waiting_notes
from gateway.ops.audit.relay import AuditRelay
from gateway.ops.audit.trail import AuditError, entries
from gateway.runtime.paths import DataDir
from gateway.store.repositories import audit_outbox
from gateway.store.repositories.audit_outbox import AuditNote
from gateway.store.sqlite.engine import SqliteStore
from tests.fakes.platform import Platform
from tests.fakes.rehearsing_store import RehearsingStore
from tests.gateway.cli.kore import kore
from tests.gateway.ops.audit.pairing import code_for
from tests.gateway.parts import accept_messages, chat_message, running


def audit_notes(folder: Path) -> list[tuple[str, bool, str, Any]]:
    return [
        (entry["tool"], entry["allowed"], entry["reason"], entry["params"])
        for entry in entries(folder / "audit")
    ]


async def test_pairing_decisions_are_audited(tmp_path: Path) -> None:
    async with running(tmp_path, ["Hello."], owner="chat:7", allow=()) as parts:
        by_verb, in_chat, refused = [await code_for(parts, person) for person in ("8", "9", "10")]
        await parts.service.approve_pairing(by_verb)
        words = f"approve {in_chat}", f"deny {refused}"
        await accept_messages(parts, *(chat_message(f"/pair {text}", "7") for text in words))
        await parts.platform.until(lambda: "was denied" in " ".join(parts.platform.texts("7")))
        await parts.service.revoke_pairing("chat:8")
        # An unknown code changes nothing.
        await accept_messages(parts, chat_message("/pair deny ABCD-EFGH", "7"))
        await parts.platform.until(
            lambda: (
                "This code is wrong, already used, or expired (codes are valid for one hour"
                in parts.platform.texts("7")[-1]
            )
        )
        assert await parts.stored("audit_outbox") == []
    machine = next(iter(audit_notes(tmp_path)))[2].removeprefix("let in by ")
    assert re.fullmatch(r"cli:\d+", machine)
    assert audit_notes(tmp_path) == [
        ("kore:pairing", True, f"let in by {machine}", {"who": "chat:8"}),
        ("kore:pairing", True, "let in by chat:7", {"who": "chat:9"}),
        ("kore:pairing", False, "turned down by chat:7", {"who": "chat:10"}),
        ("kore:pairing", False, f"turned out by {machine}", {"who": "chat:8"}),
    ]


async def test_only_a_less_strict_mode_is_recorded(tmp_path: Path) -> None:
    async with running(tmp_path, ["Hello."], owner="chat:7") as parts:
        for n, text in enumerate(("/plan", "/mode ask", "/mode ask", "/auto", "/plan"), start=1):
            await accept_messages(parts, chat_message(text))
            await parts.platform.answers("1", n)
        where = {"who": "chat:7", "chat": "chat:bot:1"}
    assert audit_notes(tmp_path) == [
        ("kore:mode", True, "plan became ask by chat:7", {"mode": "ask", **where}),
        ("kore:mode", True, "ask became auto by chat:7", {"mode": "auto", **where}),
    ]


class Asking(Platform):
    """Platform with buttons."""

    def render_approval(self, question: ApprovalPrompt, decided: str | None = None) -> OutboundPart:
        return OutboundPart(decided or question.title)

    def render_details(self, question: ApprovalPrompt) -> OutboundFile | None:
        return None

    async def acknowledge(self, event_id: str, sentence: str) -> None:
        return


async def answer_approval(folder: Path, answer: Any) -> None:
    arguments = {"path": "a.txt", "old_string": "old", "new_string": "new"}
    change = ToolCall("1", "edit_file", arguments, json.dumps(arguments))
    model = ScriptedProvider([assistant("", (change,)), "done"])
    async with running(folder, model, owner="chat:7", platform=Asking()) as parts:
        (parts.workspace / "a.txt").write_text("old\n")
        await accept_messages(parts, chat_message("go"))
        await parts.until_stored("approval", state="open")
        (question,) = await parts.service.list_approvals()
        await parts.service.answer_approval(question.nonce, answer, "cli:0")
        await parts.platform.until(lambda: "done" in parts.platform.texts("1"))


async def test_standing_grants_are_recorded_separately_from_calls(
    tmp_path: Path,
) -> None:
    for folder in ("once", "always"):
        (tmp_path / folder).mkdir()
        await answer_approval(tmp_path / folder, folder)
    assert [tool for tool, *_ in audit_notes(tmp_path / "once")] == ["edit_file"]
    grants = [note for note in audit_notes(tmp_path / "always") if note[0] != "edit_file"]
    assert grants == [
        (
            "kore:grant",
            True,
            "question 1: allowed from now on by cli:0",
            {"action": "always", "who": "chat:7", "chat": "chat:bot:1"},
        )
    ]


class Full:
    """Audit log on a full disk, until space is freed."""

    def __init__(self) -> None:
        self.room = False
        self.reasons: list[str] = []

    def summarize(self, entry: AuditEntry) -> AuditEntry:
        return entry

    async def append(self, entries: Sequence[AuditEntry]) -> None:
        if not self.room:
            raise AuditError("the audit log cannot be written: no space")
        self.reasons += [entry.reason for entry in entries]


async def put(database: SqliteStore, reasons: Sequence[str]) -> None:
    for reason in reasons:
        await database.transact(audit_outbox.put, AuditNote(1_800_000_000.25, "pairing", reason))


async def test_failed_audit_entries_are_retried(tmp_path: Path) -> None:
    database, full = RehearsingStore.open(tmp_path / "kore.db"), Full()
    await put(database, ["a", "b"])
    relay = AuditRelay(database, full, tmp_path / "pending")
    await relay.flush()
    assert full.reasons == []
    full.room = True
    await asyncio.gather(relay.flush(), relay.flush())
    assert full.reasons == ["a", "b"]
    await database.close()


async def test_kill_after_the_change_loses_no_note(tmp_path: Path) -> None:
    database = RehearsingStore.open(tmp_path / "kore.db")
    await put(database, ["let in"])
    await database.close()
    database, log = RehearsingStore.open(tmp_path / "kore.db"), AuditLog(tmp_path / "audit")
    await AuditRelay(database, log, tmp_path / "pending").flush()
    await log.close()
    await database.close()
    (entry,) = entries(tmp_path / "audit")
    assert entry["ts"] == "2027-01-15T08:00:00.250000Z"
    assert (entry["reason"], entry["agent_id"]) == ("let in", "kore")


async def test_command_line_changes_are_audited_without_values(tmp_path: Path) -> None:
    home = tmp_path / "home"
    key = "telegram.token"
    assert kore("config", "set", key, "123:very-secret", home=home).returncode == 0
    assert kore("config", "unset", "telegram.nothing", home=home).returncode != 0
    pending = DataDir(home).audit_pending
    assert pending.stat().st_mode & 0o777 == 0o600
    # Other programs may write to this file, as to the configuration: invalid notes are skipped.
    with pending.open("ab") as file:
        file.write(b'null\n{"at": "x"}\n\xff\n[]\n')
    refused = AuditNote(2.0, "plugin", "the change failed", {"name": "tea"}, False, "s1")
    leave_note(pending, refused)
    database, log = RehearsingStore.open(tmp_path / "kore.db"), AuditLog(tmp_path / "audit")
    relay = AuditRelay(database, log, pending)
    await asyncio.gather(relay.flush(), relay.flush())
    await log.close()
    await database.close()
    first, second = entries(tmp_path / "audit")
    who = {"who": "command line", "operation": "set", "name": key}
    assert (first["tool"], first["params"]) == ("kore:setting", who)
    assert (second["tool"], second["params"]) == ("kore:plugin", {"name": "tea"})
    assert (second["allowed"], second["session_id"]) == (False, "s1")
    assert "very-secret" not in json.dumps([first, second])
    assert waiting_notes(pending) == []


def test_notes_beyond_a_batch_stay_for_the_next_run(tmp_path: Path) -> None:
    pending = tmp_path / "pending"
    for n in range(30):
        leave_note(
            pending, AuditNote(float(n), "plugin", "changed by the owner", {"x": "y" * 50_000})
        )
    seen = []
    while notes := waiting_notes(pending):
        seen += [note.at for note in notes]
        forget_notes(pending, len(notes))
    assert seen == [float(n) for n in range(30)]
