"""Reader of each sealed column."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from agent.context.compaction.compactor import CompactionResult, SplitPoint
from agent.context.compaction.summarizer import Summary
from agent.security.audit import AuditEntry
from agent.serialization import dumps
from agent.types import ToolResult, assistant, user
from agent.undo.ledger import UndoOperation, UndoResult
from agent.undo.records import ChangeStep, FileChange
from gateway.core.messages import OutboundPart
from gateway.core.records import ApiAnswer, ApiRequest
from gateway.core.session_folder import SessionFolder
from gateway.store.port import Transaction
from gateway.store.repositories import (
    api_answers,
    audit_outbox,
    file_changes,
    goals,
    jobs,
)
from gateway.store.repositories.access import approvals, grants, members
from gateway.store.repositories.access.members import Person
from gateway.store.repositories.conversations import (
    session_admin,
    session_folders,
    sessions,
    transcripts,
)
from gateway.store.repositories.delivery import chats, inbox, outbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.delivery.outbox import OutgoingReply
from gateway.store.repositories.execution import subagent_tasks, turns, windows
from gateway.store.repositories.execution.subagent_tasks import TaskOutcome
from gateway.store.repositories.execution.windows import StoredSummary
from gateway.store.repositories.goals import Goal
from gateway.store.repositories.jobs import Job
from tests.gateway import stored
from tests.gateway.parts import chat_message
from tests.gateway.store.repositories.launches import launched
from tests.gateway.store.repositories.stored_approvals import ASKED, CALL, OWNER, ask, begin

ROUTE = chat_message("x", "2").route
EVE = Person("telegram", "main", "2", "Eve")
REQUEST = ApiRequest("token", "key", "digest", "resp_1")
ROOT = Path("/work")
ENTRY = AuditEntry(1.0, "kore", "", "exec", True, "allowed", {}, "s")
READ = "read"


class Scene:
    """A row in every table that has sealed columns, written by the repositories."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx
        claim = begin(tx)
        self.turn, self.session = claim.turn, claim.session
        _, question = ask(tx, claim)
        task = launched(tx, claim, ASKED.session_key)
        self.task = task.id
        subagent_tasks.end(tx, task.id, TaskOutcome("done", "found"), 8.0)
        approvals.close_approval(tx, question, "always", "telegram:1", 2.0)
        turns.finish_call(tx, self.turn, CALL, ToolResult("found"))
        session_admin.rename(tx, self.session, "my own name")
        sessions.set_file_views(tx, self.session, "{}")
        session_folders.put(tx, self.session, SessionFolder("/work"))
        goals.put(tx, Goal(self.session, chat_message("all tests pass"), 20, 60.0, None, 0, 1.0))
        members.add_member(tx, OWNER, owner=True, approved_by="cli:0", now=1.0)
        members.open_request(tx, EVE, "2", b"code", (1.0, 9.0))
        outbox.put(tx, None, [OutgoingReply("t1", ROUTE, [OutboundPart("the answer")])], 1.0)
        inbox.accept(
            tx,
            InboxBatch(ASKED.channel, ASKED.account, 1.0, {"offset": "6"}),
            [InboxEntry(chat_message("later", "3", event_id="1:2", message_id="2"))],
        )
        chats.add_group_context(tx, [chat_message("overheard", "4", event_id="1:3")])
        jobs.put(tx, Job(0, "c1", "reminder", ASKED, "telegram:1", "at 5", "UTC", due_at=5.0))
        step = ChangeStep(
            self.session, self.turn, "c1", "write_file", ROOT, (FileChange(ROOT, None, None),), 7.0
        )
        file_changes.add(tx, step)
        file_changes.begin(tx, UndoOperation("undo", self.session, "undo", ()), 7.0)
        file_changes.end(tx, UndoResult("undo", self.session, (), "undone"))
        audit_outbox.put_entry(tx, ENTRY, dumps(asdict(ENTRY)))
        api_answers.begin(tx, REQUEST, "api:one", 5.0)
        answer = ApiAnswer("token", "resp_1", 5.0, "key", answer={}, conversation=(user("hi"),))
        api_answers.keep(tx, answer, "api:one", 6.0)
        self._summarize()
        sessions.save_memory(tx, self.session, "MEMORY.md", "- a note")
        tx.run(
            "INSERT INTO transcript_line (session, n, i, message_count, line) VALUES (?, 1, 0, 1,"
            " ?)",
            (self.session, tx.seal("{}", "transcript_line.line", self.session, 1, 0)),
        )

    def _summarize(self) -> None:
        talk = [user("one"), assistant("two"), user("three")]
        sessions.append_messages(self.tx, self.session, None, talk, 1.0)
        window = windows.load(self.tx, self.session)
        shorter = CompactionResult(0, SplitPoint(3, 0), Summary("told"), 9, 8)
        assert windows.keep(self.tx, StoredSummary.of(self.session, window, shorter), 5.0)


def _part(scene: Scene) -> object:
    return outbox.head(scene.tx, ROUTE.lane, 9.0)


def _operation(scene: Scene) -> object:
    return file_changes.begin(scene.tx, UndoOperation("undo", "s", "undo", ()), 9.0).report


def _answer(scene: Scene) -> object:
    return api_answers.begin(scene.tx, REQUEST, "api:one", 7.0)


def _name(scene: Scene) -> object:
    return session_admin.name_of(scene.tx, scene.session)


# The product's reader of each column; it raises, or returns its result without the row.
READERS: dict[str, Callable[[Scene], object]] = {
    "message.content": lambda s: sessions.load_all(s.tx, s.session),
    "session.name": _name,
    "session.memory": lambda s: sessions.load_memory(s.tx, s.session),
    "session.file_views": lambda s: sessions.file_views_of(
        s.tx, sessions.load_row(s.tx, s.session)
    ),
    "session.folder": lambda s: session_folders.of_session(s.tx, s.session),
    "session.taint": lambda s: None if sessions.load_row(s.tx, s.session).mode == "ask" else READ,
    "transcript_line.line": lambda s: transcripts.lines(s.tx, s.session),
    "inbox.payload": lambda s: inbox.waiting_messages(s.tx, chat_message("x", "3").session_key),
    "group_context.text": lambda s: chats.take_group_context(
        s.tx, chat_message("x", "4").route.lane
    ),
    "outbox.body": _part,
    "outbox.entities": _part,
    "outbox.files": _part,
    "approval.question": lambda s: approvals.find(s.tx, "n1"),
    "permission_grant.title": lambda s: grants.list_grants(s.tx),
    "permission_grant.folder": lambda s: grants.list_grants(s.tx),
    "member.name": lambda s: members.members(s.tx),
    "pairing.name": lambda s: members.requests(s.tx, 2.0),
    "summary.content": lambda s: windows.load(s.tx, s.session),
    "task.definition": lambda s: subagent_tasks.get(s.tx, s.task),
    "task.title": lambda s: subagent_tasks.get(s.tx, s.task),
    "task.result": lambda s: subagent_tasks.get(s.tx, s.task),
    "goal.template": lambda s: goals.find(s.tx, s.session),
    "goal.remark": lambda s: goals.find(s.tx, s.session),
    "job.template": lambda s: jobs.find(s.tx, 1),
    "step.args": lambda s: s.tx.unseal(
        *stored.read(s.tx, "step", "args")[0], "step.args", s.turn, 1
    ),
    "step.result": lambda s: turns.known_results(s.tx, s.turn),
    "file_change.entry": lambda s: file_changes.steps(s.tx, s.session),
    "undo_operation.plan": _operation,
    "undo_operation.report": _operation,
    "audit_outbox.entry": lambda s: audit_outbox.waiting(s.tx, 9),
    "api_answer.request": _answer,
    "api_answer.answer": _answer,
    "api_answer.conversation": lambda s: api_answers.find(s.tx, "token", "resp_1", 7.0),
}
